"""Skeleton features of the printed widths: as many independent columns as columns."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.backbones import SkeletonGCN, skeleton_nodes

WIDTHS = {"sbu": 60, "fpha": 168}


@pytest.mark.parametrize(("name", "shape", "root"), [("sbu", (2, 15, 3), 2), ("fpha", (21, 3), 0)])
def test_features_of_random_walks_have_full_rank(bench, name, shape, root):
    rng = np.random.default_rng(0)
    sequences = [np.cumsum(rng.normal(size=(16, *shape)), axis=0) for _ in range(300)]
    n_nodes = np.prod(shape[:-1])
    nodes = torch.as_tensor(skeleton_nodes(sequences, root=root)).reshape(300, n_nodes, -1)
    settings = bench("_paper_settings").BACKBONES["gcn-narrow"][name]
    network = bench("_paper_features").PooledGCN(
        n_nodes, nodes.shape[2], adjacency=name, random_state=0, **settings
    )

    X = network.double()(nodes).detach().numpy()

    assert X.shape[1] == WIDTHS[name]
    assert np.linalg.matrix_rank(X) == WIDTHS[name]
    assert np.linalg.matrix_rank(X - X.mean(axis=0)) == WIDTHS[name]


def test_pooled_features_are_means_over_the_joints(bench):
    nodes = torch.as_tensor(np.random.default_rng(0).normal(size=(5, 6, 12)))
    settings = {"n_filters": 2, "n_pairings": 3, "n_length_filters": 4, "random_state": 0}
    plain = SkeletonGCN(6, 12, **settings).double()
    pooled = bench("_paper_features").PooledGCN(6, 12, pooled=True, **settings).double()

    X = pooled(nodes).detach().numpy()

    assert X.shape == (5, pooled.n_features) == (5, 14)
    assert_allclose(X, plain(nodes).detach().numpy().reshape(5, 6, 14).mean(axis=1))


@pytest.mark.parametrize("name", WIDTHS)
@pytest.mark.parametrize("seed", [0, 1])
def test_training_rows_of_the_real_sets_have_full_rank(bench, shared_data, name, seed):
    settings, load = bench("_paper_settings"), bench("_paper_features").load_splits
    splits = load(
        getattr(settings, name.upper()),
        shared_data,
        features="gcn-narrow",
        pretraining=settings.Pretraining(),
        seed=seed,
    )

    ranks = {split.name: np.linalg.matrix_rank(split.X) for split in splits}

    assert ranks == dict.fromkeys(ranks, WIDTHS[name])
    assert len(ranks) == {"sbu": 5, "fpha": 1}[name]
