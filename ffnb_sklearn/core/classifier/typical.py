"""Samples that are typical of the classes, drawn from the Gaussians of the inputs."""

from collections.abc import Sequence

import torch

from ..device import as_tensor
from ..features.feature_map import FeatureMap, as_slice, classifier_columns
from ..linalg import SUM_ROUNDING
from ..statistics import ClassMoments

__all__ = ["typical_samples"]

# Samples of all classes together, each with its mirror image, and most values of their features.
_N_SAMPLES, _MOST_VALUES = 256, 4e6


def typical_samples(
    features: FeatureMap,
    moments: Sequence[ClassMoments],
    classes: Sequence[int],
    *,
    skip_connection: bool,
    device: torch.device,
) -> torch.Tensor:
    """Draw samples of some classes, and compute the features that the classifier sees.

    Drawn in the features themselves, samples would be unlike all real ones: features depend on one
    another beyond their covariances.

    Parameters
    ----------
    features : FeatureMap
        The feature map.
    moments : sequence of ClassMoments
        Moments of all classes over all features.
    classes : sequence of int
        Classes of two samples or more, at least one.
    skip_connection : bool
        Whether the classifier sees the inputs.
    device : torch.device
        Device of the samples.

    Returns
    -------
    Tensor of shape (n_samples, d)
        The same number for each class.
    """
    n_samples = min(_N_SAMPLES, _MOST_VALUES / features.n_features)
    shape = 2, max(1, int(n_samples / len(classes) / 2)), features.n_inputs
    generator = torch.Generator().manual_seed(0)
    # The same for all classes, whose order must play no part.
    normal = torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu").to(device)
    parts = []
    for c in classes:
        deviations = _deviations(moments[c], features.n_inputs, normal)
        mean = as_tensor(moments[c].mean[: features.n_inputs], device=device)
        parts += [mean + deviations, mean - deviations]
    columns = as_slice(classifier_columns(features, skip_connection))
    return features(torch.cat(parts))[:, columns]


def _deviations(one: ClassMoments, n_inputs: int, normal: torch.Tensor) -> torch.Tensor:
    """Turn standard normal rows, for kept and lost axes, into deviations from the mean."""
    rows = as_tensor(one.columns(slice(0, n_inputs)), device=normal.device)
    residual = as_tensor(one.residual[:n_inputs], device=normal.device)
    if len(rows) > n_inputs:
        rows = torch.linalg.qr(rows, mode="r").R
    values, turns = torch.linalg.eigh(rows @ rows.T)
    # The symmetric root of the covariance does not depend on how its factor came.
    kept = values > SUM_ROUNDING * values[-1:]
    axes = turns[:, kept].T @ rows
    along = (normal[0] @ axes.T * values[kept].rsqrt()) @ axes
    deviations: torch.Tensor = (along + normal[1] * residual.sqrt()) / one.weight**0.5
    return deviations
