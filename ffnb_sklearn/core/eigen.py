r"""The longest principal rows of a scatter.

Principal rows of :math:`S = R^\top R` are its eigenvectors, each times the root of its eigenvalue.
Of a scatter of many rows the longest few are found by a randomised subspace iteration [1]_, which
is matrix products and little else: with random directions :math:`\Omega`, a quarter more than
rows are asked for, and an orthonormal basis U of :math:`R S \Omega`, they are the principal rows of
:math:`U^\top R`. Strong axes come out as they are, and of those that differ little from the next
ones a mixture. What such rows leave of the scatter, :math:`R^\top (I - U U^\top) R`, is positive
semi-definite, as with exact ones. They are a function of S alone: of R' with
:math:`R'^\top R' = S` they are the same.

References
----------
.. [1] N. Halko, P. G. Martinsson and J. A. Tropp. Finding structure with randomness: probabilistic
   algorithms for constructing approximate matrix decompositions. SIAM Review 53(2), 2011.
"""

from functools import lru_cache

import torch

from .linalg import lower_gram

__all__ = ["longest_rows", "longest_rows_of_gram"]

# Directions beyond the rows asked for: a quarter as many, and so many at least.
_LEAST_OVERSAMPLING = 8

# Eigenvalues below this share of the largest are rounding.
_NEGLIGIBLE_SHARE = 1e-14


def longest_rows(
    rows: torch.Tensor, count: int | None = None, *, nearly: bool = False
) -> torch.Tensor:
    """The longest principal rows of the scatter of some rows.

    Parameters
    ----------
    rows : Tensor of shape (n, d)
        R.
    count : int or None, default=None
        How many at most; None for all.
    nearly : bool, default=False
        Whether subspace iteration is to find them. It pays where both n and d are several times
        the count.

    Returns
    -------
    Tensor of shape (m, d)
        The longest first, each a mixture of the rows given. Fewer than `count` only if there are
        fewer rows.
    """
    if count is None or not nearly or len(rows) <= _n_directions(count):
        return _mixed(rows, count)
    length = torch.linalg.vector_norm(rows).clamp_min(torch.finfo(rows.dtype).tiny)
    span = (rows @ _directions(rows.shape[1], count, rows.device)).div_(length)
    span = rows @ (rows.T @ span).div_(length)
    return _mixed(torch.linalg.qr(span).Q.T @ rows, count)


def longest_rows_of_gram(
    lower: torch.Tensor, count: int | None = None, *, nearly: bool = False
) -> torch.Tensor:
    """The longest principal rows of a scatter.

    Parameters
    ----------
    lower : Tensor of shape (d, d)
        S, of which the lower triangle is read.
    count : int or None, default=None
        How many at most; None for all.
    nearly : bool, default=False
        As in `longest_rows`.

    Returns
    -------
    Tensor of shape (m, d)
        The longest first. Those of a length of zero may be missing.
    """
    if count is None or not nearly:
        values, basis = torch.linalg.eigh(lower)
        exact: torch.Tensor = values.clamp_min(0.0).sqrt()[:, None] * basis.T
        return exact[None if count is None else -count :].flip(0)
    energy = lower.diagonal().sum().clamp_min(torch.finfo(lower.dtype).tiny)
    scatter = lower / energy
    scatter = scatter.tril() + scatter.tril(-1).T
    basis = torch.linalg.qr(scatter @ _directions(len(lower), count, lower.device)).Q
    seen = scatter @ basis
    values, mixing = torch.linalg.eigh(basis.T @ seen)
    above_rounding = values > _NEGLIGIBLE_SHARE * values[-1]
    scale = (energy / values[above_rounding]).sqrt()
    return _mixed(scale[:, None] * (mixing[:, above_rounding].T @ seen.T), count)


def _mixed(rows: torch.Tensor, count: int | None) -> torch.Tensor:
    """The longest principal rows of the scatter of few rows."""
    _, basis = torch.linalg.eigh(lower_gram(rows))
    longest = basis[:, None if count is None else -count :]
    mixed: torch.Tensor = longest.flip(1).T @ rows
    return mixed


def _n_directions(count: int) -> int:
    """Random directions by which so many rows are found."""
    return count + max(count // 4, _LEAST_OVERSAMPLING)


@lru_cache(maxsize=4)
def _directions(n_columns: int, count: int, device: torch.device) -> torch.Tensor:
    """Random directions, the same at every call; not to be changed."""
    generator = torch.Generator().manual_seed(0)
    size = (n_columns, _n_directions(count))
    # Drawn by the processor, so that they are the same everywhere.
    directions = torch.randn(size, generator=generator, dtype=torch.float64, device="cpu")
    return directions.to(device)
