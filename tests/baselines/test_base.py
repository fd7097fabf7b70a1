"""The parts that all heads share: labels, moments, transactions, pickles."""

import pickle
from threading import Thread

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from ffnb_sklearn.baselines import (
    AnaCP,
    FeCAM,
    KernelLDA,
    NearestClassMean,
    RanPAC,
    StreamingLDA,
)
from ffnb_sklearn.baselines._base import MomentClassifier
from ffnb_sklearn.exceptions import ConcurrentLearningError
from tests.baselines.small_problem import HEADS, five_classes, stream
from tests.recording_callback import Recorder, needs_callbacks

X, Y, X_TEST, _ = five_classes()


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning")
@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize(
    "check",
    [
        "check_param_validation",
        "check_dataframe_column_names_consistency",
        "check_inplace_ensure_writeable",
    ],
)
def test_checks_outside_the_battery(check, name):
    pytest.importorskip("pandas")
    getattr(estimator_checks, check)(name, clone(HEADS[name]))


@pytest.mark.parametrize("name", HEADS)
def test_order_and_partition_of_the_tasks_do_not_matter(name):
    joint = clone(HEADS[name]).fit(X, Y).decision_function(X_TEST)
    head = clone(HEADS[name])
    half = np.arange(len(X)) % 2 == 0  # every class comes back once
    stream(head, X[half], Y[half], [3, 0, 4, 1, 2])
    stream(head, X[~half], Y[~half], [2, 4, 3, 1, 0])
    assert_array_equal(head.classes_, np.arange(5))
    assert_array_equal(head.class_counts_, np.bincount(Y))
    assert_allclose(head.decision_function(X_TEST), joint, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", HEADS)
def test_a_pickle_between_tasks_predicts_the_same_and_holds_no_solution(name):
    head = stream(clone(HEADS[name]), X, Y, [0, 1, 2])
    loaded = pickle.loads(pickle.dumps(head))
    assert loaded._state.model.cache == {}
    assert "parameters" in head._state.model.cache
    assert_allclose(loaded.decision_function(X_TEST), head.decision_function(X_TEST), rtol=1e-9)
    for each in (head, loaded):
        stream(each, X, Y, [3, 4])
    assert_allclose(loaded.decision_function(X_TEST), head.decision_function(X_TEST), rtol=1e-9)


def test_string_labels_that_sort_first_and_grow_longer():
    names = np.array(["b", "c", "d", "e", "aardvark"])
    head = stream(StreamingLDA(), X, names[Y], names)
    plain = StreamingLDA().fit(X, Y)
    assert_array_equal(head.predict(X_TEST), names[plain.predict(X_TEST)])


@pytest.mark.parametrize("name", HEADS)
def test_declared_classes_get_a_column_and_are_not_predicted(name):
    head = clone(HEADS[name])
    head.partial_fit(X[Y < 2], Y[Y < 2], classes=[7, 4, 2, 0])
    assert_array_equal(head.classes_, [0, 1, 2, 4, 7])
    assert_array_equal(head.class_counts_[2:], 0.0)
    scores = head.decision_function(X_TEST)
    assert (scores[:, 2:].max(axis=1) < scores[:, :2].min(axis=1)).all()
    assert set(head.predict(X_TEST)) == {0, 1}
    plain = clone(HEADS[name]).fit(X[Y < 2], Y[Y < 2])
    halved = 0.5 * (scores[:, 1] - scores[:, 0])
    assert_allclose(halved, plain.decision_function(X_TEST), atol=1e-9)


def test_a_class_alone_has_a_single_column():
    head = NearestClassMean().partial_fit(X[:2], ["only"] * 2)
    assert head.decision_function(X_TEST).shape == (100, 1)
    assert_array_equal(head.predict(X_TEST), ["only"] * 100)


@pytest.mark.parametrize("name", HEADS)
def test_fit_discards_what_was_learned(name):
    pandas = pytest.importorskip("pandas")
    columns = [f"column {number}" for number in range(12)]
    head = clone(HEADS[name]).fit(pandas.DataFrame(X, columns=columns), Y)
    assert_array_equal(head.feature_names_in_, columns)
    head.fit(X[Y < 2][:, :8], Y[Y < 2])
    assert not hasattr(head, "feature_names_in_")
    fresh = clone(HEADS[name]).fit(X[Y < 2][:, :8], Y[Y < 2])
    assert vars(head).keys() == vars(fresh).keys()
    assert_array_equal(
        head.decision_function(X_TEST[:, :8]), fresh.decision_function(X_TEST[:, :8])
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"X": X, "y": None}, "requires y to be passed"),
        ({"X": X, "y": Y[1:]}, "inconsistent numbers of samples"),
        ({"X": X * np.nan, "y": Y}, "Input X contains NaN"),
        ({"X": X[:, 1:], "y": Y}, "X has 11 features"),
        ({"X": 1e80 * X, "y": Y}, "X must have magnitudes of at most"),
        ({"X": X, "y": Y + 0.5}, "continuous"),
        ({"X": X, "y": Y.astype(str)}, "labels of the kind seen before"),
        ({"X": X, "y": Y, "classes": ["a"]}, "classes must hold labels of the kind seen"),
    ],
)
@pytest.mark.parametrize("name", ["FeCAM", "RanPAC"])
def test_bad_input_is_refused_and_changes_nothing(name, call, message):
    head = stream(clone(HEADS[name]), X, Y, [0, 1])
    before = dict(vars(head))
    with pytest.raises(ValueError, match=message):
        head.partial_fit(**call)
    assert vars(head).keys() == before.keys()
    assert all(vars(head)[name] is value for name, value in before.items())
    fresh = clone(HEADS[name])
    if "seen" not in message and "11 features" not in message:
        with pytest.raises(ValueError, match=message):
            fresh.partial_fit(**call)
        assert vars(fresh) == vars(clone(HEADS[name]))


