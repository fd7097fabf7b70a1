"""One task after another without bands: moments of the classes, and what predictions keep."""

from dataclasses import replace

import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core import prediction
from tests.core.small_models import CPU, SETTINGS, D, empty, learn, learnt, task

PLAIN = replace(SETTINGS, band_size=0)


def test_a_task_of_new_classes_adds_their_moments_and_no_neuron():
    before = learnt([task(0, 1)], PLAIN)

    after = learn(before, task(2), PLAIN)

    assert after.trained is None
    assert after.features is before.features
    assert after.moments[:2] == before.moments
    assert after.moments[2].weight == pytest.approx(float(task(2).weights.sum()))


def test_known_classes_alone_change_their_moments_alone():
    model = learnt([task(0, 1)], PLAIN)

    again = learn(model, task(0, seed=1), PLAIN)

    assert again.moments[0].weight > model.moments[0].weight
    assert again.moments[1] is model.moments[1]


@pytest.mark.parametrize("classifier", ["gaussian", "ovo", "ova"])
def test_the_model_is_a_function_of_the_set_of_samples(classifier):
    settings = replace(PLAIN, classifier=classifier, shrinkage=None, epsilon=None)
    whole = task(0, 1, 2)
    parts = []
    for rows in ([0, 1, 8, 9, 16, 17], list(range(18, 24)), [*range(2, 8), *range(10, 16)]):
        rows = rows[::-1]
        parts.append(replace(whole, samples=whole.X[rows], classes=whole.classes[rows]))
        parts[-1] = replace(parts[-1], weights=whole.weights[rows])

    models = [learnt(tasks, settings) for tasks in ([whole], parts)]

    together, divided = (prediction.scores(model, whole.X) for model in models)
    assert_allclose(divided, together, rtol=1e-8, atol=1e-8)


def test_learning_leaves_the_model_it_started_from_as_it_was():
    model, X = learnt([task(0, 1)], PLAIN), task(5).X
    before = prediction.scores(model, X).clone()

    learn(model, task(2, 3), PLAIN)
    learn(model, task(0, seed=1), PLAIN)

    assert torch.equal(prediction.scores(model, X), before)


@pytest.mark.parametrize("band_size", [0, 1])
def test_the_choice_before_a_task_stays_only_if_a_later_one_may_follow_it(band_size):
    settings = replace(SETTINGS, band_size=band_size, refresh=1.0)
    model = learnt([task(0, 1)], settings)
    solution = prediction.solve_once(model, CPU)

    kept = learn(model, task(0, seed=1), settings)

    assert kept.earlier.solution is solution
    assert kept.chosen_from[1] is None
    former = model.classifier_moments([0, 1])
    for one, other in zip(kept.moments_of_choice(), former, strict=True):
        assert one.equals(other)
    for one, parameters in (
        (task(0, seed=1), replace(settings, refresh=0.0)),
        (task(0, seed=1), replace(settings, shrinkage=0.5)),
        (task(0, n=40), settings),
        (task(2), settings),
    ):
        anew = learn(kept, one, parameters)
        assert anew.earlier is None
        assert anew.chosen_from == ()


@pytest.mark.parametrize("band_size", [0, 1])
def test_samples_are_scored_as_left_out_only_for_novelty(band_size):
    settings = replace(SETTINGS, band_size=band_size)

    scored = learnt([task(0, 1), task(2)], settings, novelty=True)

    assert [len(likeness.values) for likeness in scored.left_out] == [8, 8, 8]
    assert learnt([task(0, 1), task(2)], settings).left_out == ()


def test_a_first_task_begins_with_the_shared_neurons_of_an_empty_model():
    start = empty(D, PLAIN)

    assert learn(start, task(0), PLAIN).features is start.features
