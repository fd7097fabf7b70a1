"""Positive definite systems: a Cholesky factorisation that diagnoses, and structured solves."""

import warnings

import torch

__all__ = [
    "DiagonalPlusGram",
    "IllConditionedWarning",
    "NotPositiveDefiniteError",
    "cholesky",
]

# Diagonal shifts that are tried in turn, relative to the mean of the diagonal.
_RELATIVE_JITTERS = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)


class IllConditionedWarning(UserWarning):
    """A system was solved only after its diagonal had been raised."""


class NotPositiveDefiniteError(ValueError):
    """A matrix that has to be positive definite is not, even with a raised diagonal."""


def cholesky(matrix: torch.Tensor, *, name: str) -> torch.Tensor:
    """Lower Cholesky factor of one or many symmetric matrices.

    A factorisation that fails is tried again with a growing shift of the diagonal, each time
    only for the matrices that need it, and the shift that was needed is warned about.

    Parameters
    ----------
    matrix : Tensor of shape (..., d, d)
        Symmetric matrices that are positive definite but for rounding.
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
    if not bool(torch.isfinite(matrix).all()):
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


class DiagonalPlusGram:
    r"""The matrix :math:`A = \mathrm{diag}(\delta) + R^\top R`, ready for solving.

    With fewer rows in R than columns, A is never formed: the Woodbury identity needs only
    the Gram matrix of the rows. Columns are first scaled by :math:`\delta^{-1/2}`, so that
    features of different scales do not spoil the conditioning.

    Parameters
    ----------
    diagonal : Tensor of shape (d,)
        Positive entries.
    rows : Tensor of shape (m, d)
        R.
    name : str
        What the matrix is, for messages.
    gram : Tensor of shape (d, d) or None, default=None
        R'R where it is known and there are no fewer rows than columns.
    """

    def __init__(
        self,
        diagonal: torch.Tensor,
        rows: torch.Tensor,
        *,
        name: str,
        gram: torch.Tensor | None = None,
    ) -> None:
        self._root = diagonal.sqrt()
        self._wide = len(rows) < rows.shape[1]
        if not self._wide and gram is not None:
            gram = gram / self._root / self._root[:, None]
        else:
            scaled = rows / self._root
            gram = scaled @ scaled.T if self._wide else scaled.T @ scaled
        gram.diagonal().add_(1.0)
        self._factor = cholesky(gram, name=name)
        self._rows = scaled if self._wide else None

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
        scaled = rows / self._root
        if self._rows is None:
            solution = torch.cholesky_solve(scaled.T, self._factor).T
        else:
            inner = torch.cholesky_solve(self._rows @ scaled.T, self._factor)
            solution = scaled - inner.T @ self._rows
        return solution / self._root
