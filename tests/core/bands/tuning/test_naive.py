"""The growing network of Algorithm 1 and its training, against explicit formulas."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.bands.tuning import naive
from ffnb_sklearn.core.bands.tuning.descent import MomentumSteps, multi_class_hinge
from ffnb_sklearn.core.bands.tuning.naive import empty_network, grow, train_newest
from tests.core.small_models import DESCENT

RNG = np.random.default_rng(0)
# Four classes of ten samples each.
CODES = np.repeat(np.arange(4), 10)
X = 3.0 * RNG.standard_normal((4, 5))[CODES] + RNG.standard_normal((40, 5))
ACTIVATIONS = {
    "relu": lambda z: np.maximum(z, 0.0),
    "tanh": np.tanh,
    "sigmoid": lambda z: 1.0 / (1.0 + np.exp(-z)),
}


def tensor(array):
    return torch.as_tensor(np.ascontiguousarray(array))


def samples(*codes):
    now = np.isin(CODES, codes)
    return tensor(X[now]), tensor(CODES[now])


def descent(**changes):
    return replace(DESCENT, **{"max_epochs": 20, "learning_rate": 0.05, "patience": 10, **changes})


def descend(move, loss, n_samples, rng):
    """Losses of all epochs."""
    losses = []
    for _ in move.epochs(losses):
        losses.append(move.epoch(loss, n_samples, rng))
    return losses


def streamed(*tasks, n_layers=2, band_size=3, activation="relu", seed=0, **changes):
    """Networks before each task and after the last, trained on tasks of so many classes."""
    network = empty_network(samples(*range(tasks[0]))[0], n_layers, seed)
    networks = [network]
    for n_new in tasks:
        first = network.n_classes
        network = grow(network, n_new, band_size, activation)
        now = samples(*range(first, first + n_new))
        network = train_newest(network, *now, descent(**changes))
        networks.append(network)
    return networks


def parameters(network):
    """All arrays of a network, task by task."""
    per_task = []
    for task, outputs in enumerate(network.outputs):
        bands = network.hidden.bands[task * network.n_layers : (task + 1) * network.n_layers]
        per_task.append([*(band.weights for band in bands), outputs.weights, outputs.offsets])
    return per_task


def dense(rows, width):
    """Rows of growing length as one matrix, with zero weight on what came later."""
    return np.vstack([np.pad(one, ((0, 0), (0, width - one.shape[1]))) for one in rows])


# ---- the network


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_scores_are_those_of_block_lower_triangular_matrices(n_layers, activation):
    network = streamed(2, 1, 1, n_layers=n_layers, activation=activation)[-1]
    psi = X / network.scale
    for layer in range(1, n_layers + 1):
        rows = [band.weights for band in network.hidden.bands if band.layer == layer]
        W = dense(rows, psi.shape[1])
        assert W.shape == (12, 5 if layer == 1 else 12)
        if layer > 1:
            # Bands of 6, 3 and 3 neurons: the older do not see the newer.
            assert (W[:6, 6:] == 0.0).all()
            assert (W[6:9, 9:] == 0.0).all()
            assert (W[9:] != 0.0).all()
        psi = ACTIVATIONS[activation](psi @ W.T)
    V = dense([one.weights for one in network.outputs], 12)
    b = np.concatenate([one.offsets for one in network.outputs])
    assert (V[:2, 6:] == 0.0).all()
    assert (V[2, 9:] == 0.0).all()
    assert_allclose(network.scores(tensor(X)).numpy(), psi @ V.T + b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_parameters_of_other_tasks_stay_bit_for_bit(n_layers):
    *_, before, after = streamed(2, 1, 1, n_layers=n_layers)
    expected = [[array.copy() for array in task] for task in parameters(before)]
    # Samples of all classes at once, with gradients for each of them.
    trained = train_newest(after, *samples(0, 1, 2, 3), descent())
    assert len(trained.loss_curve) == 20
    for network in (before, after, trained):
        for old, new in zip(expected, parameters(network)[:2], strict=True):
            for one, other in zip(old, new, strict=True):
                assert_array_equal(one, other)
    newest = zip(parameters(after)[2], parameters(trained)[2], strict=True)
    assert all((one != other).any() for one, other in newest)
    # Nor do the outputs of the old classes.
    whole = tensor(X)
    assert_array_equal(trained.scores(whole)[:, :3], before.scores(whole))


def test_training_leaves_the_network_that_it_started_from():
    network = grow(empty_network(samples(0, 1)[0], 2, 0), 2, 3, "relu")
    expected = [array.copy() for array in parameters(network)[0]]
    train_newest(network, *samples(0, 1), descent())
    for one, other in zip(expected, parameters(network)[0], strict=True):
        assert_array_equal(one, other)
    with pytest.raises(FrozenInstanceError):
        network.seed = 1


def test_the_scale_is_the_root_mean_square_norm_of_the_first_task():
    network = streamed(2, 1)[-1]
    first = X[CODES < 2]
    assert network.scale == pytest.approx(np.sqrt(np.mean(np.linalg.norm(first, axis=1) ** 2)))
    assert empty_network(torch.zeros((3, 2), dtype=torch.float64), 1, 0).scale == 1.0


@pytest.mark.parametrize("n_layers", [1, 2])
def test_neurons_are_of_order_one_as_they_are_drawn(n_layers):
    wide = tensor(RNG.standard_normal((50, 20)) * 1e5)
    network = grow(empty_network(wide, n_layers, 0), 4, 500, "relu")
    *_, last = network.layers(wide)
    assert float(last.square().mean()) == pytest.approx(1.0, rel=0.2)
    assert float(network.scores(wide).square().mean()) == pytest.approx(1.0, rel=0.7)


def test_draws_depend_on_the_seed_and_on_the_task():
    def rows(seed, task):
        network = (
            streamed(*[1] * task, seed=seed)[-1] if task else empty_network(tensor(X), 2, seed)
        )
        return parameters(grow(network, 1, 3, "relu"))[-1][0]

    assert_array_equal(rows(0, 1), rows(0, 1))
    assert not np.array_equal(rows(0, 1), rows(1, 1))
    assert not np.array_equal(rows(0, 0), rows(0, 1))


def test_number_of_weights_and_classes():
    network = streamed(2, 1)[-1]
    assert network.n_classes == 3
    # Layer 1; layer 2, of which the newer band sees the older; outputs; offsets.
    assert network.n_weights == 9 * 5 + (6 * 6 + 3 * 9) + (2 * 6 + 1 * 9) + 3


# ---- its training


def test_one_class_has_no_loss():
    network = grow(empty_network(samples(0)[0], 1, 0), 1, 3, "relu")
    trained = train_newest(network, *samples(0), descent())
    assert trained.loss_curve == ()
    for one, other in zip(parameters(network)[0], parameters(trained)[0], strict=True):
        assert_array_equal(one, other)


def test_all_known_classes_stand_in_the_loss():
    # One step on samples of the new class: the loss is that over all three, and it falls.
    *_, old, _ = streamed(2, 1, n_layers=1)
    grown = grow(old, 1, 3, "relu")
    now, classes = samples(2)
    trained = train_newest(grown, now, classes, descent(max_epochs=1, batch_size=100))
    before, after = (
        float(multi_class_hinge(one.scores(now), classes).mean()) for one in (grown, trained)
    )
    assert trained.loss_curve == pytest.approx([before])
    assert after < before


def test_a_stream_of_classes_predicts_the_newest():
    network = streamed(2, 1, 1, max_epochs=100)[-1]
    assert (network.scores(tensor(X)).argmax(1) == 3).all()


def test_mini_batches_of_a_second_training_are_drawn_anew():
    now, settings = samples(0, 1), descent(max_epochs=3, batch_size=2)
    network = grow(empty_network(now[0], 1, 0), 2, 3, "relu")
    trained = train_newest(network, *now, settings)
    assert (network.n_trainings, trained.n_trainings) == (0, 1)
    assert train_newest(network, *now, settings).loss_curve == trained.loss_curve
    # The same weights and samples at another count.
    later = train_newest(replace(network, n_trainings=1), *now, settings)
    assert later.loss_curve != trained.loss_curve


def quadratic(start, **changes):
    """Path of a descent on half the square, one sample, and its losses."""
    leaf, path = torch.tensor([start], dtype=torch.float64, requires_grad=True), []

    def loss(rows):
        path.append(leaf.item())
        return 0.5 * leaf.square().sum()

    losses = descend(MomentumSteps([leaf], descent(**changes)), loss, 1, np.random.default_rng(0))
    return [*path, leaf.item()], losses


def test_steps_have_momentum_and_weight_decay():
    path, losses = quadratic(2.0, max_epochs=2, learning_rate=0.1, momentum=0.5, weight_decay=0.01)
    first = 1.01 * 2.0
    second = 1.01 * (2.0 - 0.1 * first) + 0.5 * first
    # The rate grows by 1 % after the first epoch: no speed has grown yet.
    assert_allclose(path, [2.0, 2.0 - 0.1 * first, 2.0 - 0.1 * first - 0.1 / 0.99 * second])
    assert_allclose(losses, [2.0, 0.5 * path[1] ** 2])


def test_the_rate_follows_the_speed_of_the_loss():
    # Losses as they are made to come, with a constant gradient of 1: steps are the rates.
    made = [10.0, 9.0, 7.0, 6.0, 5.0, 1.0, 0.5]
    leaf, values, path = torch.zeros(1, dtype=torch.float64, requires_grad=True), iter(made), []

    def loss(rows):
        path.append(leaf.item())
        return leaf.sum() + (next(values) - leaf.detach().sum())

    settings = descent(max_epochs=7, learning_rate=1.0, momentum=0.0, weight_decay=0.0)
    assert descend(MomentumSteps([leaf], settings), loss, 1, np.random.default_rng(0)) == made
    rates = -np.diff([*path, leaf.item()])
    # Speeds are 1, 2, 1, 1, 4: of these the second and the last have grown.
    slower, faster = 1.0 / 0.99, 0.99
    changes = [slower, slower, faster, slower, slower, faster]
    assert_allclose(rates, np.cumprod([1.0, *changes]))


def test_the_descent_ends_where_the_loss_does_not_fall():
    # The minimum, where nothing moves: the first epoch, and ten without a lower loss.
    assert len(quadratic(0.0, max_epochs=50)[1]) == 11
    assert len(quadratic(0.0, max_epochs=5)[1]) == 5
    assert len(quadratic(1.0, max_epochs=50, momentum=0.0, learning_rate=0.01)[1]) == 50


def test_every_sample_is_seen_once_per_epoch_and_weighs_the_same():
    leaf, seen = torch.zeros(1, dtype=torch.float64, requires_grad=True), []
    values = tensor(np.arange(7.0))

    def loss(rows):
        seen.append(rows.tolist())
        return values[rows].mean() + 0.0 * leaf.sum()

    move = MomentumSteps([leaf], descent(max_epochs=2, batch_size=3))
    losses = descend(move, loss, 7, np.random.default_rng(0))
    assert [len(rows) for rows in seen] == [3, 3, 1, 3, 3, 1]
    for epoch in (seen[:3], seen[3:]):
        assert sorted(row for rows in epoch for row in rows) == list(range(7))
    assert seen[:3] != seen[3:]
    assert_allclose(losses, 3.0)


def test_divergence_is_an_error():
    network = grow(empty_network(samples(0, 1)[0], 2, 0), 2, 3, "relu")
    settings = descent(learning_rate=1e200, weight_decay=0.1)
    with pytest.raises(ValueError, match=r"learning_rate=1e\+200.* is too large"):
        train_newest(network, *samples(0, 1), settings)


def test_gradients_are_on_where_the_caller_has_turned_them_off():
    expected = streamed(2, 1)[-1].scores(tensor(X))
    with torch.no_grad():
        assert_array_equal(streamed(2, 1)[-1].scores(tensor(X)), expected)


def test_a_failure_in_an_epoch_leaves_the_network(monkeypatch):
    *_, network = streamed(2, 1)
    expected = network.scores(tensor(X)).clone()
    monkeypatch.setattr(naive, "multi_class_hinge", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train_newest(network, *samples(2), descent())
    assert_array_equal(network.scores(tensor(X)), expected)
