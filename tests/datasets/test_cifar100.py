import hashlib
import pickle
import re
import struct

import numpy as np
import pytest

from ffnb_sklearn.datasets import _cifar100, load_cifar100


class Python2Pickler(pickle._Pickler):
    """Write byte strings by the opcode of Python 2, which the released files use."""

    def save_string(self, obj):
        content = obj.encode() if isinstance(obj, str) else obj
        self.write(pickle.BINSTRING + struct.pack("<i", len(content)) + content)
        self.memoize(obj)

    dispatch = pickle._Pickler.dispatch | {bytes: save_string, str: save_string}


def write(path, content):
    """Pickle as the release does: protocol 2, Python 2 strings, NumPy's module of that time."""
    with path.open("wb") as file:
        Python2Pickler(file, protocol=2).dump(content)
    stream = path.read_bytes().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")
    # The flags of a type were integers, of which some releases of NumPy warn.
    path.write_bytes(re.sub(rb"(u1q.)\x89\x88", b"\\1K\x00K\x01", stream))


def part(images, labels):
    return {
        "filenames": [f"image_{i}.png" for i in range(len(labels))],
        "batch_label": "batch 1 of 1",
        "fine_labels": labels,
        "coarse_labels": [label // 5 for label in labels],
        "data": images,
    }


@pytest.fixture
def contents():
    images = np.random.default_rng(0).integers(256, size=(8, 3072), dtype=np.uint8)
    return {
        "train": part(images[:5], [0, 99, 3, 7, 7]),
        "test": part(images[5:], [1, 50, 99]),
        "meta": {
            "fine_label_names": [f"class_{i}" for i in range(100)],
            "coarse_label_names": [f"group_{i}" for i in range(20)],
        },
    }


@pytest.fixture
def folder(tmp_path, contents, monkeypatch):
    """Small files that take the place of the official files."""
    for name, content in contents.items():
        write(tmp_path / name, content)
        digest = hashlib.md5((tmp_path / name).read_bytes()).hexdigest()
        monkeypatch.setitem(_cifar100.DIGESTS, name, digest)
    return tmp_path


@pytest.mark.parametrize("nested", [False, True])
def test_reads_the_three_files(folder, contents, nested):
    if nested:
        (folder / "cifar-100-python").mkdir()
        for name in contents:
            (folder / name).rename(folder / "cifar-100-python" / name)
    else:
        stream = (folder / "train").read_bytes()
        assert b"cnumpy.core.multiarray\n_reconstruct" in stream
        assert re.search(rb"u1q.K\x00K\x01", stream)
    bunch = load_cifar100(folder)
    train, test = contents["train"], contents["test"]
    np.testing.assert_array_equal(bunch.data, np.concatenate([train["data"], test["data"]]))
    assert bunch.data.dtype == np.uint8
    assert bunch.target.tolist() == [0, 99, 3, 7, 7, 1, 50, 99]
    assert bunch.superclass.tolist() == [0, 19, 0, 1, 1, 0, 10, 19]
    assert bunch.train.tolist() == [True] * 5 + [False] * 3
    assert bunch.target_names == contents["meta"]["fine_label_names"]
    assert bunch.superclass_names == contents["meta"]["coarse_label_names"]
    assert "Krizhevsky" in bunch.DESCR
    assert "Licence" in bunch.DESCR


@pytest.mark.parametrize("name", ["train", "test", "meta"])
def test_missing_and_changed_files(folder, name):
    path = folder / name
    stream = path.read_bytes()
    for changed in (b"", stream[:-1], stream[:40] + b"x" + stream[41:]):
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"not the official file .* MD5") as error:
            load_cifar100(folder)
        assert str(error.value).startswith(f"{path}: ")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=f"{name}: no such file"):
        load_cifar100(folder)


class Payload:
    """A call at load time, which a tampered file may hold."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


def test_a_tampered_file_runs_nothing(folder):
    marker = folder / "marker"
    (folder / "meta").write_bytes(pickle.dumps(Payload(marker), protocol=2))
    with pytest.raises(ValueError, match="meta: not the official file"):
        load_cifar100(folder)
    assert not marker.exists()
