"""score_samples and novelty_threshold: samples of classes that were not learned score low."""

import copy
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, hstack
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.lib.sets import load_group
from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    load,
    make_continual_pipeline,
    partial_fit_shards,
    save,
)
from ffnb_sklearn.core import left_out as left_out_module
from ffnb_sklearn.core import prediction
from tests.separated_classes import CODES, N_FEATURES, X, learned, of

DIGITS = train_test_split(*load_digits(return_X_y=True), test_size=0.4, random_state=0)
PAIRS = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]


def estimator(**parameters):
    return IncrementalDiscriminantAnalysis(
        **{"shared_band_size": 10, "random_state": 0, **parameters}
    )


def ffnb(**parameters):
    return FFNBClassifier(**{"shared_band_size": 10, "random_state": 0, **parameters})


def absolute():
    """Return the published model with inputs and random neurons, and distances to the classes."""
    return FFNBClassifier.as_published(
        bands__max_epochs=0,
        shared_band_size=10,
        skip_connection=True,
        classifier="gaussian",
        shrinkage="auto",
        epsilon=0.1,
        random_state=0,
    )


def wide(rows):
    """Rows as wide sparse samples, which the model never makes dense."""
    return hstack([csr_array(rows), csr_array((len(rows), 3000))], format="csr")


def overlapping():
    """Rows of the eight classes, whose means are at a fifth of their distances."""
    means = np.array([of(c).mean(0) for c in range(8)])
    return X - 0.8 * means[CODES]


def left_out(model):
    """Values that are kept, by class in order of arrival."""
    return [one.values for one in model._state.model.left_out]


def novelty_auroc(model, new):
    """Area under the curve of unseen digits beside unseen rows of the learned ones."""
    A, B, a, b = DIGITS
    seen = ~np.isin(a, new)
    model.fit(A[seen], a[seen])
    return roc_auc_score(~np.isin(b, new), model.score_samples(B))


def test_left_out_digits():
    areas = [novelty_auroc(IncrementalDiscriminantAnalysis(random_state=0), pair) for pair in PAIRS]
    assert np.mean(areas) >= 0.98
    assert min(areas) >= 0.97


def parts(model, rows):
    """Relative distances without probabilities, and largest probabilities."""
    relative = prediction.relative_distances(model._state.model, torch.device("cpu"))
    features = prediction.classifier_features(model._state.model, torch.as_tensor(rows))
    without_probabilities = replace(relative, overlap=0.0).likeness(features).numpy()
    return without_probabilities, model.predict_proba(rows).max(axis=1)


def test_the_score_is_near_the_better_of_its_parts_on_a_table(shared_data):
    split = load_group("features", shared_data, shared_data)["segment"].splits(0)[0]
    areas = []
    for unseen in np.unique(split.y):
        seen = split.y != unseen
        model = IncrementalDiscriminantAnalysis(random_state=0).fit(split.X[seen], split.y[seen])
        scores = model.score_samples(split.X_test), *parts(model, split.X_test)
        areas.append([roc_auc_score(split.y_test != unseen, values) for values in scores])
    area, by_distance, by_probability = np.mean(areas, axis=0)
    assert area >= max(by_distance, by_probability) - 0.02


def test_the_probabilities_count_as_much_as_the_classes_overlap():
    # Rows of one direction have all lengths, so that distances detect little.
    rng = np.random.default_rng(0)
    means = 0.5 * rng.standard_normal((6, 40))

    def draw(n):
        y = np.repeat(np.arange(6), n)
        lengths = np.exp(0.5 * rng.standard_normal((len(y), 1)))
        return lengths * (means[y] + 0.8 * rng.standard_normal((len(y), 40))), y

    (A, a), (B, b) = draw(200), draw(100)
    model = estimator(shared_band_size=0).fit(A[a < 5], a[a < 5])
    by_distance, _ = parts(model, B)
    assert roc_auc_score(b < 5, model.score_samples(B)) >= roc_auc_score(b < 5, by_distance) + 0.1
    # Classes that are far apart leave the score to the distances.
    centres = np.array([of(c).mean(0) for c in range(8)])
    tight = estimator().fit(centres[CODES] + 1e-6 * X, CODES)
    rows = centres + 1e-6
    assert_allclose(tight.score_samples(rows), parts(tight, rows)[0], rtol=1e-3)


