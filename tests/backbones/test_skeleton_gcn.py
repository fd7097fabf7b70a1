import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn import Bands, FFNBClassifier, SkeletonDescriptor, class_incremental_tasks
from ffnb_sklearn.backbones import (
    SKELETON_PARENTS,
    SkeletonGCN,
    TorchFeatureExtractor,
    skeleton_nodes,
    tree_adjacency,
)
from ffnb_sklearn.backbones._skeleton_gcn import _pairing_matrices

RNG = np.random.default_rng(0)
NODES = torch.tensor(RNG.normal(size=(6, 5, 12)))
PAIRED = {"n_filters": 4, "n_pairings": 2, "n_length_filters": 3, "random_state": 0}
GRAPH = RNG.normal(size=(5, 5))


def network(**parameters):
    return SkeletonGCN(5, 12, **parameters).double()


def paper_mode():
    """Bands only, class covariances, multi-task initialisation."""
    return FFNBClassifier(
        band_size=1,
        p=0.8,
        shrinkage=0.5,
        skip_connection=False,
        shared_band_size=0,
        bands=Bands(gamma=0.1),
        random_state=0,
    )


# ---- the features


@pytest.mark.parametrize(
    ("n_nodes", "skeleton", "parameters", "n_features"),
    [
        (30, "sbu", {"n_filters": 2}, 60),
        (21, "fpha", {}, 168),
        (21, "fpha", {"n_filters": 0, "n_pairings": 10, "n_length_filters": 1}, 210),
        (30, None, {"n_filters": 3, "n_pairings": 15, "n_length_filters": 2}, 990),
        (21, np.ones((21, 21)), {"n_filters": 5}, 105),
    ],
)
def test_width_and_number_of_weights(n_nodes, skeleton, parameters, n_features):
    gcn = SkeletonGCN(n_nodes, 24, adjacency=skeleton, **parameters)
    assert gcn(torch.zeros(7, n_nodes, 24)).shape == (7, n_features)
    assert gcn.n_features == n_features
    n_filters = parameters.get("n_filters", 8)
    n_lengths = parameters.get("n_pairings", 0) * parameters.get("n_length_filters", 8)
    expected = {"filters": 24 * n_filters, "length_filters": 8 * n_lengths}
    assert {name: one.numel() for name, one in gcn.named_parameters()} == expected


@pytest.mark.parametrize("adjacency", [GRAPH, GRAPH.tolist()], ids=["array", "list"])
def test_features_are_those_of_the_formulas(adjacency):
    gcn = network(adjacency=adjacency, **PAIRED)
    x = NODES.numpy()
    weights, length_weights = gcn.filters[0].detach().numpy(), gcn.length_filters.detach().numpy()
    expected = [np.maximum(np.float32(adjacency).astype(float) @ x @ weights, 0)]
    for shift, W in zip([2, 1], length_weights, strict=True):
        vectors = (x - np.roll(x, -shift, axis=1)).reshape(6, 5, 4, 3)
        expected.append(np.linalg.norm(np.swapaxes(vectors, 2, 3) @ W, axis=2))
    features = gcn(NODES).detach().numpy()
    assert_allclose(features, np.concatenate(expected, axis=2).reshape(6, -1), atol=1e-12)


def test_pooled_features_are_means_over_the_nodes():
    pooled = network(pooled=True, **PAIRED)
    of_nodes = network(**PAIRED)(NODES).reshape(6, 5, -1)
    assert pooled.n_features == of_nodes.shape[2]
    assert_allclose(pooled(NODES).detach(), of_nodes.mean(dim=1).detach(), atol=1e-12)


def test_lengths_do_not_depend_on_the_direction_of_view():
    gcn = network(n_filters=0, n_pairings=2)
    rotation = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    turned = (NODES.numpy().reshape(6, 5, 4, 3) @ rotation + [1.0, 2.0, 3.0]).reshape(6, 5, 12)
    assert_allclose(gcn(torch.tensor(turned)).detach(), gcn(NODES).detach(), atol=1e-12)


