r"""Pairwise Fisher discriminants among the likeliest classes of each sample only.

With C classes there are C (C - 1) / 2 hyperplanes of d weights each: 3 GB for 1000 classes of
768 features. But a pair is, by the Woodbury identity of `pair_systems`, little more than what
its two classes bring along,

.. math:: w_{tr} \cdot x = (y_t - y_r) \cdot x - a_{tr} \cdot V_t x + a_{rt} \cdot V_r x ,
          \qquad y_c = B^{-1} \mu_c, \quad V_c = U_c B^{-1} ,

with one short vector :math:`a_{tr}` for each class of each pair. So hyperplanes are never
formed. Each class has one linear score, the sum of all its pairs before their tanh, and only the
pairs among the q classes with the highest ones are evaluated for a sample. What is left of the
linear score is what a class has against all others, who are given the tanh of its mean.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..device import as_array, as_tensor
from ..statistics import Array
from .gaussians import ClassGaussians
from .pair_systems import PairSolver, pair_system

__all__ = ["ShortlistFisher", "fit_shortlist"]

# Pair outputs of the samples scored at one time fill about this many bytes.
_SCORE_BYTES = 64e6

# Classes whose hyperplanes are summed up at one time.
_CLASSES_TOGETHER = 64


@dataclass(frozen=True)
class ShortlistFisher:
    """Pairs among the likeliest classes of each sample, from tables of what all pairs consist of.

    Where classes have fewer rows than others, there are zeros behind them.

    Attributes
    ----------
    solved_means : ndarray of shape (C, d)
        y.
    solved_rows : ndarray of shape (C, width, d)
        V.
    coefficients : ndarray of shape (C, C, width)
        a of the first class's rows against the second class.
    scales : ndarray of shape (C, C)
        What the first term of each pair is multiplied by.
    offsets : ndarray of shape (C, C)
        b of each pair.
    planes, biases : ndarray of shape (C, d) and (C,)
        Sum of all the pairs of each class, before their tanh.
    n_listed : int
        q, at most the number of classes.
    """

    solved_means: Array
    solved_rows: Array
    coefficients: Array
    scales: Array
    offsets: Array
    planes: Array
    biases: Array
    n_listed: int

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Class scores of some samples.

        Parameters
        ----------
        features : Tensor of shape (n_samples, d)
            Features that are seen.

        Returns
        -------
        Tensor of shape (n_samples, C)
            Sum of the outputs of each class's pairs. The outputs of a listed class against those
            that are not are all taken to be the tanh of their mean, which is known, and these
            to be even among themselves and to share the rest, so that scores sum to zero.
        """
        arrays = (getattr(self, name) for name in _Tables._fields)
        tables = _Tables(*(as_tensor(one, device=features.device) for one in arrays))
        chunk = max(1, int(_SCORE_BYTES / (8 * self.n_listed**2)))
        parts = torch.split(features, chunk)
        return torch.cat([_scores(tables, part, self.n_listed) for part in parts])


class _Tables(NamedTuple):
    """The arrays of `ShortlistFisher` as tensors."""

    solved_means: torch.Tensor
    solved_rows: torch.Tensor
    coefficients: torch.Tensor
    scales: torch.Tensor
    offsets: torch.Tensor
    planes: torch.Tensor
    biases: torch.Tensor


def fit_shortlist(
    gaussians: ClassGaussians,
    *,
    covariance: str,
    shrinkage: float,
    epsilon: float,
    n_listed: int,
) -> ShortlistFisher:
    """Solve all pairs of classes, and keep what they consist of in place of their hyperplanes.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes.
    covariance, shrinkage, epsilon
        As in `ffnb_sklearn.core.classifier.fisher.fit_pairwise`.
    n_listed : int
        q, at most the number of classes.

    Returns
    -------
    ShortlistFisher
        Its tables grow with the square of the number of classes.
    """
    system = pair_system(gaussians, covariance=covariance, shrinkage=shrinkage, epsilon=epsilon)
    solver = PairSolver(system, gaussians.means)
    # No class is its own opponent; alone, one without any spread would have an infinite scale.
    coefficients, scales = _coefficients(solver), (1.0 / system.scale).fill_diagonal_(0.0)
    means, rows = solver.solved_means, solver.solved_rows
    offsets = _offsets(gaussians.means, means, rows, coefficients, scales)
    planes = _planes(means, rows, coefficients, scales)
    return ShortlistFisher(
        solved_means=as_array(means),
        solved_rows=as_array(rows),
        coefficients=as_array(coefficients),
        scales=as_array(scales),
        offsets=as_array(offsets),
        planes=as_array(planes),
        biases=as_array(offsets.sum(1)),
        n_listed=n_listed,
    )


