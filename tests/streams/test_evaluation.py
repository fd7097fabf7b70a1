"""Estimators are scored on tasks that they learn one after another."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import accuracy_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from ffnb_sklearn import IncrementalDiscriminantAnalysis, metrics
from ffnb_sklearn.pipeline import make_continual_pipeline
from ffnb_sklearn.streams import class_incremental_tasks, evaluate_stream
from tests.streams.nearest_mean import NearestMean


@pytest.fixture
def blobs():
    X, y = make_blobs(n_samples=[30, 20, 25, 40, 35], cluster_std=2.0, random_state=0)
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1200], y[:1200], X[1200:], y[1200:]


def as_lists(arrays):
    return [array.tolist() for array in arrays]


def test_matches_a_loop_written_by_hand(blobs):
    X, y, X_test, y_test = blobs
    order = [3, 0, 4, 1, 2]
    result = evaluate_stream(NearestMean(), *blobs, classes_per_task=2, class_order=order)

    groups = [[3, 0], [4, 1], [2]]
    learner = NearestMean()
    for i, group in enumerate(groups):
        rows = np.isin(y, group)
        learner.partial_fit(X[rows], y[rows])
        for j, tested in enumerate(groups):
            rows = np.isin(y_test, tested)
            expected = learner.score(X_test[rows], y_test[rows]) if j <= i else np.nan
            np.testing.assert_equal(result.accuracy_matrix[i, j], expected)
        rows = np.isin(y_test, np.concatenate(groups[: i + 1]))
        assert result.accuracies[i] == learner.score(X_test[rows], y_test[rows])
    assert as_lists(result.task_classes) == groups
    assert result.n_test_per_task.tolist() == [np.isin(y_test, group).sum() for group in groups]
    assert 0 < np.nanmin(result.accuracy_matrix) < 1


@pytest.mark.parametrize("score_future", [False, True])
def test_a_blurry_stream_matches_a_loop_written_by_hand(blobs, score_future):
    X, y, X_test, y_test = blobs
    blurry = {"blurry_classes": 0.6, "blurry_samples": 0.4, "random_state": 3}
    result = evaluate_stream(NearestMean(), *blobs, score_future=score_future, **blurry)

    learner = NearestMean()
    seen = set()
    for i, task in enumerate(class_incremental_tasks(y, **blurry)):
        learner.partial_fit(X[task], y[task])
        seen |= set(y[task].tolist())
        for j in range(5):
            rows = y_test == j
            is_scored = score_future or j <= i
            expected = learner.score(X_test[rows], y_test[rows]) if is_scored else np.nan
            np.testing.assert_equal(result.accuracy_matrix[i, j], expected)
        rows = np.isin(y_test, list(seen))
        assert result.accuracies[i] == learner.score(X_test[rows], y_test[rows])
        assert result.n_classes[i] == len(seen)
    assert as_lists(result.task_classes) == [[0], [1], [2], [3], [4]]
    # Some class comes before its task.
    assert (result.n_classes > [1, 2, 3, 4, 4]).any()
    assert result.average_incremental_accuracy == result.accuracies.mean()


def test_an_exact_learner_ends_blurry_streams_as_joint_training(digits):
    X, y, X_test, _ = digits
    estimator = IncrementalDiscriminantAnalysis(
        shared_band_size=0, rank=None, shrinkage=0.5, epsilon=0.1, random_state=0
    )
    joint = clone(estimator).fit(X, y).decision_function(X_test)
    for seed in (0, 1):
        result = evaluate_stream(
            estimator,
            *digits,
            classes_per_task=5,
            blurry_classes=0.5,
            blurry_samples=0.1,
            random_state=seed,
        )
        found = result.estimator.decision_function(X_test)
        np.testing.assert_allclose(found, joint, rtol=1e-8)


def test_properties_are_the_metrics(blobs):
    result = evaluate_stream(NearestMean(), *blobs)
    matrix = result.accuracy_matrix

    assert result.final_accuracy == result.accuracies[-1]
    assert result.average_incremental_accuracy == pytest.approx(result.accuracies.mean())
    assert result.forgetting == metrics.forgetting(matrix)


def test_the_estimator_given_stays_as_it_was(blobs):
    X, y, *_ = blobs
    estimator = NearestMean().partial_fit(X + 100.0, y)
    before = pickle.dumps(estimator)
    result = evaluate_stream(estimator, *blobs)

    assert pickle.dumps(estimator) == before
    assert result.estimator is not estimator
    assert len(result.estimator.seen_) == 5


def test_one_task_is_joint_training(blobs):
    X, y, X_test, y_test = blobs
    result = evaluate_stream(NearestMean(), *blobs, classes_per_task=5)

    joint = NearestMean().partial_fit(X, y).score(X_test, y_test)
    assert result.accuracy_matrix.tolist() == [[joint]]


@pytest.mark.parametrize("kind", ["frame", "csr", "coo", "list", "object"])
def test_rows_are_selected_never_converted(blobs, kind):
    convert = {
        "frame": lambda X: pd.DataFrame(X, columns=["a", "b"]),
        "csr": sparse.csr_array,
        "coo": sparse.coo_array,
        "list": lambda X: X.tolist(),
        "object": lambda X: X.astype(object),
    }[kind]
    X, y, X_test, y_test = blobs
    result = evaluate_stream(NearestMean(), convert(X), y, convert(X_test), y_test)

    expected = {"coo": sparse.csr_array}.get(kind, type(convert(X)))
    assert set(result.estimator.seen_) == {expected}
    plain = evaluate_stream(NearestMean(), *blobs)
    np.testing.assert_array_equal(result.accuracy_matrix, plain.accuracy_matrix)


def test_sequences_of_different_lengths():
    def means(sequences):
        return np.array([np.mean(sequence, axis=0) for sequence in sequences])

    rng = np.random.default_rng(0)
    y = np.repeat(["b", "a", "c"], 4)
    level = {"a": 0.0, "b": 5.0, "c": -5.0}
    X = [rng.normal(level[label], 0.1, size=(rng.integers(2, 9), 2)) for label in y]
    pipeline = make_continual_pipeline(FunctionTransformer(means), NearestMean())
    result = evaluate_stream(pipeline, X, y, X, y)

    assert result.accuracies.tolist() == [1.0, 1.0, 1.0]
    assert as_lists(result.task_classes) == [["a"], ["b"], ["c"]]


def test_continual_pipeline_declares_for_its_last_step(digits):
    pipeline = make_continual_pipeline(StandardScaler(), SGDClassifier(random_state=0))
    result = evaluate_stream(pipeline, *digits, classes_per_task=5)

    assert result.estimator[-1].classes_.tolist() == list(range(10))
    assert result.accuracies[0] > 0.9


# GaussianNB takes the logarithm of the zero prior of a class that is declared and not yet seen.
@pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning")
def test_scikit_learn_estimators(digits):
    for estimator in (SGDClassifier(random_state=0), GaussianNB()):
        result = evaluate_stream(estimator, *digits, classes_per_task=2)
        assert result.estimator.classes_.tolist() == list(range(10))
        assert np.diag(result.accuracy_matrix).mean() > 0.8
        final = accuracy_score(digits[3], result.estimator.predict(digits[2]))
        assert result.final_accuracy == final


@pytest.mark.parametrize("class_order", ["sorted", [4, 3, 2, 1, 0]])
def test_a_random_state_without_effect_warns(blobs, class_order):
    arguments = {"class_order": class_order, "random_state": 1993}
    with pytest.warns(UserWarning, match=r"random_state=1993 has no effect.*\"random\"") as found:
        evaluate_stream(NearestMean(), *blobs, **arguments)
    assert [warning.filename for warning in found] == [__file__]
    with pytest.warns(UserWarning, match="random_state=1993 has no effect"):
        tasks = class_incremental_tasks(blobs[1], **arguments)
    expected = class_incremental_tasks(blobs[1], class_order=class_order)
    assert as_lists(tasks) == as_lists(expected)


def test_a_refused_split_leaves_the_generator_of_the_class_order(blobs):
    generator = np.random.RandomState(0)
    arguments = {"class_order": "random", "random_state": generator}
    with pytest.raises(ValueError, match="classes_per_task"):
        class_incremental_tasks(blobs[1], classes_per_task=[9], **arguments)
    first = evaluate_stream(NearestMean(), *blobs, **arguments)
    again = evaluate_stream(NearestMean(), *blobs, **arguments)
    repeated = evaluate_stream(
        NearestMean(), *blobs, class_order="random", random_state=np.random.RandomState(0)
    )
    assert as_lists(first.task_classes) == as_lists(repeated.task_classes)
    assert as_lists(first.task_classes) != as_lists(again.task_classes)


def test_future_tasks(blobs):
    result = evaluate_stream(NearestMean(), *blobs, score_future=True)
    plain = evaluate_stream(NearestMean(), *blobs)

    above = np.triu_indices(5, 1)
    assert (result.accuracy_matrix[above] == 0).all()
    assert np.isnan(plain.accuracy_matrix[above]).all()
    np.testing.assert_array_equal(result.accuracies, plain.accuracies)
    assert metrics.forward_transfer(result.accuracy_matrix) == 0
    with pytest.raises(ValueError, match="score_future=True"):
        metrics.forward_transfer(plain.accuracy_matrix)


def test_future_tasks_do_not_count_as_learned(blobs):
    class AlwaysFour(NearestMean):
        def predict(self, X):
            return np.full(len(X), 4)

    result = evaluate_stream(AlwaysFour(), *blobs, score_future=True)

    np.testing.assert_array_equal(result.accuracy_matrix, np.tile([0, 0, 0, 0, 1], (5, 1)))
    assert (result.accuracies[:4] == 0).all()
    assert metrics.forward_transfer(result.accuracy_matrix) == 0.25


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 1]}, "inconsistent numbers of samples"),
        ({"y_test": [0, 1]}, "inconsistent numbers of samples"),
        ({"y_test": np.repeat([0, 1, 2, 3, 9], 15)}, r"y_test holds labels that y does not: \[9\]"),
        (
            {"y_test": np.repeat([0, 1, 2, 3, 3], 15)},
            r"no sample of the task with the classes \[4\]",
        ),
        ({"y_test": np.repeat(list("01234"), 15)}, r"labels that y does not: \['0'"),
        (
            {"estimator": make_pipeline(StandardScaler(), GaussianNB())},
            "implementing 'partial_fit'",
        ),
        ({"estimator": StandardScaler()}, "implementing 'partial_fit' and 'predict'"),
        ({"score_future": "yes"}, "'score_future' parameter"),
        ({"classes_per_task": 0}, "'classes_per_task' parameter"),
        ({"class_order": [0, 1]}, "class_order must hold each of the 5 labels"),
    ],
)
def test_refuses_to_evaluate(blobs, change, message):
    X, y, X_test, y_test = blobs
    arguments = {"estimator": NearestMean(), "X": X, "y": y, "X_test": X_test, "y_test": y_test}

    with pytest.raises(ValueError, match=message):
        evaluate_stream(**{**arguments, **change})


def test_result_reads_as_a_line(blobs):
    result = evaluate_stream(NearestMean(), *blobs, classes_per_task=[3, 2])
    assert repr(result) == (
        "StreamResult of NearestMean, 2 tasks, 5 classes: accuracy "
        f"{result.final_accuracy:.1%} at the end and "
        f"{result.average_incremental_accuracy:.1%} on average"
    )


def test_predictions_in_a_column_are_predictions():
    class Column(SGDClassifier):
        def predict(self, X):
            return super().predict(X)[:, None]

    X, y = make_blobs(60, centers=3, random_state=0)
    expected = evaluate_stream(SGDClassifier(random_state=0), X, y, X, y)

    found = evaluate_stream(Column(random_state=0), X, y, X, y)

    np.testing.assert_array_equal(found.accuracy_matrix, expected.accuracy_matrix)
