"""Proposition 1: the bound holds, on random and on real data, and its terms are what they say."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core.bands.activations import ACTIVATIONS
from ffnb_sklearn.core.bands.bound import descent_bound, forgetting_bound
from ffnb_sklearn.core.bands.drafts import draft_bands
from ffnb_sklearn.core.bands.tuning.finetune import finetune
from ffnb_sklearn.core.model import Task
from tests.core.small_models import DESCENT, SETTINGS, learn, learnt, parameters_of

BANDS_ONLY = replace(SETTINGS, p=(0.9,) * 3, band_size=2, shared_band_size=0, skip_connection=False)

# The descent of the paper: absolute units, one copy of the rows, the last epoch.
PUBLISHED = replace(
    BANDS_ONLY,
    p=(4,),
    units="absolute",
    epsilon=0.1,
    shrinkage=0.0,
    old_statistics="zero",
    left_out=False,
)


def stream(d=12, n_tasks=3, seed=0, unit=1.0):
    rng = np.random.default_rng(seed)
    tasks = []
    for label in range(n_tasks):
        X = rng.normal(size=(15, d)) * rng.uniform(0.1, 2.0, size=d) + rng.normal(size=d)
        X *= unit
        classes = torch.full((15,), label)
        tasks.append(Task(torch.as_tensor(X), classes, torch.ones(15, dtype=torch.float64)))
    return tasks


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("null_space", [True, False])
@pytest.mark.parametrize("max_epochs", [0, 3])
@pytest.mark.parametrize(("seed", "unit"), [(0, 1.0), (1, 1e-9)])
def test_the_drift_is_within_the_bound(activation, null_space, max_epochs, seed, unit):
    tasks = stream(seed=seed, unit=unit)
    descent = replace(DESCENT, max_epochs=max_epochs, learning_rate=0.1)
    model = learnt(tasks, BANDS_ONLY, activation=activation, null_space=null_space, descent=descent)

    found = forgetting_bound(model, torch.cat([task.X for task in tasks[:2]]))

    assert len(found.layers) == 3
    assert all(0.0 <= one.drift <= one.tight_bound <= one.bound for one in found.layers)
    last = found.layers[-1]
    assert (found.drift, found.tight_bound, found.bound) == (
        last.drift,
        last.tight_bound,
        last.bound,
    )
    assert found.drift > 0.0


def test_the_drift_is_the_change_of_the_maps():
    tasks = stream()
    before, X = learnt(tasks[:2], BANDS_ONLY), tasks[0].X
    after = learn(before, tasks[2], parameters_of(before))

    found = forgetting_bound(after, X)

    for layer, one in enumerate(found.layers, start=1):
        then = before.trained.layers.layer_of(X, layer).numpy()
        now = after.trained.layers.layer_of(X, layer).numpy()
        silent = np.pad(then, ((0, 0), (0, now.shape[1] - then.shape[1])))
        assert_allclose(one.drift, np.square(now - silent).sum(), rtol=1e-10)


def test_each_layer_has_the_product_of_the_norms_and_the_norm_of_the_product():
    tasks = stream()
    model, X = learnt(tasks, BANDS_ONLY), tasks[0].X

    layers = forgetting_bound(model, X).layers

    bands = model.trained.layers.bands[-3:]
    for one, band in zip(layers, bands, strict=True):
        below = model.trained.layers.layer_of(X, band.layer - 1).numpy()
        product = band.scale * below @ band.weights.T
        assert_allclose(one.tight_bound, np.square(product).sum(), rtol=1e-12)
        # Older rows pass on nothing, so the layers below add nothing.
        assert_allclose(one.bound, one.alpha * one.beta, rtol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_norm_of_the_product_is_far_below_the_product_of_the_norms(activation):
    tasks = stream(d=30)
    model = learnt(tasks, BANDS_ONLY, p=(4,), activation=activation)

    found = forgetting_bound(model, tasks[0].X)

    assert found.drift < found.tight_bound < 0.1 * found.bound


def test_alpha_and_beta_are_coordinates_along_the_residual_axes():
    tasks = stream()
    model, X = learnt(tasks, BANDS_ONLY, p=(4,)), tasks[0].X.numpy()

    (one,) = forgetting_bound(model, tasks[0].X).layers

    past = torch.cat([task.X for task in tasks[:2]]).numpy()
    axes = np.linalg.svd(past)[2][4:]
    rows = model.trained.layers.bands[-1].scale * model.trained.layers.bands[-1].weights
    assert_allclose(one.alpha, np.square(rows @ axes.T).sum(), rtol=1e-8)
    assert_allclose(one.beta, np.square(X @ axes.T).sum(), rtol=1e-8)


def test_the_bound_holds_after_older_classes_have_learned_on():
    tasks, others = stream(), stream(seed=1)
    model = learnt([*tasks, others[0]], BANDS_ONLY)

    for X in (tasks[0].X, others[0].X, 1e3 * others[1].X):
        found = forgetting_bound(model, X)
        assert all(0.0 <= one.drift <= one.tight_bound <= one.bound for one in found.layers)


def test_the_bound_falls_as_more_axes_are_kept():
    tasks = stream(n_tasks=2)

    bounds = [
        forgetting_bound(learnt(tasks, BANDS_ONLY, p=(p,)), tasks[0].X).bound
        for p in (0, 3, 6, 9, 11)
    ]

    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 1e-3 * bounds[0]


def test_nothing_moves_where_the_past_spans_fewer_axes_than_are_kept():
    tasks = stream(d=40, n_tasks=2)

    found = forgetting_bound(learnt(tasks, BANDS_ONLY, p=(20,)), tasks[0].X)

    assert found.drift <= found.bound < 1e-20


def random_path(rng, n_steps):
    """Layers of a random path: residual axes, old rows, and new rows' coordinates per step."""
    widths, layers = [5, *rng.integers(1, 4, size=3)], []
    for below, width in pairwise(widths):
        axes = np.linalg.qr(rng.normal(size=(below, below)))[0][:, : rng.integers(1, below + 1)]
        size = 10.0 ** rng.uniform(-2, 0.5)
        steps = size * rng.normal(size=(n_steps + 1, axes.shape[1], rng.integers(1, width + 1)))
        if rng.random() < 0.5:
            steps[-1] = -steps[0]
        n_old = width - steps.shape[2]
        layers.append((axes, rng.normal(size=(n_old, below)), steps))
    return layers


