"""Arrays of other libraries, masked arrays and times, and targets in a column."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from ffnb_sklearn import (
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    make_continual_pipeline,
)
from ffnb_sklearn._inputs.arrays import as_numpy

X = np.random.default_rng(0).normal(size=(12, 4)) + np.repeat([0.0, 9.0], 6)[:, None]
Y = np.repeat([0, 1], 6)


def classifier(**parameters):
    return IncrementalDiscriminantAnalysis(shared_band_size=5, random_state=0, **parameters)


MODELS = {
    "classifier": classifier,
    "pipeline": lambda: make_continual_pipeline(FunctionTransformer(), classifier()),
    "naive": lambda: NaiveIncrementalClassifier(max_epochs=1, random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_column_of_targets_warns(name, method):
    for column in (pd.DataFrame({"label": Y}), Y[:, None]):
        with pytest.warns(DataConversionWarning, match="column-vector y") as found:
            model = getattr(MODELS[name](), method)(X, column)
        assert len(found) == 1
        assert_array_equal(model.classes_, [0, 1])


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


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            torch.zeros(2, 3),
            "X has 3 features, but IncrementalDiscriminantAnalysis is expecting 4 features",
        ),
        (torch.zeros(0, 4), "0 sample"),
        (torch.zeros(4), "Expected 2D array"),
        (torch.zeros(2, 4, 4), "Found array with dim 3"),
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


def test_a_sparse_tensor_is_told_what_to_do():
    samples = torch.tensor(X).to_sparse()
    with pytest.raises(TypeError, match="to_dense"):
        classifier().fit(samples, Y)
    assert classifier().fit(samples.to_dense(), Y).score(samples.to_dense(), Y) == 1.0


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("values", [[4, 7] * 6, [True, False] * 6, ["a", "b"] * 6], ids=str)
def test_arrays_of_dask_are_computed(name, values):
    rows, labels = da.from_array(X, (5, 2)), da.from_array(np.array(values), 5)
    model = MODELS[name]().fit(rows, labels)
    assert_array_equal(model.classes_, np.unique(values))
    model.partial_fit(rows, labels)


MASK = np.arange(12) == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"X": np.ma.masked_array(X, np.tile(MASK, (4, 1)).T)}, "X must have .* got 4 of 48"),
        ({"y": np.ma.masked_array(Y, MASK)}, "y must have no masked entries; got 1 of 12"),
        ({"sample_weight": np.ma.masked_array(Y + 1.0, MASK)}, "sample_weight must have no masked"),
        ({"X": X.astype("M8[s]")}, "X must not hold times; got dtype datetime64"),
        ({"X": pd.DataFrame(X.astype("M8[s]"))}, "X must not hold times; got dtype datetime64"),
        ({"X": X.astype("m8[s]")}, "X must not hold times; got dtype timedelta64"),
        ({"y": pd.Series(Y.astype("M8[s]"))}, "y must not hold times; got dtype datetime64"),
    ],
    ids=str,
)
def test_arrays_that_scikit_learn_would_misread(call, message):
    with pytest.raises(ValueError, match=message):
        classifier().fit(**{"X": X, "y": Y, **call})


def test_other_values_stay_as_they_are():
    for value in (X, pd.DataFrame(X), [[1.0]], None, np.ma.masked_array(X)):
        assert as_numpy(value, "X") is value


# ---- the array API

METHODS = [
    "decision_function",
    "predict",
    "predict_log_proba",
    "predict_proba",
    "score_samples",
    "transform",
]


def tensors_on(device):
    """Return the samples and labels as tensors; skip if the device is missing."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return torch.tensor(X, device=device), torch.tensor(Y, device=device)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("method", METHODS)
def test_tensors_in_give_tensors_out_where_scikit_learn_dispatches(method, device, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    rows, labels = tensors_on(device)
    model = classifier().fit(X, Y)
    expected = getattr(model, method)(X)
    with config_context(array_api_dispatch=True):
        result = getattr(classifier().fit(rows, labels), method)(rows)
        assert isinstance(result, torch.Tensor)
        assert result.device == rows.device
        # Scores are float64 for samples in float32 too, as they are for arrays of NumPy.
        assert getattr(model, method)(rows.float()).cpu().numpy().dtype == expected.dtype
        assert_array_equal(result.cpu(), expected)
    assert_array_equal(getattr(model, method)(rows), expected)


def test_results_that_have_no_tensor_stay_as_they_are(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    rows = torch.tensor(X)
    names = np.array(["a", "b"])[Y]
    wide = sparse.csr_array(([1.0, 2.0], ([0, 1], [0, 2999])), shape=(2, 3000))
    with config_context(array_api_dispatch=True):
        named = classifier().fit(rows, names)
        assert_array_equal(named.predict(rows), names)
        assert isinstance(named.predict_proba(rows), torch.Tensor)
        for kind in (X.tolist(), pd.DataFrame(X), da.from_array(X)):
            assert isinstance(classifier().fit(kind, Y).predict_proba(kind), np.ndarray)
        projected = IncrementalDiscriminantAnalysis(random_state=0).fit(wide, [0, 1])
        assert sparse.issparse(projected.transform(torch.tensor(wide.toarray())))


def test_tensors_pass_through_a_pipeline_and_a_score(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    rows, labels = torch.tensor(X), torch.tensor(Y)
    with config_context(array_api_dispatch=True):
        model = make_continual_pipeline(StandardScaler(), classifier())
        model.partial_fit(rows[:6], labels[:6]).partial_fit(rows[6:], labels[6:])
        assert isinstance(model.predict(rows), torch.Tensor)
        assert model.score(rows, labels) == 1.0