@pytest.mark.parametrize("name", HEADS)
def test_a_call_that_fails_in_the_end_changes_nothing(name, monkeypatch):
    head = stream(clone(HEADS[name]), X, Y, [0, 1])
    if name == "RanPAC":
        head.set_params(alpha=None)
    before = pickle.dumps(head)

    def failing(self, model, order):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(head), "_solve", failing)
        for learn in (head.fit, head.partial_fit):
            with pytest.raises(MemoryError):
                learn(X, Y)
    assert pickle.dumps(head) == before
    other = stream(clone(HEADS[name]), X, Y, [0, 1])
    other.set_params(**head.get_params())
    for each in (head, other):
        stream(each, X, Y, [2, 3])
    assert_array_equal(head.decision_function(X_TEST), other.decision_function(X_TEST))


@pytest.mark.parametrize("name", ["RanPAC", "KernelLDA", "AnaCP"])
def test_a_generator_gives_a_seed_to_each_fit_and_none_to_a_failed_call(name):
    generator = np.random.RandomState(3)
    head = clone(HEADS[name]).set_params(random_state=generator)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        head.fit(X, Y[1:])
    first = head.fit(X, Y).decision_function(X_TEST)
    assert head.random_state is generator
    second = head.fit(X, Y).decision_function(X_TEST)
    assert np.abs(first - second).max() > 0
    again = clone(HEADS[name]).set_params(random_state=np.random.RandomState(3)).fit(X, Y)
    assert_array_equal(again.decision_function(X_TEST), first)


def test_two_calls_do_not_learn_at_the_same_time(monkeypatch):
    head = NearestClassMean().fit(X, Y)
    add = MomentClassifier._add
    errors = []

    def second_call():
        try:
            head.partial_fit(X, Y)
        except ConcurrentLearningError as error:
            errors.append(error)

    def add_beside(self, model, batch):
        thread = Thread(target=second_call)
        thread.start()
        thread.join()
        return add(self, model, batch)

    monkeypatch.setattr(MomentClassifier, "_add", add_beside)
    head.partial_fit(X, Y)
    assert len(errors) == 1
    assert_array_equal(head.class_counts_, 2 * np.bincount(Y))


@pytest.mark.parametrize("name", HEADS)
def test_sparse_samples_are_learned_as_dense_samples(name):
    rows = np.where(X > 3.0, X, 0.0)
    dense = stream(clone(HEADS[name]), rows, Y, [2, 0, 1])
    head = stream(clone(HEADS[name]), csr_array(rows), Y, [2, 0, 1])
    rows_to_predict = np.abs(X_TEST)
    expected = dense.predict(rows_to_predict)
    assert_array_equal(head.predict(csr_array(rows_to_predict)), expected)
    assert_array_equal(head.means_, dense.means_)


@pytest.mark.parametrize("name", HEADS)
def test_tasks_and_their_labels_are_kept(name):
    head = stream(clone(HEADS[name]), X, Y, [3, 1, 3])
    assert head.n_tasks_ == 2
    assert [labels.tolist() for labels in head.task_classes_] == [[3], [1]]


