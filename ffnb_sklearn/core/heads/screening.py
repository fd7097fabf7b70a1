r"""The class of the highest score, from products in single precision if they suffice.

Most of a prediction are products with the planes and own axes of all classes, which take half the
time in single precision. For a class with axes R of shape (r, d) and shifts t, the rounding errors
of the responses R x - t to a centred sample x have at most the length

.. math:: \delta = (d + 3) \, u \, (\|R\|_F \|x\| + \|t\|) ,

where u is the unit roundoff: the factors are rounded, then d products are added to t. With the
squared length q of the responses, half of q is wrong by at most
:math:`\delta \sqrt{q} + \delta^2 / 2 + (r + 1) u q / 2` [1]_. The linear part l of the score, with
the plane w and the offset b, is wrong by at most
:math:`(d + 2) \, u \, (\|w\| \|x\| + |b|) + u |l|`. Classes whose scores differ by less than the
sum of their errors are compared in double precision, so single precision changes no label.

References
----------
.. [1] N. J. Higham. Accuracy and Stability of Numerical Algorithms. SIAM, 2nd edition, 2002.
   Section 3.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

__all__ = ["SingleWeights", "is_exact"]


def is_exact(x: torch.Tensor) -> bool:
    """Return whether the bounds of `SingleWeights.errors` hold for products with samples.

    Devices other than a CPU may round more coarsely.
    """
    if x.device.type != "cpu":
        return False
    # Torch may be set to lower precisions on CPUs too.
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    return matmul.fp32_precision in ("none", "ieee")


@dataclass(frozen=True)
class SingleWeights:
    """Weights of the distances in single precision, and the norms that bound their errors.

    Attributes
    ----------
    planes, offsets, rows, shifts : Tensor
        Weights in single precision (`GaussianDistances`).
    plane_norms, row_norms, shift_norms : Tensor of shape (C,)
        Norms in double precision, of a plane, of all axes of a class, and of its shifts.
    lengths : Tensor of shape (C,)
        Number of axes of each class.
    """

    planes: torch.Tensor
    offsets: torch.Tensor
    rows: torch.Tensor
    shifts: torch.Tensor
    plane_norms: torch.Tensor
    row_norms: torch.Tensor
    shift_norms: torch.Tensor
    lengths: torch.Tensor

    @classmethod
    def of(
        cls,
        planes: torch.Tensor,
        offsets: torch.Tensor,
        rows: torch.Tensor,
        shifts: torch.Tensor,
        lengths: Sequence[int],
    ) -> "SingleWeights":
        """Round weights in double precision, and compute their norms."""
        n_rows = torch.tensor(lengths, device=rows.device)
        norms_of_rows = torch.linalg.vector_norm(rows, dim=1)
        return cls(
            planes=planes.float(),
            offsets=offsets.float(),
            rows=rows.float(),
            shifts=shifts.float(),
            plane_norms=torch.linalg.vector_norm(planes, dim=1),
            row_norms=_class_norms(norms_of_rows, n_rows),
            shift_norms=_class_norms(shifts, n_rows),
            lengths=n_rows,
        )

    def errors(self, x: torch.Tensor, linear: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
        r"""Return bounds of the errors of scores, as in the module's docstring.

        Parameters
        ----------
        x : Tensor of shape (n_samples, d)
            Centred samples.
        linear, squares : Tensor of shape (n_samples, C)
            l and q, from products in single precision.

        Returns
        -------
        Tensor of shape (n_samples, C)
            The bounds.
        """
        eps = torch.finfo(torch.float32).eps
        unit_roundoff = 0.5 * eps
        n_features = x.shape[1]
        sample_norms = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        delta = torch.addcmul(self.shift_norms, sample_norms, self.row_norms)
        delta.mul_((n_features + 3) * unit_roundoff)
        # The squared lengths: delta sqrt(q) + delta^2 / 2 + (r + 1) u q / 2.
        errors = squares.sqrt()
        errors.add_(delta, alpha=0.5)
        errors.mul_(delta)
        n_terms = self.lengths + 1.0
        errors.addcmul_(squares, n_terms, value=0.5 * unit_roundoff)
        # The linear part: (d + 2) u (|w| |x| + |b|) + u |l|, which is infinite if l overflows.
        offset_sizes = self.offsets.double().abs_()
        sizes = torch.addcmul(offset_sizes, sample_norms, self.plane_norms)
        errors.add_(sizes, alpha=(n_features + 2) * unit_roundoff)
        return errors.add_(linear.abs(), alpha=unit_roundoff)


def _class_norms(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return the norm of the values of each class, which stand one after the other."""
    classes = torch.repeat_interleave(lengths)
    sums = values.new_zeros(len(lengths))
    sums.index_add_(0, classes, values.square())
    return sums.sqrt_()
