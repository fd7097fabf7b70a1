"""Checks on what goes into a network and what comes out."""

import numpy as np
import torch


class NonFiniteFeaturesError(ValueError):
    """A backbone turned finite rows into NaN or infinite features."""


class NonFiniteLossError(ValueError):
    """The loss of a training became NaN or infinite."""


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


def check_features(output, n_rows, first_row):
    """Flatten the output of a network for one batch, and check it.

    Parameters
    ----------
    output : torch.Tensor of shape (n_rows, ...)
        What the network put out, on any device.
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
    TypeError, ValueError
        If the output is no tensor of one row per input.
    NonFiniteFeaturesError
        If it holds NaN or infinite values.
    """
    if not isinstance(output, torch.Tensor):
        raise TypeError(
            "backbone must put out a tensor of one row per input; got an instance of "
            f"{type(output).__name__}."
        )
    if output.ndim == 0 or len(output) != n_rows:
        raise ValueError(
            f"backbone must put out one row per input; got shape {tuple(output.shape)} for "
            f"{n_rows} inputs."
        )
    features = output.reshape(n_rows, -1).cpu().numpy()
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if bad.size:
        raise NonFiniteFeaturesError(
            f"backbone gives NaN or infinite features for {bad.size} of {n_rows} rows of a "
            f"batch, the first of them row {first_row + bad[0]} of X."
        )
    return features
