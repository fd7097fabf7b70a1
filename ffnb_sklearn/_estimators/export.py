"""The solved classifier as a module of torch, which `torch.export` and ONNX can store."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from .._inputs.sparse import N_COLUMNS
from ..core.classifier.heads.pairs import _SURE, PairwiseFisher
from ..core.classifier.heads.ridge import _LINEAR, OneVsAllRidge
from ..core.device import with_tensors
from ..core.features.feature_map import classifier_columns

__all__ = ["ExportMixin", "TorchHead"]


class ExportMixin:
    """Method of `FFNBClassifier` that makes a module of torch."""

    def to_torch(self, dtype="float32"):
        """Return the solved classifier as a module of torch, to be used without this package.

        It does not change when the estimator does. ``nn.Sequential(network, clf.to_torch())`` goes
        from images to scores; `torch.export` and ONNX can store it.

        Parameters
        ----------
        dtype : {"float32", "float64"}, default="float32"
            Type of the buffers, and of the samples that the module takes.

        Returns
        -------
        torch.nn.Module
            Maps samples to scores, of shape (n_samples, n_labels), on the CPU at first. Its
            attribute `classes_` holds the labels of the columns: those that were seen, sorted. The
            module `probabilities` in it maps the scores to probabilities. With two labels, half the
            difference of the scores is the value of `decision_function`.

        Raises
        ------
        ValueError
            If `dtype` is another one, or if the first samples were sparse and had more than 2000
            features, which the classifier keeps sparse or projects.
        """
        if dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
        state = self._present_state()
        if state.projection is not None:
            raise ValueError(
                "to_torch needs a classifier that has learned dense samples first, or sparse "
                f"samples of at most {N_COLUMNS} features; got sparse samples of "
                f"{state.n_features_in} features."
            )
        module = TorchHead(state, self._head(state), self._class_priors(state)).eval()
        return module.double() if dtype == "float64" else module.float()


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
        model, order = state.model, np.argsort(state.arrived)
        self.classes_ = state.arrived[order]
        # A pickle would draw the band of a seed again.
        features = replace(model.features, shared=replace(model.features.shared, seed=None))
        columns = classifier_columns(features, model.settings.skip_connection)
        self.register_buffer("_columns", torch.tensor(columns, device="cpu"))
        self._repair = None if state.repair is None else _Stored(state.repair)
        self._features = _Stored(features)
        if isinstance(head, PairwiseFisher | OneVsAllRidge):
            self._responses = _Planes(head)
        else:
            self._responses = _Distances(head)
        # The adjustment for priors is affine, and its columns are sorted by label.
        n_classes = len(order)
        shift = head.with_priors(np.zeros((1, n_classes)), priors)
        mixing = head.with_priors(np.eye(n_classes), priors) - shift
        if isinstance(head, PairwiseFisher):
            mixing = head.pooling() @ mixing
        self.register_buffer("_mixing", torch.tensor(mixing.take(order, 1), device="cpu"))
        self.register_buffer("_shift", torch.tensor(shift.take(order, 1), device="cpu"))
        n_samples = sum(one.n_samples for one in model.moments)
        self.probabilities = _Probabilities(head, n_samples, n_classes)

    def forward(self, X):
        """Return the scores of samples, of shape (n_samples, n_arrived)."""
        if self._repair is not None:
            repair = self._repair.value()
            X = X if repair.offset is None else X - repair.offset
            X = X if repair.scale is None else X / repair.scale
        features = self._features.value()(X)[:, self._columns]
        return self._responses(features) @ self._mixing + self._shift


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


class _Planes(nn.Module):
    """Responses of the planes of a head: the scores of `OneVsAllRidge`, or outputs of pairs."""

    def __init__(self, head):
        super().__init__()
        self._is_of_pairs = isinstance(head, PairwiseFisher)
        self.register_buffer("_planes", torch.tensor(head.planes, device="cpu"))
        self.register_buffer("_offsets", torch.tensor(head.offsets, device="cpu"))

    def forward(self, features):
        responses = torch.addmm(self._offsets, features, self._planes.T)
        return responses.tanh() if self._is_of_pairs else responses


class _Distances(nn.Module):
    """Scores of `GaussianDistances`, see there."""

    def __init__(self, head):
        super().__init__()
        self._head = _Stored(head)
        class_of = np.repeat(np.arange(len(head.planes)), head.lengths)
        self.register_buffer("_class_of", torch.tensor(class_of, device="cpu"))

    def forward(self, features):
        head = self._head.value()
        x = features[:, : head.centre.shape[0]] - head.centre
        scores = torch.addmm(head.offsets, x, head.planes.T)
        squares = torch.addmm(-head.shifts, x, head.rows.T).square()
        classes = self._class_of.expand(squares.shape[0], -1)
        own = torch.zeros_like(scores).scatter_add(1, classes, squares)
        scores = scores + 0.5 * own
        nearest = own.gather(1, scores.argmax(1, keepdim=True))
        return scores / (head.temperature + head.own_temperature * nearest)


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
            logits = -torch.log(0.5 * (self._n_classes - 1 - scores) + _SURE)
        elif self._kind is OneVsAllRidge:
            logits = self._power * torch.asinh(scores * (self._n_classes / _LINEAR))
        else:
            logits = scores
        return (1.0 - self._share) * logits.softmax(1) + self._share / self._n_classes
