r"""The class of the highest score, from products in single precision where they suffice.

Most of a prediction are products with the own axes of all classes, which take half the time in
single precision. For a class with axes R of shape (r, d) and shifts t, the rounding errors of the
responses R x - t to a centred sample x have at most the length

.. math:: \delta = (d + 3) \, u \, (\|R\|_F \|x\| + \|t\|) ,

where u is the unit roundoff: the factors are rounded, then d products are added to t. With the
squared length q of the responses, the score is wrong by at most
:math:`\delta \sqrt{q} + \delta^2 / 2 + (r + 1) u q / 2` [1]_. Classes that differ by less than both
errors are compared in double precision, so single precision changes no label.

References
----------
.. [1] N. J. Higham. Accuracy and Stability of Numerical Algorithms. SIAM, 2nd edition, 2002.
   Section 3.1.
"""

from typing import TYPE_CHECKING

import torch

from ..device import as_tensor

if TYPE_CHECKING:
    from .distances import GaussianDistances

__all__ = ["is_exact", "screened"]


def is_exact(x: torch.Tensor, fewest: int = 64) -> bool:
    """Return whether single precision rounds as it should, and pays for at least `fewest` samples.

    On a device other than a CPU it may be less exact. The conversion of the axes takes as long as
    their products with 40 samples do in double precision (1000 classes of 32 axes, 768 features).
    """
    # Torch may be set to lower precisions on CPUs too.
    precision = torch.backends.mkldnn.matmul.fp32_precision  # type: ignore[attr-defined]
    return len(x) >= fewest and x.device.type == "cpu" and precision in ("none", "ieee")


def screened(distances: "GaussianDistances", x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute scores in single precision, and find the classes that may have the highest.

    Parameters
    ----------
    distances : GaussianDistances
        The scores of C classes.
    x : Tensor of shape (n_samples, d)
        Centred samples.

    Returns
    -------
    possible : Tensor of bool of shape (n_samples, C)
        At least one class of each sample.
    linear : Tensor of shape (n_samples, C)
        The part of the scores that is computed in double precision.
    """
    linear, own = distances.terms(x, torch.float32)
    scores = torch.add(linear, own, alpha=0.5)
    unit_roundoff = 0.5 * torch.finfo(torch.float32).eps
    sizes, shifts = _own_norms(distances, x.device)
    unit = (x.shape[1] + 3) * unit_roundoff
    norms = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    slack = torch.addcmul(shifts, norms, sizes).mul_(unit)
    errors = own.sqrt().add_(slack, alpha=0.5).mul_(slack)
    sums = as_tensor([length + 1.0 for length in distances.lengths], device=torch.device("cpu"))
    errors.addcmul_(own, sums, value=0.5 * unit_roundoff)
    least = torch.sub(scores, errors).amax(1, keepdim=True)
    # Values that overflow in single precision compare as false.
    return ~(scores.add_(errors) < least), linear


def _own_norms(
    distances: "GaussianDistances", device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the Frobenius norms of the own axes of each class, and the norms of their shifts."""
    parts = [
        torch.split(as_tensor(one, device=device), list(distances.lengths))
        for one in (distances.rows, distances.shifts)
    ]
    norms = [torch.stack([torch.linalg.vector_norm(one) for one in part]) for part in parts]
    return norms[0], norms[1]
