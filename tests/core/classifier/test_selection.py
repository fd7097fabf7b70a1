"""What is left open in the settings, chosen by leave-one-out error of the moments."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core.classifier.fisher import fit_pairwise
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.classifier.leave_one_out import LeaveOneOut
from ffnb_sklearn.core.classifier.selection import Choice, choose, with_choice
from ffnb_sklearn.core.features.feature_map import classifier_blocks, classifier_columns
from ffnb_sklearn.core.learning import learn
from ffnb_sklearn.core.model import Task, empty_model
from tests.core.small_models import CPU, SETTINGS

OPEN = replace(
    SETTINGS, p=(0.9,), band_size=0, shared_band_size=60, shrinkage=None, epsilon=None, rank=64
)
START = (None, 0.5, 0.2)
D, N_CLASSES = 20, 6


def linear_samples(seed, n):
    """Classes of one covariance, which only their means tell apart."""
    rng = np.random.default_rng(3)
    mixing = rng.standard_normal((D, D)) / D**0.5
    means = rng.standard_normal((N_CLASSES, D))
    labels = np.repeat(np.arange(N_CLASSES), n)
    noise = np.random.default_rng([4, seed]).standard_normal((len(labels), D))
    return (0.6 * means[labels] + noise) @ mixing, labels


def curved_samples(seed, n):
    """Classes of the same mean, each large in its own pair of directions."""
    labels = np.repeat(np.arange(N_CLASSES), n)
    X = np.random.default_rng([5, seed]).standard_normal((len(labels), D))
    for c in range(N_CLASSES):
        X[labels == c, 3 * c : 3 * c + 2] *= 4.0
    return X, labels


def learnt(X, labels, settings=OPEN):
    model = empty_model(X.shape[1], settings, 3)
    weights = np.ones(len(X))
    return learn(model, Task(*(torch.as_tensor(one) for one in (X, labels, weights))), settings)


def classes_of(model, moments=None):
    """The classes as the classifier sees them, and of what its features consist."""
    features, skip_connection = model.features, model.settings.skip_connection
    columns = classifier_columns(features, skip_connection)
    moments = model.moments if moments is None else moments
    gaussians = ClassGaussians.from_moments(moments, columns, device=CPU)
    return gaussians, classifier_blocks(features, skip_connection)


def choice_of(model, moments=None):
    return choose(*classes_of(model, moments), model.settings)


def chosen(X, labels, **changes):
    return choice_of(learnt(X, labels, replace(OPEN, **changes)))


def error_of(choice, model, X, labels):
    """Share of some samples that the pairs take for another class."""
    gaussians = with_choice(*classes_of(model), choice)
    pairs = fit_pairwise(
        gaussians, covariance="class", shrinkage=choice.shrinkage, epsilon=choice.epsilon
    )
    found = pairs.scores(model.view(torch.as_tensor(X))).argmax(1).numpy()
    return np.mean(found != labels)


@pytest.mark.parametrize("samples", [linear_samples, curved_samples])
def test_new_samples_are_better_off_than_at_the_start(samples):
    model = learnt(*samples(0, 30))

    choice = choice_of(model)

    assert tuple(choice) != START
    unseen = samples(1, 400)
    start = Choice(*START)
    assert error_of(choice, model, *unseen) < error_of(start, model, *unseen) - 0.01


def test_different_kinds_of_classes_call_for_different_values():
    linear, curved = chosen(*linear_samples(0, 30)), chosen(*curved_samples(0, 30))

    assert linear.input_energy >= 1.0
    assert linear.epsilon < curved.epsilon


@pytest.mark.parametrize("samples", [linear_samples, curved_samples])
def test_the_order_of_classes_plays_no_part(samples):
    model = learnt(*samples(0, 30))

    found = {
        choice_of(model, [model.moments[k] for k in order])
        for order in (range(N_CLASSES), range(N_CLASSES)[::-1], [2, 0, 5, 1, 4, 3])
    }

    assert len(found) == 1


@pytest.mark.parametrize(
    ("given", "index"), [({"shrinkage": 0.37}, 1), ({"epsilon": 0.02}, 2)], ids=str
)
def test_what_is_given_is_kept_and_the_rest_chosen(given, index):
    choice = chosen(*linear_samples(0, 20), **given)

    assert choice[index] == next(iter(given.values()))
    assert choice != Choice(**{**Choice(*START)._asdict(), **given})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"shrinkage": 0.3, "epsilon": 0.7}, (None, 0.3, 0.7)),
        ({"shrinkage": 0.0}, (None, 0.0, 0.2)),
        ({"classifier": "ova"}, (None, 0.5, 0.3)),
        ({"classifier": "ova", "epsilon": 0.7}, (None, 0.5, 0.7)),
        ({"covariance": "identity"}, START),
        ({"skip_connection": False, "shared_band_size": 0, "band_size": 1}, START),
    ],
    ids=str,
)
def test_where_nothing_is_to_be_chosen_the_start_stands(changes, expected):
    assert chosen(*curved_samples(0, 30), **changes) == expected


@pytest.mark.parametrize(
    "settings",
    [{"skip_connection": False}, {"shared_band_size": 0}],
    ids=str,
)
def test_one_block_alone_has_no_energy_to_choose(settings):
    choice = chosen(*curved_samples(0, 30), **settings)

    assert choice.input_energy is None
    assert tuple(choice) != START


def test_bands_of_the_last_task_have_no_say():
    X, labels = curved_samples(0, 30)
    without, beside = chosen(X, labels), chosen(X, labels, band_size=1)

    assert without == beside


@pytest.mark.parametrize("n", [1, 2])
def test_few_samples_leave_the_start(n):
    rng = np.random.default_rng(0)
    labels = np.arange(2).repeat(n)

    assert chosen(rng.standard_normal((2 * n, D)), labels) == START


def test_one_class_leaves_the_start():
    X, _ = curved_samples(0, 5)

    assert chosen(X, np.zeros(len(X), dtype=int)) == START


def test_classes_that_are_cut_off_leave_the_start():
    X, labels = curved_samples(0, 30)

    assert chosen(X, labels) != START
    assert chosen(X, labels, rank=20) == START


def test_large_classes_that_are_cut_off_shrink_by_their_size_and_spectrum():
    many, more = (curved_samples(0, n) for n in (400, 1600))

    first, second = chosen(*many), chosen(*more)

    assert first[0] is None
    assert first[2] == second[2] == START[2]
    assert 0.0 < second.shrinkage < first.shrinkage < START[1]
    gaussians = with_choice(*classes_of(learnt(*more)), Choice(*START))
    error = float(gaussians.covariance_errors().mean())
    assert_allclose(second.shrinkage, error / (error + 1.0 / 16.0), rtol=1e-12)


def test_half_of_the_samples_have_to_be_whole():
    X, labels = curved_samples(0, 40)
    whole, few = learnt(X, labels), np.arange(len(X)) % 40 < 15
    small = learnt(X[few], labels[few]).moments
    cut = learnt(X, labels, replace(OPEN, rank=20)).moments
    assert {len(one.factor) for one in cut} == {20}

    # Of 5 x 15 and 40 samples 65 % are whole, of 3 x 15 and 3 x 40 only 27 %.
    mostly_whole, mostly_cut = (*small[:5], cut[5]), (*small[:3], *cut[3:])

    assert choice_of(whole, mostly_whole) != START
    assert choice_of(whole, mostly_cut) == START


@pytest.mark.parametrize("n", [8, 12, 30])
def test_no_other_shrinkage_and_ridge_have_a_lower_error(n):
    model = learnt(*curved_samples(0, n))
    choice = choice_of(model)

    def judged(one):
        gaussians = with_choice(*classes_of(model), one)
        judge = LeaveOneOut(gaussians)
        errors = judge.errors(gaussians.penalties, one.shrinkage, one.epsilon)
        return float(errors.mean())

    # One after the other they would stay at 0.1 and 0.2 with 8 samples, where 1 and 1 are better.
    others = [
        judged(choice._replace(shrinkage=shrinkage, epsilon=epsilon))
        for shrinkage in (0.1, 0.25, 0.5, 1.0)
        for epsilon in (0.03, 0.1, 0.3, 1.0)
    ]
    assert_allclose(judged(choice), min(others), rtol=1e-9)
