"""Choice of energies, shrinkage and ridge from the moments of the classes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import (
    load_digits,
    make_circles,
    make_gaussian_quantiles,
)
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis
from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.bands.layers import Band, Layers
from ffnb_sklearn.core.choice.choose import choose, separation_energy
from ffnb_sklearn.core.choice.pooled import Judge
from ffnb_sklearn.core.features import FeatureMap, FixedFeatures, SharedBand
from ffnb_sklearn.core.gaussians import ClassGaussians
from ffnb_sklearn.core.heads import HEADS
from ffnb_sklearn.core.model import Task
from ffnb_sklearn.core.moments import moments_of
from ffnb_sklearn.core.settings import Choice
from ffnb_sklearn.core.solution import apply_choice, solve
from tests.core.small_models import CPU, SETTINGS, empty, learn, moments_of_all

OPEN = replace(SETTINGS, band_size=0, shared_band_size=60, shrinkage=None, epsilon=None, rank=64)
D, N_CLASSES = 20, 6
GAUSSIAN = {"classifier": "gaussian"}
SMALL = {"shared_band_size": 100, "random_state": 0}


@pytest.fixture
def not_gaussian(monkeypatch):
    """No classes are taken to be Gaussian in the inputs."""
    monkeypatch.setattr("ffnb_sklearn.core.choice.densities.dispersion", lambda *_: np.inf)


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
    model = empty(X.shape[1], settings)
    weights = np.ones(len(X))
    return learn(model, Task(*(torch.as_tensor(one) for one in (X, labels, weights))), settings)


def classes_of(model, moments=None, seed=0):
    """The classes as the classifier sees them, and the blocks of its features."""
    moments = moments_of_all(model) if moments is None else moments
    gaussians = ClassGaussians.from_moments(moments, model.columns, device=CPU, seed=seed)
    return gaussians, model.features.blocks(model.settings.skip_connection)


def choice_of(model, moments=None, seed=0):
    head = HEADS[model.settings.classifier]
    return choose(
        *classes_of(model, moments, seed),
        model.settings,
        model.features.shared,
        keeps_own=head.keeps_own,
        fixed_ridge=head.fixed_ridge,
    )


def chosen(X, labels, **changes):
    return choice_of(learnt(X, labels, replace(OPEN, **changes)))


def assert_same_choice(found, expected, rtol=1e-6):
    assert found.candidate == expected.candidate
    assert_allclose(found[:3], expected[:3], rtol=rtol)
    assert_allclose(found.temperature, expected.temperature, rtol=rtol)


def error_of(choice, model, X, labels):
    """Share of some samples that the distances take for another class."""
    gaussians = apply_choice(*classes_of(model), choice)
    head = HEADS["gaussian"]
    solved_means = head.solve_means(gaussians, choice, model.settings)
    distances = head.from_gaussians(gaussians, solved_means, choice, model.settings)
    found = (
        distances.scores(prediction.classifier_features(model, torch.as_tensor(X)))
        .argmax(1)
        .numpy()
    )
    return np.mean(found != labels)


@pytest.mark.parametrize("n", [5, 30, 300])
@pytest.mark.parametrize("samples", [linear_samples, curved_samples])
def test_new_samples_are_as_well_off_as_in_the_middle_of_a_grid(samples, n):
    model = learnt(*samples(0, n), replace(OPEN, **GAUSSIAN))
    unseen = samples(1, 400)

    error = error_of(choice_of(model), model, *unseen)

    grid = [
        error_of(Choice(energy, shrinkage, epsilon), model, *unseen)
        for energy in (1.0, 10.0)
        for shrinkage in (0.1, 0.5, 1.0)
        for epsilon in (0.03, 0.3, 1.0)
    ]
    assert error < np.median(grid) + 0.01
    assert error < max(grid) - 0.02


@pytest.mark.parametrize("samples", [linear_samples, curved_samples])
def test_the_inputs_have_the_energy_of_the_class_separation_and_no_more_than_the_band(samples):
    for seed in range(3):
        model = learnt(*samples(seed, 10))
        gaussians, blocks = classes_of(model)

        energy = separation_energy(gaussians, blocks)

        assert choice_of(model).input_energy == energy
        assert (energy == 1.0) is (samples is linear_samples)


def test_classes_keep_more_of_their_own_as_they_grow_through_the_rank():
    found = [chosen(*curved_samples(0, n)).shrinkage for n in (10, 30, 60, 70, 130, 500)]

    assert found == sorted(found, reverse=True)
    # No gate at the rank of 64, where a class begins to be truncated.
    assert found[2] - found[3] < 0.1
    assert chosen(*linear_samples(0, 500)).shrinkage > 1.5 * found[-1]


def test_shrinkage_and_ridge_are_the_formulas_on_dense_matrices():
    model = learnt(*curved_samples(0, 30), replace(OPEN, skip_connection=False))
    gaussians, _ = classes_of(model)
    n = gaussians.weights.numpy()
    scatters = [part.T.numpy() @ part.numpy() for part in gaussians.class_rows]
    pooled = sum(scatters) / n.sum()
    variance = np.trace(pooled) / len(pooled)
    values, axes = np.linalg.eigh(pooled + 0.7 * variance * np.eye(len(pooled)))
    half = axes * values**-0.5 @ axes.T
    covariances = [half @ one @ half / size for one, size in zip(scatters, n, strict=True)]
    error = np.mean(
        [
            (np.trace(one) ** 2 + np.sum(one**2)) / size
            for one, size in zip(covariances, n, strict=True)
        ]
    )
    distance = np.mean([np.sum((one - half @ pooled @ half) ** 2) for one in covariances])

    choice = choice_of(model)

    assert choice.candidate == "pooled"
    assert_allclose(choice.shrinkage, error / distance, rtol=1e-9)
    # Without a skip connection there is one block, and all penalties are equal.
    effective_rank = np.trace(pooled) ** 2 / np.sum(pooled**2)
    growth = (12.0 * effective_rank / (n.sum() - len(n))) ** 2
    assert_allclose(choice.epsilon / choice.shrinkage, 0.7 * (1.0 + growth), rtol=1e-9)


@pytest.mark.usefixtures("not_gaussian")
@pytest.mark.parametrize("n", [5, 10, 30])
def test_distances_in_curved_features_keep_half_of_the_own_covariance(n):
    samples = curved_samples(0, n)
    pairs, distances = chosen(*samples, classifier="ovo"), chosen(*samples, **GAUSSIAN)

    assert pairs.input_energy == distances.input_energy
    assert distances.shrinkage == min(pairs.shrinkage, 0.5)
    assert_allclose(distances.epsilon, pairs.epsilon * (1.0 + pairs.shrinkage), rtol=1e-12)


def nuisance_samples(n_classes, n, d, n_signal, n_nuisance, size, seed=0):
    """Class means in some directions, and large noise in others; learned and new samples."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((d, d))).Q
    means = np.zeros((n_classes, d))
    means[:, :n_signal] = rng.standard_normal((n_classes, n_signal))
    y = np.repeat(np.arange(n_classes), n)
    samples = []
    for _ in range(2):
        noise = 0.3 * rng.standard_normal((len(y), d))
        nuisance = size * rng.standard_normal((len(y), n_nuisance))
        noise[:, n_signal : n_signal + n_nuisance] += nuisance
        samples.append((means[y] + noise) @ axes)
    return *samples, y


