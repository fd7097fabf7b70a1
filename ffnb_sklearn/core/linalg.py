r"""Linear algebra: Cholesky factors with diagnosis, solves, principal rows.

Principal rows of :math:`S = R^\top R` are its eigenvectors, each times the root of its eigenvalue.
The longest few rows of a large scatter come from a randomised subspace iteration (N. Halko, P. G.
Martinsson and J. A. Tropp. Finding structure with randomness. SIAM Review 53(2), 2011). Strong axes
are exact; axes that differ little from the next ones are mixed. The result is a function of S and
of the random directions.
"""

import warnings
from collections.abc import Callable
from functools import lru_cache

import torch

from .messages import level_of_user

# The tolerances of the core. A length is a root of a sum of squares, and an energy is its square.

# Difference of two values of an input, relative to the values, that counts as rounding: a few units
# in the last place.
VALUE_ROUNDING = 1e-15

# Length of a difference of vectors, relative to the vectors, that counts as rounding: a product
# over thousands of columns has errors of up to 1e-13.
LENGTH_ROUNDING = 1e-12

# Energy of a difference that counts as rounding, relative to the energy of the vectors.
ENERGY_ROUNDING = LENGTH_ROUNDING**2

# Error of what depends on the root of a singular matrix, such as a cross-entropy: half of the
# digits are lost.
ROOT_ROUNDING = 1e-6

# Error of a sum of energies, relative to the sum, and of an eigenvalue, relative to the largest:
# hundreds of terms with an error of 1e-16 each.
SUM_ROUNDING = 1e-13

# Energy of a feature below which its inverse, and the products of two, leave the range of double
# precision.
LEAST_ENERGY = 1e-300

# Shifts of a diagonal that is not positive definite, relative to its mean and tried in turn. The
# first is near rounding; beyond the last the solution would be that of another problem.
_JITTERS = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)


class IllConditionedWarning(UserWarning):
    """A system was solved only after its diagonal had been raised."""


# Rows of a block of a Gram matrix; half of the products of blocks are not needed.
_BLOCK = 256


class NotPositiveDefiniteError(ValueError):
    """A matrix that has to be positive definite is not, even with a raised diagonal."""


def lower_gram(rows: torch.Tensor) -> torch.Tensor:
    """Compute RR' for rows R of shape (n, d); the result is undefined above the diagonal."""
    n_rows = len(rows)
    gram = rows.new_empty((n_rows, n_rows))
    for start in range(0, n_rows, _BLOCK):
        stop = start + _BLOCK
        block = rows[start:stop]
        torch.mm(rows[start:], block.T, out=gram[start:, start:stop])
    return gram


def cholesky(
    matrix: torch.Tensor, *, name: str, remedy: str = "a larger `epsilon`"
) -> torch.Tensor:
    """Compute the lower Cholesky factors of one or many symmetric matrices, of shape (..., d, d).

    A matrix whose factorisation fails gets a growing shift of its diagonal, with an
    `IllConditionedWarning`. Raise `NotPositiveDefiniteError`, with the `name` of the matrix, if an
    entry is not finite, or no shift up to 1e-6 of the mean diagonal helps. Both messages name the
    `remedy`.
    """
    factor: torch.Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)
    # An infinite diagonal passes the factorisation itself.
    diagonal_of_factor = factor.diagonal(dim1=-2, dim2=-1)
    is_finite = diagonal_of_factor.isfinite().all()
    has_failed = info.any()
    if bool(is_finite & ~has_failed):
        return factor
    triangle = matrix.tril()
    if not bool(torch.isfinite(triangle).all()):
        raise NotPositiveDefiniteError(f"{name} has entries that are NaN or infinite.")
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    mean_diagonal = diagonal.mean(-1)
    # Matrices that were factored remain unchanged.
    shifts = mean_diagonal * (info > 0)
    unit_shift = torch.diag_embed(shifts[..., None].expand(matrix.shape[:-1]))
    for jitter in _JITTERS:
        factor, failed = torch.linalg.cholesky_ex(matrix + jitter * unit_shift)
        if not bool(failed.any()):
            warnings.warn(
                f"{name} was not positive definite to working precision; "
                f"{jitter:.0e} of its mean diagonal was added. The remedy is {remedy}.",
                IllConditionedWarning,
                stacklevel=level_of_user(),
            )
            return factor
    raise NotPositiveDefiniteError(
        f"{name} is not positive definite, even with {_JITTERS[-1]:.0e} of its mean "
        f"diagonal added. The remedy is {remedy}."
    )