@pytest.mark.parametrize("head", ["ovo", "ova"])
def test_every_classifier_has_scores(head):
    assert (
        novelty_auroc(IncrementalDiscriminantAnalysis(classifier=head, random_state=0), (4, 5))
        > 0.95
    )


def test_it_is_the_ratio_of_two_distances_over_the_norm_of_the_probabilities():
    plain = {"shared_band_size": 0, "rank": None}
    rows = overlapping()
    model = estimator(shrinkage=0.3, epsilon=0.2, **plain).fit(rows, CODES)
    members = np.split(rows, 8)
    scatters = [np.cov(each.T, ddof=0) for each in members]
    means = np.array([each.mean(0) for each in members])
    pooled = np.mean(scatters, axis=0)
    variances = np.diag(pooled)
    penalties = variances + np.sort(variances)[(N_FEATURES - 1) // 2]
    ridge = 0.2 * np.diag(penalties) * np.mean(variances / penalties)
    total = pooled + np.cov(means.T, ddof=0) + ridge

    def distances(centre, covariance):
        deviations = rows - centre
        return np.einsum("ij,ij->i", deviations @ np.linalg.inv(covariance), deviations)

    nearest = np.min(
        [
            distances(m, 0.7 * own + 0.3 * pooled + ridge)
            for m, own in zip(means, scatters, strict=True)
        ],
        axis=0,
    )
    from_all = distances(rows.mean(0), total)
    # Without the share that an event that no sample showed adds to all classes.
    unseen = 1.0 / (len(rows) + 2.0)
    probabilities = (model.predict_proba(rows) - unseen / 8.0) / (1.0 - unseen)
    norms = np.linalg.norm(probabilities, axis=1)
    assert norms.min() < 0.6
    from_means = np.mean([m @ np.linalg.solve(pooled + ridge, m) for m in means - rows.mean(0)])
    correlation_ratio = np.sqrt(from_means / (from_all.mean() + from_means))
    expected = -nearest / (from_all + from_all.mean()) / norms ** (1.0 - correlation_ratio)
    assert_allclose(model.score_samples(rows), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (estimator, {}),
        (estimator, {"classifier": "ova"}),
        (ffnb, {}),
        (ffnb, {"covariance": "identity"}),
        (estimator, {"shrinkage": 0.0}),
        (estimator, {"shrinkage": 1.0}),
        (absolute, {}),
        (estimator, {"rank": 3}),
    ],
)
def test_unknown_classes_score_low(make, parameters):
    model = learned(make(**parameters), [0, 1], [2, 3])
    scores = model.score_samples(X)
    assert scores.shape == (160,)
    assert (scores <= 0.0).all()
    assert roc_auc_score(CODES < 4, scores) > 0.95
    # Once they have been learned they are like the rest.
    assert learned(model, [4, 5, 6, 7]).score_samples(of(5)).mean() > scores[CODES == 5].mean()


def test_one_class_and_one_sample():
    alone = learned(estimator(), [0])
    assert roc_auc_score(CODES == 0, alone.score_samples(X)) > 0.99
    single = estimator().partial_fit(X[:1], ["only"])
    scores = single.score_samples(X)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 0


def test_scores_follow_what_is_learned_and_forgotten_and_not_the_priors():
    model = learned(estimator(), [0, 1])
    before = model.score_samples(X)
    assert_array_equal(model.set_params(priors="empirical").score_samples(X), before)
    learned(model, [2])
    assert not np.allclose(model.score_samples(X), before)
    assert_allclose(model.forget(2).score_samples(X), before, rtol=1e-9)


def test_chunks_subsets_and_pipelines_give_the_same():
    model = learned(estimator(), [0, 1, 2])
    expected = model.score_samples(X)
    assert_allclose(model.score_samples(X[5:8]), expected[5:8], rtol=1e-9)
    parts = learned(estimator(chunk_size=7), [0, 1, 2])
    assert_allclose(parts.score_samples(X), expected, rtol=1e-7)
    pipeline = learned(make_continual_pipeline(estimator()), [0, 1, 2])
    assert_allclose(pipeline.score_samples(X), expected, rtol=1e-9)


