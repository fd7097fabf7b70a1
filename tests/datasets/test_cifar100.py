import pickle
import struct

import numpy as np
import pytest

from ffnb_sklearn.datasets import load_cifar100


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
    path.write_bytes(stream)


def part(n_images, seed):
    rng = np.random.default_rng(seed)
    return {
        "filenames": [f"image_{i}.png" for i in range(n_images)],
        "batch_label": "batch 1 of 1",
        "fine_labels": rng.integers(100, size=n_images).tolist(),
        "coarse_labels": rng.integers(20, size=n_images).tolist(),
        "data": rng.integers(256, size=(n_images, 3072), dtype=np.uint8),
    }


@pytest.fixture
def contents():
    meta = {
        "fine_label_names": [f"class_{i}" for i in range(100)],
        "coarse_label_names": [f"group_{i}" for i in range(20)],
    }
    return {"train": part(5, 0), "test": part(3, 1), "meta": meta}


def write_all(folder, contents):
    for name, content in contents.items():
        write(folder / name, content)
    return folder


@pytest.mark.parametrize("nested", [False, True])
def test_reads_the_three_files(tmp_path, contents, nested):
    folder = tmp_path / "cifar-100-python" if nested else tmp_path
    folder.mkdir(exist_ok=True)
    write_all(folder, contents)
    stream = (folder / "train").read_bytes()
    assert b"cnumpy.core.multiarray\n_reconstruct" in stream
    bunch = load_cifar100(tmp_path)
    train, test = contents["train"], contents["test"]
    np.testing.assert_array_equal(bunch.data, np.concatenate([train["data"], test["data"]]))
    assert bunch.data.dtype == np.uint8
    assert bunch.target.tolist() == train["fine_labels"] + test["fine_labels"]
    assert bunch.superclass.tolist() == train["coarse_labels"] + test["coarse_labels"]
    assert bunch.train.tolist() == [True] * 5 + [False] * 3
    assert bunch.target_names == contents["meta"]["fine_label_names"]
    assert bunch.superclass_names == contents["meta"]["coarse_label_names"]
    assert "Krizhevsky" in bunch.DESCR
    assert "Licence" in bunch.DESCR


def test_array_rebuilt_under_the_new_module_name(tmp_path, contents):
    write_all(tmp_path, contents)
    path = tmp_path / "train"
    stream = path.read_bytes()
    path.write_bytes(stream.replace(b"cnumpy.core.multiarray\n", b"cnumpy._core.multiarray\n"))
    assert load_cifar100(tmp_path).train.sum() == 5


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_files_saved_again(tmp_path, contents, protocol, as_bytes):
    for name, content in contents.items():
        entries = {key.encode() if as_bytes else key: value for key, value in content.items()}
        (tmp_path / name).write_bytes(pickle.dumps(entries, protocol=protocol))
    bunch = load_cifar100(tmp_path)
    parts = [contents[name]["data"] for name in ("train", "test")]
    np.testing.assert_array_equal(bunch.data, np.concatenate(parts))
    assert bunch.target_names == contents["meta"]["fine_label_names"]


@pytest.mark.parametrize("name", ["train", "test", "meta"])
def test_missing_and_cut_files(tmp_path, contents, name):
    path = write_all(tmp_path, contents) / name
    stream = path.read_bytes()
    for damaged in (b"", stream[:40], stream[: len(stream) // 2], stream[:-1], b"\x00" * 9):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="not a CIFAR-100 pickle, or cut short") as error:
            load_cifar100(tmp_path)
        assert str(error.value).startswith(f"{path}: ")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=f"{name}: no such file"):
        load_cifar100(tmp_path)


class Payload:
    """What a tampered file may hold: a call at load time."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


def test_a_tampered_file_runs_nothing(tmp_path, contents):
    marker = tmp_path / "marker"
    write_all(tmp_path, contents)
    (tmp_path / "test").write_bytes(pickle.dumps(Payload(marker), protocol=2))
    with pytest.raises(ValueError, match=r"test: .*open is not allowed in this file"):
        load_cifar100(tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("file", "key", "value", "message"),
    [
        ("train", "data", None, "train: entry 'data' must be an array of uint8"),
        ("train", "data", np.zeros((5, 3072)), "train: entry 'data' must be an array of uint8"),
        (
            "test",
            "data",
            np.zeros((3, 3071), np.uint8),
            r"test: entry 'data' must have shape \(n_images, 3072\) and .* got \(3, 3071\)",
        ),
        ("test", "data", np.zeros(3, np.uint8), r"n_images, 3072\) .* got \(3\)"),
        ("train", "fine_labels", [0] * 4, "'fine_labels' must be a list of 5 labels"),
        ("train", "fine_labels", "aaaaa", "'fine_labels' must be a list of 5 labels"),
        ("train", "fine_labels", [0, 0, 100, 0, 0], "'fine_labels', item 2: .* 0 to 99, got 100"),
        ("test", "coarse_labels", [0, -1, 0], "'coarse_labels', item 1: .* 0 to 19, got -1"),
        ("test", "coarse_labels", [0, 0, 1.5], "'coarse_labels', item 2: .* got 1.5"),
        ("meta", "fine_label_names", ["a"] * 99, "'fine_label_names' must be a list of 100 names"),
        ("meta", "coarse_label_names", [1] * 20, "'coarse_label_names' must be a list of 20"),
    ],
)
def test_wrong_entries(tmp_path, contents, file, key, value, message):
    contents[file][key] = value
    write_all(tmp_path, contents)
    with pytest.raises(ValueError, match=message):
        load_cifar100(tmp_path)


@pytest.mark.parametrize(
    ("file", "key"),
    [("train", "data"), ("test", "fine_labels"), ("meta", "coarse_label_names")],
)
def test_missing_entries(tmp_path, contents, file, key):
    del contents[file][key]
    write_all(tmp_path, contents)
    with pytest.raises(ValueError, match=f"{file}: the entry '{key}' is missing"):
        load_cifar100(tmp_path)


def test_a_pickle_of_something_else(tmp_path, contents):
    contents["train"] = [1, 2]
    write_all(tmp_path, contents)
    with pytest.raises(ValueError, match="train: expected a dictionary, got list"):
        load_cifar100(tmp_path)


def test_real_images_read_back(shared_data, tmp_path, contents):
    sample = np.load(shared_data / "cifar100_images.npz")
    images, labels = sample["x_test"][:200], sample["y_test"][:200]
    rows = images.transpose(0, 3, 1, 2).reshape(200, 3072)
    contents["test"] |= {
        "data": np.ascontiguousarray(rows),
        "fine_labels": labels.tolist(),
        "coarse_labels": [0] * 200,
    }
    contents["meta"]["fine_label_names"] = sample["class_names"].tolist()
    bunch = load_cifar100(write_all(tmp_path, contents))
    read = bunch.data[~bunch.train].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(read, images)
    assert [bunch.target_names[i] for i in bunch.target[-3:]] == [
        str(sample["class_names"][i]) for i in labels[-3:]
    ]
