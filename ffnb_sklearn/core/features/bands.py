"""Rows of a new band: codes, and the closed-form initialisation [Eq. 5-7]."""

from typing import NamedTuple

import torch

from ..linalg import LENGTH_ROUNDING, DiagonalPlusGram
from .nullspace import NullSpace

__all__ = [
    "FittedRows",
    "band_codes",
    "code_ridge",
    "code_system",
    "left_out",
    "random_rows",
    "regression_rows",
]

# Ridge floor, relative to the mean energy of a feature; a smaller ridge leaves few digits of what
# a left-out sample responds (tests/core/features/test_bands.py).
_LEAST_GAMMA = 1e-4


def band_codes(
    X: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor, band_size: int
) -> torch.Tensor:
    """Coding matrix of a task: which samples each new neuron stands for.

    With one neuron per class, a neuron's code is 1 for the samples of its class and 0 for all
    others. With b of them, the class is cut into b parts of equal weight along its first
    principal axis and each neuron stands for one, or they would all be equal. A sample that
    lies across a cut belongs to both parts by its shares, so a weight of k is k repetitions.

    Parameters
    ----------
    X : Tensor of shape (n_samples, d)
        psi_0 of the task.
    targets : Tensor of shape (n_samples,)
        Number of the new class, from 0; negative for samples of classes known before.
    weights : Tensor of shape (n_samples,)
        Positive sample weights.
    band_size : int
        b, neurons per new class.

    Returns
    -------
    Tensor of shape (n_samples, n_new_classes * band_size)
        Codes in [0, 1], the neurons of a class side by side.
    """
    n_classes = int(targets.max()) + 1
    codes = X.new_zeros((len(targets), n_classes, band_size))
    for label in range(n_classes):
        members = torch.nonzero(targets == label)[:, 0]
        parts = _parts(X[members], weights[members], band_size) if band_size > 1 else 1.0
        codes[members, label] = parts
    return codes.reshape(len(targets), -1)


def _parts(X: torch.Tensor, weights: torch.Tensor, n_parts: int) -> torch.Tensor:
    """Shares of the samples of a class in parts of equal weight along its principal axis."""
    position = _principal_coordinate(X, weights)
    order = torch.argsort(position, stable=True)
    gaps = position[order].diff(prepend=position[order[:1]])
    # Repetitions of a sample form one group, so that all of them share in the same parts.
    group = (gaps > LENGTH_ROUNDING * position.abs().max()).cumsum(0)
    size = weights.new_zeros(int(group[-1]) + 1).index_add(0, group, weights[order])
    stop = size.cumsum(0)
    edges = torch.linspace(0.0, float(stop[-1]), n_parts + 1, dtype=stop.dtype, device=stop.device)
    overlap = torch.minimum(stop[:, None], edges[1:]) - torch.maximum(
        (stop - size)[:, None], edges[:-1]
    )
    shares = X.new_empty((len(X), n_parts))
    shares[order] = (overlap.clamp_min(0.0) / size[:, None])[group]
    return shares


