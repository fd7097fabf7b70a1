"""Columns of each block of a skeleton descriptor, by their definitions."""

import numpy as np
import pytest

from ffnb_sklearn.skeletons import SkeletonDescriptor
from ffnb_sklearn.skeletons._blocks import BLOCK_SCALES


def hands(lengths=(1, 2, 7, 8, 9, 30), seed=0, frame=(5, 3)):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, *frame)).cumsum(axis=0) for n in lengths]


# Powers of the length in the columns of each block; "duration" has none.
POWERS = {"joints": 1, "trajectory": 1, "distances": 1}


POWERS |= {"speed": 0.5, "distance_speed": 0.5, "spread": 0.5, "duration": 0}


def size(frames):
    """Root mean square distance from the centroid, averaged over persons and frames."""
    centred = frames - frames.mean(axis=-2, keepdims=True)
    return np.sqrt(np.square(centred).sum(axis=-1).mean(axis=-1)).mean() or 1.0


def block(name, sequences, **parameters):
    """Rows of one block without its factor, in the unit of the input."""
    rows = SkeletonDescriptor(blocks=(name,), **parameters).fit_transform(sequences)
    sizes = np.array([size(frames) for frames in sequences])[:, None]
    return rows / BLOCK_SCALES[name] * sizes ** POWERS[name]


def test_joints_are_chunk_means_relative_to_the_root():
    sequence = hands((16,))[0]
    rows = block("joints", [sequence], root=2)
    relative = np.delete(sequence - sequence[:, [2]], 2, axis=1)
    np.testing.assert_allclose(rows[0], relative.reshape(8, 2, -1).mean(axis=1).ravel(), atol=1e-12)


def test_rows_of_two_persons_ignore_their_order():
    pairs = hands(frame=(2, 5, 3))
    swapped = [frames[:, ::-1] for frames in pairs]
    options = {"root": 2, "n_chunks": 3}
    ordered = SkeletonDescriptor(**options, persons="ordered").fit_transform(pairs)
    X = SkeletonDescriptor(**options).fit_transform(pairs)
    in_order = SkeletonDescriptor(**options, persons="ordered").fit_transform(swapped)
    assert np.abs(ordered - in_order).max() > 0.1
    np.testing.assert_allclose(SkeletonDescriptor(**options).fit_transform(swapped), X, atol=1e-12)
    # Nothing but signs is lost.
    np.testing.assert_allclose(np.square(X).sum(axis=1), np.square(ordered).sum(axis=1))


@pytest.mark.parametrize("name", ["joints", "distances"])
def test_columns_of_two_persons_are_sums_and_differences(name):
    pairs = hands(frame=(2, 2, 3))
    a, b = (block(name, pairs, n_chunks=1, persons=one) for one in ("ordered", "auto"))
    # The first joint is the root; the pairs are those of p0_j0, p0_j1, p1_j0 and p1_j1.
    first, second = ([0, 1, 2], [3, 4, 5]) if name == "joints" else ([0, 2], [5, 3])
    np.testing.assert_allclose(b[:, first], (a[:, first] + a[:, second]) / np.sqrt(2), atol=1e-12)
    difference = np.abs(a[:, first] - a[:, second]) / np.sqrt(2)
    np.testing.assert_allclose(b[:, second], difference, atol=1e-12)
    same = np.setdiff1d(np.arange(a.shape[1]), first + second)
    np.testing.assert_array_equal(b[:, same], a[:, same])


def test_other_numbers_of_persons_are_ordered():
    three = hands(frame=(3, 4, 3))
    np.testing.assert_array_equal(
        SkeletonDescriptor().fit_transform(three),
        SkeletonDescriptor(persons="ordered").fit_transform(three),
    )
    lone = SkeletonDescriptor(blocks=("joints", "trajectory"))
    assert lone.fit_transform(hands(frame=(2, 1, 3))).shape == (6, 8 * 2 * 3)


def test_trajectories_are_relative_to_the_mean_of_all_roots():
    sequence = hands((12,), frame=(2, 4, 3))[0]
    rows = block("trajectory", [sequence], n_chunks=3, root=1, persons="ordered")
    roots = sequence[:, :, 1]
    relative = roots - roots.mean(axis=(0, 1))
    np.testing.assert_allclose(rows[0], relative.reshape(3, 4, -1).mean(axis=1).ravel(), atol=1e-12)