def test_another_number_of_features_is_refused():
    with pytest.raises(
        ValueError, match="X has 2 features, but IncrementalDiscriminantAnalysis is expecting 6"
    ):
        learned(estimator(), [0, 1]).score_samples(X[:, :2])


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
def test_rounding_leaves_no_likeness_positive():
    # Every sample is the mean of a class of its own, at a distance of zero but for rounding.
    model = estimator(shared_band_size=0).fit(1e3 + X, np.arange(len(X)))
    scores = model.score_samples(1e3 + X)
    assert (scores <= 0.0).all()
    assert_allclose(scores, 0.0, atol=1e-6)


@pytest.mark.parametrize("pairs", [[range(10)], PAIRS], ids=["at once", "in five tasks"])
def test_a_threshold_has_about_its_rate_of_false_alarms(pairs):
    A, B, a, _ = DIGITS
    model = IncrementalDiscriminantAnalysis(shared_band_size=200, novelty=True, random_state=0)
    for pair in pairs:
        model.partial_fit(A[np.isin(a, pair)], a[np.isin(a, pair)])
    scores = model.score_samples(B)
    rates = [np.mean(scores < model.novelty_threshold(rate)) for rate in (0.05, 0.2)]
    # On average of many sets, early tasks make the rate a little lower than asked for.
    assert 0.02 < rates[0] < 0.08
    assert 0.1 < rates[1] < 0.25
    # The scores of samples that were learned give a threshold that is far too high.
    assert np.mean(scores < np.quantile(model.score_samples(A), 0.05)) > 0.15


def without(model, rows, labels, number):
    """Score of a sample to a model that has not learned it."""
    others = np.arange(len(rows)) != number
    rest = clone(model).set_params(novelty=False).fit(rows[others], labels[others])
    return rest.score_samples(rows[[number]])[0]


@pytest.mark.parametrize(("shrinkage", "shared_band_size"), [(0.1, 30), (1.0, 0)])
def test_left_out_scores_are_those_of_models_without_the_samples(shrinkage, shared_band_size):
    parameters = {"shrinkage": shrinkage, "shared_band_size": shared_band_size, "rank": None}
    model = estimator(novelty=True, epsilon=0.1, **parameters)
    rows, labels = overlapping()[:60], CODES[:60]
    model.fit(rows, labels)
    expected = np.array([without(model, rows, labels, number) for number in range(60)])
    # Each covariance keeps its divisor, and ridge and temperature are those of all samples.
    for values, label in zip(left_out(model), range(3), strict=True):
        assert_allclose(values, np.sort(expected[labels == label]), rtol=0.08)
    # Scores of samples that were learned are higher.
    assert np.mean(model.score_samples(rows) / expected) < 0.9


