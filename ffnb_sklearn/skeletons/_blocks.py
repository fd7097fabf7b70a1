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

# Number of frames before and after a frame between which its velocity is the change per frame.
_HALF_WINDOW = 2


def describe(joints, parameters):
    """Compute the blocks of a sequence of shape (n_frames, n_persons, n_joints, n_dims)."""
    frames = _Frames(joints, parameters.n_chunks, parameters.root)
    n_persons = joints.shape[1]
    is_unordered = parameters.persons == "auto" and n_persons == 2
    blocks = []
    for name in parameters.blocks:
        compute_block = getattr(frames, name)
        columns = compute_block()
        if is_unordered and name != "duration":
            first, second = _swapped_columns(name, columns.shape[-1])
            columns = _combine_swapped(columns, first, second)
        values = columns.ravel()
        blocks.append(BLOCK_SCALES[name] * values)
    return blocks


def _chunk_means(n_frames, n_chunks):
    """Build the matrix of shape (n_chunks, n_frames) that averages the frames in equal chunks.

    Frame f of T frames covers [f, f + 1); chunk k of K chunks covers [k T/K, (k + 1) T/K). In units
    of 1/K frame, all borders are integers, so the overlap is exact.
    """
    frame_starts = n_chunks * np.arange(n_frames)
    chunk_starts = n_frames * np.arange(n_chunks)[:, np.newaxis]
    overlap_ends = np.minimum(frame_starts + n_chunks, chunk_starts + n_frames)
    overlap_starts = np.maximum(frame_starts, chunk_starts)
    overlaps = np.maximum(overlap_ends - overlap_starts, 0)
    return sparse.csr_array(overlaps / n_frames)


def _average(values, means):
    """Average a quantity of each frame by a matrix of means; return one row per chunk."""
    n_frames = len(values)
    rows = values.reshape(n_frames, -1)
    return means @ rows


def _skeleton_size(positions, sequence_mean):
    """Return the size of the skeleton; 1 if all joints coincide up to rounding.

    The size of a person in a frame is the root mean square distance of the joints from their
    centroid; the sizes are averaged over persons and frames.
    """
    centroids = positions.mean(axis=2, keepdims=True)
    squared_distances = np.square(positions - centroids).sum(axis=-1)
    sizes = np.sqrt(squared_distances.mean(axis=-1)).mean(axis=-1)
    magnitudes = np.abs(positions).mean(axis=(1, 2, 3))
    size = _average(sizes, sequence_mean).item()
    magnitude = _average(magnitudes, sequence_mean).item()
    if size > 1e-12 * magnitude:
        return size
    return 1.0


def _root_speeds(values):
    """Return the roots of the absolute changes per frame across `_HALF_WINDOW` frames.

    The speed of frame t is |x(t + h) - x(t - h)| / 2h for a half window h, with the first or the
    last frame in place of frames outside the sequence.
    """
    last = len(values) - 1
    frames = np.arange(len(values))
    before = np.maximum(frames - _HALF_WINDOW, 0)
    after = np.minimum(frames + _HALF_WINDOW, last)
    elapsed = np.maximum(after - before, 1)
    value_axes = (1,) * (values.ndim - 1)
    elapsed = elapsed.reshape(-1, *value_axes)
    velocities = (values[after] - values[before]) / elapsed
    return np.sqrt(np.abs(velocities))


