r"""The features psi: the inputs and the shared neurons, beside trained layers if there are any.

The shared band holds random neurons that no task changes (docs/theory/default.rst). A rectified
neuron responds with :math:`z = r \cdot x + b \|x\|`, a cosine is
:math:`\|x\| \cos(r \cdot x / \|x\| + \omega \log \|x\| + b)`, beside a sine of the same phase.
Scaling x scales the output of a rectified neuron, and scales and turns a cosine and its sine in
their plane. A turn changes no distance, so the unit of the inputs matters to truncation alone.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

from .device import Array, as_tensor

__all__ = [
    "Blocks",
    "FeatureMap",
    "FixedFeatures",
    "Index",
    "SharedBand",
    "TrainedLayers",
    "as_slice",
    "draw_shared_band",
]

# Rectified neurons per neuron with a bias.
_NEURONS_PER_BIASED = 4

# Rectified neurons per quadratic form of the inputs; further neurons, up to half, are cosines.
# Without cosines, moons fall from 97 to 92 %, and spirals from 100 to 62 %.
_NEURONS_PER_FORM = 2


@dataclass(frozen=True)
class SharedBand:
    """Random neurons over the inputs; pickles store their seed in place of the rows.

    Rows hold r and, last, b. A rectified neuron is `|z|` if it is `mirrored`, else a single ReLU.
    `frequencies` are omega of the cosines and sines, which come last, in turn.
    """

    rows: Array
    mirrored: bool
    frequencies: Array = field(default_factory=lambda: np.empty(0))
    seed: int | None = None

    def __reduce__(self) -> Any:
        """Pickle the seed of a drawn band in place of its rows."""
        if self.seed is None:
            return super().__reduce__()
        n_inputs = self.rows.shape[1] - 1
        arguments = (len(self), n_inputs, self.mirrored, self.seed)
        return _draw_again, arguments

    @classmethod
    def empty(cls, n_inputs: int) -> "SharedBand":
        """Return a band without neurons."""
        return cls(np.empty((0, n_inputs + 1)), mirrored=False)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_rectified(self) -> int:
        """Number of rectified neurons."""
        return len(self) - len(self.frequencies)

    def moduli(self) -> slice:
        """Return the numbers of the rectified neurons without a bias."""
        n_biased = self.n_rectified // _NEURONS_PER_BIASED
        return slice(n_biased, self.n_rectified)

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Compute outputs of shape (n_samples, n_neurons) from inputs (n_samples, n_inputs)."""
        norms = _norms(X)
        inputs = torch.cat([X, norms], dim=1)
        rows = as_tensor(self.rows, device=X.device)
        rectified_rows = rows[: self.n_rectified]
        rectified = self._rectify(inputs @ rectified_rows.T)
        if not len(self.frequencies):
            return rectified
        cosine_rows = rows[self.n_rectified :]
        cosines = self._turn(inputs @ cosine_rows.T, norms)
        return torch.cat([rectified, cosines], dim=1)

    def _rectify(self, responses: torch.Tensor) -> torch.Tensor:
        """Return the outputs of rectified neurons, in place of their responses."""
        if not self.mirrored:
            return responses.relu_()
        # The factor gives |z| the mean energy of a ReLU.
        responses.abs_()
        return responses.mul_(0.5**0.5)

    def _turn(self, responses: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
        r"""Return the outputs of cosines and sines, in place of their responses r.x + b |x|.

        They are :math:`\sqrt{2 / M}\, \|x\| \cos((r \cdot x + b \|x\|) / \|x\|
        + \omega \log \|x\|)` in a band of M neurons.
        """
        tiny = torch.finfo(norms.dtype).tiny
        divisors = norms.clamp_min(tiny)
        frequencies = as_tensor(self.frequencies, device=responses.device)
        angles = responses.div_(divisors)
        angles.addmm_(divisors.log(), frequencies[None])
        amplitudes = norms * (2.0 / len(self)) ** 0.5
        cosines = angles.cos_()
        return cosines.mul_(amplitudes)


def _norms(X: torch.Tensor) -> torch.Tensor:
    """Return the norms of rows, of shape (n_samples, 1), whose squares may leave the range."""
    moduli = X.abs()
    largest = moduli.amax(1, keepdim=True)
    ones = torch.ones_like(largest)
    units = torch.where(largest > 0.0, largest, ones)
    scaled = X / units
    norms: torch.Tensor = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return units * norms


def _draw_again(n_neurons: int, n_inputs: int, mirrored: bool, seed: int) -> SharedBand:
    """Draw the band of a pickle again."""
    return draw_shared_band(n_neurons, n_inputs, mirrored=mirrored, seed=seed)


def draw_shared_band(n_neurons: int, n_inputs: int, *, mirrored: bool, seed: int) -> SharedBand:
    """Draw a shared band, neurons with a bias first, cosines last.

    All versions of NumPy draw the same numbers.
    """
    # The stream of this generator is frozen, unlike the streams of newer generators, so files keep
    # the seed.
    rng = np.random.RandomState([seed, 0])
    scale = np.sqrt(2.0 / max(n_neurons, 1))
    rows = rng.normal(scale=scale, size=(n_neurons, n_inputs + 1))
    n_pairs = _n_pairs(n_neurons, n_inputs)
    n_rectified = n_neurons - 2 * n_pairs
    n_biased = n_rectified // _NEURONS_PER_BIASED
    # With a bias, a response has the sum of two energies.
    rows[:n_biased] *= 0.5**0.5
    rows[n_biased:n_rectified, -1] = 0.0
    # The rows of cosines have entries of unit variance.
    cosines = rows[n_rectified:]
    cosines /= scale
    _restrict_to_one_input(cosines[2::4, :-1])
    phases = rng.uniform(0.0, 2.0 * np.pi, n_pairs)
    cosines[::2, -1] = phases
    cosines[1::2] = cosines[::2]
    # A sine is a cosine a quarter of a circle later.
    cosines[1::2, -1] -= 0.5 * np.pi
    frequencies = rng.normal(size=n_pairs)
    return SharedBand(rows, mirrored, np.repeat(frequencies, 2), seed)


def _n_pairs(n_neurons: int, n_inputs: int) -> int:
    """Return the number of pairs of a cosine and a sine; they are at most half of the neurons."""
    n_forms = n_inputs * (n_inputs + 1) // 2
    n_spare = n_neurons - _NEURONS_PER_FORM * n_forms
    n_cosines = min(n_spare, n_neurons // 2)
    return max(0, n_cosines) // 2


def _restrict_to_one_input(rows: Array) -> None:
    """Set all entries of each row, except for one input in turn, to zero in place.

    The remaining entry is scaled to the mean energy of the row.
    """
    n_rows, n_inputs = rows.shape
    inputs = np.arange(n_rows)[:, None] % n_inputs
    is_other = np.arange(n_inputs) != inputs
    rows *= n_inputs**0.5
    rows[is_other] = 0.0


Index = npt.NDArray[np.intp]


def as_slice(columns: Index) -> Index | slice:
    """Return columns as a slice if they are consecutive, so that taking them copies nothing."""
    if len(columns) == 0:
        return slice(0, 0)
    first = int(columns[0])
    last = int(columns[-1])
    if last - first + 1 != len(columns):
        return columns
    if (np.diff(columns) != 1).any():
        return columns
    return slice(first, last + 1)


class Blocks(NamedTuple):
    """Number of inputs and of shared neurons among the classifier's first features.

    Trained neurons make up the rest.
    """

    n_inputs: int
    n_shared: int

    @property
    def n_fixed(self) -> int:
        """Number of features that no task changes."""
        return self.n_inputs + self.n_shared


@dataclass(frozen=True)
class FixedFeatures:
    """The features that no task changes: first the inputs, then the shared neurons."""

    n_inputs: int
    shared: SharedBand

    @property
    def n_features(self) -> int:
        """Number of inputs and shared neurons."""
        return self.n_inputs + len(self.shared)

    @property
    def n_weights(self) -> int:
        """Number of weights of the shared neurons."""
        return int(np.count_nonzero(self.shared.rows))

    def blocks(self, skip_connection: bool) -> Blocks:
        """Return the numbers of inputs and of shared neurons that the classifier sees."""
        n_inputs = 0
        if skip_connection:
            n_inputs = self.n_inputs
        return Blocks(n_inputs, len(self.shared))

    def columns(self, skip_connection: bool) -> Index:
        """Return the columns that the classifier sees: inputs if requested, and shared neurons."""
        start = 0
        if not skip_connection:
            start = self.n_inputs
        return np.arange(start, self.n_features)

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Compute the features of samples; X itself if there are no shared neurons."""
        if len(self.shared) == 0:
            return X
        # The older exporter to ONNX would lose blocks that are written into one tensor.
        return torch.cat([X, self.shared(X)], dim=1)


@runtime_checkable
class TrainedLayers(Protocol):
    """Neurons that tasks have trained, as `ffnb_sklearn.core.bands` implements them."""

    @property
    def n_neurons(self) -> int:
        """Number of trained neurons."""

    @property
    def n_weights(self) -> int:
        """Number of trained weights."""

    def columns_of_last_layer(self) -> Index:
        """Return the numbers of the neurons of the last layer."""

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Compute the outputs of the neurons, of shape (n_samples, n_neurons), from inputs X."""


@dataclass(frozen=True)
class FeatureMap:
    """The map from an input to all features.

    Features are numbered [inputs | shared neurons | first task's bands | second task's | ...]. A
    new task only appends. Older features of a sample stay the same up to rounding.
    """

    fixed: FixedFeatures
    layers: TrainedLayers | None = None

    @property
    def n_features(self) -> int:
        """Number of all features."""
        n_features = self.fixed.n_features
        if self.layers is not None:
            n_features += self.layers.n_neurons
        return n_features

    @property
    def n_weights(self) -> int:
        """Number of weights of all neurons, shared and trained."""
        n_weights = self.fixed.n_weights
        if self.layers is not None:
            n_weights += self.layers.n_weights
        return n_weights

    def columns(self, skip_connection: bool) -> Index:
        """Return the columns that the classifier sees: fixed features, then the last layer."""
        columns = self.fixed.columns(skip_connection)
        if self.layers is None:
            return columns
        last_layer = self.fixed.n_features + self.layers.columns_of_last_layer()
        return np.concatenate([columns, last_layer])

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Compute all features of samples, inputs first, newest band last; X without neurons."""
        features = self.fixed(X)
        if self.layers is None:
            return features
        return torch.cat([features, self.layers(X)], dim=1)
