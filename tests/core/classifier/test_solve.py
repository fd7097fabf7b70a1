"""The classifier that follows from what is learnt."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core.classifier.fisher import PairwiseFisher
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.classifier.one_vs_all import OneVsAllRidge
from ffnb_sklearn.core.classifier.solve import n_classifier_weights, solve
from ffnb_sklearn.core.classifier.typical import typical_samples
from ffnb_sklearn.core.features.feature_map import classifier_columns
from ffnb_sklearn.core.linalg import IllConditionedWarning, NotPositiveDefiniteError
from ffnb_sklearn.core.model import empty_model
from tests.core.small_models import CPU, SETTINGS, D, learnt, task

KINDS = {
    "all pairs": ({}, PairwiseFisher),
    "one against all": ({"classifier": "ova"}, OneVsAllRidge),
}


def solved(model, moments=None, **changes):
    moments = model.moments if moments is None else moments
    return solve(model.features, moments, replace(model.settings, **changes), device=CPU).classifier


@pytest.mark.parametrize(("changes", "kind"), KINDS.values(), ids=KINDS)
def test_the_classifier_is_of_the_kind_chosen(changes, kind):
    model = learnt([task(0, 1), task(2, 3)], **changes)

    assert isinstance(solved(model), kind)
    assert isinstance(model.solution(CPU).classifier, kind)


@pytest.mark.parametrize("changes", [changes for changes, _ in KINDS.values()], ids=KINDS)
def test_weights_are_counted_as_they_are_solved(changes):
    model = learnt([task(0, 1), task(2, 3)], **changes)

    counted = n_classifier_weights(model.features, model.moments, model.settings)

    found = solved(model)
    assert counted == found.planes.size + found.offsets.size


@pytest.mark.parametrize("head", ["ovo", "ova", "gaussian"])
def test_an_absolute_ridge_of_a_class_is_half_of_that_of_a_pair(head):
    # Exact moments without a skip connection: the features all weigh the same.
    model = learnt([task(0, 1), task(2, 3)], skip_connection=False, band_size=0, p=(0.5,))
    columns = classifier_columns(model.features, False)
    variance = ClassGaussians.from_moments(model.moments, columns, device=CPU).pooled_variance()

    absolute = solved(model, classifier=head, units="absolute", epsilon=0.6)
    relative = solved(model, classifier=head, epsilon=0.3 / float(variance))

    assert_allclose(absolute.planes, relative.planes, rtol=1e-9, atol=1e-12)
    assert_allclose(absolute.offsets, relative.offsets, rtol=1e-9, atol=1e-12)


def test_no_class_has_no_weights():
    assert n_classifier_weights(empty_model(D, SETTINGS, 3).features, (), SETTINGS) == 0


def test_a_warning_comes_once():
    model = learnt([task(0, 1, 2)], band_size=0, p=(0.5,))
    # Many rows along few axes, and a ridge that is nothing beside them.
    moments = [replace(one, blocks=(np.tile(one.factor[:1], (9, 1)),)) for one in model.moments]

    with pytest.warns(IllConditionedWarning) as warned:
        solved(model, moments, shrinkage=1.0, epsilon=1e-30)

    assert len(warned) == 1


def test_moments_that_are_no_numbers_are_refused():
    model = learnt([task(0, 1, 2)], band_size=0, p=(0.5,))
    moments = [replace(one, residual=np.nan * one.residual) for one in model.moments]

    with pytest.raises(NotPositiveDefiniteError, match="NaN"):
        solved(model, moments)


@pytest.mark.parametrize("rank", [None, 3])
def test_weights_of_distances_are_counted_as_they_are_solved(rank):
    tasks = [task(0, n=2), task(1, n=40)]
    tasks = [replace(one, weights=torch.ones_like(one.weights)) for one in tasks]
    model = learnt(tasks, classifier="gaussian", rank=rank, band_size=0, p=(0.5,))

    found = solved(model)

    counted = n_classifier_weights(model.features, model.moments, model.settings)
    parts = (found.centre, found.planes, found.offsets, found.rows, found.shifts)
    assert counted == sum(one.size for one in parts)


@pytest.mark.parametrize(
    ("changes", "fitted"),
    [
        ({}, True),
        ({"shrinkage": 1.0}, False),
        ({"covariance": "identity", "shrinkage": 0.0}, False),
    ],
    ids=str,
)
def test_typical_samples_serve_classes_with_covariances_of_their_own(changes, fitted, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "ffnb_sklearn.core.classifier.solve.typical_samples",
        lambda *of, **how: drawn.append(of) or typical_samples(*of, **how),
    )
    given = {"classifier": "gaussian", "shrinkage": 0.3, "epsilon": 0.3, **changes}
    model = learnt([task(0, 1), task(2, 3)], band_size=0)

    solved(model, **given)
    # A single class is certain, and with many classes the samples would change little.
    solved(model, model.moments[:1], **given)
    solved(model, 9 * model.moments, **given)

    assert len(drawn) == fitted
