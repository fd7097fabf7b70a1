"""scikit-learn's callbacks: the tree of tasks that they see, and calls that fail or are stopped."""

import pickle
import re
import sys
from copy import deepcopy
from importlib.util import module_from_spec, spec_from_file_location

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from ffnb_sklearn import (
    FFNBClassifier,
    NaiveIncrementalClassifier,
    load,
    make_continual_pipeline,
    save,
)
from ffnb_sklearn._estimators import callbacks as _callbacks
from tests.backbones.small_networks import X as ROWS
from tests.backbones.small_networks import Y as LABELS
from tests.backbones.small_networks import small as extractor
from tests.separated_classes import CODES, X, learned, of

# Two classes that overlap, so that a descent has a loss in every epoch.
NOISY = np.random.default_rng(0).permutation(CODES % 2)


def estimator(**parameters):
    return FFNBClassifier().set_params(**{"shared_band_size": 10, "random_state": 0, **parameters})


class OwnRecorder:
    """Callback that keeps the names of the tasks that begin and end, and stops or fails by name."""

    def __init__(self, stop=None, fail=None):
        self.stop, self.fail = stop, fail
        self.events, self.ended, self.n_open = [], [], 0

    def setup(self, estimator, context):
        self.n_open += 1

    def teardown(self, estimator, context):
        self.n_open -= 1

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X, y, metadata, fitted_estimator):
        self.events.append(("end", context.task_name))
        self.ended.append((context.task_name, X, y, metadata, fitted_estimator))
        if self.fail == context.task_name:
            raise RuntimeError("told to fail")
        return self.stop == context.task_name

    def tree(self):
        """Names of the tasks in order of their begin, indented by their depth."""
        lines, path = [], []
        for event, name in self.events:
            if event == "begin":
                lines.append(len(path) * " " + name)
                path.append(name)
            else:
                assert path.pop() == name
        assert path == []
        return lines

    def fitted(self, name):
        """Estimators as they were at the end of the tasks of a name."""
        return [one[-1] for one in self.ended if one[0] == name]


class Recorder(OwnRecorder):
    """The same, and estimators hand it to their parts."""

    max_propagation_depth = None


needs_callbacks = pytest.mark.skipif(
    not hasattr(_callbacks.CallbackSupportMixin, "set_callbacks"),
    reason="needs callbacks of scikit-learn, 1.9 or later",
)

# ---- the tree of tasks


@needs_callbacks
def test_tasks_are_subtasks_of_fit():
    seen = Recorder()
    model = estimator(classes_per_task=3).set_callbacks(seen).fit(X, CODES)
    assert seen.tree() == ["fit", " task", " task", " task"]
    assert model.n_tasks_ == 3
    assert seen.n_open == 0


@needs_callbacks
@pytest.mark.parametrize(
    "make",
    [
        lambda **few: estimator(bands__max_epochs=3, **few),
        lambda **few: NaiveIncrementalClassifier(max_epochs=3, **few),
    ],
)
def test_epochs_are_subtasks_of_tasks(make):
    seen = Recorder()
    model = make(random_state=0).set_callbacks(seen).partial_fit(X, NOISY)
    assert model.n_iter_ > 1
    assert seen.tree() == ["partial-fit", " task", *(model.n_iter_ * ["  epoch"])]


@needs_callbacks
def test_joint_training_is_one_task():
    seen = Recorder()
    FFNBClassifier(shared_band_size=10).set_callbacks(seen).fit(X, CODES)
    assert seen.tree() == ["fit", " task"]


@needs_callbacks
def test_epochs_of_pretraining_are_subtasks_of_fit():
    seen = Recorder()
    model = extractor(epochs=2).set_callbacks(seen)
    model.fit_transform(ROWS, LABELS)
    assert seen.tree() == ["fit", " epoch", " epoch"]
    seen.events.clear()
    model.set_params(epochs=0).fit(ROWS)
    assert seen.tree() == ["fit"]
    assert seen.n_open == 0