@pytest.mark.parametrize(
    ("sizes", "shrinkage"),
    [((120, 5, 104, 40, 20, 6.0), 1.0), ((200, 5, 128, 60, 20, 8.0), "auto")],
    ids=str,
)
def test_a_small_ridge_tells_classes_apart_in_spite_of_nuisance_directions(sizes, shrinkage):
    X, X_new, y = nuisance_samples(*sizes)
    clf = IncrementalDiscriminantAnalysis(**SMALL, shrinkage=shrinkage).set_params(
        shared_band_size=50
    )

    choice = solved_choice(clf.fit(X, y))

    # The score of the largest ridge is below 0.25.
    assert choice.candidate == "pooled"
    assert choice.epsilon < 0.3
    assert clf.score(X_new, y) > 0.95


@pytest.mark.parametrize("changes", [{"epsilon": 0.9}, {"classifier": "ova"}], ids=str)
def test_a_fixed_ridge_is_no_candidate(changes):
    X, _, y = nuisance_samples(100, 5, 64, 20, 10, 6.0)
    clf = IncrementalDiscriminantAnalysis(**SMALL, **changes).fit(X, y)

    assert solved_choice(clf).epsilon == changes.get("epsilon", 0.3)


@pytest.mark.parametrize("n_samples", [400, 1700])
def test_digits_keep_the_large_ridge(n_samples):
    X, y = load_digits(return_X_y=True)
    choice = solved_choice(
        IncrementalDiscriminantAnalysis(**SMALL).fit(X[:n_samples], y[:n_samples])
    )

    assert choice.candidate == "pooled"
    assert choice.epsilon > 0.1


