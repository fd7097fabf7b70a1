r"""Linear algebra: Gram matrices, a Cholesky factorisation that diagnoses, solves, principal rows.

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

import warnings
from functools import lru_cache

import torch

__all__ = [
    "DiagonalPlusGram",
    "IllConditionedWarning",
    "NotPositiveDefiniteError",
    "cholesky",
    "column_energies",
    "longest_rows",
    "longest_rows_of_gram",
    "lower_gram",
    "solve_in_place",
]

# Columns of a Gram matrix that are computed together. (A routine of BLAS spares the other half by
# itself, but Torch does not offer it, and the threads of a second library get in those of Torch.)
# No power of 2, so that a column's entries do not all fall into the same lines of the cache.
_BLOCK = 272

# Diagonal shifts that are tried in turn, relative to the mean of the diagonal.
_RELATIVE_JITTERS = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)

# Directions beyond the rows asked for: a quarter as many, and so many at least.
_LEAST_OVERSAMPLING = 8

# Eigenvalues below this share of the largest are rounding.
_NEGLIGIBLE_SHARE = 1e-14


class IllConditionedWarning(UserWarning):
    """A system was solved only after its diagonal had been raised."""


class NotPositiveDefiniteError(ValueError):
    """A matrix that has to be positive definite is not, even with a raised diagonal."""


def column_energies(rows: torch.Tensor) -> torch.Tensor:
    """Sum of the squares in each column of some rows, of shape (d,)."""
    # As a product: sums down the columns take Torch several times as long.
    return rows.new_ones(len(rows)) @ rows.square()


def lower_gram(rows: torch.Tensor) -> torch.Tensor:
    """Gram matrix of some rows, of which only the lower triangle is to be read.

    Parameters
    ----------
    rows : Tensor of shape (n, d)
        R.

    Returns
    -------
    Tensor of shape (n, n)
        RR'. Of a large one most of what is above the diagonal is spared, and undefined.
    """
    if len(rows) <= _BLOCK:
        return rows @ rows.T
    gram = rows.new_empty((len(rows), len(rows)))
    for start in range(0, len(rows), _BLOCK):
        stop = start + _BLOCK
        torch.mm(rows[start:], rows[start:stop].T, out=gram[start:, start:stop])
    return gram


def cholesky(matrix: torch.Tensor, *, name: str) -> torch.Tensor:
    """Lower Cholesky factor of one or many symmetric matrices.

    A factorisation that fails is tried again with a growing shift of the diagonal, each time
    only for the matrices that need it, and the shift that was needed is warned about.

    Parameters
    ----------
    matrix : Tensor of shape (..., d, d)
        Symmetric matrices that are positive definite but for rounding; their lower triangles
        are read.
    name : str
        What the matrix is, for messages.

    Returns
    -------
    Tensor of shape (..., d, d)
        Lower triangular factors.

    Raises
    ------
    NotPositiveDefiniteError
        If an entry is not finite, or no shift up to 1e-6 of the mean diagonal helps.

    Warns
    -----
    IllConditionedWarning
        If a shift was needed.
    """
    factor: torch.Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)
    # An infinite diagonal passes the factorisation itself.
    finite = factor.diagonal(dim1=-2, dim2=-1).isfinite().all()
    if bool(finite & ~info.any()):
        return factor
    if not bool(torch.isfinite(matrix.tril()).all()):
        raise NotPositiveDefiniteError(f"{name} has entries that are NaN or infinite.")
    scale = matrix.diagonal(dim1=-2, dim2=-1).mean(-1)
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    for jitter in _RELATIVE_JITTERS:
        shift = torch.where(info > 0, jitter * scale, torch.zeros_like(scale))
        factor, failed = torch.linalg.cholesky_ex(matrix + shift[..., None, None] * identity)
        if not bool(failed.any()):
            warnings.warn(
                f"{name} was not positive definite to working precision; "
                f"{jitter:.0e} of its mean diagonal was added. A larger ridge avoids this.",
                IllConditionedWarning,
                stacklevel=2,
            )
            return factor
    raise NotPositiveDefiniteError(
        f"{name} is not positive definite, even with {_RELATIVE_JITTERS[-1]:.0e} of its mean "
        "diagonal added; a larger ridge is needed."
    )


def solve_in_place(factor: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Multiply columns by the inverse of one or many matrices that are factored.

    Parameters
    ----------
    factor : Tensor of shape (..., d, d)
        Lower Cholesky factors.
    columns : Tensor of shape (..., d, n)
        Right-hand sides, which are overwritten. Each column is best contiguous.

    Returns
    -------
    Tensor of shape (..., d, n)
        The same tensor. (Torch's own routine first copies both factors and columns.)
    """
    torch.linalg.solve_triangular(factor, columns, upper=False, out=columns)
    torch.linalg.solve_triangular(factor.mT, columns, upper=True, out=columns)
    return columns


class DiagonalPlusGram:
    r"""The matrix :math:`A = \mathrm{diag}(\delta) + c R^\top R`, ready for solving.

    With fewer rows in R than columns, A is never formed: the Woodbury identity needs only
    the Gram matrix of the rows. Columns are scaled by :math:`\delta^{-1/2}`, so that
    features of different scales do not spoil the conditioning.

    Parameters
    ----------
    diagonal : Tensor of shape (d,)
        Positive entries.
    rows : Tensor of shape (m, d)
        R.
    name : str
        What the matrix is, for messages.
    scale : float, default=1.0
        c, which is not negative.
    gram : Tensor of shape (d, d) or None, default=None
        R'R, of which the lower triangle is read, where there are no fewer rows than columns.
        It spares a scaled copy of the rows, but leaves the range of numbers sooner.
    """

    def __init__(
        self,
        diagonal: torch.Tensor,
        rows: torch.Tensor,
        *,
        name: str,
        scale: float = 1.0,
        gram: torch.Tensor | None = None,
    ) -> None:
        self._root = diagonal.sqrt()
        wide = len(rows) < rows.shape[1]
        if gram is not None and not wide:
            inner = (gram / self._root).mul_(scale / self._root[:, None])
        else:
            scaled = rows * (scale**0.5 / self._root)
            inner = lower_gram(scaled if wide else scaled.T)
        inner.diagonal().add_(1.0)
        self._factor = cholesky(inner, name=name)
        self._rows = scaled if wide else None
        if self._rows is None:
            # A system of its own: nothing is left to scale in what is solved.
            self._factor *= self._root[:, None]

    def solve(self, rows: torch.Tensor) -> torch.Tensor:
        """Each row times the inverse of A.

        Parameters
        ----------
        rows : Tensor of shape (n, d)
            Right-hand sides, one a row.

        Returns
        -------
        Tensor of shape (n, d)
            ``rows @ inv(A)``.
        """
        # In place: there may be many rows, and fresh memory for them takes time.
        if self._rows is None:
            solution = rows.clone(memory_format=torch.contiguous_format)
            return solve_in_place(self._factor, solution.T).T
        solution = rows / self._root
        inner = solve_in_place(self._factor, (solution @ self._rows.T).T)
        return solution.addmm_(inner.T, self._rows, alpha=-1.0).div_(self._root)


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