@pytest.mark.parametrize("covariance", ["class", "identity"])
def test_left_out_scores_follow_from_moments_without_the_samples(covariance):
    parameters = {"shrinkage": 0.3, "epsilon": 0.2, "shared_band_size": 0, "rank": None}
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 60)
    rows = overlapping()[:60]
    model = estimator(novelty=True, **parameters)
    # The setting of the core without a parameter of this classifier.
    model.covariance = covariance
    model.fit(rows, CODES[:60], sample_weight=weights)
    relative = prediction.relative_distances(model._state.model, torch.device("cpu"))
    total = weights.sum()
    class_weights = np.bincount(CODES[:60], weights)
    share = 1.0 if covariance == "class" else 0.0

    def matrix(inverse):
        # The squared lengths of sums of two axes have the products of the axes.
        axes = np.eye(X.shape[1])
        sums = (axes[:, None] + axes).reshape(-1, len(axes))
        lengths = inverse.lengths(torch.from_numpy(sums)).numpy().reshape(len(axes), -1)
        own = 0.25 * lengths.diagonal()
        return np.linalg.inv(0.5 * (lengths - own[:, None] - own))

    shared, pooled = matrix(relative.shared), matrix(relative.total)
    centre = weights @ rows / total
    sums = [weights[CODES[:60] == c] @ rows[CODES[:60] == c] for c in range(3)]
    means = np.array(sums) / class_weights[:, None]
    axes = np.split(relative.distances.rows, np.cumsum(relative.distances.lengths)[:-1])
    inner = [np.linalg.inv(np.linalg.inv(shared) - own.T @ own) for own in axes]

    def left_out_score(x, label, weight):
        n = class_weights[label]
        z = x - means[label]
        outer = share * weight * n / (n - weight) * np.outer(z, z)
        distances, in_own_axes = [], []
        for c in range(3):
            deviation = x - means[c]
            length = deviation @ np.linalg.solve(shared, deviation)
            in_own_axes.append(length - deviation @ np.linalg.solve(inner[c], deviation))
            covariance = inner[c] - 0.3 * outer / total
            if c == label:
                covariance = covariance - 0.7 * outer / n
                deviation = n / (n - weight) * z
                length = deviation @ np.linalg.solve(shared - 0.3 * outer / total, deviation)
            distances.append(deviation @ np.linalg.solve(covariance, deviation))
            if c == label:
                in_own_axes[c] = length - distances[c]
        t = x - centre
        growth = total / (total - weight)
        spread = pooled - share * weight * growth / total * np.outer(t, t)
        from_all = growth**2 * t @ np.linalg.solve(spread, t)
        head = relative.distances
        square = in_own_axes[np.argmin(distances)]
        temperature = head.temperature + head.own_temperature * square
        norm = np.linalg.norm(softmax(-0.5 * np.array(distances) / temperature))
        ratio = min(distances) / (from_all + relative.mean_distance)
        return -ratio / norm**relative.overlap

    scores = [left_out_score(*one) for one in zip(rows, CODES[:60], weights, strict=True)]
    for label, values in enumerate(left_out(model)):
        members = CODES[:60] == label
        assert_allclose(values, np.sort(np.array(scores)[members]), rtol=1e-8)


def test_the_threshold_counts_classes_by_priors_and_by_the_samples_learned_then():
    model = learned(estimator(novelty=True), [0, 1], [2])
    values = np.concatenate(left_out(model))
    weights = np.repeat([16.0, 16.0, 81.0], 20)

    def quantile(weights, rate):
        order = np.argsort(values)
        sums = np.cumsum(weights[order])
        return values[order][np.flatnonzero(sums >= rate * sums[-1])[0]]

    for rate in (0.01, 0.3, 0.99):
        assert model.novelty_threshold(rate) == quantile(weights, rate)
    model.set_params(priors={0: 8, 1: 1, 2: 1})
    shares = np.repeat([8.0, 1.0, 1.0], 20)
    assert model.novelty_threshold(np.float32(0.3)) == quantile(shares * weights, np.float32(0.3))


def test_a_decayed_class_counts_in_the_threshold_as_before():
    model = learned(estimator(novelty=True), range(4))
    thresholds = [model.novelty_threshold(rate) for rate in (0.01, 0.3, 0.99)]
    model.decay(0.1, classes=[2])
    assert [model.novelty_threshold(rate) for rate in (0.01, 0.3, 0.99)] == thresholds
    # Its later samples count as they do if the earlier ones had this weight.
    weights = np.where(CODES == 2, 0.1, 1.0)
    weighted = learned(estimator(novelty=True), range(4))
    weighted.fit(X[CODES < 4], CODES[CODES < 4], weights[CODES < 4])
    for each in (model, weighted):
        learned(each, [4])
    for one, other in zip(model._state.model.left_out, weighted._state.model.left_out, strict=True):
        assert_allclose(one.learned_weights, other.learned_weights, rtol=1e-12)
        assert_allclose(one.weights, other.weights, rtol=1e-12)


def test_as_many_samples_of_each_class_are_left_out(monkeypatch):
    monkeypatch.setattr(left_out_module, "_ENOUGH", 12)
    model = estimator(novelty=True).fit(X[:43], CODES[:43])
    assert [len(values) for values in left_out(model)] == [5, 4, 3]


