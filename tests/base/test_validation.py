"""Parameters turned into settings, samples checked, and which settings go together."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder

from ffnb_sklearn import (
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    make_continual_pipeline,
)
from ffnb_sklearn._base.validation import check_samples

X = np.arange(12.0).reshape(4, 3)
Y = np.array([5, 5, 8, 8])


def checked(**changes):
    arguments = {"X": X, "y": Y, "classes": None, "sample_weight": None, "state": None, **changes}
    return check_samples(IncrementalDiscriminantAnalysis(), **arguments)


# ---- samples


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("estimator", [IncrementalDiscriminantAnalysis, NaiveIncrementalClassifier])
@pytest.mark.parametrize("row", [X[0], X[0].tolist(), torch.tensor(X[0])], ids=type)
def test_a_row_without_its_second_dimension_is_told_to_reshape(row, estimator, method):
    with pytest.raises(ValueError, match=r"got 1D array(.|\n)*Reshape your data"):
        getattr(estimator(), method)(row, [5])


@pytest.mark.parametrize(
    ("given", "kept"), [("float32", "float32"), ("float64", "float64"), ("int16", "float64")]
)
def test_samples_come_back_as_floats_and_as_they_are(given, kept):
    Xc, y, classes, weights, state = checked(X=np.asfortranarray(X, dtype=given), classes=[9])
    assert Xc.dtype == kept
    assert Xc.flags.c_contiguous
    assert_array_equal(Xc, X)
    assert_array_equal(y, Y)
    assert_array_equal(classes, [9])
    assert_array_equal(weights, np.ones(4))
    assert (state.n_features_in, state.feature_names_in) == (3, None)
    assert len(state.classes) == 0


def test_samples_without_weight_are_left_out():
    Xc, y, classes, weights, _ = checked(sample_weight=[0, 2, 0, 0.5])
    assert_array_equal(Xc, X[[1, 3]])
    assert_array_equal(y, [5, 8])
    assert_array_equal(weights, [2.0, 0.5])
    assert_array_equal(classes, [5, 8])
    _, y, classes, *_ = checked(sample_weight=[0, 0, 1, 1], classes=[9])
    assert_array_equal(y, [8, 8])
    assert_array_equal(classes, [5, 9])


@pytest.mark.parametrize("entry", [1e71, -1e71])
def test_magnitudes_whose_moments_overflow(entry):
    with pytest.raises(ValueError, match=r"X must have magnitudes of at most 1e\+70"):
        checked(X=np.where(X == 5.0, entry, X))


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.FrozenTransformerWarning")
@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict"])
@pytest.mark.parametrize("convert", [list, pd.Categorical], ids=["text", "categories"])
def test_the_advice_for_columns_of_text_works(method, convert):
    colours = convert(["red", "blue", "red", "blue"])
    frame = pd.DataFrame({"size": [1.0, 2.0, 8.0, 9.0], "colour": colours})
    model = IncrementalDiscriminantAnalysis(shared_band_size=5, random_state=0)
    if method == "predict":
        model.fit(frame.assign(colour=0.0), Y)
    arguments = (frame,) if method == "predict" else (frame, Y)
    with pytest.raises(ValueError, match="could not convert string to float: '") as caught:
        getattr(model, method)(*arguments)
    (note,) = caught.value.__notes__
    names = {
        "make_continual_pipeline": make_continual_pipeline,
        "make_column_transformer": make_column_transformer,
        "OneHotEncoder": OneHotEncoder,
        "columns": ["colour"],
        "classifier": IncrementalDiscriminantAnalysis(shared_band_size=5, random_state=0),
    }
    start, end = note.index("make_continual_pipeline("), note.index(", or a vectorizer")
    pipeline = eval(note[start:end], names)
    assert_array_equal(pipeline.partial_fit(frame, Y).predict(frame), Y)
