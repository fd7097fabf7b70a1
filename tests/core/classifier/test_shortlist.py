"""Pairs among the listed classes, against the hyperplanes of all pairs."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.classifier import shortlist
from ffnb_sklearn.core.classifier.fisher import fit_pairwise
from ffnb_sklearn.core.classifier.shortlist import fit_shortlist
from ffnb_sklearn.core.statistics import moments_of
from tests.core.classifier.test_fisher import classes, gaussians_of

D = 7
ONES = torch.ones(3, dtype=torch.float64)
WAYS = [("class", 0.4), ("class", 0.0), ("class", 1.0), ("identity", 0.4)]


def both(n_listed, covariance="class", shrinkage=0.4, residual=0.1, penalties=None):
    """The classifier, and that of all pairs."""
    moments = classes(D, residual)
    penalties = np.ones(D) if penalties is None else penalties
    options = {"covariance": covariance, "shrinkage": shrinkage, "epsilon": 0.1}
    gaussians = gaussians_of(moments, penalties)
    listed = fit_shortlist(gaussians, **options, n_listed=n_listed)
    return listed, fit_pairwise(gaussians, **options)


def samples(n=40):
    return torch.as_tensor(3.0 * np.random.default_rng(5).normal(size=(n, D)))


@pytest.mark.parametrize(("covariance", "shrinkage"), WAYS)
def test_with_all_classes_listed_scores_are_those_of_all_pairs(covariance, shrinkage):
    penalties = np.random.default_rng(1).uniform(0.5, 4.0, size=D)
    listed, full = both(6, covariance, shrinkage, penalties=penalties)

    assert_allclose(listed.scores(samples()), full.scores(samples()), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("covariance", "shrinkage"), WAYS)
def test_listed_classes_meet_each_other_and_the_rest_on_average(covariance, shrinkage):
    listed, full = both(3, covariance, shrinkage)
    X = samples()

    scores = listed.scores(X).numpy()

    linear = X.numpy() @ full.planes.T + full.offsets
    t, r = np.tril_indices(6, -1)
    pairs = np.zeros((len(X), 6, 6))
    pairs[:, t, r], pairs[:, r, t] = linear, -linear
    ranks = np.argsort(-pairs.sum(2), axis=1)
    for outputs, rank, row in zip(pairs, ranks, scores, strict=True):
        mine, rest = rank[:3], rank[3:]
        others = np.tanh(outputs[np.ix_(mine, rest)].mean(1))
        expected = np.full(6, -others.sum())
        expected[mine] = np.tanh(outputs[np.ix_(mine, mine)]).sum(1) + 3.0 * others
        assert_allclose(row, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e20])
@pytest.mark.parametrize("repetitions", [1, 3])
def test_classes_without_spread_in_any_unit(unit, repetitions):
    rng = np.random.default_rng(0)
    X = unit * rng.normal(size=(6, D))
    moments = [
        moments_of([(torch.as_tensor(X[[t] * repetitions]), ONES[:repetitions])]) for t in range(6)
    ]
    gaussians = gaussians_of(moments, np.ones(D))
    options = {"covariance": "class", "shrinkage": 0.0, "epsilon": 1.0}
    listed = fit_shortlist(gaussians, **options, n_listed=6)
    full = fit_pairwise(gaussians, **options)

    near = torch.as_tensor(X + 0.1 * unit * rng.normal(size=(6, D)))
    assert_allclose(listed.scores(near), full.scores(near), rtol=1e-8, atol=1e-8)
    few = fit_shortlist(gaussians, **options, n_listed=2)
    assert_array_equal(few.scores(near).argmax(1), np.arange(6))


def test_scores_sum_to_zero():
    assert_allclose(both(4)[0].scores(samples()).sum(1), 0.0, atol=1e-9)


def test_the_size_of_the_chunks_does_not_matter(monkeypatch):
    listed, _ = both(4)
    at_once = listed.scores(samples())

    monkeypatch.setattr(shortlist, "_SCORE_BYTES", 8 * 16 * 7)

    assert_allclose(listed.scores(samples()), at_once, rtol=1e-12, atol=1e-12)


def test_no_samples_have_no_scores():
    assert both(4)[0].scores(samples(0)).shape == (0, 6)
