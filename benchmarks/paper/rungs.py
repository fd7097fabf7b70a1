"""The rungs between the published model and the default, each a few parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from _paper_settings import CIFAR, DEEP_P, FPHA, SBU, published_parameters

from ffnb_sklearn import BandTraining, FFNBClassifier

DEFAULT = FFNBClassifier(training=BandTraining()).get_params()

# The published model on each set.
PUBLISHED = {one.name: published_parameters(one) for one in (SBU, FPHA, CIFAR["S10"])}

# Parameters of an estimator that are no part of the model.
NOT_OF_THE_MODEL = {"training", "random_state", "device", "verbose", "classes_per_task"}


@dataclass(frozen=True)
class Rung:
    """A change of the model, on top of all kept rungs before it.

    Attributes
    ----------
    label : str
        Name in the table.
    to_default : tuple of str
        Parameters that get their default values.
    changes : mapping
        Parameters that get other values.
    features : str
        New features of a sequence, if not empty: those of `_paper_features.FEATURES`.
    kept : bool
        Whether later rungs stand on this one.
    """

    label: str
    to_default: tuple[str, ...] = ()
    changes: Mapping = field(default_factory=dict)
    features: str = ""
    kept: bool = True


PRINTED_SLIP = Rung(
    "printed bias, without the factor 1/2", changes={"half_bias": False}, kept=False
)
START = Rung("as_published", features="gcn-narrow")
LARGER_RIDGE = Rung("epsilon of 0.1 instead of 0.01", changes={"epsilon": 0.1}, kept=False)
SEVERAL_LAYERS = Rung("three layers instead of one", changes={"n_layers": 3}, kept=False)
LAST = Rung(
    "other defaults: p, neurons per class, rank",
    tuple(name for name in DEFAULT if name not in NOT_OF_THE_MODEL),
)
RUNGS = (
    PRINTED_SLIP,
    START,
    LARGER_RIDGE,
    Rung("relative units, gamma and rate", ("units", "gamma", "learning_rate")),
    Rung("ridge from the moments", ("epsilon",)),
    Rung("shrinkage", ("shrinkage",)),
    Rung("Gaussian old classes instead of zeros", ("old_statistics",)),
    Rung("left-out responses", ("training__left_out",)),
    Rung("cross-fitted copies", ("training__n_folds",)),
    Rung("draws of old classes", ("training__draws",)),
    Rung("patience and two standard errors", ("training__patience", "training__standard_errors")),
    SEVERAL_LAYERS,
    Rung("wide features", features="gcn"),
    Rung("skip connection", ("skip_connection",)),
    Rung("shared band", ("shared_band_size",)),
    Rung("distances to Gaussians", ("classifier",)),
    LAST,
)


def settings_of(rung, data_set):
    """Parameters and features of a rung.

    Parameters
    ----------
    rung : Rung
        One of `RUNGS`.
    data_set : str
        Name of the set.

    Returns
    -------
    parameters : dict
        Of `FFNBClassifier`, nested ones included.
    features : str
        Name of the features.
    """
    below = RUNGS[: RUNGS.index(rung)]
    parameters = FFNBClassifier.as_published(**PUBLISHED[data_set]).get_params()
    features = START.features
    for one in (*(one for one in below if one.kept), rung):
        parameters |= {name: DEFAULT[name] for name in one.to_default}
        parameters |= one.changes
        features = one.features or features
    if rung == SEVERAL_LAYERS:
        # An integer p does not fit the narrow layers above the first.
        above = [DEEP_P] * (parameters["n_layers"] - 1)
        parameters["p"] = (parameters["p"], *above)
    return {k: v for k, v in parameters.items() if k not in NOT_OF_THE_MODEL}, features


def build(parameters, seed, max_epochs=None):
    """Return an estimator of these parameters.

    Parameters
    ----------
    parameters : dict
        As `settings_of` returns them.
    seed : int
        `random_state`.
    max_epochs : int or None
        Epochs instead of those of the parameters.

    Returns
    -------
    FFNBClassifier
        Not fitted.
    """
    estimator = FFNBClassifier(training=BandTraining(), device="cpu", random_state=seed)
    estimator.set_params(**parameters)
    return estimator if max_epochs is None else estimator.set_params(max_epochs=max_epochs)
