"""Ridge penalties of the blocks of features: inputs, shared band and trained neurons."""

from collections.abc import Sequence

import torch

from ..features.feature_map import Blocks
from .gaussians import ClassGaussians

__all__ = ["block_penalties", "separation_energy"]

# Power of the class separation of a block in its energy.
_SEPARATION_POWER = 2

# Energy of the inputs relative to the shared band's, if pairs depend on their two classes alone.
_FIXED_INPUT_ENERGY = 0.25

# Energy of trained neurons relative to all other features; they separate the samples of their fit
# better than new samples.
_BAND_ENERGY = 0.001

# Spread, relative to the energy of the features that it is compared with, that counts as rounding.
_ROUNDING_SHARE = 1e-24


def block_penalties(
    gaussians: ClassGaussians,
    blocks: Blocks,
    *,
    pooled: bool,
    input_energy: float | None = None,
) -> torch.Tensor:
    """Return the weight of each feature's ridge, from the moments of the classes.

    The ridge of an input is proportional to its variance within the classes, plus the median
    variance of all inputs. So the unit of an input has little influence, and inputs that hardly
    vary do not count more than others. The inputs and the shared band are weighted by their class
    separation: the energy of a block is the square of its Calinski-Harabasz index relative to the
    larger index. Trained neurons get a fixed share of the spread of all other features. None of
    these rules depends on the scale of all inputs or on the order of the classes.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes over the features that the classifier sees; their penalties play no part.
    blocks : Blocks
        Blocks of these features.
    pooled : bool
        Whether penalties may depend on all classes; if not, all inputs have one penalty, which is
        fixed beside a shared band.
    input_energy : float or None, default=None
        Energy of the inputs as a multiple of the shared band's; None applies these rules.

    Returns
    -------
    Tensor of shape (d,)
        The penalty of a feature of energy s^2, or multiplied by s, is 1 / s^2.

    References
    ----------
    T. Calinski and J. Harabasz. A dendrite method for cluster analysis. Communications in
    Statistics 3(1), 1974.
    """
    inputs, shared = slice(0, blocks.n_inputs), slice(blocks.n_inputs, blocks.n_fixed)
    bands = slice(blocks.n_fixed, None)
    penalties = torch.ones_like(gaussians.penalties)
    within, between = _spreads(gaussians)
    sizes = gaussians.weights @ gaussians.means.square()
    if pooled:
        penalties[inputs] = _column_penalties(within[inputs], sizes[inputs])
    if blocks.n_inputs and blocks.n_shared:
        if input_energy is None and pooled:
            input_energy = separation_energy(gaussians, blocks)
        elif input_energy is None:
            input_energy = _FIXED_INPUT_ENERGY
        penalties[inputs] *= max(1.0, 1.0 / input_energy)
        penalties[shared] *= max(1.0, input_energy)
    spread = (within + between) / penalties
    trained, rest = spread[bands].sum(), spread[: blocks.n_fixed].sum()
    rounding = _ROUNDING_SHARE * (rest + (sizes / penalties)[: blocks.n_fixed].sum())
    if trained > rounding and rest > 0.0:
        penalties[bands] = trained / rest / _BAND_ENERGY
    return penalties


def separation_energy(gaussians: ClassGaussians, blocks: Blocks) -> float:
    """Return the energy of the inputs as a multiple of the shared band's, by class separation.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes over the features that the classifier sees; their penalties play no part.
    blocks : Blocks
        Blocks of these features: inputs, and a shared band.

    Returns
    -------
    float
        Positive; 1 if the separation of a block is undefined.
    """
    within, between = _spreads(gaussians)
    sizes = gaussians.weights @ gaussians.means.square()
    inputs, shared = slice(0, blocks.n_inputs), slice(blocks.n_inputs, blocks.n_fixed)
    penalties = torch.ones_like(within)
    penalties[inputs] = _column_penalties(within[inputs], sizes[inputs])
    separation = _separations(
        within / penalties, between / penalties, sizes / penalties, [inputs, shared]
    )
    return float(separation[0] / separation[1]) ** _SEPARATION_POWER


def _spreads(gaussians: ClassGaussians) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scatter of each feature within the classes, and between their means."""
    weights = gaussians.weights
    centre = weights @ gaussians.means / weights.sum()
    within = gaussians.energies.sum(0) + gaussians.residuals.sum(0)
    return within, weights @ (gaussians.means - centre).square()


def _column_penalties(within: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """Return the penalty of each input, which leaves the sum of the spreads as it is.

    Inputs that are constant within the classes have no part in the median.
    """
    varying = within[within > _ROUNDING_SHARE * sizes]
    if not len(varying):
        return torch.ones_like(within)
    penalties = within + varying.median()
    return penalties * ((within / penalties).sum() / within.sum())


def _separations(
    within: torch.Tensor, between: torch.Tensor, sizes: torch.Tensor, blocks: Sequence[slice]
) -> torch.Tensor:
    """Return the Calinski-Harabasz index of each block, up to a common factor.

    All blocks get the same index if any is zero but for rounding or undefined, as for one class.
    """
    ratios = torch.stack([between[block].sum() for block in blocks])
    spread = torch.stack([within[block].sum() for block in blocks])
    rounding = _ROUNDING_SHARE * torch.stack([sizes[block].sum() for block in blocks])
    if bool((ratios > rounding).all() & (spread > 0.0).all()):
        return ratios / spread
    return torch.ones_like(spread)