def test_rounding_of_cross_entropies_is_no_evidence_for_a_small_ridge():
    # Weights above 1 are repetitions, so classes that are far apart have cross-entropies of 0.
    rng = np.random.default_rng(4)
    y = np.arange(40) % 4
    X = 30.0 * rng.normal(size=(4, 5))[y] + rng.normal(size=(40, 5))
    clf = IncrementalDiscriminantAnalysis(shared_band_size=20, rank=None, random_state=0)
    choice = solved_choice(clf.fit(X, y, sample_weight=np.full(40, 1e90)))

    assert choice.epsilon == pytest.approx(0.7 * choice.shrinkage * (1.0 + choice.shrinkage))


@pytest.mark.parametrize("seed", [14, 86])
def test_the_order_of_the_classes_does_not_end_the_search_of_the_ridge(seed):
    rng = np.random.default_rng(seed)
    y = np.arange(60) % 4
    distance = rng.choice([3.0, 10.0])
    means = distance * rng.normal(size=(4, 5))
    noise = rng.normal(size=(60, 5)) * rng.uniform(0.3, 2.0, 4)[y][:, None]
    X = means[y] + noise
    clf = IncrementalDiscriminantAnalysis(shared_band_size=20, rank=None, random_state=0)
    # Weights above 1 are repetitions, with which few errors are evidence.
    weights = np.full(60, 1e6)
    ridges = [solved_choice(clf.fit(X, labels, weights)).epsilon for labels in (y, 3 - y)]

    assert ridges[0] == pytest.approx(ridges[1], rel=1e-9)


def test_few_samples_get_a_larger_ridge():
    growth = [
        choice.epsilon / choice.shrinkage
        for choice in (chosen(*linear_samples(0, n), shrinkage=1.0) for n in (3, 6, 30, 300))
    ]
    assert growth == sorted(growth, reverse=True)
    assert growth[0] > 2.0 * growth[3]


@pytest.mark.parametrize("head", ["gaussian", "ovo", "ova"])
@pytest.mark.parametrize("samples", [linear_samples, curved_samples])
def test_the_order_of_classes_and_their_partition_into_tasks_play_no_part(samples, head):
    X, labels = samples(0, 20)
    settings = replace(OPEN, classifier=head)
    model = learnt(X, labels, settings)
    expected = choice_of(model)

    order = [2, 0, 5, 1, 4, 3]
    assert_same_choice(choice_of(model, [model.moments[k] for k in order]), expected)
    parts = empty(D, settings)
    for classes in ([0, 1], [2], [3, 4, 5]):
        rows = np.isin(labels, classes)
        one = (torch.as_tensor(values[rows]) for values in (X, labels, np.ones(len(X))))
        parts = learn(parts, Task(*one), settings)
    assert_same_choice(choice_of(parts), expected)


def test_many_classes_are_judged_by_a_few_in_any_order():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 6)
    X = 2.0 * rng.standard_normal((40, D))[labels] + rng.standard_normal((len(labels), D))
    model = learnt(X, labels)
    order = rng.permutation(40)

    choice = choice_of(model)

    assert 0.0 < choice.shrinkage <= 1.0
    assert_same_choice(choice_of(model, [model.moments[k] for k in order]), choice)


