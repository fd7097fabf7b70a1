"""The solved classifier as a module of torch, which `torch.export` and ONNX can store."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import stdtr
from torch import nn

from .._inputs.columns import ColumnScaling
from .._inputs.sparse_samples import N_COLUMNS
from ..core.device import Array, place_arrays
from ..core.features import FeatureMap
from ..core.heads import Head
from ..core.heads.modules import sums_by_class
from ..core.novelty.score import RelativeDistances
from .state import State
from .typicality import ROUNDING, ScoreDistributions

__all__ = ["OpenSetTorchHead", "TorchHead", "open_set_module", "torch_module"]

_Module = TypeVar("_Module", bound=nn.Module)

# Range and number of steps of the table of Student's t. Arguments reach 3e10, and the distribution
# is wrong by less than 1e-4 of its value (tests/base/test_export.py).
_MOST_ASINH = 25.0
_N_STEPS = 2**14


def torch_module(state: State, head: Head, priors: Array, dtype: str) -> "TorchHead":
    """Return the solved classifier as a module of torch with buffers of a dtype.

    Parameters are those of `TorchHead`; `dtype` is "float32" or "float64".
    """
    _check_exportable(state, dtype)
    return _in_dtype(TorchHead(state, head, priors), dtype)


def open_set_module(
    state: State,
    head: Head,
    priors: Array,
    relative: RelativeDistances,
    rate: float,
    dtype: str,
) -> "OpenSetTorchHead":
    """Return the solved classifier and its judgement of unknown samples as a module of torch.

    Parameters are those of `OpenSetTorchHead`; `dtype` is "float32" or "float64".
    """
    _check_exportable(state, dtype)
    return _in_dtype(OpenSetTorchHead(state, head, priors, relative, rate), dtype)


def _check_exportable(state: State, dtype: str) -> None:
    """Raise unless a state and a dtype have a module."""
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
    if state.projection is not None:
        raise ValueError(
            "to_torch needs a classifier that has learned dense samples first, or sparse "
            f"samples of at most {N_COLUMNS} features; got sparse samples of "
            f"{state.n_features_in} features."
        )


def _in_dtype(module: _Module, dtype: str) -> _Module:
    """Return a module of float64 numbers with buffers of a dtype."""
    module = module.eval()
    if dtype == "float64":
        return module
    if not all(map(_fits_float32, module.buffers())):
        raise ValueError(
            "to_torch needs dtype='float64' for this model, or features of another unit: some "
            "of its numbers are beyond the range of float32, 1e-38 to 3e38."
        )
    return module.float()


def _fits_float32(buffer: torch.Tensor) -> bool:
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


class _SolvedHead(nn.Module):
    """Base of solved classifiers; the modules in it hold buffers and no parameters.

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

    _columns: torch.Tensor
    _order: torch.Tensor

    def __init__(self, state: State, head: Head, priors: Array) -> None:
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
        self._scaling = None if state.scaling is None else _Scaling(state.scaling)
        self._features = _Features(feature_map)
        self._scores = head.scores_module(priors)
        self.register_buffer("_order", torch.tensor(order, device="cpu"))
        self.probabilities = _Probabilities(head.logits_module(), state.n_samples, len(order))

    def _features_of(self, X: torch.Tensor) -> torch.Tensor:
        """Return the features that the classifier uses."""
        if self._scaling is not None:
            X = self._scaling(X)
        features: torch.Tensor = self._features(X)
        return features[:, self._columns]

    def _scores_of(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores of samples, given their features."""
        scores: torch.Tensor = self._scores(features)
        return scores[:, self._order]


class TorchHead(_SolvedHead):
    """Scores of a solved classifier.

    Parameters and attributes are those of the base.
    """

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the scores of samples, of shape (n_samples, n_labels)."""
        return self._scores_of(self._features_of(X))


class OpenSetTorchHead(_SolvedHead):
    """Scores of a solved classifier, and the shares that judge whether samples are unknown.

    Parameters
    ----------
    state, head, priors
        As in the base.
    relative : RelativeDistances
        Distances of the novelty score.
    rate : float
        Share of new samples of each known class that may be unknown.

    Attributes
    ----------
    classes_, probabilities
        As in the base.
    """

    def __init__(
        self, state: State, head: Head, priors: Array, relative: RelativeDistances, rate: float
    ) -> None:
        super().__init__(state, head, priors)
        self._relative_distances = relative.module()
        numbers = np.searchsorted(state.classes, self.classes_)
        self._shares = _Shares(state.score_distributions, numbers, 1.0 / rate)
        self._foreground = None
        is_background = priors == 0.0
        if is_background.any():
            self._foreground = _Foreground(state, head, is_background)

    def forward(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scores, of shape (n_samples, n_labels), and shares, of shape (n_samples,)."""
        features = self._features_of(X)
        scores = self._scores_of(features)
        probabilities = self.probabilities(scores)
        log_shares = self._shares(self._relative_distances(features))
        mean_logarithms = (probabilities * log_shares).sum(1)
        shares = mean_logarithms.exp()
        if self._foreground is not None:
            shares = shares * self._foreground(features)
        return scores, shares


class _Foreground(nn.Module):
    """Probability, for equal priors, that a sample is not of a background class."""

    _background: torch.Tensor

    def __init__(self, state: State, head: Head, is_background: npt.NDArray[np.bool]) -> None:
        super().__init__()
        n_classes = len(is_background)
        self._scores = head.scores_module(np.full(n_classes, 1.0 / n_classes))
        self._probabilities = _Probabilities(head.logits_module(), state.n_samples, n_classes)
        columns = np.flatnonzero(is_background)
        self.register_buffer("_background", torch.tensor(columns, device="cpu"))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        probabilities: torch.Tensor = self._probabilities(self._scores(features))
        return 1.0 - probabilities[:, self._background].sum(1)


class _Shares(nn.Module):
    """Logarithms of `ScoreDistributions.shares_below` for some of the classes.

    Neither torch nor ONNX has the distribution of Student's t. Its logarithm is interpolated in a
    table over equal steps of asinh.
    """

    _samples: torch.Tensor
    _sample_shares: torch.Tensor
    _class_of: torch.Tensor
    _n_samples: torch.Tensor
    _means: torch.Tensor
    _deviations: torch.Tensor
    _log_student: torch.Tensor
    _log_totals: torch.Tensor

    def __init__(
        self,
        distributions: ScoreDistributions,
        numbers: npt.NDArray[np.intp],
        prior_weight: float,
    ) -> None:
        super().__init__()
        samples = []
        shares = []
        for number in numbers:
            members = slice(distributions.starts[number], distributions.starts[number + 1])
            samples.append(distributions.samples[members])
            shares.append(np.diff(distributions.cumulative_shares)[members])
        lengths = [len(each) for each in samples]
        n_samples = distributions.n_samples[numbers]
        deviations = distributions.deviations[numbers]
        log_student = np.zeros(_N_STEPS + 1)
        if distributions.n_degrees:
            points = np.sinh(np.linspace(-_MOST_ASINH, _MOST_ASINH, _N_STEPS + 1))
            least = np.finfo(np.float64).tiny
            log_student = np.log(np.maximum(stdtr(distributions.n_degrees, points), least))
        else:
            deviations = np.ones(len(numbers))
        arrays = {
            "_samples": np.concatenate(samples),
            "_sample_shares": np.concatenate(shares),
            "_class_of": np.repeat(np.arange(len(numbers)), lengths),
            "_n_samples": n_samples,
            "_means": distributions.means[numbers],
            "_deviations": deviations,
            "_log_student": log_student,
            "_log_totals": np.log(n_samples + prior_weight),
        }
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(array, device="cpu"))
        self._prior_weight = prior_weight
        self._log_prior_weight = float(np.log(prior_weight))

    def forward(self, relative_distances: torch.Tensor) -> torch.Tensor:
        """Return the logarithms, of shape (n_samples, n_classes)."""
        typicality = -relative_distances.clamp_min(ROUNDING).log()
        deviations = (typicality - self._means) / self._deviations
        log_prior = self._log_distribution(deviations)
        own = torch.zeros_like(log_prior)
        if self._samples.shape[0] > 0:
            is_below = self._samples <= typicality
            own = sums_by_class(own, is_below * self._sample_shares, self._class_of)
        prior = self._prior_weight * log_prior.exp()
        sums = self._n_samples * own + prior
        # The prior alone may be less than the least number of single precision.
        log_sums = torch.where(
            own > 0.0,
            sums.clamp_min(torch.finfo(sums.dtype).tiny).log(),
            self._log_prior_weight + log_prior,
        )
        return log_sums - self._log_totals

    def _log_distribution(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logarithm of the distribution of Student's t."""
        modulus = x.abs()
        # Runtimes of ONNX lack asinh.
        asinh = torch.log(modulus + (modulus.square() + 1.0).sqrt())
        asinh = torch.where(x < 0.0, -asinh, asinh)
        steps_per_unit = _N_STEPS / (2.0 * _MOST_ASINH)
        positions = (asinh + _MOST_ASINH) * steps_per_unit
        # The newer exporter fails at `clamp` with both bounds.
        positions = positions.clamp_min(0.0).clamp_max(float(_N_STEPS))
        lower = positions.floor().clamp_max(_N_STEPS - 1.0)
        # The share of a row that is not a number is none either, and no error.
        lower = lower.nan_to_num(0.0)
        numbers = lower.long()
        fractions = positions - lower
        at_lower = self._log_student[numbers]
        at_upper = self._log_student[numbers + 1]
        return at_lower + fractions * (at_upper - at_lower)


class _Scaling(nn.Module):
    """Standardisation of the columns of X."""

    _offset: torch.Tensor | None
    _scale: torch.Tensor

    def __init__(self, scaling: ColumnScaling) -> None:
        super().__init__()
        offset = None
        if scaling.offset is not None:
            offset = torch.tensor(scaling.offset, device="cpu")
        self.register_buffer("_offset", offset)
        self.register_buffer("_scale", torch.tensor(scaling.scale, device="cpu"))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        if self._offset is not None:
            X = X - self._offset
        return X / self._scale


class _Features(nn.Module):
    """All features; the arrays of the map are buffers, which change device and dtype."""

    def __init__(self, feature_map: FeatureMap) -> None:
        super().__init__()
        # The annotation of the core is that of a map whose arrays become tensors.
        self._without_arrays = place_arrays(feature_map, self._register_array)  # type: ignore[arg-type]

    def _register_array(self, array: npt.NDArray[Any]) -> Array:
        """Register an array as the next buffer, and return an empty array in its place."""
        name = f"_{len(self._buffers)}"
        buffer = torch.tensor(array, device="cpu")
        self.register_buffer(name, buffer)
        return np.empty(0)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        buffers = iter([buffer for buffer in self._buffers.values() if buffer is not None])
        feature_map = place_arrays(self._without_arrays, lambda _: next(buffers))
        return feature_map(X)


class _Probabilities(nn.Module):
    """Probabilities of scores, which allow for samples unlike all that were learned.

    See `ffnb_sklearn._base.priors.allow_for_unforeseen`.
    """

    def __init__(self, logits: nn.Module, n_samples: float, n_classes: int) -> None:
        super().__init__()
        self._logits = logits
        self._unforeseen = 1.0 / (n_samples + 2.0)
        self._n_classes = n_classes

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        logits = self._logits(scores)
        foreseen = 1.0 - self._unforeseen
        probabilities: torch.Tensor = logits.softmax(1)
        return foreseen * probabilities + self._unforeseen / self._n_classes
