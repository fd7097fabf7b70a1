"""The classifier that follows from what is learnt."""

from dataclasses import replace

import numpy as np
import pytest

from ffnb_sklearn.core.classifier.fisher import PairwiseFisher
from ffnb_sklearn.core.classifier.one_vs_all import OneVsAllRidge
from ffnb_sklearn.core.classifier.shortlist import ShortlistFisher
from ffnb_sklearn.core.classifier.solve import n_classifier_weights, solve
from ffnb_sklearn.core.linalg import IllConditionedWarning, NotPositiveDefiniteError
from ffnb_sklearn.core.model import empty_model
from tests.core.small_models import CPU, SETTINGS, D, learnt, task

KINDS = {
    "all pairs": ({}, PairwiseFisher),
    "as many listed as there are": ({"shortlist": 4}, PairwiseFisher),
    "a shortlist": ({"shortlist": 3}, ShortlistFisher),
    "one against all": ({"classifier": "ova"}, OneVsAllRidge),
    "no shortlist of one against all": ({"classifier": "ova", "shortlist": 3}, OneVsAllRidge),
}


def solved(model, moments=None, **changes):
    moments = model.moments if moments is None else moments
    return solve(model.features, moments, replace(model.settings, **changes), device=CPU).classifier


@pytest.mark.parametrize(("changes", "kind"), KINDS.values(), ids=KINDS)
def test_the_classifier_is_of_the_kind_chosen(changes, kind):
    model = learnt([task(0, 1), task(2, 3)], **changes)

    assert isinstance(solved(model), kind)
    assert isinstance(model.solution(CPU).classifier, kind)


@pytest.mark.parametrize(("changes", "kind"), KINDS.values(), ids=KINDS)
def test_weights_are_counted_as_they_are_solved(changes, kind):
    model = learnt([task(0, 1), task(2, 3)], **changes)

    counted = n_classifier_weights(model.features, model.moments, model.settings)

    found = solved(model)
    if kind is ShortlistFisher:
        # Zeros behind the rows, and rows of a class against itself, are no weights.
        width = found.solved_rows.shape[1]
        n_rows = sum(len(one.factor) for one in model.moments)
        assert n_rows == 4 * width
        tables = (found.solved_means, found.solved_rows, found.coefficients, found.offsets)
        assert counted == sum(one.size for one in tables) - n_rows
    else:
        assert counted == found.planes.size + found.offsets.size


def test_no_class_has_no_weights():
    assert n_classifier_weights(empty_model(D, SETTINGS, 3).features, (), SETTINGS) == 0


@pytest.mark.parametrize("shortlist", [None, 2])
def test_a_warning_comes_once(shortlist):
    model = learnt([task(0, 1, 2)], band_size=0, p=(0.5,))
    # Many rows along few axes, and a ridge that is nothing beside them.
    moments = [replace(one, blocks=(np.tile(one.factor[:1], (9, 1)),)) for one in model.moments]

    with pytest.warns(IllConditionedWarning) as warned:
        solved(model, moments, shortlist=shortlist, shrinkage=1.0, epsilon=1e-30)

    assert len(warned) == 1


@pytest.mark.parametrize("shortlist", [None, 2])
def test_moments_that_are_no_numbers_are_refused(shortlist):
    model = learnt([task(0, 1, 2)], band_size=0, p=(0.5,))
    moments = [replace(one, residual=np.nan * one.residual) for one in model.moments]

    with pytest.raises(NotPositiveDefiniteError, match="NaN"):
        solved(model, moments, shortlist=shortlist)
