"""scikit-learn's own checks on every estimator that learns tasks, and what its users do with them.

One registry of instances and one list of expected failures serve the whole suite.
"""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import joblib
import numpy as np
import pytest
import sklearn
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from torch import nn

from ffnb_sklearn import (
    Bands,
    ContinualPipeline,
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    OpenSetClassifier,
    TorchFeatureExtractor,
    class_incremental_tasks,
    make_continual_pipeline,
)
from ffnb_sklearn.baselines import (
    AnaCP,
    FeCAM,
    KernelLDA,
    NearestClassMean,
    RanPAC,
    StreamingLDA,
)


def any_width():
    """Small network for rows of any width."""
    return nn.Sequential(
        nn.Unflatten(1, (1, -1)),
        nn.Conv1d(1, 4, 1),
        nn.Tanh(),
        nn.AdaptiveAvgPool1d(3),
        nn.Flatten(),
        nn.Linear(12, 5),
    )


def pipeline_of(last):
    return ContinualPipeline([("scale", StandardScaler()), ("clf", last)])


# Only the first two instances choose shrinkage and ridge: the choice takes most of the time of a
# small problem, and other tests cover it with each head.
GIVEN = {"shrinkage": 0.3, "epsilon": 0.1}
SMALL = {"shared_band_size": 20, **GIVEN}
ONE_BAND = {"band_size": 1, "classes_per_task": None}

# The checks that scikit-learn 1.9 runs: 83 on a classifier that takes sample_weight and arrays of
# other libraries, and 6 more on the two classifiers, because they are transformers too. The
# pipeline takes no sample_weight by that name, so eight checks of the weights are left out there;
# the extractor is a transformer alone. The checks fit hundreds of tasks, so the published model
# runs 1 epoch instead of 250, and all but the first two instances have few shared neurons.
INSTANCES = {
    "discriminant": (IncrementalDiscriminantAnalysis(), 83 + 6),
    "FFNB": (FFNBClassifier(), 83 + 6),
    "as published": (FFNBClassifier.as_published(bands__max_epochs=1, **SMALL), 83 + 6),
    "two layers": (FFNBClassifier(n_layers=2, **ONE_BAND, **SMALL), 83 + 6),
    "one-vs-all": (
        IncrementalDiscriminantAnalysis(classifier="ova", rank=None, **SMALL),
        83 + 6,
    ),
    "bands only": (
        FFNBClassifier(skip_connection=False, shared_band_size=0, **GIVEN, **ONE_BAND),
        83 + 6,
    ),
    "class covariances": (IncrementalDiscriminantAnalysis(**{**SMALL, "shrinkage": 0}), 83 + 6),
    "fine-tuned, exact moments": (
        FFNBClassifier(band_size=1, rank=None, p=(0.5,), bands=Bands(max_epochs=1), **SMALL),
        83 + 6,
    ),
    "batch norm": (FFNBClassifier(bands=Bands(batch_norm=True), **ONE_BAND, **SMALL), 83 + 6),
    "naive": (NaiveIncrementalClassifier(max_epochs=10), 75),
    "nearest class mean": (NearestClassMean(), 75),
    "streaming LDA": (StreamingLDA(), 75),
    "FeCAM": (FeCAM(), 75),
    "RanPAC": (RanPAC(n_components=50), 75),
    "kernel LDA": (KernelLDA(n_components=50, alpha=10.0), 75),
    "AnaCP": (AnaCP(n_components=50, alpha=1.0), 75),
    "extractor": (TorchFeatureExtractor(any_width), 47),
    "extractor in float64": (TorchFeatureExtractor(any_width, dtype="float64"), 47),
    "extractor, pretrained": (TorchFeatureExtractor(any_width, epochs=1), 48),
    "open set": (OpenSetClassifier(IncrementalDiscriminantAnalysis(random_state=0, **SMALL)), 83),
    "pipeline": (pipeline_of(IncrementalDiscriminantAnalysis(random_state=0, **SMALL)), 54 + 6),
    "pipeline of GaussianNB": (pipeline_of(GaussianNB()), 54),
    "pipeline of SGDClassifier": (pipeline_of(SGDClassifier(random_state=0)), 54),
}

