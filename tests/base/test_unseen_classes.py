"""Tools of scikit-learn around classifiers that have columns for classes without samples."""

import dask
import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import AdaBoostClassifier, StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import hinge_loss, ndcg_score, roc_auc_score, top_k_accuracy_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    make_continual_pipeline,
)
from ffnb_sklearn.distributed import partial_fit_shards

X, Y = load_iris(return_X_y=True)
# The third class is declared and has no samples here.
SEEN, LABELS = Y < 2, [0, 1, 2]
HEADS = ["gaussian", "ovo", "ova"]


def estimator(head="gaussian", **parameters):
    # About the values that a search finds.
    defaults = {"shared_band_size": 10, "shrinkage": 0.3, "epsilon": 0.3, "random_state": 0}
    return IncrementalDiscriminantAnalysis(**{**defaults, "classifier": head, **parameters})


MODELS = {
    **{head: estimator(head) for head in HEADS},
    "naive": NaiveIncrementalClassifier(max_epochs=20, random_state=0),
    "pipeline": make_continual_pipeline(FunctionTransformer(), estimator()),
}
of_all = pytest.mark.parametrize("name", MODELS)


def with_one_unseen(name):
    return clone(MODELS[name]).partial_fit(X[SEEN], Y[SEEN], classes=LABELS)


# ---- scores


@of_all
@pytest.mark.parametrize("reduction", [OneVsOneClassifier, OneVsRestClassifier])
def test_reductions_to_two_classes(name, reduction):
    model = reduction(clone(MODELS[name])).partial_fit(X[SEEN], Y[SEEN], classes=LABELS)
    assert model.score(X[SEEN], Y[SEEN]) == 1.0


@of_all
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration(name, method):
    frozen = FrozenEstimator(with_one_unseen(name))
    model = CalibratedClassifierCV(frozen, method=method).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()
    # The samples of the unseen class are calibrated with the others, and have extreme scores.
    assert model.score(X[SEEN], Y[SEEN]) > 0.7


@of_all
def test_metrics_of_scores(name):
    scores = with_one_unseen(name).decision_function(X)
    assert top_k_accuracy_score(Y[SEEN], scores[SEEN], k=1, labels=LABELS) == 1.0
    assert ndcg_score(np.eye(3)[Y[SEEN]], scores[SEEN]) == 1.0
    # The column of the unseen class adds nothing to the losses of the classes seen.
    assert hinge_loss(Y[SEEN], scores[SEEN], labels=LABELS) == pytest.approx(
        np.maximum(1 - (scores[:, :2] * [[1, -1]]).sum(axis=1) * (1 - 2 * Y), 0)[SEEN].mean()
    )


@of_all
def test_a_curve_over_one_of_two_declared_classes_is_that_of_chance(name):
    model = clone(MODELS[name]).partial_fit(X[Y == 1], Y[Y == 1], classes=[0, 1])
    assert roc_auc_score(Y[SEEN], model.decision_function(X[SEEN])) == 0.5


@of_all
def test_stacking_on_scores(name):
    stack = StackingClassifier(
        [("one", with_one_unseen(name))],
        LogisticRegression(max_iter=1000),
        cv="prefit",
        stack_method="decision_function",
    )
    assert stack.fit(X[SEEN], Y[SEEN]).score(X[SEEN], Y[SEEN]) == 1.0


@of_all
def test_scores_of_a_row_do_not_depend_on_the_other_rows(name):
    model = with_one_unseen(name)
    alone = np.vstack([model.decision_function(X[[row]]) for row in (0, 70, 149)])
    np.testing.assert_allclose(alone, model.decision_function(X)[[0, 70, 149]], atol=1e-9)


@pytest.mark.parametrize("head", HEADS)
def test_a_score_is_lower_than_those_of_the_classes_seen_at_any_size_of_the_features(head):
    model = estimator(head).partial_fit(1e60 * X[SEEN], Y[SEEN], classes=LABELS)
    scores = model.decision_function(1e68 * X)
    assert np.isfinite(scores).all()
    assert (scores[:, 2] < scores[:, :2].min(axis=1)).all()


# ---- classes whose samples all weigh 0

WEIGHTS = (Y > 0) * 1.0


def learned_from_shards(model, rows, labels, sample_weight):
    parts = [(rows[start::3], labels[start::3], sample_weight[start::3]) for start in range(3)]
    with dask.config.set(scheduler="synchronous"):
        return partial_fit_shards(model, [dask.delayed(part, traverse=False) for part in parts])


CALLS = {
    "fit": lambda model, *arrays: model.fit(*arrays[:2], sample_weight=arrays[2]),
    "partial_fit": lambda model, *arrays: model.partial_fit(*arrays[:2], sample_weight=arrays[2]),
    "shards": learned_from_shards,
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("container", "labels"),
    [
        (np.asarray, Y),
        (np.asarray, Y == 1),
        (scipy.sparse.csr_array, np.array(["a", "b", "c"], dtype=object)[Y]),
    ],
    ids=["numbers", "booleans", "strings and sparse samples"],
)
def test_a_class_without_weight_is_declared(head, call, container, labels):
    weights = (labels != labels[0]) * 1.0
    model = CALLS[call](estimator(head), container(X), labels, weights)
    assert_array_equal(model.classes_, np.unique(labels))
    assert_array_equal(model.classes_, GaussianNB().fit(X, labels, weights).classes_)
    assert model.predict_proba(X).shape == (150, len(model.classes_))
    assert labels[0] not in model.predict(X)
    # Its samples are learned when they come with weights.
    assert labels[0] in CALLS[call](model, container(X), labels, np.ones(150)).predict(X)


def test_later_tasks_and_streams_within_fit_declare_too():
    model = estimator().partial_fit(X[SEEN], Y[SEEN])
    model.partial_fit(X, Y, sample_weight=SEEN * 1.0, classes=[7])
    assert_array_equal(model.classes_, [0, 1, 2, 7])
    streamed = FFNBClassifier(shared_band_size=10, random_state=0)
    model = streamed.fit(X, Y, sample_weight=WEIGHTS)
    assert (model.classes_.tolist(), model.n_tasks_) == ([0, 1, 2], 2)


@pytest.mark.parametrize("head", HEADS)
def test_ensembles_with_a_class_without_weight(head):
    linear = LogisticRegression(max_iter=1000)
    members = [("one", estimator(head)), ("other", linear)]
    for ensemble in (
        VotingClassifier(members, voting="soft"),
        StackingClassifier(members, linear, cv=3),
        StackingClassifier(
            members,
            # The scores of samples far from both classes are large.
            DecisionTreeClassifier(random_state=0),
            cv=3,
            stack_method="decision_function",
        ),
    ):
        ensemble.fit(X, Y, sample_weight=WEIGHTS)
        assert ensemble.score(X[50:], Y[50:]) > 0.9


# AdaBoost takes the logarithm of the weights.
@pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_boosting_has_a_column_for_a_class_without_weight():
    model = AdaBoostClassifier(estimator(), n_estimators=2).fit(X, Y, sample_weight=WEIGHTS)
    assert model.predict_proba(X).shape == (150, 3)