def _principal_coordinate(X: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Coordinate of each sample along the first principal axis, of a fixed sign."""
    centred = X - weights @ X / weights.sum()
    _, _, axes = torch.linalg.svd(centred * weights.sqrt()[:, None], full_matrices=False)
    axis: torch.Tensor = axes[0]
    return centred @ axis * torch.sign(axis[axis.abs().argmax()])


class FittedRows(NamedTuple):
    """Rows of a new band, and what they give for the samples they were fitted to.

    Attributes
    ----------
    rows : Tensor of shape (n_neurons, d)
        W.
    responses : Tensor of shape (n_samples, n_neurons)
        W times each sample, as if that sample had not been among those W was fitted to.
    reach : Tensor of shape ()
        Root mean square length of the samples in the residual axes; where that is rounding, in
        all axes, and 1 where all are zero.
    magnitude : Tensor of shape ()
        Root mean square of their features, or 1 if it is zero.
    """

    rows: torch.Tensor
    responses: torch.Tensor
    reach: torch.Tensor
    magnitude: torch.Tensor


def regression_rows(
    past: torch.Tensor,
    features: torch.Tensor,
    codes: torch.Tensor,
    weights: torch.Tensor,
    null_space: NullSpace,
    gamma: float,
) -> FittedRows:
    r"""Rows that regress the codes on the residual coordinates [Eq. 6, Eq. 7].

    With the second moment :math:`S = R^\top R` and the residual axes :math:`\Phi`,

    .. math:: \alpha = (\gamma \tfrac{\mathrm{tr} S}{d} I + \Phi^\top S \Phi)^{-1}
              \Phi^\top Z^\top C, \qquad W = (\Phi \alpha)^\top .

    Where the residual axes are not formed, the same rows come from the projected R and Z'C. A
    neuron is close to its code on the very samples it was fitted to, closer than on any other;
    what sample i gives when it is left out is, with its leverage :math:`h_i`,
    :math:`(W z_i - h_i c_i) / (1 - h_i)`.

    Parameters
    ----------
    past : Tensor of shape (r, d)
        Rows of previous tasks, whose codes are zero: none for "mono" [Eq. 6], the principal
        rows of their second moment for "multi" [Eq. 7].
    features : Tensor of shape (n_samples, d)
        Z, the current task.
    codes : Tensor of shape (n_samples, n_neurons)
        C.
    weights : Tensor of shape (n_samples,)
        Sample weights. Of a sample that weighs more than 1, one repetition is left out.
    null_space : NullSpace
        The residual axes.
    gamma : float
        Ridge, relative to the mean energy of a feature.

    Returns
    -------
    FittedRows
        W and the responses without optimism.
    """
    lengths = torch.linalg.vector_norm(features, dim=1)
    energy = past.square().sum() + weights @ lengths.square()
    open_part = null_space.coordinates(features)
    moment = torch.cat([null_space.coordinates(past), open_part * weights.sqrt()[:, None]])
    system = code_system(moment, code_ridge(gamma, energy, features.shape[1]))
    rows = null_space.rows_of(system.solve((codes * weights[:, None]).T @ open_part))
    fitted = open_part @ null_space.coordinates(rows).T
    responses = left_out(system, open_part, fitted, codes, weights)
    length = _mean_length(lengths, weights)
    reach = _reach(open_part, weights, length)
    return FittedRows(rows, responses, reach, length / features.shape[1] ** 0.5)


def code_ridge(gamma: float, energy: torch.Tensor, n_features: int) -> torch.Tensor:
    """Ridge of the regression of codes, relative to the mean energy of a feature.

    Parameters
    ----------
    gamma : float
        The relative one.
    energy : Tensor of shape ()
        tr S.
    n_features : int
        d.

    Returns
    -------
    Tensor of shape ()
        A positive number.
    """
    ridge = max(gamma, _LEAST_GAMMA) * energy / n_features
    # With all features zero there is nothing to regress on: any ridge gives zero rows.
    return torch.where(ridge > 0.0, ridge, torch.ones_like(ridge))


def code_system(moment: torch.Tensor, ridge: torch.Tensor) -> DiagonalPlusGram:
    """What the regression of codes inverts.

    Parameters
    ----------
    moment : Tensor of shape (n, m)
        Rows in residual coordinates, the Gram matrix of whose columns is the second moment there.
    ridge : Tensor of shape ()
        As `code_ridge` gives it.

    Returns
    -------
    DiagonalPlusGram
        Of m columns.
    """
    name = "the moment of a band's initialisation"
    return DiagonalPlusGram(ridge.expand(moment.shape[1]), moment, name=name)


def left_out(
    system: DiagonalPlusGram,
    open_part: torch.Tensor,
    responses: torch.Tensor,
    codes: torch.Tensor,
    weights: torch.Tensor,
) -> torch.Tensor:
    """What each sample gives as if it had not been among those that rows were fitted to.

    Parameters
    ----------
    system : DiagonalPlusGram
        What the regression inverted.
    open_part : Tensor of shape (n_samples, m)
        The samples in residual coordinates.
    responses : Tensor of shape (n_samples, n_neurons)
        W z.
    codes : Tensor of shape (n_samples, n_neurons)
        C.
    weights : Tensor of shape (n_samples,)
        Sample weights. Of a sample that weighs more than 1, one repetition is left out.

    Returns
    -------
    Tensor of shape (n_samples, n_neurons)
        The formula is in `regression_rows`.
    """
    leverage = (system.solve(open_part) * open_part).sum(1) * weights.clamp_max(1.0)
    own = leverage[:, None] * codes
    left = responses - own
    # What only a sample itself has taught about it is gone without it, and not nearly so.
    left[left.abs() <= LENGTH_ROUNDING * own.abs()] = 0.0
    return left / (1.0 - leverage)[:, None]


def random_rows(
    draw: torch.Tensor, features: torch.Tensor, weights: torch.Tensor, null_space: NullSpace
) -> FittedRows:
    """Random rows in the residual axes, of unit energy on the current task.

    Parameters
    ----------
    draw : Tensor of shape (n_neurons, d)
        Standard normal numbers.
    features : Tensor of shape (n_samples, d)
        The current task.
    weights : Tensor of shape (n_samples,)
        Sample weights.
    null_space : NullSpace
        The residual axes.

    Returns
    -------
    FittedRows
        W, whose responses have a mean square of 1 on the task, or are zero where the task has
        no energy along them but for rounding.
    """
    rows = null_space.project(draw)
    length = _mean_length(torch.linalg.vector_norm(features, dim=1), weights)
    response = (weights @ (features @ rows.T).square() / weights.sum()).sqrt()
    heard = response > LENGTH_ROUNDING * length * torch.linalg.vector_norm(rows, dim=1)
    rows = torch.where(heard[:, None], rows / response[:, None], torch.zeros_like(rows))
    reach = _reach(null_space.coordinates(features), weights, length)
    return FittedRows(rows, features @ rows.T, reach, length / features.shape[1] ** 0.5)


def _reach(open_part: torch.Tensor, weights: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """Root mean square length of samples in the residual axes, or that in all where it is none."""
    lengths = torch.linalg.vector_norm(open_part, dim=1)
    reach = (weights @ lengths.square() / weights.sum()).sqrt()
    return torch.where(reach > LENGTH_ROUNDING * length, reach, length)


def _mean_length(lengths: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Root mean square of some lengths, or 1 where all are zero."""
    energy = weights @ lengths.square() / weights.sum()
    return torch.where(energy > 0.0, energy, torch.ones_like(energy)).sqrt()
