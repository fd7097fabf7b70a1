"""How much the classifier trusts each block of the features that it sees."""

from collections.abc import Sequence

import torch

from ..features.feature_map import Blocks
from .gaussians import ClassGaussians

__all__ = ["block_penalties"]

# Power of a block's class separation in the energy with which it enters.
_SEPARATION_POWER = 2

# Energy of the inputs beside the shared band where pairs may depend on their two classes alone.
_FIXED_INPUT_ENERGY = 0.25

# Energy of trained neurons beside other features, as a share of theirs: on the samples they
# were fitted to they look better than they are.
_BAND_ENERGY = 0.001

# Their spread is rounding if it is no more than this share of the energy of all the rest.
_ROUNDING_SHARE = 1e-24


def block_penalties(
    gaussians: ClassGaussians,
    blocks: Blocks,
    *,
    pooled: bool,
    input_energy: float | None = None,
) -> torch.Tensor:
    """Weight of each feature's ridge, from the classes' moments.

    Inputs and shared band share the floor by how well their classes are apart: each enters
    with the square of its Calinski-Harabasz index, relative to the better one's. Trained
    neurons enter with a fixed share of the spread of all the rest. Both rules
    are free of the inputs' scale and of the order of the classes.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes over the features that the classifier sees; their penalties play no part.
    blocks : Blocks
        What these features are.
    pooled : bool
        Whether penalties may depend on all classes; if not, inputs beside a shared band have
        a fixed one.
    input_energy : float or None, default=None
        Energy of the inputs as a multiple of the shared band's, in place of these rules.

    Returns
    -------
    Tensor of shape (d,)
        A feature multiplied by s, or of energy s^2, has the penalty 1 / s^2.

    References
    ----------
    T. Calinski and J. Harabasz. A dendrite method for cluster analysis. Communications in
    Statistics 3(1), 1974.
    """
    inputs, shared = slice(0, blocks.n_inputs), slice(blocks.n_inputs, blocks.n_fixed)
    bands = slice(blocks.n_fixed, None)
    penalties = torch.ones_like(gaussians.penalties)
    within, between = _spreads(gaussians)
    if blocks.n_inputs and blocks.n_shared:
        energies = within.new_tensor([_FIXED_INPUT_ENERGY, 1.0])
        if input_energy is not None:
            energies = within.new_tensor([input_energy, 1.0]) / max(input_energy, 1.0)
        elif pooled:
            separation = _separations(within, between, [inputs, shared])
            energies = (separation / separation.max()) ** _SEPARATION_POWER
        penalties[inputs], penalties[shared] = 1.0 / energies
    spread = (within + between) / penalties
    trained, rest = spread[bands].sum(), spread[: blocks.n_fixed].sum()
    sizes = gaussians.weights @ gaussians.means.square() / penalties
    rounding = _ROUNDING_SHARE * (rest + sizes[: blocks.n_fixed].sum())
    if trained > rounding and rest > 0.0:
        penalties[bands] = trained / rest / _BAND_ENERGY
    return penalties


def _spreads(gaussians: ClassGaussians) -> tuple[torch.Tensor, torch.Tensor]:
    """Scatter of each feature within the classes, and between their means."""
    weights = gaussians.weights
    centre = weights @ gaussians.means / weights.sum()
    within = gaussians.energies.sum(0) + gaussians.residuals.sum(0)
    return within, weights @ (gaussians.means - centre).square()


def _separations(
    within: torch.Tensor, between: torch.Tensor, blocks: Sequence[slice]
) -> torch.Tensor:
    """Calinski-Harabasz index of the classes in each block, up to a common factor.

    Blocks are alike where the index says nothing: for one class, or without any spread.
    """
    ratios = torch.stack([between[block].sum() for block in blocks])
    spread = torch.stack([within[block].sum() for block in blocks])
    if bool((ratios > 0.0).all() & (spread > 0.0).all()):
        return ratios / spread
    return torch.ones_like(spread)
