r"""Wide sparse inputs without a dense copy: moments, scores and likeness by sparse products.

Only products of the samples X, and of its transpose, with a few dense columns are computed. Squared
distances in an inverse covariance :math:`\Delta^{-1} - V^\top V` are sums over the entries of a
sample, and the squared responses of V.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch

from .classifier.heads.distances import GaussianDistances
from .classifier.heads.ridge import OneVsAllRidge
from .classifier.novelty import InverseCovariance, RelativeDistances
from .classifier.solve import Classifier
from .device import as_array, as_tensor
from .linalg import ENERGY_ROUNDING, column_energies, is_few, longest_rows_of_products
from .statistics import ClassMoments, Rank, check_finite, moments_of, stored

__all__ = ["SparseInputs", "class_moments", "sparse_likeness", "sparse_scores"]

# Bytes of a factor or of the result of one product with planes or axes.
_PRODUCT_BYTES = 32e6


class SparseInputs(ABC):
    """Wide sparse inputs psi_0 of samples. All tensors are float64 and on the CPU."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def sparse(self, rows: Any) -> "SparseInputs":
        """Return the inputs of some samples: a slice, or an array of sample numbers."""

    @abstractmethod
    def times(self, columns: torch.Tensor) -> torch.Tensor:
        """Return X M for M of shape (n_inputs, k)."""

    @abstractmethod
    def transposed_times(self, columns: torch.Tensor) -> torch.Tensor:
        """Return X'M for M of shape (n_samples, k)."""

    @abstractmethod
    def squares_times(self, columns: torch.Tensor) -> torch.Tensor:
        """Return the product of the squared entries with M of shape (n_inputs, k)."""

    @abstractmethod
    def energies(self, weights: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum of the squared deviations of each input from a centre."""

    @abstractmethod
    def __getitem__(self, rows: Any, /) -> torch.Tensor:
        """Return the inputs of some samples as a dense tensor."""

    @abstractmethod
    def double(self) -> torch.Tensor:
        """Return all inputs as a dense tensor."""


def class_moments(
    samples: SparseInputs, classes: torch.Tensor, weights: torch.Tensor, rank: Rank
) -> Iterator[tuple[int, ClassMoments]]:
    """Yield each class number, in ascending order, and the moments of the class.

    `rank` is the most rows of a factor. With None the rows of a class become dense.
    """
    if rank == "auto":
        raise ValueError("wide sparse inputs need a fixed rank; got 'auto'.")
    classes, weights = classes.cpu(), weights.cpu()
    for label in torch.unique(classes).tolist():
        rows = torch.nonzero(classes == label)[:, 0]
        yield label, _moments(samples.sparse(rows.numpy()), weights[rows], rank)


def _moments(X: SparseInputs, weights: torch.Tensor, rank: int | None) -> ClassMoments:
    """Return the moments of the samples of one class, few of them exactly."""
    if rank is None or is_few(len(weights), rank):
        return moments_of([(X.double(), weights)], rank)
    total, root = weights.sum(), weights.sqrt()[:, None]
    mean = X.transposed_times(weights[:, None])[:, 0] / total
    energies = X.energies(weights, mean)
    energy = float(energies.sum())
    check_finite(energy, float(total))

    def times(columns: torch.Tensor) -> torch.Tensor:
        return (X.times(columns) - mean @ columns).mul_(root)

    def transposed_times(columns: torch.Tensor) -> torch.Tensor:
        columns = root * columns
        return X.transposed_times(columns).sub_(torch.outer(mean, columns.sum(0)))

    rows = energies.new_empty((0, len(mean)))
    if energy > 0.0:
        rows = longest_rows_of_products(times, transposed_times, energy**0.5, len(mean), rank)
        rows = rows[rows.square().sum(1) > ENERGY_ROUNDING * energy]
    left_out = (energies - column_energies(rows)).clamp_min_(0.0)
    return ClassMoments(float(total), as_array(mean), (stored(rows, rank),), as_array(left_out))


def sparse_scores(classifier: Classifier, X: SparseInputs) -> torch.Tensor:
    """Compute class scores, of shape (n_samples, n_classes)."""
    if isinstance(classifier, GaussianDistances):
        return classifier.tempered(*_terms(classifier, X))
    planes = as_tensor(classifier.planes)
    if isinstance(classifier, OneVsAllRidge):
        return X.times(planes.T).add_(as_tensor(classifier.offsets))
    groups = classifier.groups(_n_together(planes, X))
    scores = planes.new_empty((len(X), classifier.n_classes))
    return classifier.add_up(scores, groups, lambda pairs: X.times(planes[pairs].T).T)


def _n_together(rows: torch.Tensor, X: SparseInputs) -> int:
    """Return the number of planes or axes in a product, which copies them."""
    return max(1, int(_PRODUCT_BYTES / 8 / max(rows.shape[1], len(X))))


def _terms(distances: GaussianDistances, X: SparseInputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the terms of the distances of samples, as `GaussianDistances.terms` does."""
    centre, planes, offsets, rows, shifts = (
        as_tensor(getattr(distances, name))
        for name in ("centre", "planes", "offsets", "rows", "shifts")
    )
    scores = X.times(planes.T).add_(offsets - planes @ centre)
    own = torch.zeros_like(scores)
    for c, start, stops in distances.groups(_n_together(rows, X)):
        axes = rows[start : stops[-1]]
        squares = X.times(axes.T).sub_(axes @ centre + shifts[start : stops[-1]]).square_()
        for k, (first, stop) in enumerate(pairwise([start, *stops])):
            own[:, c + k] = squares[:, first - start : stop - start].sum(1)
    return scores.add_(own, alpha=0.5), own


def sparse_likeness(relative: RelativeDistances, X: SparseInputs) -> torch.Tensor:
    """Return the likeness of samples to the classes, not positive and of shape (n_samples,)."""
    centre = as_tensor(relative.distances.centre)
    ratios, _ = _terms(relative.distances, X)
    common, remote = (_lengths(one, X, centre) for one in (relative.shared, relative.total))
    return relative.likeness_from(ratios.amax(1), common, remote)


def _lengths(inverse: InverseCovariance, X: SparseInputs, centre: torch.Tensor) -> torch.Tensor:
    """Return the squared distances of samples from a centre, of shape (n_samples,)."""
    diagonal, rows = (as_tensor(one) for one in (inverse.diagonal, inverse.rows))
    scaled = diagonal * centre
    near = X.squares_times(diagonal[:, None])[:, 0] - 2.0 * X.times(scaled[:, None])[:, 0]
    explained = (X.times(rows.T) - rows @ centre).square_().sum(1)
    return (near + scaled @ centre).add_(explained, alpha=inverse.sign).clamp_min_(0.0)
