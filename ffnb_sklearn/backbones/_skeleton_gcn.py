"""A spatial graph convolution over the joints of skeletons, its nodes and its adjacency."""

from numbers import Integral
from types import MappingProxyType

import numpy as np
import torch
from torch import nn

from ffnb_sklearn.skeletons import SkeletonDescriptor
from ffnb_sklearn.skeletons._blocks import BLOCK_SCALES

# Head, neck, torso, then shoulder, elbow, hand and hip, knee, foot of both sides.
_BODY = (1, 2, 2, 1, 3, 4, 1, 6, 7, 2, 9, 10, 2, 12, 13)
# The parent of the torso of the second person is the torso of the first person.
_TWO_BODIES = (
    *_BODY,
    *(2 if joint == 2 == parent else 15 + parent for joint, parent in enumerate(_BODY)),
)
# Wrist, the knuckles of five fingers, then three more joints of each finger.
_HAND = (0, 0, 0, 0, 0, 0, *(j for k in range(5) for j in (1 + k, 6 + 3 * k, 7 + 3 * k)))

# Number of coordinates of a position.
_AXES = 3

SKELETON_PARENTS = MappingProxyType({"sbu": _TWO_BODIES, "fpha": _HAND})
"""Parent of each joint of :func:`load_sbu`, 30 of two persons, and of :func:`load_fpha`, 21."""


