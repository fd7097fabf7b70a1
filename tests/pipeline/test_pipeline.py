import pickle
import threading
from copy import deepcopy

import joblib
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import IncrementalPCA
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.random_projection import GaussianRandomProjection
from torch import nn

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis, TorchFeatureExtractor
from ffnb_sklearn.exceptions import ConcurrentLearningError, FrozenTransformerWarning
from ffnb_sklearn.pipeline import ContinualPipeline, _pipeline, make_continual_pipeline
from tests.recording_callback import PlainRecorder, Recorder, needs_callbacks


class NearestMean(ClassifierMixin, BaseEstimator):
    """Smallest classifier with partial_fit, forget and merge; fails when it is told to."""

    def __init__(self, fail=False):
        self.fail = fail

    def fit(self, X, y):
        self.sums_ = {}
        return self.partial_fit(X, y)

    def partial_fit(self, X, y):
        self.sums_ = getattr(self, "sums_", {})
        for label in np.unique(y):
            # In place, and before the failure: what a transaction must undo.
            self.sums_[label] = self.sums_.get(label, 0) + X[y == label].sum(axis=0)
        if self.fail:
            raise RuntimeError("told to fail")
        return self

    def predict(self, X):
        means = np.array([self.sums_[label] for label in self.classes_])
        return self.classes_[np.argmax(X @ means.T, axis=1)]

    @property
    def classes_(self):
        return np.array(sorted(self.sums_))

    def forget(self, classes):
        for label in classes:
            del self.sums_[label]
        return self

    def merge(self, other):
        self.sums_ = {**self.sums_, **other.sums_}
        return self


def discriminant(**parameters):
    """Return a small classifier that chooses nothing, because choices take time."""
    settings = {"shared_band_size": 5, "shrinkage": 0.3, "epsilon": 0.1, "random_state": 0}
    return IncrementalDiscriminantAnalysis(**{**settings, **parameters})


@pytest.fixture(scope="module")
def tasks():
    """Digits as two tasks: (X, y) of the classes 0..4, then of 5..9."""
    X, y = load_digits(return_X_y=True)
    return (X[y < 5], y[y < 5]), (X[y >= 5], y[y >= 5])


def learned(pipeline, tasks):
    for X, y in tasks:
        pipeline.partial_fit(X, y, classes=np.arange(10))
    return pipeline


# ---- the contract of partial_fit


def test_the_first_call_fits_transformers_and_later_calls_only_transform(tasks):
    pipe = learned(make_continual_pipeline(StandardScaler(), GaussianNB()), tasks)

    scaler, nb = StandardScaler().fit(tasks[0][0]), GaussianNB()
    for X, y in tasks:
        nb.partial_fit(scaler.transform(X), y, classes=np.arange(10))
    assert_array_equal(pipe[0].mean_, scaler.mean_)
    assert_array_equal(pipe[0].n_samples_seen_, len(tasks[0][0]))
    X = np.vstack([task[0] for task in tasks])
    assert_array_equal(pipe.predict_proba(X), nb.predict_proba(scaler.transform(X)))
    assert_array_equal(pipe.classes_, np.arange(10))
    assert pipe.n_features_in_ == 64


def test_fit_is_that_of_pipeline_and_forgets_everything(tasks):
    (X1, y1), (X2, y2) = tasks
    steps = [("scale", StandardScaler()), ("clf", GaussianNB())]
    pipe = ContinualPipeline(steps).partial_fit(X1, y1, classes=np.arange(5)).fit(X2, y2)
    expected = clone(Pipeline(steps)).fit(X2, y2)
    assert_array_equal(pipe.predict_proba(X2), expected.predict_proba(X2))
    assert_array_equal(pipe.classes_, np.arange(5, 10))


def test_partial_fit_goes_on_from_fit(tasks):
    (X1, y1), (X2, _) = tasks
    pipe = make_continual_pipeline(StandardScaler(), GaussianNB()).fit(X1, y1)
    mean = pipe[0].mean_.copy()
    pipe.partial_fit(X2, np.arange(len(X2)) % 5)
    assert_array_equal(pipe[0].mean_, mean)
    assert pipe[-1].class_count_.sum() == len(X1) + len(X2)


