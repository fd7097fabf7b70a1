"""Every byte of an archive of torch.save is compared with another that says the same."""

import io
import zipfile

import pytest
import torch

from ffnb_sklearn.backbones._archive import check_archive
from tests.backbones.damaged_files import with_bit_flipped


@pytest.fixture(scope="module")
def archive():
    """Return the bytes of a state dict."""
    file = io.BytesIO()
    torch.save(
        {"weight": torch.arange(6.0), "steps": torch.tensor(3), "empty": torch.ones(0)}, file
    )
    return file.getvalue()


def rewritten(content, **keywords):
    """Return an archive of the same members that Python has written."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(file, "w", **keywords) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return file.getvalue()


def test_archives_of_torch_pass(archive, tmp_path):
    check_archive(archive)
    for content in ({}, [torch.ones(10**5)], {f"layer {i}": torch.ones(i) for i in range(300)}):
        torch.save(content, tmp_path / "weights é.pt")
        check_archive((tmp_path / "weights é.pt").read_bytes())


def test_every_flipped_bit_is_noticed(archive):
    for position in range(len(archive)):
        for bit in (0, 5) if position % 3 else range(8):
            with pytest.raises(ValueError):
                check_archive(with_bit_flipped(archive, position, bit))


@pytest.mark.parametrize("n_bytes", [-1000, -100, -30, -4, -1])
def test_shorter_archives_are_refused(archive, n_bytes):
    with pytest.raises(ValueError):
        check_archive(archive[:n_bytes])


@pytest.mark.parametrize("more", [b"\0", b"PK"])
def test_longer_archives_are_refused(archive, more):
    for content in (archive + more, more + archive):
        with pytest.raises(ValueError):
            check_archive(content)


def test_archives_of_other_programs_are_refused(archive):
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with pytest.raises(ValueError):
            check_archive(rewritten(archive, compression=method))
    torch.save({}, file := io.BytesIO(), _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match="no archive"):
        check_archive(file.getvalue())
