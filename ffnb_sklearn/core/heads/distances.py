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
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
import torch
from torch import nn

from ..device import as_array, as_tensor
from ..linalg import DiagonalPlusGram, cholesky
from ..settings import Settings
from ..statistics import Array
from .gaussians import ClassGaussians
from .interface import NUMBERS_TOGETHER, Choice, Head, Rows
from .judge import LEAST_SHARE, LeftOutSamples
from .modules import DistanceScores
from .screening import is_exact, screened

__all__ = ["GaussianDistances", "fit_distances"]

# Temperature a of the own axes of a class: with 0 to 2000 random features, the mean cross-entropy
# on hold-outs of 16 sets is within 0.02 of that of the best factor of each.
_OWN_TEMPERATURE = 0.016


@dataclass(frozen=True)
class GaussianDistances(Head):
    """Scores of the classes from regularised Mahalanobis distances.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        Weighted mean of the class means. Further features of a sample do not count.
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
        B, factored, if classes are to be solved again (`followed`).
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
    def solved(
        cls, gaussians: ClassGaussians, choice: Choice, settings: Settings
    ) -> "GaussianDistances":
        """Solve the distances."""
        return fit_distances(
            gaussians,
            covariance=settings.covariance,
            shrinkage=choice.shrinkage,
            epsilon=choice.epsilon,
            temperature=choice.temperature,
            keeps_base=settings.refresh > 0.0,
        )

    def followed(
        self, gaussians: ClassGaussians, numbers: Sequence[int]
    ) -> "GaussianDistances | None":
        """Return the distances with some classes solved again, under the same B and temperature."""
        if self.base is None:
            return None
        device = gaussians.means.device
        means = gaussians.means - as_tensor(self.centre, device=device)
        new_planes = self.base.solve(means)
        new_offsets = -0.5 * torch.linalg.vecdot(new_planes, means)
        new_rows, new_shifts, halves = _own_axes(gaussians, self.base, self.shrinkage, means)
        if self.is_normal:
            new_offsets -= halves
        new_lengths = gaussians.lengths if len(new_rows) else (0,) * len(numbers)

        planes = self.planes.copy()
        planes[list(numbers)] = as_array(new_planes)
        offsets = self.offsets.copy()
        offsets[list(numbers)] = as_array(new_offsets)
        lengths = list(self.lengths)
        rows = _blocks(self.rows, self.lengths)
        shifts = _blocks(self.shifts, self.lengths)
        solved_rows = _blocks(as_array(new_rows), new_lengths)
        solved_shifts = _blocks(as_array(new_shifts), new_lengths)
        for position, number in enumerate(numbers):
            lengths[number] = new_lengths[position]
            rows[number] = solved_rows[position]
            shifts[number] = solved_shifts[position]
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
        linear, own = self.terms(self.centred(x))
        scores = linear.add_(own, alpha=0.5)
        temperatures = own.gather(1, scores.argmax(1, keepdim=True)).mul_(self.own_temperature)
        return scores.div_(temperatures.add_(self.temperature))

    def most_likely(self, x: Rows, order: torch.Tensor) -> torch.Tensor:
        """Return the class of the highest score; single precision decides where it suffices."""
        if not isinstance(x, torch.Tensor) or not len(self.rows) or not is_exact(x):
            return super().most_likely(x, order)
        centred = self.centred(x)
        assert isinstance(centred, torch.Tensor)
        possible, linear = screened(self, centred)
        found = possible.byte().argmax(1)
        unsure = torch.nonzero(possible.sum(1) > 1)[:, 0]
        scores = self._some_scores(centred[unsure], linear[unsure], possible[unsure])
        found[unsure] = order[scores[:, order].argmax(1)]
        return found

    def with_priors(self, scores: Array, priors: Array) -> Array:
        """Add the logarithms of the priors, relative to equal priors."""
        moved: Array = scores + np.log(len(priors) * priors)
        return moved

    def scores_module(self, priors: Array) -> nn.Module:
        """Return the distances as a module; the adjustment for priors is a shift."""
        n_classes = len(self.planes)
        arrays = {
            "centre": self.centre,
            "planes": self.planes,
            "offsets": self.offsets,
            "rows": self.rows,
            "shifts": self.shifts,
            "class_of": np.repeat(np.arange(n_classes), self.lengths),
            "shift": self.with_priors(np.zeros(n_classes), priors),
        }
        return DistanceScores(
            arrays, temperature=self.temperature, own_temperature=self.own_temperature
        )

    def logits_module(self) -> nn.Module:
        """Return the identity: the scores are logits."""
        return nn.Identity()

    def log_ratios(self, x: Rows) -> torch.Tensor:
        """Return s, the scores at temperature 1, of shape (n_samples, C)."""
        linear, own = self.terms(self.centred(x))
        return linear.add_(own, alpha=0.5)

    def own_lengths(self, x: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Return the squared length of each sample in the own axes of one class."""
        centred = self.centred(x)
        assert isinstance(centred, torch.Tensor)
        nothing = x.new_zeros((len(x), len(self.planes)))
        chosen = torch.zeros_like(nothing, dtype=torch.bool).scatter_(1, classes[:, None], True)
        halves = self._some_scores(centred, nothing, chosen)
        return 2.0 * halves.gather(1, classes[:, None])[:, 0]

    def centred(self, x: Rows) -> Rows:
        """Return samples less the centre, over the features that count."""
        centre = as_tensor(self.centre, device=x.device)
        return (x[:, : len(centre)] if isinstance(x, torch.Tensor) else x) - centre

    def terms(
        self, x: Rows, dtype: torch.dtype = torch.float64
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return linear terms, and squared lengths in own axes, of centred samples.

        The products with own axes, which are most of the work, are computed in `dtype`.
        """
        planes, offsets, rows, shifts = (
            as_tensor(one, device=x.device)
            for one in (self.planes, self.offsets, self.rows, self.shifts)
        )
        linear = (x @ planes.T).add_(offsets)
        own, samples = torch.zeros_like(linear), x.to(dtype) if isinstance(x, torch.Tensor) else x
        for classes, lengths, part in _groups(self.lengths, len(x)):
            responses = (samples @ rows[part].to(dtype).T).sub_(shifts[part].to(dtype)).square_()
            own[:, classes.start : classes.stop] = _sums(responses, lengths)
        return linear, own

    def _some_scores(
        self, x: torch.Tensor, linear: torch.Tensor, chosen: torch.Tensor
    ) -> torch.Tensor:
        """Return s of centred samples and chosen classes, and of others minus infinity."""
        rows, shifts = (
            torch.split(as_tensor(one, device=x.device), list(self.lengths))
            for one in (self.rows, self.shifts)
        )
        scores = linear.masked_fill(~chosen, -torch.inf)
        for c in torch.nonzero(chosen.any(0))[:, 0].tolist():
            samples = torch.nonzero(chosen[:, c])[:, 0]
            squares = (x[samples] @ rows[c].T).sub_(shifts[c]).square_()
            scores[samples, c] += 0.5 * squares.sum(1)
        return scores


def fit_distances(
    gaussians: ClassGaussians,
    *,
    covariance: str,
    shrinkage: float,
    epsilon: float,
    temperature: float | None = None,
    keeps_base: bool = False,
) -> GaussianDistances:
    """Solve the distances to all classes, whose rows may be overwritten: they can take gigabytes.

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
    temperature : float or None, default=None
        Temperature of Gaussian classes, whose scores have log-determinants. None is that of
        least left-out cross-entropy.
    keeps_base : bool, default=False
        Whether the result keeps B, by which single classes can be solved again.

    Returns
    -------
    GaussianDistances
        The scores.

    Raises
    ------
    NotPositiveDefiniteError
        If B or the system of a class cannot be factored.
    """
    judged = gaussians
    if covariance == "identity":
        gaussians, shrinkage = gaussians.with_identity(), 0.0
    base = gaussians.shared_covariance(shrinkage, epsilon)
    weights = gaussians.weights
    centre = weights @ gaussians.means / weights.sum()
    means = gaussians.means - centre
    planes = base.solve(means)
    offsets = -0.5 * torch.linalg.vecdot(planes, means)
    own_temperature, is_normal = 0.0, temperature is not None
    if temperature is None:
        temperature = _linear_temperature(judged, shrinkage, epsilon, base, planes)
        known = len(gaussians.penalties) * max(shrinkage, LEAST_SHARE)
        own_temperature = _OWN_TEMPERATURE * known**0.25
    rows, shifts, halves = _own_axes(gaussians, base, shrinkage, means)
    return GaussianDistances(
        as_array(centre),
        as_array(planes),
        as_array(offsets - halves if is_normal else offsets),
        as_array(rows),
        as_array(shifts),
        gaussians.lengths if len(rows) else (0,) * len(weights),
        temperature,
        own_temperature,
        base if keeps_base and covariance != "identity" else None,
        shrinkage,
        is_normal,
    )


def _blocks(array: Array, lengths: Sequence[int]) -> list[Array]:
    """Return the rows of each class."""
    return np.split(array, np.cumsum(lengths)[:-1])


def _linear_temperature(
    gaussians: ClassGaussians,
    shrinkage: float,
    epsilon: float,
    base: DiagonalPlusGram,
    planes: torch.Tensor,
) -> float:
    """Return T_B, given B and the centred means times its inverse."""
    left_out = LeftOutSamples(gaussians)
    if shrinkage == 0.0:
        # Without a pooled covariance in B, left-out samples are judged in that and the ridge.
        metric = left_out.metric(gaussians.shared_covariance(1.0, epsilon))
    else:
        metric = left_out.metric(base, planes, shrinkage)
    _, temperature = left_out.cross_entropy(metric)
    return temperature


def _groups(lengths: tuple[int, ...], n_others: int) -> Iterator[tuple[range, list[int], slice]]:
    """Yield some classes at a time, their numbers of rows, and the positions of these rows.

    Their products with `n_others` vectors take limited memory, however many classes there are.
    """
    together = max(1, NUMBERS_TOGETHER // max(1, n_others * max(lengths, default=0)))
    for first in range(0, len(lengths), together):
        classes = range(len(lengths))[first : first + together]
        some, start = [lengths[c] for c in classes], sum(lengths[:first])
        yield classes, some, slice(start, start + sum(some))


def _sums(squares: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """Return the sums over the columns of each class; classes of one length are summed together."""
    runs = [(len(list(same)), length) for length, same in groupby(lengths)]
    parts = torch.split(squares, [n * length for n, length in runs], 1)
    sums = [part.reshape(part.shape[0], *run).sum(2) for part, run in zip(parts, runs, strict=True)]
    return torch.cat(sums, 1)


def _own_axes(
    gaussians: ClassGaussians, base: DiagonalPlusGram, shrinkage: float, means: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return own axes, their responses to the means, and halves of the log-determinants."""
    halves = torch.zeros_like(gaussians.weights)
    if shrinkage == 1.0:
        return gaussians.rows[:0], means[:0, 0], halves
    shifts = torch.split(torch.empty_like(gaussians.rows[:, 0]), list(gaussians.lengths))
    for classes, lengths, part in _groups(gaussians.lengths, means.shape[1]):
        rows = gaussians.rows[part]
        both = (torch.split(one, lengths) for one in (rows, base.solve(rows)))
        for c, own, solved in zip(classes, *both, strict=True):
            factor = ((1.0 - shrinkage) / gaussians.weights[c]).sqrt()
            system = (own @ solved.T).mul_(factor.square())
            system.diagonal().add_(1.0)
            lower = cholesky(system, name=f"the covariance of class {c}")
            solved *= factor
            torch.linalg.solve_triangular(lower, solved, upper=False, out=own)
            torch.mv(own, means[c], out=shifts[c])
            halves[c] = lower.diagonal().log().sum()
    return gaussians.rows, torch.cat(shifts), halves