@pytest.mark.parametrize("nothing", ["passthrough", None])
def test_steps_that_do_nothing_are_skipped(tasks, nothing):
    steps = [("none", nothing), ("unit", Normalizer()), ("clf", GaussianNB())]
    pipe = learned(ContinualPipeline(steps), tasks)
    plain = learned(make_continual_pipeline(Normalizer(), GaussianNB()), tasks)
    X = tasks[1][0]
    assert_array_equal(pipe.predict_proba(X), plain.predict_proba(X))


def test_a_last_step_alone_and_a_last_step_without_targets(tasks):
    X = tasks[0][0]
    alone = learned(make_continual_pipeline(GaussianNB()), tasks)
    assert_array_equal(alone.classes_, np.arange(10))
    pca = make_continual_pipeline(StandardScaler(), IncrementalPCA(3))
    assert pca.partial_fit(X).partial_fit(X).transform(X).shape == (len(X), 3)
    clusters = make_continual_pipeline(Normalizer(), MiniBatchKMeans(2, n_init=1, random_state=0))
    assert set(clusters.partial_fit(X).predict(X)) == {0, 1}


def test_classes_reach_the_last_step(tasks):
    (X, y), _ = tasks
    pipe = make_continual_pipeline(StandardScaler(), SGDClassifier(random_state=0))
    with pytest.raises(ValueError, match="classes must be passed"):
        pipe.partial_fit(X, y)
    assert_array_equal(pipe.partial_fit(X, y, classes=[*range(12)]).classes_, np.arange(12))
    assert pipe.decision_function(X[:3]).shape == (3, 12)


@pytest.mark.parametrize(
    ("last", "type_name"), [(LogisticRegression(), "LogisticRegression"), ("passthrough", "str")]
)
@pytest.mark.parametrize(
    "method", ["partial_fit", "forget", "forget_samples", "estimate_priors", "rename", "merge"]
)
def test_methods_exist_only_if_the_last_step_has_them(last, type_name, method):
    pipe = ContinualPipeline([("scale", StandardScaler()), ("head", last)])
    assert not hasattr(pipe, method)
    with pytest.raises(AttributeError, match=method) as error:
        getattr(pipe, method)
    assert "'head'" in str(error.value.__cause__)
    assert type_name in str(error.value.__cause__)
    pipe.set_params(head=IncrementalDiscriminantAnalysis())
    assert hasattr(pipe, method)


def test_samples_are_forgotten_only_by_a_last_step_without_bands():
    pipe = make_continual_pipeline(StandardScaler(), FFNBClassifier())
    assert not hasattr(pipe, "forget_samples")
    for method in ("partial_fit", "forget", "decay", "estimate_priors", "rename", "merge"):
        assert hasattr(pipe, method)


def test_a_last_step_trains_bands_for_each_task(tasks):
    scaler = StandardScaler().fit(tasks[0][0])
    last = FFNBClassifier(shared_band_size=5, random_state=0)
    pipe = learned(make_continual_pipeline(FrozenEstimator(scaler), last), tasks)
    alone = clone(last)
    for X, y in tasks:
        alone.partial_fit(scaler.transform(X), y)
    X = tasks[0][0]
    assert len(pipe[-1].null_space_dims_) == 2
    assert_array_equal(pipe.predict_proba(X), alone.predict_proba(scaler.transform(X)))
    with pytest.warns(UserWarning, match=r"Trained neurons keep a trace of the classes \[2\]"):
        pipe.forget([2])
    assert 2 not in pipe.classes_


def test_parameters_and_steps_are_checked_at_every_call(tasks):
    (X, y), _ = tasks
    pipe = make_continual_pipeline(Normalizer(), NearestMean()).partial_fit(X, y)
    with pytest.raises(ValueError, match="'verbose' parameter of ContinualPipeline"):
        pipe.set_params(verbose="loud").partial_fit(X, y)
    pipe.set_params(verbose=False, normalizer=GaussianNB())
    with pytest.raises(TypeError, match="intermediate steps should be transformers"):
        pipe.partial_fit(X, y)


# ---- transactions


