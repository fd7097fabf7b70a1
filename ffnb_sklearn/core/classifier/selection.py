r"""Shrinkage, ridge and energies of the blocks, chosen by leave-one-out error where left open.

The energies come first, then shrinkage and ridge together: each makes up for a lack of the other,
and changed in turn the first would follow from where the second starts. Classes of so many samples
that none can be left out of their moments leave all values where the search starts.

The shrinkage starts where the covariances are best on the whole: with v the squared error of a
class's covariance and :math:`\delta^2` its squared distance from the pooled one, both relative to
its own square, :math:`\|\rho \Sigma_{pooled} + (1 - \rho) \hat\Sigma - \Sigma\|^2` is least on
average for :math:`\rho = v / (v + \delta^2)`. (Ledoit and Wolf [1]_ estimate both; here the
distance is a constant, since how different the covariances are says little about how much that
helps to tell the classes apart.)

References
----------
.. [1] O. Ledoit and M. Wolf. A well-conditioned estimator for large-dimensional covariance
   matrices. Journal of Multivariate Analysis 88(2), 2004.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import torch

from ..features.feature_map import Blocks
from ..settings import Settings
from .gaussians import ClassGaussians
from .leave_one_out import LeaveOneOut
from .penalties import block_penalties

__all__ = ["Choice", "choose", "with_choice"]

# Where the search starts, which is also what stands where there is nothing to choose by. Large
# classes shrink less.
_SHRINKAGE, _EPSILON, _EPSILON_OVA = 0.5, 0.2, 0.3

# Squared distance of a covariance from the pooled one, relative to its own square.
_DISTANCE = 1.0 / 16.0

# Values that are tried, in this order. The energies are those of the inputs as a multiple of the
# shared band's, or None: by how well each block keeps the classes apart.
_ENERGIES = (None, 300.0, 10.0, 1.0, 0.1)
_SHRINKAGES = (0.1, 0.25, 0.5, 1.0)
_EPSILONS = (0.03, 0.1, 0.3, 1.0)

# Errors closer than this are alike.
_TOLERANCE = 1e-6

# Classes that can be judged and make up less of all samples do not speak for the others. (Half of
# them do, by whichever sum.)
_LEAST_SHARE = 0.5 - 1e-9


class Choice(NamedTuple):
    """What the pairs of classes are solved with.

    Attributes
    ----------
    input_energy : float or None
        Energy of the inputs as a multiple of the shared band's; None: by class separation.
    shrinkage : float
        rho.
    epsilon : float
        Ridge, relative to the mean variance within classes.
    """

    input_energy: float | None
    shrinkage: float
    epsilon: float


def with_choice(gaussians: ClassGaussians, blocks: Blocks, choice: Choice) -> ClassGaussians:
    """The classes with the penalties of a choice.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes over the features that the classifier sees.
    blocks : Blocks
        What these features are.
    choice : Choice
        The energy of the inputs, and whether pairs may depend on all classes.

    Returns
    -------
    ClassGaussians
        The same but for their penalties.
    """
    penalties = block_penalties(
        gaussians, blocks, pooled=choice.shrinkage > 0.0, input_energy=choice.input_energy
    )
    return gaussians.with_penalties(penalties)


def choose(gaussians: ClassGaussians, blocks: Blocks, settings: Settings) -> Choice:
    """Choose what the settings leave open.

    Neither the order of the classes nor their partition into tasks plays a part.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes over the features that the classifier sees.
    blocks : Blocks
        What these features are.
    settings : Settings
        With shrinkage, ridge, or both left open, or neither. The energies of the blocks are
        open as soon as one of them is.

    Returns
    -------
    Choice
        Given values are taken as they are.
    """
    given = settings.shrinkage, settings.epsilon
    one_vs_all = settings.classifier == "ova"
    start = Choice(
        None,
        _SHRINKAGE if given[0] is None else given[0],
        (_EPSILON_OVA if one_vs_all else _EPSILON) if given[1] is None else given[1],
    )
    pairs_differ = settings.covariance == "class" and start.shrinkage > 0.0
    if None not in given or one_vs_all or not pairs_differ:
        return start
    if not blocks.n_fixed:
        return start
    both = min(blocks) > 0
    # Old classes are only inferred in trained neurons, and look better there than they are.
    fixed = gaussians.first(blocks.n_fixed)
    return _Search(fixed, blocks, start, open_shrinkage=given[0] is None).best(
        {"input_energy": _ENERGIES if both else (None,)},
        {
            "shrinkage": _SHRINKAGES if given[0] is None else given[:1],
            "epsilon": _EPSILONS if given[1] is None else given[1:],
        },
    )


class _Search:
    """Errors of choices, each computed once."""

    def __init__(
        self, gaussians: ClassGaussians, blocks: Blocks, start: Choice, *, open_shrinkage: bool
    ) -> None:
        self._gaussians, self._blocks = gaussians, blocks
        gaussians = with_choice(gaussians, blocks, start)
        if open_shrinkage:
            error = float(gaussians.covariance_errors().mean())
            start = start._replace(shrinkage=min(start.shrinkage, error / (error + _DISTANCE)))
        self._start = start
        self._judge = LeaveOneOut(gaussians)
        judged = float(self._judge.weights.sum())
        self._speaks = judged > 0.0 and self._judge.share >= _LEAST_SHARE
        self._known: dict[Choice, float] = {}
        self._penalties: dict[float | None, torch.Tensor] = {}

    def best(self, *steps: Mapping[str, Sequence[float | None]]) -> Choice:
        """The best choice when the values of each step are tried together, or the start."""
        best = self._start
        if not self._speaks:
            return best
        for step in steps:
            for values in product(*step.values()):
                tried = dict(zip(step, values, strict=True))
                candidate = Choice(**{**best._asdict(), **tried})
                if self._error(candidate) < self._error(best) - _TOLERANCE:
                    best = candidate
        return best

    def _error(self, choice: Choice) -> float:
        """Error over the samples of the classes judged."""
        if choice not in self._known:
            # Penalties depend on the shrinkage only by whether there is any; here there always is.
            energy = choice.input_energy
            if energy not in self._penalties:
                classes = with_choice(self._gaussians, self._blocks, choice)
                self._penalties[energy] = classes.penalties
            errors = self._judge.errors(self._penalties[energy], choice.shrinkage, choice.epsilon)
            weights = self._judge.weights
            self._known[choice] = float(weights @ errors / weights.sum())
        return self._known[choice]