def test_nothing_is_lost_by_mirrored_orthonormal_filters():
    gcn = SkeletonGCN(5, 12, n_filters=24)
    directions = gcn.filters[0].detach()
    assert_allclose(directions[:, :12] @ directions[:, :12].T, np.eye(12), atol=1e-5)
    assert_array_equal(directions[:, 12:], -directions[:, :12])
    energy = gcn.double()(NODES).square().sum(dim=1).detach()
    relative = NODES - NODES.mean(dim=1, keepdim=True)
    assert_allclose(energy, relative.square().sum(dim=(1, 2)), rtol=1e-5)


def test_more_filters_than_inputs_are_several_bases():
    weights = SkeletonGCN(5, 12, n_filters=0, n_pairings=2, n_length_filters=7).length_filters
    for head in weights.detach():
        assert_allclose(head[:, :4].T @ head[:, :4], np.eye(4), atol=1e-5)
        assert_allclose(head[:, 4:].T @ head[:, 4:], np.eye(3), atol=1e-5)
    weights = SkeletonGCN(5, 12, n_filters=40).filters.detach()[0]
    assert_array_equal(weights[:, 12:24], -weights[:, :12])
    assert_array_equal(weights[:, 36:], -weights[:, 24:28])
    assert (weights[:, 24:36] - weights[:, :12]).abs().max() > 0.1


def test_a_few_filters_see_what_changes_slowly():
    one = SkeletonGCN(5, 12, n_filters=0, n_pairings=2, n_length_filters=1).length_filters
    assert_allclose(one.detach().abs(), 0.5, atol=1e-6)
    # Positions that return from part to part, which only the faster of 4 cosines see.
    fast = (
        torch.tensor([1.0, -1.0, -1.0, 1.0])[:, None] * NODES.float().reshape(6, 5, 4, 3)[:, :, :1]
    )
    gcn = SkeletonGCN(5, 12, n_filters=6, n_pairings=2, n_length_filters=2)
    assert_allclose(gcn(fast.flatten(2)).detach(), 0.0, atol=1e-5)
    assert gcn.filters.shape == (1, 12, 6)


@pytest.mark.parametrize("scale", [0.5, 8.0])
def test_the_features_scale_with_the_input(scale):
    gcn = network(**PAIRED)
    assert_allclose(gcn(scale * NODES).detach(), scale * gcn(NODES).detach())


# ---- seeds, dtypes, gradients


def test_filters_are_drawn_from_the_seed_and_not_from_the_global_generator():
    with torch.random.fork_rng(devices=[]):
        state = torch.get_rng_state()
        first, again = (network(**PAIRED)(NODES) for _ in range(2))
        assert torch.equal(torch.get_rng_state(), state)
    other = network(**{**PAIRED, "random_state": np.int64(1)})(NODES)
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def test_without_a_seed_torch_draws_the_filters():
    parameters = {**PAIRED, "random_state": None}
    with torch.random.fork_rng(devices=[]):
        draws = []
        for seed in (3, 3, 4):
            torch.manual_seed(seed)
            draws.append(network(**parameters)(NODES))
    assert torch.equal(draws[0], draws[1])
    assert not torch.allclose(draws[0], draws[2])


def test_single_and_double_precision_agree():
    double = network(**PAIRED)(NODES)
    single = SkeletonGCN(5, 12, **PAIRED)(NODES.float())
    assert single.dtype == torch.float32
    assert_allclose(single.detach(), double.detach(), atol=1e-5)


def test_training_changes_the_filters_alone():
    gcn = network(adjacency=GRAPH, **PAIRED)
    optimizer = torch.optim.SGD(gcn.parameters(), lr=0.1)
    gcn(NODES).square().sum().backward()
    optimizer.step()
    assert {name for name, _ in gcn.named_parameters()} == {"filters", "length_filters"}
    assert all(one.grad.abs().sum() > 0 for one in gcn.parameters())
    assert_allclose(gcn.adjacency[0], GRAPH, atol=1e-6)
    assert set(gcn.state_dict()) == {"filters", "length_filters", "adjacency", "pairings"}