def test_a_first_call_that_fails_leaves_the_pipeline_unfitted(tasks):
    (X, y), _ = tasks
    steps = [("scale", StandardScaler()), ("clf", NearestMean(fail=True))]
    pipe = ContinualPipeline(steps)
    with pytest.raises(RuntimeError, match="told to fail"):
        pipe.partial_fit(X, y)
    assert pipe.steps is steps
    assert not hasattr(pipe[0], "mean_")
    assert not hasattr(pipe, "n_features_in_")
    with pytest.raises(NotFittedError):
        pipe.predict(X)
    pipe.set_params(clf__fail=False).partial_fit(X[:50], y[:50])
    assert pipe[0].n_samples_seen_ == 50


def test_a_later_call_that_fails_changes_nothing(tasks):
    (X1, y1), (X2, y2) = tasks
    pipe = make_continual_pipeline(Normalizer(), NearestMean()).partial_fit(X1, y1)
    last, before, sums = pipe[-1], pipe.predict(X1), deepcopy(pipe[-1].sums_)
    pipe.set_params(nearestmean__fail=True)
    with pytest.raises(RuntimeError, match="told to fail"):
        pipe.partial_fit(X2, y2)
    assert pipe[-1] is last
    assert_array_equal(pipe.classes_, np.arange(5))
    for label, total in sums.items():
        assert_array_equal(pipe[-1].sums_[label], total)
    assert_array_equal(pipe.predict(X1), before)


# joblib warns about its cache by the clock, on a busy machine.
@pytest.mark.filterwarnings("ignore:Persisting input arguments")
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_to_fit_anew_and_fail_changes_nothing(tasks, tmp_path, cached, method):
    (X1, y1), (X2, y2) = tasks
    last = discriminant()
    memory = str(tmp_path) if cached else None
    pipe = make_continual_pipeline(StandardScaler(), last, memory=memory).partial_fit(X1, y1)
    steps, before = pipe.steps, pipe.predict_proba(X1)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        getattr(pipe, method)(10.0 * X2[:, 1:], y2 + 0.5)
    assert pipe.steps is steps
    assert_array_equal(pipe.predict_proba(X1), before)
    assert_array_equal(pipe.partial_fit(X2, y2).classes_, np.arange(10))


def test_methods_that_fit_anew_are_those_of_pipeline(tasks):
    (X, y), _ = tasks
    clusters = make_continual_pipeline(StandardScaler(), KMeans(3, n_init=1, random_state=0))
    expected = make_pipeline(StandardScaler(), KMeans(3, n_init=1, random_state=0)).fit_predict(X)
    assert_array_equal(clusters.fit_predict(X), expected)
    assert_allclose(
        clusters.fit_transform(X), make_pipeline(*clusters.named_steps.values()).transform(X)
    )
    classifier = make_continual_pipeline(StandardScaler(), GaussianNB())
    for method in ("fit_predict", "fit_transform"):
        assert not hasattr(classifier, method)
        with pytest.raises(AttributeError, match=method):
            getattr(classifier, method)
    with pytest.raises(TypeError, match="All intermediate steps should be transformers"):
        ContinualPipeline([("a", GaussianNB()), ("b", GaussianNB())]).fit(X, y)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_steps_are_exchanged_at_once_and_those_that_were_passed_do_not_change(tasks, method):
    (X, y), (later, labels) = tasks
    pipe, seen = None, []

    class Watching(NearestMean):
        def partial_fit(self, X, y, X_old=X):
            super().partial_fit(X, y)
            if pipe is not None:
                # The pipeline, at the moment that the copy of its last step has learned.
                seen.append((pipe.steps, pipe.predict(X_old)))
            return self

    pipe = make_continual_pipeline(StandardScaler(), Watching()).fit(X, y)
    steps, expected = pipe.steps, pipe.predict(X)
    states = [joblib.hash(vars(step)) for _, step in steps]
    getattr(pipe, method)(10.0 * later, labels)
    ((steps_meanwhile, predicted_meanwhile),) = seen
    assert steps_meanwhile is steps
    assert_array_equal(predicted_meanwhile, expected)
    for (_, step), state in zip(steps, states, strict=True):
        assert joblib.hash(vars(step)) == state
    assert pipe[-1] is not steps[-1][1]


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "score"])
def test_a_prediction_reads_the_steps_once(tasks, method):
    (X, y), _ = tasks

    class Learning(FunctionTransformer):
        """Lets the pipeline learn anew in the middle of a prediction."""

        def transform(self, rows):
            if pipe is not None and len(learns) == 0:
                learns.append(1)
                pipe.fit(rows[::-1] ** 2, (y + 1) % 5)
            return super().transform(rows)

    last = discriminant()
    arguments = (X, y) if method == "score" else (X,)
    pipe, learns = None, [1]
    pipe = make_continual_pipeline(StandardScaler(), Learning(), last).fit(X, y)
    expected = getattr(pipe, method)(*arguments)
    learns.clear()
    assert_array_equal(getattr(pipe, method)(*arguments), expected)
    assert learns == [1]
    assert not np.array_equal(getattr(pipe, method)(*arguments), expected)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_steps_share_the_copy_of_a_generator_and_the_generator_itself_is_not_consumed(
    tasks, method
):
    def make(generator):
        projection = GaussianRandomProjection(4, random_state=generator)
        last = discriminant(random_state=generator)
        return make_continual_pipeline(projection, last)

    (X, y), _ = tasks
    expected = getattr(make(np.random.RandomState(3)), method)(X, y).predict_proba(X)
    generator = np.random.RandomState(3)
    pipe, before = make(generator), generator.get_state()[1:3]
    with pytest.raises(ValueError, match="continuous"):
        getattr(pipe, method)(X, y + 0.5)
    assert pipe[1].random_state is generator
    getattr(pipe, method)(X, y)
    assert pipe[0].random_state is pipe[1].random_state is not generator
    assert_array_equal(pipe.predict_proba(X), expected)
    assert_array_equal(generator.get_state()[1], before[0])
    assert generator.get_state()[2] == before[1]


