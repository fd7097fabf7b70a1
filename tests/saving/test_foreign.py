"""Steps of scikit-learn that are stored with skops: kept whole, or refused by name."""

import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.random_projection import SparseRandomProjection
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from ffnb_sklearn import TorchFeatureExtractor, load, make_continual_pipeline, save
from ffnb_sklearn.backbones import ConvNet
from ffnb_sklearn.exceptions import ModelFileError
from tests.saving.model_files import (
    classifier,
    closed,
    load_bytes,
    opened,
    saved,
    with_text,
)
from tests.separated_classes import X, learned

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
@pytest.mark.parametrize("make", [make_pipeline, make_continual_pipeline])
def test_pipeline_is_kept(kind, make, tmp_path):
    transformer, rows = MIXED[kind]()
    pipe = make(transformer, classifier(band_size=0)).fit(rows, LABELS)
    save(pipe, tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb")
    assert type(loaded) is type(pipe)
    assert_array_equal(loaded.predict_proba(rows), pipe.predict_proba(rows))
    if make is make_continual_pipeline:
        task = (rows, np.full(12, 2))
        assert_array_equal(
            loaded.partial_fit(*task).predict_proba(rows),
            pipe.partial_fit(*task).predict_proba(rows),
        )
    else:
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
    "numpy.log1p": lambda: FunctionTransformer(np.log1p),
    "sklearn.tree._classes.DecisionTreeClassifier": lambda: selected_by(DecisionTreeClassifier()),
    "sklearn.svm._classes.LinearSVC": lambda: selected_by(LinearSVC()),
    f"{__name__}.split": lambda: CountVectorizer(tokenizer=split, token_pattern=None),
}


def split(text):
    return text.split()


def selected_by(estimator):
    return SelectFromModel(estimator, max_features=3)


@pytest.mark.parametrize("name", OTHERS)
def test_other_types_are_named_and_load_if_trusted(name, tmp_path):
    rows = TEXTS if "split" in name else np.abs(X[:12])
    pipe = make_continual_pipeline(OTHERS[name](), classifier(band_size=0)).fit(rows, LABELS)
    save(pipe, tmp_path / "model.ffnb")
    with pytest.raises(ModelFileError, match=rf"not trusted: .*{name}.*trusted=\["):
        load(tmp_path / "model.ffnb")
    with pytest.raises(ModelFileError, match=name):
        load(tmp_path / "model.ffnb", trusted=["os.system"])
    names = [name, "sklearn.tree._tree.Tree"] if "tree" in name else [name]
    loaded = load(tmp_path / "model.ffnb", trusted=names)
    assert_array_equal(loaded.predict_proba(rows), pipe.predict_proba(rows))


