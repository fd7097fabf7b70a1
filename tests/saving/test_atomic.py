"""A file is the old one or the new one, whatever ends the writer; temporary files are removed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ffnb_sklearn import load, save
from ffnb_sklearn._atomic import replaced_file
from ffnb_sklearn.saving import _files
from tests.saving.model_files import classifier

ROOT = Path(__file__).resolve().parents[2]
LEFTOVER = ".model.ffnb.0123456789abcdef.partial"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the writers are forked")
def test_killed_writers_leave_the_old_file_or_the_new_one():
    command = [sys.executable, "-m", "tests.attack", "--kills", "20", "--files", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("none lost") == 2


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, KeyboardInterrupt])
def test_failing_call_leaves_the_old_file(error, tmp_path, monkeypatch):
    path = tmp_path / "model.ffnb"
    save(classifier(gamma=0.5), path)

    def fail(file, content, arrays):
        file.write(b"a part")
        raise error

    monkeypatch.setattr(_files, "write_container", fail)
    with pytest.raises(error):
        save(classifier(), path)
    assert load(path).gamma == 0.5
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_are_removed_and_nothing_else(tmp_path):
    others = [".model.ffnb.partial", ".other.ffnb.0123456789abcdef.partial", "model.ffnb.1.partial"]
    for name in (LEFTOVER, *others):
        (tmp_path / name).write_bytes(b"a part")
    save(classifier(), tmp_path / "model.ffnb")
    assert {one.name for one in tmp_path.iterdir()} == {"model.ffnb", *others}


def test_file_of_a_living_writer_stays(tmp_path):
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


@pytest.mark.skipif(os.name == "nt", reason="the permissions of POSIX")
def test_a_private_file_stays_private(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with replaced_file(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_places_that_cannot_be_written(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"its folder does not exist.*missing.model"),
        replaced_file(tmp_path / "missing/model"),
    ):
        pass
    with pytest.raises(IsADirectoryError, match="it is a folder"), replaced_file(tmp_path):
        pass


def test_long_and_strange_names(tmp_path):
    for name in ("n" * 200, "[a]*?", "é" * 100):
        save(classifier(), tmp_path / name)
        save(classifier(), tmp_path / name)
    assert len(list(tmp_path.iterdir())) == 3
