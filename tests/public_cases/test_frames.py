"""Public cases about data frames: names and kinds of columns, and gaps."""

import pytest
from numpy.testing import assert_array_equal
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import Normalizer

from ffnb_sklearn import (
    make_continual_pipeline,
)
from tests.public_cases.flowers import NAMES, X, Y, small

pd = pytest.importorskip("pandas")

COLUMNS = ["length", "width", "petal length", "petal width"]
FRAME = pd.DataFrame(X, columns=COLUMNS)

# ---- kinds of columns


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


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_times_are_refused_since_their_numbers_depend_on_a_unit(times):
    """scikit-learn #10590, scikit-learn #20090."""
    model = small()
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"X must not hold times; got dtype (date|time)"):
            method(times, Y)
    seconds = pd.DataFrame({"t": pd.to_timedelta(Y, unit="s").total_seconds()})
    model.fit(seconds, Y)
    with pytest.raises(ValueError, match="must not hold times"):
        model.predict(times)


def test_gaps_in_a_nullable_column_are_named():
    """pandas #30038."""
    frame = FRAME.convert_dtypes()
    model = small().fit(frame, Y)
    frame.iloc[3, 1] = pd.NA
    for call in (lambda: model.partial_fit(frame, Y), lambda: model.predict(frame)):
        with pytest.raises(ValueError, match=r"(?s)X contains NaN|NAType"):
            call()


def test_texts_and_labels_of_the_string_dtype():
    """pandas #59328."""
    frame = pd.DataFrame({"text": [f"{name} {name[:3]}" for name in NAMES], "kind": NAMES})
    model = make_continual_pipeline(HashingVectorizer(n_features=64), small())
    for kind in ["virginica", "setosa", "versicolor"]:
        part = frame[frame["kind"] == kind]
        model.partial_fit(part["text"], part["kind"])
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert model.score(frame["text"], frame["kind"]) == 1.0
    assert (frame["kind"] == model.predict(frame["text"])).all()
    assert set(model.predict(frame["text"])) == set(NAMES)


# ---- names of columns
