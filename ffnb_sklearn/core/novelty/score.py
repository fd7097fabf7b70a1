"""Likeness of samples to the learned classes, which detects samples of unknown classes.

docs/theory/default.rst ("Samples of no class learned") has the formulas. The score relates two
Mahalanobis distances as J. Ren et al. do (A simple fix to Mahalanobis distance for improving
near-OOD detection. arXiv:2106.09022, 2021). Where classes overlap, the norm of the probabilities
counts too, as in F. Granese et al. (DOCTOR: A simple method for detecting misclassification errors.
NeurIPS 34, 2021).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from ..device import Array, as_array, as_tensor
from ..gaussians import LEAST_SHARE, ClassGaussians
from ..heads.distances import GaussianDistances, fit_distances, solve_means
from ..heads.interface import Head, Rows
from ..heads.modules import RelativeScores
from ..linalg import DiagonalPlusGram

__all__ = ["InverseCovariance", "InverseTotal", "RelativeDistances", "fit_relative_distances"]


@dataclass(frozen=True)
class InverseCovariance:
    r"""An inverse covariance :math:`\mathrm{diag}(a) + s V^\top V`, with s = 1 or -1.

    With s = 1, a is zero.
    """

    diagonal: Array
    rows: Array
    sign: float

    @classmethod
    def from_covariance(cls, covariance: DiagonalPlusGram) -> "InverseCovariance":
        """Return the inverse of a covariance."""
        diagonal, rows, sign = covariance.inverse_parts()
        # Rows in the column order of a solver would be copied in each prediction.
        return cls(as_array(diagonal), np.ascontiguousarray(as_array(rows)), sign)

    def lengths(self, x: Rows) -> torch.Tensor:
        """Return the squared lengths of rows of shape (n, d)."""
        diagonal = as_tensor(self.diagonal, device=x.device)
        rows = as_tensor(self.rows, device=x.device)
        responses = x @ rows.T
        explained = responses.square_().sum(1)
        if self.sign > 0.0:
            return explained
        if isinstance(x, torch.Tensor):
            lengths = x.square() @ diagonal
        else:
            # Sparse rows have no squares of their own.
            lengths = x.squares_times(diagonal)
        lengths.add_(explained, alpha=self.sign)
        return lengths.clamp_min_(0.0)

    def parts_of_module(self) -> tuple[dict[str, Array], float]:
        """Return the arrays that a module of the lengths holds, by name, and the sign."""
        return {"roots": np.sqrt(self.diagonal), "rows": self.rows}, self.sign

    def trace_with(self, diagonal: Array) -> float:
        """Return the trace of the product with a diagonal matrix."""
        energies = np.square(self.rows) @ diagonal
        trace_of_rows = self.sign * energies.sum()
        trace_of_diagonal = self.diagonal @ diagonal
        return float(trace_of_diagonal + trace_of_rows)


@dataclass(frozen=True)
class InverseTotal:
    r"""The inverse of the covariance of all samples, :math:`T = W + M^\top M`.

    W is the covariance within the classes. M has the class means minus their centre, each times the
    root of the share of its class, as rows. The singular value decomposition of M in the metric of
    W, with the singular values s, functions b and axes c, splits a sample into coordinates t along
    the means and a remainder r:

    .. math:: t = b^\top x , \quad r = x - \sum t c , \quad
              x^\top T^{-1} x = r^\top W^{-1} r + \sum \frac{t^2}{1 + s^2} .

    No term is a difference of large numbers, even if the classes are far smaller than their
    distances, or one of the distances is far larger than the others.

    Attributes
    ----------
    within : InverseCovariance
        The inverse of W.
    functions, axes : ndarray of shape (K, d)
        Rows that give t, and the directions that belong to them.
    shrunk : ndarray of shape (K,)
        1 / (1 + s^2).
    """

    within: InverseCovariance
    functions: Array
    axes: Array
    shrunk: Array

    @classmethod
    def from_gaussians(cls, gaussians: ClassGaussians, within: DiagonalPlusGram) -> "InverseTotal":
        """Return the inverse for classes with their weights as shares, given W."""
        weights = gaussians.weights
        shares = weights / weights.sum()
        deviations = gaussians.means - gaussians.centre()
        root_shares = shares.sqrt()
        m = deviations * root_shares[:, None]
        roots, functions, axes = within.singular_parts(m)
        # Means that depend on each other, as centred means do, leave singular values of rounding,
        # whose functions and axes do not belong to W.
        eps = torch.finfo(roots.dtype).eps
        # The tolerance of numpy.linalg.matrix_rank.
        rounding = max(m.shape) * eps * roots[0]
        varying = roots > rounding
        functions = functions[varying]
        axes = axes[varying]
        shrunk = 1.0 / (1.0 + roots[varying].square())
        return cls(
            within=InverseCovariance.from_covariance(within),
            functions=as_array(functions),
            axes=as_array(axes),
            shrunk=as_array(shrunk),
        )

    def lengths(self, x: Rows) -> torch.Tensor:
        """Return the squared lengths of rows of shape (n, d)."""
        functions = as_tensor(self.functions, device=x.device)
        axes = as_tensor(self.axes, device=x.device)
        shrunk = as_tensor(self.shrunk, device=x.device)
        coordinates = x @ functions.T
        squares = coordinates.square()
        if isinstance(x, torch.Tensor):
            remainders = x - coordinates @ axes
            return self.within.lengths(remainders) + squares @ shrunk
        # Sparse rows minus their parts along the means would be dense.
        along_means = squares @ (1.0 - shrunk)
        lengths = self.within.lengths(x) - along_means
        return lengths.clamp_min_(0.0)

    def between_classes(self) -> float:
        """Return the mean squared distance of the class means from their centre, in W."""
        eigenvalues = 1.0 / self.shrunk - 1.0
        return float(eigenvalues.sum())

    def trace_with(self, diagonal: Array) -> float:
        """Return the trace of the product with a diagonal matrix."""
        squares = np.square(self.functions) @ diagonal
        along_means = squares @ (1.0 - self.shrunk)
        trace = self.within.trace_with(diagonal)
        return trace - float(along_means)


@dataclass(frozen=True)
class RelativeDistances:
    """Distances to the nearest class, relative to the distances from all data.

    Attributes
    ----------
    distances : GaussianDistances
        Distances to the classes, without log-determinants.
    shared : InverseCovariance
        The inverse of B, the part of the covariances that the classes share.
    total : InverseTotal
        The inverse of T.
    mean_distance : float
        p, the mean of the squared distances of the learned samples from their mean, in T.
    overlap : float
        1 minus the correlation ratio of the classes: the weight of the certainty.
    shrinkage : float
        rho.
    weights, means : ndarray of shape (C,) and (C, d)
        The classes.
    """

    distances: GaussianDistances
    shared: InverseCovariance
    total: InverseTotal
    mean_distance: float
    overlap: float
    shrinkage: float
    weights: Array
    means: Array

    def likeness(self, x: Rows) -> torch.Tensor:
        """Return the likeness of samples to the classes, not positive and of shape (n_samples,)."""
        _, likeness = self.scores_and_likeness(x)
        return likeness

    def scores_and_likeness(self, x: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the scores of the distances for a softmax, of shape (n_samples, C), and likeness.

        The scores are those of `GaussianDistances.scores`.
        """
        deviations = self.distances.subtract_centre(x)
        linear, squares = self.distances.terms(deviations)
        log_ratios = linear.add_(squares, alpha=0.5)
        nearest = log_ratios.argmax(1)
        squares_of_nearest = squares.gather(1, nearest[:, None])[:, 0]
        to_nearest = self._to_nearest(deviations, log_ratios, nearest, squares_of_nearest)
        from_all = self.total.lengths(deviations)
        temperatures = self.distances.temperatures(squares_of_nearest)
        scores = log_ratios / temperatures[:, None]
        likeness = self._score(to_nearest, from_all, _certainty(scores))
        return scores, likeness

    def _to_nearest(
        self,
        x: Rows,
        log_ratios: torch.Tensor,
        nearest: torch.Tensor,
        squares_of_nearest: torch.Tensor,
    ) -> torch.Tensor:
        """Return the squared distances of centred samples to the nearest class."""
        if not isinstance(x, torch.Tensor):
            # Sparse rows minus the mean of a class would be dense.
            distances = self.shared.lengths(x) - 2.0 * log_ratios.amax(1)
            return distances.clamp_min_(0.0)
        # Distances from the centre would lose the digits of classes that are small beside them.
        centre = as_tensor(self.distances.centre, device=x.device)
        means = as_tensor(self.means, device=x.device)
        centred_means = means[nearest] - centre
        deviations = x - centred_means
        distances = self.shared.lengths(deviations) - squares_of_nearest
        return distances.clamp_min_(0.0)

    def module(self) -> nn.Module:
        """Return the module that maps features to minus the likeness, of shape (n_samples, 1)."""
        arrays = {
            **self.distances.arrays_of_module(),
            "means": self.means - self.distances.centre,
            "functions": self.total.functions,
            "axes": self.total.axes,
            "shrunk": self.total.shrunk,
        }
        return RelativeScores(
            arrays,
            temperature=self.distances.temperature,
            own_temperature=self.distances.own_temperature,
            shared=self.shared.parts_of_module(),
            within=self.total.within.parts_of_module(),
            mean_distance=self.mean_distance,
            overlap=self.overlap,
        )

    def update_classes(
        self,
        classes: Sequence[ClassGaussians],
        numbers: Sequence[int],
        distances: Head | None,
    ) -> "RelativeDistances | None":
        """Return the distances for new moments of some classes; what all classes share stays.

        `distances` are those to the classes if they have been updated already. None is returned if
        classes cannot be solved one by one.
        """
        means = self.means.copy()
        weights = self.weights.copy()
        for number, each in zip(numbers, classes, strict=True):
            means[number] = as_array(each.means[0])
            weights[number] = float(each.weights[0])
        if distances is None:
            distances = self.distances.update_classes(classes, numbers)
        if not isinstance(distances, GaussianDistances):
            return None
        return replace(self, distances=distances, means=means, weights=weights)

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
            Class and weight of each sample. The weight is below the total weight of the class.
        leverages : Tensor of shape (n_samples,)
            Leverages in these axes (`ClassMoments.along_axes`), which no leverage in a regularised
            covariance exceeds.

        Returns
        -------
        Tensor of shape (n_samples,)
            The likeness without the sample in the scatters of its class, of all classes and of all
            samples, each divided as before, and without it in the means.
        """
        # The distances use the first features only.
        n_features = self.means.shape[1]
        x = x[:, :n_features]
        along_axes = along_axes[:, :n_features]
        class_weights = as_tensor(self.weights, device=x.device)
        n = class_weights[classes]
        total = class_weights.sum()
        # The product of two weights may overflow.
        scatter = weights * (n / (n - weights))
        in_pooled = self.shrinkage * scatter / total
        in_class = in_pooled + (1.0 - self.shrinkage) * scatter / n
        to_own = self._to_class(x, classes)
        # The class covariance holds the outer product of the sample along kept axes alone: all of
        # it would have the leverage `in_class * to_own`, which may be larger than the true one.
        share_in_axes = leverages / (in_class * to_own)
        share_in_axes = share_in_axes.clamp_max(1.0)
        share_in_axes = share_in_axes.nan_to_num(1.0)

        distances = self._left_out_of_pooled(x, classes, share_in_axes * in_pooled)
        means = as_tensor(self.means, device=x.device)
        nearby_points = means[classes] + along_axes
        along = self._to_class(nearby_points, classes)
        length = self.shared.lengths(x - means[classes])
        length = length / _remainders(share_in_axes * in_pooled * length)
        to_own = _left_out_distances(to_own, along, in_class, leverages)
        growth = (n / (n - weights)).square()
        from_left_out_mean = growth * to_own
        distances.scatter_(1, classes[:, None], from_left_out_mean[:, None])
        to_nearest, nearest = distances.min(1)
        to_nearest = to_nearest.clamp_min(0.0)

        # Lengths in the axes of other classes hardly depend on whether the sample was learned.
        squares_of_nearest = self.distances.own_lengths(x, nearest)
        squares_of_own = (growth * length - from_left_out_mean).clamp_min(0.0)
        squares_of_nearest = torch.where(nearest == classes, squares_of_own, squares_of_nearest)
        temperatures = self.distances.temperatures(squares_of_nearest)
        certainty = _certainty(-0.5 * distances / temperatures[:, None])

        growth_from_centre = total / (total - weights)
        from_all = self._from_all(x)
        in_all = share_in_axes * weights * growth_from_centre / total
        remainders = _remainders(in_all * from_all)
        from_all = growth_from_centre.square() * from_all / remainders
        return self._score(to_nearest, from_all, certainty)

    def _left_out_of_pooled(
        self, x: torch.Tensor, classes: torch.Tensor, removed: torch.Tensor
    ) -> torch.Tensor:
        r"""Return squared distances from all classes without the part of each sample in B.

        .. math:: D_r + \frac{k \, (z^\top S_r^{-1} (x - \mu_r))^2}{1 - k z^\top S_r^{-1} z} ,
                  \qquad z = x - \mu_c ,

        where :math:`k z z^\top` is the part that is `removed`. A distance is quadratic along the
        line from the class mean, through the sample, to its mirror image, and three of its values
        give both products.
        """
        means = as_tensor(self.means, device=x.device)
        distances = self._to_classes(x)
        labels, positions = torch.unique(classes, return_inverse=True)
        from_means = self._to_classes(means[labels])
        at_mean = from_means[positions]
        z = x - means[classes]
        beyond = self._to_classes(x + z)
        products = 0.25 * (beyond - at_mean)
        lengths = 0.5 * (beyond + at_mean) - distances
        k = removed[:, None]
        remainders = _remainders(k * lengths)
        return distances + k * products.square() / remainders

    def _score(
        self, nearest: torch.Tensor, from_all: torch.Tensor, certainty: torch.Tensor
    ) -> torch.Tensor:
        r"""Return the likeness, given squared distances D to the nearest class and T from all data.

        It is :math:`-D / (T + p) / q^o` with the certainty q and the overlap o.
        """
        relative = nearest / (from_all + self.mean_distance)
        return -relative / certainty.pow(self.overlap)

    def _to_classes(self, x: Rows) -> torch.Tensor:
        """Return the squared distances of samples to the classes, of shape (n_samples, C)."""
        log_ratios = self.distances.log_ratios(x)
        deviations = self.distances.subtract_centre(x)
        lengths = self.shared.lengths(deviations)
        return lengths[:, None] - 2.0 * log_ratios

    def _to_class(self, x: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Return the squared distance of each sample to one class, of shape (n_samples,)."""
        means = as_tensor(self.means, device=x.device)
        deviations = x - means[classes]
        in_own_axes = self.distances.own_lengths(x, classes)
        distances = self.shared.lengths(deviations) - in_own_axes
        return distances.clamp_min_(0.0)

    def _from_all(self, x: Rows) -> torch.Tensor:
        """Return the squared distances of samples from the mean of all data."""
        deviations = self.distances.subtract_centre(x)
        return self.total.lengths(deviations)