@pytest.mark.parametrize("unit", [1e-70, 1e6])
@pytest.mark.parametrize("head", ["gaussian", "ovo", "ova"])
def test_a_common_factor_on_the_inputs_changes_nothing(head, unit):
    X, labels = curved_samples(0, 40)

    found, expected = (chosen(rows, labels, classifier=head) for rows in (unit * X, X))

    assert_same_choice(found, expected)


def test_draws_follow_the_seed():
    model = learnt(*linear_samples(0, 10), replace(OPEN, **GAUSSIAN))
    entropies = []
    for seed in (0, 0, 1):
        gaussians, blocks = classes_of(model, seed=seed)
        gaussians = apply_choice(gaussians, blocks, Choice(1.0, 1.0, 0.7))
        base, judge = gaussians.shared_covariance(1.0, 0.7), Judge(gaussians)
        entropies.append(judge.cross_entropy(judge.metric(base))[0])

    assert entropies[0] == entropies[1] != entropies[2]
    assert_allclose(entropies[2], entropies[0], rtol=0.1)
    assert choice_of(model, seed=3) == choice_of(model, seed=3)


@pytest.mark.parametrize(
    ("given", "index"), [({"shrinkage": 0.37}, 1), ({"epsilon": 0.02}, 2)], ids=str
)
@pytest.mark.parametrize("samples", [linear_samples, curved_samples])
def test_given_values_are_kept_and_others_chosen(samples, given, index):
    choice = chosen(*samples(0, 60), **given, **GAUSSIAN)

    assert choice[index] == next(iter(given.values()))
    assert choice.candidate == "pooled"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"shrinkage": 0.0}, Choice(None, 0.0, 0.7)),
        ({"shrinkage": 0.0, "epsilon": 0.7}, Choice(None, 0.0, 0.7)),
    ],
    ids=str,
)
def test_nothing_is_chosen_if_all_values_are_given(changes, expected):
    assert chosen(*curved_samples(0, 30), **changes) == expected


def test_one_vs_all_has_a_ridge_of_its_own():
    assert chosen(*curved_samples(0, 30), classifier="ova").epsilon == 0.3


@pytest.mark.parametrize(
    "settings",
    [{"skip_connection": False}, {"shared_band_size": 0}, {"covariance": "identity"}],
    ids=str,
)
@pytest.mark.parametrize("samples", [linear_samples, curved_samples])
def test_a_single_block_has_no_energy_to_choose(settings, samples):
    model = learnt(*samples(0, 30), replace(OPEN, **settings))
    assert choice_of(model).input_energy == separation_energy(*classes_of(model))


def test_bands_of_the_last_task_have_no_say():
    X, labels = curved_samples(0, 30)

    assert_same_choice(chosen(X, labels, band_size=1), chosen(X, labels))


@pytest.mark.parametrize("head", ["gaussian", "ovo", "ova"])
@pytest.mark.parametrize("settings", [{}, {"shared_band_size": 0}, {"skip_connection": False}])
@pytest.mark.parametrize("sizes", [(1,), (1, 1), (9,), (30, 30, 1)], ids=str)
@pytest.mark.parametrize("same", [False, True], ids=["samples differ", "samples are equal"])
def test_any_classes_can_be_solved(sizes, settings, head, same):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    X = np.random.default_rng(0).standard_normal((len(labels), 4))
    if same:
        X = np.eye(4)[labels]
    model = learnt(X, labels, replace(OPEN, classifier=head, **settings))

    choice = choice_of(model)

    assert 0.0 < choice.shrinkage <= 1.0
    assert 0.0 < choice.epsilon < np.inf
    if max(sizes) == 1 or len(sizes) == 1:
        assert choice.input_energy == 1.0
    head = prediction.solve_once(model, CPU).head
    scores = head.scores(prediction.classifier_features(model, torch.as_tensor(X)))
    assert torch.isfinite(scores).all()
    if same:
        assert_array_equal(scores.argmax(1), labels)