# scikit-learn lists the first two for its own Pipeline, with the same reason.
IN_PLACE = "A pipeline fits the instances in its `steps` in place, as scikit-learn's does."
EXPECTED_FAILURES = {
    "OpenSetClassifier": {
        "check_classifiers_classes": "One of the labels is -1, the label for unknown samples.",
        "check_classifiers_train": "Unknown samples are predicted, and no column is theirs.",
    },
    "ContinualPipeline": {
        "check_estimators_overwrite_params": IN_PLACE,
        "check_dont_overwrite_parameters": IN_PLACE,
    },
}

# These run only where the environment variable SCIPY_ARRAY_API is set. The last also needs
# array_api_strict, and fails beside it on purpose: the fitted state is NumPy, so predictions take
# arrays of any library.
MAY_SKIP = {
    "check_array_api_input",
    "check_array_api_mixed_inputs",
    "check_array_api_same_namespace",
}

OUTSIDE_THE_BATTERY = [
    "check_param_validation",
    "check_dataframe_column_names_consistency",
    "check_get_feature_names_out_error",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_global_output_transform_pandas",
    "check_inplace_ensure_writeable",
]

# ---- scikit-learn's checks

# Some checks use columns at 100 whose standard deviation is 0.01.
far_columns = pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")

# In some checks the closed form of the bands separates all samples.
without_loss = pytest.mark.filterwarnings(
    "ignore:bands__max_epochs=.* has had no effect:UserWarning"
)


# Some checks have a single class, and so a single task.
@pytest.mark.filterwarnings("ignore:These parameters have no effect, because fit:UserWarning")
@far_columns
@without_loss
@pytest.mark.parametrize("name", INSTANCES)
def test_check_estimator(name):
    estimator, n_checks = INSTANCES[name]
    expected = EXPECTED_FAILURES.get(type(estimator).__name__, {})
    results = estimator_checks.check_estimator(
        estimator, expected_failed_checks=expected, on_fail=None, on_skip=None
    )
    assert [one for one in results if one["status"] == "failed"] == []
    assert {one["check_name"] for one in results if one["status"] == "xfail"} == set(expected)
    assert {one["check_name"] for one in results if one["status"] == "skipped"} <= MAY_SKIP
    if sklearn.__version__.startswith("1.9"):
        assert len(results) == n_checks


