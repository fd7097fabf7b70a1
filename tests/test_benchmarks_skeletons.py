"""The benchmark of skeleton descriptors: it chooses on training people alone."""

import numpy as np
import pytest


@pytest.fixture
def data(bench):
    """Sequences of two persons in random order, of whom one moves as the class says."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 32)
    groups = np.tile(np.arange(4), 24)
    sequences = []
    for label in y:
        frames = rng.normal(size=(6, 2, 3, 3), scale=0.8) + np.eye(3)
        frames[:, 0, label] += 1.0
        sequences.append(frames[:, :: rng.choice([-1, 1])])
    tests = {f"fold {k}": groups == k for k in range(2)}
    return bench("skeletons").Sequences("sbu", sequences, y, groups, tests)


def test_test_people_are_neither_learned_nor_used_for_the_choice(bench, data, monkeypatch):
    skeletons = bench("skeletons")
    seen = []

    class Recorder:
        def fit(self, X, y):
            self.learned = set(X[:, 0])
            return self

        def predict(self, X):
            seen.append((self.learned, set(X[:, 0])))
            return np.zeros(len(X))

    monkeypatch.setattr(skeletons, "make_classifier", lambda *_: Recorder())
    shares = skeletons.held_out(
        skeletons.CANDIDATES["default"], data.groups[:, np.newaxis], data, {}, seed=0
    )
    assert seen == [
        ({2, 3}, {1}),
        ({1, 3}, {2}),
        ({1, 2}, {3}),
        ({2, 3}, {0}),
        ({0, 3}, {2}),
        ({0, 2}, {3}),
    ]
    assert shares == {"fold 0": pytest.approx(1 / 3), "fold 1": pytest.approx(1 / 3)}


def test_the_best_candidate_is_tested_alone(bench, data, monkeypatch, tmp_path, capsys):
    skeletons = bench("skeletons")
    monkeypatch.setattr(skeletons, "load", lambda *_: data)
    monkeypatch.setattr(skeletons, "ROOTS", {"sbu": 0})
    paths = [tmp_path / "page.md", tmp_path / "runs.csv"]
    command = ["--sets", "sbu", "--candidates", "default", "ordered", "--seeds", "0", "1"]
    skeletons.main([*command, "--out", *map(str, paths)])
    printed = capsys.readouterr().out
    assert paths[0].read_text(encoding="utf-8") == printed
    rows = [line.split(" | ") for line in printed.splitlines() if " | " in line]
    default, ordered = rows[1:3]
    assert [default[0], ordered[0]] == ["| default", "| ordered persons"]
    assert float(default[2]) > float(ordered[2])
    assert [default[3], ordered[3]] == ["fold 0, fold 1 |", "- |"]
    assert "Test accuracy of the choice: " in printed
    assert len(paths[1].read_text(encoding="utf-8").splitlines()) == 1 + 2 * 2 * 2


def test_sets_are_read_in_one_unit(bench, shared_data):
    skeletons = bench("skeletons")
    sbu, fpha = (skeletons.load(shared_data, name) for name in ("sbu", "fpha"))
    assert [len(one.y) for one in (sbu, fpha)] == [282, 1175]
    assert list(sbu.tests) == [f"fold {k}" for k in range(5)]
    assert fpha.tests["official"].sum() == 575
    # Millimetres: a torso is longer than 20 cm and shorter than 1 m.
    torso = np.linalg.norm(sbu.sequences[0][:, 0, 1] - sbu.sequences[0][:, 0, 2], axis=-1)
    assert 100 < torso.mean() < 1000
