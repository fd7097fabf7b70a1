"""The shared band: random neurons that are drawn once and that no task changes."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from .device import as_tensor
from .statistics import Array

__all__ = ["SharedBand", "draw_shared_band"]

# Of so many neurons one has a bias.
_NEURONS_PER_BIASED = 4


@dataclass(frozen=True)
class SharedBand:
    r"""Random neurons over the inputs, all homogeneous: at any scale of x they say the same.

    A neuron responds with :math:`r \cdot x + b \|x\|`.

    Attributes
    ----------
    rows : ndarray of shape (n_neurons, n_inputs + 1)
        r and, last, b.
    mirrored : bool
        Whether each neuron is the sum of two mirrored ReLUs, `|z|`, or one ReLU. Where the
        classifier also sees the inputs, they carry the linear part of
        relu(z) = (z + abs(z)) / 2, and only the other is worth adding.
    """

    rows: Array
    mirrored: bool

    @classmethod
    def empty(cls, n_inputs: int) -> "SharedBand":
        """A band without neurons."""
        return cls(np.empty((0, n_inputs + 1)), mirrored=False)

    def __len__(self) -> int:
        return len(self.rows)

    def without_neurons(self) -> "SharedBand":
        """The band without its neurons."""
        return replace(self, rows=self.rows[:0])

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Outputs of shape (n_samples, n_neurons) for inputs of shape (n_samples, n_inputs)."""
        norms = torch.linalg.vector_norm(X, dim=1, keepdim=True)
        response = torch.cat([X, norms], dim=1) @ as_tensor(self.rows, device=X.device).T
        # Divided by the root of 2, both have the energy of the inputs on average.
        return response.abs_().mul_(0.5**0.5) if self.mirrored else response.relu_()


def draw_shared_band(
    n_neurons: int, n_inputs: int, *, mirrored: bool, rng: np.random.Generator
) -> SharedBand:
    r"""Draw a shared band.

    Rows over the inputs are :math:`r \sim N(0, 2 I / M)`. With that variance the M rectified
    neurons carry the energy of the inputs on average, :math:`E \|\mathrm{relu}(Rx)\|^2 =
    \|x\|^2`. A quarter of the neurons have the bias :math:`b \|x\|`, with r and b of half that
    variance.

    Parameters
    ----------
    n_neurons, n_inputs : int
        M and the width of psi_0.
    mirrored : bool
        Whether neurons are sums of two mirrored ReLUs.
    rng : numpy.random.Generator
        Source of the draw.

    Returns
    -------
    SharedBand
        Neurons with a bias first.
    """
    rows = rng.normal(scale=np.sqrt(2.0 / max(n_neurons, 1)), size=(n_neurons, n_inputs + 1))
    n_biased = n_neurons // _NEURONS_PER_BIASED
    rows[:n_biased] *= 0.5**0.5
    rows[n_biased:, -1] = 0.0
    return SharedBand(rows, mirrored)
