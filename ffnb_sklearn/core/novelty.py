"""Likeness of samples to the classes learned, for telling samples of none of them.

docs/theory/default.rst ("Samples of no class learned") has the formulas. It relates two Mahalanobis
distances as J. Ren et al. do (A simple fix to Mahalanobis distance for improving near-OOD
detection. arXiv:2106.09022, 2021).
"""

from dataclasses import dataclass

import numpy as np
import torch

from .device import Array, as_array, as_tensor
from .heads.distances import GaussianDistances, fit_distances
from .heads.gaussians import ClassGaussians
from .heads.interface import Rows
from .heads.judge import LEAST_SHARE
from .linalg import DiagonalPlusGram

__all__ = ["InverseCovariance", "InverseTotal", "RelativeDistances", "fit_relative_distances"]


@dataclass(frozen=True)
class InverseCovariance:
    r"""An inverse covariance :math:`\mathrm{diag}(a) + s V^\top V`, with s = 1 or -1."""

    diagonal: Array
    rows: Array
    sign: float

    @classmethod
    def of(cls, covariance: DiagonalPlusGram) -> "InverseCovariance":
        """Return the inverse of a covariance."""
        diagonal, rows, sign = covariance.inverse_parts()
        return cls(as_array(diagonal), as_array(rows), sign)

    def lengths(self, x: Rows) -> torch.Tensor:
        """Return the squared lengths of rows of shape (n, d)."""
        diagonal, rows = (as_tensor(one, device=x.device) for one in (self.diagonal, self.rows))
        explained = (x @ rows.T).square_().sum(1)
        # Sparse rows have no squares of their own.
        near = x.square() @ diagonal if isinstance(x, torch.Tensor) else x.squares_times(diagonal)
        return near.add_(explained, alpha=self.sign).clamp_min_(0.0)

    def trace_with(self, diagonal: Array) -> float:
        """Return the trace of the product with a diagonal matrix."""
        explained = float((np.square(self.rows) @ diagonal).sum())
        return float(self.diagonal @ diagonal) + self.sign * explained


@dataclass(frozen=True)
class InverseTotal:
    r"""The inverse of the covariance of all samples, :math:`T = W + M^\top M`.

    W is the covariance within the classes. M has the class means less their centre, each times the
    root of the share of its class, as rows. The eigenvectors a of :math:`H = M W^{-1} M^\top` with
    eigenvalues h split a sample into coordinates t along the means and a remainder r:

    .. math:: t = h^{-1/2} a^\top M W^{-1} x , \quad r = x - \sum t h^{-1/2} M^\top a , \quad
              x^\top T^{-1} x = r^\top W^{-1} r + \sum \frac{t^2}{1 + h} .

    No term is a difference of large numbers, however small the classes are beside their distances.

    Attributes
    ----------
    within : InverseCovariance
        The inverse of W.
    functions, axes : ndarray of shape (K, d)
        Rows that give t, and the directions that belong to them.
    shrunk : ndarray of shape (K,)
        1 / (1 + h).
    """

    within: InverseCovariance
    functions: Array
    axes: Array
    shrunk: Array

    @classmethod
    def of(cls, gaussians: ClassGaussians, epsilon: float) -> "InverseTotal":
        """Return the inverse for classes with their weights as shares, and a ridge."""
        shares = gaussians.weights / gaussians.weights.sum()
        means = (gaussians.means - shares @ gaussians.means) * shares.sqrt()[:, None]
        within = gaussians.shared_covariance(1.0, epsilon)
        solved = within.solve(means)
        values, vectors = torch.linalg.eigh(means @ solved.T)
        # Means that depend on each other, as centred means do, leave eigenvalues of rounding.
        varying = values > len(values) * torch.finfo(values.dtype).eps * values[-1]
        values, vectors = values[varying], vectors[:, varying]
        scaled = (vectors / values.sqrt()).T
        return cls(
            InverseCovariance.of(within),
            as_array(scaled @ solved),
            as_array(scaled @ means),
            as_array(1.0 / (1.0 + values)),
        )

    def lengths(self, x: Rows) -> torch.Tensor:
        """Return the squared lengths of rows of shape (n, d)."""
        functions, axes, shrunk = (
            as_tensor(one, device=x.device) for one in (self.functions, self.axes, self.shrunk)
        )
        coordinates = x @ functions.T
        squares = coordinates.square()
        if isinstance(x, torch.Tensor):
            return self.within.lengths(x - coordinates @ axes) + squares @ shrunk
        # Sparse rows less their parts along the means would be dense.
        return (self.within.lengths(x) - squares @ (1.0 - shrunk)).clamp_min_(0.0)

    def trace_with(self, diagonal: Array) -> float:
        """Return the trace of the product with a diagonal matrix."""
        along_means = np.square(self.functions) @ diagonal
        return self.within.trace_with(diagonal) - float(along_means @ (1.0 - self.shrunk))


