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
from tests.backbones.damaged_files import DAMAGED

CONTENT = {"settings": {"epochs": 3}, "state": {"weights": torch.arange(4.0), "best": None}}


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "run.pt"
    assert read_checkpoint(path) is None
    for name in (path, str(path)):
        write_checkpoint(name, CONTENT)
        content = read_checkpoint(name)
        assert content["settings"] == CONTENT["settings"]
        assert torch.equal(content["state"]["weights"], torch.arange(4.0))
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, error):
    path = tmp_path / "run.pt"
    write_checkpoint(path, CONTENT)

    def failing(content, file):
        file.write(b"half of it")
        raise error

    monkeypatch.setattr(torch, "save", failing)
    with pytest.raises(type(error)):
        write_checkpoint(path, {"settings": {}, "state": {}})
    assert read_checkpoint(path)["settings"] == CONTENT["settings"]
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


@pytest.mark.parametrize("damage", ["pickle", *DAMAGED])
def test_a_damaged_file_is_named(tmp_path, damage):
    path = tmp_path / "run.pt"
    write_checkpoint(path, CONTENT)
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
def test_a_file_of_another_format(tmp_path, content):
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(ValueError, match=r"other.pt' must be a checkpoint of format 1; it has"):
        read_checkpoint(tmp_path / "other.pt")


def test_a_folder_that_is_missing():
    with pytest.raises(FileNotFoundError, match=r"nowhere.*lie in a folder that is missing"):
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


def test_digests_of_arrays_depend_on_all_there_is():
    rows = np.arange(6.0).reshape(2, 3)
    arrays = [rows, rows.T, rows.reshape(6), rows.astype(np.float32), rows + 1, np.zeros((0, 3))]
    digests = [digest_arrays({"rows": array}) for array in arrays]
    digests += [digest_arrays({"others": rows}), digest_arrays({"rows": rows, "more": rows})]
    assert len(set(digests)) == len(digests)
    assert digest_arrays({"rows": np.asfortranarray(rows)}) == digests[0]


def test_digests_of_hooks():
    hooks = [None, "flip-crop", FlipCrop(), FlipCrop(padding=2), Jitter(), digest_arrays]
    assert len({digest_callable("augment", hook) for hook in hooks}) == len(hooks)
    assert digest_callable("augment", FlipCrop()) == digest_callable("augment", FlipCrop(padding=4))
    with pytest.raises(ValueError, match="augment must be picklable where there is a checkpoint"):
        digest_callable("augment", lambda batch, generator: batch)