def drift_and_printed_bound(X, layers, activation):
    """Squared change of the last layer from first to last step, and the sum of Proposition 1."""
    g, n_steps = ACTIVATIONS[activation].value, layers[0][2].shape[0] - 1
    outputs, bounds = [X] * (n_steps + 1), np.zeros(n_steps)
    for axes, old, steps in layers:
        beta = [psi @ axes for psi in outputs]
        products = [
            np.square(a).sum() * np.square(b).sum() for a, b in zip(steps, beta, strict=True)
        ]
        bounds = np.add(products[1:], products[:-1]) + np.square(old).sum() * bounds
        responses = [
            np.hstack([psi @ old.T, b @ a]) for psi, b, a in zip(outputs, beta, steps, strict=True)
        ]
        outputs = [g(torch.as_tensor(one)).numpy() for one in responses]
    return np.square(outputs[-1] - outputs[0]).sum(), bounds.sum()


@pytest.mark.parametrize(
    ("activation", "factor"), [("relu", 1.0), ("tanh", 2.0), ("sigmoid", 0.125)]
)
def test_the_printed_sum_bounds_paths_of_any_length_with_the_factor_of_the_lemma(
    activation, factor
):
    rng, worst = np.random.default_rng(0), 0.0
    for n_steps in (1, 2, 5) * 300:
        path = random_path(rng, n_steps)[: rng.integers(1, 4)]
        X = rng.normal(size=(rng.integers(1, 4), 5))
        drift, printed = drift_and_printed_bound(X, path, activation)
        # Rows above a silent layer move nothing, and have no bound but zero.
        assert drift <= factor * (1.0 + 1e-12) * printed
        worst = max(worst, drift / max(printed, 1e-300))

    # The factor is needed: some path comes close to it.
    assert worst > 0.9 * factor


def dense_path(model, task, n_layers):
    """Residual axes, old rows and rows per step, of each layer in the descent of a task."""
    path = []
    drafts = draft_bands(model, task)
    finetune(model, task, drafts, path)
    layers = []
    for layer, draft in enumerate(drafts):
        rows = np.array([leaves[layer].numpy() for leaves in path])
        axes = np.linalg.svd(draft.open_axes.kept.numpy())[2][draft.open_axes.n_kept :].T
        bands = [band.weights for band in model.trained.layers.bands if band.layer == layer + 1]
        old = np.vstack([np.pad(w, ((0, 0), (0, rows.shape[2] - w.shape[1]))) for w in bands])
        layers.append((axes, old, np.swapaxes(rows @ axes, 1, 2)))
    return layers


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_bound_of_a_descent_is_the_printed_sum_over_its_steps(n_layers, activation):
    tasks = stream()
    descent = replace(PUBLISHED.descent, max_epochs=3, batch_size=5, learning_rate=0.1)
    settings = replace(PUBLISHED, p=(4, 1)[:n_layers], activation=activation, descent=descent)
    before = learnt(tasks[:2], settings)
    X = torch.cat([tasks[0].X, tasks[1].X])

    bound = descent_bound(before, tasks[2], X)

    layers = dense_path(before, tasks[2], n_layers)
    assert layers[0][2].shape[0] == 10
    _, printed = drift_and_printed_bound(X.numpy(), layers, activation)
    assert_allclose(bound, printed, rtol=1e-9)
    # The path of the recorded descent ends at the rows of the model that learns the task.
    after = learn(before, tasks[2], settings)
    last_rows = after.trained.layers.bands[-1].weights
    assert_allclose(layers[-1][2][-1].T @ layers[-1][0].T, last_rows, atol=1e-12)


def test_without_a_step_the_printed_sum_is_empty():
    tasks = stream()
    before = learnt(tasks[:2], PUBLISHED)

    assert descent_bound(before, tasks[2], tasks[0].X) == 0.0
