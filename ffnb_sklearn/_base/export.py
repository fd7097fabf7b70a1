"""The solved classifier as a module of torch, which `torch.export` and ONNX can store."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from .._inputs.sparse import N_COLUMNS
from ..core.device import place_arrays

__all__ = ["TorchHead", "torch_module"]


def torch_module(state, head, priors, dtype):
    """Return the solved classifier as a module of torch with buffers of a dtype.

    Parameters are those of `TorchHead`; `dtype` is "float32" or "float64".
    """
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
    if state.projection is not None:
        raise ValueError(
            "to_torch needs a classifier that has learned dense samples first, or sparse "
            f"samples of at most {N_COLUMNS} features; got sparse samples of "
            f"{state.n_features_in} features."
        )
    module = TorchHead(state, head, priors).eval()
    if dtype == "float64":
        return module
    if not all(map(_fits_float32, module.buffers())):
        raise ValueError(
            "to_torch needs dtype='float64' for this model, or features of another unit: some "
            "of its numbers are beyond the range of float32, 1e-38 to 3e38."
        )
    return module.float()


def _fits_float32(buffer):
    """Return whether float32 has all entries of a buffer, and not only zeros of a column."""
    limits = torch.finfo(torch.float32)
    largest = buffer.abs()
    is_table = buffer.ndim > 1 and len(buffer) > 0
    if is_table:
        largest = largest.amax(0)
    if (largest > limits.max).any():
        return False
    if not is_table:
        return True
    is_lost = (largest > 0.0) & (largest < limits.tiny)
    return not is_lost.any()


class TorchHead(nn.Module):
    """Scores of a solved classifier; the modules in it hold buffers and no parameters.

    Parameters
    ----------
    state : State
        State of an estimator, whose inputs are the features of X.
    head : Head
        Solved head of its model.
    priors : ndarray of shape (n_arrived,)
        Priors of the classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        Labels that were seen and whose prior is not 0, sorted: the columns of the scores.
    probabilities : Module
        Maps scores to the probabilities of the classes.
    """

    def __init__(self, state, head, priors):
        super().__init__()
        model = state.model
        labels = state.arrived[priors > 0.0]
        order = np.argsort(labels)
        self.classes_ = labels[order]
        # A pickle would draw the band of a seed again.
        shared = replace(model.features.shared, seed=None)
        fixed = replace(model.features, shared=shared)
        feature_map = replace(model.feature_map, fixed=fixed)
        self.register_buffer("_columns", torch.tensor(model.columns, device="cpu"))
        self._repair = None
        if state.repair is not None:
            self._repair = _Stored(state.repair)
        self._features = _Stored(feature_map)
        self._scores = head.scores_module(priors)
        self.register_buffer("_order", torch.tensor(order, device="cpu"))
        self.probabilities = _Probabilities(head.logits_module(), state.n_samples, len(order))

    def forward(self, X):
        """Return the scores of samples, of shape (n_samples, n_labels)."""
        if self._repair is not None:
            repair = self._repair.value()
            if repair.offset is not None:
                X = X - repair.offset
            if repair.scale is not None:
                X = X / repair.scale
        feature_map = self._features.value()
        features = feature_map(X)[:, self._columns]
        scores = self._scores(features)
        return scores[:, self._order]


class _Stored(nn.Module):
    """A dataclass whose arrays are buffers, which change device and dtype with the module."""

    def __init__(self, value):
        super().__init__()
        self._without_arrays = place_arrays(value, self._register_array)

    def _register_array(self, array):
        """Register an array as the next buffer, and return an empty array in its place."""
        name = f"_{len(self._buffers)}"
        buffer = torch.tensor(array, device="cpu")
        self.register_buffer(name, buffer)
        return np.empty(0)

    def value(self):
        """Return the dataclass with the buffers."""
        buffers = iter(self._buffers.values())
        return place_arrays(self._without_arrays, lambda _: next(buffers))


class _Probabilities(nn.Module):
    """Probabilities of scores, which allow for samples unlike all that were learned.

    See `ffnb_sklearn._base.priors.allow_for_unforeseen`.
    """

    def __init__(self, logits, n_samples, n_classes):
        super().__init__()
        self._logits = logits
        self._unforeseen = 1.0 / (n_samples + 2.0)
        self._n_classes = n_classes

    def forward(self, scores):
        logits = self._logits(scores)
        foreseen = 1.0 - self._unforeseen
        probabilities = logits.softmax(1)
        return foreseen * probabilities + self._unforeseen / self._n_classes