@pytest.mark.parametrize("head", ["gaussian", "ovo", "ova"])
@pytest.mark.parametrize("n_truncated", [3, N_CLASSES])
def test_classes_without_kept_axes_can_be_solved(head, n_truncated):
    model = learnt(*curved_samples(0, 20), replace(OPEN, classifier=head))
    moments = [
        replace(
            one,
            factor=one.factor[:0],
            truncated=one.residual + np.square(one.factor).sum(axis=0),
        )
        for one in model.moments[:n_truncated]
    ]
    moments += model.moments[n_truncated:]

    choice = choice_of(model, moments)

    assert 0.0 < choice.shrinkage <= 1.0
    assert 0.0 < choice.epsilon < np.inf
    X, labels = curved_samples(1, 50)
    head = solve(model.space, moments, device=CPU).head
    found = head.scores(prediction.classifier_features(model, torch.as_tensor(X))).argmax(1).numpy()
    # One of six is right by chance.
    assert (found == labels).mean() > 0.4


# Classes that are Gaussian in the inputs.


def gaussian_noise(rng, shape):
    return rng.standard_normal(shape)


def clustered_noise(rng, shape):
    """Two clusters along the first axis."""
    noise = rng.standard_normal(shape)
    noise[:, 0] += np.where(rng.random(len(noise)) < 0.5, -2.5, 2.5)
    return noise


def unlike_samples(noise, n, seed=0, d=8):
    """Classes with covariances of their own."""
    rng = np.random.default_rng(4)
    means = 1.5 * rng.standard_normal((N_CLASSES, d))
    mixing = rng.standard_normal((N_CLASSES, d, d))
    labels, rng = np.repeat(np.arange(N_CLASSES), n), np.random.default_rng([5, seed])
    X = np.einsum("ni,nij->nj", noise(rng, (len(labels), d)), mixing[labels])
    return X + means[labels], labels


def solved_choice(clf):
    clf.predict(np.zeros((1, clf.n_features_in_)))
    return clf._solved_choice()


@pytest.mark.parametrize("n", [16, 60, 400])
def test_gaussian_classes_get_their_own_covariances_in_the_inputs(n):
    clf = IncrementalDiscriminantAnalysis(**SMALL).fit(*unlike_samples(gaussian_noise, n))
    X_new, y_new = unlike_samples(gaussian_noise, 500, seed=1)
    quadratic = QuadraticDiscriminantAnalysis().fit(*unlike_samples(gaussian_noise, n))

    assert solved_choice(clf).candidate == "densities"
    assert clf.score(X_new, y_new) > quadratic.score(X_new, y_new) - 0.01
    probabilities = clf.predict_proba(X_new)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y_new
    assert abs(confidence.mean() - right.mean()) < 0.06


OTHERS = {
    "clusters": (unlike_samples(clustered_noise, 100), {}),
    "circles": (make_circles(400, noise=0.05, factor=0.5, random_state=0), {}),
    "far circles": (make_circles(400, noise=0.05, factor=0.5, random_state=0), {"offset": 1e4}),
    "quantiles": (make_gaussian_quantiles(n_samples=600, n_features=10, random_state=0), {}),
    "pairs": (unlike_samples(gaussian_noise, 100), {"classifier": "ovo"}),
    "given shrinkage": (unlike_samples(gaussian_noise, 100), {"shrinkage": 0.5}),
    "given ridge": (unlike_samples(gaussian_noise, 100), {"epsilon": 0.05}),
    "no inputs": (unlike_samples(gaussian_noise, 100), {"skip_connection": False}),
    "no shared band": (unlike_samples(gaussian_noise, 100), {"shared_band_size": 0}),
}


@pytest.mark.parametrize(("samples", "changes"), OTHERS.values(), ids=OTHERS)
def test_other_models_are_not_taken_to_be_gaussian(samples, changes):
    changes = dict(changes)
    X, y = samples[0] + changes.pop("offset", 0.0), samples[1]

    assert chosen(X, y, **GAUSSIAN | changes).candidate != "densities"


