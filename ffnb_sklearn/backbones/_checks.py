"""Checks on what goes into a network and what comes out."""

from collections.abc import Sized

import numpy as np
import torch


class NonFiniteFeaturesError(ValueError):
    """A backbone turned finite rows into NaN or infinite features."""


class NonFiniteLossError(ValueError):
    """The loss of a training became NaN or infinite."""


class RandomFeaturesWarning(UserWarning):
    """A backbone has weights that were drawn at random and never trained."""


def scaling_constant(name, value, shape):
    """Check `mean` or `std`, and shape it to broadcast over inputs.

    Parameters
    ----------
    name : {"mean", "std"}
        Which of the two it is.
    value : float or array-like of shape (n_channels,)
        What the user gave.
    shape : tuple of int
        Shape of one input, channels first.

    Returns
    -------
    ndarray of shape (n_channels or 1, 1, ...)
        As many axes as `shape` has.

    Raises
    ------
    ValueError
        If there is not one value per channel, or a value makes no sense.
    """
    values = np.asarray(value, dtype=np.float64)
    if values.shape not in ((), shape[:1]):
        raise ValueError(
            f"{name} must be a number or hold one value for each of the {shape[0]} channels; "
            f"got shape {values.shape}."
        )
    if not np.isfinite(values).all() or (name == "std" and (values <= 0).any()):
        raise ValueError(
            f"{name} must be finite{' and positive' if name == 'std' else ''}; got {value!r}."
        )
    return values.reshape(-1, *(1,) * (len(shape) - 1))


def check_output(output, n_rows, source="backbone"):
    """Refuse an output that is no tensor of one row per input.

    Parameters
    ----------
    output : object
        What a network or a layer put out.
    n_rows : int
        Number of rows that went in.
    source : str, default="backbone"
        What put it out, for the message.

    Returns
    -------
    torch.Tensor of shape (n_rows, ...)
        The output.

    Raises
    ------
    TypeError, ValueError
        If it is anything else.
    """
    if not isinstance(output, torch.Tensor):
        raise TypeError(
            f"{source} must put out a tensor of one row per input; got an instance of "
            f"{type(output).__name__}."
        )
    if output.ndim == 0 or len(output) != n_rows:
        raise ValueError(
            f"{source} must put out one row per input; got shape {tuple(output.shape)} for "
            f"{n_rows} inputs."
        )
    return output


def check_features(output, n_rows, first_row):
    """Bring the features of one batch to the CPU, and check them.

    Parameters
    ----------
    output : torch.Tensor of shape (n_rows, n_features_out)
        Features on any device.
    n_rows : int
        Number of rows that went in.
    first_row : int
        Position of the first of them in X, for the message.

    Returns
    -------
    ndarray of shape (n_rows, n_features_out)
        One row of features per input.

    Raises
    ------
    NonFiniteFeaturesError
        If it holds NaN or infinite values.
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
    """Whether something has elements that can be counted before they are read."""
    # Arrays of no dimension have a length by their type, but raise where it is asked for.
    return isinstance(values, Sized) and np.iterable(values)


def differing_pair(rows):
    """Pick the first row and one that differs from it, to see whether they mix in a network.

    The last that differs is taken: rows that lie far apart are less alike. Where there is
    none, it is the first with every second of its values halved, or ones instead of zeros.
    So integers stay integers between zero and what they were, which bytes of images and
    indices of an embedding must, and no value changes its sign.

    Parameters
    ----------
    rows : ndarray or ImageSource of shape (n_rows, n_features)
        Finite rows, read one by one.

    Returns
    -------
    ndarray of shape (2, n_features)
        The pair, of the dtype of the rows.
    """
    first = rows[:1][0]
    others = (rows[i : i + 1][0] for i in range(len(rows) - 1, 0, -1))
    other = next((row for row in others if not np.array_equal(row, first)), None)
    return np.stack([first, _altered(first) if other is None else other])


def _altered(row):
    """Return a copy of a row that differs from it, with values that are as plausible."""
    altered = row.copy()
    # Not all values: a network that scales each row to one length would not notice.
    chosen = np.flatnonzero(row)[::2]
    if not chosen.size:
        altered[:] = 1
        return altered
    halves = row[chosen] / 2
    altered[chosen] = halves if row.dtype.kind == "f" else np.fix(halves)
    return altered