def _certainty(scores: torch.Tensor) -> torch.Tensor:
    """Return the norm of the vector of the probabilities of the classes, whose logits are given."""
    probabilities = torch.softmax(scores, 1)
    return probabilities.square().sum(1).sqrt()


def _remainders(leverages: torch.Tensor) -> torch.Tensor:
    """Return the share of a covariance along a sample that remains without the sample."""
    return (1.0 - leverages).clamp_min(LEAST_SHARE)


def _left_out_distances(
    distances: torch.Tensor, along: torch.Tensor, in_class: torch.Tensor, leverages: torch.Tensor
) -> torch.Tensor:
    r"""Return squared distances from a class mean after the covariance has lost each sample.

    .. math:: \min \Bigl(\frac{D}{1 - k D} ,
              \frac{D_k}{1 - k D_k} + (D - D_k) \frac{1 + h}{1 - h}\Bigr)

    `distances` are D before, and `along` the parts :math:`D_k` along the axes that are kept. k, in
    `in_class`, is the factor of the sample's outer product, and h, in `leverages`, the leverage in
    these axes. The first value is exact if no axis was cut off. Each value is too large for some
    samples.
    """
    lost = in_class * distances
    # The diagonals of axes that were cut off let it exceed 1.
    is_valid = lost < 1.0
    by_leverage = torch.where(is_valid, distances / _remainders(lost), torch.inf)
    # Without a sample the axes turn away from it, so more of the sample lies outside the axes.
    growth = (1.0 + leverages) / _remainders(leverages)
    across = (distances - along).clamp_min(0.0)
    left_out_across = across * growth
    left_out_along = along / _remainders(in_class * along)
    by_axes = left_out_along + left_out_across
    return torch.minimum(by_leverage, by_axes)


