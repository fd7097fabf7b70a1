"""Gram matrices and their longest principal axes, as fast as LAPACK gives them."""

import numpy as np
import torch
from scipy.linalg import blas, eigh_tridiagonal, lapack

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

    Where few are wanted of many, no others are computed: the matrix is reduced to a tridiagonal
    one by Householder reflections, whose eigenvectors are found one by one (Dhillon and
    Parlett, 2004) and turned back.

    Parameters
    ----------
    lower : Tensor of shape (n, n)
        Of which the lower triangle is read. Its memory may be written to.
    count : int or None
        How many at most; None for all.

    Returns
    -------
    values : Tensor of shape (m,)
        The largest first.
    vectors : Tensor of shape (n, m)
        One a column.

    References
    ----------
    I. S. Dhillon and B. N. Parlett. Multiple representations to compute orthogonal eigenvectors
    of symmetric tridiagonal matrices. Linear Algebra and its Applications 387, 2004.
    """
    n = len(lower)
    if lower.device.type != "cpu" or n < _FEW_OF or count is None or count > n // 2:
        values, vectors = torch.linalg.eigh(lower)
        return values.flip(0)[:count], vectors.flip(1)[:, :count]
    size = int(lapack.dsytrd_lwork(n, lower=1)[0])
    reduced, diagonal, beside, scales, _ = lapack.dsytrd(
        lower.numpy(), lower=1, lwork=size, overwrite_a=1
    )
    largest, inner = eigh_tridiagonal(
        diagonal,
        beside,
        select="i",
        select_range=(n - count, n - 1),
        check_finite=False,
        lapack_driver="stemr",
    )
    # The reflections leave the first coordinate alone, and act on the others as those of a QR
    # factorisation do.
    reflections, others = np.asfortranarray(reduced[1:, :-1]), np.asfortranarray(inner[1:])
    size = int(lapack.dormqr("L", "N", reflections, scales, others, -1)[1][0])
    turned, _, _ = lapack.dormqr("L", "N", reflections, scales, others, size, overwrite_c=1)
    vectors = torch.from_numpy(np.concatenate([inner[:1], turned]))
    return torch.from_numpy(largest).flip(0), vectors.flip(1)