class _Frames:
    """Frames of one sequence; each block is a method that returns (n_chunks, n_columns)."""

    def __init__(self, joints, n_chunks, root):
        self.chunk_means = _chunk_means(len(joints), n_chunks)
        self.sequence_mean = _chunk_means(len(joints), 1)
        self.root = root
        self.positions = joints / _skeleton_size(joints, self.sequence_mean)
        self.roots = self.positions[:, :, [root]]

    @cached_property
    def _pair_distances(self):
        """Distances of all pairs of joints, within and between persons: (n_frames, n_pairs)."""
        n_frames, n_persons, n_joints, n_dims = self.positions.shape
        n_points = n_persons * n_joints
        points = self.positions.reshape(n_frames, n_points, n_dims)
        first, second = np.triu_indices(n_points, k=1)
        squared_distances = np.zeros((n_frames, len(first)))
        for axis in range(n_dims):
            coordinates = points[:, :, axis]
            differences = coordinates[:, first] - coordinates[:, second]
            squared_distances += np.square(differences)
        return np.sqrt(squared_distances)

    @cached_property
    def _relative_positions(self):
        """Positions relative to the root of the same person, without the root itself."""
        relative = self.positions - self.roots
        return np.delete(relative, self.root, axis=2)

    def joints(self):
        """Average the positions relative to the roots."""
        return _average(self._relative_positions, self.chunk_means)

    def trajectory(self):
        """Average the roots relative to their mean over frames and persons."""
        roots_of_frames = self.roots.mean(axis=(1, 2))
        mean_root = _average(roots_of_frames, self.sequence_mean)
        return _average(self.roots - mean_root, self.chunk_means)

    def distances(self):
        """Average the distances of all pairs of joints."""
        return _average(self._pair_distances, self.chunk_means)

    def speed(self):
        """Average the square roots of the absolute velocities of the joints."""
        speeds = _root_speeds(self.positions)
        return _average(speeds, self.chunk_means)

    def distance_speed(self):
        """Average the square roots of the rates of the distances over the whole sequence."""
        speeds = _root_speeds(self._pair_distances)
        return _average(speeds, self.sequence_mean)

    def spread(self):
        """Compute the square roots of the standard deviations within each chunk.

        The variance is computed in two passes. The mean of squares minus the square of the mean
        would leave rounding errors if nothing moves, and the fourth root would enlarge them.
        """
        rows = self._relative_positions.reshape(len(self.positions), -1)
        # Each frame of each chunk has a row; a frame across a border is in both chunks.
        members = rows[self.chunk_means.indices]
        starts = self.chunk_means.indptr[:-1]
        sizes = np.diff(self.chunk_means.indptr)
        # Relative to the first frame of the chunk, so that means of equal rows are exact.
        members -= np.repeat(members[starts], sizes, axis=0)
        member_means = _member_means(self.chunk_means)
        members -= np.repeat(member_means @ members, sizes, axis=0)
        variances = member_means @ np.square(members)
        return variances**0.25

    def duration(self):
        """Return the logarithm of the number of frames."""
        n_frames = len(self.positions)
        return np.log([[n_frames]])


def _member_means(chunk_means):
    """Return means over the members of each chunk, for rows that repeat frames across borders."""
    n_chunks = chunk_means.shape[0]
    n_members = len(chunk_means.data)
    structure = (chunk_means.data, np.arange(n_members), chunk_means.indptr)
    return sparse.csr_array(structure, shape=(n_chunks, n_members))


def _combine_swapped(values, first, second):
    """Replace columns that a swap of the two persons exchanges by their sum and difference.

    Both are divided by the square root of 2, so that the lengths of rows are kept. The difference
    loses its sign, which would depend on the order of the persons. Other columns are unchanged.
    """
    sums = values[:, first] + values[:, second]
    differences = values[:, first] - values[:, second]
    combined = values.copy()
    combined[:, first] = sums / np.sqrt(2)
    combined[:, second] = np.abs(differences) / np.sqrt(2)
    return combined


def _swapped_columns(block, n_columns):
    """Return the first and the second columns of the pairs that a swap of persons exchanges."""
    columns = np.arange(n_columns)
    if "distance" in block:
        counterparts = _swapped_distances(n_columns)
    else:
        counterparts = np.roll(columns, n_columns // 2)
    first = np.flatnonzero(columns < counterparts)
    return first, counterparts[first]


def _swapped_distances(n_pairs):
    """Return the number of the pair of points that a swap of persons turns each pair into."""
    # There are n (n - 1) / 2 pairs of n points.
    n_points = round((1 + np.sqrt(1 + 8 * n_pairs)) / 2)
    upper = np.triu_indices(n_points, k=1)
    pair_numbers = np.zeros((n_points, n_points), dtype=int)
    pair_numbers[upper] = np.arange(n_pairs)
    pair_numbers += pair_numbers.T
    swapped_points = np.roll(np.arange(n_points), n_points // 2)
    swapped_numbers = pair_numbers[np.ix_(swapped_points, swapped_points)]
    return swapped_numbers[upper]
