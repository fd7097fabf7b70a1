"""NaiveIncrementalClassifier: a network that knows all classes at once, and forgets in a stream."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.utils import estimator_checks

from ffnb_sklearn import class_incremental_tasks
from ffnb_sklearn.baselines import NaiveIncrementalClassifier
from tests.separated_classes import CODES, X, learned, of, unchanged


def estimator(**parameters):
    return NaiveIncrementalClassifier(**{"max_epochs": 30, "random_state": 0, **parameters})


# ---- scikit-learn's checks


# This check calls an estimator that was fitted with names by an array, and expects its warning.
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning")
@pytest.mark.parametrize(
    "check",
    [
        "check_param_validation",
        "check_dataframe_column_names_consistency",
        "check_inplace_ensure_writeable",
    ],
)
def test_checks_outside_the_battery(check):
    pytest.importorskip("pandas")
    getattr(estimator_checks, check)("NaiveIncrementalClassifier", estimator())


# ---- learning and forgetting


@pytest.fixture(scope="module")
def digits():
    data, target = load_digits(return_X_y=True)
    return train_test_split(data, target, test_size=0.3, random_state=0, stratify=target)


def test_all_digits_at_once(digits):
    data, test, y, y_test = digits
    model = estimator().fit(data, y)
    assert model.n_tasks_ == 1
    assert model.score(test, y_test) >= 0.95


def test_two_digits_at_a_time_are_forgotten(digits):
    data, test, y, y_test = digits
    model = estimator()
    for task in class_incremental_tasks(y, classes_per_task=2):
        model.partial_fit(data[task], y[task])
        newest = np.isin(y_test, model.task_classes_[-1])
        # It tells the new ones from each other.
        assert model.score(test[newest], y_test[newest]) > 0.9
    assert 0.17 < model.score(test, y_test) < 0.23
    assert set(model.predict(test)) == {8, 9}


def test_interactions_of_two_people_one_at_a_time(shared_data):
    with np.load(shared_data / "sbu_features.npz") as archive:
        data, y, test = archive["X"], archive["y"], archive["fold"] == 4
    model, right = NaiveIncrementalClassifier(random_state=0), []
    for task in class_incremental_tasks(y[~test], classes_per_task=1):
        model.partial_fit(data[~test][task], y[~test][task])
        right.append(int(np.sum(model.predict(data[test]) == y[test])))
    # All samples are taken for the newest class, whose number is all that is right.
    assert right == np.bincount(y[test]).tolist() == [10, 10, 8, 10, 5, 5, 10, 7]


@pytest.mark.parametrize("factor", [2.0**-60, 2.0**60])
def test_the_scale_of_the_features_does_not_matter(factor):
    model = learned(estimator(), [0, 1], [2])
    scaled = estimator()
    for task in ([0, 1], [2]):
        now = np.isin(CODES, task)
        scaled.partial_fit(factor * X[now], CODES[now])
    assert_array_equal(scaled.predict_proba(factor * X), model.predict_proba(X))


def test_old_parameters_are_the_same_arrays_after_a_new_task():
    model = learned(estimator(n_layers=2), [0, 1])
    bands, outputs, size = (
        model._state.model.hidden.bands,
        model._state.model.outputs,
        model.n_parameters_,
    )
    learned(model, [2, 3])
    assert all(new is old for new, old in zip(model._state.model.hidden.bands, bands, strict=False))
    assert model._state.model.outputs[0] is outputs[0]
    # Neurons of 16 per layer and task, of which the newer see the older.
    assert size == 16 * 6 + 16 * 16 + 2 * 16 + 2
    assert model.n_parameters_ == size + 16 * 6 + 16 * 32 + 2 * 32 + 2


def test_a_call_without_a_new_class_trains_the_newest_parameters_on():
    model = learned(estimator(max_epochs=1), [0, 1], [2, 3])
    old = model._state.model.outputs[0]
    size, before = model.n_parameters_, model.decision_function(X)
    losses = []
    for _ in range(3):
        learned(model, [1, 2, 3])
        losses += model.loss_curve_
    assert (model.n_tasks_, model.n_parameters_) == (2, size)
    assert model._state.model.outputs[0] is old
    after = model.decision_function(X)
    assert_array_equal(after[:, :2], before[:, :2])
    assert (after[:, 2:] != before[:, 2:]).any()
    assert losses[2] < losses[1] < losses[0]


def test_samples_of_a_known_class_are_not_forgotten_when_they_come_again():
    alone = learned(estimator(max_epochs=100), [0, 1], [3])
    beside = learned(estimator(max_epochs=100), [0, 1], [0, 3])
    assert [task.tolist() for task in beside.task_classes_] == [[0, 1], [3]]
    assert np.mean(alone.predict(of(0)) == 3) > 0.9
    assert np.mean(beside.predict(of(0)) == 0) > 0.9
    assert np.mean(beside.predict(of(3)) == 3) > 0.9


def test_one_class_and_one_sample():
    model = estimator().partial_fit(X[:1], ["only"])
    assert (model.n_iter_, model.loss_curve_) == (0, [])
    assert_array_equal(model.predict(X), np.full(160, "only"))
    assert_array_equal(model.predict_proba(X), np.ones((160, 1)))
    assert model.decision_function(X).shape == (160, 1)
    # Still no loss.
    assert model.partial_fit(X[:2], ["only"] * 2).n_iter_ == 0
    model.partial_fit(X[-1:], ["other"])
    assert model.n_iter_ > 0
    assert_array_equal(model.predict(X[-1:]), ["other"])


def test_features_of_zeros():
    model = estimator().fit(np.zeros((4, 3)), [0, 0, 1, 1])
    assert np.isfinite(model.decision_function(np.ones((2, 3)))).all()


# ---- outputs and attributes


def test_loss_curve_of_the_last_task():
    model = learned(estimator(max_epochs=7, learning_rate=0.001), [0, 1, 2], [3, 4])
    assert model.n_iter_ == len(model.loss_curve_) == 7
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    kept = model.task_classes_, model.loss_curve_
    learned(model, [5])
    assert [len(one) for one in kept] == [2, 7]


def test_without_patience_all_epochs_run():
    # All samples are equal, so the loss cannot fall below 1.
    X_equal = np.ones((4, 3))
    y = [0, 0, 1, 1]

    stopped = estimator(max_epochs=40, weight_decay=0.0).fit(X_equal, y)
    complete = estimator(max_epochs=40, weight_decay=0.0, patience=None).fit(X_equal, y)

    assert stopped.n_iter_ < 40
    assert complete.n_iter_ == 40
    assert_array_equal(complete.loss_curve_[: stopped.n_iter_], stopped.loss_curve_)


def test_verbose_prints_a_line_per_task(capsys):
    learned(estimator(), [0])
    assert capsys.readouterr().out == ""
    learned(estimator(verbose=True, max_epochs=3), [0], [0, 1])
    first, *epochs, last = capsys.readouterr().out.splitlines()
    start = "[NaiveIncrementalClassifier] task "
    # A single class leaves nothing to train.
    assert first.startswith(start + "1: 20 samples, 1 new classes, 1 known, 0.")
    for number, line in enumerate(epochs, start=1):
        assert line.startswith(f"{start}2: epoch {number} of 3, loss ")
    assert len(epochs) == 3
    assert last.startswith(start + "2: 40 samples, 1 new classes, 2 known, 3 epochs, loss ")


@pytest.mark.parametrize(
    "change",
    [
        {"band_size": 2},
        {"n_layers": 2},
        {"activation": "tanh"},
        {"max_epochs": 2},
        {"learning_rate": 0.02},
        {"momentum": 0.0},
        {"weight_decay": 0.1},
        {"batch_size": 7},
        {"random_state": 1},
    ],
    ids=repr,
)
def test_every_parameter_counts(change):
    plain, changed = (learned(one, [0, 1, 2]) for one in (estimator(), estimator(**change)))
    assert (plain.decision_function(X) != changed.decision_function(X)).any()


# ---- transactions


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"X": X, "y": None}, "requires y to be passed"),
        ({"X": X, "y": CODES[1:]}, "inconsistent numbers of samples"),
        ({"X": X * np.nan, "y": CODES}, "Input X contains NaN"),
        ({"X": X[:, 1:], "y": CODES}, "X has 5 features"),
        ({"X": 1e80 * X, "y": CODES}, "X must have magnitudes of at most"),
        ({"X": X, "y": CODES + 0.5}, "continuous"),
        ({"X": X, "y": [2, "a"] * 80}, "y must hold .*, all of one kind"),
        ({"X": X, "y": CODES, "classes": ["a"]}, "classes must hold labels of the kind seen"),
    ],
)
def test_bad_input_is_refused(call, message):
    model = learned(estimator(), [0, 1])
    with unchanged(model), pytest.raises(ValueError, match=message):
        model.partial_fit(**call)
    assert vars(model.fit(of(0, 1), np.repeat([0, 1], 20))).keys() == vars(model).keys()
    if "has 5 features" not in message:
        fresh = estimator()
        with pytest.raises(ValueError, match=message.replace(" seen", "")):
            fresh.partial_fit(**call)
        assert vars(fresh) == vars(estimator())


def test_a_descent_that_diverges_is_refused():
    model = learned(estimator(), [0, 1]).set_params(learning_rate=1e200, weight_decay=1.0)
    message = r"learning_rate=1e\+200.* is too large"
    with unchanged(model), pytest.raises(ValueError, match=message):
        learned(model, [2])


def test_parameters_between_tasks():
    model = learned(estimator(), [0, 1])
    with pytest.raises(ValueError, match="n_layers cannot change between tasks: it was 1"):
        learned(model.set_params(n_layers=2), [2])
    with pytest.raises(ValueError, match="'band_size' parameter of NaiveIncrementalClassifier"):
        learned(model.set_params(n_layers=1, band_size=0), [2])
    assert_array_equal(model.classes_, [0, 1])
    assert learned(model.set_params(band_size=3, activation="tanh"), [2]).n_tasks_ == 2
    assert model.n_parameters_ == 16 * 6 + 2 * 16 + 2 + 3 * 6 + 19 + 1


# ---- what scikit-learn users do


def test_grid_search():
    grid = {"band_size": [1, 4], "classes_per_task": [None, 1]}
    search = GridSearchCV(estimator(max_epochs=10), grid, cv=3, error_score="raise").fit(X, CODES)
    assert search.best_params_["classes_per_task"] is None
    assert search.best_score_ > 0.9


def test_names_of_the_features():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    model = estimator().partial_fit(frame[:60], CODES[:60])
    assert list(model.feature_names_in_) == list("abcdef")
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame[list("fedcba")], CODES)


@pytest.mark.cuda
def test_cuda_and_cpu_agree_and_tasks_may_alternate():
    on_cpu = learned(estimator(device="cpu", max_epochs=3), [0, 1], [2, 3])
    mixed = learned(estimator(device="cuda", max_epochs=3), [0, 1])
    learned(mixed.set_params(device="cpu"), [2, 3])
    assert_allclose(mixed.decision_function(X), on_cpu.decision_function(X), atol=1e-6)
