"""Public cases about data frames: names and kinds of columns, categories, gaps, sparse columns."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import FunctionTransformer, Normalizer

from ffnb_sklearn import (
    SkeletonDescriptor,
    class_incremental_tasks,
    evaluate_stream,
    make_continual_pipeline,
)
from tests.public_cases.flowers import NAMES, X, Y, exact, heads, small

pd = pytest.importorskip("pandas")

COLUMNS = ["length", "width", "petal length", "petal width"]
FRAME = pd.DataFrame(X, columns=COLUMNS)

# ---- kinds of columns


@heads
def test_objects_beside_nullable_columns_are_numbers_or_an_error(head):
    """scikit-learn #25798."""
    frame = FRAME.convert_dtypes().assign(width=FRAME["width"].astype(object))
    model = small(head).fit(frame, Y)
    assert_array_equal(model.predict_proba(frame), small(head).fit(FRAME, Y).predict_proba(FRAME))
    text = frame.assign(width="wide").astype({"width": object})
    with pytest.raises(ValueError, match="could not convert string to float"):
        model.partial_fit(text, Y)


def test_boolean_and_integer_columns_together():
    """scikit-learn #22237."""
    frame = pd.DataFrame({"is long": X[:, 0] > 5.8, "n": (X[:, 1] * 10).astype(int), "x": X[:, 2]})
    array = np.column_stack([frame[name].to_numpy(float) for name in frame])
    model = small().fit(frame, Y)
    assert_array_equal(model.predict_proba(frame), small().fit(array, Y).predict_proba(array))


def test_columns_called_like_attributes_of_arrays():
    """scikit-learn #4540."""
    frame = FRAME.set_axis(["dtype", "shape", "columns", "toarray"], axis=1)
    labels = pd.Series(Y, name="dtype")
    model = make_continual_pipeline(Normalizer(), small()).fit(frame, labels)
    assert_array_equal(model.predict(frame), model.predict(frame.copy()))
    named = small().fit(frame, labels)
    assert named.feature_names_in_.tolist() == frame.columns.tolist()
    assert named.score(frame, labels) > 0.9


TIMES = {
    "dates alone": pd.DataFrame({"t": pd.date_range("2026", periods=150)}),
    "dates of a zone": pd.DataFrame({"t": pd.date_range("2026", periods=150, tz="UTC")}),
    "dates beside numbers": FRAME.assign(t=pd.date_range("2026", periods=150)),
    "durations": pd.DataFrame({"t": pd.to_timedelta(Y, unit="s")}),
    "an array of dates": pd.date_range("2026", periods=150).to_numpy()[:, None],
    "an array of durations": Y.astype("m8[ms]")[:, None],
}


@heads
@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_times_are_refused_since_their_numbers_depend_on_a_unit(head, times):
    """scikit-learn #10590, scikit-learn #20090."""
    model = small(head)
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"X must not hold times; got dtype (date|time)"):
            method(times, Y)
    seconds = pd.DataFrame({"t": pd.to_timedelta(Y, unit="s").total_seconds()})
    model.fit(seconds, Y)
    with pytest.raises(ValueError, match="must not hold times"):
        model.predict(times)


@heads
def test_gaps_in_a_nullable_column_are_named(head):
    """pandas #30038."""
    frame = FRAME.convert_dtypes()
    model = small(head).fit(frame, Y)
    frame.iloc[3, 1] = pd.NA
    for call in (lambda: model.partial_fit(frame, Y), lambda: model.predict(frame)):
        with pytest.raises(ValueError, match=r"(?s)X contains NaN|NAType"):
            call()


@heads
def test_texts_and_labels_of_the_string_dtype(head):
    """pandas #59328."""
    frame = pd.DataFrame({"text": [f"{name} {name[:3]}" for name in NAMES], "kind": NAMES})
    model = make_continual_pipeline(HashingVectorizer(n_features=64), small(head))
    for kind in ["virginica", "setosa", "versicolor"]:
        part = frame[frame["kind"] == kind]
        model.partial_fit(part["text"], part["kind"])
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert model.score(frame["text"], frame["kind"]) == 1.0
    assert (frame["kind"] == model.predict(frame["text"])).all()
    assert set(model.predict(frame["text"])) == set(NAMES)


@heads
def test_sparse_columns_whose_fill_value_is_not_zero(head):
    """pandas #24817."""
    counts = np.where(X.mean(axis=0) < X, X.round(), 1.0)
    frame = pd.DataFrame(counts, columns=COLUMNS).astype(pd.SparseDtype(float, 1.0))
    model = exact(head).fit(pd.DataFrame(counts, columns=COLUMNS), Y)
    # pandas raises, because SciPy's matrices have no other fill value; zeros would be wrong.
    with pytest.raises(ValueError, match="fill value must be 0"):
        model.predict(frame)
    zeros = frame.astype(pd.SparseDtype(float, 0.0))
    assert_array_equal(model.predict_proba(zeros), model.predict_proba(frame.sparse.to_dense()))