def test_gradients_of_lengths_that_are_zero():
    gcn = network(**PAIRED)
    gcn(torch.zeros(2, 5, 12, dtype=torch.float64)).sum().backward()
    assert all(one.grad.isfinite().all() for one in gcn.parameters())


# ---- graphs and nodes


@pytest.mark.parametrize(("name", "n_joints", "n_bones"), [("sbu", 30, 29), ("fpha", 21, 20)])
def test_skeletons_are_trees(name, n_joints, n_bones):
    parents = np.array(SKELETON_PARENTS[name])
    assert len(parents) == n_joints
    assert np.sum(parents != np.arange(n_joints)) == n_bones
    for _ in range(n_joints):
        parents = parents[parents]
    assert len(np.unique(parents)) == 1
    matrix = tree_adjacency(SKELETON_PARENTS[name])
    assert np.linalg.matrix_rank(matrix) == n_joints
    gcn = SkeletonGCN(n_joints, 24, adjacency=name)
    assert_array_equal(gcn.adjacency[0], matrix)


@pytest.mark.parametrize("n_nodes", [2, 5, 6])
def test_all_shifts_meet_every_pair(n_nodes):
    shifts = _pairing_matrices(n_nodes, n_nodes // 2)
    assert_array_equal(shifts.sum(axis=2), 0)
    met = (shifts < 0).any(axis=0)
    assert (met | met.T).sum() == n_nodes * (n_nodes - 1)


@pytest.mark.parametrize("shape", [(21, 3), (2, 15, 3), (1, 4, 2)])
def test_nodes_are_mean_positions(shape):
    root = 2
    sequences = [np.cumsum(RNG.normal(size=(n, *shape)), axis=0) + 50.0 for n in (8, 24)]
    rows = skeleton_nodes(sequences, n_chunks=4, root=root)
    for frames, row in zip(sequences, rows, strict=True):
        joints = frames.reshape(len(frames), -1, *shape[-2:])
        centred = joints - joints.mean(axis=2, keepdims=True)
        size = np.sqrt(np.square(centred).sum(axis=-1).mean(axis=-1)).mean()
        means = (joints / size).reshape(4, -1, *joints.shape[1:]).mean(axis=1)
        origin = means[:, :, root].mean(axis=(0, 1))
        nodes = np.moveaxis(means - origin, 0, 2)
        assert_allclose(row, nodes.ravel(), atol=1e-10)


def test_nodes_of_a_descriptor_with_other_factors_are_the_same():
    sequences = [RNG.normal(size=(9, 4, 3))]
    joints = SkeletonDescriptor(blocks=("joints",), n_chunks=1).fit_transform(sequences)
    nodes = skeleton_nodes(sequences, n_chunks=1).reshape(4, 3)
    assert_allclose(nodes[0], 0.0, atol=1e-12)
    assert_allclose(nodes[1:].ravel(), joints[0], atol=1e-12)


# ---- inside a transformer


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_in_a_feature_extractor_that_is_pickled(dtype):
    rows = NODES.flatten(1).numpy()
    extractor = TorchFeatureExtractor(
        SkeletonGCN,
        backbone_params={"n_nodes": 5, "n_node_features": 12, "adjacency": GRAPH, **PAIRED},
        input_shape=(5, 12),
        dtype=dtype,
        batch_size=4,
    )
    features = extractor.fit_transform(rows)
    assert features.dtype == dtype
    assert extractor.n_features_out_ == network(adjacency=GRAPH, **PAIRED).n_features
    expected = network(adjacency=GRAPH, **PAIRED)(NODES).detach()
    assert_allclose(features, expected, atol=1e-5 if dtype == "float32" else 1e-12)
    copy = pickle.loads(pickle.dumps(extractor))
    assert_array_equal(copy.transform(rows), features)


@pytest.mark.parametrize("n_pairings", [0, 2])
def test_pretraining_changes_the_filters(n_pairings):
    rows = NODES.flatten(1).numpy()
    parameters = {"n_nodes": 5, "n_node_features": 12, **PAIRED}
    extractor = TorchFeatureExtractor(
        SkeletonGCN,
        backbone_params={**parameters, "n_pairings": n_pairings},
        input_shape=(5, 12),
        random_state=0,
    )
    before = extractor.fit(rows).state_dict_
    extractor.set_params(epochs=2).fit(rows, [0, 1, 0, 1, 0, 1])
    assert before.keys() == extractor.state_dict_.keys()
    for name in ("filters", "length_filters"):
        weights = extractor.state_dict_[name]
        assert weights.size == 0 or np.abs(weights - before[name]).max() > 1e-4


# ---- errors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_nodes": 1}, "n_nodes must be an integer at least 2; got 1"),
        ({"n_nodes": 5.0}, r"n_nodes must be an integer at least 2; got 5\.0"),
        ({"n_filters": -1}, "n_filters must be an integer at least 0; got -1"),
        ({"n_filters": True}, "n_filters must be an integer at least 0; got True"),
        ({"n_pairings": 3}, "n_pairings must be an integer from 0 to 2; got 3"),
        ({"n_length_filters": 0}, "n_length_filters must be an integer at least 1; got 0"),
        ({"n_node_features": 10}, "n_node_features must be a multiple of 3 coordinates; got 10"),
        ({"n_node_features": 0}, "n_node_features must be an integer at least 1; got 0"),
        ({"pooled": 1}, "pooled must be True or False; got 1"),
        ({"random_state": -1}, "random_state must be an integer at least 0; got -1"),
        ({"adjacency": "hand"}, r"adjacency must be one of \['fpha', 'sbu'\], or .* got 'hand'"),
        ({"adjacency": "fpha"}, r"shape \(5, 5\) and finite .* got shape \(21, 21\)"),
        ({"adjacency": np.ones(25)}, r"adjacency must have shape .* got shape \(25,\)"),
        ({"adjacency": np.full((5, 5), np.nan)}, "adjacency must have .* finite weights"),
    ],
)
def test_parameters_that_make_no_network(parameters, message):
    with pytest.raises(ValueError, match=message):
        SkeletonGCN(**{"n_nodes": 5, "n_node_features": 12, **parameters})