def test_trained_bands_do_not_count_for_gaussian_classes():
    X, y = unlike_samples(gaussian_noise, 60)
    X_new, _ = unlike_samples(gaussian_noise, 50, seed=1)
    with_bands = FFNBClassifier(**SMALL, band_size=10, classes_per_task=2).fit(X, y)
    without = IncrementalDiscriminantAnalysis(**SMALL).fit(X, y)

    assert solved_choice(with_bands).candidate == "densities"
    found, expected = (clf.predict_proba(X_new) for clf in (with_bands, without))
    assert_allclose(found, expected, rtol=1e-5)


def test_a_rare_class_does_not_decide_for_the_others():
    X, y = unlike_samples(gaussian_noise, 200)
    X_rare = 3.0 + np.random.default_rng(0).standard_normal((202, X.shape[1]))
    X_new, y_new = unlike_samples(gaussian_noise, 300, seed=1)

    clf = IncrementalDiscriminantAnalysis(**SMALL).fit(X, y)
    alone = clf.score(X_new, y_new)
    clf.partial_fit(X_rare[:2], np.full(2, N_CLASSES))

    assert solved_choice(clf).candidate == "densities"
    assert clf.score(X_new, y_new) > alone - 0.05
    assert (clf.predict(X_rare[2:]) == N_CLASSES).mean() > 0.5


@pytest.mark.parametrize("weight", [1e-3, 0.5])
@pytest.mark.parametrize("n", [2, 20])
def test_small_weights_are_no_obstacle_to_gaussian_classes(n, weight):
    X, y = unlike_samples(gaussian_noise, 100)
    weights = np.r_[np.ones(len(X)), np.full(n, weight)]
    X = np.r_[X, 3.0 + np.random.default_rng(0).standard_normal((n, X.shape[1]))]

    clf = IncrementalDiscriminantAnalysis(**SMALL).fit(
        X, np.r_[y, np.full(n, N_CLASSES)], sample_weight=weights
    )

    assert solved_choice(clf).candidate == "densities"
    assert np.isfinite(clf.predict_proba(X)).all()


def test_a_common_factor_on_the_weights_leaves_gaussian_classes_gaussian():
    X, y = unlike_samples(gaussian_noise, 60)
    whole, part = (
        IncrementalDiscriminantAnalysis(**SMALL).fit(X, y, sample_weight=np.full(len(X), weight))
        for weight in (1.0, 0.02)
    )

    assert solved_choice(part).candidate == "densities"
    assert solved_choice(whole).candidate == "densities"


# Densities of Gaussian classes.


# Penalties of the blocks.

RNG = np.random.default_rng(0)
N_INPUTS, N_SHARED = 4, 6
SHARED = SharedBand(RNG.normal(size=(N_SHARED, N_INPUTS + 1)), mirrored=True)
FIXED = FixedFeatures(N_INPUTS, SHARED)
INPUTS = FixedFeatures(N_INPUTS, SharedBand.empty(N_INPUTS))
SHALLOW = Layers(N_INPUTS).append_band(Band(1, RNG.normal(size=(2, 4)), "relu"))
BARE = FeatureMap(FIXED)
DEEP = FeatureMap(FIXED, SHALLOW.append_band(Band(2, RNG.normal(size=(3, 2)), "relu")))
ROWS = RNG.normal(size=(30, N_INPUTS)) + 2.0 * RNG.normal(size=(3, N_INPUTS)).repeat(10, axis=0)


def stacked(features, samples=ROWS, *, skip_connection=True, n_classes=3):
    values = features(torch.as_tensor(samples))
    moments = [
        moments_of([(part, torch.ones(len(part)).double())]) for part in values.chunk(n_classes)
    ]
    columns = features.columns(skip_connection)
    blocks = features.fixed.blocks(skip_connection)
    return ClassGaussians.from_moments(moments, columns, device=CPU), blocks


def penalties(features, samples=ROWS, *, pooled=True, **how):
    gaussians, blocks = stacked(features, samples, **how)
    energy = separation_energy(gaussians, blocks) if pooled else None
    return gaussians.weigh_blocks(blocks, energy).penalties.numpy()


def spreads(values):
    """Spread of each column within three classes of ten."""
    groups = values.reshape(3, 10, -1)
    return np.square(groups - groups.mean(axis=1, keepdims=True)).sum(axis=(0, 1))


