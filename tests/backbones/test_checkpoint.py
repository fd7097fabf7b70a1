import builtins
from pathlib import Path

import numpy as np
import pytest
import torch

from ffnb_sklearn.backbones import FlipCrop, Jitter
from ffnb_sklearn.backbones._checkpoint import (
    check_same_training,
    digest_arrays,
    digest_callable,
    read_checkpoint,
    write_checkpoint,
)
from tests.backbones.damaged_files import DAMAGED, with_bit_flipped

SETTINGS = {"epochs": 3, "random_state": 5}
STATE = {"weights": torch.arange(4.0), "best": None}


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "run.pt"
    assert read_checkpoint(path) is None
    for name in (path, str(path)):
        write_checkpoint(name, SETTINGS, STATE)
        content = read_checkpoint(name)
        assert content["settings"] == SETTINGS
        assert torch.equal(content["state"]["weights"], torch.arange(4.0))
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, error):
    path = tmp_path / "run.pt"
    write_checkpoint(path, SETTINGS, STATE)

    def failing(content, file):
        file.write(b"half of it")
        raise error

    monkeypatch.setattr(torch, "save", failing)
    with pytest.raises(type(error)):
        write_checkpoint(path, {}, {})
    assert read_checkpoint(path)["settings"] == SETTINGS
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


@pytest.mark.parametrize("damage", ["pickle", *DAMAGED])
def test_a_damaged_file_is_named(tmp_path, damage):
    path = tmp_path / "run.pt"
    write_checkpoint(path, SETTINGS, STATE)
    if damage == "pickle":
        # A pickle could run anything; only tensors and plain types are read.
        torch.save({"format": 1, "state": builtins.print}, path)
    else:
        path.write_bytes(DAMAGED[damage](path.read_bytes()))
    with pytest.raises(ValueError, match=r"run.pt' is damaged, or was not written by") as caught:
        read_checkpoint(path)
    assert "weights_only" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_not_called_damaged(tmp_path):
    folder = tmp_path / "run.pt"
    folder.mkdir()
    with pytest.raises(OSError, match=r"run\.pt"):
        read_checkpoint(folder)


@pytest.mark.parametrize("content", [{"format": 0}, {"weight": torch.ones(2)}, [1, 2]])
def test_a_file_without_a_digest(tmp_path, content):
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"other.pt' is damaged, or was not written by"):
        read_checkpoint(tmp_path / "other.pt")


@pytest.mark.parametrize(
    "settings",
    [
        {"random_state": 5, "std": [1.0, "x"]},
        {"random_state": 5, "std": torch.ones(3)},
        {"random_state": 5, 3: 3},
        {"random_state": -1},
        {"random_state": 2**31},
        {"random_state": None},
        {"epochs": 3},
    ],
)
def test_settings_of_another_kind(tmp_path, settings):
    path = tmp_path / "run.pt"
    write_checkpoint(path, settings, STATE)
    with pytest.raises(ValueError, match=r"run.pt' is damaged, or was not written by"):
        read_checkpoint(path)


def test_every_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "run.pt"
    write_checkpoint(path, SETTINGS, STATE)
    content = path.read_bytes()
    for position in range(0, len(content), 11):
        path.write_bytes(with_bit_flipped(content, position, position % 8))
        with pytest.raises(ValueError, match=r"run.pt' is damaged"):
            read_checkpoint(path)


def test_a_folder_that_is_missing():
    with pytest.raises(FileNotFoundError, match=r"nowhere.*its folder does not exist"):
        read_checkpoint(Path("nowhere") / "run.pt")


def test_all_differences_are_named():
    saved = {"epochs": 3, "learning_rate": 0.1, "X or y": "digest 1", "augment": "digest 5"}
    check_same_training("run.pt", saved, dict(saved))
    now = {"epochs": 3, "learning_rate": 0.2, "X or y": "digest 2", "augment": "digest 5"}
    with pytest.raises(ValueError) as caught:
        check_same_training("run.pt", saved, now)
    assert str(caught.value).startswith(
        "checkpoint='run.pt' belongs to another training: learning_rate is 0.1 there and 0.2 "
        "here; X or y differs. "
    )


def test_long_settings_are_shown_in_part():
    saved = {"epochs": 3, "unknown": 1, "std": [0.5] * 10**5, "input_shape": "x" * 10**6}
    now = {"epochs": 3, "std": None, "input_shape": [3, 8, 8]}
    with pytest.raises(ValueError, match=r"1 settings are there only") as caught:
        check_same_training("run.pt", saved, now)
    assert len(str(caught.value)) < 600


def test_digests_of_arrays_depend_on_all_there_is():
    rows = np.arange(6.0).reshape(2, 3)
    arrays = [rows, rows.T, rows.reshape(6), rows.astype(np.float32), rows + 1, np.zeros((0, 3))]
    digests = [digest_arrays({"rows": array}) for array in arrays]
    digests += [digest_arrays({"others": rows}), digest_arrays({"rows": rows, "more": rows})]
    assert len(set(digests)) == len(digests)
    assert digest_arrays({"rows": np.asfortranarray(rows)}) == digests[0]


class Scaled:
    """A hook that holds a tensor."""

    def __init__(self, factor):
        self.factor = torch.tensor([factor])


def test_hooks_with_equal_tensors_have_equal_digests():
    first, second, third = (digest_callable("augment", Scaled(x)) for x in (1.5, 1.5, 2.0))
    assert first == second
    assert first != third


def test_digests_of_hooks():
    hooks = [None, "flip-crop", FlipCrop(), FlipCrop(padding=2), Jitter(), digest_arrays]
    assert len({digest_callable("augment", hook) for hook in hooks}) == len(hooks)
    assert digest_callable("augment", FlipCrop()) == digest_callable("augment", FlipCrop(padding=4))
    with pytest.raises(ValueError, match="augment must be picklable where there is a checkpoint"):
        digest_callable("augment", lambda batch, generator: batch)