def _coefficients(solver: PairSolver) -> torch.Tensor:
    """Woodbury coefficients of each class's rows against each other class."""
    n_classes, width, _ = solver.solved_rows.shape
    table: torch.Tensor = solver.solved_rows.new_zeros((n_classes, n_classes, width))
    for t, own, others in solver.coefficients(1):
        table[t, :t] = own
        # The difference of the means has the other sign for class r.
        table[:t, t] = -others
    return table


def _offsets(
    means: torch.Tensor,
    solved_means: torch.Tensor,
    rows: torch.Tensor,
    coefficients: torch.Tensor,
    scales: torch.Tensor,
) -> torch.Tensor:
    """Offsets that put the threshold of each pair midway between its two means."""
    gram = means @ solved_means.T
    own = gram.diagonal()
    # (y_t - y_r)(m_t + m_r); the mixed terms differ by rounding alone.
    plain = scales * (own[:, None] - own + gram.T - gram)
    corrections = torch.empty_like(gram)
    for t, (row, coefficient) in enumerate(zip(rows, coefficients, strict=True)):
        seen = means @ row.T
        corrections[t] = (coefficient * (seen[t] + seen)).sum(1)
    return -0.5 * (plain - corrections + corrections.T)


def _planes(
    solved_means: torch.Tensor, rows: torch.Tensor, coefficients: torch.Tensor, scales: torch.Tensor
) -> torch.Tensor:
    """Sum of the hyperplanes of each class's pairs."""
    planes = scales.sum(1)[:, None] * solved_means - scales @ solved_means
    planes -= torch.einsum("tk,tkd->td", coefficients.sum(1), rows)
    flat = rows.flatten(0, 1)
    for part in torch.split(torch.arange(len(planes), device=planes.device), _CLASSES_TOGETHER):
        planes[part] += coefficients[:, part].transpose(0, 1).flatten(1) @ flat
    return planes


def _scores(tables: _Tables, features: torch.Tensor, n_listed: int) -> torch.Tensor:
    """Scores of some samples."""
    n_classes = len(tables.biases)
    linear = torch.addmm(tables.biases, features, tables.planes.T)
    listed = linear.topk(n_listed, dim=1).indices
    corrections = _corrections(tables, features, listed)
    level = (features @ tables.solved_means.T).gather(1, listed)
    t, r = listed[:, :, None], listed[:, None]
    outputs = level[:, :, None] - level[:, None]
    outputs *= tables.scales[t, r]
    outputs += tables.offsets[t, r]
    outputs -= corrections
    outputs += corrections.mT
    n_others = n_classes - n_listed
    others = ((linear.gather(1, listed) - outputs.sum(2)) / max(1, n_others)).tanh_()
    met = outputs.tanh_().sum(2)
    scores = -others.sum(1, keepdim=True).expand(-1, n_classes)
    return scores.scatter(1, listed, met + n_others * others)


def _corrections(tables: _Tables, features: torch.Tensor, listed: torch.Tensor) -> torch.Tensor:
    """The terms a V x of the listed classes against each other, of shape (n_samples, q, q)."""
    n_listed = listed.shape[1]
    corrections = features.new_empty((listed.numel(), n_listed))
    order = listed.flatten().argsort(stable=True)
    counts = torch.bincount(listed.flatten(), minlength=len(tables.biases)).tolist()
    for t, members in enumerate(torch.split(order, counts)):
        if len(members):
            samples = members // n_listed
            # Against all classes, listed or not: a product is faster than picking vectors.
            responses = features[samples] @ tables.solved_rows[t].T @ tables.coefficients[t].T
            corrections[members] = responses.gather(1, listed[samples])
    return corrections.reshape(len(features), n_listed, n_listed)
