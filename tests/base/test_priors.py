"""Priors: unequal classes, changed without learning; and logarithms of probabilities."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.datasets import load_digits, make_classification
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split

from ffnb_sklearn import IncrementalDiscriminantAnalysis, load, make_continual_pipeline, save
from ffnb_sklearn._base import priors as priors_module
from ffnb_sklearn._base.priors import estimate_shares
from ffnb_sklearn.core import prediction
from tests.separated_classes import CODES, NAMES, X, failing, learned, of, unchanged

HEADS = ["gaussian", "ovo", "ova"]

# Rows of the classes 0, 1 and 2 close together, 4, 10 and 16 of them.
NEAR = np.repeat([0, 1, 2], [4, 10, 16])
NEAR_X = np.random.default_rng(1).normal(size=(30, 6)) + 0.3 * NEAR[:, None]


def estimator(**parameters):
    return IncrementalDiscriminantAnalysis(
        **{"shared_band_size": 10, "random_state": 0, **parameters}
    )


def near(**parameters):
    return estimator(**parameters).fit(NEAR_X, NEAR)


def unequal_classes(seed):
    """Train and test rows of three generated classes of 2, 5 and 93 %, of two clusters each."""
    X, y = make_classification(
        3000,
        n_informative=8,
        n_classes=3,
        weights=[0.02, 0.05, 0.93],
        random_state=seed,
    )
    return train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)


# ---- what they mean


@pytest.mark.parametrize("head", ["gaussian", "ovo"])
def test_they_multiply_the_probabilities(head):
    model, weights = near(classifier=head), {0: 1.5, 1: 0.75, 2: 1.0}
    # By the rule of succession, 1 / 32 is the share of samples unlike the 30 that were learned.
    expected = (model.predict_proba(NEAR_X) - 1 / 96) * [1.5, 0.75, 1.0]
    expected *= 31 / 32 / expected.sum(axis=1, keepdims=True)
    model.set_params(priors=weights)
    probabilities = model.predict_proba(NEAR_X)
    assert_allclose(probabilities, expected + 1 / 96, rtol=1e-9)
    assert_array_equal(model.predict(NEAR_X), probabilities.argmax(axis=1))
    assert_array_equal(model.decision_function(NEAR_X).argmax(axis=1), model.predict(NEAR_X))
    assert len(np.unique(model.predict(NEAR_X))) > 1


@pytest.mark.parametrize("head", HEADS)
def test_empirical_priors_are_the_weights_of_the_classes(head):
    model = near(classifier=head, priors="empirical")
    shares = near(classifier=head, priors={0: 4, 1: 10, 2: 16})
    assert_allclose(model.predict_proba(NEAR_X), shares.predict_proba(NEAR_X), rtol=1e-9)
    weighted = estimator(classifier=head, priors="empirical", rank=None)
    weighted.fit(NEAR_X, NEAR, sample_weight=1.0 + NEAR)
    by_hand = weighted.predict_proba(NEAR_X)
    weighted.set_params(priors={0: 4, 1: 20, 2: 48})
    assert_allclose(by_hand, weighted.predict_proba(NEAR_X), rtol=1e-9)


@pytest.mark.parametrize("head", HEADS)
def test_equal_weights_are_uniform(head):
    uniform, equal = near(classifier=head), near(classifier=head, priors=dict.fromkeys(range(3), 7))
    assert_array_equal(uniform.predict_proba(NEAR_X), equal.predict_proba(NEAR_X))


@pytest.mark.parametrize("head", HEADS)
def test_predictions_have_the_largest_score_and_probability(head):
    model = near(classifier=head, priors={0: 3.0, 1: 0.5, 2: 1.0})
    found = model.predict(NEAR_X)
    assert_array_equal(model.predict_proba(NEAR_X).argmax(axis=1), found)
    assert_array_equal(model.decision_function(NEAR_X).argmax(axis=1), found)
    assert (found == 0).sum() > (near(classifier=head).predict(NEAR_X) == 0).sum()


@pytest.mark.parametrize("head", HEADS)
def test_uniform_priors_leave_the_scores_as_they_are(head):
    model = near(classifier=head)
    samples = model._samples(model._state, NEAR_X)
    scores = prediction.scores(model._state.model, samples)
    assert_array_equal(model.decision_function(NEAR_X), scores.numpy())


def test_empirical_priors_are_those_of_the_regression_of_indicators():
    plain = {"shared_band_size": 0, "rank": None}
    model = near(classifier="ova", priors="empirical", epsilon=0.3, shrinkage=1.0, **plain)
    variances = [NEAR_X[rows].var(0) for rows in np.equal.outer(range(3), NEAR)]
    within = np.bincount(NEAR) @ variances / 30
    penalties = within + np.sort(within)[(len(within) - 1) // 2]
    scaled, alpha = NEAR_X / penalties**0.5, 0.3 * np.mean(within / penalties) * 30
    ridge = Ridge(alpha=alpha).fit(scaled, np.eye(3)[NEAR])
    assert_allclose(model.decision_function(NEAR_X), ridge.predict(scaled), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("head", HEADS)
def test_a_change_neither_learns_nor_solves(head, monkeypatch):
    model = near(classifier=head)
    before = model.predict_proba(NEAR_X)
    monkeypatch.setattr(prediction, "solve", failing)
    model.set_params(priors={0: 100, 1: 1, 2: 1})
    assert (model.predict_proba(NEAR_X)[:, 0] > before[:, 0]).all()
    model.set_params(priors="uniform")
    assert_array_equal(model.predict_proba(NEAR_X), before)


@pytest.mark.parametrize("head", HEADS)
def test_two_classes_keep_one_column_of_scores(head):
    y = np.minimum(NEAR, 1)
    model = estimator(classifier=head).fit(NEAR_X, y)
    counts = []
    for weight in (0.2, 1.0, 5.0):
        model.set_params(priors={0: 1.0, 1: weight})
        scores, found = model.decision_function(NEAR_X), model.predict(NEAR_X)
        assert scores.shape == (30,)
        assert_array_equal(found, scores > 0)
        assert_array_equal(found, model.predict_proba(NEAR_X).argmax(axis=1))
        counts.append(found.sum())
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("tiny", [1e-300, 1e-30])
def test_extreme_weights_give_finite_numbers(head, tiny):
    model = near(classifier=head, priors={0: tiny, 1: 1e300, 2: 1.0})
    assert np.isfinite(model.decision_function(NEAR_X)).all()
    assert np.isfinite(model.predict_log_proba(NEAR_X)).all()
    assert_allclose(model.predict_proba(NEAR_X).sum(axis=1), 1.0)
    assert (model.predict(NEAR_X) == 1).all()


# ---- streams, merge, forget


@pytest.mark.parametrize("head", HEADS)
def test_labels_are_those_of_the_mapping_in_any_order(head):
    weights = dict(zip(NAMES.tolist(), range(1, 9), strict=True))
    streamed = learned(estimator(classifier=head, priors=weights), [3, 1], [0], y=NAMES[CODES])
    whole = learned(estimator(classifier=head, priors=weights), [0, 1, 3], y=NAMES[CODES])
    assert_allclose(streamed.predict_proba(X), whole.predict_proba(X), rtol=1e-6, atol=1e-12)
    assert_array_equal(streamed.predict(of(1)), np.full(20, NAMES[1]))


@pytest.mark.parametrize("head", HEADS)
def test_merged_and_forgotten_classes(head):
    common = {"classifier": head, "priors": "empirical", "rank": None}
    whole = estimator(**common).fit(NEAR_X, NEAR)
    some = NEAR == 1
    merged = estimator(**common).partial_fit(NEAR_X[~some], NEAR[~some])
    # The priors of the other play no part.
    other = estimator(**{**common, "priors": {1: 5.0}}).partial_fit(NEAR_X[some], NEAR[some])
    merged.merge(other)
    assert_allclose(merged.predict_proba(NEAR_X), whole.predict_proba(NEAR_X), rtol=1e-6)
    merged.forget(1)
    left = estimator(**common).fit(NEAR_X[~some], NEAR[~some])
    assert_allclose(merged.predict_proba(NEAR_X), left.predict_proba(NEAR_X), rtol=1e-6)


def test_a_merge_without_the_weight_of_a_label_changes_nothing():
    model = learned(estimator(scale=False, priors={0: 1, 1: 2}), [0, 1])
    with unchanged(model), pytest.raises(ValueError, match=r"none for \[2\]"):
        model.merge(learned(estimator(scale=False), [2]))


@pytest.mark.parametrize("head", HEADS)
def test_shards(head):
    da = pytest.importorskip("dask.array")
    from ffnb_sklearn import partial_fit_shards

    shards = da.from_array(NEAR_X, chunks=(10, 6)), da.from_array(NEAR, chunks=10)
    common = {"classifier": head, "priors": "empirical", "rank": None}
    model = partial_fit_shards(estimator(**common), *shards)
    expected = estimator(**common).fit(NEAR_X, NEAR).predict_proba(NEAR_X)
    assert_allclose(model.predict_proba(NEAR_X), expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"none for \[0, 2\]"):
        partial_fit_shards(estimator(**{**common, "priors": {1: 1.0}}), *shards)


@pytest.mark.parametrize("head", HEADS)
def test_a_declared_label_needs_no_weight_and_stays_silent(head):
    model = learned(estimator(classifier=head, priors={0: 1, 1: 9}), [0, 1], classes=[5])
    scores = model.decision_function(X)
    assert (scores[:, 2] < scores[:, :2].min(axis=1) - 36.0).all()
    assert (model.predict_proba(X)[:, 2] == 0.0).all()
    assert_array_equal(model.predict_log_proba(X)[:, 2], np.log(1e-280))
    assert set(model.predict(X)) == {0, 1}


def test_a_pipeline_passes_them_on():
    model = make_continual_pipeline(estimator(priors="empirical")).fit(NEAR_X, NEAR)
    expected = near(priors="empirical").predict_log_proba(NEAR_X)
    assert_array_equal(model.predict_log_proba(NEAR_X), expected)


# ---- bad input


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        (
            "balanced",
            "'priors' parameter of IncrementalDiscriminantAnalysis|priors must be 'uniform'",
        ),
        (
            [0.5, 0.5],
            "'priors' parameter of IncrementalDiscriminantAnalysis|priors must be 'uniform'",
        ),
        ({}, r"priors must have a weight for every label learned; .* none for \[0, 1\]"),
        ({0: 1.0}, r"got weights for \[0\], and none for \[1\]"),
        ({"a": 1.0, "b": 2.0}, "priors must hold labels of the kind seen before, number"),
        ({0: 1.0, "b": 2.0}, "priors must hold .*, all of one kind; got number and str"),
        ({0: -1.0, 1: 1.0}, r"finite weight of at least 0; got -1.0 for label 0"),
        ({0: 0.0, 1: 0}, r"at least one label to a positive weight; got 0 for all of \[0, 1\]"),
        ({0: 1.0, 1: np.nan}, r"finite weight of at least 0; got nan for label 1"),
        ({0: 1.0, 1: np.inf}, r"finite weight of at least 0; got inf for label 1"),
        ({0: 1.0, 1: "2"}, r"finite weight of at least 0; got '2' for label 1"),
    ],
    ids=repr,
)
def test_bad_priors(priors, message):
    model = learned(estimator(), [0, 1])
    before = model.predict_proba(X)
    model.set_params(priors=priors)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        with pytest.raises(ValueError, match=message):
            getattr(model, method)(X)
    with pytest.raises(ValueError, match=message):
        learned(model, [1])
    with pytest.raises(ValueError, match=message):
        learned(estimator(priors=priors), [0, 1])
    assert_array_equal(model.set_params(priors="uniform").predict_proba(X), before)


def test_a_task_of_a_label_without_weight_changes_nothing():
    model = learned(estimator(priors={0: 1, 1: 2, 7: 3}), [0, 1])
    with unchanged(model), pytest.raises(ValueError, match=r"none for \[2\]"):
        learned(model, [2])
    assert_array_equal(learned(model, [7]).classes_, [0, 1, 7])


# ---- accuracy


@pytest.mark.parametrize("head", ["gaussian", "ovo"])
def test_accuracy_of_classes_of_2_5_and_93_percent(head):
    peers = [LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis(reg_param=0.01)]
    found = []
    for seed in range(6):
        A, B, a, b = unequal_classes(seed)
        model = IncrementalDiscriminantAnalysis(classifier=head, random_state=0).fit(A, a)
        uniform = balanced_accuracy_score(b, model.predict(B))
        model.set_params(priors="empirical")
        empirical = balanced_accuracy_score(b, model.predict(B))
        others = [peer.fit(A, a).score(B, b) for peer in peers]
        found.append([uniform - empirical, model.score(B, b), *others])
    gain, accuracy, linear, quadratic = np.mean(found, axis=0)
    assert accuracy > linear + 0.004
    # Both heads are about even with quadratic discriminant analysis.
    assert accuracy > quadratic - 0.006
    # The other way round, equal priors find the rare classes.
    assert gain > 0.05


def test_the_regression_of_indicators_finds_rare_classes():
    A, B, a, b = unequal_classes(6)
    model = IncrementalDiscriminantAnalysis(classifier="ova", random_state=0).fit(A, a)
    balanced = balanced_accuracy_score(b, model.predict(B))
    accuracy = model.set_params(priors="empirical").score(B, b)
    assert balanced > balanced_accuracy_score(b, model.predict(B)) + 0.04
    assert accuracy > LinearDiscriminantAnalysis().fit(A, a).score(B, b)


# ---- logarithms


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("priors", ["uniform", "empirical"])
def test_logarithms_of_probabilities(head, priors):
    model = near(classifier=head, priors=priors)
    assert_allclose(
        np.exp(model.predict_log_proba(NEAR_X)), model.predict_proba(NEAR_X), rtol=1e-9, atol=1e-15
    )
    # Far away, where the other classes have the share of samples unlike all 60 that were learned.
    far = 1e4 * X
    logarithms = learned(estimator(classifier=head), [0, 1, 2]).predict_log_proba(far)
    assert np.isfinite(logarithms).all()
    assert logarithms.max() <= np.log1p(-2 / 3 / 62) + 1e-12
    assert logarithms.min() < (-2.0 if head == "ovo" else -5.2)
    assert logarithms.min() >= np.log(1 / 3 / 62) - 1e-12


@pytest.mark.parametrize(
    ("weight", "least", "most"), [(1.0, 60, 60), (100.0, 6000, 6000), (1e-6, 40, 60)]
)
def test_samples_unlike_all_that_were_learned_are_rarer_with_more_samples(weight, least, most):
    # Without own axes, whose temperature grows with the distance, far samples are certain.
    parameters = {"shrinkage": 1.0}
    model = learned(estimator(**parameters), [0, 1, 2], sample_weight=np.full(60, weight))
    probabilities = model.predict_proba(1e4 * X)
    # Tiny weights do not tell how many samples there are; the axes of the classes do.
    share = 3.0 * probabilities.min()
    assert least - 1e-4 <= 1.0 / share - 2.0 <= most + 1e-4
    assert_allclose(probabilities.max(), 1.0 - share * 2 / 3, rtol=1e-6)
    # Classes that were merged and forgotten count as if they had never been there.
    model.merge(learned(estimator(**parameters), [3, 4], sample_weight=np.full(40, weight)))
    model.forget([3, 4])
    assert_allclose(model.predict_proba(1e4 * X), probabilities, rtol=1e-6)


def test_class_weight_is_told_of_priors():
    with pytest.raises(
        TypeError, match=r"^IncrementalDiscriminantAnalysis has no parameter class_weight; use pri"
    ):
        IncrementalDiscriminantAnalysis(class_weight="balanced")
    for arguments, parameters in (((3,), {}), ((), {"gama": 1.0})):
        with pytest.raises(TypeError, match=r"^IncrementalDiscriminantAnalysis.__init__\(\)"):
            IncrementalDiscriminantAnalysis(*arguments, **parameters)
    with pytest.raises(ValueError, match=r"Invalid parameter 'gama' .* Valid parameters are: "):
        IncrementalDiscriminantAnalysis().set_params(gama=1.0)


# ---- background classes


def with_background(**parameters):
    """Estimator that has learned the classes 0, 1 and 2, and answers with 0 and 2 alone."""
    return near(priors={0: 1.0, 1: 0.0, 2: 1.0}, **parameters)


@pytest.mark.parametrize("head", HEADS)
def test_a_background_class_is_in_no_answer(head):
    model = with_background(classifier=head)
    probabilities = model.predict_proba(NEAR_X)
    scores = model.decision_function(NEAR_X)
    logarithms = model.predict_log_proba(NEAR_X)
    assert_array_equal(probabilities[:, 1], 0.0)
    assert_array_equal(logarithms[:, 1], -np.inf)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert_allclose(np.exp(logarithms), probabilities, rtol=1e-9)
    assert np.isfinite(scores).all()
    assert (scores[:, 1] < scores[:, [0, 2]].min(axis=1) - 36.0).all()
    labels = model.predict(NEAR_X)
    assert set(labels) == {0, 2}
    assert_array_equal(scores.argmax(axis=1), labels)
    assert_array_equal(probabilities.argmax(axis=1), labels)


@pytest.mark.parametrize("head", HEADS)
def test_probabilities_beside_a_background_class_are_the_limit_of_small_priors(head):
    probabilities = with_background(classifier=head).predict_proba(NEAR_X)
    limit = near(classifier=head, priors={0: 1.0, 1: 1e-12, 2: 1.0}).predict_proba(NEAR_X)
    # By the rule of succession, 1 / 32 is the share of samples unlike the 30 that were learned.
    expected = limit[:, [0, 2]] - 1 / 96
    expected *= 31 / 32 / expected.sum(axis=1, keepdims=True)
    assert_allclose(probabilities[:, [0, 2]], expected + 1 / 64, rtol=1e-8)


def test_a_background_class_counts_in_the_covariance():
    model = with_background()
    without = estimator(priors={0: 1.0, 2: 3.0}).fit(NEAR_X[NEAR != 1], NEAR[NEAR != 1])
    assert_array_equal(model.class_counts_, [4.0, 10.0, 16.0])
    change = model.predict_proba(NEAR_X)[:, 0] - without.predict_proba(NEAR_X)[:, 0]
    assert np.abs(change).max() > 0.01
    equal = near()
    assert_array_equal(model.score_samples(NEAR_X), equal.score_samples(NEAR_X))


@pytest.mark.parametrize("head", HEADS)
def test_a_class_becomes_background_and_returns_without_learning(head, tmp_path, monkeypatch):
    model = near(classifier=head)
    before = model.predict_proba(NEAR_X)
    monkeypatch.setattr(prediction, "solve", failing)
    model.set_params(priors={0: 1.0, 1: 0.0, 2: 1.0})
    hidden = model.predict_proba(NEAR_X)
    monkeypatch.undo()
    assert_allclose(hidden, with_background(classifier=head).predict_proba(NEAR_X), rtol=1e-9)
    save(model, tmp_path / "model.ffnb")
    restored = load(tmp_path / "model.ffnb")
    assert_array_equal(restored.predict_proba(NEAR_X), hidden)
    assert_array_equal(restored.set_params(priors="uniform").predict_proba(NEAR_X), before)


@pytest.mark.parametrize("head", HEADS)
def test_one_of_two_classes_may_be_background(head):
    y = np.minimum(NEAR, 1)
    model = estimator(classifier=head, priors={0: 0, 1: 2}).fit(NEAR_X, y)
    assert_array_equal(model.predict(NEAR_X), 1)
    assert_allclose(model.decision_function(NEAR_X), -0.5 * np.log(np.finfo(float).eps))
    assert_array_equal(model.predict_proba(NEAR_X), np.tile([0.0, 1.0], (30, 1)))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_module_of_torch_has_no_column_of_background(head, dtype):
    model = with_background(classifier=head)
    module = model.to_torch(dtype)
    assert_array_equal(module.classes_, [0, 2])
    scores = module(torch.as_tensor(NEAR_X, dtype=getattr(torch, dtype)))
    tolerance = {"float32": 1e-4, "float64": 1e-10}[dtype]
    assert_allclose(scores, model.decision_function(NEAR_X)[:, [0, 2]], rtol=tolerance)
    probabilities = module.probabilities(scores)
    assert_allclose(probabilities, model.predict_proba(NEAR_X)[:, [0, 2]], rtol=tolerance)


@pytest.mark.parametrize("head", HEADS)
def test_background_survives_merge_and_forget(head):
    common = {"classifier": head, "rank": None, "priors": {0: 1, 1: 0, 2: 1}}
    is_background = NEAR == 1
    model = estimator(**common).partial_fit(NEAR_X[~is_background], NEAR[~is_background])
    plain = model.predict_proba(NEAR_X)
    model.merge(estimator(**common).partial_fit(NEAR_X[is_background], NEAR[is_background]))
    merged = model.predict_proba(NEAR_X)
    assert_allclose(merged, with_background(classifier=head, rank=None).predict_proba(NEAR_X))
    model.forget(1)
    assert_allclose(model.predict_proba(NEAR_X), plain, rtol=1e-6)


def test_background_may_come_first_and_answers_wait_for_another_class():
    model = estimator(priors={0: 0, 1: 1}).partial_fit(NEAR_X[NEAR == 0], NEAR[NEAR == 0])
    message = r"need a label with a positive weight in priors; got 0 for .*, \[0\]\."
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(ValueError, match=message):
            method(NEAR_X)
    model.partial_fit(NEAR_X[NEAR == 1], NEAR[NEAR == 1])
    assert_array_equal(model.predict(NEAR_X), 1)


@pytest.mark.filterwarnings("ignore:The novelty scores of other classes:UserWarning")
def test_background_has_no_share_in_the_novelty_threshold():
    model = near(novelty=True)
    values = model._state.model.left_out
    threshold = model.set_params(priors={0: 1, 1: 0, 2: 0}).novelty_threshold(0.5)
    assert threshold == np.quantile(values[0].values, 0.5, method="inverted_cdf")
    model.forget(0)
    with pytest.raises(ValueError, match="need a label with a positive weight"):
        model.novelty_threshold(0.5)


# ---- shares of unlabelled rows


def shifted_digits(shares):
    """Rows and labels to learn, and other rows of ten digits with these shares."""
    digits, labels = load_digits(return_X_y=True)
    A, B, a, b = train_test_split(digits, labels, test_size=0.5, stratify=labels, random_state=0)
    counts = np.round(400 * np.asarray(shares)).astype(int)
    rng = np.random.default_rng(0)
    rows = [rng.choice(np.flatnonzero(b == label), n) for label, n in enumerate(counts)]
    rows = np.concatenate(rows)
    return A, a, B[rows], b[rows]


SHARES = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05, 0.0, 0.0])


@pytest.mark.parametrize("head", HEADS)
def test_shares_of_shifted_digits(head):
    A, a, B, b = shifted_digits(SHARES)
    # A few pixels, so that predictions err.
    pixels = slice(0, 64, 3)
    model = IncrementalDiscriminantAnalysis(classifier=head, random_state=0).fit(A[:, pixels], a)
    accuracy = model.score(B[:, pixels], b)
    means = model.predict_proba(B[:, pixels]).mean(axis=0)
    priors = model.estimate_priors(B[:, pixels])
    assert list(priors) == list(range(10))
    assert sum(priors.values()) == pytest.approx(1.0)
    errors = np.abs(np.array([*priors.values()]) - SHARES)
    assert errors.sum() < 0.1
    assert errors.sum() < np.abs(means - SHARES).sum()
    assert model.set_params(priors=priors).score(B[:, pixels], b) > accuracy
    again = model.estimate_priors(B[:, pixels])
    assert_allclose([*again.values()], [*priors.values()], rtol=1e-9, atol=1e-12)


def test_shares_among_tensors_where_scikit_learn_dispatches(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    model = near()
    expected = model.estimate_priors(NEAR_X)
    with config_context(array_api_dispatch=True):
        assert model.estimate_priors(torch.tensor(NEAR_X)) == expected


def test_estimated_shares_have_the_largest_likelihood():
    probabilities = np.random.default_rng(0).dirichlet([0.5, 1.0, 0.7], size=200)
    shares = estimate_shares(probabilities)
    # The gradient of the mean log-likelihood, 1 for all classes, is the condition of Lagrange.
    gradient = (probabilities / (probabilities @ shares)[:, None]).mean(axis=0)
    assert_allclose(gradient, 1.0, atol=1e-4)


def test_shares_that_do_not_converge_are_warned_of(monkeypatch):
    monkeypatch.setattr(priors_module, "_MOST_STEPS", 2)
    with pytest.warns(ConvergenceWarning, match="have not converged after 2 steps"):
        near().estimate_priors(NEAR_X)


def test_background_and_declared_labels_have_no_share():
    names = np.array(["b", "a", "c"])[NEAR]
    model = estimator(priors={"a": 0, "b": 1, "c": 1}).partial_fit(NEAR_X, names, classes=["d"])
    priors = model.estimate_priors(NEAR_X)
    assert list(priors) == ["a", "b", "c"]
    assert priors["a"] == 0.0
    assert sum(priors.values()) == pytest.approx(1.0)
    model.set_params(priors=priors)
    assert_array_equal(model.predict_proba(NEAR_X)[:, [0, 3]], 0.0)
    with pytest.raises(ValueError, match=r"none for \['d'\]"):
        model.partial_fit(NEAR_X[:2], ["d", "d"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [(np.empty((0, 6)), "0 sample"), (np.full((2, 6), np.nan), "NaN"), (X[:2, :3], "features")],
)
def test_rows_without_shares_are_refused(rows, message):
    model = near()
    with unchanged(model, NEAR_X), pytest.raises(ValueError, match=message):
        model.estimate_priors(rows)
    with pytest.raises(NotFittedError):
        estimator().estimate_priors(NEAR_X)
