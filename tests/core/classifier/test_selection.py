"""Choice of energies, shrinkage and ridge from the moments of the classes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier import selection
from ffnb_sklearn.core.classifier.densities import fit_distances, shared_covariance
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.classifier.left_out import LeftOutSamples
from ffnb_sklearn.core.classifier.penalties import separation_energy
from ffnb_sklearn.core.classifier.selection import Choice, choose, with_choice
from ffnb_sklearn.core.classifier.solve import solve
from ffnb_sklearn.core.features.feature_map import classifier_blocks, classifier_columns
from ffnb_sklearn.core.learning import learn
from ffnb_sklearn.core.model import Task, empty_model
from tests.core.small_models import CPU, SETTINGS

OPEN = replace(
    SETTINGS, p=(0.9,), band_size=0, shared_band_size=60, shrinkage=None, epsilon=None, rank=64
)
D, N_CLASSES = 20, 6
GAUSSIAN = {"classifier": "gaussian"}


@pytest.fixture
def untested(monkeypatch):
    """No classes are Gaussian in the inputs, as if there were too few samples."""
    monkeypatch.setattr(selection, "_MOST_DEVIATION", -np.inf)


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
    return choose(*classes_of(model, moments), model.settings, model.features.shared)


def chosen(X, labels, **changes):
    return choice_of(learnt(X, labels, replace(OPEN, **changes)))


def temperature_of(model, **changes):
    settings = replace(model.settings, **{"classifier": "gaussian", **changes})
    found = solve(model.features, model.moments, settings, device=CPU).classifier
    return 1.0 / found.power if settings.classifier == "ova" else found.temperature


def error_of(choice, model, X, labels):
    """Share of some samples that the distances take for another class."""
    gaussians = with_choice(*classes_of(model), choice)
    distances = fit_distances(
        gaussians, covariance="class", shrinkage=choice.shrinkage, epsilon=choice.epsilon
    )
    found = distances.scores(model.view(torch.as_tensor(X))).argmax(1).numpy()
    return np.mean(found != labels)


def own_factor_of(X, labels):
    """The factor of own covariances in curved features, from dense matrices."""
    model = learnt(X, labels, replace(OPEN, **GAUSSIAN))
    gaussians, blocks = classes_of(model)
    gaussians = with_choice(gaussians, blocks, Choice(choice_of(model).input_energy, 1.0, 1.0))
    n, means = gaussians.weights.numpy(), gaussians.means.numpy()
    scatters = np.array([part.T.numpy() @ part.numpy() for part in gaussians.parts()])
    ridge = float(gaussians.pooled_variance()) * np.diag(gaussians.penalties)
    half = np.linalg.cholesky(np.linalg.inv(scatters.sum(axis=0) / n.sum() + ridge))
    errors = []
    for scatter, size in zip(scatters, n, strict=True):
        one = half.T @ scatter @ half / size
        errors.append((np.trace(one) ** 2 + np.sum(one**2)) / size)
    gaps = np.sum(((means[:, None] - means) @ half) ** 2, axis=2)
    np.fill_diagonal(gaps, np.inf)
    error = np.average(errors, weights=n)
    return 1.0 / (1.0 + (error / np.mean(gaps.min(axis=1)) ** 2) ** 2)


@pytest.mark.parametrize("n", [5, 30, 300])
@pytest.mark.parametrize("samples", [linear_samples, curved_samples])
def test_new_samples_are_as_well_off_as_in_the_middle_of_a_grid(samples, n):
    model = learnt(*samples(0, n))
    unseen = samples(1, 400)

    error = error_of(choice_of(model), model, *unseen)

    grid = [
        error_of(Choice(energy, shrinkage, epsilon), model, *unseen)
        for energy in (None, 10.0)
        for shrinkage in (0.1, 0.5, 1.0)
        for epsilon in (0.03, 0.3, 1.0)
    ]
    assert error < np.median(grid) + 0.01
    assert error < max(grid) - 0.02


def test_equal_covariances_are_pooled_and_unlike_ones_are_not():
    linear, curved = chosen(*linear_samples(0, 300)), chosen(*curved_samples(0, 300))

    assert linear.shrinkage > 2.0 * curved.shrinkage
    assert linear.input_energy != 1.0
    assert chosen(*linear_samples(0, 30)).shrinkage > 0.95


def compared(monkeypatch, samples, equal, inputs, **changes):
    """Choice if the left-out cross-entropies of equal and of dominant inputs are as given."""
    entropies = iter([equal, inputs])
    monkeypatch.setattr(LeftOutSamples, "cross_entropy", lambda *_: (next(entropies), 1.0))
    return chosen(*samples, **changes)


@pytest.mark.usefixtures("untested")
@pytest.mark.parametrize("seed", [0, 2])
def test_dominant_inputs_of_unlike_covariances_keep_a_tenth_of_their_own(monkeypatch, seed):
    X, labels = linear_samples(seed, 45)
    means = np.stack([X[labels == c].mean(axis=0) for c in range(N_CLASSES)])
    scales = np.exp(0.2 * np.random.default_rng(9).standard_normal((N_CLASSES, D)))
    X = 2.0 * means[labels] + scales[labels] * (X - means[labels])

    choice = compared(monkeypatch, (X, labels), 1.0, 0.5, **GAUSSIAN)

    assert choice.input_energy == 300.0
    assert choice.shrinkage == 0.9


@pytest.mark.usefixtures("untested")
@pytest.mark.parametrize("classifier", ["gaussian", "ovo"])
def test_the_choice_moves_steadily_between_equal_and_dominant_inputs(monkeypatch, classifier):
    samples = linear_samples(0, 30)
    found = [
        compared(monkeypatch, samples, 1.0, inputs, classifier=classifier)
        for inputs in (1.2, 1.1, 1.05, 1.0, 0.95, 0.9, 0.5)
    ]

    exponents = np.log([one.input_energy for one in found]) / np.log(300.0)
    assert_allclose(exponents, [0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0], atol=1e-12)
    # Equal entropies leave the limits of curved features.
    half, last = found[3], found[5]
    assert half.shrinkage < found[4].shrinkage < last.shrinkage
    assert_allclose([last.shrinkage, found[6].shrinkage], 1.0, rtol=1e-12)
    assert half.linear_weight >= found[4].linear_weight >= last.linear_weight


@pytest.mark.usefixtures("untested")
def test_a_ratio_of_two_small_errors_decides_nothing(monkeypatch):
    choice = compared(monkeypatch, linear_samples(0, 30), 1e-9, 1e-7, **GAUSSIAN)

    assert_allclose(choice.input_energy, 300.0**0.5, rtol=1e-2)


def test_three_samples_a_class_rarely_make_curved_classes_linear():
    # Cross-entropy alone lets the inputs dominate in eight of twelve draws, a clear one in none.
    found = [chosen(*curved_samples(seed, 3)).input_energy for seed in range(12)]
    linear = [chosen(*linear_samples(seed, 5)).input_energy for seed in range(12)]

    assert 300.0 not in found
    assert sum(energy is not None and energy > 50.0 for energy in found) <= 3
    assert sum(energy is not None and energy > 10.0 for energy in linear) >= 10


@pytest.mark.parametrize("n", [3, 30])
def test_energies_are_compared_where_the_energy_by_separation_is_at_least_two(n):
    for seed in range(6):
        for samples in (linear_samples, curved_samples):
            model = learnt(*samples(seed, n))
            separation = separation_energy(*classes_of(model))
            energy = choice_of(model).input_energy
            assert (energy is None) == (separation < 2.0)


def test_classes_keep_more_of_their_own_as_they_grow_through_the_rank():
    found = [chosen(*curved_samples(0, n)).shrinkage for n in (10, 30, 60, 70, 130, 500)]

    assert found == sorted(found, reverse=True)
    # No gate at the rank of 64, where a class begins to be truncated.
    assert found[2] - found[3] < 0.1


def test_a_tiny_class_does_not_decide_the_temperature_of_large_ones():
    X, labels = linear_samples(0, 200)
    few = np.flatnonzero(labels == 0)[:4]
    # The four samples lie so far apart that each one left out belongs to another class.
    X[few] += 40.0 * np.eye(len(few), D)
    kept = np.concatenate([few, np.flatnonzero(labels > 0)])

    with_few = temperature_of(learnt(X[kept], labels[kept]))
    without = temperature_of(learnt(X[labels > 0], labels[labels > 0] - 1))

    assert with_few < 4.0 * without


@pytest.mark.usefixtures("untested")
@pytest.mark.parametrize("n", [8, 15, 30])
def test_linear_classes_share_their_covariance_at_any_size(n):
    choice = chosen(*linear_samples(0, n), **GAUSSIAN)

    assert choice.input_energy > 100.0
    assert choice.shrinkage > 0.85
    assert choice.epsilon >= 1.0


@pytest.mark.usefixtures("untested")
@pytest.mark.parametrize("n", [5, 10, 30])
def test_distances_in_curved_features_keep_half_of_the_own_covariance(n):
    samples = curved_samples(0, n)
    pairs, distances = chosen(*samples, classifier="ovo"), chosen(*samples, **GAUSSIAN)

    assert pairs.input_energy == distances.input_energy != 300.0
    own = own_factor_of(*samples)
    expected = 1.0 - own * (1.0 - min(pairs.shrinkage, 0.5))
    assert_allclose(distances.shrinkage, min(expected, 0.9), rtol=1e-9)
    # The intensity of pairs is limited at 0.9 in the shrinkage alone, not in the ridge.
    growth = distances.epsilon / pairs.epsilon
    assert 1.0 + pairs.shrinkage <= growth * (1.0 + 1e-12)
    assert growth <= 2.0 / pairs.shrinkage + 1e-12


@pytest.mark.usefixtures("untested")
def test_classes_that_overlap_share_nine_tenths_of_their_covariance():
    rng = np.random.default_rng(6)
    labels = np.repeat([0, 1], 300)
    noise = rng.standard_t(4, (len(labels), D)) * rng.uniform(0.5, 2.0, D)

    overlapping, apart = (
        chosen(noise + distance * labels[:, None] * (np.arange(D) < 2), labels, **GAUSSIAN)
        for distance in (0.1, 8.0)
    )

    assert overlapping.shrinkage == 0.9
    assert overlapping.linear_weight == 0.0
    assert apart.shrinkage < 0.51


@pytest.mark.usefixtures("untested")
def test_a_tiny_class_does_not_make_all_others_overlap():
    X, labels = curved_samples(0, 100)
    few = np.flatnonzero(labels == 0)[:3]
    kept = np.concatenate([few, np.flatnonzero(labels > 0)])

    with_few = chosen(X[kept], labels[kept], **GAUSSIAN)
    without = chosen(X[labels > 0], labels[labels > 0] - 1, **GAUSSIAN)

    assert own_factor_of(X[kept], labels[kept]) > 0.8
    assert with_few.shrinkage < without.shrinkage + 0.2


@pytest.mark.usefixtures("untested")
def test_classes_of_the_same_samples_have_no_difference_to_expect():
    X = np.random.default_rng(7).standard_normal((50, D))

    choice = chosen(np.concatenate([X, X]), np.repeat([0, 1], 50), **GAUSSIAN)

    assert choice.shrinkage == 0.9


@pytest.mark.usefixtures("untested")
@pytest.mark.parametrize("n", [25, 35, 45])
def test_linear_scores_weigh_more_the_better_covariances_are_known(n):
    samples = curved_samples(0, n)
    pairs, distances = chosen(*samples, classifier="ovo"), chosen(*samples, **GAUSSIAN)

    assert pairs.shrinkage < 0.9  # The intensity itself.
    known = own_factor_of(*samples) * (1.0 - pairs.shrinkage)
    assert_allclose(distances.linear_weight, 0.7 * known**2, rtol=1e-9)


@pytest.mark.usefixtures("untested")
@pytest.mark.parametrize(
    "changes",
    [
        {"shrinkage": 0.3},
        {"epsilon": 0.3},
        {"covariance": "identity"},
        {"shared_band_size": 0},
        {"classifier": "ovo"},
        {"classifier": "ova"},
    ],
    ids=str,
)
def test_linear_scores_have_no_weight_beside_given_values_and_other_heads(changes):
    samples = curved_samples(0, 30)

    assert chosen(*samples, **GAUSSIAN).linear_weight > 0.0
    assert chosen(*samples, **{**GAUSSIAN, **changes}).linear_weight == 0.0


def test_linear_scores_that_would_change_nothing_are_not_solved():
    assert chosen(*curved_samples(0, 15), **GAUSSIAN).linear_weight == 0.0


def test_dominant_inputs_have_linear_scores_already():
    assert chosen(*linear_samples(0, 30), **GAUSSIAN).linear_weight == 0.0


def test_densities_of_one_covariance_replace_a_discriminant_of_the_inputs():
    linear, few = (chosen(*linear_samples(0, n), **GAUSSIAN) for n in (60, 15))

    assert linear.normal
    assert linear.shrinkage == 1.0
    assert not few.normal


def test_covariances_of_gaussian_classes_are_shrunk_by_their_sizes():
    X, labels = curved_samples(0, 200)
    sizes = [9, 200, 40, 100, 200, 20]
    kept = np.concatenate([np.flatnonzero(labels == c)[:n] for c, n in enumerate(sizes)])
    gaussians, blocks = classes_of(learnt(X[kept], labels[kept]))
    shrinkage, epsilon = 0.2, 0.06
    normal = Choice(1e6, shrinkage, epsilon, density_temperature=1.0)

    weighted = with_choice(gaussians, blocks, normal)

    own, shrunk = (
        [
            (part.T @ part + residual.diag())[: blocks.n_inputs, : blocks.n_inputs].numpy() / n
            for part, residual, n in zip(one.parts(), one.residuals, sizes, strict=True)
        ]
        for one in (gaussians, weighted)
    )
    pooled = np.average(own, axis=0, weights=sizes)
    unit = replace(gaussians, penalties=weighted.penalties).ridge_unit().item()
    # The epsilon of the choice is the ridge of all classes, of which each has its share rho.
    penalties = weighted.penalties[: blocks.n_inputs].numpy()
    target = pooled + epsilon / shrinkage * unit * np.diag(penalties)
    for n, one, found in zip(sizes, own, shrunk, strict=True):
        # As many samples of the target count in every class.
        rho = 1.0 / (1.0 + (1.0 - shrinkage) / shrinkage * n / max(sizes))
        expected = (1.0 - rho) * one + rho * target
        assert_allclose((1.0 - shrinkage) * found + shrinkage * target, expected, rtol=1e-9)


@pytest.mark.parametrize("sizes", [[16, 24, 20, 20, 20, 20], [21, 200, 200, 200, 200, 200]])
def test_without_rare_classes_all_have_the_same_shrinkage(sizes):
    # No class has fewer samples than the 20 inputs, and than half of the mean.
    X, labels = curved_samples(0, max(sizes))
    kept = np.concatenate([np.flatnonzero(labels == c)[:n] for c, n in enumerate(sizes)])
    gaussians, blocks = classes_of(learnt(X[kept], labels[kept]))

    weighted = with_choice(gaussians, blocks, Choice(1e6, 0.3, 1.0, density_temperature=1.0))

    assert torch.equal(weighted.rows, gaussians.rows)


def test_inputs_alone_keep_the_limit_of_pairs():
    X, labels = linear_samples(0, 10)

    assert chosen(X, labels, shared_band_size=0, **GAUSSIAN).shrinkage == 0.9


def test_shrinkage_is_the_formula_on_dense_matrices():
    model = learnt(*curved_samples(0, 30), replace(OPEN, skip_connection=False))
    gaussians, _ = classes_of(model)
    n = gaussians.weights.numpy()
    scatters = [part.T.numpy() @ part.numpy() for part in gaussians.parts()]
    pooled = sum(scatters) / n.sum()
    variance = np.trace(pooled) / len(pooled)
    values, axes = np.linalg.eigh(pooled + variance * np.eye(len(pooled)))
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
    assert_allclose(choice.shrinkage, error / distance, rtol=1e-9)
    # Without a skip connection there is one block, and all penalties are equal.
    effective_rank = np.trace(pooled) ** 2 / np.sum(pooled**2)
    growth = (12.0 * effective_rank / (n.sum() - len(n))) ** 2
    # The norm of the pooled covariance comes from random signs.
    assert_allclose(choice.epsilon / choice.shrinkage - 1.0, growth, rtol=0.3)


def test_few_samples_get_a_larger_ridge():
    growth = [
        choice.epsilon / choice.shrinkage
        for choice in (chosen(*linear_samples(0, n), shrinkage=1.0) for n in (3, 6, 30, 300))
    ]
    assert growth[0] > growth[1] > growth[2] > growth[3]


@pytest.mark.parametrize("samples", [linear_samples, curved_samples])
def test_the_order_of_classes_plays_no_part(samples):
    model = learnt(*samples(0, 30))

    found = [
        choice_of(model, [model.moments[k] for k in order])
        for order in (range(N_CLASSES), range(N_CLASSES)[::-1], [2, 0, 5, 1, 4, 3])
    ]

    assert len({one.density_temperature for one in found}) == 1
    values = [(one.input_energy or 0.0, one.shrinkage, one.epsilon) for one in found]
    assert_allclose(values, [values[0]] * 3, rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "index"), [({"shrinkage": 0.37}, 1), ({"epsilon": 0.02}, 2)], ids=str
)
def test_what_is_given_is_kept_and_the_rest_chosen(given, index):
    choice = chosen(*linear_samples(0, 20), **given)

    assert choice[index] == next(iter(given.values()))
    assert choice.input_energy is not None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"shrinkage": 0.3, "epsilon": 0.7}, (None, 0.3, 0.7)),
        ({"shrinkage": 0.0}, (None, 0.0, 0.3)),
        ({"shrinkage": 0.0, "epsilon": 0.7}, (None, 0.0, 0.7)),
    ],
    ids=str,
)
def test_nothing_is_chosen_where_all_is_given(changes, expected):
    assert chosen(*curved_samples(0, 30), **changes)[:3] == expected


def test_one_vs_all_has_a_ridge_of_its_own():
    assert chosen(*curved_samples(0, 30), classifier="ova").epsilon == 0.3


@pytest.mark.parametrize(
    "settings",
    [{"skip_connection": False}, {"shared_band_size": 0}, {"covariance": "identity"}],
    ids=str,
)
@pytest.mark.parametrize("samples", [linear_samples, curved_samples])
def test_one_block_alone_has_no_energy_to_choose(settings, samples):
    assert chosen(*samples(0, 30), **settings).input_energy is None


def test_bands_of_the_last_task_have_no_say():
    X, labels = curved_samples(0, 30)

    without, beside = chosen(X, labels), chosen(X, labels, band_size=1)

    assert without.input_energy == beside.input_energy
    assert without.density_temperature == beside.density_temperature
    assert_allclose(without[1:3], beside[1:3], rtol=1e-9)


def test_one_sample_per_class_leaves_the_pooled_covariance():
    rng = np.random.default_rng(0)

    assert chosen(rng.standard_normal((2, D)), np.arange(2)) == Choice(None, 0.9, 1.0)


def test_one_class_leaves_the_energy_of_the_start():
    X, _ = curved_samples(0, 5)

    assert chosen(X, np.zeros(len(X), dtype=int)).input_energy is None


def test_many_classes_are_judged_by_a_few():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 6)
    X = 2.0 * rng.standard_normal((40, D))[labels] + rng.standard_normal((len(labels), D))
    model = learnt(X, labels)

    choice = choice_of(model)
    order = rng.permutation(40)

    assert 0.0 < choice.shrinkage <= 1.0
    again = choice_of(model, [model.moments[k] for k in order])
    assert again.input_energy == choice.input_energy
    assert again.density_temperature == choice.density_temperature
    assert_allclose(again[1:3], choice[1:3], rtol=1e-9)


@pytest.mark.parametrize("classifier", ["gaussian", "ovo"])
@pytest.mark.parametrize("n", [1, 3])
def test_features_that_do_not_vary_within_classes(classifier, n):
    X = np.random.default_rng(1).normal(size=(2 * n, 10))
    clf = FFNBClassifier(
        skip_connection=False, shared_band_size=0, classifier=classifier, random_state=0
    )
    clf.fit(X, np.repeat([0, 1], n))
    assert np.isfinite(clf.epsilon_)
    assert np.isfinite(clf.predict_proba(X)).all()


def test_directions_without_spread_add_no_more_than_rounding():
    # Three samples per class vary in two directions, and the outputs of eight opponents in no more.
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(15), 3)
    X = rng.normal(size=(45, 8)) + 3.0 * rng.normal(size=(15, 8))[y]
    whole, parts = (
        FFNBClassifier(band_size=0, shared_band_size=60, chunk_size=size, random_state=0)
        .fit(X, y)
        .decision_function(X)
        for size in (4096, 7)
    )
    assert_allclose(parts, whole, rtol=1e-10, atol=1e-10 * np.abs(whole).max())


@pytest.mark.parametrize("shrinkage", [0.3, None])
@pytest.mark.parametrize("head", ["gaussian", "ova"])
@pytest.mark.parametrize("skip", [False, True])
def test_the_temperature_of_an_absolute_ridge_is_that_of_the_same_relative_one(
    head, shrinkage, skip
):
    settings = replace(OPEN, skip_connection=skip, shrinkage=shrinkage, classifier=head)
    model = learnt(*curved_samples(0, 30), settings)
    gaussians, blocks = classes_of(model)
    energy = choose(
        gaussians, blocks, replace(settings, epsilon=1.0), model.features.shared
    ).input_energy
    weighted = with_choice(gaussians, blocks, Choice(energy, 0.5, 1.0))
    variance = float(weighted.pooled_variance())

    absolute = temperature_of(model, classifier=head, units="absolute", epsilon=0.6)
    relative = temperature_of(model, classifier=head, epsilon=0.3 / variance)

    assert_allclose(absolute, relative, rtol=1e-9)


@pytest.mark.parametrize("shrinkage", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("covariance", ["class", "identity"])
def test_the_temperature_is_that_of_the_same_ridge_over_the_pooled_covariance(
    covariance, shrinkage
):
    # B / share has a ridge relative to a pooled covariance that counts in full.
    settings = replace(OPEN, shrinkage=shrinkage, epsilon=0.3, covariance=covariance)
    model = learnt(*curved_samples(0, 30), settings)
    share = max(0.1, 0.0 if covariance == "identity" else shrinkage)
    gaussians, blocks = classes_of(model)
    gaussians = with_choice(gaussians, blocks, Choice(None, shrinkage, 0.3))
    base = shared_covariance(gaussians, 1.0, 0.3 / share)
    left_out = LeftOutSamples(gaussians)

    _, expected = left_out.cross_entropy(base, base.solve(left_out.means))

    assert_allclose(temperature_of(model), expected, rtol=1e-9)


def test_the_intensity_of_linear_classes_is_one_in_the_ridge():
    # Its limit is not one of the ridge, and 600 samples hardly need a larger one.
    choice = chosen(*linear_samples(0, 100), classifier="ovo")

    assert choice.shrinkage >= 0.9
    assert_allclose(choice.epsilon, 1.0, atol=0.05)