def fit_relative_distances(
    gaussians: ClassGaussians,
    distances: GaussianDistances | None,
    *,
    covariance: str,
    shrinkage: float,
    epsilon: float,
    keeps_base: bool = False,
) -> RelativeDistances:
    """Solve the distances to the classes, whose rows may be overwritten, and from all data.

    `distances` are the distances to the classes, without log-determinants; None solves them, and
    `keeps_base` allows to solve single classes again.
    """
    classes = gaussians
    solved_means = solve_means(classes, covariance=covariance, shrinkage=shrinkage, epsilon=epsilon)
    shared = solved_means.base
    shrinkage = solved_means.share
    if covariance == "identity":
        gaussians = gaussians.replace_by_identity()
    ridge = gaussians.ridge(epsilon)
    pooled = shared
    if shrinkage < 1.0:
        pooled = gaussians.shared_covariance(1.0, epsilon)
    total = InverseTotal.from_gaussians(gaussians, pooled)
    if distances is None:
        temperature = solved_means.temperature(classes, epsilon)
        # The distances overwrite the rows.
        distances = fit_distances(
            classes, solved_means, temperature, covariance=covariance, keeps_base=keeps_base
        )
    mean_distance = max(len(ridge) - total.trace_with(as_array(ridge)), 1.0)
    between = total.between_classes()
    correlation_ratio = (between / (mean_distance + between)) ** 0.5
    return RelativeDistances(
        distances=distances,
        shared=InverseCovariance.from_covariance(shared),
        total=total,
        mean_distance=mean_distance,
        overlap=1.0 - correlation_ratio,
        shrinkage=shrinkage,
        weights=as_array(gaussians.weights),
        means=as_array(gaussians.means),
    )
