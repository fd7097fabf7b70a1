r"""Wide sparse inputs without a dense copy: moments, scores and likeness by sparse products.

For many samples X, only products of X and its transpose with a few dense columns are computed:

- The longest principal rows of the scatter of a class come from the subspace iteration of
  `ffnb_sklearn.core.linalg`, since :math:`(X - 1 \mu^\top) M = X M - 1 (\mu^\top M)`.
- A classifier sees samples through products with its planes and its own axes alone (`SparseRows`).
"""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import torch

from .device import as_array
from .linalg import (
    ENERGY_ROUNDING,
    VALUE_ROUNDING,
    is_few,
    longest_rows_of_products,
    random_directions,
)
from .moments import (
    ClassMoments,
    add_spare_axes,
    check_finite,
    check_weight,
    column_energies,
    moments_of,
    none_if_zero,
    norm_of_weights,
    pack_factor,
)


@runtime_checkable
class SparseInputs(Protocol):
    """Wide sparse inputs psi_0 of samples. All tensors are float64 and on the CPU."""

    def __len__(self) -> int: ...

    def sparse(self, rows: Any) -> "SparseInputs":
        """Return the inputs of some samples: a slice, or an array of sample numbers."""

    def row_bytes(self) -> Iterator[bytes]:
        """Yield the inputs of each sample as bytes, which are equal for equal inputs."""

    def times(self, columns: torch.Tensor) -> torch.Tensor:
        """Return X M for M of shape (n_inputs, k)."""

    def transposed_times(self, columns: torch.Tensor) -> torch.Tensor:
        """Return X'M for M of shape (n_samples, k)."""

    def squares_times(self, columns: torch.Tensor) -> torch.Tensor:
        """Return the product of the squared entries with M of shape (n_inputs, k)."""

    def energies(self, weights: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum of the squared deviations of each input from a centre."""

    def __getitem__(self, rows: Any, /) -> torch.Tensor:
        """Return the inputs of some samples as a dense tensor."""

    def double(self) -> torch.Tensor:
        """Return all inputs as a dense tensor."""


def moments_of_inputs(
    X: SparseInputs, weights: torch.Tensor, rank: int | None, *, with_spare: bool = False
) -> ClassMoments:
    """Return the moments of the samples of one class, few of them exactly.

    `rank` is the most rows of the factor, and more with spare axes (`add_spare_axes`). With None
    the samples become dense.
    """
    if with_spare:
        rank = add_spare_axes(rank)
    if rank is None or is_few(len(weights), rank):
        return moments_of([(X.double(), weights)], rank)
    weight = float(weights.sum())
    total = X.transposed_times(weights[:, None])[:, 0]
    mean = total / weight
    energies = X.energies(weights, mean)
    check_finite(float(energies.sum()), weight)
    check_weight(weight)
    rounding = weight * (VALUE_ROUNDING * mean).square()
    energies = torch.where(energies > rounding, energies, 0.0)
    rows = _longest_rows(X, weights, mean, energies, rank)
    residual = (energies - column_energies(rows)).clamp_min_(0.0)
    factor, lost_energies = pack_factor(rows, rank)
    truncated = none_if_zero(as_array(residual + lost_energies))
    weight_norm = norm_of_weights(weights)
    return ClassMoments(weight, weight_norm, as_array(mean), factor, truncated)


def _longest_rows(
    X: SparseInputs,
    weights: torch.Tensor,
    mean: torch.Tensor,
    energies: torch.Tensor,
    rank: int,
) -> torch.Tensor:
    r"""Return the longest principal rows of :math:`R = \mathrm{diag}(w)^{1/2} (X - 1 \mu^\top)`.

    `energies` are the squared lengths of the columns of R, and zero for columns of rounding, which
    are zero in the result.
    """
    roots = weights.sqrt()[:, None]
    varies = (energies > 0.0).to(mean.dtype)[:, None]

    def times(columns: torch.Tensor) -> torch.Tensor:
        columns = varies * columns
        products = X.times(columns) - mean @ columns
        return products.mul_(roots)

    def transposed_times(columns: torch.Tensor) -> torch.Tensor:
        scaled = roots * columns
        products = X.transposed_times(scaled)
        products.sub_(torch.outer(mean, scaled.sum(0)))
        return products.mul_(varies)

    energy = float(energies.sum())
    if energy == 0.0:
        return energies.new_empty((0, len(mean)))
    directions = random_directions(len(mean), rank, energies.device)
    rows = longest_rows_of_products(times, transposed_times, energy**0.5, directions, rank)
    is_above_rounding = rows.square().sum(1) > ENERGY_ROUNDING * energy
    return rows[is_above_rounding]


class SparseRows:
    """Wide sparse inputs less a centre, as a classifier multiplies them."""

    device = torch.device("cpu")

    def __init__(self, inputs: SparseInputs, centre: torch.Tensor | None = None) -> None:
        self._inputs = inputs
        self._centre = centre

    def __len__(self) -> int:
        return len(self._inputs)

    def __sub__(self, centre: torch.Tensor) -> "SparseRows":
        return SparseRows(self._inputs, centre)

    def __matmul__(self, columns: torch.Tensor) -> torch.Tensor:
        product = self._inputs.times(columns)
        if self._centre is None:
            return product
        return product.sub_(self._centre @ columns)

    def to(self, dtype: torch.dtype) -> "SparseRows":
        """Return the rows, which are float64."""
        return self

    def squares_times(self, column: torch.Tensor) -> torch.Tensor:
        r"""Return the product of the squared rows with a column, of shape (n_samples,).

        With the centre c, it is :math:`\sum_j m_j (x_j^2 - 2 x_j c_j + c_j^2)` for the column m.
        """
        squares = self._inputs.squares_times(column[:, None])[:, 0]
        if self._centre is None:
            return squares
        scaled_centre = column * self._centre
        products = self._inputs.times(scaled_centre[:, None])[:, 0]
        return squares - 2.0 * products + scaled_centre @ self._centre