def test_trusted_types_may_be_given_as_types(tmp_path):
    save(make_continual_pipeline(Doubled(), classifier()), tmp_path / "model.ffnb")
    assert isinstance(load(tmp_path / "model.ffnb", trusted=[Doubled])[0], Doubled)
    for wrong in (True, "numpy.log1p", None):
        with pytest.raises(TypeError, match="trusted must be a list"):
            load(tmp_path / "model.ffnb", trusted=wrong)


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (FunctionTransformer(lambda rows: rows), "step 'first' cannot be saved: skops"),
        (TfidfVectorizer(input="filename"), "step 'first' .*input of TfidfVectorizer"),
        (TfidfVectorizer(token_pattern="(a+)+$"), "token_pattern of TfidfVectorizer .*backtrack"),
        (CountVectorizer(ngram_range=(1, 99)), "ngram_range of CountVectorizer .*1 to 16"),
        (FeatureUnion([("h", HashingVectorizer(encoding="idna"))]), "encoding of Hashing"),
        (FeatureUnion([("p", Pipeline([("s", PCA())], memory="/x"))]), "memory of Pipeline"),
        (ColumnTransformer([("c", PCA(), make_column_selector("a"))]), "pattern of make_column"),
        (FeatureUnion([("n", TorchFeatureExtractor(ConvNet))]), "a step of its own"),
        (FeatureUnion([("n", PCA())], n_jobs=10**6), "n_jobs of FeatureUnion .*1024"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_no_file_holds_are_not_saved(transformer, message, tmp_path):
    pipe = Pipeline([("first", transformer), ("clf", classifier())])
    with pytest.raises((ValueError, TypeError), match=message):
        save(pipe, tmp_path / "model.ffnb")
    assert not list(tmp_path.iterdir())


def forged(estimator, change, tmp_path):
    """Save a pipeline, change the JSON text of its first step, and return the bytes of the file."""
    pipe = make_continual_pipeline(estimator, classifier(band_size=0))
    content, arrays = opened(saved(pipe, tmp_path / "model.ffnb"))
    _, stored = content["estimator"]["estimator"]["parameters"]["steps"][0][1]["foreign"]
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


def as_tree(schema):
    return {**schema, "__class__": "Tree", "__module__": "sklearn.tree._tree"}


def with_member(name, data, compression=zipfile.ZIP_STORED):
    """Make a function that adds a member to the bytes of skops."""

    def changed(content):
        file = io.BytesIO(content)
        with zipfile.ZipFile(file, "a", compression) as archive:
            archive.writestr(name, data)
        return file.getvalue()

    return changed


def bomb():
    """Return an archive of 100 MB of zeros."""
    return with_member("a", b"\0" * 10**8, zipfile.ZIP_DEFLATED)(b"")


def _encoder(**parameters):
    return OneHotEncoder(**parameters).fit([["a"], ["b"], ["c"]])


FORGED = {
    "os.system": (PCA(), with_text(as_function)),
    "types": (PCA(), with_text(lambda one: {**one, "__class__": "Popen", "__module__": "subproc"})),
    "_tree.Tree": (PCA(), with_text(as_tree)),
    "input": (TfidfVectorizer(), with_attribute("input", "filename")),
    "token_pattern": (TfidfVectorizer(), with_attribute("token_pattern", "(a+)+$")),
    "ngram_range": (CountVectorizer(), with_attribute("ngram_range", [1, 10**9])),
    "encoding": (CountVectorizer(), with_attribute("encoding", "punycode")),
    "vocabulary_": (CountVectorizer().fit(TEXTS), with_attribute("vocabulary_", {"a": 2**31})),
    "memory": (FeatureUnion([("p", make_pipeline(PCA()))]), with_attribute("memory", "/tmp")),
    "n_components": (PCA(), with_attribute("n_components", 2**40)),
    "categories_": (_encoder(), with_attribute("_n_features_outs", [1])),
    "categories_ ": (_encoder(drop="first"), with_attribute("_n_features_outs", [10**9])),
    "an estimator": (PCA(), with_text(lambda one: one["content"])),
    "unpacked": (PCA(), with_member("bomb", b"\0" * 10**8, zipfile.ZIP_DEFLATED)),
    "unpacked ": (PCA(), with_member("x.npz", bomb())),
    "skops": (PCA(), lambda content: content[:-9]),
    "skops ": (PCA(), with_text(lambda one: [one])),
}


@pytest.mark.parametrize("named", FORGED)
def test_forged_step_is_refused_by_name(named, tmp_path):
    estimator, change = FORGED[named]
    content = forged(estimator, change, tmp_path)
    with pytest.raises(ModelFileError, match=named.strip()) as caught:
        load_bytes(content, tmp_path / "forged.ffnb", trusted=["builtins.print"])
    assert "model.estimator.estimator.parameters.steps[0]" in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_an_index_outside_of_a_sparse_matrix_is_refused(tmp_path):
    projection = SparseRandomProjection(3, random_state=0).fit(X)
    projection.components_.indices[0] = 2**30
    with pytest.raises(ValueError, match="indices"):
        save(make_pipeline(projection, classifier()), tmp_path / "model.ffnb")


def test_damaged_skops_step_is_refused_or_changes_numbers_alone(tmp_path):
    # Bytes of the arrays have no check sum of their own once the archive is signed again.
    pipe = learned(make_continual_pipeline(PCA(3), classifier()), [0, 1])
    content, arrays = opened(saved(pipe, tmp_path / "model.ffnb"))
    step = content["estimator"]["estimator"]["parameters"]["steps"][0][1]["foreign"][1]["array"]
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(100):
        changed = list(arrays)
        changed[step] = arrays[step].copy()
        changed[step][rng.integers(len(arrays[step]))] ^= 1 << rng.integers(8)
        try:
            load_bytes(closed(content, changed), tmp_path / "forged.ffnb")
        except ModelFileError:
            n_refused += 1
    assert n_refused > 50


NO_SKOPS = """
import sys
sys.modules["skops"] = None
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from ffnb_sklearn import FFNBClassifier, load, make_continual_pipeline, save
save(make_continual_pipeline(StandardScaler(), FFNBClassifier()), sys.argv[2])
load(sys.argv[2])
for call in (
    lambda: save(make_continual_pipeline(PCA(), FFNBClassifier()), sys.argv[2]),
    lambda: load(sys.argv[1]),
):
    try:
        call()
    except ImportError as error:
        print(error)
"""


def test_without_skops_the_error_names_the_step_and_the_package(tmp_path):
    save(learned(make_continual_pipeline(PCA(2), classifier()), [0, 1]), tmp_path / "model.ffnb")
    command = [sys.executable, "-c", NO_SKOPS, tmp_path / "model.ffnb", tmp_path / "other.ffnb"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("step 'pca' is an instance of PCA, which is stored with skops")
    assert "steps[0]" in second
    for message in (first, second):
        assert "PCA, which is stored with skops. Install it: pip install skops" in message
