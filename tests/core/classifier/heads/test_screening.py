"""Predictions in single precision: certain classes are those of double precision."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier.heads import screening
from ffnb_sklearn.core.classifier.heads.distances import GaussianDistances
from ffnb_sklearn.core.classifier.heads.screening import certain_classes

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


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_certain_classes_are_those_of_double_precision(scale):
    distances, x = drawn_distances(scale), drawn_samples(scale=scale)
    found = certain_classes(distances, x)
    certain = found >= 0
    assert certain.double().mean() > 0.95
    assert_array_equal(found[certain], distances.log_ratios(x).argmax(1)[certain])


def test_the_bound_exceeds_the_errors_of_single_precision():
    distances, x = drawn_distances(), drawn_samples()
    exact, rough = (distances.terms(x, one)[0] for one in (torch.float64, torch.float32))
    # A second class that is ahead or behind by the largest error of all must not be certain.
    error = float((exact - rough).abs().max())
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
    assert (certain_classes(twins, x)[best == last + 1] == -1).all()


def test_values_beyond_single_precision_are_not_certain():
    distances, x = drawn_distances(1e-60), drawn_samples(scale=1e-60)
    assert (certain_classes(distances, x) == -1).all()


def test_nothing_is_certain_for_few_samples_or_without_axes():
    distances, x = drawn_distances(), drawn_samples()
    assert (certain_classes(distances, x[: screening._FEWEST_SAMPLES - 1]) == -1).all()
    assert (certain_classes(drawn_distances(lengths=(0, 0)), x) == -1).all()


def lower_by_one_call():
    torch.set_float32_matmul_precision("medium")


def lower_for_all():
    torch.backends.fp32_precision = "bf16"


def lower_for_products():
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"


@pytest.mark.parametrize("lower", [lower_by_one_call, lower_for_all, lower_for_products])
def test_nothing_is_certain_if_the_precision_of_products_is_lowered(lower):
    distances, x = drawn_distances(), drawn_samples()
    assert (certain_classes(distances, x) >= 0).any()
    lower()
    try:
        assert (certain_classes(distances, x) == -1).all()
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.backends.fp32_precision = "none"
        torch.backends.mkldnn.matmul.fp32_precision = "none"
    assert (certain_classes(distances, x) >= 0).any()


@pytest.mark.parametrize("labels", [(0, 1, 2), (2, 1, 0)], ids=["ascending", "descending"])
def test_predictions_are_the_labels_of_the_highest_scores(labels):
    rng = np.random.default_rng(0)
    clf = FFNBClassifier(shared_band_size=50, band_size=0, random_state=0)
    for label in labels:
        clf.partial_fit(rng.standard_normal((60, 5)) + 0.2 * label, np.full(60, label))
    X = rng.standard_normal((300, 5)) + 0.2
    predicted = clf.predict(X)
    assert_array_equal(predicted, clf.decision_function(X).argmax(axis=1))
    assert set(predicted) == {0, 1, 2}
    # Samples in small parts are never predicted in single precision.
    assert_array_equal(predicted, np.concatenate([clf.predict(part) for part in np.split(X, 60)]))
