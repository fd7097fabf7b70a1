"""The benchmark of networks on skeletons: what they are pretrained on, and who is scored."""

import numpy as np
import pytest


@pytest.fixture
def networks(bench):
    return bench("skeleton_networks")


def test_the_pretext_reorders_and_mirrors(networks):
    nodes = np.random.default_rng(0).normal(size=(2, 3 * 24))
    X, y = networks.pretext(nodes, 3)
    assert X.shape == (16, 72)
    assert y.tolist() == np.repeat(np.arange(8), 2).tolist()
    np.testing.assert_array_equal(X[:2], nodes)
    parts = X.reshape(8, 2, 3, 8, 3)
    np.testing.assert_array_equal(parts[1], parts[0] * [-1.0, 1.0, 1.0])
    np.testing.assert_array_equal(parts[2], parts[0, :, :, ::-1])
    np.testing.assert_array_equal(parts[4], np.roll(parts[0], 4, axis=2))
    assert len(np.unique(X, axis=0)) == 16


def test_only_learned_people_are_seen(networks, bench, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    y, groups = np.repeat(np.arange(6), 8), np.tile(np.arange(4), 12)
    sequences = [rng.normal(size=(9, 21, 3)) + label for label in y]
    tests = {"official": groups == 3}
    data = bench("skeletons").Sequences("fpha", sequences, y, groups, tests)
    monkeypatch.setattr(networks, "load", lambda *_: data)
    monkeypatch.setattr(networks, "PRETRAINING", {"epochs": 1, "train_batch_size": 50})
    seen = []

    class Recorder(networks.TorchFeatureExtractor):
        def fit(self, X, y=None):
            seen.append((self.epochs, len(X), sorted(set(y))))
            return super().fit(X, y)

    monkeypatch.setattr(networks, "TorchFeatureExtractor", Recorder)
    networks.main(["--sets", "fpha", "--seeds", "0"])
    # Two of three training groups have two sequences each of the five base classes.
    assert seen == [(0, 20, [*range(5)]), (1, 160, [*range(8)]), (1, 20, [*range(5)])] * 3
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) == 8
    assert rows[0].startswith("| rows | FPHA %")