def symmetric_root(matrix: torch.Tensor) -> torch.Tensor:
    """Return the symmetric root of a positive semidefinite matrix.

    Unlike its eigenvectors, the root is a continuous function of the matrix: neither their signs
    nor their order play a part.
    """
    values, axes = torch.linalg.eigh(matrix)
    energies = values.clamp_min(0.0)
    scaled_axes = axes * energies.sqrt()
    root: torch.Tensor = scaled_axes @ axes.T
    return root


def solve_in_place(factor: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Multiply columns, of shape (..., d, n), by the inverses of factored matrices, in place."""
    # Torch's own routine copies factors and columns.
    torch.linalg.solve_triangular(factor, columns, upper=False, out=columns)
    torch.linalg.solve_triangular(factor.mT, columns, upper=True, out=columns)
    return columns


class DiagonalPlusGram:
    r"""The matrix :math:`A = \mathrm{diag}(\delta) + c R^\top R`, ready for solving.

    The columns of R, of shape (m, d), are scaled, :math:`Q = c^{1/2} R \, \mathrm{diag}
    (\delta)^{-1/2}`, which keeps the conditioning independent of the scales of the features. Then
    :math:`I + Q^\top Q` is factored or, if R has fewer rows than columns, :math:`I + Q Q^\top`,
    which the Woodbury identity needs. The entries of the diagonal are positive and the scale c is
    not negative; messages contain the `name` and the `remedy` of the matrix.

    `gram` is :math:`R^\top R` or, if R has fewer rows than columns,
    :math:`R \, \mathrm{diag}(\delta)^{-1} R^\top`; None computes it.
    """

    def __init__(
        self,
        diagonal: torch.Tensor,
        rows: torch.Tensor,
        *,
        name: str,
        remedy: str = "a larger `epsilon`",
        scale: float = 1.0,
        gram: torch.Tensor | None = None,
    ) -> None:
        self._root = diagonal.sqrt()
        self.is_wide = len(rows) < rows.shape[1]
        column_scales = scale**0.5 / self._root
        # The scaled rows, which only the Woodbury identity needs.
        self._rows = None
        if self.is_wide:
            self._rows = rows * column_scales
        if gram is not None:
            inner = self._scaled_gram(gram, scale)
        elif self._rows is not None:
            inner = lower_gram(self._rows)
        else:
            scaled_rows = rows * column_scales
            inner = lower_gram(scaled_rows.T)
        inner.diagonal().add_(1.0)
        self._factor = cholesky(inner, name=name, remedy=remedy)
        if not self.is_wide:
            # The factor of A itself.
            self._factor *= self._root[:, None]

    def _scaled_gram(self, gram: torch.Tensor, scale: float) -> torch.Tensor:
        """Return the given Gram matrix as that of the scaled rows, or of their columns."""
        if self.is_wide:
            return gram * scale
        scaled = gram / self._root
        return scaled.mul_(scale / self._root[:, None])

    def solve(self, rows: torch.Tensor) -> torch.Tensor:
        """Return ``rows @ inv(A)`` for right-hand sides of shape (n, d)."""
        # Fresh memory for many rows takes time, so they are solved in place.
        if self._rows is None:
            solution = rows.clone(memory_format=torch.contiguous_format)
            solve_in_place(self._factor, solution.T)
            return solution
        solution = rows / self._root
        products = solution @ self._rows.T
        inner = products.T
        solve_in_place(self._factor, inner)
        solution.addmm_(inner.T, self._rows, alpha=-1.0)
        return solution.div_(self._root)

    def singular_parts(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        r"""Return the singular value decomposition of rows M, of shape (K, d), in the metric of A.

        The results are the singular values s, longest first, and functions B and axes C of shape
        (k, d), for an orthogonal Q:

        .. math:: M A^{-1} M^\top = Q \, \mathrm{diag}(s)^2 Q^\top , \quad
                  M = Q \, \mathrm{diag}(s) C , \quad C = B A , \quad B A B^\top = I .

        Unlike the eigenvalues of the product, a small value keeps its digits beside a large one.
        The function and the axis of a singular value of rounding need not fulfil the equations.
        """
        whitened = self._whiten(rows)
        basis, triangle = torch.linalg.qr(whitened.T)
        _, roots, turned = torch.linalg.svd(triangle.T, full_matrices=False)
        # Whitened rows may have more columns than the rows.
        n_parts = min(rows.shape)
        functions, axes = self._unwhiten(turned[:n_parts] @ basis.T)
        return roots[:n_parts], functions, axes

    def _whiten(self, rows: torch.Tensor) -> torch.Tensor:
        r"""Return rows X times N, for a matrix with :math:`N N^\top = A^{-1}`.

        If R has fewer rows than columns, they are the residuals and the coefficients of a ridge
        regression of the scaled X on the scaled R, side by side:

        .. math:: X N = (X - Z R, Z) , \quad Z = X R^\top (I + R R^\top)^{-1} .
        """
        if self._rows is None:
            whitened: torch.Tensor = torch.linalg.solve_triangular(
                self._factor, rows.T, upper=False
            )
            return whitened.T
        scaled = rows / self._root
        products = self._rows @ scaled.T
        coefficients = solve_in_place(self._factor, products).T
        residuals = scaled - coefficients @ self._rows
        return torch.cat([residuals, coefficients], dim=1)

    def _unwhiten(self, whitened: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Return :math:`B = Y N^\top` for whitened rows Y, and C = BA, so that CN = Y."""
        if self._rows is None:
            functions = torch.linalg.solve_triangular(self._factor.T, whitened.T, upper=True)
            return functions.T, whitened @ self._factor.T
        n_columns = self._rows.shape[1]
        residuals = whitened[:, :n_columns]
        coefficients = whitened[:, n_columns:]
        axes = residuals + coefficients @ self._rows
        # The residuals alone are B up to rounding, which a sample far away would multiply.
        gaps = coefficients - residuals @ self._rows.T
        solved = solve_in_place(self._factor, gaps.T.contiguous()).T
        functions = residuals + solved @ self._rows
        return functions / self._root, axes * self._root

    def matrix(self) -> torch.Tensor:
        """Return A, of shape (d, d)."""
        if self._rows is None:
            product: torch.Tensor = self._factor @ self._factor.T
            return product
        matrix: torch.Tensor = self._rows.T @ self._rows
        matrix.diagonal().add_(1.0)
        matrix.mul_(self._root)
        return matrix.mul_(self._root[:, None])

    def inverse_parts(self) -> tuple[torch.Tensor, torch.Tensor, float]:
        r"""Return a, V and s of the inverse of A as :math:`\mathrm{diag}(a) + s V^\top V`.

        If R has fewer rows than columns, a is the inverse of the diagonal and s is -1; else a is
        zero and s is 1.
        """
        if self._rows is None:
            ones = torch.ones_like(self._root)
            identity = torch.diag_embed(ones)
            rows = torch.linalg.solve_triangular(self._factor, identity, upper=False)
            diagonal = torch.zeros_like(self._root)
            return diagonal, rows, 1.0
        rows = torch.linalg.solve_triangular(self._factor, self._rows, upper=False)
        rows.div_(self._root)
        diagonal = self._root.square()
        diagonal = diagonal.reciprocal()
        return diagonal, rows, -1.0


def longest_rows(
    rows: torch.Tensor, count: int | None = None, directions: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the longest principal rows of the scatter of rows of shape (n, d), longest first.

    A `count` of None returns all. The result is exact, unless `directions` begin a subspace
    iteration, which saves time if n and d are several times the count.
    """
    if count is None or directions is None:
        return _mix_rows(rows, count)
    length = float(torch.linalg.vector_norm(rows))
    tiny = torch.finfo(rows.dtype).tiny
    length = max(length, tiny)
    return longest_rows_of_products(rows.matmul, rows.T.matmul, length, directions, count)


def longest_rows_of_products(
    times: Callable[[torch.Tensor], torch.Tensor],
    transposed_times: Callable[[torch.Tensor], torch.Tensor],
    length: float,
    directions: torch.Tensor,
    count: int,
) -> torch.Tensor:
    r"""Return nearly the longest principal rows, given products with R and with its transpose.

    `length` is the positive root of the energy of R. From the directions :math:`\Omega` follow an
    orthonormal basis Q of :math:`R R^\top R \, \Omega` and the principal rows of :math:`Q^\top R`.
    """
    span = times(directions)
    span.div_(length)
    # Without this basis the span would have the third powers of the lengths, and the short axes
    # would disappear in the rounding of the long ones.
    basis = torch.linalg.qr(span).Q
    span_of_rows = transposed_times(basis)
    span_of_rows.div_(length)
    span = times(span_of_rows)
    basis = torch.linalg.qr(span).Q
    projected = transposed_times(basis).T
    return _mix_rows(projected.contiguous(), count)


def longest_rows_of_gram(
    gram: torch.Tensor, count: int | None = None, directions: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the longest principal rows of a scatter matrix, as `longest_rows` does for its rows.

    Without `directions` the result is exact, up to the number of rows of length zero. With them it
    is the approximation of Nystroem.
    """
    if count is None or directions is None:
        rows = _rows_of_gram(gram)
    else:
        rows = _nystroem_rows(gram, directions)
    return _mix_rows(rows, count)


def _rows_of_gram(gram: torch.Tensor) -> torch.Tensor:
    r"""Return rows R with :math:`R^\top R = G` for a positive semidefinite matrix G.

    The errors of an eigendecomposition are relative to the largest column; the errors of a Cholesky
    factor are relative to each column.
    """
    factor: torch.Tensor
    factor, info = torch.linalg.cholesky_ex(gram)
    if not info:
        return factor.T
    # The columns of a singular matrix are brought to one scale before its eigendecomposition.
    scale = gram.diagonal().sqrt()
    divisors = torch.where(scale > 0.0, scale, 1.0)
    correlations = gram / divisors / divisors[:, None]
    values, basis = torch.linalg.eigh(correlations)
    energies = values.clamp_min(0.0)
    lengths = energies.sqrt()
    rows: torch.Tensor = lengths[:, None] * basis.T
    return rows * scale


def _nystroem_rows(gram: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
    r"""Return rows R with :math:`R^\top R = G Q (Q^\top G Q)^{-1} Q^\top G`, nearly G.

    Q is an orthonormal basis of :math:`G \, \Omega` for the random directions :math:`\Omega`.
    """
    tiny = torch.finfo(gram.dtype).tiny
    trace = gram.diagonal().sum()
    energy = trace.clamp_min(tiny)
    # Divided by its trace, a matrix of any size stays in the range of double precision.
    unit_gram = gram / energy
    span = unit_gram @ directions
    basis = torch.linalg.qr(span).Q
    product = unit_gram @ basis
    inner = basis.T @ product
    values, axes = torch.linalg.eigh(inner)
    is_above_rounding = values > SUM_ROUNDING * values[-1]
    values = values[is_above_rounding]
    axes = axes[:, is_above_rounding]
    scale = (energy / values).sqrt()
    rows: torch.Tensor = axes.T @ product.T
    return rows.mul_(scale[:, None])


def is_few(n_rows: int, count: int | None) -> bool:
    """Return whether `n_rows` rows are no more than the random directions for `count` rows.

    Subspace iteration then saves no time, however many columns the rows have.
    """
    if count is None:
        return True
    return n_rows <= _n_directions(count)


def _mix_rows(rows: torch.Tensor, count: int | None) -> torch.Tensor:
    r"""Return the longest principal rows :math:`U^\top R` of the scatter of a few rows R.

    U holds the eigenvectors of :math:`R R^\top` with the largest eigenvalues; a `count` of None
    takes all.
    """
    gram = lower_gram(rows)
    _, axes = torch.linalg.eigh(gram)
    # Eigenvalues are in ascending order.
    if count is not None:
        axes = axes[:, -count:]
    longest_first = axes.flip(1)
    principal: torch.Tensor = longest_first.T @ rows
    return principal


def _n_directions(count: int, least: int = 24) -> int:
    """Return the number of random directions for `count` rows: a quarter or `least` more (Halko).

    Axes of texts have nearly equal lengths and are mixed: for 8 rows, 8 further directions change
    6 % of the labels against exact axes, and 24 further directions change 3 %.
    """
    n_further = max(count // 4, least)
    return count + n_further


@lru_cache(maxsize=4)
def random_directions(n_columns: int, count: int, device: torch.device) -> torch.Tensor:
    """Return directions for `count` longest rows, the same at every call; never write to them."""
    generator = torch.Generator().manual_seed(0)
    size = (n_columns, _n_directions(count))
    # The CPU draws, so that all devices use the same directions.
    directions = torch.randn(size, generator=generator, dtype=torch.float64, device="cpu")
    return directions.to(device)
