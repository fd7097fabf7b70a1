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
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.random_projection import SparseRandomProjection
from sklearn.tree import DecisionTreeClassifier

from ffnb_sklearn import load, make_continual_pipeline, save
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
    pipe = make_continual_pipeline(OTHERS[name](), classifier(band_size=0)).fit(rows, LABELS)
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
    pipe = make_continual_pipeline(estimator, classifier(band_size=0))
    content, arrays = opened(saved(pipe, tmp_path / "model.ffnb"))
    (_, step), *_ = (one["tuple"] for one in parameters_of(content)["steps"])
    _, stored = step["skops"]
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
    assert first.startswith("ContinualPipeline.steps[0][1] is an instance of PCA")
    assert "steps[0][1]" in second
    for message in (first, second):
        assert "PCA, which is stored with skops. Install it: pip install skops" in message