def test_a_transformer_that_fails_changes_nothing(tasks):
    (X1, y1), (X2, y2) = tasks
    pipe = make_continual_pipeline(StandardScaler(), NearestMean()).partial_fit(X1, y1)
    before = pipe.predict(X1)
    with pytest.raises(ValueError, match="X has 63 features, but StandardScaler is expecting 64"):
        pipe.partial_fit(X2[:, 1:], y2)
    assert_array_equal(pipe.predict(X1), before)


# ---- transformers that are already fitted


def test_a_frozen_transformer_is_kept_and_a_fitted_one_is_fitted_again(tasks):
    (X1, _), (X2, _) = tasks
    plain = StandardScaler().fit(X2)
    frozen = FrozenEstimator(StandardScaler().fit(X2))
    again = learned(make_continual_pipeline(plain, GaussianNB()), tasks)
    pipe = learned(make_continual_pipeline(frozen, GaussianNB()), tasks)
    assert_array_equal(again[0].mean_, X1.mean(axis=0))
    assert_array_equal(plain.mean_, X2.mean(axis=0))
    assert_array_equal(pipe[0].mean_, X2.mean(axis=0))
    assert_array_equal(clone(pipe)[0].mean_, X2.mean(axis=0))


def test_memory_caches_the_transformers_that_fit_fits(tasks, tmp_path):
    scaler = StandardScaler()
    for _ in range(2):
        pipe = make_continual_pipeline(scaler, GaussianNB(), memory=str(tmp_path)).fit(*tasks[0])
    plain = make_continual_pipeline(StandardScaler(), GaussianNB()).fit(*tasks[0])
    X = tasks[1][0]
    assert_array_equal(pipe.predict_proba(X), plain.predict_proba(X))
    assert not hasattr(scaler, "mean_")
    assert len(list(tmp_path.rglob("output.pkl"))) == 1


# ---- arguments of the steps


def test_weights_reach_the_step_that_is_named(tasks):
    (X, y), _ = tasks
    weights = np.random.default_rng(0).integers(1, 4, size=len(y)).astype(float)
    pipe = make_continual_pipeline(StandardScaler(), GaussianNB())
    arguments = {f"{name}__sample_weight": weights for name, _ in pipe.steps}
    for _ in range(2):
        pipe.partial_fit(X, y, classes=np.unique(y), **arguments)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    assert_allclose(pipe[0].mean_, repeated.mean(axis=0))
    assert pipe[-1].class_count_.sum() == 2 * weights.sum()


@pytest.mark.parametrize("key", ["sample_weight", "clf__sample_weight", "_"])
def test_an_argument_of_no_step_is_refused(tasks, key):
    (X, y), _ = tasks
    pipe = make_continual_pipeline(Normalizer(), GaussianNB())
    with pytest.raises(ValueError, match=rf"'normalizer', 'gaussiannb'.*got '{key}'"):
        pipe.partial_fit(X, y, **{key: np.ones(len(y))})


