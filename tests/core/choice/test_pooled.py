"""Cross-entropies of left-out samples of the pooled discriminant."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import log_softmax

from ffnb_sklearn.core.choice import pooled
from ffnb_sklearn.core.choice.pooled import Judge, first_of_least, normal_draws
from ffnb_sklearn.core.gaussians import ClassGaussians
from ffnb_sklearn.core.moments import moments_of
from tests.core.small_models import CPU

D, RIDGE = 12, 0.5


def stacked(X, y, rank=None, penalties=None, weight=1.0, seed=0):
    moments = []
    for c in range(int(y.max()) + 1):
        rows = torch.as_tensor(X[y == c])
        moments.append(moments_of([(rows, rows.new_full((len(rows),), weight))], rank))
    columns = np.arange(X.shape[1])
    return ClassGaussians.from_moments(moments, columns, penalties, device=CPU, seed=seed)


def entropy_of(X, y, rank=None, epsilon=1.0, weight=1.0, seed=0):
    gaussians = stacked(X, y, rank, weight=weight, seed=seed)
    base, judge = gaussians.shared_covariance(1.0, epsilon), Judge(gaussians)
    return judge.cross_entropy(judge.metric(base))[0]


def pooled_of(X, y, gaussians, ridge, n_total=None):
    """The pooled covariance with a ridge; a left-out sample lowers the scatter, not its weight."""
    scatter = sum(np.cov(X[y == c].T, bias=True) * (y == c).sum() for c in np.unique(y))
    variance = float(gaussians.pooled_variance)
    return scatter / (n_total or len(y)) + ridge * variance * np.diag(gaussians.penalties)


def linear_samples(n, n_classes=4, d=10, gap=0.6, seed=3):
    """Classes of one covariance."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n)
    noise = rng.standard_normal((len(y), d)) * np.linspace(0.5, 2.0, d)
    return noise + gap * rng.standard_normal((n_classes, d))[y], y


# Linear candidates.


@pytest.mark.parametrize("d", [5, 60])
def test_distances_of_a_left_out_sample_are_those_of_the_refitted_discriminant(d, monkeypatch):
    X, y = linear_samples(30, n_classes=2, d=d)
    # The samples of a class of two lie at its mean plus and minus one vector.
    X, y = X[28:], y[28:]
    draws = torch.tensor([[1.0], [-1.0]]).double()
    monkeypatch.setattr(pooled, "normal_draws", lambda *_: draws)
    penalties = np.linspace(0.2, 3.0, d)
    gaussians = stacked(X, y, penalties=penalties)
    base, judge = gaussians.shared_covariance(1.0, RIDGE), Judge(gaussians)
    margins = []
    monkeypatch.setattr(judge, "least_cross_entropy", lambda one: margins.extend(one))

    judge.cross_entropy(judge.metric(base))

    expected = []
    for i in range(2):
        kept = np.arange(len(y)) != i
        X_kept, y_kept = X[kept], y[kept]
        scatter = pooled_of(X_kept[1:], y_kept[1:], gaussians, RIDGE, len(y))
        inverse = np.linalg.inv(scatter)
        gaps = [X[i] - X_kept[y_kept == c].mean(axis=0) for c in range(2)]
        own, other = (gap @ inverse @ gap for gap in gaps)
        expected.append(0.5 * (other - own))
    of_first_class = margins[judge.classes.index(0)][:, 0]
    assert_allclose(np.sort(of_first_class), np.sort(expected), rtol=1e-8)


def mean_loss(X, y, ridge, temperature):
    """Log-loss of samples that are really left out of the pooled discriminant."""
    gaussians, losses = stacked(X, y), []
    for i in range(len(y)):
        kept = np.arange(len(y)) != i
        inverse = np.linalg.inv(pooled_of(X[kept], y[kept], gaussians, ridge, len(y)))
        gaps = X[i] - np.stack([X[kept & (y == c)].mean(axis=0) for c in np.unique(y)])
        logits = -0.5 * np.einsum("ci,ij,cj->c", gaps, inverse, gaps)
        losses.append(-log_softmax(logits / temperature)[y[i]])
    return np.mean(losses)


# The mean squared length of all samples flatters a few samples of many features.
@pytest.mark.parametrize(("n", "d", "rtol"), [(6, 10, 0.15), (6, 40, 0.3), (20, 10, 0.15)])
def test_the_cross_entropy_is_that_of_real_left_out_samples(n, d, rtol):
    found, real, others = [], [], []
    for seed in range(6):
        X, y = linear_samples(n, d=d, seed=seed)
        gaussians = stacked(X, y)
        base, judge = gaussians.shared_covariance(1.0, RIDGE), Judge(gaussians)
        entropy, temperature = judge.cross_entropy(judge.metric(base))
        found.append(entropy)
        losses = [mean_loss(X, y, RIDGE, factor * temperature) for factor in (1.0, 0.25, 4.0)]
        real.append(losses[0])
        others.append(losses[1:])

    assert np.mean(found) == pytest.approx(np.mean(real), rel=rtol)
    # No other temperature is better.
    assert np.mean(others, axis=0).min() > np.mean(real)