def test_distances_of_all_pairs_within_and_between_persons():
    sequence = hands((6,), frame=(2, 3, 3))[0]
    rows = block("distances", [sequence], n_chunks=2, persons="ordered").reshape(2, 15)
    points = [(p, j) for p in range(2) for j in range(3)]
    pairs = [(one, other) for i, one in enumerate(points) for other in points[i + 1 :]]
    for column, ((p, i), (q, j)) in enumerate(pairs):
        lengths = np.linalg.norm(sequence[:, p, i] - sequence[:, q, j], axis=-1)
        np.testing.assert_allclose(rows[:, column], lengths.reshape(2, 3).mean(axis=1))


def test_speed_of_uniform_motion_also_at_the_ends():
    steps = np.arange(9.0)
    velocity = np.array([4.0, -9.0, 0.0])
    sequence = steps[:, None, None] * velocity + np.zeros((1, 2, 3))
    rows = block("speed", [sequence])
    np.testing.assert_allclose(rows.reshape(8, 2, 3), np.broadcast_to([2.0, 3.0, 0.0], (8, 2, 3)))


def test_distance_speed_is_averaged_over_the_whole_sequence():
    sequence = np.zeros((6, 2, 3))
    sequence[:, 1, 0] = 1 + 4 * np.arange(6)
    np.testing.assert_allclose(block("distance_speed", [sequence]), [[2.0]])


def test_duration_is_the_logarithm_of_the_number_of_frames():
    rows = block("duration", hands((1, 7, 20)))
    np.testing.assert_allclose(rows, np.log([[1], [7], [20]]))


def test_spread_is_the_root_of_the_standard_deviation_in_the_chunk():
    sequence = hands((20,))[0]
    rows = block("spread", [sequence], n_chunks=4)
    relative = (sequence - sequence[:, [0]])[:, 1:].reshape(4, 5, -1)
    np.testing.assert_allclose(rows[0], np.sqrt(relative.std(axis=1)).ravel(), rtol=1e-6)


@pytest.mark.parametrize("n_frames", [1, 2, 3, 5, 7, 11])
def test_chunk_borders_inside_frames_count_by_their_share(n_frames):
    sequence = hands((n_frames,))[0]
    rows = block("joints", [sequence], n_chunks=4)
    # Every frame repeated 4 times has chunk borders between frames, and the same means.
    repeated = np.repeat(sequence, 4, axis=0)
    relative = (repeated - repeated[:, [0]])[:, 1:]
    expected = relative.reshape(4, n_frames, -1).mean(axis=1).ravel()
    np.testing.assert_allclose(rows[0], expected, atol=1e-12)


def test_one_frame_has_no_motion():
    sequences = hands((1,))
    for name in ("speed", "distance_speed", "trajectory"):
        np.testing.assert_array_equal(block(name, sequences), 0)
    np.testing.assert_array_equal(block("spread", sequences), 0)


def test_a_motionless_skeleton_has_no_spread():
    still = np.repeat(hands((1,))[0], 20, axis=0)
    rows = block("spread", [still, still[:3]])
    np.testing.assert_allclose(rows, 0, atol=1e-12)


@pytest.mark.parametrize("n_frames", [3, 7, 11])
def test_spread_where_chunk_borders_lie_inside_frames(n_frames):
    sequence = hands((n_frames,))[0]
    rows = block("spread", [sequence], n_chunks=4)
    repeated = block("spread", [np.repeat(sequence, 4, axis=0)], n_chunks=4)
    np.testing.assert_allclose(rows, repeated, rtol=1e-12)


@pytest.mark.parametrize("factor", [1e-6, 1e3])
def test_rows_do_not_depend_on_the_unit_or_on_the_place(factor):
    sequences = hands()
    descriptor = SkeletonDescriptor().fit(sequences)
    moved = [factor * (frames + np.array([5.0, -2.0, 1.0])) for frames in sequences]
    np.testing.assert_allclose(
        descriptor.transform(moved), descriptor.transform(sequences), atol=1e-5
    )


def test_coinciding_joints_have_no_size_to_divide_by():
    # The mean of seven equal numbers is off by rounding, which must not pass for a size.
    moving = np.full((4, 7, 3), 0.1) * np.arange(1, 5)[:, None, None]
    assert np.ptp(moving - moving.mean(axis=1, keepdims=True)) > 0
    descriptor = SkeletonDescriptor(blocks=("trajectory", "joints"), n_chunks=4)
    rows = descriptor.fit_transform([moving])
    np.testing.assert_allclose(
        rows[:, :12] / BLOCK_SCALES["trajectory"],
        np.repeat([[-0.15, -0.05, 0.05, 0.15]], 3, axis=1),
    )
    np.testing.assert_array_equal(rows[:, 12:], 0)