@needs_callbacks
def test_steps_of_a_pipeline_are_subtasks():
    seen = Recorder()
    pipe = make_continual_pipeline(extractor(epochs=1), GaussianNB()).set_callbacks(seen)
    pipe.partial_fit(ROWS, LABELS, classes=np.unique(LABELS))
    # The extractor's own tree takes the place of its step.
    assert seen.tree() == ["partial-fit", " fit", "  epoch", " partial-fit-final-estimator"]


@needs_callbacks
def test_a_pipeline_hands_its_callbacks_to_the_last_step_in_every_call():
    seen = Recorder()
    pipe = make_continual_pipeline(StandardScaler(), estimator()).set_callbacks(seen)
    learned(pipe, [0, 1])
    assert seen.tree() == ["partial-fit", " fit", " partial-fit", "  task"]
    seen.events.clear()
    learned(pipe, [2])
    expected = ["partial-fit", " transform-standardscaler", " partial-fit", "  task"]
    assert seen.tree() == expected
    assert not hasattr(pipe[-1], "_skl_callbacks")
    seen.events.clear()
    pipe.fit(X, CODES)
    assert seen.tree() == ["fit", " fit", " fit", "  task"]


@needs_callbacks
def test_steps_without_callbacks_draw_no_warning():
    # Warnings are errors here.
    seen = Recorder()
    pipe = make_continual_pipeline(FrozenEstimator(StandardScaler().fit(X)), GaussianNB())
    learned(pipe.set_callbacks(seen), [0, 1], classes=[0, 1])
    assert [name for event, name in seen.events if event == "end"][-1] == "partial-fit"


@needs_callbacks
def test_estimators_inside_scikit_learns_own_draw_no_warning():
    # Warnings are errors here.
    seen = Recorder()
    pipe = make_pipeline(StandardScaler(), estimator(classes_per_task=4))
    search = GridSearchCV(pipe, {"ffnbclassifier__p": [2]}, cv=2)
    search.set_callbacks(seen).fit(X, CODES)
    assert search.best_estimator_[-1].n_tasks_ == 2
    assert [name for event, name in seen.events if event == "end"].count("task") >= 2


# ---- what callbacks see


@needs_callbacks
def test_callbacks_see_the_samples_of_a_task_and_the_estimator_after_it():
    seen = Recorder()
    model = estimator(classes_per_task=4).set_callbacks(seen).fit(X, CODES)
    first, second = seen.fitted("task")
    assert_array_equal(first.classes_, np.arange(4))
    assert_array_equal(second.predict_proba(X), model.predict_proba(X))
    (whole,) = seen.fitted("fit")
    assert_array_equal(whole.predict_proba(X), model.predict_proba(X))
    _, rows, labels, metadata, _ = seen.ended[1]
    assert_array_equal(rows, of(4, 5, 6, 7))
    assert_array_equal(np.unique(labels), [4, 5, 6, 7])
    assert metadata is None


@needs_callbacks
def test_callbacks_see_the_weights():
    seen, weights = Recorder(), np.linspace(0.5, 2.0, len(X))
    estimator(classes_per_task=4).set_callbacks(seen).fit(X, CODES, sample_weight=weights)
    assert_array_equal(seen.ended[0][3]["sample_weight"], weights[CODES < 4])
    assert_array_equal(seen.ended[-1][3]["sample_weight"], weights)


@needs_callbacks
def test_scores_of_the_tasks_are_monitored():
    from sklearn.callback import ScoringMonitor

    monitor = ScoringMonitor(scoring="accuracy")
    estimator(classes_per_task=4).set_callbacks(monitor).fit(X, CODES)
    # Two tasks and the whole call.
    assert [row["accuracy"] for row in monitor.get_logs().data] == [1.0, 1.0, 1.0]


