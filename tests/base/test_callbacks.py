"""Callbacks of scikit-learn during a call that learns."""

import copy
import io
import pickle
import re
import sys
import textwrap
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis, load, save
from ffnb_sklearn._base import callbacks
from ffnb_sklearn.baselines import NaiveIncrementalClassifier
from ffnb_sklearn.exceptions import ConcurrentLearningError
from tests.recording_callback import Recorder
from tests.separated_classes import CODES, X, learned, of, unchanged

callback = pytest.importorskip("sklearn.callback", reason="needs scikit-learn 1.9")

PAGE = Path(__file__).parents[2] / "docs" / "user_guide" / "tasks.rst"

# The closed form of the bands separates these classes, so that the epochs have no effect.
pytestmark = pytest.mark.filterwarnings(
    "ignore:bands__max_epochs=2 has had no effect in a task:UserWarning"
)

N_EPOCHS = 2


def estimator(**parameters):
    """Return a classifier that trains bands for two epochs."""
    values = {"band_size": 1, "bands__max_epochs": N_EPOCHS, "classes_per_task": None}
    return FFNBClassifier(random_state=0, shared_band_size=10).set_params(**values | parameters)


def untuned():
    """Return a classifier without trained bands."""
    return IncrementalDiscriminantAnalysis(random_state=0, shared_band_size=10)


def naive(**parameters):
    """Return a baseline that trains for two epochs."""
    return NaiveIncrementalClassifier(max_epochs=N_EPOCHS, random_state=0, **parameters)


# The first class alone has no loss, so no epochs.
TASKS = ["fit 0", "fit 0/task 0", "fit 0/task 1"]
EPOCHS = [f"fit 0/task 1/epoch {number}" for number in range(N_EPOCHS)]


@pytest.mark.parametrize("make", [estimator, naive])
def test_fit_reports_its_tasks_and_their_epochs(make):
    recorder = Recorder()
    make(classes_per_task=1).set_callbacks(recorder).fit(of(0, 1), CODES[:40])
    assert recorder.begun == [*TASKS, *EPOCHS]
    ended = [task for task, *_ in recorder.ended]
    assert ended == ["fit 0/task 0", *EPOCHS, "fit 0/task 1", "fit 0"]
    assert recorder.open == 0


def test_partial_fit_is_a_task_of_its_own():
    recorder = Recorder()
    model = untuned().set_callbacks(recorder)
    learned(model, [0, 1], [2])
    assert recorder.begun == ["partial_fit 0", "partial_fit 0/task 0"] * 2
    # A known class brings no bands.
    tuned = learned(estimator(), [0, 1]).set_callbacks(recorder)
    recorder.begun.clear()
    learned(tuned, [1])
    assert recorder.begun == ["partial_fit 0", "partial_fit 0/task 0"]


def test_hooks_get_the_samples_of_their_task_and_a_fitted_estimator():
    recorder = Recorder()
    weights = np.linspace(1.0, 2.0, 40)
    model = estimator(classes_per_task=1).set_callbacks(recorder)
    model.fit(of(0, 1), CODES[:40], sample_weight=weights)
    hooks = {task: arguments for task, *arguments in recorder.ended}
    samples, labels, metadata, fitted = hooks["fit 0/task 0"]
    assert_array_equal(samples, of(0))
    assert_array_equal(labels, CODES[:20])
    assert_array_equal(metadata["sample_weight"], weights[:20])
    assert_array_equal(fitted.classes_, [0])
    *_, without_estimator = hooks["fit 0/task 1/epoch 0"]
    assert without_estimator is None
    samples, _, metadata, fitted = hooks["fit 0"]
    assert_array_equal(samples, of(0, 1))
    assert_array_equal(metadata["sample_weight"], weights)
    assert_array_equal(fitted.decision_function(X), model.decision_function(X))


def test_monitor_scores_after_each_task():
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = FFNBClassifier(classes_per_task=4, random_state=0).set_callbacks(monitor)
    model.fit(X, CODES)
    scores = [(row["task_name"], row["accuracy"]) for row in monitor.get_logs().data]
    assert scores == [("fit", 1.0), ("task", 1.0), ("task", 1.0)]


@pytest.mark.parametrize("make", [estimator, naive])
def test_callback_ends_the_epochs_of_a_task(make):
    recorder = Recorder(stops_at="epoch")
    model = make(classes_per_task=2).set_callbacks(recorder).fit(of(0, 1, 2, 3), CODES[:80])
    epochs = [task for task in recorder.begun if "epoch" in task]
    assert epochs == ["fit 0/task 0/epoch 0", "fit 0/task 1/epoch 0"]
    assert model.n_iter_ == 1
    assert_array_equal(model.classes_, [0, 1, 2, 3])


def test_callback_ends_the_tasks_of_fit():
    recorder = Recorder(stops_at="task")
    model = estimator(classes_per_task=1).set_callbacks(recorder).fit(X, CODES)
    assert_array_equal(model.classes_, [0])
    assert_array_equal(model.predict(of(1)), np.zeros(20))


def test_callbacks_do_not_change_what_is_learned():
    reported = estimator(classes_per_task=2).set_callbacks(Recorder()).fit(X, CODES)
    plain = estimator(classes_per_task=2).fit(X, CODES)
    assert_array_equal(reported.decision_function(X), plain.decision_function(X))


FAILURES = [
    ("setup", "fit"),
    ("begin", "fit"),
    ("begin", "task"),
    ("begin", "epoch"),
    ("end", "epoch"),
    ("end", "task"),
    ("end", "fit"),
    ("teardown", "fit"),
]