class SkeletonGCN(nn.Module):
    """Graph convolution over joints: aggregation, dot products with filters, activation.

    A node is a joint; its features are the mean positions of the joint in consecutive parts of
    the sequence, as :func:`skeleton_nodes` computes them. An aggregation layer sums the nodes
    with the weights of an adjacency matrix, a dot-product layer applies the same filters at
    every node [1]_, and a ReLU follows. With the adjacency of a skeleton, the position of each
    joint is relative to its parent.

    In addition, joints can be paired. A filter sums the differences of two joints over the parts of
    the sequence; the feature is the length of the sum, which no rotation of the skeleton changes.

    Parameters
    ----------
    n_nodes : int
        Number of joints, of all persons together.
    n_node_features : int
        Features per node, ``3 * n_chunks``; the coordinate varies fastest.
    adjacency : {"sbu", "fpha"} or array-like of shape (n_nodes, n_nodes), default=None
        Weights of the nodes (columns) in the sum for each node (rows). A name selects
        :func:`tree_adjacency` of that entry of `SKELETON_PARENTS`. None makes each node relative to
        the mean of all nodes.
    n_filters : int, default=8
        Number of filters, each followed by a ReLU.
    n_pairings : int, default=0
        Number of pairings of the joints. A pairing with shift `s` pairs each joint with the joint
        `s` places later, in cyclic order; the shifts are spread evenly over 1 to ``n_nodes // 2``.
    n_length_filters : int, default=8
        Number of filters per pairing, each of which gives lengths.
    random_state : int, default=None
        Seed of the filters. None draws them from the global generator of torch, which a
        `TorchFeatureExtractor` seeds.

    Attributes
    ----------
    n_features : int
        Width of the output, ``n_nodes * (n_filters + n_pairings * n_length_filters)``.

    See Also
    --------
    TorchFeatureExtractor : Turns this network into a transformer, and optionally trains it.

    Notes
    -----
    The features are useful before any training, because the filters are drawn orthonormal. If there
    are fewer filters than features per node, they are drawn from the slowest cosines over the parts
    of the sequence, starting with the mean over time. The filters beyond the first
    `n_node_features` are mirror images of earlier filters, so that the two ReLUs together lose
    nothing: with ``n_filters = 2 * n_node_features``, the features preserve the whole input. There
    is no bias, so doubling the input doubles the features.

    References
    ----------
    .. [1] Z. Wu, S. Pan, F. Chen, G. Long, C. Zhang and P. S. Yu. A Comprehensive Survey on Graph
       Neural Networks. IEEE Transactions on Neural Networks and Learning Systems, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from ffnb_sklearn.backbones import SkeletonGCN, TorchFeatureExtractor, skeleton_nodes
    >>> rng = np.random.default_rng(0)
    >>> rows = skeleton_nodes([rng.normal(size=(n_frames, 21, 3)) for n_frames in (9, 40)])
    >>> extractor = TorchFeatureExtractor(
    ...     SkeletonGCN,
    ...     backbone_params={"n_nodes": 21, "n_node_features": 24, "adjacency": "fpha"},
    ...     input_shape=(21, 24),
    ... )
    >>> extractor.fit_transform(rows).shape
    (2, 168)
    """

    def __init__(
        self,
        n_nodes,
        n_node_features,
        *,
        adjacency=None,
        n_filters=8,
        n_pairings=0,
        n_length_filters=8,
        random_state=None,
    ):
        super().__init__()
        # Torch does not take the integers of NumPy.
        n_nodes = _integer("n_nodes", n_nodes, 2)
        n_node_features = _integer("n_node_features", n_node_features, 1)
        n_filters = _integer("n_filters", n_filters, 0)
        n_pairings = _integer("n_pairings", n_pairings, 0, n_nodes // 2)
        n_length_filters = _integer("n_length_filters", n_length_filters, 1)
        if n_node_features % _AXES:
            raise ValueError(
                f"n_node_features must be a multiple of 3 coordinates; got {n_node_features}."
            )
        generator = None
        if random_state is not None:
            seed = _integer("random_state", random_state, 0)
            generator = torch.Generator().manual_seed(seed)
        self.n_nodes, self.n_node_features = n_nodes, n_node_features
        self.n_features = n_nodes * (n_filters + n_pairings * n_length_filters)
        n_chunks = n_node_features // _AXES
        filters = _filters(1, n_chunks, _AXES, n_filters, generator)
        self.filters = nn.Parameter(_mirrored(filters))
        filters = _filters(n_pairings, n_chunks, 1, n_length_filters, generator)
        self.length_filters = nn.Parameter(filters)
        dtype = torch.get_default_dtype()
        graph, pairings = _graph(adjacency, n_nodes), _pairings(n_nodes, n_pairings)
        self.register_buffer("adjacency", torch.as_tensor(graph, dtype=dtype))
        self.register_buffer("pairings", torch.as_tensor(pairings, dtype=dtype))

    def forward(self, nodes):
        """Compute features of shape (batch, n_features), node by node, of a batch of nodes.

        Parameters
        ----------
        nodes : torch.Tensor of shape (batch, n_nodes, n_node_features)
            Features of the nodes.

        Returns
        -------
        torch.Tensor of shape (batch, `n_features`)
            All features of the first node, then all features of the next node, and so on.
        """
        if nodes.ndim != 3 or nodes.shape[1:] != (self.n_nodes, self.n_node_features):
            raise ValueError(
                f"nodes must have shape (batch, {self.n_nodes}, {self.n_node_features}); "
                f"got {tuple(nodes.shape)}."
            )
        # Batch b, matrix k, node i, neighbour j, input d = (chunk t, coordinate c), filter f.
        relative = torch.einsum("kij,bjd->bikd", self.adjacency, nodes)
        responses = torch.relu(torch.einsum("bikd,kdf->bikf", relative, self.filters))
        between = torch.einsum("kij,bjd->bikd", self.pairings, nodes)
        vectors = between.unflatten(-1, (-1, _AXES))
        lengths = torch.einsum("biktc,ktf->bikfc", vectors, self.length_filters).norm(dim=-1)
        return torch.cat([responses.flatten(2), lengths.flatten(2)], dim=2).flatten(1)


def _filters(n_matrices, n_chunks, n_coordinates, n_filters, generator):
    """Draw filters of shape (n_matrices, n_chunks * n_coordinates, n_filters), basis by basis."""
    n_inputs = n_chunks * n_coordinates
    filters = torch.empty(n_matrices, n_inputs, n_filters)
    for one in filters:
        for part in one.split(n_inputs, dim=1):
            part.copy_(_slow_basis(n_chunks, n_coordinates, part.shape[1], generator))
    return filters


def _mirrored(filters):
    """Replace every second basis by the basis before it with opposite sign."""
    n_inputs = filters.shape[1]
    for odd in range(n_inputs, filters.shape[2], 2 * n_inputs):
        end = min(odd + n_inputs, filters.shape[2])
        filters[..., odd:end] = -filters[..., odd - n_inputs : end - n_inputs]
    return filters


def _slow_basis(n_chunks, n_coordinates, n_vectors, generator):
    """Draw orthonormal vectors from the span of the slowest cosines over the parts."""
    n_cosines = -(-n_vectors // n_coordinates)
    middles = (torch.arange(n_chunks, device="cpu") + 0.5) / n_chunks
    cosines = torch.cos(torch.pi * middles[:, None] * torch.arange(n_cosines, device="cpu"))
    cosines = cosines / cosines.norm(dim=0)
    size = n_cosines * n_coordinates
    rotation = nn.init.orthogonal_(torch.empty(size, size, device="cpu"), generator=generator)
    identity = torch.eye(n_coordinates, device="cpu")
    return torch.kron(cosines, identity) @ rotation[:, :n_vectors]


def _graph(adjacency, n_nodes):
    """Return the matrix of the graph, of shape (1, n_nodes, n_nodes)."""
    if adjacency is None:
        adjacency = np.eye(n_nodes) - 1 / n_nodes
    elif isinstance(adjacency, str):
        if adjacency not in SKELETON_PARENTS:
            raise ValueError(
                f"adjacency must be one of {sorted(SKELETON_PARENTS)}, or a matrix; "
                f"got {adjacency!r}."
            )
        adjacency = tree_adjacency(SKELETON_PARENTS[adjacency])
    matrix = np.array(adjacency, dtype=np.float64)
    if matrix.shape != (n_nodes, n_nodes) or not np.isfinite(matrix).all():
        raise ValueError(
            f"adjacency must have shape ({n_nodes}, {n_nodes}) and finite weights; got shape "
            f"{matrix.shape}."
        )
    return matrix[None]


def _pairings(n_nodes, n_pairings):
    """Build matrices that subtract from each joint the joint some places later, in cyclic order.

    The shifts are spread evenly over ``n_nodes // 2`` to 1; a single shift is the largest.
    """
    joints = np.arange(n_nodes)
    shifts = np.linspace(n_nodes // 2, 1, n_pairings).round().astype(int)
    matrices = [tree_adjacency((joints + shift) % n_nodes) for shift in shifts]
    return np.array(matrices).reshape(n_pairings, n_nodes, n_nodes)


def _integer(name, value, low, high=np.inf):
    """Return an integer; raise unless it lies between two bounds."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not low <= value <= high:
        span = f"at least {low}" if high == np.inf else f"from {low} to {high}"
        raise ValueError(f"{name} must be an integer {span}; got {value!r}.")
    return int(value)


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
        If a parent is not the index of a joint.

    Examples
    --------
    >>> from ffnb_sklearn.backbones import tree_adjacency
    >>> tree_adjacency([0, 0, 1])
    array([[ 1.,  0.,  0.],
           [-1.,  1.,  0.],
           [ 0., -1.,  1.]])
    """
    parents = np.asarray(parents)
    joints = np.arange(parents.size)
    if parents.ndim != 1 or not parents.size or not np.isin(parents, joints).all():
        raise ValueError(
            "parents must hold the index of a joint for each joint, at least 0 and less than "
            f"their number, {parents.size}; got {parents!r}."
        )
    matrix = np.eye(parents.size)
    child = parents != joints
    matrix[joints[child], parents[child].astype(int)] = -1.0
    return matrix