@needs_callbacks
def test_progress_bars_show_tasks_and_epochs(capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    model = estimator(classes_per_task=1, bands__max_epochs=2)
    model.set_callbacks(ProgressBar()).fit(X, NOISY)
    shown = capsys.readouterr().out
    for line in ("FFNBClassifier - fit", "FFNBClassifier - task #0", "FFNBClassifier - task #1"):
        assert re.search(re.escape(line) + r" .* 100%", shown)


# ---- stopping, failing


@needs_callbacks
def test_a_callback_may_stop_the_tasks():
    model = estimator(classes_per_task=2).set_callbacks(Recorder(stop="task")).fit(X, CODES)
    assert_array_equal(model.classes_, [0, 1])


@needs_callbacks
def test_a_callback_may_stop_the_epochs():
    stop = Recorder(stop="epoch")
    assert estimator(bands__max_epochs=5).set_callbacks(stop).fit(X, NOISY).n_iter_ == 1
    naive = NaiveIncrementalClassifier(max_epochs=5, random_state=0)
    assert naive.set_callbacks(stop).fit(X, NOISY).n_iter_ == 1
    assert len(extractor(epochs=5).set_callbacks(stop).fit(ROWS, LABELS).loss_curve_) == 1


LEARNERS = {
    "classifier": estimator(),
    "naive": NaiveIncrementalClassifier(max_epochs=2, random_state=0),
    "pipeline": make_continual_pipeline(StandardScaler(), estimator()),
}


@needs_callbacks
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_callback_that_fails_changes_nothing(learner, method):
    model = learned(clone(LEARNERS[learner]), [0, 1])
    before = model.predict_proba(X)
    root = method.replace("_", "-")
    failing = Recorder(fail=root)
    model.set_callbacks(failing)
    attributes = set(vars(model))
    with pytest.raises(RuntimeError, match="told to fail"):
        getattr(model, method)(of(2, 3), np.repeat([2, 3], 20))
    assert set(vars(model)) == attributes
    assert failing.n_open == 0
    assert_array_equal(model.predict_proba(X), before)
    failing.fail = None
    assert_array_equal(learned(model, [2]).classes_, [0, 1, 2])


@needs_callbacks
def test_a_failing_call_of_a_pipeline_leaves_the_callbacks_of_its_steps():
    own = OwnRecorder()
    pipe = make_continual_pipeline(Normalizer(), estimator().set_callbacks(own))
    learned(pipe, [0, 1])
    with pytest.raises(ValueError, match="features"):
        pipe.partial_fit(X[:, :3], CODES)
    own.events.clear()
    learned(pipe, [2])
    assert own.tree() == ["partial-fit", " task"]


class Failing(OwnRecorder):
    """Callback whose teardown raises, as often as it is told to."""

    n_failures = 0

    def teardown(self, estimator, context):
        super().teardown(estimator, context)
        if self.n_failures:
            self.n_failures -= 1
            raise RuntimeError("told to fail")


TEARDOWNS = {
    **{head: estimator(classifier=head) for head in ("gaussian", "ovo", "ova")},
    "naive": LEARNERS["naive"],
    "pipeline": LEARNERS["pipeline"],
    "step of a pipeline": LEARNERS["pipeline"],
    "extractor": extractor(epochs=1),
}


@needs_callbacks
@pytest.mark.parametrize("method", ["fit", "partial_fit", "fit_transform"])
@pytest.mark.parametrize("learner", TEARDOWNS)
def test_a_teardown_that_fails_changes_nothing_and_the_call_may_be_repeated(learner, method):
    model, failing, generator = clone(TEARDOWNS[learner]), Failing(), np.random.RandomState(3)
    if not hasattr(model, method) or (method == "fit_transform" and learner != "extractor"):
        pytest.skip("has no such method, or inherits it")
    name = "ffnbclassifier__random_state" if "pipeline" in learner else "random_state"
    model.set_params(**{name: generator})
    (model[-1] if learner == "step of a pipeline" else model).set_callbacks(failing)
    rows, labels = (ROWS, LABELS) if learner == "extractor" else (X[:60], CODES[:60])
    output = "transform" if learner == "extractor" else "predict_proba"
    if method == "partial_fit":
        model.partial_fit(X[60:], CODES[60:])
    else:
        getattr(model, method)(rows, labels)
    before, expected = getattr(model, output)(rows), clone(model)
    key = generator.get_state()[1:3]

    failing.n_failures = 1
    with pytest.raises(RuntimeError, match="told to fail"):
        getattr(model, method)(rows, labels)
    assert_array_equal(getattr(model, output)(rows), before)
    assert_array_equal(generator.get_state()[1], key[0])
    assert generator.get_state()[2] == key[1]
    assert failing.n_open == 0

    getattr(model, method)(rows, labels)
    if method == "partial_fit":
        # The clone begins with the generator of the state before.
        expected.set_params(**{name: np.random.RandomState(3)}).partial_fit(X[60:], CODES[60:])
    getattr(expected, method)(rows, labels)
    assert_array_equal(getattr(model, output)(rows), getattr(expected, output)(rows))
    if isinstance(model, FFNBClassifier):
        assert {one.weight for one in model._state.model.moments} == {20.0}


# ---- copies, files, older versions


@needs_callbacks
@pytest.mark.parametrize("learner", LEARNERS)
def test_copies_keep_callbacks_and_files_do_not(learner, tmp_path):
    model = learned(clone(LEARNERS[learner]).set_callbacks(Recorder()), [0, 1])
    for copy in (clone(model), deepcopy(model), pickle.loads(pickle.dumps(model))):
        (callback,) = copy._skl_callbacks
        assert isinstance(callback, Recorder)
    save(model, tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb")
    assert not hasattr(loaded, "_skl_callbacks")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@needs_callbacks
def test_a_callback_may_save_the_estimator_after_each_task(tmp_path):
    class Saver(Recorder):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator):
            save(fitted_estimator, tmp_path / f"{context.task_name} {context.task_id}")

    estimator(classes_per_task=4).set_callbacks(Saver()).fit(X, CODES)
    assert_array_equal(load(tmp_path / "task 0").classes_, np.arange(4))
    assert_array_equal(load(tmp_path / "task 1").classes_, np.arange(8))


@needs_callbacks
def test_a_cache_of_transformers_is_hit_with_callbacks(tmp_path):
    scaler, memory = CountingScaler(), joblib.Memory(tmp_path, verbose=0)
    for _ in range(2):
        pipe = make_continual_pipeline(scaler, estimator(), memory=memory)
        learned(pipe.set_callbacks(Recorder()), [0, 1])
    assert CountingScaler.n_fits == 1


class CountingScaler(StandardScaler):
    n_fits = 0

    def fit(self, X, y=None):
        type(self).n_fits += 1
        return super().fit(X, y)


def test_without_callbacks_nothing_is_kept_for_them(monkeypatch):
    # As with scikit-learn before 1.9.
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = spec_from_file_location("ffnb_sklearn._estimators._old_callbacks", _callbacks.__file__)
    old = module_from_spec(spec)
    spec.loader.exec_module(old)
    assert not hasattr(old.CallbackSupportMixin, "set_callbacks")
    assert old.with_callbacks(estimator) is estimator
    context = old.callback_context(old.CallbackSupportMixin(), "fit", 1)
    with context.propagate_callback_context(None):
        assert context.subcontext(task_name="task").call_on_fit_task_end(X=X) is False


# ---- verbose


@pytest.mark.parametrize(
    "make",
    [
        lambda **few: estimator(bands__max_epochs=3, **few),
        lambda **few: NaiveIncrementalClassifier(max_epochs=3, **few),
    ],
)
def test_verbose_2_prints_a_line_per_epoch(make, capsys):
    model = make(verbose=2, random_state=0).fit(X, NOISY)
    *epochs, task = capsys.readouterr().out.splitlines()
    assert len(epochs) == model.n_iter_ > 1
    name = type(model).__name__
    for number, (line, loss) in enumerate(zip(epochs, model.loss_curve_, strict=True), start=1):
        start = re.escape(f"[{name}] task 1, epoch {number}: loss {loss:.3g}, ")
        assert re.fullmatch(start + r"\d+\.\d\d s", line)
    assert task.startswith(f"[{name}] task 1: ")


def test_verbose_1_prints_no_line_per_epoch(capsys):
    estimator(verbose=1, bands__max_epochs=3).fit(X, NOISY)
    assert len(capsys.readouterr().out.splitlines()) == 1