@pytest.mark.parametrize("shape", [(2, 5, 11), (2, 12, 5), (5, 12), (2, 60)])
def test_inputs_of_another_shape(shape):
    with pytest.raises(ValueError, match=r"nodes must have shape \(batch, 5, 12\); got \("):
        SkeletonGCN(5, 12)(torch.zeros(shape))


@pytest.mark.parametrize("parents", [[], [0, 2], [0, -1], [0, 0.5], 5])
def test_parents_that_are_no_joints(parents):
    with pytest.raises(ValueError, match="parents must hold the index of a joint"):
        tree_adjacency(parents)


# ---- real data


def test_hand_actions_through_an_untrained_network(shared_data):
    with np.load(shared_data / "fpha.npz") as data:
        sequences = np.split(data["joints"], data["offsets"][1:-1])
        y, test = data["label"], data["split"] == 1
    extractor = TorchFeatureExtractor(
        SkeletonGCN,
        backbone_params={
            "n_nodes": 21,
            "n_node_features": 24,
            "adjacency": "fpha",
            "n_filters": 48,
            "n_pairings": 4,
            "random_state": 0,
        },
        input_shape=(21, 24),
    )
    features = extractor.fit_transform(skeleton_nodes(sequences))
    assert features.shape == (1175, 1680)
    model = paper_mode()
    for task in class_incremental_tasks(y[~test], classes_per_task=5):
        model.partial_fit(features[~test][task], y[~test][task])
    assert model.n_tasks_ == 9
    assert model.score(features[test], y[test]) >= 0.86


def test_integers_of_numpy_are_integers():
    network = SkeletonGCN(np.int64(5), np.int64(12), n_filters=np.int64(2), random_state=0)
    assert network(torch.ones(3, 5, 12)).shape == (3, network.n_features)