def test_what_was_solved_for_the_scores_serves_the_first_prediction():
    model = learned(estimator(novelty=True), [0, 1])
    assert {"solution", "relative"} <= set(model._state.model.cache)
    assert_array_equal(model.predict_proba(X), learned(estimator(), [0, 1]).predict_proba(X))


def test_quantiles_are_kept_of_many_samples():
    Y = np.random.default_rng(0).standard_normal((150, 3))
    model = estimator(novelty=True).fit(Y, np.zeros(150))
    (values,) = left_out(model)
    assert len(values) == 100
    rate = np.mean(model.score_samples(Y) < model.novelty_threshold(0.1))
    assert 0.05 < rate < 0.15
    # Further samples of the class are pooled with its earlier samples.
    model.partial_fit(Y + 9.0, np.zeros(150))
    (pooled,) = left_out(model)
    assert len(pooled) == 100
    # Values from a model of 300 samples count 16 times as much as values from one of 150.
    assert np.mean(np.isin(pooled, values)) == pytest.approx(1 / 17, abs=0.03)


@pytest.mark.filterwarnings("ignore:The novelty scores of other classes:UserWarning")
def test_left_out_scores_follow_their_classes():
    parameters = {"novelty": True}
    model = learned(estimator(**parameters), [0, 1], [2])
    first, second, third = left_out(model)
    # Other samples of class 1.
    now = np.isin(CODES, [1, 4])
    other = estimator(**parameters).partial_fit(1.01 * X[now], CODES[now])
    merged = learned(estimator(**parameters), [0, 1], [2]).merge(other)
    assert_array_equal(left_out(merged)[0], first)
    assert_array_equal(left_out(merged)[3], left_out(other)[1])
    assert_array_equal(left_out(merged)[1], np.sort([*second, *left_out(other)[0]]))
    model.forget(0)
    assert_array_equal(left_out(model)[1], third)
    # The other model may have left no sample out.
    mixed = learned(estimator(), [4]).merge(other)
    assert [len(values) for values in left_out(mixed)] == [20, 20]
    # A merge without left-out samples has none.
    assert left_out(learned(estimator(), [0]).merge(learned(estimator(), [1]))) == []


def test_classes_that_were_learned_without_left_out_samples_play_no_part():
    model = learned(estimator(novelty=True), [0, 1])
    threshold = model.novelty_threshold(0.3)
    learned(model.set_params(novelty=False), [2], [3])
    assert model.novelty_threshold(0.3) == threshold
    learned(model.set_params(novelty=True), [4])
    assert [len(values) for values in left_out(model)] == [20, 20, 0, 0, 20]
    learned(model, [2])
    assert [len(values) for values in left_out(model)] == [20, 20, 20, 0, 20]


def test_a_single_sample_of_a_new_class_is_not_left_out():
    model = estimator(novelty=True).fit(X[:61], CODES[:61])
    assert [len(values) for values in left_out(model)] == [20, 20, 20, 0]
    model.partial_fit(X[61:62], CODES[61:62])
    assert len(left_out(model)[3]) == 1


