"""The solved classifier as a module of torch, which `torch.export` and ONNX can store."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from ..core.classifier.heads.pairs import _SURE, PairwiseFisher
from ..core.classifier.heads.ridge import _LINEAR, OneVsAllRidge
from ..core.device import with_tensors
from ..core.features.feature_map import classifier_columns

__all__ = ["TorchHead"]


class TorchHead(nn.Module):
    """Scores of a solved classifier; the modules in it hold buffers and no parameters.

    Parameters
    ----------
    state : State
        State of an estimator, whose inputs are the features of X.
    head : GaussianDistances, PairwiseFisher or OneVsAllRidge
        Solved head of its model.
    priors : ndarray of shape (n_arrived,)
        Priors of the classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_arrived,)
        Labels that were seen, sorted: the columns of the scores.
    probabilities : Module
        Maps scores to the probabilities of the classes.
    """

    def __init__(self, state, head, priors):
        super().__init__()
        model, repair = state.model, state.repair
        self.classes_ = np.sort(state.arrived)
        # A pickle would draw the band of a seed again.
        features = replace(model.features, shared=replace(model.features.shared, seed=None))
        columns = classifier_columns(features, model.settings.skip_connection)
        self._takes_all = len(columns) == features.n_features
        self.register_buffer("_columns", torch.tensor(columns, device="cpu"))
        self._buffer("_offset", None if repair is None else repair.offset)
        self._buffer("_scale", None if repair is None else repair.scale)
        self._features = _Stored(features)
        position = np.searchsorted(self.classes_, state.arrived)
        n_samples = sum(one.n_samples for one in model.moments)
        self._head = _module_of(head, position, priors)
        self.probabilities = _Probabilities(head, n_samples, len(position))

    def _buffer(self, name, array):
        self.register_buffer(name, None if array is None else torch.tensor(array, device="cpu"))

    def forward(self, X):
        """Return the scores of samples, of shape (n_samples, n_arrived)."""
        if self._offset is not None:
            X = X - self._offset
        if self._scale is not None:
            X = X / self._scale
        features = self._features.value()(X)
        return self._head(features if self._takes_all else features[:, self._columns])


class _Stored(nn.Module):
    """A dataclass whose arrays are buffers, which change device and dtype with the module."""

    def __init__(self, value):
        super().__init__()
        self._without_arrays = with_tensors(value, self._registered)

    def _registered(self, array):
        """Register an array as the next buffer, and return an empty array in its place."""
        self.register_buffer(f"_{len(self._buffers)}", torch.tensor(array, device="cpu"))
        return np.empty(0)

    def value(self):
        """Return the dataclass with the buffers."""
        buffers = iter(self._buffers.values())
        return with_tensors(self._without_arrays, lambda _: next(buffers))


def _module_of(head, position, priors):
    """Return the module of a head; `position` holds the column of each class of the head."""
    n_classes, order = len(position), np.argsort(position)
    # The adjustment for priors is affine.
    shift = head.with_priors(np.zeros((1, n_classes)), priors)[0]
    if isinstance(head, OneVsAllRidge):
        mixing = head.with_priors(np.eye(n_classes), priors) - shift
        return _Linear((mixing.T @ head.planes)[order], (head.offsets @ mixing + shift)[order])
    factor = head.with_priors(np.ones((1, n_classes)), priors)[0] - shift
    module = (_Pairs if isinstance(head, PairwiseFisher) else _Distances)(head, position)
    return _Adjusted(module, factor[order], shift[order])


class _Adjusted(nn.Module):
    """Scores of a module times a factor, plus a shift, both for each class."""

    def __init__(self, module, factor, shift):
        super().__init__()
        self._module = module
        self.register_buffer("_factor", torch.tensor(factor, device="cpu"))
        self.register_buffer("_shift", torch.tensor(shift, device="cpu"))

    def forward(self, features):
        return self._module(features) * self._factor + self._shift


class _Linear(nn.Module):
    """Linear functions."""

    def __init__(self, planes, offsets):
        super().__init__()
        self.register_buffer("_planes", torch.tensor(planes, device="cpu"))
        self.register_buffer("_offsets", torch.tensor(offsets, device="cpu"))

    def forward(self, features):
        return torch.addmm(self._offsets, features, self._planes.T)


def _sums(values, columns, n_columns):
    """Return sums of columns, given the column of the result that each of them belongs to."""
    sums = values.new_zeros((values.shape[0], n_columns))
    return sums.scatter_add(1, columns.expand(values.shape[0], -1), values)


class _Distances(nn.Module):
    """Scores of `GaussianDistances`, see there."""

    def __init__(self, head, position):
        super().__init__()
        order = np.argsort(position)
        self._linear = _Linear(head.planes[order], head.offsets[order])
        self._axes = _Linear(head.rows, -head.shifts)
        self.register_buffer("_centre", torch.tensor(head.centre, device="cpu"))
        self.register_buffer(
            "_class_of", torch.tensor(np.repeat(position, head.lengths), device="cpu")
        )
        self._temperatures = head.temperature, head.own_temperature

    def forward(self, features):
        x = features[:, : len(self._centre)] - self._centre
        scores = self._linear(x)
        own = _sums(self._axes(x).square(), self._class_of, scores.shape[1])
        scores = scores + 0.5 * own
        common, factor = self._temperatures
        return scores / (common + factor * own.gather(1, scores.argmax(1, keepdim=True)))


class _Pairs(nn.Module):
    """Scores of `PairwiseFisher`, see there."""

    def __init__(self, head, position):
        super().__init__()
        self._linear, self._n_classes = _Linear(head.planes, head.offsets), head.n_classes
        first, second = np.tril_indices(head.n_classes, -1)
        self.register_buffer("_first", torch.tensor(position[first], device="cpu"))
        self.register_buffer("_second", torch.tensor(position[second], device="cpu"))

    def forward(self, features):
        outputs, n_classes = self._linear(features).tanh(), self._n_classes
        return _sums(outputs, self._first, n_classes) - _sums(outputs, self._second, n_classes)


class _Probabilities(nn.Module):
    """Probabilities of scores, with room for samples unlike all that were learned.

    See `ffnb_sklearn._estimators.priors.with_unforeseen`, and `logits` of the heads.
    """

    def __init__(self, head, n_samples, n_classes):
        super().__init__()
        self._kind, self._n_classes = type(head), n_classes
        self._power = getattr(head, "power", None)
        self._share = 1.0 / (n_samples + 2.0)

    def forward(self, scores):
        if self._kind is PairwiseFisher:
            votes = 1.0 / (0.5 * (self._n_classes - 1 - scores) + _SURE)
            probabilities = votes / votes.sum(1, keepdim=True)
        elif self._kind is OneVsAllRidge:
            logits = self._power * torch.asinh(scores * (self._n_classes / _LINEAR))
            probabilities = logits.softmax(1)
        else:
            probabilities = scores.softmax(1)
        return (1.0 - self._share) * probabilities + self._share / self._n_classes
