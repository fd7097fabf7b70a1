"""Predictions in single precision are those of double precision."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.core.heads.distances import GaussianDistances, is_exact

D = 40


def drawn_distances(scale=1.0, lengths=(3, 0, 12, 5), seed=0):
    """Distances with random planes and axes, of a size that keeps the responses at any scale."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((sum(lengths), D)) / scale
    planes = rng.standard_normal((len(lengths), D)) / scale
    centre, offsets = scale * rng.standard_normal(D), rng.standard_normal(len(lengths))
    shifts = rng.standard_normal(len(rows))
    return GaussianDistances(centre, planes, offsets, rows, shifts, lengths, 1.0, 0.1)


def drawn_samples(n=400, scale=1.0):
    return torch.as_tensor(scale * np.random.default_rng(1).standard_normal((n, D)))


def possible_of(distances, x):
    return distances.possible_classes(distances.subtract_centre(x))


@pytest.mark.parametrize("scale", [1e-60, 1e-30, 1.0, 1e30])
def test_the_most_likely_classes_are_those_of_double_precision(scale):
    distances, x = drawn_distances(scale), drawn_samples(scale=scale)
    best = distances.log_ratios(x).argmax(1)
    possible = possible_of(distances, x)
    assert possible[torch.arange(len(x)), best].all()
    # Values beyond single precision exclude no class.
    assert (possible.sum(1) == 1).double().mean() > 0.95 or (scale == 1e-60 and possible.all())
    assert_array_equal(distances.most_likely(x, torch.arange(4)), best)


@pytest.mark.parametrize("part", ["linear terms", "squared lengths"])
def test_the_bound_exceeds_the_errors_of_single_precision(part):
    distances, x = drawn_distances(), drawn_samples()
    if part == "linear terms":
        distances = replace(distances, planes=100.0 * distances.planes, rows=1e-3 * distances.rows)
    centred = distances.subtract_centre(x)
    linear, squares = distances.terms(centred)
    rough_linear, rough_squares = distances._products(centred.float(), distances.single_weights)
    # A second class that is ahead or behind by the largest error of all must stay possible.
    error = 0.5 * float((squares - rough_squares).abs().max())
    if part == "linear terms":
        error = float((linear - rough_linear).abs().max())
    assert error > 0.0
    last = len(distances.planes) - 1
    axes = slice(sum(distances.lengths[:-1]), None)
    twins = replace(
        distances,
        planes=np.vstack([distances.planes, distances.planes[last]]),
        offsets=np.append(distances.offsets, distances.offsets[last] + error),
        rows=np.vstack([distances.rows, distances.rows[axes]]),
        shifts=np.append(distances.shifts, distances.shifts[axes]),
        lengths=(*distances.lengths, distances.lengths[-1]),
    )
    best = twins.log_ratios(x).argmax(1)
    assert (best == last + 1).any()
    assert (possible_of(twins, x)[best == last + 1][:, last:]).all()
    assert_array_equal(twins.most_likely(x, torch.arange(last + 2)), best)


def test_equal_classes_are_told_apart_by_their_order():
    distances, x = drawn_distances(lengths=(5, 5, 5)), drawn_samples()
    same = {
        name: np.concatenate(
            [getattr(distances, name)[: getattr(distances, name).shape[0] // 3]] * 3
        )
        for name in ("planes", "offsets", "rows", "shifts")
    }
    found = replace(distances, **same).most_likely(x, torch.tensor([2, 0, 1]))
    assert_array_equal(found, np.full(len(x), 2))


def test_linear_terms_beyond_single_precision_exclude_no_class():
    distances, x = drawn_distances(), drawn_samples()
    planes = distances.planes.copy()
    planes[1] *= 1e38
    large = replace(distances, planes=planes)
    linear, _ = large._products(large.subtract_centre(x).float(), large.single_weights)
    assert {-np.inf, np.inf} <= set(linear[:, 1].tolist())
    best = large.log_ratios(x).argmax(1)
    assert possible_of(large, x)[torch.arange(len(x)), best].all()
    assert_array_equal(large.most_likely(x, torch.arange(4)), best)


def test_few_samples_are_screened_by_many_axes_alone(monkeypatch):
    distances, x = drawn_distances(), drawn_samples(63)
    order = torch.arange(4)
    labels = distances.most_likely(x, order)
    assert "single_weights" not in vars(distances)
    monkeypatch.setattr(
        "ffnb_sklearn.core.heads.distances.NUMBERS_TOGETHER", len(distances.rows) * D
    )
    assert_array_equal(distances.most_likely(x[:1], order), labels[:1])
    assert "single_weights" in vars(distances)
    assert_array_equal(distances.most_likely(x, order), labels)


def lower_by_one_call():
    torch.set_float32_matmul_precision("medium")


def lower_for_all():
    torch.backends.fp32_precision = "bf16"


def lower_for_products():
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"


@pytest.mark.parametrize("lower", [lower_by_one_call, lower_for_all, lower_for_products])
def test_nothing_is_screened_if_the_precision_of_products_is_lowered(lower):
    x = drawn_samples()
    assert is_exact(x)
    lower()
    try:
        assert not is_exact(x)
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.backends.fp32_precision = "none"
        torch.backends.mkldnn.matmul.fp32_precision = "none"
    assert is_exact(x)


@pytest.mark.parametrize("labels", [(0, 1, 2), (2, 1, 0)], ids=["ascending", "descending"])
def test_predictions_are_the_labels_of_the_highest_scores(labels):
    rng = np.random.default_rng(0)
    clf = IncrementalDiscriminantAnalysis(shared_band_size=50, random_state=0)
    for label in labels:
        clf.partial_fit(rng.standard_normal((60, 5)) + 0.2 * label, np.full(60, label))
    X = rng.standard_normal((300, 5)) + 0.2
    predicted = clf.predict(X)
    assert_array_equal(predicted, clf.decision_function(X).argmax(axis=1))
    assert set(predicted) == {0, 1, 2}
    # Few samples are not predicted in single precision.
    assert_array_equal(predicted, np.concatenate([clf.predict(part) for part in np.split(X, 60)]))