@dataclass(frozen=True)
class RelativeDistances:
    """Distances to the nearest class, relative to those from all data, with p.

    `shared` and `total` are the inverses of B, which the classes share, and of T. `weights` and
    `means`, of shape (C, d), are those of the classes.
    """

    distances: GaussianDistances
    shared: InverseCovariance
    total: InverseTotal
    mean_distance: float
    shrinkage: float
    weights: Array
    means: Array

    def likeness(self, x: Rows) -> torch.Tensor:
        """Return the likeness of samples to the classes, not positive and of shape (n_samples,)."""
        x = self.distances.centred(x)
        nearest = self._to_nearest(x)
        return self._score(nearest, self.total.lengths(x))

    def _to_nearest(self, x: Rows) -> torch.Tensor:
        """Return the squared distances of centred samples to the nearest class."""
        linear, own = self.distances.terms(x)
        ratios, nearest = linear.add_(own, alpha=0.5).max(1)
        if not isinstance(x, torch.Tensor):
            # Sparse rows less the mean of a class would be dense.
            return (self.shared.lengths(x) - 2.0 * ratios).clamp_min_(0.0)
        # Distances from the centre would lose the digits of classes that are small beside them.
        centre = as_tensor(self.distances.centre, device=x.device)
        means = as_tensor(self.means, device=x.device) - centre
        gaps = x - means[nearest]
        own = own.gather(1, nearest[:, None])[:, 0]
        return (self.shared.lengths(gaps) - own).clamp_min_(0.0)

    def left_out_likeness(
        self,
        x: torch.Tensor,
        along_axes: torch.Tensor,
        classes: torch.Tensor,
        weights: torch.Tensor,
        leverages: torch.Tensor,
    ) -> torch.Tensor:
        """Return the likeness of samples, each to the classes without it.

        Parameters
        ----------
        x, along_axes : Tensor of shape (n_samples, d)
            Samples that were learned, and their parts along the axes that their classes keep.
        classes, weights : Tensor of shape (n_samples,)
            Class and weight of each sample, which is less than that of its class.
        leverages : Tensor of shape (n_samples,)
            Leverages in these axes (`ClassMoments.along_axes`), which no leverage in a regularised
            covariance exceeds.

        Returns
        -------
        Tensor of shape (n_samples,)
            The likeness if the scatters of the class, of all classes and of all samples, each
            divided as now, lacked the sample, and the means of its class and of all samples too.
        """
        means = as_tensor(self.means, device=x.device)
        # Further features do not count.
        x = x[:, : means.shape[1]]
        along_axes = along_axes[:, : means.shape[1]]
        class_weights = as_tensor(self.weights, device=x.device)
        n = class_weights[classes]
        total = class_weights.sum()
        added = weights * n / (n - weights)
        in_pooled = self.shrinkage * added / total
        in_class = in_pooled + (1.0 - self.shrinkage) * added / n

        distances = self._to_classes(x)
        own = self._to_class(x, classes)
        # Axes that were cut off do not hold the sample.
        held = (leverages / (in_class * own)).clamp_max(1.0).nan_to_num(1.0)

        # Each distance is quadratic along the line from the class mean through the sample.
        labels, positions = torch.unique(classes, return_inverse=True)
        before = self._to_classes(means[labels])[positions]
        after = self._to_classes(x + (x - means[classes]))
        products = 0.25 * (after - before)
        lengths = 0.5 * (after + before) - distances
        removed = (held * in_pooled)[:, None]
        left_out = distances + removed * products.square() / _rest(removed * lengths)

        along = self._to_class(means[classes] + along_axes, classes)
        own = _left_out_distances(own, along, in_class, leverages)
        from_mean = n / (n - weights)
        left_out.scatter_(1, classes[:, None], (from_mean.square() * own)[:, None])

        from_centre = total / (total - weights)
        from_all = self._from_all(x)
        in_all = held * weights * from_centre / total
        from_all = from_centre.square() * from_all / _rest(in_all * from_all)
        return self._score(left_out.amin(1).clamp_min_(0.0), from_all)

    def _score(self, nearest: torch.Tensor, from_all: torch.Tensor) -> torch.Tensor:
        """Return the score of squared distances to the nearest class and from all data."""
        return -nearest / (from_all + self.mean_distance)

    def _to_classes(self, x: Rows) -> torch.Tensor:
        """Return the squared distances of samples to the classes, of shape (n_samples, C)."""
        ratios = self.distances.log_ratios(x)
        lengths = self.shared.lengths(self.distances.centred(x))
        return lengths[:, None] - 2.0 * ratios

    def _to_class(self, x: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Return the squared distance of each sample to one class, of shape (n_samples,)."""
        gaps = x - as_tensor(self.means, device=x.device)[classes]
        own = self.distances.own_lengths(x, classes)
        return (self.shared.lengths(gaps) - own).clamp_min_(0.0)

    def _from_all(self, x: Rows) -> torch.Tensor:
        """Return the squared distances of samples from the mean of all data."""
        return self.total.lengths(self.distances.centred(x))


def _rest(leverages: torch.Tensor) -> torch.Tensor:
    """Return the part of a covariance along a sample that is left without the sample."""
    return (1.0 - leverages).clamp_min(LEAST_SHARE)


def _left_out_distances(
    own: torch.Tensor, along: torch.Tensor, in_class: torch.Tensor, leverages: torch.Tensor
) -> torch.Tensor:
    """Return squared distances from a class mean after the covariance has lost each sample.

    `own` are the distances before, `along` their parts along the axes that are kept, `in_class`
    the factor of the sample's outer product, and `leverages` those in these axes. The result is
    exact if no axis was cut off. Otherwise the less of two estimates counts, each of which is too
    large for some samples.
    """
    whole = in_class * own
    # Diagonals of axes that were cut off let it exceed 1.
    by_leverage = torch.where(whole < 1.0, own / _rest(whole), torch.inf)
    # Axes turn away from a sample that is left out, so that more of the sample is outside of them.
    across = (own - along).clamp_min(0.0) * (1.0 + leverages) / _rest(leverages)
    return torch.minimum(by_leverage, along / _rest(in_class * along) + across)


def fit_relative_distances(
    gaussians: ClassGaussians,
    distances: GaussianDistances | None,
    *,
    covariance: str,
    shrinkage: float,
    epsilon: float,
) -> RelativeDistances:
    """Solve the distances to the classes, whose rows may be overwritten, and from all data.

    `distances` are those to the classes, without log-determinants, if they are solved already.
    """
    if covariance == "identity":
        gaussians, shrinkage = gaussians.with_identity(), 0.0
    ridge = epsilon * gaussians.ridge_unit() * gaussians.penalties
    shared = InverseCovariance.of(gaussians.shared_covariance(shrinkage, epsilon))
    total = InverseTotal.of(gaussians, epsilon)
    if distances is None:
        # The distances overwrite the rows.
        distances = fit_distances(
            gaussians, covariance="class", shrinkage=shrinkage, epsilon=epsilon
        )
    mean_distance = max(len(ridge) - total.trace_with(as_array(ridge)), 1.0)
    return RelativeDistances(
        distances,
        shared,
        total,
        mean_distance,
        shrinkage,
        as_array(gaussians.weights),
        as_array(gaussians.means),
    )
