"""Files of tensors are read if they are whole; nothing in them runs or takes much memory."""

import _codecs
import io
import json
import struct
import sys
import zipfile
from types import ModuleType
from unittest import mock

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor
from ffnb_sklearn.backbones._tensor_files import check_pickle, read_tensors
from tests.backbones.damaged_files import DAMAGED, with_bit_flipped

STATE = {
    "weight": torch.arange(60.0).reshape(2, 30),
    "bias": torch.tensor([0.5, -0.5]),
}
ROWS = np.random.default_rng(0).normal(size=(5, 30)).astype(np.float32)


def saved(content, **keywords):
    torch.save(content, file := io.BytesIO(), **keywords)
    return file.getvalue()


def legacy(content):
    """Return a file as torch before version 1.6 wrote it."""
    return saved(content, _use_new_zipfile_serialization=False)


def safetensors(state):
    """Return a file of safetensors."""
    header, data = {}, b""
    for name, tensor in state.items():
        part = tensor.numpy().tobytes()
        ends = [len(data), len(data) + len(part)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": ends}
        data += part
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def load_safetensors(content):
    """Read a file of safetensors in the place of that package, if it is not installed."""
    (size,) = struct.unpack_from("<Q", content)
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    found = {}
    for name, one in header.items():
        first, last = one["data_offsets"]
        found[name] = torch.frombuffer(bytearray(data[first:last]), dtype=torch.float32).reshape(
            one["shape"]
        )
    return found


@pytest.fixture(autouse=True)
def safetensors_is_installed(monkeypatch):
    try:
        import safetensors.torch  # noqa: F401
    except ImportError:
        module = ModuleType("safetensors.torch")
        module.load = load_safetensors
        monkeypatch.setitem(sys.modules, "safetensors", ModuleType("safetensors"))
        monkeypatch.setitem(sys.modules, "safetensors.torch", module)


FORMS = {"torch": saved, "torch before 1.6": legacy, "safetensors": safetensors}


# ---- weights in each form


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("prefix", ["", "module."])
def test_weights_of_each_form(form, prefix, tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(FORMS[form]({prefix + key: value for key, value in STATE.items()}))
    params = {"in_features": 30, "out_features": 2}
    extractor = TorchFeatureExtractor("torch.nn:Linear", backbone_params=params, weights=path)
    if prefix:
        with pytest.warns(UserWarning, match=r"The prefix 'module\.' of all keys of weights was"):
            features = extractor.fit_transform(ROWS)
    else:
        features = extractor.fit_transform(ROWS)
    expected = nn.functional.linear(torch.from_numpy(ROWS), STATE["weight"], STATE["bias"])
    assert_array_equal(features, expected)


@pytest.mark.parametrize("form", FORMS)
def test_damaged_weights_are_refused(form, tmp_path):
    whole, path = FORMS[form](STATE), tmp_path / "weights.bin"
    cut = {f"without {n} bytes": whole[:-n] for n in (1, 5, 100)}
    damaged = {name: change(whole) for name, change in DAMAGED.items()}
    for content in (*cut.values(), *damaged.values()):
        path.write_bytes(content)
        extractor = TorchFeatureExtractor(lambda: nn.Linear(30, 2), weights=path)
        with pytest.raises(
            ValueError, match=r"weights='.*weights\.bin' must be a state dict, a fi"
        ):
            extractor.fit(ROWS)
        assert not hasattr(extractor, "state_dict_")


def test_safetensors_is_needed_for_its_files_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.delitem(sys.modules, "safetensors.torch", raising=False)
    assert read_tensors(saved(STATE), "refused").keys() == STATE.keys()
    with pytest.raises(ImportError, match="install it: python -m pip install safetensors"):
        read_tensors(safetensors(STATE), "refused")


@pytest.mark.parametrize("save", [saved, legacy])
@pytest.mark.parametrize(
    "content",
    [
        nn.BatchNorm1d(3).state_dict(),
        dict(nn.Linear(2, 1).named_parameters()),
        {"a": {1: [(1, 2.5, "x", None, True, {3}, 2j, torch.Size((3,)), torch.float32)]}},
        {"half": torch.ones(2, dtype=torch.bfloat16), "sparse": torch.eye(2).to_sparse()},
        {f"layer {i}": torch.ones(i) for i in range(300)},
    ],
)
def test_tensors_and_plain_types_are_read(content, save):
    assert read_tensors(save(content), "refused").keys() == content.keys()


# ---- damage that checksums show


@pytest.fixture(scope="module")
def archive():
    """Return the bytes of a state dict."""
    return saved({"weight": torch.arange(6.0), "steps": torch.tensor(3), "empty": torch.ones(0)})


def test_a_flipped_bit_changes_no_tensor(archive):
    expected = read_tensors(archive, "refused")
    n_refused = 0
    # The directory at the end says where the bytes of each tensor are.
    directory = archive.index(b"PK\1\2")
    flips = [(position, position % 8) for position in range(0, directory, 3)]
    flips += [(position, bit) for position in range(directory, len(archive)) for bit in (0, 4, 7)]
    for position, bit in flips:
        try:
            found = read_tensors(with_bit_flipped(archive, position, bit), "refused")
        except ValueError:
            n_refused += 1
            continue
        assert list(found) == list(expected)
        assert all(torch.equal(found[name], one) for name, one in expected.items())
    assert n_refused > len(flips) // 3


@pytest.mark.parametrize("n_bytes", [-1000, -100, -30, -4, -1])
@pytest.mark.parametrize("save", [saved, legacy])
def test_shorter_files_are_refused(n_bytes, save):
    with pytest.raises(ValueError, match="refused"):
        read_tensors(save(STATE)[:n_bytes], "refused")


@pytest.mark.parametrize("more", [b"\0", b"PK"])
def test_longer_files_of_old_versions_are_refused(more):
    with pytest.raises(ValueError, match="refused"):
        read_tensors(legacy(STATE) + more, "refused")


def test_compressed_archives_are_refused(archive):
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(archive)) as old,
        zipfile.ZipFile(file, "w", compression=zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(ValueError, match="refused") as caught:
        read_tensors(file.getvalue(), "refused")
    assert "compressed" in str(caught.value.__cause__)


# ---- forged pickles


class Call:
    """A call at load time."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("save", [saved, legacy])
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
def test_calls_that_take_any_memory_or_time_are_refused_before_they_run(call, save):
    content = save({"weight": call})
    with mock.patch("torch.load") as load, pytest.raises(ValueError, match="refused") as caught:
        read_tensors(content, "refused")
    assert not load.called
    assert "is not needed for tensors" in str(caught.value.__cause__)


def test_storages_larger_than_the_file_are_refused_before_they_are_made():
    content = legacy({"weight": torch.ones(6), "other": torch.ones(3)})
    number = struct.pack("<I", 2**31 - 1)
    # The number of values is 6, an integer of one byte, after the name of the device.
    marked = b"cpuq"
    position = content.index(b"K\x06", content.index(marked))
    forged = content[:position] + b"J" + number + content[position + 2 :]
    with mock.patch("torch.load") as load, pytest.raises(ValueError, match="refused") as caught:
        read_tensors(forged, "refused")
    assert not load.called
    assert "storages are too large" in str(caught.value.__cause__)


def test_nested_tuples_are_refused_before_they_are_hashed():
    keyed = b"\x80\x02}(%sK\x01u."
    check_pickle(io.BytesIO(keyed % (b")" + b"\x85" * 99)), 10)
    for nested in (b")" + b"\x85" * 101, b")" + b"q\x00h\x00\x86" * 101, b"(" * 101 + b"t" * 101):
        with pytest.raises(ValueError, match="nested too deeply"):
            check_pickle(io.BytesIO(keyed % nested), 10)
