"""Tables and columns of pyarrow, polars and dask; CI runs these tests with the extra `tables`."""

from datetime import datetime

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import DataConversionWarning
from sklearn.preprocessing import StandardScaler
from torch import nn

from ffnb_sklearn import (
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    evaluate_stream,
    make_continual_pipeline,
    partial_fit_shards,
)
from ffnb_sklearn.backbones import TorchFeatureExtractor

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
dd = pytest.importorskip("dask.dataframe")

X = np.random.default_rng(0).normal(size=(12, 3)) + np.repeat([0.0, 9.0], 6)[:, None]
Y = np.repeat([0, 1], 6)
WORDS = np.array(["a", "b"])[Y]
NAMES = ["width", "height", "depth"]
TIMES = [datetime(2020, 1, 1 + day) for day in range(12)]
TABLE = pa.table(dict(zip(NAMES, X.T, strict=True)))
FRAME = pd.DataFrame(X, columns=NAMES)


def classifier(**parameters):
    return IncrementalDiscriminantAnalysis(shared_band_size=5, random_state=0, **parameters)


MODELS = {
    "classifier": classifier,
    "pipeline": lambda: make_continual_pipeline(StandardScaler(), classifier()),
    "naive": lambda: NaiveIncrementalClassifier(max_epochs=1, random_state=0),
}
TABLES = {
    "table": TABLE,
    "batch": TABLE.to_batches()[0],
    "pandas": FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "dask": dd.from_pandas(FRAME, npartitions=2),
}


def table_of_polars():
    return pytest.importorskip("polars").DataFrame(X, schema=NAMES)


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.FrozenTransformerWarning")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", [*TABLES, "polars"])
def test_tables_are_learned_as_frames(name, model):
    table = table_of_polars() if name == "polars" else TABLES[name]
    found = MODELS[model]().fit(table, Y).partial_fit(table, Y)
    expected = MODELS[model]().fit(FRAME, Y).partial_fit(FRAME, Y)
    assert_array_equal(found.predict_proba(table), expected.predict_proba(FRAME))
    assert found.score(table, Y) == expected.score(FRAME, Y)
    assert found.feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_streamed_sharded_and_extracted(name):
    table = TABLES[name]
    result = evaluate_stream(classifier(), table, Y, table, Y)
    assert result.final_accuracy == 1.0
    if name != "dask":
        model = partial_fit_shards(classifier(), [(table, Y)])
        assert_array_equal(model.predict(table), Y)
    weights = {"weight": np.ones((1, 3)), "bias": np.zeros(1)}
    extractor = TorchFeatureExtractor(
        nn.Linear, backbone_params={"in_features": 3, "out_features": 1}, weights=weights
    )
    assert_array_equal(extractor.fit_transform(table), extractor.fit_transform(FRAME))


LABELS = {
    "integers": (pa.array(Y), Y),
    "chunks": (pa.chunked_array([Y[:5], Y[5:]]), Y),
    "unsigned": (pa.array(Y, type=pa.uint64()), Y),
    "large": (pa.array(Y + 2**60), Y + 2**60),
    "booleans": (pa.array(Y > 0), Y > 0),
    "words": (pa.array(WORDS), WORDS),
    "chunks of words": (pa.chunked_array([pa.array(WORDS[:5]), pa.array(WORDS[5:])]), WORDS),
    "categories": (pa.array(WORDS).dictionary_encode(), WORDS),
    "pandas": (pd.Series(Y + 2**60, dtype="int64[pyarrow]"), Y + 2**60),
    "pandas words": (pd.Series(WORDS, dtype="string[pyarrow]"), WORDS),
    "dask": (dd.from_pandas(pd.Series(Y + 2**60), npartitions=2), Y + 2**60),
    "dask words": (dd.from_pandas(pd.Series(WORDS), npartitions=2), WORDS),
}


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.FrozenTransformerWarning")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", LABELS)
def test_labels_keep_their_values(name, model):
    labels, expected = LABELS[name]
    found = MODELS[model]().fit(X, labels).partial_fit(X, labels, classes=labels)
    assert_array_equal(found.classes_, np.unique(expected))
    assert found.classes_.dtype.kind == expected.dtype.kind
    if model != "naive":
        assert_array_equal(found.predict(X), expected)
        assert found.score(X, labels) == 1.0
        assert found.forget(expected[0]).classes_.tolist() == [expected[-1]]


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_streams_and_shards(name):
    labels, expected = LABELS[name]
    assert evaluate_stream(classifier(), X, labels, X, labels).final_accuracy == 1.0
    model = classifier().fit(X, labels)
    if "dask" not in name:
        model = partial_fit_shards(classifier(), [(X, labels)])
    assert_array_equal(model.predict(X), expected)
    model.decay(0.5, labels)
    with pytest.raises(ValueError, match="is not fitted yet"):
        model.forget(labels).predict(X)