@pytest.mark.parametrize("name", ["discriminant", "FFNB", "naive"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_check_array_api_input(name, dtype, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    estimator, _ = INSTANCES[name]
    estimator_checks.check_array_api_input(name, clone(estimator), "torch", "cpu", dtype)


# These checks call an estimator that was fitted with names by an array, and expect its warning.
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names:UserWarning")
@without_loss
@pytest.mark.parametrize(
    "name",
    ["discriminant", "FFNB", "as published", "extractor", "pipeline"],
)
@pytest.mark.parametrize("check", OUTSIDE_THE_BATTERY)
def test_checks_outside_the_battery(check, name):
    pytest.importorskip("pandas")
    estimator, _ = INSTANCES[name]
    getattr(estimator_checks, check)(type(estimator).__name__, clone(estimator))


# ---- what scikit-learn users do


@pytest.fixture(scope="module")
def tasks():
    """Some digits as three tasks of two classes, (X, y) each."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 6][:360], y[y < 6][:360]
    return [(X[rows], y[rows]) for rows in class_incremental_tasks(y, classes_per_task=2)]


def small(**parameters):
    return FFNBClassifier().set_params(
        **{**ONE_BAND, "shared_band_size": 50, "random_state": 0, **parameters}
    )


LEARNERS = {
    "discriminant": IncrementalDiscriminantAnalysis(shared_band_size=50, random_state=0),
    "FFNB": small(),
    "two layers": small(n_layers=2, classes_per_task=1, bands__old_statistics="zero"),
    "pipeline": make_continual_pipeline(StandardScaler(), small()),
    "naive": NaiveIncrementalClassifier(max_epochs=10, random_state=0),
}


def learned(estimator, tasks):
    for X, y in tasks:
        estimator.partial_fit(X, y)
    return estimator


def everything(tasks):
    return np.vstack([X for X, _ in tasks]), np.concatenate([y for _, y in tasks])


def dumped(estimator, folder):
    path = folder / "estimator.joblib"
    joblib.dump(estimator, path)
    return path


ROUND_TRIPS = {
    "pickle": lambda estimator, _: pickle.loads(pickle.dumps(estimator)),
    "oldest pickle": lambda estimator, _: pickle.loads(pickle.dumps(estimator, protocol=2)),
    "deepcopy": lambda estimator, _: deepcopy(estimator),
    "joblib": lambda estimator, folder: joblib.load(dumped(estimator, folder)),
    "memory map": lambda estimator, folder: joblib.load(dumped(estimator, folder), mmap_mode="r"),
}


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_copy_between_tasks_learns_on_bit_for_bit(tasks, tmp_path, learner):
    X, _ = everything(tasks)
    original = learned(clone(LEARNERS[learner]), tasks[:2])
    before = original.predict_proba(X)
    copies = {way: round_trip(original, tmp_path) for way, round_trip in ROUND_TRIPS.items()}
    for way, copy in copies.items():
        assert_array_equal(copy.predict_proba(X), before, err_msg=way)
        learned(copy, tasks[2:])
        # The original does not change when its copy learns.
        assert_array_equal(original.predict_proba(X), before, err_msg=way)
    learned(original, tasks[2:])
    for way, copy in copies.items():
        assert_array_equal(copy.predict_proba(X), original.predict_proba(X), err_msg=way)
        assert_array_equal(copy.decision_function(X), original.decision_function(X), err_msg=way)
        assert_array_equal(copy.classes_, np.arange(6))


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_clone_between_tasks_knows_nothing_and_learns_the_same(tasks, learner):
    X, _ = everything(tasks)
    original = learned(clone(LEARNERS[learner]), tasks)
    copy = clone(original)
    assert not hasattr(copy, "classes_")
    assert_array_equal(learned(copy, tasks).predict_proba(X), original.predict_proba(X))


@pytest.mark.parametrize("learner", LEARNERS)
def test_fit_resets(tasks, learner):
    (X, y), _, (later_X, later_y) = tasks
    estimator = learned(clone(LEARNERS[learner]), tasks[1:])
    estimator.fit(X[:, :40], y)
    fresh = clone(LEARNERS[learner]).fit(X[:, :40], y)
    assert estimator.n_features_in_ == 40
    assert_array_equal(estimator.classes_, [0, 1])
    assert_array_equal(
        estimator.predict_proba(later_X[:, :40]), fresh.predict_proba(later_X[:, :40])
    )
    # It goes on from there.
    learned(estimator, [(later_X[:, :40], later_y)])
    assert_array_equal(estimator.classes_, [0, 1, 4, 5])


def test_grid_search_over_p_and_band_size(tasks):
    X, y = everything(tasks)
    estimator = make_continual_pipeline(StandardScaler(), small(classes_per_task=1))
    grid = {"ffnbclassifier__p": [2, 0.9], "ffnbclassifier__band_size": [1, 2]}
    search = GridSearchCV(estimator, grid, cv=3, n_jobs=2, error_score="raise").fit(X, y)
    assert search.best_estimator_[-1].n_tasks_ == 6
    assert search.cv_results_["mean_test_score"].min() > 0.9
    # One process gives what two give.
    alone = GridSearchCV(estimator, grid, cv=3, error_score="raise").fit(X, y)
    assert_array_equal(search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])
    assert_array_equal(search.predict_proba(X), alone.predict_proba(X))


def test_grid_search_over_processes_with_an_extractor(tasks):
    """The search uses the processes that the search above has started."""
    X, y = tasks[0]
    extractor = TorchFeatureExtractor(
        "torch.nn:Linear", backbone_params={"in_features": 64, "out_features": 4}, random_state=0
    )
    pipe = make_continual_pipeline(extractor, GaussianNB())
    grid = {"gaussiannb__var_smoothing": [1e-9, 1e3]}
    search = GridSearchCV(pipe, grid, cv=2, n_jobs=2, error_score="raise").fit(X, y)
    assert search.best_params_ == {"gaussiannb__var_smoothing": 1e-9}


def test_cross_val_score(tasks):
    X, y = everything(tasks)
    scores = cross_val_score(small(classes_per_task=2), X, y, cv=3, error_score="raise")
    # Folds are in order of the file: the last holds digits of writers who are in no other.
    assert scores.mean() > 0.93
    scores = cross_val_score(small(), X, y, cv=3, scoring="roc_auc_ovr", error_score="raise")
    assert scores.min() > 0.95


@pytest.mark.parametrize(
    "change", [{"band_size": 2}, {"bands__init": "random"}, {"p": 3}, {"verbose": 0}]
)
def test_parameters_may_change_between_tasks(tasks, change):
    X, y = everything(tasks)
    steady, changed = (learned(small(), tasks[:1]) for _ in range(2))
    changed.set_params(**change)
    # A change is effective from the next task on.
    assert_array_equal(changed.predict_proba(X), steady.predict_proba(X))
    learned(steady, tasks[1:])
    learned(changed, tasks[1:])
    assert changed.score(X, y) > 0.95
    differs = not np.array_equal(changed.decision_function(X), steady.decision_function(X))
    assert differs == ("verbose" not in change)


def test_an_invalid_parameter_between_tasks_is_refused(tasks):
    X, _ = everything(tasks)
    estimator = learned(small(), tasks[:1])
    before = estimator.predict_proba(X)
    estimator.set_params(bands__gamma=-1.0)
    with pytest.raises(ValueError, match="'gamma' parameter of Bands"):
        estimator.partial_fit(*tasks[1])
    assert_array_equal(estimator.predict_proba(X), before)


@pytest.mark.parametrize("learner", LEARNERS)
def test_threads_predict_alike_at_the_same_time(tasks, learner):
    X, _ = everything(tasks)
    estimator = learned(clone(LEARNERS[learner]), tasks)
    expected = estimator.predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: estimator.predict_proba(X), range(16)):
            assert_array_equal(result, expected)


def test_a_copy_predicts_in_a_thread_while_the_original_learns(tasks):
    X, _ = everything(tasks)
    estimator = learned(small(), tasks[:1])
    copy = deepcopy(estimator)
    expected = copy.predict_proba(X)
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(copy.predict_proba, X) for _ in range(8)]
        learned(estimator, tasks[1:])
        for one in running:
            assert_array_equal(one.result(), expected)


def test_processes_predict_alike(tasks):
    X, _ = everything(tasks)
    estimator = learned(small(), tasks)
    results = joblib.Parallel(n_jobs=2)(
        joblib.delayed(estimator.predict_proba)(part) for part in np.array_split(X, 4)
    )
    # A process has its own number of threads, and so another order of summation.
    np.testing.assert_allclose(np.vstack(results), estimator.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("learner", [small(bands__init="random"), LEARNERS["naive"]])
def test_learning_leaves_the_global_generators_alone(tasks, learner):
    state, torch_state = np.random.get_state(legacy=False), torch.get_rng_state()  # noqa: NPY002
    learned(clone(learner), tasks)
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    assert_array_equal(after["state"]["key"], state["state"]["key"])
    assert after["state"]["pos"] == state["state"]["pos"]
    assert torch.equal(torch.get_rng_state(), torch_state)
