"""Codes of a new band: the samples to which each neuron responds."""

import torch

from ..linalg import LENGTH_ROUNDING

__all__ = ["band_codes"]


def band_codes(
    X: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor, band_size: int
) -> torch.Tensor:
    """Return the coding matrix of a task: the samples to which each new neuron responds.

    With one neuron per class, the code is 1 for samples of the class and 0 for all others. With b
    neurons per class, each neuron represents a part of equal weight along the first principal axis
    of the class. A sample across a cut belongs to both parts by its shares, so a weight of k equals
    k repetitions.

    `targets` numbers the new classes from 0; it is negative for known classes. The codes, of shape
    (n_samples, n_new_classes * band_size), have the neurons of a class side by side.
    """
    n_samples = len(targets)
    n_classes = int(targets.max()) + 1
    codes = X.new_zeros((n_samples, n_classes, band_size))
    for label in range(n_classes):
        is_member = targets == label
        shares = _shares(X[is_member], weights[is_member], band_size)
        codes[is_member, label] = shares
    return codes.reshape(n_samples, -1)


def _shares(X: torch.Tensor, weights: torch.Tensor, n_parts: int) -> torch.Tensor:
    r"""Return the shares of samples in parts of equal weight along their principal axis.

    Sorted along the axis, sample i covers the interval :math:`[e_{i-1}, e_i]` with the cumulated
    weights :math:`e_i`. Its share in a part is the share of this interval within the part. Equal
    samples have one interval.
    """
    if n_parts == 1:
        return X.new_ones((len(X), 1))
    positions = _positions_along_axis(X, weights)
    order = torch.argsort(positions, stable=True)
    groups = _groups_of_equal(positions[order])
    n_groups = int(groups[-1]) + 1
    group_weights = weights.new_zeros(n_groups)
    group_weights = group_weights.index_add(0, groups, weights[order])
    ends = group_weights.cumsum(0)
    starts = ends - group_weights
    total = float(ends[-1])
    cuts = torch.linspace(0.0, total, n_parts + 1, dtype=ends.dtype, device=ends.device)
    overlap_ends = torch.minimum(ends[:, None], cuts[1:])
    overlap_starts = torch.maximum(starts[:, None], cuts[:-1])
    overlaps = overlap_ends - overlap_starts
    overlaps = overlaps.clamp_min(0.0)
    group_shares = overlaps / group_weights[:, None]
    shares = X.new_empty((len(X), n_parts))
    shares[order] = group_shares[groups]
    return shares


def _positions_along_axis(X: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the coordinates of samples along their first principal axis."""
    mean = weights @ X / weights.sum()
    deviations = X - mean
    root_weights = weights.sqrt()
    weighted_rows = deviations * root_weights[:, None]
    axis = _first_axis(weighted_rows)
    # The decomposition leaves the sign of the axis open; its largest entry is made positive.
    largest = axis.abs().argmax()
    largest_entry = axis[largest]
    positions: torch.Tensor = deviations @ axis
    return positions * torch.sign(largest_entry)


def _first_axis(rows: torch.Tensor) -> torch.Tensor:
    """Return the first principal axis of rows, from the smaller of their two Gram matrices."""
    n_rows, n_columns = rows.shape
    if n_rows >= n_columns:
        _, axes = torch.linalg.eigh(rows.T @ rows)
        last_axis: torch.Tensor = axes[:, -1]
        return last_axis
    _, combinations = torch.linalg.eigh(rows @ rows.T)
    axis: torch.Tensor = combinations[:, -1] @ rows
    # Equal samples have no axis, and a length of zero.
    length: torch.Tensor = torch.linalg.vector_norm(axis)
    return axis / length.clamp_min(torch.finfo(length.dtype).tiny)


def _groups_of_equal(positions: torch.Tensor) -> torch.Tensor:
    """Return the number of the group of each sorted position; groups differ beyond rounding."""
    gaps = positions.diff(prepend=positions[:1])
    largest_position = positions.abs().max()
    is_new_group = gaps > LENGTH_ROUNDING * largest_position
    return is_new_group.cumsum(0)
