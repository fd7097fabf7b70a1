"""Blocks of a skeleton descriptor: quantities of frames, averaged in temporal chunks."""

from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import sparse

# Frames per batch; limits the memory of the pairwise distances.
BATCH_FRAMES = 16384

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

# Blocks that are computed over whole sequences, without temporal chunks.
_WHOLE = {"distance_speed", "duration"}


def batches(sequences):
    """Cut a list of sequences into parts of about `BATCH_FRAMES` frames each."""
    ends = np.cumsum([len(frames) for frames in sequences])
    cuts = np.flatnonzero(np.diff(ends // BATCH_FRAMES)) + 1
    for start, stop in pairwise([0, *cuts, len(sequences)]):
        yield sequences[start:stop]


def _chunk_means(lengths, n_chunks):
    """Build the matrix that averages the frames in equal chunks of each sequence.

    Frame f of a sequence of T frames covers [f, f + 1); chunk k covers [k T/K, (k + 1) T/K). In
    units of 1/K frame all borders are integers, so the overlap is exact.

    Returns
    -------
    csr_array of shape (n_sequences * n_chunks, n_frames_in_all)
    """
    T = np.repeat(lengths, n_chunks)
    k = np.tile(np.arange(n_chunks), len(lengths))
    first, last = k * T // n_chunks, -(-(k + 1) * T // n_chunks)
    counts = last - first
    ends = np.cumsum(counts)
    frame = np.arange(ends[-1]) - np.repeat(ends - counts - first, counts)
    T_each, k_each = np.repeat(T, counts), np.repeat(k, counts)
    overlap = np.minimum((frame + 1) * n_chunks, (k_each + 1) * T_each)
    overlap -= np.maximum(frame * n_chunks, k_each * T_each)
    starts = np.repeat(np.cumsum(lengths) - lengths, n_chunks)
    columns = frame + np.repeat(starts, counts)
    shape = (len(T), int(np.sum(lengths)))
    return sparse.csr_array((overlap / T_each, columns, np.r_[0, ends]), shape=shape)


class _Frames:
    """Concatenated frames of a batch of sequences, with methods to average them."""

    def __init__(self, sequences, n_chunks, length_unit):
        self.lengths = np.array([len(frames) for frames in sequences])
        self.n_chunks = n_chunks
        self.joints = np.concatenate(sequences)
        unit = self.spread_out(self._sizes()) if length_unit is None else length_unit
        self.joints = self.joints / unit

    def _sizes(self):
        """Return the skeleton size of each sequence; 1 if all joints coincide up to rounding."""
        centred = self.joints - self.joints.mean(axis=2, keepdims=True)
        sizes = np.sqrt(np.square(centred).sum(axis=-1).mean(axis=-1)).mean(axis=-1)
        magnitude = self.average(np.abs(self.joints).mean(axis=(1, 2, 3)), 1)
        sizes = self.average(sizes, 1)
        return np.where(sizes > 1e-12 * magnitude, sizes, 1.0)

    def average(self, values, n_chunks=None):
        """Average a quantity of each frame in the chunks: (n_sequences, n_chunks * n_columns)."""
        means = _chunk_means(self.lengths, n_chunks or self.n_chunks)
        return (means @ values.reshape(len(values), -1)).reshape(len(self.lengths), -1)

    def variance(self, values):
        """Compute the variance of a quantity in the chunks: (n_sequences, n_chunks * n_columns).

        The variance is computed in two passes. The mean of squares minus the square of the mean
        would leave rounding errors if nothing moves, and the fourth root would enlarge them.
        """
        means = _chunk_means(self.lengths, self.n_chunks)
        sizes = np.diff(means.indptr)
        # Each frame of each chunk has a row; a frame across a border is in both chunks.
        members = values.reshape(len(values), -1)[means.indices]
        # Relative to the first frame of the chunk, so that means of equal rows are exact.
        members -= np.repeat(members[means.indptr[:-1]], sizes, axis=0)
        own = (means.data, np.arange(len(members)), means.indptr)
        means = sparse.csr_array(own, shape=(len(sizes), len(members)))
        members -= np.repeat(means @ members, sizes, axis=0)
        return (means @ np.square(members)).reshape(len(self.lengths), -1)

    def spread_out(self, values):
        """Repeat the row of each sequence for all of its frames, to subtract it from joints."""
        repeated = np.repeat(values, self.lengths, axis=0)
        return repeated.reshape(len(repeated), 1, 1, -1)

    @cached_property
    def distances(self):
        """Distances of all pairs of joints, within and between persons: (n_frames, n_pairs)."""
        points = self.joints.reshape(len(self.joints), -1, self.joints.shape[-1])
        first, second = np.triu_indices(points.shape[1], k=1)
        squares = sum(np.square(x[:, first] - x[:, second]) for x in np.moveaxis(points, -1, 0))
        return np.sqrt(squares)

    def velocity(self, values):
        """Compute the change per frame across `_HALF_WINDOW` frames on each side, if they exist."""
        starts = np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)
        stops = np.repeat(np.cumsum(self.lengths), self.lengths)
        now = np.arange(len(values))
        before = np.maximum(now - _HALF_WINDOW, starts)
        after = np.minimum(now + _HALF_WINDOW, stops - 1)
        elapsed = np.maximum(after - before, 1).reshape(-1, *(1,) * (values.ndim - 1))
        return (values[after] - values[before]) / elapsed


def describe(sequences, parameters):
    """Compute the rows of one batch: all blocks, each multiplied by its factor."""
    frames = _Frames(sequences, parameters.n_chunks, parameters.length_unit)
    return np.hstack([BLOCK_SCALES[b] * _block(b, frames, parameters) for b in parameters.blocks])


def _block(block, frames, parameters):
    """Compute the columns of one block."""
    values = _BLOCKS[block](frames, parameters)
    n_persons, n_joints = frames.joints.shape[1:3]
    if block == "duration" or not _is_unordered(parameters.persons, n_persons):
        return values
    chunks = values.reshape(len(values), _n_chunks(block, parameters), -1)
    return _unordered(chunks, block, n_joints).reshape(values.shape)


def _is_unordered(persons, n_persons):
    """Return whether rows are independent of which of two persons is listed first."""
    return persons == "unordered" or (persons == "auto" and n_persons == 2)


def _n_chunks(block, parameters):
    return 1 if block in _WHOLE else parameters.n_chunks


def _centred_joints(frames, parameters):
    """Return the joints relative to the root, without the root itself."""
    roots = frames.joints[:, :, [parameters.root]]
    return np.delete(frames.joints - roots, parameters.root, axis=2)


def _trajectory(frames, parameters):
    """Average the roots relative to their mean over frames and persons."""
    roots = frames.joints[:, :, [parameters.root]]
    return frames.average(roots - frames.spread_out(frames.average(roots.mean(axis=(1, 2)), 1)))


def _speed(frames, values, n_chunks=None):
    """Average the square roots of the absolute velocities of a quantity."""
    return frames.average(np.sqrt(np.abs(frames.velocity(values))), n_chunks)


_BLOCKS = {
    "joints": lambda frames, how: frames.average(_centred_joints(frames, how)),
    "trajectory": _trajectory,
    "distances": lambda frames, _: frames.average(frames.distances),
    "speed": lambda frames, _: _speed(frames, frames.joints),
    "distance_speed": lambda frames, _: _speed(frames, frames.distances, 1),
    "spread": lambda frames, how: frames.variance(_centred_joints(frames, how)) ** 0.25,
    "duration": lambda frames, _: np.log(frames.lengths)[:, np.newaxis],
}


def block_names(block, shape, parameters):
    """Name the columns of one block."""
    if block == "duration":
        return ["duration_c0"]
    n_persons, n_joints, n_dims = shape
    axes = "xyz"[:n_dims] if n_dims <= 3 else [f"d{i}" for i in range(n_dims)]
    points = [(p, j) for p in range(n_persons) for j in range(n_joints)]
    if block in ("distances", "distance_speed"):
        columns = [
            f"p{p}_j{i}_p{q}_j{j}" for n, (p, i) in enumerate(points) for q, j in points[n + 1 :]
        ]
    else:
        if block == "trajectory":
            points = [(p, j) for p, j in points if j == parameters.root]
        elif block in ("joints", "spread"):
            points = [(p, j) for p, j in points if j != parameters.root]
        columns = [f"p{p}_j{j}_{axis}" for p, j in points for axis in axes]
    if _is_unordered(parameters.persons, n_persons):
        columns = _unordered_names(columns, block, n_joints)
    n_chunks = _n_chunks(block, parameters)
    return [f"{block}_c{c}_{column}" for c in range(n_chunks) for column in columns]


def _unordered(values, block, n_joints):
    """Replace columns that a swap of the two persons exchanges by their sum and difference.

    Both are divided by the square root of 2, so that the lengths of rows are kept. The difference
    loses its sign, which would depend on the order of the persons. `values` has the
    shape (n_sequences, n_chunks, n_columns) of one block; other columns are unchanged.
    """
    first, second = _exchanged(block, values.shape[-1], n_joints)
    result = values.copy()
    a, b = values[..., first], values[..., second]
    result[..., first], result[..., second] = (a + b) / np.sqrt(2), np.abs(a - b) / np.sqrt(2)
    return result


def _unordered_names(columns, block, n_joints):
    """Name each column of `_unordered` after the two columns that it is computed from."""
    names = list(columns)
    for i, j in zip(*_exchanged(block, len(columns), n_joints), strict=True):
        names[i], names[j] = f"{columns[i]}+{columns[j]}", f"{columns[i]}-{columns[j]}"
    return names


def _exchanged(block, n_columns, n_joints):
    """Return the first and the second columns of the pairs that a swap of persons exchanges."""
    if block in ("distances", "distance_speed"):
        upper = np.triu_indices(2 * n_joints, k=1)
        column = np.zeros((2 * n_joints, 2 * n_joints), dtype=int)
        column[upper] = np.arange(n_columns)
        column += column.T
        points = np.roll(np.arange(2 * n_joints), n_joints)
        swapped = column[np.ix_(points, points)][upper]
    else:
        swapped = np.roll(np.arange(n_columns), n_columns // 2)
    first = np.flatnonzero(np.arange(n_columns) < swapped)
    return first, swapped[first]
