"""Checks of the inputs and outputs of a network."""

from collections.abc import Sized

import numpy as np
import torch


class NonFiniteFeaturesError(ValueError):
    """A backbone computed NaN or infinite features from finite rows."""


class NonFiniteLossError(ValueError):
    """The loss of a training became NaN or infinite."""


class RandomFeaturesWarning(UserWarning):
    """A backbone has weights that were drawn at random and never trained."""


def check_output(output, n_rows, source="backbone"):
    """Return an output of `source`; raise unless it is a real tensor with one row per input."""
    if not isinstance(output, torch.Tensor):
        raise TypeError(
            f"{source} must return a tensor of one row per input; got an instance of "
            f"{type(output).__name__}."
        )
    if output.is_complex():
        raise TypeError(f"{source} must return real numbers; got dtype {output.dtype}.")
    if output.ndim == 0 or len(output) != n_rows:
        raise ValueError(
            f"{source} must return one row per input; got shape {tuple(output.shape)} for "
            f"{n_rows} inputs."
        )
    return output


def check_features(output, n_rows, first_row):
    """Copy the features of one batch to the CPU, and check that they are finite.

    `first_row` is the position of the first row in X, for the message.
    """
    features = output.cpu().numpy()
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if bad.size:
        raise NonFiniteFeaturesError(
            f"backbone gives NaN or infinite features for {bad.size} of {n_rows} rows of a "
            f"batch, the first of them row {first_row + bad[0]} of X."
        )
    return features


def is_sequence(values):
    """Return whether an object has a length and can be iterated over."""
    # Zero-dimensional arrays are instances of `Sized`, but `len` raises.
    return isinstance(values, Sized) and np.iterable(values)


def differing_pair(rows):
    """Return the first row and a row that differs from it, to test whether a network mixes rows.

    The second row is the last row that differs, because distant rows are less alike; rows are read
    one by one. If all rows are equal, it is a copy of the first row with every second nonzero value
    halved, or with ones if all values are zero. Integers stay integers between zero and their old
    value, as image bytes and indices of an embedding require, and no value changes its sign.
    """
    first = rows[:1][0]
    others = (rows[i : i + 1][0] for i in range(len(rows) - 1, 0, -1))
    other = next((row for row in others if not np.array_equal(row, first)), None)
    return np.stack([first, _altered(first) if other is None else other])


def _altered(row):
    """Return a changed copy of a row, with values that are as plausible."""
    altered = row.copy()
    # A network that scales each row to unit length would not notice if all values were halved.
    chosen = np.flatnonzero(row)[::2]
    if not chosen.size:
        altered[:] = 1
        return altered
    halves = row[chosen] / 2
    altered[chosen] = halves if row.dtype.kind == "f" else np.fix(halves)
    return altered
