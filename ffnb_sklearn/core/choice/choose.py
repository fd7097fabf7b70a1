r"""The choice of shrinkage, ridge and energy of the inputs, from the classes' moments alone.

Candidates are judged by the cross-entropy of left-out samples:

a. `PooledDiscriminant`: one covariance for all classes, with the ridge 0.7, or 0.07, or 0.007;
b. `GaussianDensities`: Gaussian classes in the inputs alone, with their own covariances.

The second is simpler, and wins unless the cross-entropy of the first is clearly lower.
docs/theory/default.rst ("How shrinkage, ridge and energy are chosen") explains the formulas.
"""

from ..features import Blocks, SharedBand
from ..gaussians import ClassGaussians
from ..settings import Choice, Settings
from .densities import GaussianDensities, may_be_gaussian
from .pooled import (
    LARGEST_RIDGE,
    Judge,
    PooledDiscriminant,
    best_discriminant,
    resolution,
)

__all__ = ["choose", "separation_energy"]

# Share of the cross-entropy of Gaussian densities below which that of the discriminant is clearly
# lower. The judge is optimistic about the discriminant: with 0.8 overlapping Gaussian classes are
# recognised. From 0.7 to 0.95 no real table changes; with 0.6 classes that surround others lose.
_CLEAR_SHARE = 0.8


def choose(
    gaussians: ClassGaussians,
    blocks: Blocks,
    settings: Settings,
    shared: SharedBand,
    *,
    keeps_own: bool,
    fixed_ridge: float | None,
) -> Choice:
    """Choose the values that the settings leave open; given values are kept.

    With a shrinkage of 0, an open ridge is 0.7. Otherwise the steps are: estimate the energy of the
    inputs; search the ridge of the pooled discriminant, if it is open; compare this discriminant
    with Gaussian densities of the inputs alone, if shrinkage and ridge are open and the head keeps
    class covariances. The densities win unless the discriminant's left-out cross-entropy is clearly
    lower.

    The result does not depend on the order of the classes and their partition into tasks.
    `gaussians` has the features that the classifier sees. `keeps_own` and `fixed_ridge` are those
    of the head. Gaussian densities bring their temperature; that of the discriminant is 1 until
    `SolvedMeans.temperature` finds it.
    """
    shrinkage = settings.shrinkage
    epsilon = settings.epsilon
    if shrinkage == 0.0:
        if epsilon is None:
            epsilon = LARGEST_RIDGE
        return Choice(None, shrinkage, epsilon)
    if epsilon is None:
        epsilon = fixed_ridge
    if 0 < blocks.n_fixed < len(gaussians.penalties):
        # The moments of old classes in trained neurons are only inferred, and overestimate their
        # separation.
        gaussians = gaussians.first_features(blocks.n_fixed)
    energy = separation_energy(gaussians, blocks)
    if shrinkage is not None and epsilon is not None:
        return Choice(energy, shrinkage, epsilon)
    judge = Judge(gaussians.weigh_blocks(blocks, energy))
    is_nonlinear = keeps_own and blocks.n_shared > 0
    if epsilon is None:
        discriminant = best_discriminant(judge, is_nonlinear)
    else:
        discriminant = PooledDiscriminant(judge, LARGEST_RIDGE, is_nonlinear)
    is_open = shrinkage is None and epsilon is None and settings.covariance == "class"
    if is_open and keeps_own and may_be_gaussian(judge, blocks, shared):
        densities = GaussianDensities(judge, blocks.n_inputs, discriminant.metric)
        # Without errors of either, nothing speaks against the discriminant.
        if discriminant.entropy >= _CLEAR_SHARE * densities.entropy + resolution(gaussians):
            return densities.choice()
    return discriminant.choice(energy, shrinkage, epsilon)


def separation_energy(gaussians: ClassGaussians, blocks: Blocks) -> float:
    r"""Return the energy of the inputs as a multiple of the shared band's, by class separation.

    .. math:: \min \Bigl(1, \frac{i^2}{b^2}\Bigr)

    with the Calinski-Harabasz index of the inputs, i, and of the shared band, b. The result is 1 if
    an index is undefined, or zero up to rounding.
    """
    penalties = gaussians.weigh_blocks(blocks, 1.0).penalties
    of_inputs = gaussians.separation(slice(0, blocks.n_inputs), penalties)
    of_band = gaussians.separation(slice(blocks.n_inputs, blocks.n_fixed), penalties)
    if of_inputs == 0.0 or of_band == 0.0:
        return 1.0
    ratio = of_inputs / of_band
    return min(1.0, ratio**2)
