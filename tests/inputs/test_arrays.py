"""Arrays of other libraries, images as they are, and targets in a column."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.exceptions import DataConversionWarning
from sklearn.preprocessing import FunctionTransformer

from ffnb_sklearn import FFNBClassifier, NaiveIncrementalClassifier, make_continual_pipeline
from ffnb_sklearn._inputs.arrays import as_numpy

X = np.random.default_rng(0).normal(size=(12, 4)) + np.repeat([0.0, 9.0], 6)[:, None]
Y = np.repeat([0, 1], 6)


def classifier(**parameters):
    return FFNBClassifier(shared_band_size=5, random_state=0, **parameters)


MODELS = {
    "classifier": classifier,
    "pipeline": lambda: make_continual_pipeline(FunctionTransformer(), classifier()),
    "naive": lambda: NaiveIncrementalClassifier(max_epochs=1, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_column_of_targets_warns_at_the_line_of_the_user(name, method):
    for column in (pd.DataFrame({"label": Y}), Y[:, None]):
        with pytest.warns(DataConversionWarning, match="column-vector y") as found:
            model = getattr(MODELS[name](), method)(X, column)
        assert [warning.filename for warning in found] == [__file__]
        assert_array_equal(model.classes_, [0, 1])


@pytest.mark.parametrize("as_list", [False, True])
def test_images_name_what_makes_rows_of_them(as_list):
    images = np.zeros((12, 3, 4, 4))
    given = list(images) if as_list else images
    with pytest.raises(ValueError, match=r"\(3, 4, 4\).*TorchFeatureExtractor") as caught:
        classifier().fit(given, Y)
    assert "X must have the shape (n_samples, n_features)" in str(caught.value)


def test_images_to_predict_do_so_too():
    with pytest.raises(ValueError, match="TorchFeatureExtractor"):
        classifier().fit(X, Y).predict(np.zeros((12, 2, 2)))


def test_tensors_in_memory_are_learned_as_arrays():
    learned = classifier().fit(torch.tensor(X), torch.tensor(Y))
    assert_array_equal(learned.predict(torch.tensor(X)), classifier().fit(X, Y).predict(X))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("X", {"X": torch.tensor(X, requires_grad=True), "y": Y}),
        ("X", {"X": torch.zeros(12, 4, device="meta"), "y": Y}),
        ("y", {"X": X, "y": torch.zeros(12, device="meta")}),
    ],
)
def test_tensors_that_numpy_cannot_read_are_refused_by_name(name, call):
    message = rf"^{name} must be an array that NumPy can read; got a torch.Tensor on device"
    with pytest.raises(TypeError, match=message):
        classifier().partial_fit(**call)


@pytest.mark.parametrize(
    "samples",
    [
        torch.tensor(X, dtype=torch.bfloat16),
        torch.tensor(X).to_sparse(),
        torch.tensor(X, dtype=torch.bfloat16).to_sparse().requires_grad_(),
        torch.tensor(X, requires_grad=True),
    ],
    ids=["bfloat16", "sparse", "sparse bfloat16", "gradient"],
)
def test_the_advice_for_a_tensor_works(samples):
    with pytest.raises(TypeError, match="Copy it to NumPy first, by X") as caught:
        classifier().fit(samples, Y)
    steps = str(caught.value).partition("first, by X.")[2].partition(". `device`")[0]
    for step in steps.replace("()", "").split("."):
        samples = getattr(samples, step)()
    assert_array_equal(samples, np.asarray(samples))
    assert classifier().fit(samples, Y).score(samples, Y) == 1.0


class LazySeries:
    """A series of dask: nothing about its values is known before it is computed."""

    def __init__(self, series):
        self._series, self.dtype = series, series.dtype

    def __dask_graph__(self):
        return {}

    def isna(self):
        return LazySeries(self._series.isna())

    def any(self):
        return dask.delayed(False)

    def compute(self):
        return self._series


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([4, 7] * 6),
        pd.Series([True, False] * 6),
        pd.Series([4, 7] * 6, dtype="Int64"),
        pd.Series(["a", "b"] * 6),
    ],
    ids=["integers", "booleans", "nullable", "strings"],
)
@pytest.mark.parametrize("name", ["classifier", "pipeline", "naive"])
def test_labels_of_dask_frames_and_arrays_are_computed(name, values):
    expected = np.unique(values.to_numpy(dtype=values.dtype.type if values.dtype != "str" else str))
    for labels in (LazySeries(values), da.from_array(values.to_numpy(), 5)):
        if values.dtype == "Int64" and isinstance(labels, da.Array):
            continue
        model = MODELS[name]().fit(da.from_array(X, (5, 2)), labels)
        assert_array_equal(model.classes_, expected)
        model.partial_fit(da.from_array(X, (5, 2)), labels)


def test_other_values_stay_as_they_are():
    for value in (X, pd.DataFrame(X), [[1.0]], None):
        assert as_numpy(value, "X") is value