def test_shards_of_dask_frames_are_told_what_to_do():
    frame, labels = TABLES["dask"], dd.from_pandas(pd.Series(Y), npartitions=2)
    for shards in ([(frame, labels)], [(X, labels)]):
        with pytest.raises(TypeError, match=r"got a dask .*Pass a shard for each, from to_delayed"):
            partial_fit_shards(classifier(), shards)
    shards = list(zip(frame.to_delayed(), labels.to_delayed(), strict=True))
    expected = partial_fit_shards(classifier(), shards).predict_proba(frame)
    rows, column = frame.to_dask_array(lengths=True), labels.to_dask_array(lengths=True)
    with pytest.raises(TypeError, match=r"y must be a dask array .* y.to_dask_array"):
        partial_fit_shards(classifier(), rows, labels)
    model = partial_fit_shards(classifier(), rows, column)
    assert_array_equal(model.predict_proba(X), expected)


def test_weights_of_any_column():
    expected = classifier().fit(X, Y, sample_weight=Y + 1.0).predict_proba(X)
    weights = pd.Series(Y + 1.0)
    for column in (pa.array(weights), pa.chunked_array([weights]), dd.from_pandas(weights, 2)):
        assert_array_equal(classifier().fit(X, Y, sample_weight=column).predict_proba(X), expected)


def test_a_table_of_one_column_holds_targets():
    for column in (pa.table({"label": Y}), pa.table({"label": Y}).to_batches()[0]):
        with pytest.warns(DataConversionWarning, match="column-vector y"):
            assert_array_equal(classifier().fit(X, column).classes_, [0, 1])


NO_TIMES = "must not hold times; got dtype"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"X": pa.table({"a": TIMES, "b": Y})}, f"X {NO_TIMES} timestamp"),
        ({"X": pa.table({"a": TIMES, "b": Y}).to_batches()[0]}, f"X {NO_TIMES} timestamp"),
        ({"X": pd.DataFrame({"a": pd.array(TIMES, "timestamp[us][pyarrow]")})}, f"X {NO_TIMES}"),
        ({"X": pa.table({"a": [None, *X[1:, 0]]})}, "Input X contains NaN"),
        ({"X": pa.table({"a": WORDS})}, "could not convert string to float"),
        ({"X": TABLE["width"]}, "Expected 2D array, got 1D array"),
        ({"y": pa.array(TIMES)}, f"y {NO_TIMES} timestamp"),
        ({"y": pa.array([None, *Y[1:]])}, "Input y contains NaN"),
        ({"y": pa.array([None, *WORDS[1:]])}, "Input y contains NaN: the label at position 0"),
        ({"y": pd.Series([None, *Y[1:]], dtype="int64[pyarrow]")}, "Input y contains NaN"),
        ({"y": dd.from_pandas(pd.Series([None, *WORDS[1:]]), 2)}, "Input y contains NaN"),
        ({"y": pa.array(Y.astype(np.uint64) + np.uint64(2**63))}, "y must hold integers of int64"),
        ({"y": pa.array(Y + 0.5)}, "Unknown label type: continuous. y must hold"),
        (
            {"y": pa.array(Y).cast(pa.decimal128(30, 0))},
            "Unknown label type: .* got Decimal",
        ),
    ],
    ids=lambda value: str(value)[:40].replace("\n", " "),
)
def test_columns_without_meaning_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        classifier().fit(**{"X": X, "y": Y, **call})


def test_times_of_polars():
    pl = pytest.importorskip("polars")
    with pytest.raises(ValueError, match=f"X {NO_TIMES} Datetime"):
        classifier().fit(pl.DataFrame({"a": TIMES, "b": Y}), Y)
    with pytest.raises(ValueError, match=f"y {NO_TIMES} Datetime"):
        classifier().fit(X, pl.Series(TIMES))
