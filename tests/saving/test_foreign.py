"""Steps of scikit-learn that are stored with skops: kept whole, or refused by name."""

import io
import json
import sys
import zipfile
from itertools import cycle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import _CalibratedClassifier
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import BaggingRegressor
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler, PolynomialCountSketch, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LassoLars
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import SparseRandomProjection
from sklearn.tree import DecisionTreeClassifier
from torch.nn import Linear

from ffnb_sklearn import TorchFeatureExtractor, load, make_continual_pipeline, save
from ffnb_sklearn.exceptions import ModelFileError
from tests.saving.model_files import (
    classifier,
    closed,
    load_bytes,
    opened,
    saved,
    with_text,
    without_choice,
)
from tests.separated_classes import CODES, X, learned

skops = pytest.importorskip("skops.io")

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")

TEXTS = np.array(["a late parcel", "no parcel came", "an invoice is due", "wrong invoice"] * 3)
LABELS = np.arange(12) % 2


def table():
    """Return a table of numbers and categories, some of them missing."""
    pandas = pytest.importorskip("pandas")
    colours = ["red", "blue", "green"] * 4
    return pandas.DataFrame({"colour": colours, "size": [1.0, np.nan, 3.0, 4.0] * 3})


def columns(numeric=("size",), **parameters):
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    encoder = OneHotEncoder(sparse_output=False, **parameters)
    numeric = list(numeric) if isinstance(numeric, tuple) else numeric
    return ColumnTransformer([("numbers", numbers, numeric), ("colours", encoder, ["colour"])])


MIXED = {
    "columns": lambda: (columns(), table()),
    "known categories": lambda: (columns(categories=[["blue", "green", "red"]]), table()),
    "rare categories": lambda: (
        columns(handle_unknown="infrequent_if_exist", min_frequency=5, drop="first"),
        table().assign(colour=["red"] * 6 + ["blue", "green"] * 3),
    ),
    "selected": lambda: (
        columns(make_column_selector(dtype_include=np.number), drop="if_binary"),
        table(),
    ),
    "text": lambda: (make_pipeline(TfidfVectorizer(), TruncatedSVD(2, random_state=0)), TEXTS),
    "sparse text": lambda: (CountVectorizer(stop_words="english"), TEXTS),
    "axes": lambda: (PCA(3, random_state=np.random.RandomState(0)), X[:12]),
    "union": lambda: (FeatureUnion([("axes", PCA(2)), ("best", SelectKBest(k=2))]), X[:12]),
    "projection": lambda: (SparseRandomProjection(3, random_state=0), X[:12]),
}


