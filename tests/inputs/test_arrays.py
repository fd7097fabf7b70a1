"""Arrays of other libraries, images as they are, and targets in a column."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
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


TENSORS = {
    "float64": torch.tensor(X),
    "float32": torch.tensor(X, dtype=torch.float32),
    "bfloat16": torch.tensor(X, dtype=torch.bfloat16),
    "float16": torch.tensor(X, dtype=torch.float16),
    "integers": torch.tensor(10 * X).int(),
    "gradient": torch.tensor(X, requires_grad=True),
    "transposed": torch.tensor(np.ascontiguousarray(X.T)).T,
}


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("parameters", [{}, {"scale": True}, {"shared_band_size": 0}], ids=repr)
def test_tensors_are_learned_and_predicted_as_arrays(name, parameters):
    tensor = TENSORS[name]
    array = tensor.detach().float() if name == "bfloat16" else tensor.detach()
    array = np.ascontiguousarray(array.numpy())
    model = classifier().set_params(**parameters)
    by_tensor, by_array = (clone(model).fit(one, Y) for one in (tensor, array))
    for method in ("decision_function", "predict", "predict_proba", "score_samples", "transform"):
        found, expected = getattr(by_tensor, method)(tensor), getattr(by_array, method)(array)
        assert_array_equal(found, expected)
        assert not isinstance(found, torch.Tensor)
    assert_array_equal(tensor.detach().float().numpy(), array.astype(np.float32))


def test_predictions_do_not_convert_tensors_to_numpy(monkeypatch):
    model = classifier().fit(torch.tensor(X), torch.tensor(Y))
    expected = model.predict(X)
    monkeypatch.setattr("ffnb_sklearn._estimators.validation.as_numpy", None)
    assert_array_equal(model.predict(torch.tensor(X)), expected)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(2, 3), "X has 3 features, but FFNBClassifier is expecting 4 features"),
        (torch.zeros(0, 4), "0 sample"),
        (torch.zeros(4), "Expected 2D array"),
        (torch.zeros(2, 4, 4), "X must have the shape"),
        (torch.full((2, 4), torch.nan), "Input X contains NaN"),
        (torch.full((2, 4), torch.inf), "infinity"),
        (torch.full((2, 4), 1e80, dtype=torch.float64), "X must have magnitudes"),
    ],
    ids=repr,
)
def test_tensors_that_do_not_fit_get_the_errors_of_arrays(tensor, message):
    model = classifier().fit(X, Y)
    for samples in (tensor, tensor.numpy()):
        with pytest.raises(ValueError, match=message):
            model.predict(samples)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("X", {"X": torch.zeros(12, 4, device="meta"), "y": Y}),
        ("X", {"X": torch.tensor(X).to_sparse(), "y": Y}),
        ("y", {"X": X, "y": torch.zeros(12, device="meta")}),
    ],
)
def test_tensors_that_numpy_cannot_read_are_refused_by_name(name, call):
    message = rf"^{name} must be an array that NumPy can read; got a torch.Tensor on device"
    model = classifier().fit(X, Y)
    for learn in (model.partial_fit, classifier().fit):
        with pytest.raises(TypeError, match=message):
            learn(**call)
    if name == "X":
        with pytest.raises(TypeError, match=message):
            model.predict(call["X"])


def test_the_advice_for_a_sparse_tensor_works():
    samples = torch.tensor(X, dtype=torch.bfloat16).to_sparse().requires_grad_()
    with pytest.raises(TypeError, match=r"X.to_dense\(\) converts it"):
        classifier().fit(samples, Y)
    assert classifier().fit(samples.to_dense(), Y).score(samples.to_dense(), Y) == 1.0


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
