"""Files of tensors are read if they are whole, and nothing in them runs."""

import io
import json
import os
import pickle
import re
import socket
import struct
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor
from ffnb_sklearn.backbones._network import _read_file
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


@pytest.fixture
def read(tmp_path):
    """Return a function that reads the bytes of a file of weights."""

    def read_bytes(content):
        path = tmp_path / "weights.bin"
        path.write_bytes(content)
        return _read_file(path)

    return read_bytes


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


def test_safetensors_is_needed_for_its_files_alone(monkeypatch, read):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.delitem(sys.modules, "safetensors.torch", raising=False)
    assert read(saved(STATE)).keys() == STATE.keys()
    with pytest.raises(ImportError, match="install it: python -m pip install safetensors"):
        read(safetensors(STATE))


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
def test_tensors_and_plain_types_are_read(content, save, read):
    assert read(save(content)).keys() == content.keys()


# ---- keys that a file lacks, or has in addition


class Tied(nn.Module):
    """A network in which an embedding and the linear layers at its ends share a tensor."""

    def __init__(self):
        super().__init__()
        self.before = nn.Linear(30, 30)
        self.after = nn.Linear(30, 30)
        self.head = nn.Linear(30, 30)
        self.after.weight = self.before.weight
        self.head.weight = self.before.weight

    def forward(self, rows):
        return self.head(self.after(self.before(rows)))


TIED = {
    "before.weight": torch.linspace(-1, 1, 900).reshape(30, 30),
    "before.bias": torch.linspace(0, 1, 30),
    "after.bias": torch.linspace(1, 2, 30),
    "head.bias": torch.linspace(2, 3, 30),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kept", ["before", "after", "head"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_files_that_hold_a_tied_tensor_once(form, kept, dtype, tmp_path):
    state = {key: value for key, value in TIED.items() if key != "before.weight"}
    state[f"{kept}.weight"] = TIED["before.weight"]
    path = tmp_path / "weights.bin"
    path.write_bytes(FORMS[form](state))
    network = Tied().to(getattr(torch, dtype))
    network.load_state_dict(TIED, strict=False)
    rows = torch.from_numpy(ROWS.astype(dtype))
    whole = TorchFeatureExtractor(Tied, weights=path, dtype=dtype).fit_transform(rows)
    assert_allclose(whole, network(rows).detach(), rtol=1e-6)
    headless = TorchFeatureExtractor(Tied, weights=path, dtype=dtype, head="head")
    features = headless.fit_transform(rows)
    assert_allclose(features, network.after(network.before(rows)).detach(), rtol=1e-6)
    assert_array_equal(pickle.loads(pickle.dumps(headless)).transform(rows), features)


def test_a_missing_tensor_that_is_not_tied_is_an_error():
    state = {key: value for key, value in TIED.items() if key != "after.bias"}
    with pytest.raises(ValueError, match=r"weights do not fit the backbone: .*after\.bias"):
        TorchFeatureExtractor(Tied, weights=state).fit(ROWS)


@pytest.mark.parametrize("head", [["head", "other.0"], ("other.0", "head")])
def test_several_classifiers_are_removed(head):
    network = Tied()
    network.other = nn.ModuleList([nn.Linear(30, 4)])
    state = network.state_dict()
    extractor = TorchFeatureExtractor(network, weights=state, head=head).fit(ROWS)
    assert set(extractor.state_dict_) == {
        *("before.weight", "before.bias", "after.weight", "after.bias")
    }
    with pytest.raises(ValueError, match=r"head must name a submodule .*; got 'nowhere'"):
        clone(extractor).set_params(head=["head", "nowhere"]).fit(ROWS)


# ---- what is no file


def pipe(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def socket_file(folder):
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return path


def link_to_device(folder):
    path = folder / "link.safetensors"
    path.symlink_to("/dev/zero")
    return path


IRREGULAR = {
    "a pipe": pipe,
    "a socket": socket_file,
    "a folder": lambda folder: folder,
    "a device": link_to_device,
}


@pytest.fixture(params=IRREGULAR)
def irregular(request):
    """Return the kind of something that is no file, and its path."""
    if sys.platform == "win32" and request.param != "a folder":
        pytest.skip("Windows has no such paths")
    # A socket needs a short path.
    with TemporaryDirectory() as folder:
        yield request.param, IRREGULAR[request.param](Path(folder))


@pytest.mark.parametrize("epochs", [0, 1])
@pytest.mark.parametrize("form", [str, Path])
def test_weights_must_be_a_regular_file(irregular, epochs, form):
    kind, path = irregular
    parameters = {"in_features": 30, "out_features": 2}
    extractor = TorchFeatureExtractor(
        nn.Linear, backbone_params=parameters, weights=form(path), epochs=epochs
    )
    message = f"weights='{re.escape(str(path))}' must be a regular file; it is {kind}"
    for call in (extractor.fit, extractor.fit_transform):
        with pytest.raises(ValueError, match=message):
            call(ROWS, np.arange(5) % 2)
    assert not hasattr(extractor, "state_dict_")


def test_missing_weights_are_named(tmp_path):
    extractor = TorchFeatureExtractor(lambda: nn.Linear(30, 2), weights=tmp_path / "missing.pt")
    with pytest.raises(FileNotFoundError, match=r"missing\.pt"):
        extractor.fit(ROWS)


def test_a_state_opens_no_file(irregular, tmp_path):
    (tmp_path / "weights.pt").write_bytes(saved(STATE))
    extractor = TorchFeatureExtractor(lambda: nn.Linear(30, 2), weights=STATE).fit(ROWS)
    del extractor._built
    for state in (tmp_path / "weights.pt", str(irregular[1]), str(tmp_path / "weights.pt")):
        extractor.state_dict_ = state
        with pytest.raises(ValueError, match="state_dict_ must be a mapping of names to arrays"):
            extractor.transform(ROWS)


# ---- damage that checksums show


@pytest.fixture(scope="module")
def archive():
    """Return the bytes of a state dict."""
    return saved({"weight": torch.arange(6.0), "steps": torch.tensor(3), "empty": torch.ones(0)})


def test_a_flipped_bit_changes_no_tensor(archive, read):
    expected = read(archive)
    n_refused = 0
    # The directory at the end says where the bytes of each tensor are.
    directory = archive.index(b"PK\1\2")
    flips = [(position, position % 8) for position in range(0, directory, 5)]
    flips += [(position, bit) for position in range(directory, len(archive)) for bit in (0, 4, 7)]
    for position, bit in flips:
        try:
            found = read(with_bit_flipped(archive, position, bit))
        except ValueError:
            n_refused += 1
            continue
        assert list(found) == list(expected)
        assert all(torch.equal(found[name], one) for name, one in expected.items())
    assert n_refused > len(flips) // 3


@pytest.mark.parametrize("n_bytes", [-1000, -100, -30, -4, -1])
@pytest.mark.parametrize("save", [saved, legacy])
def test_shorter_files_are_refused(n_bytes, save, read):
    with pytest.raises(ValueError, match="it is damaged, or something else"):
        read(save(STATE)[:n_bytes])
