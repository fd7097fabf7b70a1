"""Skeletons as graphs: the features of the nodes, and the adjacency matrices."""

from numbers import Integral
from types import MappingProxyType

import numpy as np

from ffnb_sklearn.backbones._checks import is_sequence
from ffnb_sklearn.skeletons import SkeletonDescriptor
from ffnb_sklearn.skeletons._blocks import BLOCK_SCALES

__all__ = ["SKELETON_PARENTS", "skeleton_nodes", "tree_adjacency"]

# Head, neck, torso, then shoulder, elbow, hand and hip, knee, foot of both sides.
_BODY = (1, 2, 2, 1, 3, 4, 1, 6, 7, 2, 9, 10, 2, 12, 13)
# The parent of the torso of the second person is the torso of the first person.
_TWO_BODIES = (
    *_BODY,
    *(2 if joint == 2 == parent else 15 + parent for joint, parent in enumerate(_BODY)),
)
# Wrist, the knuckles of five fingers, then three more joints of each finger.
_HAND = (0, 0, 0, 0, 0, 0, *(j for k in range(5) for j in (1 + k, 6 + 3 * k, 7 + 3 * k)))

SKELETON_PARENTS = MappingProxyType({"sbu": _TWO_BODIES, "fpha": _HAND})
"""Parent of each joint of :func:`load_sbu`, 30 of two persons, and of :func:`load_fpha`, 21."""


def skeleton_nodes(sequences, *, n_chunks=8, root=0):
    """Compute the mean positions of each joint in consecutive parts of a sequence.

    Parameters
    ----------
    sequences : list of n_sequences arrays of shape (n_frames, n_joints, n_dims) or (n_frames, \
n_persons, n_joints, n_dims)
        Joint positions, in the same unit along all axes; the number of frames may differ.
    n_chunks : int, default=8
        Number of parts, of equal duration.
    root : int, default=0
        Joint whose mean position over persons and frames becomes the origin: 0, the wrist, for
        FPHA; 2, the torso, for SBU. Positions are in units of the size of the skeleton, as in
        :class:`~ffnb_sklearn.SkeletonDescriptor`.

    Returns
    -------
    ndarray of shape (n_sequences, n_persons * n_joints * n_chunks * n_dims)
        Mean positions, ordered by joint, then by part, then by coordinate: rows for a
        `TorchFeatureExtractor` with ``input_shape=(n_persons * n_joints, n_chunks * n_dims)``.

    Examples
    --------
    >>> import numpy as np
    >>> from ffnb_sklearn.backbones import skeleton_nodes
    >>> rng = np.random.default_rng(0)
    >>> sequences = [rng.normal(size=(n_frames, 2, 15, 3)) for n_frames in (5, 40)]
    >>> skeleton_nodes(sequences, root=2).shape
    (2, 720)
    """
    descriptor = SkeletonDescriptor(
        blocks=("joints", "trajectory"), n_chunks=n_chunks, root=root, persons="ordered"
    )
    rows = descriptor.fit_transform(sequences)
    n_persons, _, n_dims = descriptor.frame_shape_
    # The descriptor returns all other joints relative to the roots, and then the roots.
    shape = (len(rows), n_chunks, n_persons, -1, n_dims)
    n_roots = n_chunks * n_persons * n_dims
    roots = rows[:, -n_roots:].reshape(shape) / BLOCK_SCALES["trajectory"]
    others = rows[:, :-n_roots].reshape(shape) / BLOCK_SCALES["joints"] + roots
    joints = np.insert(others, [root], roots, axis=3)
    return joints.transpose(0, 2, 3, 1, 4).reshape(len(rows), -1)


def tree_adjacency(parents):
    """Build the matrix that subtracts from each joint the position of its parent.

    Parameters
    ----------
    parents : sequence of int of shape (n_nodes,)
        Index of the parent of each joint. A root is its own parent, and its position does not
        change.

    Returns
    -------
    ndarray of shape (n_nodes, n_nodes)
        The identity, with -1 in the column of the parent for each joint that is not a root.

    Raises
    ------
    ValueError
        If `parents` is not a sequence, or a parent is not the index of a joint.

    Examples
    --------
    >>> from ffnb_sklearn.backbones import tree_adjacency
    >>> tree_adjacency([0, 0, 1])
    array([[ 1.,  0.,  0.],
           [-1.,  1.,  0.],
           [ 0., -1.,  1.]])
    """
    if not is_sequence(parents):
        raise ValueError(f"parents must be a sequence, one index per joint; got {parents!r}.")
    n_nodes = len(parents)
    if not n_nodes or not all(isinstance(j, Integral) and 0 <= j < n_nodes for j in parents):
        raise ValueError(
            "parents must hold the index of a joint for each joint, at least 0 and less than "
            f"their number, {n_nodes}; got {parents!r}."
        )
    joints, parents = np.arange(n_nodes), np.asarray(parents)
    matrix = np.eye(n_nodes)
    child = parents != joints
    matrix[joints[child], parents[child]] = -1.0
    return matrix


def spread_shifts(n_nodes, n_shifts):
    """Spread shifts evenly over ``n_nodes // 2`` to 1; a single shift is the largest."""
    return np.linspace(n_nodes // 2, 1, n_shifts).round().astype(int).tolist()


def shift_adjacencies(n_nodes, shifts):
    """Build matrices that subtract from each joint the joint some places later, in cyclic order."""
    joints = np.arange(n_nodes)
    matrices = [tree_adjacency((joints + shift) % n_nodes) for shift in shifts]
    return np.array(matrices).reshape(len(shifts), n_nodes, n_nodes)
