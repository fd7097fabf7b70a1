"""The choice of Gaussian densities by their left-out cross-entropy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier import left_out_densities
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.classifier.left_out_densities import _SHRINKAGES, _Metric, best_densities
from tests.core.small_models import CPU

D, RIDGE = 12, 0.5
PENALTIES = np.linspace(0.2, 3.0, D)


def samples(n, *, n_own=D, n_noise=0, gap=1.0, seed=0):
    """Three classes with covariances of their own in the first inputs, and inputs of noise."""
    rng = np.random.default_rng(3)
    means = np.zeros((3, D + n_noise))
    means[:, :D] = gap * rng.standard_normal((3, D))
    mixing = np.tile(np.eye(D + n_noise), (3, 1, 1))
    mixing[:, :n_own, :n_own] = rng.standard_normal((3, n_own, n_own))
    y, rng = np.repeat(np.arange(3), n), np.random.default_rng([7, seed])
    X = np.einsum("ni,nij->nj", rng.standard_normal((len(y), D + n_noise)), mixing[y])
    return X + means[y], y


def stacked(X, y, penalties=None):
    model = FFNBClassifier(band_size=0, shared_band_size=0, rank=None).fit(X, y)._state.model
    return ClassGaussians.from_moments(model.moments, np.arange(X.shape[1]), penalties, device=CPU)


def exact_margins(X, y, shrinkage, c=1):
    """Leave each sample of a class out of its mean and covariance; T has all samples."""
    n = int((y == c).sum())
    parts = [X[y == k] for k in range(3)]
    sizes = [len(part) for part in parts]
    pooled = np.average([np.cov(part.T, bias=True) for part in parts], axis=0, weights=sizes)
    variance = np.mean(pooled.diagonal() / PENALTIES)
    shared = pooled + RIDGE * variance * np.diag(PENALTIES)

    def density(x, part, size):
        rho = shrinkage
        if min(sizes) < min(D, 0.5 * np.mean(sizes)):
            # A class of the mean size has the shrinkage itself.
            rho = 1.0 / (1.0 + (1.0 - shrinkage) / shrinkage * size / np.mean(sizes))
        covariance = (1.0 - rho) * np.cov(part.T, bias=True) + rho * shared
        gap = x - part.mean(axis=0)
        return gap @ np.linalg.solve(covariance, gap) + np.linalg.slogdet(covariance)[1]

    found = []
    for i in range(n):
        rest = np.delete(parts[c], i, axis=0)
        others = [density(parts[c][i], parts[k], sizes[k]) for k in range(3) if k != c]
        found.append(np.array(others) - density(parts[c][i], rest, n))
    return np.array(found)


@pytest.mark.parametrize("n", [18, 40, 200])
@pytest.mark.parametrize("shrinkage", [0.01, 0.1, 0.3, 1.0])
def test_margins_are_distributed_as_if_each_sample_is_left_out(n, shrinkage):
    exact, found = [], []
    for seed in range(40):
        X, y = samples(n, gap=0.5, seed=seed)
        # The first class has a third of the samples.
        X, y = X[2 * n // 3 :], y[2 * n // 3 :]
        metric = _Metric(stacked(X, y, PENALTIES), RIDGE)
        draws = torch.randn((200, D + 1), generator=torch.Generator().manual_seed(seed)).double()
        drawn = metric.samples(1, draws[:, :-1])
        margins = metric.margins(1, [0, 2], drawn, draws[:, -1])
        found.append(margins[_SHRINKAGES.index(shrinkage)].numpy())
        exact.append(exact_margins(X, y, shrinkage))
    exact, found = np.concatenate(exact), np.concatenate(found)

    scale = exact.std(axis=0)
    assert_allclose(found.mean(axis=0) / scale, exact.mean(axis=0) / scale, atol=0.12)
    assert_allclose(found.std(axis=0), scale, rtol=0.25)
    quantiles = [np.quantile(one, [0.25, 0.5, 0.75], axis=0) / scale for one in (found, exact)]
    assert_allclose(*quantiles, atol=0.13)


def test_covariances_are_pooled_as_far_as_they_agree():
    own = best_densities(stacked(*samples(60)), range(3))
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 60)
    equal = best_densities(stacked(rng.standard_normal((180, D)) + np.eye(3, D)[y], y), range(3))

    assert own.shrinkage < 0.1
    assert equal.shrinkage == 1.0


def test_classes_far_apart_share_their_covariance():
    rng, y = np.random.default_rng(0), np.repeat(np.arange(3), 60)
    X = rng.standard_normal((180, D)) + 1e3 * np.eye(3, D)[y]

    choice = best_densities(stacked(X, y), range(3))

    assert choice.entropy == 0.0
    assert choice.shrinkage == 1.0


def test_large_classes_of_one_covariance_share_some_of_it():
    found, y = [], np.repeat(np.arange(3), 1500)
    for seed in range(6):
        noise = np.random.default_rng(seed).standard_normal((4500, D)) * np.linspace(0.3, 3.0, D)
        found.append(best_densities(stacked(noise + np.eye(3, D)[y], y), range(3)).shrinkage)

    # The samples of each class are enough for a good covariance of its own.
    assert min(found) >= 0.3


@pytest.mark.parametrize("seed", range(3))
def test_a_few_samples_of_round_classes_shrink_their_covariances_towards_the_identity(seed):
    rng, y = np.random.default_rng(seed), np.repeat(np.arange(3), 16)
    scales = np.array([0.5, 1.0, 2.0])[y, None]

    round_classes = best_densities(stacked(scales * rng.standard_normal((48, D)), y), range(3))

    assert round_classes.shrinkage < 1.0
    assert round_classes.ridge == 3.0


def test_samples_of_a_large_class_near_rare_ones_do_not_raise_the_temperature():
    X, y = make_classification(
        4000, 10, n_informative=6, n_redundant=0, n_classes=3, n_clusters_per_class=1,
        weights=[0.02, 0.05, 0.93], flip_y=0.0, class_sep=1.2, random_state=2,
    )  # fmt: skip

    assert best_densities(stacked(X[:2400], y[:2400]), range(3)).temperature == 1.0


def test_the_order_of_classes_plays_no_part():
    X, y = samples(30)
    orders = [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]]

    found = [best_densities(stacked(X, np.argsort(order)[y]), range(3)) for order in orders]

    assert len({one[:3] for one in found}) == 1
    assert_allclose([one.entropy for one in found], found[0].entropy, rtol=1e-9)


def test_inputs_of_noise_do_not_pool_covariances_that_tell_classes_apart():
    X, y = samples(80, n_own=10, n_noise=38, gap=0.1)
    X_new, y_new = samples(300, n_own=10, n_noise=38, gap=0.1, seed=1)

    assert best_densities(stacked(X, y), range(3)).shrinkage < 0.5
    clf = FFNBClassifier(band_size=0, random_state=0).fit(X, y)
    assert clf._solved_choice().normal
    assert clf.score(X_new, y_new) > 0.8


@pytest.mark.parametrize("n_rare", [2, 8])
def test_a_rare_class_does_not_decide_for_the_others(n_rare):
    X, y = samples(400, seed=2)
    rng = np.random.default_rng(0)
    X_rare = 3.0 + rng.standard_normal((n_rare + 200, D))
    X_new, y_new = samples(300, seed=3)

    clf = FFNBClassifier(band_size=0, random_state=0).fit(X, y)
    alone, choice = clf.score(X_new, y_new), clf._solved_choice()
    clf.partial_fit(X_rare[:n_rare], np.full(n_rare, 3))

    assert 0.5 * choice.shrinkage < clf._solved_choice().shrinkage < choice.shrinkage
    assert clf.score(X_new, y_new) > alone - 0.01
    assert (clf.predict(X_rare[n_rare:]) == 3).mean() > 0.5


def test_samples_of_small_weights_do_not_count_as_many():
    X, y = samples(400, seed=2)
    rng = np.random.default_rng(0)
    weights = np.r_[np.ones(1200), np.full(20, 0.06)]
    X, y = np.r_[X, 3.0 + rng.standard_normal((20, D))], np.r_[y, np.full(20, 3)]

    clf = FFNBClassifier(band_size=0, random_state=0).fit(X, y, sample_weight=weights)

    assert clf._solved_choice().normal
    assert clf._solved_choice().shrinkage < 0.1


@pytest.mark.parametrize(
    ("n", "n_inputs", "is_normal"),
    [(19, 12, False), (20, 12, True), (39, 40, False), (41, 40, True)],
)
def test_small_classes_need_five_samples_per_input_in_total_and_others_three(
    n, n_inputs, is_normal
):
    X, y = samples(n, n_noise=n_inputs - D)

    clf = FFNBClassifier(band_size=0, random_state=0).fit(X, y)

    assert clf._solved_choice().normal is is_normal


@pytest.mark.parametrize("n", [2, 7])
def test_classes_of_fewer_samples_than_inputs_have_the_margins_of_all_axes(n):
    gaussians = stacked(*samples(n), penalties=PENALTIES)
    # Residuals of rounding size have all axes decomposed.
    dense = replace(gaussians, residuals=torch.full_like(gaussians.residuals, 1e-14))
    draws = torch.randn((20, D + 1), generator=torch.Generator().manual_seed(0)).double()

    metrics = [_Metric(one, RIDGE) for one in (gaussians, dense)]
    found, expected = (
        one.margins(1, [0, 2], one.samples(1, draws[:, :-1]), draws[:, -1]) for one in metrics
    )

    assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def truncated_classes(n_axes, share):
    """Classes of 200 samples that have the diagonal covariance 1, but for the first three inputs.

    The axes along the first inputs are kept; `share` is the part of their variances in the rows.
    """
    scatters = torch.full((4, D), 200.0, dtype=torch.float64)
    scatters[range(4), [0, 1, 2, 0]] = torch.tensor([400.0, 800.0, 100.0, 200.0]).double()
    kept = scatters.clone()
    kept[:, :n_axes] *= share
    kept[:, n_axes:] = 0.0
    return ClassGaussians(
        weights=torch.full((4,), 200.0, dtype=torch.float64),
        counts=torch.full((4,), 200.0, dtype=torch.float64),
        means=torch.eye(4, D, dtype=torch.float64),
        rows=torch.cat([one.sqrt().diag()[:n_axes] for one in kept]),
        lengths=(n_axes,) * 4,
        residuals=scatters - kept,
        penalties=torch.ones(D, dtype=torch.float64),
        energies=kept,
        gram=None,
    )


@pytest.mark.parametrize(("n_axes", "share"), [(D, 0.5), (D, 0.01), (3, 1.0)])
def test_covariances_include_what_the_axes_leave_out(n_axes, share):
    truncated, whole = (
        _Metric(truncated_classes(*one), RIDGE)._spectrum(1)[0]
        for one in [(n_axes, share), (D, 1.0)]
    )

    assert_allclose(truncated, whole, rtol=1e-12)


def test_temperature_grows_where_covariances_are_uncertain():
    few, many = (best_densities(stacked(*samples(n, gap=0.2)), range(3)) for n in (20, 2000))

    assert few.temperature > 1.0 >= many.temperature


def test_densities_that_are_too_flat_have_a_temperature_below_one(monkeypatch):
    monkeypatch.setattr(left_out_densities, "_RIDGES", (3.0,))

    assert best_densities(stacked(*samples(200)), range(3)).temperature < 1.0
