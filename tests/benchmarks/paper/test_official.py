"""The commands read folders with official files, and keep the tables that they make."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.utils import Bunch

from benchmarks.lib.data import read_features
from benchmarks.paper import fair, official, paper
from benchmarks.paper.data_sets import load_splits
from ffnb_sklearn.backbones import ConvNet
from ffnb_sklearn.datasets._sbu import FOLD_OF_PAIR

RNG = np.random.default_rng(0)


def sequence(label, n_frames, shape):
    """Return frames of a class: its own pose, with the pose of a person, in motion."""
    pose = np.random.default_rng(label).random(shape) + RNG.random(shape)
    return (pose + 0.1 * RNG.random((n_frames, *shape))).round(5)


def write_sbu(folder):
    """Write a sequence of each class and pair as released; return them by place."""
    sequences = {}
    for pair in sorted(FOLD_OF_PAIR):
        for label in range(8):
            place = folder / pair / f"{label + 1:02d}" / "001"
            place.mkdir(parents=True)
            frames = sequence(label, 3 + label % 2, (2, 15, 3))
            lines = [
                f"{number}," + ",".join(map(str, frame.ravel()))
                for number, frame in enumerate(frames, start=40)
            ]
            (place / "skeleton_pos.txt").write_bytes("\r\n".join([*lines, ""]).encode())
            sequences[pair, label] = frames
    return sequences


def write_fpha(folder):
    """Write four training sequences and a test sequence of 45 actions as released."""
    lists = {"Training": [], "Test": []}
    for label in range(45):
        for number, kind in enumerate(["Training"] * 4 + ["Test"], start=1):
            place = f"Subject_{number}/action_{label}/1"
            path = folder / "Hand_pose_annotation_v1" / place / "skeleton.txt"
            path.parent.mkdir(parents=True)
            frames = 100 * sequence(label, 3, (21, 3))
            lines = [" ".join(map(str, [k, *frame.ravel()])) for k, frame in enumerate(frames)]
            path.write_text("\n".join(lines), encoding="utf-8")
            lists[kind].append(f"{place} {label}")
    lines = [line for kind, of in lists.items() for line in (f"{kind} {len(of)}", *of)]
    split = folder / "data_split_action_recognition.txt"
    split.write_text("\n".join(lines), encoding="utf-8")


def test_the_tables_of_a_folder_of_official_files(tmp_path, capsys):
    sequences = write_sbu(tmp_path / "sbu")
    command = ["--data", str(tmp_path), "--threads", "1", "--quick"]
    paper.main(["--table", "sbu-p", "--rows", "p=45", *command])
    printed = capsys.readouterr()
    assert "| p=45 | 84.61 |" in printed.out
    assert "sbu.npz: made from the official files of SBU" in printed.err

    with np.load(tmp_path / "sbu.npz") as arrays:
        starts, ends = arrays["offsets"][:-1], arrays["offsets"][1:]
        for key, start, end in zip(sorted(sequences), starts, ends, strict=True):
            assert_array_equal(arrays["joints"][start:end], np.float32(sequences[key]))
        assert_array_equal(arrays["label"], np.tile(np.arange(8), 21))
        assert_array_equal(arrays["fold"], [FOLD_OF_PAIR[pair] for pair, _ in sorted(sequences)])
    # The table is read from now on.
    paper.main(["--table", "sbu-p", "--rows", "p=45", *command])
    again = capsys.readouterr()
    assert "made from" not in again.err
    assert again.out == printed.out


def test_settings_are_chosen_on_a_folder_of_official_files(tmp_path, capsys, monkeypatch):
    write_fpha(tmp_path)
    monkeypatch.setattr(fair, "EPSILONS", (0.1,))
    monkeypatch.setattr(fair, "GAMMAS", (1.0,))
    monkeypatch.setattr(fair, "PARTS", fair.PARTS[2:3])
    monkeypatch.setattr(fair, "MODELS", fair.MODELS[:2])
    monkeypatch.setitem(fair.P_VALUES, "fpha", (15,))
    fair.main(["--sets", "fpha", "--data", str(tmp_path), "--threads", "1", "--quick"])
    printed = capsys.readouterr()
    assert "| one feature layer | 67.47 |" in printed.out
    assert "fpha.npz: made from the official files of FPHA" in printed.err
    split = load_splits("fpha", tmp_path)["official"]
    assert split.X.shape == (180, 168)
    assert split.X_test.shape == (45, 168)


def small_network():
    return ConvNet(stem_width=4, widths=(4, 8), blocks=(1, 1))


def test_features_of_images_come_from_a_network_that_sees_the_first_classes(tmp_path, monkeypatch):
    order = np.random.RandomState(1993).permutation(100)
    labels = np.tile(np.arange(100), 2)
    images = RNG.integers(256, size=(200, 3072), dtype=np.uint8)
    train = np.repeat([True, False], 100)
    found = Bunch(data=images, target=labels, target_names=list("c" * 100), train=train)
    monkeypatch.setattr(official, "load_cifar100", lambda folder: found)
    monkeypatch.setattr(official, "ConvNet", small_network)
    learned = []
    fit = official.TorchFeatureExtractor.fit

    def noted_fit(self, X, y):
        learned.append(y)
        return fit(self, X, y)

    monkeypatch.setattr(official.TorchFeatureExtractor, "fit", noted_fit)
    official.main(["--data", str(tmp_path), "--sets", "cifar", "--epochs", "1"])

    assert_array_equal(np.sort(learned[0]), np.arange(50))
    (split,) = read_features(tmp_path / "cifar100_b50.npz")
    assert split.X.shape == split.X_test.shape == (100, 8)
    # Label k is class order[k].
    assert_array_equal(order[split.y], labels[train])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file at .*sbu.npz, and the official .*s01s02"):
        official.table_path(tmp_path, "sbu.npz")
    assert list(tmp_path.iterdir()) == []
