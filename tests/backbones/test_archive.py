"""Every byte of an archive of torch.save is compared with another that says the same."""

import _codecs
import io
import zipfile
from unittest import mock

import pytest
import torch

from ffnb_sklearn.backbones._archive import check_archive, read_archive
from ffnb_sklearn.backbones._pickled import check_pickle
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


class Call:
    """A call at load time."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def saved(content):
    torch.save(content, file := io.BytesIO())
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        torch.nn.BatchNorm1d(3).state_dict(),
        dict(torch.nn.Linear(2, 1).named_parameters()),
        {"a": {1: [(1, 2.5, "x", None, True, {3}, 2j, torch.Size((3,)), torch.float32)]}},
        {"half": torch.ones(2, dtype=torch.bfloat16), "sparse": torch.eye(2).to_sparse()},
    ],
)
def test_tensors_and_plain_types_are_read(content):
    assert read_archive(saved(content), "refused").keys() == content.keys()


@pytest.mark.parametrize(
    "call",
    [
        Call(_codecs.encode, "é" * 9, "punycode"),
        Call(bytearray, 7),
        Call(torch.FloatTensor, 7),
        Call(torch.UntypedStorage, 7),
        Call(print),
    ],
    ids=["codec", "bytearray", "tensor", "storage", "function"],
)
def test_calls_that_take_any_memory_or_time_are_refused_before_they_run(call):
    content = saved({"weight": call})
    with mock.patch("torch.load") as load, pytest.raises(ValueError, match="refused") as caught:
        read_archive(content, "refused")
    assert not load.called
    assert "is not needed for tensors" in str(caught.value.__cause__)


def test_nested_tuples_are_refused_before_they_are_hashed():
    keyed = b"\x80\x02}(%sK\x01u."
    check_pickle(keyed % (b")" + b"\x85" * 99))
    for nested in (b")" + b"\x85" * 101, b")" + b"q\x00h\x00\x86" * 101, b"(" * 101 + b"t" * 101):
        with pytest.raises(ValueError, match="nested too deeply"):
            check_pickle(keyed % nested)


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