@pytest.mark.parametrize("place", FAILURES, ids=" ".join)
def test_failing_callback_leaves_the_estimator_unchanged(place):
    generator = np.random.RandomState(0)
    recorder = Recorder(place)
    fresh = estimator(random_state=generator).set_callbacks(recorder)
    model = learned(estimator(), [0, 1]).set_callbacks(recorder)
    before = generator.get_state()[1].copy()
    attributes = vars(fresh).copy()
    with unchanged(model):
        for classifier in (model, fresh):
            with pytest.raises(RuntimeError, match="told to fail"):
                classifier.fit(of(2, 3), CODES[40:80])
    assert vars(fresh) == attributes
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    assert_array_equal(generator.get_state()[1], before)
    assert recorder.open == 0
    model.set_callbacks()
    assert_array_equal(model.fit(X, CODES).classes_, np.arange(8))


def test_callback_cannot_change_the_estimator_that_learns():
    class Meddler(Recorder):
        def on_fit_task_begin(self, estimator, context):
            estimator.partial_fit(X, CODES)

    model = learned(estimator(), [0, 1]).set_callbacks(Meddler())
    with unchanged(model), pytest.raises(ConcurrentLearningError):
        learned(model, [2])


def test_second_thread_leaves_the_callbacks_of_the_first():
    refused = []

    class Rival(Recorder):
        def on_fit_task_begin(self, estimator, context):
            super().on_fit_task_begin(estimator, context)
            try:
                estimator.fit(X, CODES)
            except ConcurrentLearningError as error:
                refused.append(error)

    rival = Rival()
    learned(untuned().set_callbacks(rival), [0, 1])
    assert len(refused) == 2
    assert [task for task, *_ in rival.ended] == ["partial_fit 0/task 0", "partial_fit 0"]


@pytest.mark.skipif(not PAGE.is_file(), reason="the package is installed without its documentation")
def test_script_of_the_guide_draws_a_bar_for_each_task(capsys):
    pytest.importorskip("rich", reason="the progress bar needs rich")
    (script,) = re.findall(
        r"^\.\. code-block:: python\n\n((?:(?: {3}.*)?\n)+)", PAGE.read_text("utf-8"), re.MULTILINE
    )
    exec(textwrap.dedent(script), {})
    bars = [line.split("━")[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert bars == [f"FFNBClassifier - {task}" for task in ("fit", "task #0", "task #1")]


# ---- copies and files


def test_clones_share_callbacks_and_pickles_and_deep_copies_have_their_own():
    recorder = Recorder()
    model = learned(estimator().set_callbacks(recorder), [0, 1])
    n_begun = len(recorder.begun)
    learned(pickle.loads(pickle.dumps(model)), [2])
    learned(copy.deepcopy(model), [2])
    assert len(recorder.begun) == n_begun
    learned(clone(model), [0, 1])
    assert len(recorder.begun) == 2 * n_begun


def test_file_has_no_callbacks():
    recorder = Recorder()
    model = learned(estimator().set_callbacks(recorder), [0, 1])
    file = io.BytesIO()
    save(model, file)
    n_begun = len(recorder.begun)
    file.seek(0)
    loaded = load(file)
    assert_array_equal(loaded.predict(X), model.predict(X))
    learned(loaded, [2])
    assert len(recorder.begun) == n_begun


def test_estimators_of_the_package_itself_call_no_callbacks():
    recorder = Recorder()
    model = learned(untuned().set_callbacks(recorder), [0, 1])
    state = model._learned_state()
    n_begun = len(recorder.begun)
    learned(model._clone_in_state(state), [2])
    assert model.estimate_priors(of(0))[0] == pytest.approx(1.0)
    assert len(recorder.begun) == n_begun


# ---- estimators of scikit-learn around it


def test_pipeline_passes_its_callbacks_on():
    recorder = Recorder()
    pipe = make_pipeline(StandardScaler(), untuned()).set_callbacks(recorder)
    pipe.fit(X, CODES)
    assert recorder.begun == ["fit 0", "fit 0/fit 0", "fit 0/fit 1", "fit 0/fit 1/task 0"]
    assert recorder.open == 0
    assert not hasattr(pipe[-1], "_parent_callback_ctx")


def test_search_passes_its_callbacks_on():
    monitor = callback.ScoringMonitor(scoring="accuracy")
    search = GridSearchCV(
        IncrementalDiscriminantAnalysis(random_state=0), {"rank": [4, None]}, cv=2
    )
    search.estimator.set_callbacks(monitor)
    search.fit(X, CODES)
    scores = [row["accuracy"] for run in monitor.get_logs("all") for row in run.data]
    # Two ranks, two folds and the last fit, each with the call and its task.
    assert scores == [1.0] * 10


# ---- scikit-learn before 1.9


def test_stand_ins_do_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = spec_from_file_location("ffnb_sklearn._base.stand_ins", callbacks.__file__)
    stand_ins = module_from_spec(spec)
    spec.loader.exec_module(stand_ins)
    monkeypatch.undo()
    model = stand_ins.CallbackSupportMixin()
    assert not hasattr(model, "set_callbacks")
    context = model._init_callback_context("fit", max_subtasks=1)
    task = stand_ins.ReportedTask(context.subcontext("task"), model, X, CODES)
    assert list(task.epochs(range(2))) == [0, 1]
    assert not task.end(None)
    with stand_ins.sub_estimator_task(context, "fit-estimator", model, model, X, CODES):
        assert vars(model) == {}
    assert stand_ins.with_callbacks(list) is list
