r"""The class of the highest score, from products in single precision if they suffice.

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

from collections.abc import Sequence

import torch

__all__ = ["is_exact", "score_errors"]


def is_exact(x: torch.Tensor, fewest: int = 64) -> bool:
    """Return whether the bounds of `score_errors` hold, and `fewest` samples or more save time.

    Devices other than a CPU may round more coarsely. The conversion of the axes takes as long as
    their products with 40 samples do in double precision (1000 classes of 32 axes, 768 features).
    """
    if len(x) < fewest or x.device.type != "cpu":
        return False
    # Torch may be set to lower precisions on CPUs too.
    matmul = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    return matmul.fp32_precision in ("none", "ieee")


def score_errors(
    x: torch.Tensor,
    squares: torch.Tensor,
    rows: Sequence[torch.Tensor],
    shifts: Sequence[torch.Tensor],
) -> torch.Tensor:
    r"""Return bounds of the errors of scores, with the delta of the module's docstring.

    .. math:: \delta \sqrt{q} + \frac{\delta^2}{2} + \frac{(r + 1) \, u \, q}{2}

    Parameters
    ----------
    x : Tensor of shape (n_samples, d)
        Centred samples.
    squares : Tensor of shape (n_samples, C)
        q, the squared lengths of the responses, from products in single precision.
    rows, shifts : sequence of Tensor
        Axes of each class, of shape (r, d), and their shifts.

    Returns
    -------
    Tensor of shape (n_samples, C)
        The bounds.
    """
    eps = torch.finfo(torch.float32).eps
    unit_roundoff = 0.5 * eps
    n_terms = x.shape[1] + 3
    unit_error = n_terms * unit_roundoff
    row_norms = _norms(rows)
    shift_norms = _norms(shifts)
    sample_norms = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    delta = torch.addcmul(shift_norms, sample_norms, row_norms)
    delta.mul_(unit_error)
    errors = squares.sqrt()
    errors.add_(delta, alpha=0.5)
    errors.mul_(delta)
    n_squares = squares.new_tensor([len(axes) + 1.0 for axes in rows])
    return errors.addcmul_(squares, n_squares, value=0.5 * unit_roundoff)


def _norms(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the Frobenius norm of each tensor."""
    norms = [torch.linalg.vector_norm(tensor) for tensor in tensors]
    return torch.stack(norms)