def test_forget_warns_if_scores_of_other_classes_were_computed_beside_the_class():
    model = learned(estimator(novelty=True), [0, 1], [2], [3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # No class has been learned since.
        model.forget(3)
    never = learned(estimator(novelty=True), [0, 1], [2])
    for rate in (0.01, 0.3, 0.99):
        assert model.novelty_threshold(rate) == never.novelty_threshold(rate)
    with pytest.warns(
        UserWarning, match=r"scores of other classes keep a trace of the classes \[0"
    ):
        model.forget([0])
    learned(estimator(), [0, 1]).forget(0)


@pytest.mark.filterwarnings("ignore:forget_samples deletes the novelty scores:UserWarning")
def test_classes_that_lose_samples_lose_their_left_out_scores():
    model = learned(estimator(rank=None, novelty=True), [0, 1], [2])
    with pytest.warns(UserWarning, match=r"forget_samples deletes the novelty scores of .* \[1\]"):
        copy.deepcopy(model).forget_samples(X[20:22], CODES[20:22])
    first, _, third = left_out(model)
    model.forget_samples(X[20:22], CODES[20:22])
    assert_array_equal(left_out(model)[0], first)
    assert_array_equal(left_out(model)[2], third)
    assert [len(values) for values in left_out(model)] == [20, 0, 20]
    threshold = model.novelty_threshold(0.1)
    model.partial_fit(X[20:22], CODES[20:22])
    assert [len(values) for values in left_out(model)] == [20, 2, 20]
    model.forget_samples(X[:60:10], CODES[:60:10])
    with pytest.raises(ValueError, match="forget_samples discards the scores of its classes"):
        model.novelty_threshold(0.1)
    assert np.isfinite(threshold)


def test_sample_weights_count():
    weights = np.ones(40)
    weights[20:] = np.arange(20)
    model = estimator(novelty=True).fit(X[:40], CODES[:40], sample_weight=weights)
    assert [len(values) for values in left_out(model)] == [20, 19]
    plain = estimator(novelty=True).fit(X[:40], CODES[:40])
    assert model.novelty_threshold(0.2) != plain.novelty_threshold(0.2)


@pytest.mark.parametrize(("size", "moderate_size"), [(1e-200, 1e-100), (1e200, 1e100)])
def test_weights_of_any_size_have_a_threshold(size, moderate_size):
    model = estimator(novelty=True).fit(X, CODES, np.full(len(X), size))
    moderate = estimator(novelty=True).fit(X, CODES, np.full(len(X), moderate_size))
    threshold = model.novelty_threshold(0.05)
    assert threshold == pytest.approx(moderate.novelty_threshold(0.05), rel=1e-9)


@pytest.mark.parametrize("form", [np.asarray, csr_array, wide], ids=["dense", "sparse", "wide"])
def test_rows_that_occur_five_times_are_left_out_together(form):
    A, B, a, _ = DIGITS
    A, a = A[:500], a[:500]
    parameters = {"shared_band_size": 0, "novelty": True, "random_state": 0}
    model = IncrementalDiscriminantAnalysis(**parameters).fit(
        form(np.tile(A, (5, 1))), np.tile(a, 5)
    )
    scores = model.score_samples(form(B))
    for rate in (0.05, 0.1, 0.2):
        assert np.mean(scores < model.novelty_threshold(rate)) < 2.0 * rate


def test_a_new_class_of_equal_rows_is_not_left_out():
    rows, labels = np.vstack([X[:40], np.tile(X[50], (5, 1))]), np.r_[CODES[:40], [2] * 5]
    model = estimator(novelty=True).fit(rows, labels)
    assert [len(values) for values in left_out(model)] == [20, 20, 0]


def test_files_and_pipelines_have_the_threshold(tmp_path):
    model = learned(estimator(novelty=True), [0, 1], [2])
    save(model, tmp_path / "model.ffnb")
    assert load(tmp_path / "model.ffnb").novelty_threshold(0.1) == model.novelty_threshold(0.1)
    pipeline = learned(make_continual_pipeline(estimator(novelty=True)), [0, 1], [2])
    assert pipeline[-1].novelty_threshold(0.1) == model.novelty_threshold(0.1)


def test_shards_leave_no_sample_out():
    model = estimator(novelty=True)
    partial_fit_shards(model, [(of(0, 1), np.repeat([0, 1], 20))])
    with pytest.raises(ValueError, match="no class has any"):
        model.novelty_threshold(0.1)


@pytest.mark.parametrize("rate", [0, 1, -0.1, 1.5, "5 %", None])
def test_bad_rates_are_refused(rate):
    model = learned(estimator(novelty=True), [0, 1])
    with pytest.raises(
        (TypeError, ValueError), match=r"^rate (== .*, must be|must be an instance)"
    ):
        model.novelty_threshold(rate)


def test_a_threshold_needs_left_out_samples():
    message = "novelty_threshold needs scores of samples left out .* set novelty=True"
    with pytest.raises(ValueError, match=message):
        learned(estimator(), [0, 1]).novelty_threshold(0.1)
    with pytest.raises(ValueError, match=message):
        estimator(novelty=True).fit(X[:1], [0]).novelty_threshold(0.1)
    with pytest.raises(NotFittedError):
        estimator(novelty=True).novelty_threshold(0.1)
