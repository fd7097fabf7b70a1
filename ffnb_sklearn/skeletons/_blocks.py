"""Blocks of a skeleton descriptor: quantities of frames, averaged in temporal chunks."""

from functools import cached_property

import numpy as np
from scipy import sparse

# Factors of the blocks in a row. With lengths in units of the skeleton's own size, they give the
# blocks of hands and of bodies standard deviations of the same order; beyond that, they were chosen
# by cross-validation.
BLOCK_SCALES = {
    "joints": 1.0,
    "trajectory": 1.5,
    "distances": 1.25,
    "speed": 6.0,
    "distance_speed": 35.0,
    "spread": 5.0,
    "duration": 1.0,
}

# Velocities are changes between the frames this far before and after a frame.
_HALF_WINDOW = 2


def describe(joints, parameters):
    """Compute the blocks of a sequence of shape (n_frames, n_persons, n_joints, n_dims)."""
    frames = _Frames(joints, parameters.n_chunks, parameters.root)
    is_unordered = parameters.persons == "auto" and joints.shape[1] == 2
    columns = []
    for block in parameters.blocks:
        chunks = getattr(frames, block)()
        if is_unordered and block != "duration":
            chunks = _unordered(chunks, *_exchanged("distance" in block, chunks.shape[-1]))
        columns.append(BLOCK_SCALES[block] * chunks.ravel())
    return columns


def _chunk_means(n_frames, n_chunks):
    """Build the matrix of shape (n_chunks, n_frames) that averages the frames in equal chunks.

    Frame f of T frames covers [f, f + 1); chunk k of K chunks covers [k T/K, (k + 1) T/K). In units
    of 1/K frame all borders are integers, so the overlap is exact.
    """
    frames = n_chunks * np.arange(n_frames)
    chunks = n_frames * np.arange(n_chunks)[:, np.newaxis]
    overlap = np.minimum(frames + n_chunks, chunks + n_frames) - np.maximum(frames, chunks)
    return sparse.csr_array(np.maximum(overlap, 0) / n_frames)


class _Frames:
    """Frames of one sequence; each block is a method that returns (n_chunks, n_columns)."""

    def __init__(self, joints, n_chunks, root):
        self.means = _chunk_means(len(joints), n_chunks)
        self.all_mean = _chunk_means(len(joints), 1)
        self.root = root
        self.positions = joints
        self.positions = joints / self._size()
        self.roots = self.positions[:, :, [root]]

    def _size(self):
        """Return the size of the skeleton; 1 if all joints coincide up to rounding."""
        centred = self.positions - self.positions.mean(axis=2, keepdims=True)
        sizes = np.sqrt(np.square(centred).sum(axis=-1).mean(axis=-1)).mean(axis=-1)
        magnitudes = np.abs(self.positions).mean(axis=(1, 2, 3))
        size, magnitude = (self._average(one, self.all_mean).item() for one in (sizes, magnitudes))
        return size if size > 1e-12 * magnitude else 1.0

    def _average(self, values, means=None):
        """Average a quantity of each frame in the chunks."""
        means = self.means if means is None else means
        return means @ values.reshape(len(values), -1)

    def _speed(self, values, means=None):
        """Average the roots of the absolute changes per frame across `_HALF_WINDOW` frames."""
        now = np.arange(len(values))
        before = np.maximum(now - _HALF_WINDOW, 0)
        after = np.minimum(now + _HALF_WINDOW, len(values) - 1)
        elapsed = np.maximum(after - before, 1).reshape(-1, *(1,) * (values.ndim - 1))
        velocity = (values[after] - values[before]) / elapsed
        return self._average(np.sqrt(np.abs(velocity)), means)

    @cached_property
    def _pairs(self):
        """Distances of all pairs of joints, within and between persons: (n_frames, n_pairs)."""
        points = self.positions.reshape(len(self.positions), -1, self.positions.shape[-1])
        first, second = np.triu_indices(points.shape[1], k=1)
        squares = sum(np.square(x[:, first] - x[:, second]) for x in np.moveaxis(points, -1, 0))
        return np.sqrt(squares)

    @cached_property
    def _relative(self):
        """Positions relative to the root of the same person, without the root itself."""
        return np.delete(self.positions - self.roots, self.root, axis=2)

    def joints(self):
        """Average the positions relative to the roots."""
        return self._average(self._relative)

    def trajectory(self):
        """Average the roots relative to their mean over frames and persons."""
        return self._average(
            self.roots - self._average(self.roots.mean(axis=(1, 2)), self.all_mean)
        )

    def distances(self):
        """Average the distances of all pairs of joints."""
        return self._average(self._pairs)

    def speed(self):
        """Average the square roots of the absolute velocities of the joints."""
        return self._speed(self.positions)

    def distance_speed(self):
        """Average the square roots of the rates of the distances over the whole sequence."""
        return self._speed(self._pairs, self.all_mean)

    def spread(self):
        """Compute the square roots of the standard deviations within each chunk.

        The variance is computed in two passes. The mean of squares minus the square of the mean
        would leave rounding errors if nothing moves, and the fourth root would enlarge them.
        """
        means = self.means
        sizes = np.diff(means.indptr)
        # Each frame of each chunk has a row; a frame across a border is in both chunks.
        members = self._relative.reshape(len(self._relative), -1)[means.indices]
        # Relative to the first frame of the chunk, so that means of equal rows are exact.
        members -= np.repeat(members[means.indptr[:-1]], sizes, axis=0)
        own = (means.data, np.arange(len(members)), means.indptr)
        own = sparse.csr_array(own, shape=(len(sizes), len(members)))
        members -= np.repeat(own @ members, sizes, axis=0)
        return (own @ np.square(members)) ** 0.25

    def duration(self):
        """Return the logarithm of the number of frames."""
        return np.log([[len(self.positions)]])


def _unordered(values, first, second):
    """Replace columns that a swap of the two persons exchanges by their sum and difference.

    Both are divided by the square root of 2, so that the lengths of rows are kept. The difference
    loses its sign, which would depend on the order of the persons. Other columns are unchanged.
    """
    result = values.copy()
    a, b = values[:, first], values[:, second]
    result[:, first], result[:, second] = (a + b) / np.sqrt(2), np.abs(a - b) / np.sqrt(2)
    return result


def _exchanged(of_pairs, n_columns):
    """Return the first and the second columns of the pairs that a swap of persons exchanges."""
    if of_pairs:
        # n_columns is the number of pairs of n points.
        n_points = round((1 + np.sqrt(1 + 8 * n_columns)) / 2)
        upper = np.triu_indices(n_points, k=1)
        column = np.zeros((n_points, n_points), dtype=int)
        column[upper] = np.arange(n_columns)
        column += column.T
        points = np.roll(np.arange(n_points), n_points // 2)
        swapped = column[np.ix_(points, points)][upper]
    else:
        swapped = np.roll(np.arange(n_columns), n_columns // 2)
    first = np.flatnonzero(np.arange(n_columns) < swapped)
    return first, swapped[first]
