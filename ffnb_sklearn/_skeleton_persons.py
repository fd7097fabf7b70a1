"""Rows of two persons that do not depend on who is listed first."""

import numpy as np


def unordered(values, block, n_joints):
    """Replace columns that swapping the persons exchanges by their mean and their difference.

    Both are divided by the square root of 2 instead of 2, so that lengths of rows are kept; the
    difference loses its sign, which the order of the persons would set.

    Parameters
    ----------
    values : ndarray of shape (n_sequences, n_chunks, n_columns)
        One block of two persons.
    block : str
        Name of the block.
    n_joints : int
        Joints of a person.

    Returns
    -------
    ndarray of shape (n_sequences, n_chunks, n_columns)
        In the place of the first of two exchanged columns stands their sum, in that of the second
        the absolute value of their difference. Columns that keep their place keep their values.
    """
    swapped = _swapped(block, values.shape[-1], n_joints)
    first, second = _exchanged(swapped)
    result = values.copy()
    a, b = values[..., first], values[..., second]
    result[..., first], result[..., second] = (a + b) / np.sqrt(2), np.abs(a - b) / np.sqrt(2)
    return result


def unordered_names(columns, block, n_joints):
    """Name the columns of `unordered` after both columns that they are made of."""
    first, second = _exchanged(_swapped(block, len(columns), n_joints))
    names = np.array(columns, dtype=object)
    names[first] = [f"{columns[i]}+{columns[j]}" for i, j in zip(first, second, strict=True)]
    names[second] = [f"{columns[i]}-{columns[j]}" for i, j in zip(first, second, strict=True)]
    return list(names)


def _swapped(block, n_columns, n_joints):
    """Return for each column of a chunk the one that takes its place when persons are swapped."""
    if block not in ("distances", "distance_speed"):
        return np.arange(n_columns).reshape(2, -1)[::-1].ravel()
    upper = np.triu_indices(2 * n_joints, k=1)
    column = np.zeros((2 * n_joints, 2 * n_joints), dtype=int)
    column[upper] = np.arange(n_columns)
    column += column.T
    points = np.roll(np.arange(2 * n_joints), n_joints)
    return column[np.ix_(points, points)][upper]


def _exchanged(swapped):
    """Return the first and the second column of each exchanged pair."""
    first = np.flatnonzero(np.arange(len(swapped)) < swapped)
    return first, swapped[first]
