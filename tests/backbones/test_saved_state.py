"""A checkpoint whose content was exchanged, digest and all, raises ValueError."""

import numpy as np
import pytest
import torch

from ffnb_sklearn.backbones._checkpoint import read_checkpoint, write_checkpoint
from tests.campaigns.attack.weights import TRAININGS, trained
from tests.saving.model_files import places, put

PATHS = {
    "adamw": [
        ("weights",),
        ("weights", "head.bias"),
        ("optimizer", 0),
        ("optimizer", 0, "step"),
        ("optimizer", 1, "exp_avg"),
        ("history",),
        ("history", "train_loss"),
        ("history", "validation_accuracy"),
        ("best",),
        ("best", "weights"),
        ("best", "weights", "0.bias"),
        ("best", "n_epochs"),
        ("best", "accuracy"),
        ("best", "loss"),
    ],
    "sgd": [("optimizer", 0, "momentum_buffer"), ("optimizer", 3)],
}
WRONG = [None, 0, 10**30, "x", [], {}, [[0.5]], {"a": 1}, torch.ones(7), torch.ones(2).to_sparse()]


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """Return the checkpoints of finished trainings by optimizer."""
    found = {}
    for parameters in TRAININGS[:2]:
        path = tmp_path_factory.mktemp("trained") / "run.pt"
        trained(path, **parameters)
        found[parameters.get("optimizer", "adamw")] = read_checkpoint(path)
    return found


def check_refused(path, content, optimizer):
    write_checkpoint(path, content["settings"], content["state"])
    with pytest.raises(ValueError, match=r"run.pt' does not fit the training: .* Remove it"):
        trained(path, optimizer=optimizer)


@pytest.mark.parametrize(
    ("optimizer", "path"), [(name, path) for name, paths in PATHS.items() for path in paths]
)
def test_a_part_of_another_kind_is_refused(states, tmp_path, optimizer, path):
    for value in WRONG:
        # Plain SGD has no buffers, and a parameter without a gradient has nothing.
        if value is None and path[0] == "optimizer" and len(path) == 2:
            continue
        if path == ("best", "n_epochs") and isinstance(value, int):
            continue
        content = put(states[optimizer], ("state", *path), value)
        check_refused(tmp_path / "run.pt", content, optimizer)


def test_a_part_that_is_unknown_is_refused(states, tmp_path):
    state = states["adamw"]["state"]
    for path in places(state):
        if path and isinstance(path[-1], str):
            content = put(states["adamw"], ("state", *path[:-1], "another"), torch.ones(2))
            check_refused(tmp_path / "run.pt", content, "adamw")


@pytest.mark.parametrize("value", [torch.tensor(-1.0), torch.tensor(0.5), torch.tensor(torch.nan)])
def test_a_number_of_steps_that_no_training_has_is_refused(states, tmp_path, value):
    content = put(states["adamw"], ("state", "optimizer", 0, "step"), value)
    check_refused(tmp_path / "run.pt", content, "adamw")


@pytest.mark.parametrize("path", [("history", "train_loss", 0), ("best", "n_epochs")])
def test_a_number_of_another_type_is_refused(states, tmp_path, path):
    for value in (True, "x", 10**30 + 0.5 if path[0] == "best" else 1):
        content = put(states["adamw"], ("state", *path), value)
        check_refused(tmp_path / "run.pt", content, "adamw")


def test_a_loss_that_is_not_a_number_is_no_damage(states, tmp_path):
    content, path = states["adamw"], tmp_path / "run.pt"
    position = content["state"]["best"]["n_epochs"] - 1
    for place in (("history", "validation_loss", position), ("best", "loss")):
        content = put(content, ("state", *place), float("nan"))
    write_checkpoint(path, content["settings"], content["state"])
    assert np.isnan(trained(path).history_["validation_loss"][position])