def test_order_unit_and_origin_of_the_samples_play_no_part():
    X, y = linear_samples(5, n_classes=15)
    expected = entropy_of(X, y)

    order = np.random.default_rng(0).permutation(15)
    for rows, labels in [(X, order[y]), (1e70 * X, y), (1e-70 * X, y), (X + 100.0, y)]:
        assert_allclose(entropy_of(rows, labels), expected, rtol=1e-8)


def test_draws_follow_the_seed():
    X, y = linear_samples(10)

    assert entropy_of(X, y) == entropy_of(X, y) != entropy_of(X, y, seed=1)
    assert_allclose(entropy_of(X, y), entropy_of(X, y, seed=1), rtol=0.1)


def test_draws_are_standard_normal_pairs():
    draws = normal_draws(3, 4, CPU, 512)

    assert torch.equal(draws[512:], -draws[:512])
    normal_draws.cache_clear()
    assert torch.equal(draws, normal_draws(3, 4, CPU, 512))
    assert not torch.equal(draws, normal_draws(4, 4, CPU, 512))
    assert_allclose(draws.T @ draws / 1024, np.eye(4), atol=0.06)
    assert_allclose((draws**4).mean(0), 3.0, rtol=0.1)


@pytest.mark.parametrize("sizes", [(1,), (5,), (1, 1)], ids=str)
def test_nothing_is_judged_without_an_opponent_or_a_second_sample(sizes):
    y = np.repeat(np.arange(len(sizes)), sizes)
    gaussians = stacked(np.random.default_rng(0).standard_normal((len(y), 3)), y)
    base, judge = gaussians.shared_covariance(1.0, 1.0), Judge(gaussians)

    assert judge.cross_entropy(judge.metric(base)) == (0.0, 1.0)


def test_ten_classes_of_many_are_judged_and_none_of_a_single_sample():
    X, y = linear_samples(3, n_classes=30)
    kept = (y >= 10) | (np.arange(len(y)) % 3 == 0)

    classes = Judge(stacked(X[kept], y[kept])).classes

    assert len(set(classes)) == 10
    assert min(classes) >= 10


def curved(X, n_neurons=120):
    """Random rectified neurons, as those of the shared band."""
    rows = np.random.default_rng(3).standard_normal((n_neurons, X.shape[1]))
    return np.abs(X @ rows.T)


def wide_samples(n, d=50, gap=0.55):
    """Classes of one covariance with a wide spectrum, and means along its axes."""
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), n)
    means, noise = rng.standard_normal((4, d)), rng.standard_normal((len(y), d))
    return (gap * means[y] + noise) * np.geomspace(1.0, 0.1, d), y


@pytest.mark.parametrize("features_of", [np.asarray, curved])
def test_truncated_classes_are_judged_as_if_they_had_all_axes(features_of):
    X, y = wide_samples(60)
    features = features_of(X)

    assert entropy_of(features, y, 45) == pytest.approx(entropy_of(features, y), rel=0.3)


@pytest.mark.parametrize("rank", [10, 64])
def test_repeated_samples_have_fewer_axes_than_samples_and_lose_none(rank):
    X, y = wide_samples(11)
    X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)

    assert entropy_of(X, y, rank) == pytest.approx(entropy_of(X, y))


def test_equal_samples_have_no_cross_entropy():
    X = np.repeat(np.eye(4), 5, axis=0)

    assert entropy_of(X, np.repeat(np.arange(4), 5), 2) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("rank", [None, 5])
def test_a_ridge_that_is_only_rounding_leaves_finite_numbers(rank):
    X, y = wide_samples(20)

    assert np.isfinite(entropy_of(curved(X), y, rank, epsilon=1e-20))


def test_small_weights_do_not_make_samples_look_perfect():
    X, y = wide_samples(200, d=100)
    features = curved(X)

    found = entropy_of(features, y, 64, weight=1.0 / len(X))
    assert found > 0.3 * entropy_of(features, y, 64)


@pytest.mark.parametrize("n_classes", [4, 24])
def test_classes_at_equal_distances_are_judged_the_same_in_any_order(n_classes):
    # The means are the corners of a simplex, and only rounding tells their distances apart.
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), 8)
    noise = rng.standard_normal((8, n_classes)) * np.linspace(0.3, 3.0, n_classes)
    X = 3.0 * np.eye(n_classes)[y] + np.tile(noise - noise.mean(axis=0), (n_classes, 1))
    found = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(n_classes)
        gaussians = stacked(X, order[y])
        base, judge = gaussians.shared_covariance(1.0, 0.7), Judge(gaussians)
        entropy, _ = judge.cross_entropy(judge.metric(base))
        judged = set(np.argsort(order)[judge.classes].tolist())
        found.append((entropy, judged))

    assert all(judged == found[0][1] for _, judged in found)
    assert_allclose([entropy for entropy, _ in found], found[0][0], rtol=1e-9)


def test_rounding_of_cross_entropies_does_not_choose_between_candidates():
    assert first_of_least([0.5, 0.2 + 1e-12, 0.2]) == 1
    assert first_of_least([0.5, 0.2 + 1e-5, 0.2]) == 2
    assert first_of_least([0.0, 1e-17, 0.0]) == 0