@heads
def test_sparse_booleans_are_zeros_and_ones(head):
    """pandas #59064."""
    above = X.mean(axis=0) < X
    model = exact(head).fit(sparse.csr_array(above), Y)
    dense = exact(head).fit(above.astype(float), Y)
    assert_array_equal(
        model.predict_proba(sparse.csr_array(above)), dense.predict_proba(above.astype(float))
    )


# ---- categories


def test_categories_without_samples_are_no_classes():
    """pandas #13179."""
    labels = pd.Series(pd.Categorical(NAMES, categories=["rose", *np.unique(NAMES)[::-1]]))
    assert small().fit(X, labels).classes_.tolist() == np.unique(NAMES).tolist()
    tasks = class_incremental_tasks(labels)
    assert [NAMES[task][0] for task in tasks] == np.unique(NAMES).tolist()
    kept = labels != "rose"
    result = evaluate_stream(small(), FRAME[kept], labels[kept], FRAME[kept], labels[kept])
    assert len(result.task_classes) == 3


def test_streams_of_frames_that_cannot_be_written_to():
    """pandas #10043."""
    rows = X.copy()
    rows.flags.writeable = False
    frame = pd.DataFrame(rows, columns=COLUMNS, index=np.arange(150)[::-1])
    result = evaluate_stream(small(), frame, Y, frame, Y)
    assert_array_equal(result.accuracy_matrix, evaluate_stream(small(), X, Y, X, Y).accuracy_matrix)
    assert result.estimator.feature_names_in_.tolist() == COLUMNS


# ---- names of columns


@heads
def test_columns_in_another_order_are_refused(head):
    """river #398."""
    model = small(head).partial_fit(FRAME, Y)
    before = model.predict_proba(FRAME)
    turned = FRAME[COLUMNS[::-1]]
    for call in (model.predict, lambda frame: model.partial_fit(frame, Y)):
        with pytest.raises(ValueError, match="must be in the same order"):
            call(turned)
    assert_array_equal(model.predict_proba(FRAME), before)


@pytest.mark.parametrize("name", ["new", "width"])
def test_columns_that_are_new_or_missing_are_named(name):
    """river #2001."""
    model = make_continual_pipeline(Normalizer(), small()).partial_fit(FRAME, Y)
    frame = FRAME.assign(new=0.0) if name == "new" else FRAME.drop(columns=name)
    with pytest.raises(ValueError, match=rf"(?s)unseen at fit time|now missing.*- {name}"):
        model.predict(frame)


def test_names_of_several_kinds_are_refused_with_the_remedy():
    """scikit-learn #25018."""
    frame = FRAME.set_axis(["a", "b", 1, 2], axis=1)
    with pytest.raises(TypeError, match=r"X.columns = X.columns.astype\(str\)"):
        small().fit(frame, Y)


@pytest.mark.parametrize(
    "names",
    [pd.MultiIndex.from_product([["a", "b"], ["c", "d"]]), pd.date_range("2026", periods=4)],
)
def test_names_that_are_no_strings_are_ignored_in_silence(names):
    """scikit-learn #22410."""
    frame = FRAME.set_axis(names, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = small().fit(frame, Y)
        assert_array_equal(model.predict(frame), model.predict(X))
    assert not hasattr(model, "feature_names_in_")


# ---- frames as output


@pytest.mark.parametrize("index", [[1, 0], [7, 9], ["b", "a"]])
def test_rows_of_column_transformers_stay_together(index):
    """scikit-learn #31051."""
    sequences = [np.random.default_rng(k).normal(size=(4, 3, 2)) for k in range(2)]
    frame = pd.DataFrame({"motion": sequences, "age": [10.0, 20.0]}, index=index)
    both = make_column_transformer(
        (SkeletonDescriptor(blocks=("joints",), n_chunks=1), "motion"),
        (FunctionTransformer(feature_names_out="one-to-one"), ["age"]),
    ).set_output(transform="pandas")
    out = both.fit_transform(frame)
    assert out.index.tolist() == index
    assert out.filter(like="age").iloc[:, 0].tolist() == [10.0, 20.0]
    alone = SkeletonDescriptor(blocks=("joints",), n_chunks=1).fit_transform(sequences)
    assert_array_equal(out.filter(like="skeleton").to_numpy(), alone)


def test_features_in_a_union_keep_names_and_index():
    """scikit-learn #31318, scikit-learn #25747."""
    frame = FRAME.set_axis([f"row {k}" for k in range(150)])
    union = FeatureUnion([("features", small()), ("same", FunctionTransformer())])
    out = union.set_output(transform="pandas").fit_transform(frame, Y)
    assert out.index.equals(frame.index)
    names = [f"features__{name}" for name in small().fit(frame, Y).get_feature_names_out()]
    assert out.columns[: len(names)].tolist() == names
    assert_array_equal(out.iloc[:, : len(names)], small().fit(FRAME, Y).transform(FRAME))


def test_features_in_a_column_transformer_need_the_labels():
    """scikit-learn #25747."""
    columns = ColumnTransformer([("petals", small(), COLUMNS[2:])], remainder="passthrough")
    out = columns.set_output(transform="pandas").fit_transform(FRAME, Y)
    assert out.shape[0] == 150
    assert_array_equal(out["remainder__width"], FRAME["width"])