def index(values):
    """Calinski-Harabasz index of three classes of ten, up to a common factor."""
    means = values.reshape(3, 10, -1).mean(axis=1)
    return 10 * np.square(means - means.mean(axis=0)).sum() / spreads(values).sum()


# Mirrored samples have means near zero, so that the neurons alone separate the classes.
@pytest.mark.parametrize("signs", [1.0, np.resize([[1.0], [-1.0]], (30, 1))], ids=["1", "both"])
def test_inputs_and_shared_band_enter_by_their_class_separation(signs):
    rows = signs * ROWS
    values = BARE(torch.as_tensor(rows)).numpy()
    within = spreads(values[:, :4])
    columns = within + np.sort(within)[1]
    columns *= (within / columns).sum() / within.sum()
    separation = np.array([index(values[:, :4] / columns**0.5), index(values[:, 4:])])

    ratio = (separation[0] / separation[1]) ** 2
    energy = min(1.0, ratio)

    assert (ratio > 1.0) == np.all(signs == 1.0)
    assert abs(ratio - 1.0) > 0.1
    expected = np.concatenate([columns, np.full(6, energy)])
    assert_allclose(penalties(BARE, rows), expected, rtol=1e-9)
    assert_allclose(separation_energy(*stacked(BARE, rows)), energy, rtol=1e-9)


@pytest.mark.parametrize("energy", [0.1, 300.0])
def test_a_given_energy_weighs_one_block(energy):
    found = apply_choice(*stacked(BARE), Choice(energy, 1.0, 1.0)).penalties
    equal = apply_choice(*stacked(BARE), Choice(1.0, 1.0, 1.0)).penalties

    assert_allclose(found / equal, np.repeat([1.0, energy], [4, 6]))


def test_the_ridge_of_an_input_follows_its_unit():
    units = np.array([1.0, 1e3, 1.0, 1.0])

    result = penalties(FeatureMap(INPUTS), ROWS * units)

    expected = spreads(ROWS) * units**2
    expected += np.sort(expected)[1]
    assert_allclose(result / result[0], expected / expected[0], rtol=1e-9)


def test_constant_inputs_do_not_set_the_unit_of_others():
    constant = np.repeat([[1e3, 2e3], [3e3, 4e3], [5e3, 6e3]], 10, axis=0) / 7.0
    features = FeatureMap(FixedFeatures(N_INPUTS + 2, SharedBand.empty(N_INPUTS + 2)))

    result = penalties(features, np.hstack([ROWS, constant]))

    within = spreads(ROWS)
    median = np.sort(within)[1]
    assert_allclose(result[:4] / result[4], (within + median) / median, rtol=1e-9)
    assert_allclose(result[4], result[5], rtol=1e-9)


def test_features_of_pairs_alone_have_one_penalty():
    assert_array_equal(penalties(BARE, pooled=False), np.ones(10))


@pytest.mark.parametrize("pooled", [True, False])
def test_a_single_kind_of_features_is_not_penalised(pooled):
    alone = [
        penalties(BARE, skip_connection=False, pooled=pooled),
        penalties(FeatureMap(INPUTS), pooled=False),
        penalties(FeatureMap(INPUTS, SHALLOW), skip_connection=False, pooled=pooled),
    ]
    for one in alone:
        assert_array_equal(one, np.ones(len(one)))


def test_trained_bands_enter_with_the_spread_of_all_other_features():
    result = penalties(DEEP)

    spread = DEEP(torch.as_tensor(ROWS)).numpy()[:, DEEP.columns(True)].var(axis=0)
    scaled = spread / result
    assert len(set(result[10:])) == 1
    # Nine of ten samples of a class are not its first.
    assert_allclose(scaled[10:].sum(), 0.9 * scaled[:10].sum(), rtol=1e-9)


def test_penalties_are_free_of_scale_and_of_the_order_of_the_classes():
    expected = penalties(DEEP)

    assert_allclose(penalties(DEEP, 1e6 * ROWS), expected, rtol=1e-9)
    assert_allclose(penalties(DEEP, ROWS[::-1].copy()), expected, rtol=1e-9)


