"""Damaged and forged files of weights and checkpoints, and processes killed while they write."""

import hashlib
import io
import zipfile
from functools import partial

import numpy as np
import torch
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor
from ffnb_sklearn.backbones._checkpoint import _MARK, read_checkpoint, write_checkpoint
from tests.campaigns.attack.models import DAMAGES, damaged, flipped, kill_repeatedly
from tests.saving.model_files import places, put

ROWS = np.random.default_rng(0).normal(size=(12, 3))
LABELS = np.arange(12) % 2

# Values that are put into forged files; None removes a value.
STRANGE = [
    *(None, True, -1, 0, 1, 2**40, 10**30, -0.5, 0.5, 1e308, float("nan"), float("inf")),
    *("", "x" * 10**5, b"", [], [[]], [None], {}, {"a": 0}, (), set()),
    *(torch.ones(()), torch.ones(0), torch.ones(3), torch.full((2, 3), torch.nan)),
    *(torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.bfloat16)),
    *(torch.ones(2, 3, dtype=torch.complex64), torch.eye(3).to_sparse(), torch.ones(3, 2).T),
    torch.ones(1).expand(2**40),
]


def network(n_inputs=3):
    """Return a small network of two layers."""
    return nn.Sequential(nn.Linear(n_inputs, 2), nn.Tanh(), nn.Linear(2, 2))


def with_weights(path):
    """Fit an extractor to a file of weights."""
    return TorchFeatureExtractor(network, weights=path, device="cpu").fit(ROWS)


def trained(path, **parameters):
    """Fit an extractor with a checkpoint."""
    values = {"epochs": 2, "validation_fraction": 0.3, "random_state": 0, "device": "cpu"}
    extractor = TorchFeatureExtractor(network, checkpoint=path, **{**values, **parameters})
    return extractor.fit(ROWS, LABELS)


# Trainings whose checkpoints differ in their parts.
TRAININGS = [{}, {"optimizer": "sgd"}, {"validation_fraction": 0.0, "random_state": None}]


def archive_of(content):
    """Return the bytes that torch writes."""
    torch.save(content, file := io.BytesIO())
    return file.getvalue()


def with_records(content, change):
    """Return an archive in the layout of torch, with the changed bytes of each member."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        records = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    writer = torch._C.PyTorchFileWriter(file := io.BytesIO())
    for name, data in change(records).items():
        # Torch writes these two members by itself.
        if name not in ("version", ".data/serialization_id"):
            writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    return file.getvalue()


def with_pickle_changed(content, rng):
    """Return an archive with other bytes in its pickle, check sums and all."""
    damage = rng.choice([name for name in DAMAGES if name != "swapped"])

    def change(records):
        return {**records, "data.pkl": DAMAGES[damage](records["data.pkl"], rng)}

    return with_records(content, change)


def with_data_changed(content, rng):
    """Return an archive in which a tensor has other bytes, or fewer, or none."""

    def change(records):
        name = rng.choice([name for name in records if name.startswith("data/")])
        kinds = [flipped(records[name], rng), records[name][:-1], b""]
        return {**records, name: kinds[rng.integers(3)]}

    return with_records(content, change)


def with_value_changed(tree, rng):
    """Return an archive of a tree in which one value is strange, or gone."""
    everywhere = [path for path in places(tree) if path]
    path = everywhere[rng.integers(len(everywhere))]
    return archive_of(put(tree, path, STRANGE[rng.integers(len(STRANGE))]))


def signed(content):
    """Return the bytes of a checkpoint with the digest that belongs to them."""
    return content + _MARK + hashlib.sha256(content + _MARK).digest()


def is_refused(read, content, path):
    """Whether the documented error is raised, with a short message; other errors are not caught."""
    path.write_bytes(content)
    try:
        read(path)
    except ValueError as error:
        message = str(error)
    else:
        return False
    assert len(message) < 1000 + 2 * len(str(path))
    return True


def count_damaged(n_files, folder):
    """Return how many damaged files of weights and checkpoints are accepted."""
    path = folder / "damaged.pt"
    path.unlink(missing_ok=True)
    trained(path)
    originals = [(with_weights, archive_of(network().state_dict())), (trained, path.read_bytes())]
    n_accepted = 0
    for number in range(n_files):
        read, original = originals[number % 2]
        damage = list(DAMAGES)[number // 2 % len(DAMAGES)]
        try:
            content = damaged(original, damage, number)
        except zipfile.BadZipFile:
            content = original + b"x"
        n_accepted += not is_refused(read, content, path)
    return n_accepted


def count_forged(n_files, folder):
    """Return how many forged files, check sums and all, hold weights or a training."""
    path = folder / "forged.pt"
    weights = dict(network().state_dict())
    forgeries = [with_value_changed, with_pickle_changed, with_data_changed]
    checkpoints = []
    for parameters in TRAININGS:
        path.unlink(missing_ok=True)
        trained(path, **parameters)
        checkpoints.append(read_checkpoint(path))
    n_accepted = 0
    for number in range(n_files):
        rng = np.random.default_rng(number)
        forge = forgeries[number // 2 % 3]
        chosen = number // 6 % len(TRAININGS)
        tree = checkpoints[chosen] if number % 2 else weights
        content = forge(tree if forge is with_value_changed else archive_of(tree), rng)
        if number % 2:
            read = partial(trained, **TRAININGS[chosen])
            n_accepted += not is_refused(read, signed(content), path)
        else:
            n_accepted += not is_refused(with_weights, content, path)
    return n_accepted


def kill_writers(n_kills, folder):
    """Kill processes that write checkpoints; return how many were killed while they wrote."""
    path = folder / "run.pt"
    settings = [{"random_state": number} for number in range(2)]
    states = [{"weights": torch.full((20000,), float(number))} for number in range(2)]

    def write(number):
        write_checkpoint(path, settings[number], states[number])

    def check():
        found = read_checkpoint(path)
        number = found["settings"]["random_state"]
        assert torch.equal(found["state"]["weights"], states[number]["weights"])

    return kill_repeatedly(write, check, path, n_kills)
