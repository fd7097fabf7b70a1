"""Which features the classifier sees, and how much it trusts each block of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .features import FeatureMap, Index, as_slice
from .statistics import Array, ClassMoments

__all__ = ["View", "classifier_columns", "classifier_view"]

# Power of a block's class separation in the energy with which it enters.
_SEPARATION_POWER = 2

# Energy of the inputs beside the shared band where pairs may depend on their two classes alone.
_FIXED_INPUT_ENERGY = 0.25

# Energy of trained neurons beside other features, as a share of theirs: on the samples they
# were fitted to they look better than they are.
_BAND_ENERGY = 0.001


class View(NamedTuple):
    """The classifier's features.

    Attributes
    ----------
    columns : ndarray of shape (d,)
        Which of all features.
    penalties : ndarray of shape (d,)
        Weight of each one's ridge. A feature multiplied by s, or of energy s^2, has the
        penalty 1 / s^2.
    """

    columns: Index
    penalties: Array


def classifier_columns(features: FeatureMap, skip_connection: bool) -> Index:
    """Features that the classifier sees: inputs if asked for, shared band, last layer's bands."""
    inputs = features.layer(0) if skip_connection else np.empty(0, dtype=np.intp)
    last = features.layer(max((band.layer for band in features.bands), default=1))
    return np.concatenate([inputs, features.shared_columns(), last])


def classifier_view(
    features: FeatureMap,
    moments: Sequence[ClassMoments],
    *,
    skip_connection: bool,
    pooled: bool,
    input_energy: float | None = None,
) -> View:
    """Features that the classifier sees, with penalties from the classes' moments.

    Inputs and shared band share the floor by how well their classes are apart: each enters
    with the square of its Calinski-Harabasz index, relative to the better one's. Trained
    neurons enter with a fixed share of the spread of all the rest. Both rules
    are free of the inputs' scale and of the order of the classes.

    Parameters
    ----------
    features : FeatureMap
        The feature map.
    moments : sequence of ClassMoments
        Of all classes, over all features.
    skip_connection : bool
        Whether the inputs are among the features that the classifier sees.
    pooled : bool
        Whether penalties may depend on all classes; if not, inputs beside a shared band have
        a fixed one.
    input_energy : float or None, default=None
        Energy of the inputs as a multiple of the shared band's, in place of these rules.

    Returns
    -------
    View
        Columns and penalties.

    References
    ----------
    T. Calinski and J. Harabasz. A dendrite method for cluster analysis. Communications in
    Statistics 3(1), 1974.
    """
    columns = classifier_columns(features, skip_connection)
    n_inputs = features.n_inputs if skip_connection else 0
    n_fixed = n_inputs + len(features.shared_columns())
    inputs, shared, bands = (
        slice(0, n_inputs),
        slice(n_inputs, n_fixed),
        slice(n_fixed, len(columns)),
    )
    penalties = np.ones(len(columns))
    within, between = _spreads(moments, columns)
    if 0 < n_inputs < n_fixed:
        energies = np.array([_FIXED_INPUT_ENERGY, 1.0])
        if input_energy is not None:
            energies = np.array([input_energy, 1.0]) / max(input_energy, 1.0)
        elif pooled:
            separation = _separations(moments, within, between, [inputs, shared])
            energies = (separation / separation.max()) ** _SEPARATION_POWER
        penalties[inputs], penalties[shared] = 1.0 / energies
    spread = (within + between) / penalties
    trained, rest = spread[bands].sum(), spread[:n_fixed].sum()
    if trained > 0.0 and rest > 0.0:
        penalties[bands] = trained / rest / _BAND_ENERGY
    return View(columns, penalties)


def _spreads(moments: Sequence[ClassMoments], columns: Index) -> tuple[Array, Array]:
    """Scatter of each feature within the classes, and between their means."""
    weights, seen = np.array([one.weight for one in moments]), as_slice(columns)
    means = np.stack([one.mean[seen] for one in moments])
    centre = weights @ means / weights.sum()
    within = np.zeros(len(columns))
    for one in moments:
        within += np.square(one.factor[:, seen]).sum(0) + one.residual[seen]
    return within, weights @ np.square(means - centre)


def _separations(
    moments: Sequence[ClassMoments], within: Array, between: Array, blocks: Sequence[slice]
) -> Array:
    """Calinski-Harabasz index of the classes in each block, up to a common factor.

    Blocks are alike where the index says nothing: for one class, or without any spread.
    """
    ratios = np.array([between[block].sum() for block in blocks])
    spread = np.array([within[block].sum() for block in blocks])
    if not (ratios > 0.0).all() or not (spread > 0.0).all():
        return np.ones(len(blocks))
    separations: Array = ratios / spread
    return separations
