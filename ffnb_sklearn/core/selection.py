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

from .device import as_tensor
from .features import FeatureMap
from .gaussians import ClassGaussians
from .leave_one_out import LeaveOneOut
from .settings import Settings
from .statistics import ClassMoments
from .view import View, classifier_view

__all__ = ["Choice", "choose", "view_for"]

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

# Classes that can be judged and make up less of all samples do not speak for the others.
_LEAST_SHARE = 0.5


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


def view_for(
    features: FeatureMap, moments: Sequence[ClassMoments], settings: Settings, choice: Choice
) -> View:
    """The features that the classifier sees, with the penalties of a choice.

    Parameters
    ----------
    features : FeatureMap
        The feature map.
    moments : sequence of ClassMoments
        Of all classes, over all features.
    settings : Settings
        Whether the inputs are seen.
    choice : Choice
        The energy of the inputs, and whether pairs may depend on all classes.

    Returns
    -------
    View
        Columns and penalties.
    """
    return classifier_view(
        features,
        moments,
        skip_connection=settings.skip_connection,
        pooled=choice.shrinkage > 0.0,
        input_energy=choice.input_energy,
    )


def choose(
    features: FeatureMap,
    moments: Sequence[ClassMoments],
    settings: Settings,
    *,
    device: torch.device,
) -> Choice:
    """Choose what the settings leave open.

    Neither the order of the classes nor their partition into tasks plays a part.

    Parameters
    ----------
    features : FeatureMap
        The feature map.
    moments : sequence of ClassMoments
        Of all classes, at least one, over all features.
    settings : Settings
        With shrinkage, ridge, or both left open, or neither. The energies of the blocks are
        open as soon as one of them is.
    device : torch.device
        Where to compute.

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
    n_shared = len(features.shared_columns())
    if not settings.skip_connection and not n_shared:
        return start
    has_blocks = settings.skip_connection and n_shared > 0
    return _Search(features, moments, settings, start, device).best(
        {"input_energy": _ENERGIES if has_blocks else (None,)},
        {
            "shrinkage": _SHRINKAGES if given[0] is None else given[:1],
            "epsilon": _EPSILONS if given[1] is None else given[1:],
        },
    )


class _Search:
    """Errors of choices, each computed once."""

    def __init__(
        self,
        features: FeatureMap,
        moments: Sequence[ClassMoments],
        settings: Settings,
        start: Choice,
        device: torch.device,
    ) -> None:
        self._sources, self._device = (features, moments, settings), device
        # Old classes are only inferred in trained neurons, and look better there than they are.
        self._n_fixed = len(features.shared_columns())
        self._n_fixed += features.n_inputs if settings.skip_connection else 0
        gaussians = ClassGaussians.from_moments(moments, *self._view(start), device=device)
        if settings.shrinkage is None:
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
            # The shrinkage counts in a view only by whether there is any, and here there always is.
            energy = choice.input_energy
            if energy not in self._penalties:
                penalties = self._view(choice).penalties
                self._penalties[energy] = as_tensor(penalties, device=self._device)
            errors = self._judge.errors(self._penalties[energy], choice.shrinkage, choice.epsilon)
            weights = self._judge.weights
            self._known[choice] = float(weights @ errors / weights.sum())
        return self._known[choice]

    def _view(self, choice: Choice) -> View:
        """Inputs and shared band, with the penalties of a choice."""
        view = view_for(*self._sources, choice)
        return View(view.columns[: self._n_fixed], view.penalties[: self._n_fixed])
