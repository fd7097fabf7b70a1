"""Kinds of labels, and where each label stands among those that have arrived."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.preprocessing import FunctionTransformer

from ffnb_sklearn import (
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    evaluate_stream,
    load,
    make_continual_pipeline,
    partial_fit_shards,
    save,
)
from ffnb_sklearn._inputs.labels import check_labels, check_targets, label_positions

OBJECTS = np.array(["b", "a long one", "b"], dtype=object)


@pytest.mark.parametrize(
    ("labels", "known", "dtype_kind"),
    [
        ([3, 1, 3], [7], "i"),
        (np.array([3, 1], dtype=np.uint8), [7], "i"),
        (np.array([3, 1], dtype=">i2"), [7], "i"),
        ([3.0, -1.0], [7], "i"),
        ([1, 2.0], [7], "i"),
        ([Fraction(4, 2), 3], [7], "i"),
        (np.array([3.0, -1.0], dtype=np.float32), [7], "i"),
        ([True, False], [True], "b"),
        (["b", "a"], ["x"], "U"),
        (OBJECTS, ["x"], "U"),
        (("b", np.str_("a")), ["x"], "U"),
        (np.array([3, 1], dtype=object), [7], "i"),
    ],
)
def test_labels_of_one_kind_pass(labels, known, dtype_kind):
    for before in (None, np.array(known)):
        checked = check_labels(labels, before, "y")
        assert checked.dtype.kind == dtype_kind
        assert checked.dtype == np.int64 or dtype_kind != "i"
        assert checked.tolist() == list(labels)


@pytest.mark.parametrize(
    ("known", "dtype"), [(None, "i8"), ([7], "i8"), (["x"], "U1"), ([True], "?")]
)
def test_no_labels_have_the_type_of_the_known_labels(known, dtype):
    checked = check_labels([], None if known is None else np.array(known), "y")
    assert_array_equal(checked, np.empty(0, dtype=dtype), strict=True)


# ---- large numbers: each label stays as it is, or is refused


ID = 1234567890123456789
IDS = np.repeat([ID, ID + 1], 3)
ROWS = np.repeat([[0.0, 0.0], [9.0, 0.0]], 3, axis=0) + np.random.default_rng(0).normal(size=(6, 2))


def classifier(**parameters):
    return IncrementalDiscriminantAnalysis(shared_band_size=4, random_state=0, **parameters)


FEW = {
    "uint64": np.full(6, ID + 2, dtype=np.uint64),
    "uint8": np.full(6, 7, dtype=np.uint8),
    "floats": np.full(6, 7.0),
    "float32": np.full(6, 7.0, dtype=np.float32),
    "floats and integers": [7.0, 7, ID + 2, ID + 3, 7.0, 7],
    "objects": np.array([np.uint64(ID + 2), ID + 3] * 3, dtype=object),
}


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("model", ["classifier", "pipeline", "naive", "shards", "declared"])
def test_large_labels_never_merge(model, name, tmp_path):
    later = FEW[name]
    labels = sorted({ID, ID + 1, *map(int, later)})
    made = classifier()
    if model == "naive":
        made = NaiveIncrementalClassifier(max_epochs=2, random_state=0)
    if model == "pipeline":
        made = make_continual_pipeline(FunctionTransformer(), made)
    made.partial_fit(ROWS, IDS)
    if model == "shards":
        partial_fit_shards(made, [(ROWS[:3] - 20.0, later[:3]), (ROWS[3:] - 20.0, later[3:])])
    elif model == "declared":
        made.partial_fit(ROWS, IDS, classes=later)
    else:
        made.partial_fit(ROWS - 20.0, later)
    assert_array_equal(made.classes_, np.array(labels), strict=True)
    assert set(made.predict(ROWS).tolist()) <= set(labels)
    assert model == "naive" or made.predict(ROWS).tolist() == IDS.tolist()
    if model in ("classifier", "shards", "declared"):
        save(made, tmp_path / "model.ffnb")
        again = load(tmp_path / "model.ffnb")
        assert_array_equal(again.classes_, made.classes_, strict=True)
        assert again.forget(later).classes_.tolist() == [ID, ID + 1]
        made.decay(0.5, [np.uint64(ID)]).forget(ID)
        assert made.classes_.tolist() == [label for label in labels if label != ID]


REFUSED = {
    "above int64": ([2**63, 2**63 + 1, -1, -1, 2**63, 2**63], "y must hold integers of int64"),
    "uint64": (np.full(6, 2**63 + 1, dtype=np.uint64), "y must hold integers of int64"),
    "below int64": (
        [-(2**63) - 1] * 6,
        "y must hold integers of int64, .*; got -9223372036854775809",
    ),
    "rounded": (IDS.astype(float), "y must hold floats below 9007199254740992 in magnitude"),
    "rounded objects": ([float(ID), 1] * 3, "y must hold floats below 9007199254740992"),
    "the first float": (np.full(6, 2.0**53), "y must hold floats below 9007199254740992"),
    "float32": (np.full(6, 2.0**24, dtype=np.float32), "y must hold floats below 16777216"),
    "float16": (np.full(6, 2048.0, dtype=np.float16), "y must hold floats below 2048"),
    "fractions": ([7.5, 7] * 3, "Unknown label type: continuous"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_numbers_that_fit_no_integer_are_refused(name):
    labels, message = REFUSED[name]
    made = classifier().partial_fit(ROWS, IDS)
    expected = made.predict_proba(ROWS)
    calls = {
        "y": lambda: made.partial_fit(ROWS, labels),
        "y again": lambda: made.fit(ROWS, labels),
        "y of shards": lambda: partial_fit_shards(made, [(ROWS, labels)]),
        "y of streams": lambda: evaluate_stream(classifier(), ROWS, labels, ROWS, labels),
        "classes": lambda: made.partial_fit(ROWS, IDS, classes=labels),
        "classes to forget": lambda: made.forget(labels),
        "classes to decay": lambda: made.decay(0.5, labels),
    }
    for what, call in calls.items():
        with pytest.raises(ValueError, match=message.replace("y must", f"{what.split()[0]} must")):
            call()
    assert_array_equal(made.predict_proba(ROWS), expected)


@pytest.mark.parametrize("name", ["above int64", "below int64", "rounded objects", "fractions"])
def test_priors_of_numbers_that_fit_no_integer_are_refused(name):
    labels, message = REFUSED[name]
    made = classifier(priors={ID: 1.0, ID + 1: 1.0, **dict.fromkeys(labels, 1.0)})
    with pytest.raises(ValueError, match=message.replace("y must", "priors must")):
        made.fit(ROWS, IDS)


def test_the_largest_labels_of_each_type_are_learned():
    for labels in (
        [2**63 - 1, -(2**63)] * 3,
        np.array([2**53 - 1, 1 - 2**53] * 3, dtype=float),
        np.array([2**24 - 1, 1 - 2**24] * 3, dtype=np.float32),
        np.array([2**63 - 1, 0] * 3, dtype=np.uint64),
    ):
        classes = classifier().fit(ROWS, labels).classes_
        assert_array_equal(classes, np.array(sorted(map(int, labels[:2]))), strict=True)


def test_labels_without_weight_stay_exact():
    made = classifier().partial_fit(ROWS, IDS, classes=[], sample_weight=[1, 1, 1, 1, 0, 0])
    later = np.full(6, ID + 2, dtype=np.uint64)
    made.partial_fit(ROWS, IDS, classes=later, sample_weight=[0, 0, 0, 1, 1, 1])
    assert_array_equal(made.classes_, np.array([ID, ID + 1, ID + 2]), strict=True)


def test_merged_models_keep_large_labels():
    other = classifier(scale=False).fit(ROWS, np.array(IDS + 1, dtype=np.uint64))
    one = classifier(scale=False).fit(ROWS + 1.0, IDS).merge(other)
    assert_array_equal(one.classes_, np.array([ID, ID + 1, ID + 2]), strict=True)


def test_priors_may_have_any_type_of_number():
    priors = {np.uint64(ID): 1.0, ID + 1: 3.0, 7.0: 1.0}
    made = classifier(priors=priors).fit(ROWS, IDS)
    assert made.partial_fit(ROWS - 20.0, np.full(6, 7.0)).classes_.tolist() == [7, ID, ID + 1]


# ---- strings that NumPy shortens


@pytest.mark.parametrize(
    "labels", [["a", "a\0"], np.array(["a\0", "b"], dtype=object), ("\0", "a")]
)
def test_strings_that_end_in_a_null_character_are_refused(labels):
    rows = ROWS[2:4]
    made = classifier().fit(rows, ["a", "b"])
    for name, call in {
        "y": lambda: made.partial_fit(rows, labels),
        "classes": lambda: made.forget(labels),
    }.items():
        with pytest.raises(ValueError, match=f"{name} must hold strings that do not end in a null"):
            call()
    with pytest.raises(ValueError, match="y must hold strings that do not end in a null"):
        evaluate_stream(classifier(), rows, labels, rows, labels)
    assert made.partial_fit(rows, ["a\0b", "a"]).classes_.tolist() == ["a", "a\0b", "b"]


@pytest.mark.parametrize("labels", [["a", 1], [1, "a"], [True, 1], ["a", None]])
def test_labels_to_forget_are_of_one_kind(labels):
    made = classifier().fit(ROWS[2:4], ["a", "1"])
    with pytest.raises(ValueError, match=r"all of one kind|contains NaN"):
        made.forget(labels)
    assert made.forget("1").classes_.tolist() == ["a"]


@pytest.mark.parametrize(
    ("values", "nullable", "dtype"),
    [
        ([2**53, 2**53 + 1], "Int64", np.int64),
        ([True, False], "boolean", np.bool_),
    ],
)
@pytest.mark.parametrize("container", ["array", "Series", "Index"])
def test_nullable_columns_keep_their_kind(values, nullable, dtype, container):
    pd = pytest.importorskip("pandas")
    make = {"array": pd.array, "Series": pd.Series, "Index": pd.Index}[container]
    labels = make(values, dtype=nullable)
    assert_array_equal(check_labels(labels, None, "y"), np.array(values, dtype=dtype), strict=True)
    X = np.random.default_rng(0).normal(size=(2, 3))
    classes = (
        IncrementalDiscriminantAnalysis(shared_band_size=4, random_state=0).fit(X, labels).classes_
    )
    assert_array_equal(classes, np.sort(np.array(values, dtype=dtype)), strict=True)


def test_sparse_labels_of_pandas():
    pd = pytest.importorskip("pandas")
    labels = pd.Series([0, 1] * 3, dtype=pd.SparseDtype(int, 0))
    X = np.random.default_rng(0).normal(size=(6, 3))
    assert IncrementalDiscriminantAnalysis(shared_band_size=4).fit(X, labels).classes_.tolist() == [
        0,
        1,
    ]


@pytest.mark.parametrize("values", [[True, False, True], [3, 1, 3], ["b", "a", "b"]])
def test_categories_keep_their_kind(values):
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(3, 3))
    classes = (
        IncrementalDiscriminantAnalysis(shared_band_size=4)
        .fit(X, pd.Series(pd.Categorical(values)))
        .classes_
    )
    assert classes.tolist() == sorted(set(values))
    assert classes.dtype.kind == np.array(values).dtype.kind or classes.dtype == object


@pytest.mark.parametrize(
    ("values", "dtype"), [([True, False] * 4, "boolean"), ([7, 5] * 4, "Int64")]
)
@pytest.mark.parametrize("is_categorical", [False, True])
def test_streams_keep_the_kind_of_nullable_labels(values, dtype, is_categorical):
    pd = pytest.importorskip("pandas")
    labels, X = pd.Series(values, dtype=dtype), np.random.default_rng(0).normal(size=(8, 3))
    labels = labels.astype("category") if is_categorical else labels
    result = evaluate_stream(
        IncrementalDiscriminantAnalysis(shared_band_size=4), X, labels, X, labels
    )
    assert_array_equal(result.estimator.classes_, np.unique(values), strict=True)
    result.estimator.partial_fit(X, labels)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="needs NumPy 2")
def test_strings_of_variable_length_go_with_those_of_fixed_length():
    variable = np.array(["b", "a long one"], dtype=np.dtypes.StringDType())
    X = np.random.default_rng(0).normal(size=(2, 3))
    for first, second in [(variable, ["c", "d"]), (["c", "d"], variable)]:
        clf = IncrementalDiscriminantAnalysis(shared_band_size=4, random_state=0)
        clf.partial_fit(X, first).partial_fit(2.0 - X, second)
        assert clf.classes_.tolist() == ["a long one", "b", "c", "d"]
        assert set(clf.predict(X)) <= set(clf.classes_)


def test_a_nullable_column_with_gaps_is_refused():
    pd = pytest.importorskip("pandas")
    labels = pd.Series([1, None], dtype="Int64")
    with pytest.raises(ValueError, match="y contains NaN"):
        IncrementalDiscriminantAnalysis().fit(np.eye(2), labels)


def gaps():
    """Containers of text labels, the second of which is missing."""
    pd = pytest.importorskip("pandas")
    for gap in (None, float("nan"), np.float64("nan"), pd.NA):
        labels = np.array(["a", gap, "b", "a"], dtype=object)
        yield from (
            labels,
            list(labels),
            tuple(labels),
            labels[:, None].tolist(),
            pd.Series(labels),
        )
        yield from (pd.Series(labels, dtype=dtype) for dtype in ("string", "str", "category"))
        yield pd.DataFrame({"label": labels})
        yield pd.Index(labels)
    yield pd.Series(pd.Categorical([1, None, 2, 1]))
    yield [1, None, 2, 1]
    if hasattr(np.dtypes, "StringDType"):
        yield np.array(["a", None, "b", "a"], dtype=np.dtypes.StringDType(na_object=None))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("name", ["y", "classes"])
def test_missing_labels_are_named_in_the_words_of_scikit_learn(name):
    X, model = (
        np.random.default_rng(0).normal(size=(4, 3)),
        IncrementalDiscriminantAnalysis(shared_band_size=4),
    )
    for labels in gaps():
        y = labels
        if name == "classes":
            if np.ndim(labels) == 2:
                continue
            y = ["a", "b", "b", "a"] if "a" in list(labels) else [1, 2, 2, 1]
        with pytest.raises(ValueError, match=f"^Input {name} contains NaN"):
            model.partial_fit(X, y, classes=labels if name == "classes" else None)


def test_missing_labels_of_streams_too():
    X, labels = np.eye(4), ["a", None, "b", "a"]
    with pytest.raises(ValueError, match=r"^Input y contains NaN"):
        evaluate_stream(IncrementalDiscriminantAnalysis(), X, labels, X, labels)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.5, 1.0], r"Unknown label type: continuous. target must hold whole .* got \[0.5\]"),
        ([np.nan, 1.0], "Input target contains NaN"),
        ([np.inf, 1.0], "Input target contains infinity"),
        ([[1, 2]], r"target must be one-dimensional; got an array of shape \(1, 2\)"),
        (3, r"target must be one-dimensional; got an array of shape \(\)"),
        ([1, "a"], "Unknown label type: target must hold .*, all of one kind; got number and str"),
        ([True, 1], "Unknown label type: target must hold .*; got bool and number"),
        (["a", None], "Input target contains NaN: the label at position 1 is missing, None"),
        ([["a"], [1]], r"target must be one-dimensional; got an array of shape \(2, 1\)"),
        (np.array(["a", 1], dtype=object), "Unknown label type: .*; got number and str"),
        (np.array([b"a"]), "Unknown label type: target must hold .*; got bytes"),
        (np.array(["2001"], dtype="M8[Y]"), "target must not hold times; got dtype datetime64"),
        (np.array([1j]), "Unknown label type: target must hold .*; got complex"),
    ],
)
def test_what_is_no_label(labels, message):
    with pytest.raises(ValueError, match=message):
        check_labels(labels, None, "target")


@pytest.mark.parametrize("known", [np.array([1, 2]), np.array(["a"]), np.array([True])])
@pytest.mark.parametrize("labels", [np.array([3]), np.array(["c"]), np.array([False])])
def test_the_kind_of_the_known_labels_binds(labels, known):
    if labels.dtype.kind == known.dtype.kind:
        check_labels(labels, known, "y")
        return
    with pytest.raises(ValueError, match=r"y must hold labels of the kind seen before, .*; got"):
        check_labels(labels, known, "y")


def test_many_labels_of_few_samples_need_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_labels(np.arange(1000), None, "classes")


def test_positions_by_hand():
    positions, arrived = label_positions(np.array(["m", "c", "m"]), np.array([], dtype=str))
    assert_array_equal(positions, [1, 0, 1])
    assert_array_equal(arrived, ["c", "m"])
    positions, arrived = label_positions(np.array(["m", "a longer one", "zz"]), arrived)
    assert_array_equal(positions, [1, 2, 3])
    assert_array_equal(arrived, ["c", "m", "a longer one", "zz"])


@given(st.lists(st.lists(st.integers(-5, 5), min_size=1), min_size=1, max_size=5))
def test_positions_point_at_the_label_and_never_move(tasks):
    arrived = np.array([], dtype=np.int64)
    for labels in tasks:
        before = arrived
        positions, arrived = label_positions(np.array(labels), arrived)
        assert_array_equal(arrived[positions], labels)
        assert len(np.unique(arrived)) == len(arrived)
        assert_array_equal(arrived[: len(before)], before)
        assert_array_equal(arrived[len(before) :], np.sort(arrived[len(before) :]))
    assert set(arrived.tolist()) == {label for labels in tasks for label in labels}


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_sparse_labels_are_refused_with_a_remedy(make):
    labels = make(np.array([[0], [2]]))
    message = r"target must be a dense array .* format '\w{3}' and shape \(2, 1\)"
    for check in (check_labels, check_targets):
        with pytest.raises(TypeError, match=message):
            check(labels, None, "target")
    assert_array_equal(check_labels(labels.toarray().ravel(), None, "target"), [0, 2])
