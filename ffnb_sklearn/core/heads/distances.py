r"""Distances of samples to the Gaussians of the classes, at the cost of C and not of C^2.

The score of a class is, with the shared part B of the covariances and :math:`S_c = B + (1 - \rho)
\Sigma_c`,

.. math:: s_c(x) = \tfrac12 (x - m)^\top B^{-1} (x - m)
          - \tfrac12 (x - \mu_c)^\top S_c^{-1} (x - \mu_c) .

B is factored once (`ClassGaussians.shared_covariance`). By the Woodbury identity each class adds a
system of the size of its factor: with :math:`U_c^\top U_c = (1 - \rho) \Sigma_c`,
:math:`V_c = U_c B^{-1}` and :math:`L_c L_c^\top = I + U_c V_c^\top`,

.. math:: s_c(x) = (\mu_c - m)^\top B^{-1} \bigl(x - \tfrac12 (\mu_c + m)\bigr)
          + \tfrac12 \bigl\| L_c^{-1} V_c (x - \mu_c) \bigr\|^2 .

For classes that are Gaussian in the inputs :math:`-\log \det L_c` is added. docs/theory/default.rst
has the temperature of the probabilities (J. H. Friedman. Regularized discriminant analysis. Journal
of the American Statistical Association 84(405), 1989).

Most of a prediction are products with the planes and own axes of all classes, which take half the
time in single precision. For a class with axes R of shape (r, d) and shifts t, the rounding errors
of the responses R x - t to a centred sample x have at most the length

.. math:: \delta = (d + 3) \, u \, (\|R\|_F \|x\| + \|t\|) ,

where u is the unit roundoff: the factors are rounded, then d products are added to t. With the
squared length q of the responses, half of q is wrong by at most
:math:`\delta \sqrt{q} + \delta^2 / 2 + (r + 1) u q / 2` [1]_. The linear part l of the score, with
the plane w and the offset b, is wrong by at most
:math:`(d + 2) \, u \, (\|w\| \|x\| + |b|) + u |l|`. Classes whose scores differ by less than the
sum of their errors are compared in double precision, so single precision changes no label.

References
----------
.. [1] N. J. Higham. Accuracy and Stability of Numerical Algorithms. SIAM, 2nd edition, 2002.
   Section 3.1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ..choice.pooled import SolvedMeans
from ..device import Array, as_array, as_tensor
from ..gaussians import LEAST_SHARE, ClassGaussians
from ..linalg import DiagonalPlusGram, cholesky
from ..settings import Choice, Settings
from .interface import NUMBERS_TOGETHER, Head, Rows
from .modules import DistanceScores

__all__ = ["GaussianDistances", "SingleWeights", "fit_distances", "is_exact", "solve_means"]

# Temperature a of the own axes of a class: with 0 to 2000 random features, the mean cross-entropy
# on hold-outs of 16 sets is within 0.02 of that of the best factor of each.
_OWN_TEMPERATURE = 0.016

# Least number of samples from which single precision saves time if the own axes fit into a cache.
_MANY_SAMPLES = 64


@dataclass(frozen=True)
class SingleWeights:
    """Weights of the distances in single precision, and the norms that bound their errors.

    Attributes
    ----------
    planes, offsets, rows, shifts : Tensor
        Weights in single precision (`GaussianDistances`).
    plane_norms, row_norms, shift_norms : Tensor of shape (C,)
        Norms in double precision, of a plane, of all axes of a class, and of its shifts.
    lengths : Tensor of shape (C,)
        Number of axes of each class.
    """

    planes: torch.Tensor
    offsets: torch.Tensor
    rows: torch.Tensor
    shifts: torch.Tensor
    plane_norms: torch.Tensor
    row_norms: torch.Tensor
    shift_norms: torch.Tensor
    lengths: torch.Tensor

    @classmethod
    def of(
        cls,
        planes: torch.Tensor,
        offsets: torch.Tensor,
        rows: torch.Tensor,
        shifts: torch.Tensor,
        lengths: Sequence[int],
    ) -> "SingleWeights":
        """Round weights in double precision, and compute their norms."""
        n_rows = torch.tensor(lengths, device=rows.device)
        norms_of_rows = torch.linalg.vector_norm(rows, dim=1)
        return cls(
            planes=planes.float(),
            offsets=offsets.float(),
            rows=rows.float(),
            shifts=shifts.float(),
            plane_norms=torch.linalg.vector_norm(planes, dim=1),
            row_norms=_class_norms(norms_of_rows, n_rows),
            shift_norms=_class_norms(shifts, n_rows),
            lengths=n_rows,
        )

    def errors(self, x: torch.Tensor, linear: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
        r"""Return bounds of the errors of scores, as in the module's docstring.

        Parameters
        ----------
        x : Tensor of shape (n_samples, d)
            Centred samples.
        linear, squares : Tensor of shape (n_samples, C)
            l and q, from products in single precision.

        Returns
        -------
        Tensor of shape (n_samples, C)
            The bounds.
        """
        eps = torch.finfo(torch.float32).eps
        unit_roundoff = 0.5 * eps
        n_features = x.shape[1]
        sample_norms = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        delta = torch.addcmul(self.shift_norms, sample_norms, self.row_norms)
        delta.mul_((n_features + 3) * unit_roundoff)
        # The squared lengths: delta sqrt(q) + delta^2 / 2 + (r + 1) u q / 2.
        errors = squares.sqrt()
        errors.add_(delta, alpha=0.5)
        errors.mul_(delta)
        n_terms = self.lengths + 1.0
        errors.addcmul_(squares, n_terms, value=0.5 * unit_roundoff)
        # The linear part: (d + 2) u (|w| |x| + |b|) + u |l|, which is infinite if l overflows.
        offset_sizes = self.offsets.double().abs_()
        sizes = torch.addcmul(offset_sizes, sample_norms, self.plane_norms)
        errors.add_(sizes, alpha=(n_features + 2) * unit_roundoff)
        return errors.add_(linear.abs(), alpha=unit_roundoff)


@dataclass(frozen=True)
class GaussianDistances(Head):
    """Scores of the classes from regularised Mahalanobis distances.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        Weighted mean of the class means. Further features of a sample are ignored.
    planes, offsets : ndarray of shape (C, d) and (C,)
        Linear part of the scores of centred samples.
    rows : ndarray of shape (R, d)
        Own axes of all classes, one class under the other.
    shifts : ndarray of shape (R,)
        Responses of these rows to the mean of their class.
    lengths : tuple of int
        Number of rows of each class.
    temperature : float
        T_B, the temperature of linear scores.
    own_temperature : float
        Factor by which own axes add to it.
    base : DiagonalPlusGram or None
        B, factored, if classes are to be solved again (`update_classes`).
    shrinkage : float
        rho.
    is_normal : bool
        Whether the scores have log-determinants.
    """

    centre: Array
    planes: Array
    offsets: Array
    rows: Array
    shifts: Array
    lengths: tuple[int, ...]
    temperature: float
    own_temperature: float
    base: DiagonalPlusGram | None = field(default=None, repr=False, compare=False)
    shrinkage: float = 1.0
    is_normal: bool = False

    keeps_own = True
    tuned_as = "ovo"

    @classmethod
    def solve_means(
        cls, gaussians: ClassGaussians, choice: Choice, settings: Settings
    ) -> SolvedMeans:
        """Factor B, and multiply the means by its inverse."""
        return solve_means(
            gaussians,
            covariance=settings.covariance,
            shrinkage=choice.shrinkage,
            epsilon=choice.epsilon,
        )

    @classmethod
    def from_gaussians(
        cls,
        gaussians: ClassGaussians,
        solved_means: SolvedMeans | None,
        choice: Choice,
        settings: Settings,
    ) -> "GaussianDistances":
        """Solve the distances, with log-determinants for Gaussian densities."""
        assert solved_means is not None
        return fit_distances(
            gaussians,
            solved_means,
            choice.temperature,
            covariance=settings.covariance,
            is_normal=choice.candidate == "densities",
            keeps_base=settings.refresh > 0.0,
        )

    def update_classes(
        self, gaussians: Sequence[ClassGaussians], numbers: Sequence[int]
    ) -> "GaussianDistances | None":
        """Return the distances with some classes solved again, under the same B and temperature."""
        if self.base is None:
            return None
        planes = self.planes.copy()
        offsets = self.offsets.copy()
        lengths = list(self.lengths)
        rows = _split(self.rows, self.lengths)
        shifts = _split(self.shifts, self.lengths)
        for number, each in zip(numbers, gaussians, strict=True):
            means = each.means - as_tensor(self.centre, device=each.means.device)
            solution = _solve_classes(each, self.base, self.shrinkage, means, self.is_normal)
            planes[number] = solution.planes[0]
            offsets[number] = solution.offsets[0]
            (lengths[number],) = solution.lengths
            rows[number] = solution.rows
            shifts[number] = solution.shifts
        return replace(
            self,
            planes=planes,
            offsets=offsets,
            rows=np.concatenate(rows),
            shifts=np.concatenate(shifts),
            lengths=tuple(lengths),
        )

    @staticmethod
    def n_weights(n_features: int, n_classes: int, n_axes: int) -> int:
        """Return the number of planes, offsets, own axes and their shifts, and of the centre."""
        return (n_classes + n_axes) * (n_features + 1) + n_features

    def scores(self, x: Rows) -> torch.Tensor:
        """Return the scores of all classes, of shape (n_samples, C), for a softmax."""
        deviations = self.subtract_centre(x)
        linear, squares = self.terms(deviations)
        scores = linear.add_(squares, alpha=0.5)
        nearest = scores.argmax(1, keepdim=True)
        temperatures = self.temperatures(squares.gather(1, nearest))
        return scores.div_(temperatures)

    def temperatures(self, squares_of_nearest: torch.Tensor) -> torch.Tensor:
        """Return the temperatures, given squared lengths in the own axes of the nearest class."""
        return self.temperature + self.own_temperature * squares_of_nearest

    def most_likely(self, x: Rows, order: torch.Tensor) -> torch.Tensor:
        """Return the class of the highest score; single precision decides if it suffices."""
        n_entries = len(self.rows) * len(self.centre)
        # More entries exceed most caches, so even a single sample takes as long as reading them.
        is_many = len(x) >= _MANY_SAMPLES or n_entries >= NUMBERS_TOGETHER
        saves_time = n_entries > 0 and is_many
        if not (isinstance(x, torch.Tensor) and saves_time and is_exact(x)):
            return super().most_likely(x, order)
        centred = self.subtract_centre(x)
        assert isinstance(centred, torch.Tensor)
        possible = self.possible_classes(centred)
        most_likely = possible.byte().argmax(1)
        is_ambiguous = possible.sum(1) > 1
        ambiguous = torch.nonzero(is_ambiguous)[:, 0]
        ambiguous_samples = centred[ambiguous]
        scores = self._some_scores(
            x=ambiguous_samples,
            linear=_linear_terms(ambiguous_samples, self._weights(x.device)),
            chosen=possible[ambiguous],
        )
        positions = scores[:, order].argmax(1)
        most_likely[ambiguous] = order[positions]
        return most_likely

    def possible_classes(self, x: torch.Tensor) -> torch.Tensor:
        """Return the classes that may have the highest score, by products in single precision.

        Parameters
        ----------
        x : Tensor of shape (n_samples, d)
            Centred samples.

        Returns
        -------
        Tensor of bool of shape (n_samples, C)
            At least one class of each sample.
        """
        single = self.single_weights
        linear, squares = self._products(x.float(), single)
        errors = single.errors(x, linear, squares)
        scores = linear.add_(squares, alpha=0.5)
        lower_bounds = torch.sub(scores, errors)
        largest_lower_bound = lower_bounds.amax(1, keepdim=True)
        upper_bounds = scores.add_(errors)
        # Values that overflow in single precision compare as false.
        is_impossible = upper_bounds < largest_lower_bound
        return ~is_impossible

    @cached_property
    def single_weights(self) -> SingleWeights:
        """Weights in single precision; they add half of the head's memory."""
        weights = self._weights(torch.device("cpu"))
        return SingleWeights.of(*weights, self.lengths)

    def apply_priors(self, scores: Array, priors: Array) -> Array:
        """Add the logarithms of the priors, relative to equal priors."""
        is_possible = priors > 0.0
        log_priors = np.log(len(priors) * priors[is_possible])
        moved: Array = scores.compress(is_possible, axis=1) + log_priors
        return moved

    def scores_module(self, priors: Array) -> nn.Module:
        """Return the distances as a module; the adjustment for priors is a shift."""
        n_classes = len(self.planes)
        arrays = {
            **self.arrays_of_module(),
            "columns": np.flatnonzero(priors),
            "shift": self.apply_priors(np.zeros((1, n_classes)), priors),
        }
        return DistanceScores(
            arrays, temperature=self.temperature, own_temperature=self.own_temperature
        )

    def arrays_of_module(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that modules of the distances hold, by name."""
        n_classes = len(self.planes)
        return {
            "centre": self.centre,
            "planes": self.planes,
            "offsets": self.offsets,
            "rows": self.rows,
            "shifts": self.shifts,
            "class_of": np.repeat(np.arange(n_classes), self.lengths),
        }

    def logits(self, scores: Array) -> Array:
        """Return the scores, which are logits."""
        return scores

    def logits_module(self) -> nn.Module:
        """Return the identity: the scores are logits."""
        return nn.Identity()

    def log_ratios(self, x: Rows) -> torch.Tensor:
        """Return s, the scores at temperature 1, of shape (n_samples, C)."""
        deviations = self.subtract_centre(x)
        linear, squares = self.terms(deviations)
        return linear.add_(squares, alpha=0.5)

    def own_lengths(self, x: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Return the squared length of each sample in the own axes of one class."""
        centred = self.subtract_centre(x)
        assert isinstance(centred, torch.Tensor)
        zeros = x.new_zeros((len(x), len(self.planes)))
        columns = classes[:, None]
        chosen = torch.zeros_like(zeros, dtype=torch.bool)
        chosen.scatter_(1, columns, True)
        halves = self._some_scores(centred, zeros, chosen)
        return 2.0 * halves.gather(1, columns)[:, 0]

    def subtract_centre(self, x: Rows) -> Rows:
        """Return samples minus the centre, over the features of the centre."""
        centre = as_tensor(self.centre, device=x.device)
        if isinstance(x, torch.Tensor):
            return x[:, : len(centre)] - centre
        return x - centre

    def terms(self, x: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Return linear terms, and squared lengths in own axes, of centred samples."""
        return self._products(x, self._weights(x.device))

    def _weights(self, device: torch.device) -> "_Weights":
        """Return the weights on a device."""
        return _Weights(
            as_tensor(self.planes, device=device),
            as_tensor(self.offsets, device=device),
            as_tensor(self.rows, device=device),
            as_tensor(self.shifts, device=device),
        )

    def _products(
        self, x: Rows, weights: "_Weights | SingleWeights"
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return `terms` from weights in the precision of the samples."""
        linear = _linear_terms(x, weights).double()
        squares = torch.zeros_like(linear)
        for group in _groups(self.lengths, len(x)):
            axes = weights.rows[group.rows]
            responses = x @ axes.T
            responses.sub_(weights.shifts[group.rows])
            responses.square_()
            squares[:, group.classes] = _class_sums(responses, group.lengths)
        return linear, squares

    @cached_property
    def _starts(self) -> list[int]:
        """Position of the first row of each class, then the number of all rows."""
        return [0, *accumulate(self.lengths)]

    def _some_scores(
        self, x: torch.Tensor, linear: torch.Tensor, chosen: torch.Tensor
    ) -> torch.Tensor:
        """Return s of centred samples and chosen classes, and minus infinity of other classes."""
        weights = self._weights(x.device)
        scores = linear.masked_fill(~chosen, -torch.inf)
        is_chosen = chosen.any(0)
        classes = torch.nonzero(is_chosen)[:, 0]
        for c in classes.tolist():
            samples = torch.nonzero(chosen[:, c])[:, 0]
            samples_of_class = x[samples]
            rows = slice(self._starts[c], self._starts[c + 1])
            responses = samples_of_class @ weights.rows[rows].T
            responses.sub_(weights.shifts[rows])
            squares = responses.square_().sum(1)
            scores[samples, c] += 0.5 * squares
        return scores


def solve_means(
    gaussians: ClassGaussians, *, covariance: str, shrinkage: float, epsilon: float
) -> SolvedMeans:
    """Factor B, and multiply the class means, minus their centre, by its inverse.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes.
    covariance : {"class", "identity"}
        Whether the covariances are used, or the identity times the mean variance.
    shrinkage : float
        rho in [0, 1]: 0 are class covariances, 1 is linear discriminant analysis.
    epsilon : float
        Ridge, relative to the mean variance within classes.

    Returns
    -------
    SolvedMeans
        B and the products.

    Raises
    ------
    NotPositiveDefiniteError
        If B cannot be factored.
    """
    if covariance == "identity":
        gaussians = gaussians.replace_by_identity()
        shrinkage = 0.0
    base = gaussians.shared_covariance(shrinkage, epsilon)
    planes = base.solve(gaussians.means - gaussians.centre())
    return SolvedMeans(base, planes, shrinkage)


def fit_distances(
    gaussians: ClassGaussians,
    solved_means: SolvedMeans,
    temperature: float,
    *,
    covariance: str,
    is_normal: bool = False,
    keeps_base: bool = False,
) -> GaussianDistances:
    """Solve the distances to all classes, whose rows may be overwritten: they can take gigabytes.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes.
    solved_means : SolvedMeans
        B and the means (`solve_means`).
    temperature : float
        Temperature of the scores.
    covariance : {"class", "identity"}
        Whether the covariances are used, or the identity times the mean variance.
    is_normal : bool, default=False
        Whether the scores have log-determinants, as those of Gaussian classes.
    keeps_base : bool, default=False
        Whether the result keeps B, by which single classes can be solved again.

    Returns
    -------
    GaussianDistances
        The scores.

    Raises
    ------
    NotPositiveDefiniteError
        If the system of a class cannot be factored.
    """
    is_identity = covariance == "identity"
    if is_identity:
        gaussians = gaussians.replace_by_identity()
    base = solved_means.base
    shrinkage = solved_means.share
    own_temperature = 0.0
    if not is_normal:
        n_pooled = len(gaussians.penalties) * max(shrinkage, LEAST_SHARE)
        own_temperature = _OWN_TEMPERATURE * n_pooled**0.25
    kept_base = None
    if keeps_base and not is_identity:
        kept_base = base
    centre = gaussians.centre()
    means = gaussians.means - centre
    solution = _solve_classes(gaussians, base, shrinkage, means, is_normal, solved_means.planes)
    return GaussianDistances(
        centre=as_array(centre),
        planes=solution.planes,
        offsets=solution.offsets,
        rows=solution.rows,
        shifts=solution.shifts,
        lengths=solution.lengths,
        temperature=temperature,
        own_temperature=own_temperature,
        base=kept_base,
        shrinkage=shrinkage,
        is_normal=is_normal,
    )


class _Weights(NamedTuple):
    """Arrays of `GaussianDistances` as tensors."""

    planes: torch.Tensor
    offsets: torch.Tensor
    rows: torch.Tensor
    shifts: torch.Tensor


def _linear_terms(x: Rows, weights: _Weights | SingleWeights) -> torch.Tensor:
    """Return the linear terms of centred samples, in the precision of the weights."""
    products = x @ weights.planes.T
    return products.add_(weights.offsets)


class _ClassSolution(NamedTuple):
    """Attributes of `GaussianDistances` that follow from some classes and B."""

    planes: Array
    offsets: Array
    rows: Array
    shifts: Array
    lengths: tuple[int, ...]


def _solve_classes(
    gaussians: ClassGaussians,
    base: DiagonalPlusGram,
    shrinkage: float,
    means: torch.Tensor,
    is_normal: bool,
    planes: torch.Tensor | None = None,
) -> _ClassSolution:
    r"""Solve the parts of the scores that belong to each class, given B and the centred means.

    .. math:: s_c(x) = w_c^\top x + b_c + \tfrac12 \|R_c x - t_c\|^2 , \qquad
              w_c = B^{-1} \mu_c , \qquad b_c = -\tfrac12 w_c^\top \mu_c , \qquad
              t_c = R_c \mu_c .

    The rows of the classes are overwritten. `planes`, the w, are solved unless they are given.
    """
    if planes is None:
        planes = base.solve(means)
    offsets = -0.5 * torch.linalg.vecdot(planes, means)
    lengths = gaussians.lengths
    if shrinkage == 1.0:
        rows = gaussians.rows[:0]
        shifts = means[:0, 0]
        lengths = (0,) * len(lengths)
    else:
        log_determinants = _replace_by_own_axes(gaussians, base, shrinkage)
        rows = gaussians.rows
        shifts = _own_shifts(rows, lengths, means)
        if is_normal:
            offsets = offsets - 0.5 * log_determinants
    return _ClassSolution(
        as_array(planes), as_array(offsets), as_array(rows), as_array(shifts), lengths
    )


def _replace_by_own_axes(
    gaussians: ClassGaussians, base: DiagonalPlusGram, shrinkage: float
) -> torch.Tensor:
    r"""Replace the rows of each class by its own axes, and return log-determinants.

    .. math:: R_c = L_c^{-1} U_c B^{-1} , \qquad L_c L_c^\top = I + U_c B^{-1} U_c^\top , \qquad
              U_c^\top U_c = (1 - \rho) \Sigma_c .

    The result, of shape (C,), holds :math:`\log \det L_c L_c^\top`. The axes overwrite the rows,
    because they can take gigabytes.
    """
    weights = gaussians.weights
    log_determinants = torch.zeros_like(weights)
    for group in _groups(gaussians.lengths, gaussians.means.shape[1]):
        group_weights = weights[group.classes]
        group_rows = gaussians.rows[group.rows]
        solved_rows = base.solve(group_rows)
        group_determinants = log_determinants[group.classes]
        for run in _runs(group.lengths):
            axes = run.of(group_rows)
            solved = run.of(solved_rows)
            shares = (1.0 - shrinkage) / group_weights[run.classes]
            scales = shares.sqrt()[:, None, None]
            systems = axes @ solved.mT
            systems.mul_(scales.square())
            systems.diagonal(dim1=1, dim2=2).add_(1.0)
            lower = cholesky(systems, name="a class covariance")
            solved *= scales
            torch.linalg.solve_triangular(lower, solved, upper=False, out=axes)
            logarithms = lower.diagonal(dim1=1, dim2=2).log()
            group_determinants[run.classes] = 2.0 * logarithms.sum(1)
    return log_determinants


def _own_shifts(rows: torch.Tensor, lengths: tuple[int, ...], means: torch.Tensor) -> torch.Tensor:
    """Return the responses of own axes to the centred mean of their class."""
    shifts = torch.empty_like(rows[:, 0])
    for run in _runs(lengths):
        axes = run.of(rows)
        run_means = means[run.classes]
        responses = axes @ run_means[:, :, None]
        shifts[run.rows] = responses.flatten()
    return shifts


class _Group(NamedTuple):
    """Consecutive classes, their rows, and their numbers of rows."""

    classes: slice
    rows: slice
    lengths: list[int]


def _groups(lengths: tuple[int, ...], n_others: int) -> Iterator[_Group]:
    """Yield some classes at a time.

    The products of their rows with `n_others` vectors take limited memory for any number of
    classes.
    """
    most_numbers = n_others * max(lengths, default=0)
    n_together = max(1, NUMBERS_TOGETHER // max(1, most_numbers))
    first_row = 0
    for first in range(0, len(lengths), n_together):
        stop = min(first + n_together, len(lengths))
        group_lengths = list(lengths[first:stop])
        stop_row = first_row + sum(group_lengths)
        yield _Group(slice(first, stop), slice(first_row, stop_row), group_lengths)
        first_row = stop_row


class _Run(NamedTuple):
    """Consecutive classes of equally many rows, and these rows."""

    classes: slice
    rows: slice
    n_classes: int
    length: int

    def of(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the rows of these classes as a view of shape (n_classes, n_rows, d)."""
        return rows[self.rows].view(self.n_classes, self.length, rows.shape[1])


def _runs(lengths: Sequence[int]) -> Iterator[_Run]:
    """Yield runs of classes of one length, which are solved and summed together."""
    first_class = 0
    first_row = 0
    for length, equal_lengths in groupby(lengths):
        n_classes = len(list(equal_lengths))
        stop_class = first_class + n_classes
        stop_row = first_row + n_classes * length
        classes = slice(first_class, stop_class)
        yield _Run(classes, slice(first_row, stop_row), n_classes, length)
        first_class = stop_class
        first_row = stop_row


def _class_sums(squares: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Return the sums over the columns of each class."""
    if squares.device.type == "cpu":
        return _class_sums_on_cpu(squares, lengths)
    sums = []
    for run in _runs(lengths):
        columns = squares[:, run.rows].reshape(len(squares), run.n_classes, run.length)
        sums.append(columns.sum(2))
    return torch.cat(sums, 1)


def _class_sums_on_cpu(squares: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Return the sums over the columns of each class, of any numbers of columns, in one call."""
    n_columns = np.array(lengths)
    has_columns = n_columns > 0
    starts = np.cumsum(n_columns) - n_columns
    sums = squares.new_zeros((len(squares), len(lengths)))
    if has_columns.any():
        # Classes without columns lie between no others, so a sum ends where the next one starts.
        sums_of_classes = np.add.reduceat(squares.numpy(), starts[has_columns], axis=1)
        sums.numpy()[:, has_columns] = sums_of_classes
    return sums


def _split(array: Array, lengths: Sequence[int]) -> list[Array]:
    """Return the rows of each class."""
    stops = np.cumsum(lengths)
    return np.split(array, stops[:-1])


def is_exact(x: torch.Tensor) -> bool:
    """Return whether the bounds of `SingleWeights.errors` hold for products with samples.

    Devices other than a CPU may round more coarsely.
    """
    if x.device.type != "cpu":
        return False
    # Torch may be set to lower precisions on CPUs too.
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    return matmul.fp32_precision in ("none", "ieee")


def _class_norms(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return the norm of the values of each class, which stand one after the other."""
    classes = torch.repeat_interleave(lengths)
    sums = values.new_zeros(len(lengths))
    sums.index_add_(0, classes, values.square())
    return sums.sqrt_()
