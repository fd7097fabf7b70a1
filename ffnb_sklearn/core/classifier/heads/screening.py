r"""The class of the highest score, from products in single precision where they suffice.

Most of a prediction are products with the own axes of all classes, which take half the time in
single precision. For a class with axes R of shape (r, d) and shifts t, the rounding errors of the
responses R x - t to a centred sample x have at most the length

.. math:: \delta = (d + 3) \, u \, (\|R\|_F \|x\| + \|t\|) ,

where u is the unit roundoff: the factors are rounded, then d products are added to t. With the
squared length q of the responses, the score is wrong by at most
:math:`\delta \sqrt{q} + \delta^2 / 2 + (r + 1) u q / 2`. A class is certain if its score exceeds
all others by more than both errors. The scores of samples without a certain class are computed in
double precision, so single precision changes no label.

References
----------
N. J. Higham. Accuracy and Stability of Numerical Algorithms. SIAM, 2nd edition, 2002. Section 3.1.
"""

import torch

from ...device import as_tensor
from .distances import GaussianDistances

__all__ = ["certain_classes"]

# Least number of samples. The conversion of the axes to single precision takes as long as their
# products with 40 samples do in double precision (1000 classes of 32 axes, 768 features).
_FEWEST_SAMPLES = 64

# Samples whose bounds are computed together, so that they stay in the cache of the processor.
_SAMPLES_TOGETHER = 128

_UNIT_ROUNDOFF = 2.0**-24

_CPU = torch.device("cpu")


def certain_classes(distances: GaussianDistances, features: torch.Tensor) -> torch.Tensor:
    """Return the class of the highest score of each sample, or -1 if it is not certain.

    No class is certain if there are few samples or no own axes, and on a device other than a CPU,
    where single precision may be less exact.

    Parameters
    ----------
    distances : GaussianDistances
        The scores of C classes.
    features : Tensor of shape (n_samples, d)
        Samples, in double precision.

    Returns
    -------
    Tensor of int64 of shape (n_samples,)
        Positions of classes, or -1.
    """
    classes = torch.full((len(features),), -1, device=features.device)
    # Torch may be set to lower precisions on CPUs too.
    precision = torch.backends.mkldnn.matmul.fp32_precision  # type: ignore[attr-defined]
    exact = features.device.type == "cpu" and precision in ("none", "ieee")
    if len(features) < _FEWEST_SAMPLES or not len(distances.rows) or not exact:
        return classes
    terms = distances.terms(features, torch.float32)
    lengths = torch.tensor(distances.lengths, device=_CPU)
    sizes, shifts = _own_norms(distances, lengths)
    sums = (lengths + 1).double() * (0.5 * _UNIT_ROUNDOFF)
    unit = (features.shape[1] + 3) * _UNIT_ROUNDOFF
    centre = as_tensor(distances.centre, device=_CPU)
    parts = (torch.split(one, _SAMPLES_TOGETHER) for one in (*terms, features, classes))
    for scores, own, x, found in zip(*parts, strict=True):
        norm = torch.linalg.vector_norm(x - centre, dim=1, keepdim=True)
        slack = torch.addcmul(shifts, norm, sizes).mul_(unit)
        errors = slack * (own.sqrt() + 0.5 * slack) + own * sums
        least, best = torch.sub(scores, errors).max(1)
        most = (scores + errors).scatter_(1, best[:, None], -torch.inf).amax(1)
        # Values that overflow in single precision compare as false.
        found[most < least] = best[most < least]
    return classes


def _own_norms(
    distances: GaussianDistances, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the Frobenius norms of the own axes of each class, and the norms of their shifts."""
    classes = torch.repeat_interleave(lengths)
    # The squares of all rows may not fit into memory.
    rows = torch.linalg.vector_norm(as_tensor(distances.rows, device=_CPU), dim=1)
    shifts = as_tensor(distances.shifts, device=_CPU)
    sizes, shift_norms = (
        one.new_zeros(distances.n_classes).index_add_(0, classes, one.square())
        for one in (rows, shifts)
    )
    return sizes.sqrt_(), shift_norms.sqrt_()