@pytest.mark.parametrize("kind", MIXED)
def test_pipeline_is_kept(kind, tmp_path):
    transformer, rows = MIXED[kind]()
    pipe = make_continual_pipeline(transformer, without_choice()).fit(rows, LABELS)
    save(pipe, tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb")
    assert type(loaded) is type(pipe)
    assert_array_equal(loaded.predict_proba(rows), pipe.predict_proba(rows))
    task = (rows, np.full(12, 2))
    assert_array_equal(
        loaded.partial_fit(*task).predict_proba(rows),
        pipe.partial_fit(*task).predict_proba(rows),
    )


@pytest.mark.parametrize("kind", ["columns", "text"])
def test_pipeline_of_scikit_learn_is_kept(kind, tmp_path):
    transformer, rows = MIXED[kind]()
    pipe = make_pipeline(transformer, without_choice()).fit(rows, LABELS)
    save(pipe, tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb")
    assert type(loaded) is Pipeline
    assert_array_equal(loaded.predict_proba(rows), pipe.predict_proba(rows))
    assert_array_equal(loaded.fit(rows, LABELS).predict(rows), pipe.predict(rows))


def test_an_estimator_of_scikit_learn_is_kept_by_itself(tmp_path):
    save(PCA(2).fit(X), tmp_path / "model.ffnb")
    assert_array_equal(load(tmp_path / "model.ffnb").transform(X), PCA(2).fit(X).transform(X))


class Doubled(TransformerMixin, BaseEstimator):
    """A transformer that no list names."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return 2.0 * X


OTHERS = {
    f"{__name__}.Doubled": Doubled,
    "sklearn.tree._tree.Tree": lambda: SelectFromModel(DecisionTreeClassifier(), max_features=3),
    f"{__name__}.doubled": lambda: FunctionTransformer(doubled),
    f"{__name__}.split": lambda: CountVectorizer(tokenizer=split, token_pattern=None),
}


def split(text):
    return text.split()


def doubled(rows):
    return 2.0 * rows


@pytest.mark.parametrize("name", OTHERS)
def test_other_types_are_named_and_load_if_trusted(name, tmp_path):
    rows = TEXTS if "split" in name else np.abs(X[:12])
    pipe = make_continual_pipeline(OTHERS[name](), classifier()).fit(rows, LABELS)
    save(pipe, tmp_path / "model.ffnb")
    with pytest.raises(ModelFileError, match=rf"not trusted: .*{name}.*trusted=\["):
        load(tmp_path / "model.ffnb")
    with pytest.raises(ModelFileError, match=name):
        load(tmp_path / "model.ffnb", trusted=["os.system"])
    loaded = load(tmp_path / "model.ffnb", trusted=[name])
    assert_array_equal(loaded.predict_proba(rows), pipe.predict_proba(rows))


def test_trusted_types_may_be_given_as_types(tmp_path):
    save(make_continual_pipeline(Doubled(), classifier()), tmp_path / "model.ffnb")
    assert isinstance(load(tmp_path / "model.ffnb", trusted=[Doubled])[0], Doubled)
    for wrong in (True, "numpy.sum", None):
        with pytest.raises(TypeError, match="trusted must be a list"):
            load(tmp_path / "model.ffnb", trusted=wrong)


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (FunctionTransformer(lambda rows: rows), r"steps\[0\]\[1\] cannot be saved: skops"),
        (TfidfVectorizer(input="filename"), "input of TfidfVectorizer"),
        (CountVectorizer(ngram_range=(1, 99)), "ngram_range of CountVectorizer .*16"),
        (FeatureUnion([("p", Pipeline([("s", PCA())], memory="/x"))]), "memory of Pipeline"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_no_file_holds_are_not_saved(transformer, message, tmp_path):
    pipe = Pipeline([("first", transformer), ("clf", classifier())])
    with pytest.raises((ValueError, TypeError), match=message):
        save(pipe, tmp_path / "model.ffnb")
    assert not list(tmp_path.iterdir())


def parameters_of(content):
    return content["estimator"]["ContinualPipeline"]["parameters"]


def forged(estimator, change, tmp_path):
    """Save a pipeline, change the JSON text of its first step, and return the bytes of the file."""
    pipe = make_continual_pipeline(estimator, classifier())
    content, arrays = opened(saved(pipe, tmp_path / "model.ffnb"))
    (_, step), *_ = (one["tuple"] for one in parameters_of(content)["steps"])
    _, stored, _ = step["skops"]
    index = stored["array"]
    arrays[index] = np.frombuffer(change(arrays[index].tobytes()), np.uint8)
    return closed(content, arrays)


def with_attribute(name, value):
    """Make a function that sets an attribute, of any object that has it, to a plain value."""
    plain = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode"}
    plain["content"] = json.dumps(value)

    def change(schema):
        for key, part in schema.items() if isinstance(schema, dict) else enumerate(schema):
            if key == name:
                schema[key] = plain
            elif isinstance(part, dict | list):
                change(part)

    return with_text(change)


def as_function(schema):
    """Name a function in place of the estimator."""
    return {**schema, "__class__": "system", "__module__": "os", "__loader__": "FunctionNode"}


def with_member(name, data, compression=zipfile.ZIP_STORED):
    """Make a function that adds a member to the bytes of skops."""

    def changed(content):
        file = io.BytesIO(content)
        with zipfile.ZipFile(file, "a", compression) as archive:
            archive.writestr(name, data)
        return file.getvalue()

    return changed


FORGED = {
    "os.system": (PCA(), with_text(as_function)),
    "subproc.Popen": (
        PCA(),
        with_text(lambda one: {**one, "__class__": "Popen", "__module__": "subproc"}),
    ),
    "input": (TfidfVectorizer(), with_attribute("input", "filename")),
    "memory": (FeatureUnion([("p", make_pipeline(PCA()))]), with_attribute("memory", "/tmp")),
    "protocol": (PCA(), with_text(lambda one: one["content"])),
    "uncompressed": (PCA(), with_member("bomb", b"\0" * 10**8, zipfile.ZIP_DEFLATED)),
    "zip file": (PCA(), lambda content: content[:-9]),
    "cannot be read": (PCA(), with_text(lambda one: [one])),
}


@pytest.mark.parametrize("named", FORGED)
def test_forged_step_is_refused_by_name(named, tmp_path):
    estimator, change = FORGED[named]
    content = forged(estimator, change, tmp_path)
    with pytest.raises(ModelFileError, match=named) as caught:
        load_bytes(content, tmp_path / "forged.ffnb", trusted=["builtins.print"])
    assert "ContinualPipeline.steps[0][1]" in str(caught.value)
    assert len(str(caught.value)) < 2000


def hidden(estimator, **attributes):
    """Return an estimator with attributes that its constructor may not know."""
    vars(estimator).update(attributes)
    return estimator


def objects(*values):
    """Return an array of objects."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


# A rule of a step, the estimator that breaks it, and the start of the error.
BROKEN = {
    "file name": (CountVectorizer(input="filename"), "input of CountVectorizer"),
    "file": (TfidfVectorizer(input="file"), "input of TfidfVectorizer"),
    "hashed file name": (HashingVectorizer(input="filename"), "input of HashingVectorizer"),
    "n-grams": (CountVectorizer(ngram_range=(1, 10**6)), "ngram_range of CountVectorizer"),
    "cache": (Pipeline([("axes", PCA())], memory="/tmp"), "memory of Pipeline"),
    "cache of clusters": (AgglomerativeClustering(memory="/tmp"), "memory of Agglomerative"),
    "degree": (PolynomialFeatures(degree=10**9), "degree of PolynomialFeatures"),
    "columns": (hidden(PolynomialFeatures(), _n_out_full=2**40), "_n_out_full of Polynomial"),
    "components": (PolynomialCountSketch(n_components=10**9), "n_components of PolynomialCount"),
    "features of kernels": (RBFSampler(n_components=10**9), "n_components of RBFSampler"),
    "steps": (AdditiveChi2Sampler(sample_steps=10**9), "sample_steps of AdditiveChi2Sampler"),
    "bins": (KBinsDiscretizer(n_bins=10**9), "n_bins of KBinsDiscretizer"),
    "knots": (SplineTransformer(n_knots=10**9), "n_knots of SplineTransformer"),
    "thresholds": (
        TunedThresholdClassifierCV(KernelRidge(), thresholds=10**9),
        "thresholds of TunedThreshold",
    ),
    "hashes": (FeatureHasher(n_features=2**31 - 1), "n_features of FeatureHasher"),
    "hidden method": (
        hidden(CountVectorizer(input="filename"), _get_param_names=list),
        "attributes of CountVectorizer must not hide .*_get_param_names",
    ),
    "hidden property": (
        hidden(PCA(), _n_features_out=10**9),
        "attributes of PCA must not hide .*_n_features_out",
    ),
    "attribute of another": (hidden(BaggingRegressor(), input="filename"), "input of Bagging"),
    "threads of a kernel": (KernelRidge(kernel_params={"n_jobs": 99}), "kernel_params of .*n_jobs"),
    "grid": (
        GridSearchCV(CountVectorizer(), [{"input": ["filename"]}]),
        "param_grid of GridSearchCV must not set input",
    ),
    "deep grid": (
        GridSearchCV(make_pipeline(PCA()), {"pca__n_components": [1], "memory": ["/tmp"]}),
        "param_grid of GridSearchCV must not set memory",
    ),
}

# Places of an estimator in another estimator.
HOLDERS = {
    "step": lambda one: FeatureUnion([("a", one)]),
    "itself": lambda one: one,
    "frozen": lambda one: FeatureUnion([("a", FrozenEstimator(one))]),
    "fitted": lambda one: hidden(columns(), transformers_=[("text", one, "colour")]),
    "list": lambda one: hidden(BaggingRegressor(), estimators_=[one]),
    "array": lambda one: hidden(BaggingRegressor(), estimators_=objects(one)),
    "dictionary": lambda one: hidden(BaggingRegressor(), named_estimators_={"a": one}),
    "private": lambda one: hidden(PCA(), _anything=(one,)),
    "object": lambda one: hidden(
        BaggingRegressor(), estimators_=[_CalibratedClassifier(one, [], classes=[0, 1])]
    ),
}


def with_estimator(estimator):
    """Make a function that replaces the bytes of skops by those of any estimator."""
    return lambda _: skops.dumps(estimator)


# Each rule in one place, and each place with several rules: the search for estimators in a file
# knows no rules.
RULES_IN_PLACES = list(zip(BROKEN, cycle(HOLDERS)))


@pytest.mark.parametrize(("rule", "place"), RULES_IN_PLACES)
def test_rules_hold_wherever_a_step_is(rule, place, tmp_path):
    broken, message = BROKEN[rule]
    estimator = HOLDERS[place](broken)
    content = forged(PCA(), with_estimator(estimator), tmp_path)
    with pytest.raises(ModelFileError, match=message):
        load_bytes(content, tmp_path / "forged.ffnb")
    with pytest.raises(ValueError, match=message):
        save(estimator if place != "itself" else FeatureUnion([("a", broken)]), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_frozen_vectorizer_of_file_names_opens_no_file(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret text")
    step = CountVectorizer(input="filename").fit([str(secret)])
    assert "secret" in step.vocabulary_
    frozen = FeatureUnion([("a", FrozenEstimator(step))])
    content = forged(PCA(), with_estimator(frozen), tmp_path)
    with pytest.raises(ModelFileError, match="input of CountVectorizer must be 'content'"):
        load_bytes(content, tmp_path / "forged.ffnb")


def test_steps_of_a_file_start_no_processes(tmp_path):
    union = FeatureUnion([("axes", PCA(2)), ("best", SelectKBest(k=2))], n_jobs=2)
    inner = hidden(KMeans(3, n_init=1, random_state=0).fit(X), _n_threads=14)
    steps = FeatureUnion([("union", union), ("kept", FrozenEstimator(inner))], n_jobs=14)
    model = make_continual_pipeline(steps, classifier()).set_params(featureunion__n_jobs=None)
    with joblib.parallel_config(backend="threading"):
        model.fit(X, CODES % 3)
    model[0].n_jobs = 14
    save(model, tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb")
    (_, first), (_, second) = loaded[0].transformer_list
    assert (loaded[0].n_jobs, first.n_jobs, second.estimator._n_threads) == (None, None, 1)
    assert model[0].n_jobs == 14
    assert_array_equal(
        loaded.predict_proba(X), model.set_params(featureunion__n_jobs=1).predict_proba(X)
    )
    # Numbers of processes make no difference between the transformers of two pipelines.
    model.set_params(featureunion__n_jobs=2)
    others = learned_labels(load(tmp_path / "model.ffnb"))
    with joblib.parallel_config(backend="threading"):
        merged = others.merge(model)
    assert_array_equal(merged.classes_, [0, 1, 2, 7])


def learned_labels(pipe):
    """Forget the labels of a pipeline, and learn another one."""
    return pipe.partial_fit(X[:6], [7] * 6).forget([0, 1, 2])


def test_constants_of_a_class_may_be_parameters(tmp_path):
    # The class has a constant of the name of its parameter `positive`.
    model = LassoLars(positive=False).fit(X, CODES)
    save(model, tmp_path / "model.ffnb")
    assert_array_equal(load(tmp_path / "model.ffnb").predict(X), model.predict(X))


EXTRACTOR = "ffnb_sklearn.backbones._feature_extractor.TorchFeatureExtractor"
LINEAR = "torch.nn.modules.linear.Linear"


def image_columns(**attributes):
    """Return columns with an extractor of networks, which skops stores if it is trusted."""
    parameters = {"in_features": 2, "out_features": 2}
    extractor = TorchFeatureExtractor(Linear, backbone_params=parameters)
    made = ColumnTransformer([("network", extractor, [0, 1])]).fit(X)
    vars(made.transformers_[0][1]).update(attributes)
    return made


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"weights": "/dev/zero"}, "weights of TorchFeatureExtractor must not be a path"),
        ({"state_dict_": "/dev/zero"}, "state_dict_ of TorchFeatureExtractor must map names"),
        ({"state_dict_": None}, "state_dict_ of TorchFeatureExtractor must map names"),
        ({"backbone": "os:system"}, "backbone of TorchFeatureExtractor must be the factory"),
        ({"_parameter_constraints": {}}, "must not hide .*_parameter_constraints"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_trusted_extractor_in_a_step_names_no_path_and_no_code(attributes, message, tmp_path):
    content = forged(PCA(), with_estimator(image_columns(**attributes)), tmp_path)
    with pytest.raises(ModelFileError, match=message):
        load_bytes(content, tmp_path / "forged.ffnb", trusted=[EXTRACTOR, LINEAR])


def test_an_extractor_in_a_step_is_kept_and_takes_no_texts(tmp_path):
    step = image_columns()
    save(step, tmp_path / "model.ffnb")
    factories = {"torch.nn.modules.linear:Linear": Linear}
    loaded = load(tmp_path / "model.ffnb", factories=factories)
    assert_array_equal(loaded.transform(X), step.transform(X))
    for extractor in (loaded.transformers_[0][1], loaded.transformers[0][1]):
        with pytest.raises(ValueError, match=r"X\[0\] is a text"):
            clone(extractor).fit(["/dev/zero"])


def test_without_skops_the_error_names_the_step_and_the_package(tmp_path, monkeypatch):
    path, other = tmp_path / "model.ffnb", tmp_path / "other.ffnb"
    pipe = learned(make_continual_pipeline(PCA(2), classifier()), [0, 1])
    save(pipe, path)
    for name in [name for name in sys.modules if name.split(".")[0] == "skops"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "skops", None)
    save(make_continual_pipeline(StandardScaler(), classifier()), other)
    assert isinstance(load(other)[0], StandardScaler)
    message = r"PCA, which is stored with skops. Install it: pip install skops"
    with pytest.raises(ImportError, match=rf"^ContinualPipeline.steps\[0\]\[1\] is .*{message}"):
        save(pipe, other)
    with pytest.raises(ImportError, match=rf"steps\[0\]\[1\].*{message}"):
        load(path)
