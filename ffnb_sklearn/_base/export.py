"""The solved classifier as a module of torch, which `torch.export` and ONNX can store."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from .._inputs.sparse import N_COLUMNS
from ..core.device import place_arrays
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
            If `dtype` is another one, if the model has numbers beyond the range of `dtype`, or if
            the first samples were sparse and had more than 2000 features, which the classifier
            keeps sparse or projects.
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
    largest = buffer.abs().amax(0) if buffer.ndim > 1 and len(buffer) else buffer.abs()
    is_lost = (buffer.ndim > 1) & (largest > 0.0) & (largest < torch.finfo(torch.float32).tiny)
    return not bool(torch.any(is_lost | (largest > torch.finfo(torch.float32).max)))


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
        self._scores = head.scores_module(priors)
        self.register_buffer("_order", torch.tensor(order, device="cpu"))
        n_samples = sum(one.n_samples for one in model.moments)
        self.probabilities = _Probabilities(head.logits_module(), n_samples, len(order))

    def forward(self, X):
        """Return the scores of samples, of shape (n_samples, n_arrived)."""
        if self._repair is not None:
            repair = self._repair.value()
            X = X if repair.offset is None else X - repair.offset
            X = X if repair.scale is None else X / repair.scale
        features = self._features.value()(X)[:, self._columns]
        return self._scores(features)[:, self._order]


class _Stored(nn.Module):
    """A dataclass whose arrays are buffers, which change device and dtype with the module."""

    def __init__(self, value):
        super().__init__()
        self._without_arrays = place_arrays(value, self._registered)

    def _registered(self, array):
        """Register an array as the next buffer, and return an empty array in its place."""
        self.register_buffer(f"_{len(self._buffers)}", torch.tensor(array, device="cpu"))
        return np.empty(0)

    def value(self):
        """Return the dataclass with the buffers."""
        buffers = iter(self._buffers.values())
        return place_arrays(self._without_arrays, lambda _: next(buffers))


class _Probabilities(nn.Module):
    """Probabilities of scores, with room for samples unlike all that were learned.

    See `ffnb_sklearn._base.priors.with_unforeseen`.
    """

    def __init__(self, logits, n_samples, n_classes):
        super().__init__()
        self._logits = logits
        self._share = 1.0 / (n_samples + 2.0)
        self._n_classes = n_classes

    def forward(self, scores):
        probabilities = self._logits(scores).softmax(1)
        return (1.0 - self._share) * probabilities + self._share / self._n_classes
