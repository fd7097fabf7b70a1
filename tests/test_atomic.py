"""A file is the old one or the new one, whatever ends the writer."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ffnb_sklearn import load, save
from ffnb_sklearn._atomic import replaced_file
from ffnb_sklearn.saving import _files
from tests.saving.model_files import classifier

ROOT = Path(__file__).resolve().parents[1]


# A process of its own, because a fork after a threaded operation of torch may hang.
WRITERS = """
import sys
from pathlib import Path
from tests.campaigns.attack.models import kill_writers, save_together

folder = Path(sys.argv[1])
kill_writers(6, folder)
print(save_together(60, folder))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the writers are forked")
def test_killed_and_concurrent_writers_leave_the_old_file_or_the_new_one(tmp_path):
    command = [sys.executable, "-c", WRITERS, tmp_path]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, KeyboardInterrupt])
def test_failing_call_leaves_the_old_file(error, tmp_path, monkeypatch):
    path = tmp_path / "model.ffnb"
    save(classifier(bands__gamma=0.5), path)

    def fail(file, content, arrays):
        file.write(b"a part")
        raise error

    monkeypatch.setattr(_files, "write_container", fail)
    with pytest.raises(error):
        save(classifier(), path)
    assert load(path).bands.gamma == 0.5
    assert list(tmp_path.iterdir()) == [path]


def test_later_writer_wins(tmp_path):
    path = tmp_path / "file"
    with replaced_file(path) as first:
        first.write(b"first")
        with replaced_file(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with replaced_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


POSIX = pytest.mark.skipif(os.name == "nt", reason="permissions and files of POSIX")


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request):
    """Set a umask."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


@POSIX
@pytest.mark.parametrize("permissions", [None, 0o600, 0o640, 0o444])
def test_no_one_else_can_read_a_file_at_any_time(permissions, umask, tmp_path):
    path = tmp_path / "model"
    expected = 0o666 & ~umask
    if permissions is not None:
        path.write_bytes(b"old")
        path.chmod(permissions)
        expected = permissions
    with replaced_file(path) as file:
        file.write(b"new")
        (temporary,) = set(tmp_path.iterdir()) - {path}
        assert not mode(temporary) & ~expected
    assert path.read_bytes() == b"new"
    assert mode(path) == expected
    assert list(tmp_path.iterdir()) == [path]


def _socket(path):
    # The path of a socket can have about 100 characters.
    folder = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(folder)


@POSIX
@pytest.mark.parametrize(
    "make",
    [os.mkfifo, _socket, lambda path: path.symlink_to(os.devnull)],
    ids=["fifo", "socket", "device"],
)
def test_what_is_no_regular_file_is_not_replaced(make, tmp_path):
    path = tmp_path / "model.ffnb"
    make(path)
    before = path.lstat()
    with pytest.raises(OSError, match=r"(model.ffnb|null).*not a regular file"):
        save(classifier(), path)
    assert path.lstat() == before
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"folder of .*missing.model.* does not exist"),
        replaced_file(tmp_path / "missing/model"),
    ):
        pass
    with pytest.raises(OSError, match="not a regular file"), replaced_file(tmp_path):
        pass


def test_long_and_strange_names(tmp_path):
    for name in ("n" * 200, "[a]*?", "é" * 100):
        save(classifier(), tmp_path / name)
        save(classifier(), tmp_path / name)
    assert len(list(tmp_path.iterdir())) == 3