def test_blocks_without_separation_are_alike():
    one_class = penalties(BARE, n_classes=1)
    no_spread = penalties(BARE, np.ones((3, N_INPUTS)))

    within = np.square(ROWS - ROWS.mean(axis=0)).sum(axis=0)
    assert_allclose((within / one_class[:4]).sum(), within.sum(), rtol=1e-9)
    assert_array_equal(one_class[4:], np.ones(6))
    assert_array_equal(no_spread, np.ones(10))


def test_means_that_differ_by_rounding_do_not_separate():
    """The mean of all samples of a single class may differ from the mean of that class."""
    classes, blocks = stacked(BARE, n_classes=1)
    for weight in range(2, 40):
        classes = replace(classes, weights=torch.tensor([float(weight)], dtype=torch.float64))
        assert separation_energy(classes, blocks) == 1.0


@pytest.mark.parametrize("weight", [0.0, 1e-16])
def test_trained_bands_without_spread_have_no_penalty_of_their_own(weight):
    band = Band(1, np.full((2, 4), weight), "relu")
    silent = FeatureMap(FIXED, Layers(N_INPUTS, (band,)))

    assert_array_equal(penalties(silent)[10:], np.ones(2))
    assert_allclose(penalties(silent)[:10], penalties(BARE), rtol=1e-12)


def test_a_class_that_keeps_coming_while_all_decay_does_not_spoil_the_others():
    X, y = load_digits(return_X_y=True)
    X, X_new, y, y_new = train_test_split(X, y, random_state=0, stratify=y)
    clf = IncrementalDiscriminantAnalysis(**SMALL).fit(X, y)
    before = clf.score(X_new[y_new > 0], y_new[y_new > 0])
    rng = np.random.default_rng(0)

    for _ in range(25):
        rows = rng.choice(np.flatnonzero(y == 0), 20)
        clf.decay(0.7).partial_fit(X[rows], y[rows])

    assert before > 0.98
    assert clf.score(X_new[y_new > 0], y_new[y_new > 0]) > before - 0.02


def test_weights_of_any_size_choose_the_same():
    X, y = curved_samples(0, 20)
    settings = replace(OPEN, rank=None)

    def choice(weight):
        model = empty(D, settings)
        task = Task(*(torch.as_tensor(one) for one in (X, y, np.full(len(X), weight))))
        return choice_of(learn(model, task, settings))

    for weight in (0.5, 1e-6, 1e-200):
        assert_same_choice(choice(weight), choice(1.0), rtol=1e-9)


def overlapping_gaussians(n_samples, d, seed):
    """Draw equal numbers of samples of two round classes whose means are 1.5 deviations apart."""
    step = np.random.default_rng(d).normal(size=d)
    step *= 1.5 / np.linalg.norm(step)
    y = np.arange(n_samples) % 2
    X = np.random.default_rng([d, seed]).normal(size=(n_samples, d))
    return X + y[:, None] * step, y


@pytest.mark.parametrize("d", [2, 5, 20])
@pytest.mark.parametrize("n", [200, 1000])
def test_overlapping_gaussians_have_the_log_loss_of_logistic_regression(n, d):
    X, y = overlapping_gaussians(2 * n, d, seed=0)
    X_new, y_new = overlapping_gaussians(4000, d, seed=1)
    clf = IncrementalDiscriminantAnalysis(shared_band_size=100, random_state=0).fit(X, y)
    expected = log_loss(y_new, LogisticRegression().fit(X, y).predict_proba(X_new))

    assert solved_choice(clf).candidate == "densities"
    assert log_loss(y_new, clf.predict_proba(X_new)) < 1.05 * expected


@pytest.mark.parametrize("seed", range(3))
def test_a_rare_share_of_overlapping_classes_is_found(seed):
    clf = IncrementalDiscriminantAnalysis(shared_band_size=100, random_state=0)
    clf.fit(*overlapping_gaussians(2000, 2, seed))
    X, y = overlapping_gaussians(8000, 2, seed + 100)
    rare = np.flatnonzero(y == 1)[:40]
    X = np.vstack([X[y == 0][:3960], X[rare]])

    assert clf.estimate_priors(X)[1] < 0.04
