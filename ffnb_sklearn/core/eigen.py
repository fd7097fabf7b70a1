"""Gram matrices and their longest principal axes, as fast as LAPACK gives them."""

import numpy as np
import torch
from scipy.linalg import blas, lapack

__all__ = ["largest_eigenpairs", "lower_gram"]

# Of smaller matrices all eigenvectors are there as soon as a few.
_FEW_OF = 64


def lower_gram(rows: torch.Tensor) -> torch.Tensor:
    """Gram matrix of some rows, of which only the lower triangle is to be read.

    Parameters
    ----------
    rows : Tensor of shape (n, d)
        R.

    Returns
    -------
    Tensor of shape (n, n)
        RR'. On the CPU half of the arithmetic is spared, and what is above the diagonal is zero.
    """
    if rows.device.type != "cpu" or not rows.numel():
        return rows @ rows.T
    array = rows.numpy()
    # BLAS wants columns; of an array that has rows it takes the transpose as it lies.
    if array.flags.f_contiguous:
        return torch.from_numpy(blas.dsyrk(1.0, array, lower=1))
    return torch.from_numpy(blas.dsyrk(1.0, array.T, trans=1, lower=1))


def largest_eigenpairs(lower: torch.Tensor, count: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest eigenvalues of a symmetric matrix, and their eigenvectors.

    Parameters
    ----------
    lower : Tensor of shape (n, n)
        Of which the lower triangle is read.
    count : int or None
        How many at most; None for all.

    Returns
    -------
    values : Tensor of shape (m,)
        The largest first.
    vectors : Tensor of shape (n, m)
        One a column.
    """
    n, pairs = len(lower), None
    if lower.device.type == "cpu" and n >= _FEW_OF and count is not None and count <= n // 2:
        pairs = _few_eigenpairs(lower, count)
    if pairs is None:
        values, vectors = torch.linalg.eigh(lower)
        pairs = values[-count:] if count else values, vectors[:, -count:] if count else vectors
    values, vectors = pairs
    return values.flip(0), vectors.flip(1)


def _few_eigenpairs(lower: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The largest eigenvalues in ascending order, and their eigenvectors, without the others.

    The matrix is reduced to a tridiagonal one by Householder reflections, whose few eigenvectors
    are found by inverse iteration and turned back. None if that does not converge, or for zeros.
    """
    n = len(lower)
    size = int(lapack.dsytrd_lwork(n, lower=1)[0])
    reduced, diagonal, beside, scales, _ = lapack.dsytrd(lower.numpy(), lower=1, lwork=size)
    scale = max(np.abs(diagonal).max(), np.abs(beside).max())
    if not scale:
        return None
    # Inverse iteration is at home near 1.
    diagonal, beside = diagonal / scale, beside / scale
    values, failed = lapack.dsterf(diagonal, beside)
    if failed:
        return None
    largest, whole = values[n - count :], np.zeros(n, dtype=np.int32)
    # The tridiagonal matrix is taken as one block, the first, which ends with its last row.
    whole[0] = n
    inner, failed = lapack.dstein(diagonal, beside, largest, np.ones_like(whole), whole)
    if failed:
        return None
    # The reflections leave the first coordinate alone, and act on the others as those of a QR
    # factorisation do.
    reflections, others = np.asfortranarray(reduced[1:, :-1]), np.asfortranarray(inner[1:])
    size = int(lapack.dormqr("L", "N", reflections, scales, others, -1)[1][0])
    turned, _, _ = lapack.dormqr("L", "N", reflections, scales, others, size, overwrite_c=1)
    return torch.from_numpy(largest * scale), torch.from_numpy(np.concatenate([inner[:1], turned]))