def test_metadata_routing(tasks):
    (X, y), _ = tasks
    weights = np.random.default_rng(0).integers(1, 4, size=len(y)).astype(float)
    with config_context(enable_metadata_routing=True):
        pipe = ContinualPipeline(
            [
                ("none", "passthrough"),
                ("frozen", FrozenEstimator(Normalizer().fit(X))),
                ("scale", StandardScaler().set_fit_request(sample_weight="scale_weight")),
                ("clf", GaussianNB().set_partial_fit_request(sample_weight=True)),
            ]
        )
        for _ in range(2):
            pipe.partial_fit(X, y, classes=[*range(9)], sample_weight=weights, scale_weight=weights)
        assert pipe[-1].class_count_.sum() == 2 * weights.sum()
        repeated = np.repeat(pipe[1].transform(X), weights.astype(int), axis=0)
        assert_allclose(pipe[2].mean_, repeated.mean(axis=0))
        with pytest.raises(TypeError, match="unexpected"):
            pipe.partial_fit(X, y, other=weights)
        pipe.set_params(clf=GaussianNB())
        with pytest.raises(UnsetMetadataPassedError, match="partial_fit"):
            pipe.partial_fit(X, y, sample_weight=weights)
        assert ContinualPipeline([("none", None)]).get_metadata_routing() is not None


# ---- what scikit-learn users do with a pipeline


@pytest.mark.parametrize(
    "copy",
    [clone, deepcopy, lambda pipe: pickle.loads(pickle.dumps(pipe))],
    ids=["clone", "deepcopy", "pickle"],
)
def test_copies_between_tasks_go_on_alike(tasks, copy):
    pipe = make_continual_pipeline(StandardScaler(), GaussianNB())
    pipe = learned(pipe, tasks[:1])
    other = copy(pipe)
    if copy is clone:
        other = learned(other, tasks[:1])
    learned(pipe, tasks[1:])
    learned(other, tasks[1:])
    X = tasks[1][0]
    assert_array_equal(pipe.predict_proba(X), other.predict_proba(X))


