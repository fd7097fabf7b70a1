"""Public cases about labels, their kinds and order, and weights of zero."""

from decimal import Decimal

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier, OutputCodeClassifier

from ffnb_sklearn import class_incremental_tasks, evaluate_stream
from tests.public_cases.flowers import NAMES, X, Y, exact, heads, plain, small


@heads
def test_a_batch_whose_weights_are_all_zero_is_refused_and_changes_nothing(head):
    """scikit-learn #33436."""
    model = small(head).partial_fit(X, Y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"(?i)sample.weights? must"):
        model.partial_fit(X[:30], Y[:30], sample_weight=np.zeros(30))
    assert_array_equal(model.predict_proba(X), before)


@heads
def test_declared_labels_without_samples_have_no_logarithm_of_zero(head):
    """scikit-learn #13232."""
    model = small(head, priors="empirical").partial_fit(X, Y, classes=[0, 1, 2, 3])
    probabilities = model.predict_proba(X)
    assert_array_equal(probabilities[:, 3], 0.0)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    seen = small(head, priors="empirical").partial_fit(X, Y)
    assert_array_equal(probabilities[:, :3], seen.predict_proba(X))


@heads
@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean"])
def test_scores_and_metrics_take_nullable_labels(head, dtype):
    """scikit-learn #25634, scikit-learn #25635."""
    pd = pytest.importorskip("pandas")
    kept = Y < 2
    labels = pd.Series(Y[kept], dtype=dtype)
    model = small(head).fit(X[kept], labels)
    assert model.score(X[kept], labels) == 1.0
    assert_array_equal(confusion_matrix(labels, model.predict(X[kept])), [[50, 0], [0, 50]])


@heads
def test_unique_values_of_a_nullable_column_may_be_declared_ordered_and_forgotten(head):
    """scikit-learn #25637."""
    pd = pytest.importorskip("pandas")
    labels = pd.Series(Y, dtype="Int64")
    unique = labels.unique()  # An array of pandas, without `iloc`.
    kept = Y < 2
    model = plain(head).partial_fit(X[kept], labels[kept], classes=unique)
    assert_array_equal(model.classes_, [0, 1, 2], strict=True)
    tasks = class_incremental_tasks(labels, class_order=unique[::-1])
    assert [int(Y[task][0]) for task in tasks] == unique[::-1].tolist()
    assert model.forget(unique[unique > 0]).classes_.tolist() == [0]


def test_splits_and_classifier_take_the_same_nullable_labels():
    """scikit-learn #19889."""
    pd = pytest.importorskip("pandas")
    folds = StratifiedKFold(3)
    scores = cross_val_score(small(), X, pd.Series(Y, dtype="Int64"), cv=folds)
    assert_array_equal(scores, cross_val_score(small(), X, Y, cv=folds))


@pytest.mark.parametrize("label", [Decimal(1), (1, 2), 1j, b"a"])
def test_labels_of_arbitrary_objects_are_refused_by_name(label):
    """scikit-learn #556."""
    labels = np.empty(150, dtype=object)
    labels[:] = [label] * 150
    with pytest.raises(ValueError, match="y must hold numbers, strings or booleans"):
        small().fit(X, labels)


@heads
def test_one_vs_rest_learns_batches_and_refuses_undeclared_labels(head):
    """scikit-learn #6203."""
    model = OneVsRestClassifier(small(head))
    for part in np.array_split(np.arange(150), 3):
        model.partial_fit(X[part], Y[part], classes=[0, 1, 2])
    before = model.decision_function(X)
    assert model.score(X, Y) > 0.85
    with pytest.raises(ValueError, match="must be subset"):
        model.partial_fit(X[:3], [3, 4, 4])
    assert_array_equal(model.decision_function(X), before)
    # The classifier itself takes them: that is its purpose.
    assert small(head).partial_fit(X, Y).partial_fit(X[:3] + 9, [3, 4, 4]).classes_[-1] == 4


@heads
def test_zero_and_one_are_not_taken_for_booleans_when_a_third_class_comes(head):
    """river #369."""
    model = small(head)
    for label in (0, 1, 2):
        model.partial_fit(X[label == Y], Y[label == Y])
    assert_array_equal(model.classes_, [0, 1, 2], strict=True)
    assert model.score(X, Y) > 0.85
    with pytest.raises(ValueError, match="got bool"):
        model.partial_fit(X, Y == 1)
    booleans = small(head).partial_fit(X, [np.bool_(label == 1) for label in Y])
    assert_array_equal(booleans.classes_, [False, True], strict=True)


@heads
def test_predict_is_the_most_probable_label(head):
    """river #634."""
    model = small(head, band_size=2)
    for label in (2, 0, 1):
        model.partial_fit(X[label == Y], NAMES[label == Y])
        most_likely = model.classes_[model.predict_proba(X).argmax(axis=1)]
        assert_array_equal(model.predict(X), most_likely)


@pytest.mark.parametrize("code_size", [1.5, 10])
def test_output_codes_of_any_size(code_size):
    """river #1116."""
    model = OutputCodeClassifier(small(), code_size=code_size, random_state=0).fit(X, NAMES)
    assert model.score(X, NAMES) > 0.85


@heads
@pytest.mark.parametrize("labels", [[100, -7, 2], [1e6, 2.0, 0.0], ["b", "", "a" * 99]])
def test_classes_are_the_labels_and_not_their_positions(head, labels):
    """skorch #546, Avalanche #1503."""
    own = np.array(labels)[Y]
    for model in (small(head).fit(X, own), small(head, classes_per_task=1).fit(X, own)):
        # All numbers are int64, which no later call can round.
        expected = np.unique(labels).astype(int if own.dtype.kind == "f" else own.dtype)
        assert_array_equal(model.classes_, expected, strict=True)
        assert (model.predict(X) == own).mean() > 0.85
        assert model.predict(X).dtype == expected.dtype


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int64, torch.bool])
def test_labels_in_tensors_of_any_dtype(dtype):
    """skorch #803, Avalanche #1588."""
    labels = torch.tensor(Y).to(dtype)
    expected = labels.numpy()
    tasks = class_incremental_tasks(labels)
    assert [np.unique(expected[task]).tolist() for task in tasks] == [
        [label] for label in np.unique(expected)
    ]
    result = evaluate_stream(small(), torch.tensor(X), labels, torch.tensor(X), labels)
    kind = bool if dtype == torch.bool else int
    assert_array_equal(result.estimator.classes_, np.unique(expected).astype(kind), strict=True)
    assert result.estimator.score(torch.tensor(X), labels) == result.final_accuracy


@pytest.mark.parametrize(
    "parameters", [{}, {"novelty": True}, {"bands__max_epochs": 2, "bands__weight_decay": 0.1}]
)
def test_a_call_of_partial_fit_follows_fit_with_any_parameters(parameters):
    """scikit-learn #25693."""
    kept = Y < 2
    model = small(classes_per_task=1, **parameters).fit(X[kept], Y[kept])
    model.partial_fit(X[kept], Y[kept]).partial_fit(X[~kept], Y[~kept])
    assert model.n_tasks_ == 3
    assert model.score(X, Y) > 0.85


def test_the_classifier_returns_itself_from_each_method_that_learns():
    """river #1608."""
    model = exact(random_state=0)
    assert model.fit(X, Y) is model
    assert model.partial_fit(X + 9, Y + 3) is model
    assert model.forget([5]) is model
    assert model.merge(clone(model).fit(X, Y + 6)) is model
    assert model.set_params(priors="empirical") is model