def test_heads_in_a_pipeline_and_a_grid():
    grid = {"streaminglda__shrinkage": [1e-4, 1.0]}
    search = GridSearchCV(make_pipeline(StreamingLDA()), grid, cv=3).fit(X, Y)
    assert search.best_params_ == {"streaminglda__shrinkage": 1e-4}


def test_class_scatters_and_pooled_scatters_agree():
    classes = FeCAM().fit(X - 10.0, Y)  # negative features keep the power 1
    pooled = StreamingLDA().fit(X - 10.0, Y)
    assert_allclose(classes.scatter_.sum(axis=0), pooled.scatter_)


def test_default_numbers_of_components_are_the_published():
    assert RanPAC().n_components == 10_000
    assert KernelLDA().n_components == 5_000


@pytest.mark.parametrize("head", [NearestClassMean(), StreamingLDA()])
def test_classes_far_from_the_origin_are_told_apart(head):
    expected = clone(head).fit(X, Y).predict(X_TEST)
    head = clone(head).fit(X + 1e9, Y)
    # At this distance, the samples themselves are rounded to 1e-7.
    assert (head.predict(X_TEST + 1e9) != expected).mean() <= 0.01


@pytest.mark.parametrize("name", HEADS)
def test_a_sample_for_each_class_is_enough(name):
    X = 10.0 * np.eye(12)[:5] + 5.0
    head = clone(HEADS[name]).fit(X, np.arange(5))
    assert_array_equal(head.predict(X), np.arange(5))


@pytest.mark.parametrize("name", HEADS)
def test_samples_whose_squares_are_lost_are_refused(name):
    with pytest.raises(ValueError, match="the samples must have values of at least 1e-150"):
        clone(HEADS[name]).fit(1e-170 * X, Y)


@pytest.mark.parametrize(
    ("head", "parameters"),
    [
        (StreamingLDA(), {"shrinkage": 0.9}),
        (FeCAM(), {"alpha1": 100.0}),
        (RanPAC(n_components=30, alpha=1.0, random_state=0), {"alpha": 100.0}),
        (KernelLDA(n_components=30, random_state=0), {"alpha": 1e6}),
        (AnaCP(n_components=20, n_draws=5, random_state=0), {"alpha": 1e4}),
    ],
)
def test_parameters_that_change_after_learning_hold_for_all_classes(head, parameters):
    head = clone(head).fit(X[Y < 4], Y[Y < 4])
    head.set_params(**parameters)
    loaded = pickle.loads(pickle.dumps(head))
    for label in (4, 0):
        assert_array_equal(head.decision_function(X_TEST), loaded.decision_function(X_TEST))
        for each in (head, loaded):
            stream(each, X, Y, [label])
    fresh = pickle.loads(pickle.dumps(head))
    assert_array_equal(head.decision_function(X_TEST), fresh.decision_function(X_TEST))
    with pytest.raises(ValueError, match="parameter of"):
        head.set_params(**dict.fromkeys(parameters, -1.0)).predict(X_TEST)


@pytest.mark.parametrize("method", ["predict", "decision_function"])
@pytest.mark.parametrize("name", HEADS)
def test_a_prediction_keeps_its_classes_while_a_thread_learns(name, method, monkeypatch):
    head = clone(HEADS[name]).fit(X[Y > 1], Y[Y > 1])
    expected = getattr(head, method)(X_TEST)
    scores = type(head)._scores_of

    def learn_beside(self, *arguments):
        monkeypatch.undo()
        thread = Thread(target=head.partial_fit, args=(X[Y < 2], Y[Y < 2]))
        thread.start()
        thread.join()
        return scores(self, *arguments)

    monkeypatch.setattr(type(head), "_scores_of", learn_beside)
    assert_array_equal(getattr(head, method)(X_TEST), expected)
    assert_array_equal(head.classes_, np.arange(5))


@needs_callbacks
@pytest.mark.parametrize("name", HEADS)
def test_a_call_is_a_task_for_callbacks(name):
    recorder = Recorder()
    head = clone(HEADS[name]).set_callbacks(recorder)
    head.fit(X, Y).partial_fit(X, Y)
    calls = ["fit 0", "partial_fit 0"]
    assert recorder.begun == [task for call in calls for task in (call, f"{call}/task 0")]
    (*_, fitted), *_ = recorder.ended
    assert_array_equal(fitted.classes_, np.arange(5))
    expected = head.decision_function(X_TEST)
    recorder.fails_at = ("teardown", "partial_fit")
    with pytest.raises(RuntimeError, match="told to fail"):
        head.partial_fit(X, Y)
    assert_array_equal(head.decision_function(X_TEST), expected)