def test_grid_search_over_the_parameters_of_a_step(tasks):
    (X, y), _ = tasks
    pipe = make_continual_pipeline(StandardScaler(), GaussianNB())
    grid = {"gaussiannb__var_smoothing": [1e-9, 1e-1, 1e3]}
    search = GridSearchCV(pipe, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {"gaussiannb__var_smoothing": 1e-1}
    assert isinstance(search.best_estimator_, ContinualPipeline)
    assert search.best_score_ > 0.9


def test_data_frames_names_and_output_containers(tasks):
    pandas = pytest.importorskip("pandas")
    X, y = tasks[0]
    frame = pandas.DataFrame(X, columns=[f"pixel{i}" for i in range(64)])
    pipe = make_continual_pipeline(StandardScaler(), IncrementalPCA(2)).set_output(
        transform="pandas"
    )
    out = pipe.partial_fit(frame, y).partial_fit(frame, y).transform(frame)
    assert list(out.columns) == ["incrementalpca0", "incrementalpca1"]
    assert list(pipe.get_feature_names_out()) == list(out.columns)
    assert_array_equal(pipe.feature_names_in_, frame.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        pipe.partial_fit(frame.rename(columns={"pixel0": "other"}), y)


def test_slices_and_parameters(tasks):
    pipe = learned(make_continual_pipeline(Normalizer(), GaussianNB(), verbose=False), tasks)
    assert isinstance(pipe[:1], ContinualPipeline)
    assert_allclose(np.linalg.norm(pipe[:1].transform(tasks[0][0]), axis=1), 1.0)
    assert set(pipe.get_params(deep=False)) == {"steps", "memory", "verbose"}
    twins = make_continual_pipeline(Normalizer(), Normalizer(), GaussianNB())
    assert [name for name, _ in twins.steps] == ["normalizer-1", "normalizer-2", "gaussiannb"]


# ---- forget and merge


def test_forget_and_merge_are_those_of_the_last_step(tasks):
    (X1, y1), (X2, y2) = tasks
    scaler = FrozenEstimator(StandardScaler().fit(X1))
    first = make_continual_pipeline(scaler, NearestMean()).partial_fit(X1, y1)
    second = make_continual_pipeline(scaler, NearestMean()).partial_fit(X2, y2)
    assert_array_equal(first.merge(second).classes_, np.arange(10))
    assert_array_equal(second.classes_, np.arange(5, 10))
    assert_array_equal(first.forget([0, 7]).classes_, [1, 2, 3, 4, 5, 6, 8, 9])
    with pytest.raises(KeyError):
        first.forget([1, 7])
    assert_array_equal(first.classes_, [1, 2, 3, 4, 5, 6, 8, 9])


def test_decay_is_that_of_the_last_step(tasks):
    (X1, y1), _ = tasks
    pipe = make_continual_pipeline(StandardScaler(), discriminant())
    step = pipe.partial_fit(X1, y1)[-1]
    expected = deepcopy(step).decay(0.5, [1]).decision_function(pipe[:-1].transform(X1))
    assert pipe.decay(0.5, [1]) is pipe
    assert pipe[-1] is not step
    assert_array_equal(pipe.decision_function(X1), expected)
    with pytest.raises(ValueError, match=r"factor == 2.0, must be <= 1.0"):
        pipe.decay(2.0)
    assert_array_equal(pipe.decision_function(X1), expected)
    assert not hasattr(make_continual_pipeline(NearestMean()), "decay")


def test_methods_of_samples_transform_them_for_the_last_step(tasks):
    (X1, y1), _ = tasks
    weights = np.linspace(0.5, 1.5, len(y1))
    exact = discriminant(rank=None)
    pipe = make_continual_pipeline(StandardScaler(), exact)
    step = pipe.partial_fit(X1, y1, incrementaldiscriminantanalysis__sample_weight=weights)[-1]
    features = pipe[0].transform(X1)
    assert_array_equal(pipe.class_counts_, step.class_counts_)
    assert pipe.estimate_priors(X1[:40]) == step.estimate_priors(features[:40])
    expected = deepcopy(step).forget_samples(features[:9], y1[:9], sample_weight=weights[:9])
    assert pipe.forget_samples(X1[:9], y1[:9], sample_weight=weights[:9]) is pipe
    assert pipe[-1] is not step
    assert_array_equal(pipe.class_counts_, expected.class_counts_)
    scores = expected.decision_function(features)
    assert_array_equal(pipe.decision_function(X1), scores)
    with pytest.raises(ValueError, match="samples cannot be subtracted"):
        pipe.forget_samples(X1[:2] + 100.0, y1[:2])
    assert_array_equal(pipe.decision_function(X1), scores)
    for empty in (clone(pipe), make_continual_pipeline(NearestMean())):
        assert not hasattr(empty, "class_counts_")
    with pytest.raises(NotFittedError):
        clone(pipe).estimate_priors(X1)
    with pytest.raises(NotFittedError):
        clone(pipe).forget_samples(X1, y1)


def test_merge_accepts_equal_transformers_and_refuses_others(tasks):
    (X1, y1), (X2, y2) = tasks
    first = make_continual_pipeline(StandardScaler(), NearestMean()).partial_fit(X1, y1)
    second = make_continual_pipeline(StandardScaler(), NearestMean()).partial_fit(X2, y2)
    with pytest.raises(ValueError, match="same fitted transformers"):
        first.merge(second)
    with pytest.raises(TypeError, match="ContinualPipeline; got an instance of NearestMean"):
        first.merge(second[-1])
    third = make_continual_pipeline(StandardScaler(), NearestMean()).partial_fit(X1, y1)
    assert_array_equal(third.merge(pickle.loads(pickle.dumps(first))).classes_, np.arange(5))


@pytest.mark.parametrize(
    ("step", "change"),
    [
        (HashingVectorizer(stop_words=["the"], n_features=16), lambda step: None),
        (Normalizer(), lambda step: step.set_output(transform="default")),
        (
            TorchFeatureExtractor(
                nn.Linear,
                backbone_params={"in_features": 64, "out_features": 8},
                weights={"weight": torch.ones(8, 64), "bias": torch.zeros(8)},
            ),
            lambda step: step.set_params(batch_size=7, device="cpu"),
        ),
        (FunctionTransformer(np.log1p), lambda step: None),
    ],
)
def test_merge_compares_what_determines_the_output(tasks, step, change):
    first, second = tasks
    if isinstance(step, HashingVectorizer):
        first, second = ((["a b", "the c"], labels) for labels in ([0, 1], [2, 3]))
    own = make_continual_pipeline(clone(step), discriminant())
    other = make_continual_pipeline(clone(step), discriminant())
    other.partial_fit(*second)
    change(other[0])
    other = pickle.loads(pickle.dumps(other))
    classes = own.partial_fit(*first).merge(other).classes_
    assert_array_equal(classes, np.unique([*first[1], *second[1]]))


def test_merge_of_pipelines_of_other_lengths(tasks):
    short = make_continual_pipeline(NearestMean()).partial_fit(*tasks[0])
    long = make_continual_pipeline(Normalizer(), NearestMean()).partial_fit(*tasks[1])
    with pytest.raises(ValueError, match="same fitted transformers"):
        short.merge(long)


def test_forget_and_merge_need_a_fitted_pipeline(tasks):
    empty = make_continual_pipeline(FunctionTransformer(), NearestMean())
    fitted = clone(empty).partial_fit(*tasks[0])
    with pytest.raises(NotFittedError):
        empty.forget([0])
    with pytest.raises(NotFittedError):
        empty.merge(fitted)
    with pytest.raises(NotFittedError):
        fitted.merge(empty)


def scaled_pipeline(X, y):
    last = discriminant(scale=False)
    return make_continual_pipeline(StandardScaler(), last).fit(X, y)


def test_merge_refuses_a_fit_while_it_compares_the_transformers(tasks, monkeypatch):
    (X1, y1), (X2, y2) = tasks
    pipe, other = scaled_pipeline(X1, y1), scaled_pipeline(X1, y1 + 5)
    expected = scaled_pipeline(X1, y1).merge(other).predict_proba(X2)
    errors, give_same_output = [], _pipeline.give_same_output

    def fit_and_compare(one, another):
        with pytest.raises(ConcurrentLearningError) as error:
            pipe.fit(10.0 * X2, y2)
        errors.append(error)
        return give_same_output(one, another)

    monkeypatch.setattr(_pipeline, "give_same_output", fit_and_compare)
    assert_array_equal(pipe.merge(other).predict_proba(X2), expected)
    assert len(errors) == 1


def test_merge_reads_the_steps_of_the_other_pipeline_once(tasks, monkeypatch):
    (X1, y1), (X2, y2) = tasks
    pipe, other = scaled_pipeline(X1, y1), scaled_pipeline(X1, y1 + 5)
    expected = scaled_pipeline(X1, y1).merge(other).predict_proba(X2)
    give_same_output = _pipeline.give_same_output

    def compare_and_fit(one, another):
        is_same = give_same_output(one, another)
        # Another thread lets the other pipeline learn features of another scale.
        other.fit(10.0 * X2, y2)
        return is_same

    monkeypatch.setattr(_pipeline, "give_same_output", compare_and_fit)
    assert_array_equal(pipe.merge(other).predict_proba(X2), expected)


class Plain:
    """Transformer with the two methods that a pipeline needs, and no base class."""

    def fit(self, X, y=None):
        self.mean = X.mean(axis=0)
        return self

    def transform(self, X):
        return X - self.mean


class Mixed(TransformerMixin, Plain):
    """Transformer without tags and parameters."""


class Misleading(TransformerMixin, Plain, BaseEstimator):
    """Transformer with a parameter that only by its name is a list of parts."""

    def __init__(self, transformers=None):
        self.transformers = transformers


@pytest.mark.parametrize(
    "transformer",
    [
        Plain(),
        Mixed(),
        Misleading([StandardScaler()]),
    ],
    ids=lambda one: f"{type(one).__name__} {vars(one).get('transformers', '')}",
)
def test_partial_fit_takes_every_transformer_that_fit_takes(tasks, transformer):
    (X, y), (later, labels) = tasks
    last = discriminant()
    fitted = make_continual_pipeline(transformer, last).fit(X, y)
    pipe = make_continual_pipeline(transformer, last)
    with pytest.warns(FrozenTransformerWarning, match=type(transformer).__name__):
        pipe.partial_fit(X, y)
    assert_array_equal(pipe.predict_proba(X), fitted.predict_proba(X))
    assert_array_equal(pipe.partial_fit(later, labels).classes_, np.arange(10))


class Uncopyable(BaseEstimator):
    """A fitted transformer with a session that cannot be copied."""

    def __init__(self):
        self.session_ = threading.Lock()

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


def test_a_frozen_step_need_not_be_copied(tasks):
    step = FrozenEstimator(Uncopyable())
    pipeline = ContinualPipeline([("session", step), ("clf", NearestMean())])

    pipeline.partial_fit(*tasks[0]).partial_fit(*tasks[1])

    assert pipeline[0] is step


def test_an_error_names_a_step_that_cannot_be_copied(tasks):
    pipeline = ContinualPipeline([("session", Uncopyable()), ("clf", NearestMean())])

    with pytest.raises(TypeError, match="cannot pickle") as caught:
        pipeline.partial_fit(*tasks[0])
    assert "Wrap a fitted Uncopyable" in caught.value.__notes__[0]


# ---- callbacks of scikit-learn


def quiet(recorder):
    """Return a pipeline whose steps report to a callback; scikit-learn warns of other steps."""
    pipe = make_continual_pipeline(StandardScaler(), discriminant())
    return pipe.set_callbacks(recorder)


@needs_callbacks
@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.FrozenTransformerWarning")
def test_partial_fit_passes_its_callbacks_on(tasks):
    recorder = Recorder()
    pipe = quiet(recorder).partial_fit(*tasks[0])
    steps = ["partial_fit 0", "partial_fit 0/fit 0"]
    assert recorder.begun == [
        *steps,
        "partial_fit 0/partial_fit 1",
        "partial_fit 0/partial_fit 1/task 0",
    ]
    recorder.begun.clear()
    pipe.partial_fit(*tasks[1])
    last_step = "partial_fit 0/partial_fit 0"
    assert recorder.begun == ["partial_fit 0", last_step, f"{last_step}/task 0"]
    assert recorder.open == 0
    assert_array_equal(pipe.classes_, np.arange(10))
    for step in (pipe, *pipe.named_steps.values()):
        assert not {"_callback_fit_ctx", "_parent_callback_ctx"} & vars(step).keys()


@needs_callbacks
def test_fit_passes_its_callbacks_on(tasks):
    recorder = Recorder()
    quiet(recorder).fit(*tasks[0])
    assert recorder.begun == ["fit 0", "fit 0/fit 0", "fit 0/fit 1", "fit 0/fit 1/task 0"]
    assert recorder.open == 0


@needs_callbacks
def test_callbacks_of_a_step_stay(tasks):
    recorder = Recorder()
    frozen = FrozenEstimator(StandardScaler().fit(tasks[0][0]))
    pipe = make_continual_pipeline(frozen, discriminant())
    pipe[-1].set_callbacks(recorder)
    with pytest.raises(TypeError, match="can't have auto-propagated callbacks"):
        pipe.partial_fit(*tasks[0])
    # Meta-estimators do not pass on a callback without a depth.
    recorder = PlainRecorder()
    pipe[-1].set_callbacks(recorder)
    learned(pipe, tasks)
    last_step = "partial_fit 0/partial_fit 0"
    assert recorder.begun == [last_step, f"{last_step}/task 0"] * 2
    assert pipe[-1]._skl_callbacks == [recorder]


@needs_callbacks
@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.FrozenTransformerWarning")
@pytest.mark.parametrize("place", ["begin", "end", "teardown"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_callback_that_fails_changes_nothing(tasks, method, place):
    recorder = Recorder()
    pipe = quiet(recorder).partial_fit(*tasks[0])
    steps = pipe.steps
    before = vars(pipe).copy()
    expected = pipe.predict_proba(tasks[1][0])
    recorder.fails_at = (place, method)
    with pytest.raises(RuntimeError, match="told to fail"):
        getattr(pipe, method)(*tasks[1])
    assert pipe.steps is steps
    assert vars(pipe) == before
    assert_array_equal(pipe.predict_proba(tasks[1][0]), expected)


@needs_callbacks
def test_merge_ignores_callbacks(tasks):
    first = make_continual_pipeline(Normalizer(), discriminant())
    second = make_continual_pipeline(Normalizer(), discriminant())
    first.partial_fit(*tasks[0])
    second.partial_fit(*tasks[1])
    second[0]._skl_callbacks = [Recorder()]
    assert_array_equal(first.merge(second).classes_, np.arange(10))
