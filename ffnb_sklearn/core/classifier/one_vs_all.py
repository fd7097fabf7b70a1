"""One-vs-all ridge regression from the same statistics: the ablation of the pairwise classifier."""

from dataclasses import dataclass

import torch

from ..device import as_array, as_tensor
from ..linalg import DiagonalPlusGram
from ..statistics import Array
from .gaussians import ClassGaussians

__all__ = ["OneVsAllRidge", "fit_one_vs_all"]


@dataclass(frozen=True)
class OneVsAllRidge:
    """One linear function per class.

    Attributes
    ----------
    planes : ndarray of shape (C, d)
        Coefficients.
    offsets : ndarray of shape (C,)
        Intercepts.
    """

    planes: Array
    offsets: Array

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the values of the linear functions, of shape (n_samples, C)."""
        planes = as_tensor(self.planes, device=features.device)
        offsets = as_tensor(self.offsets, device=features.device)
        return torch.addmm(offsets, features, planes.T)


def fit_one_vs_all(gaussians: ClassGaussians, *, epsilon: float) -> OneVsAllRidge:
    """Regress the indicator of each class on the features, with a ridge and an intercept.

    The normal equations need no sample, only the total scatter: the scatter within the classes plus
    the scatter of their means.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes.
    epsilon : float
        Ridge, relative to the mean variance within classes.

    Returns
    -------
    OneVsAllRidge
        The linear functions.
    """
    total = gaussians.weights.sum()
    share = gaussians.weights / total
    centre = share @ gaussians.means
    from_centre = gaussians.means - centre
    rows = torch.cat([gaussians.rows / total.sqrt(), from_centre * share.sqrt()[:, None]])
    diagonal = (
        gaussians.residuals.sum(0) / total + epsilon * gaussians.ridge_unit() * gaussians.penalties
    )
    base = DiagonalPlusGram(diagonal, rows, name="the total covariance")
    planes = base.solve(from_centre * share[:, None])
    return OneVsAllRidge(as_array(planes), as_array(share - planes @ centre))
