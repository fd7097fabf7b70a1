"""Rows of two persons that are independent of which person is listed first."""

import numpy as np


def unordered(values, block, n_joints):
    """Replace columns that a swap of the two persons exchanges by their sum and difference.

    Both are divided by the square root of 2, so that the lengths of rows are kept. The difference
    loses its sign, which would depend on the order of the persons.

    Parameters
    ----------
    values : ndarray of shape (n_sequences, n_chunks, n_columns)
        One block of columns for two persons.
    block : str
        Name of the block.
    n_joints : int
        Number of joints of a person.

    Returns
    -------
    ndarray of shape (n_sequences, n_chunks, n_columns)
        The first of two exchanged columns is replaced by their sum, the second by the absolute
        value of their difference, both divided by the square root of 2. Other columns are
        unchanged.
    """
    swapped = _swapped(block, values.shape[-1], n_joints)
    first, second = _exchanged(swapped)
    result = values.copy()
    a, b = values[..., first], values[..., second]
    result[..., first], result[..., second] = (a + b) / np.sqrt(2), np.abs(a - b) / np.sqrt(2)
    return result


def unordered_names(columns, block, n_joints):
    """Name each column of `unordered` after the two columns that it is computed from."""
    first, second = _exchanged(_swapped(block, len(columns), n_joints))
    names = np.array(columns, dtype=object)
    names[first] = [f"{columns[i]}+{columns[j]}" for i, j in zip(first, second, strict=True)]
    names[second] = [f"{columns[i]}-{columns[j]}" for i, j in zip(first, second, strict=True)]
    return list(names)


def _swapped(block, n_columns, n_joints):
    """Return, for each column of a chunk, the column that replaces it if persons are swapped."""
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
