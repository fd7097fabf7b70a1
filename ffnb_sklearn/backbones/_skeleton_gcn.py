"""A spatial graph convolution over the joints of skeletons, its nodes and its adjacency."""

from collections.abc import Sequence
from numbers import Integral
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from ffnb_sklearn.skeletons import SkeletonDescriptor
from ffnb_sklearn.skeletons._blocks import BLOCK_SCALES

# Parents of the joints of a body: head, neck, torso, then shoulder, elbow, hand on the left and on
# the right, then hip, knee, foot on the left and on the right.
_BODY = (1, 2, 2, 1, 3, 4, 1, 6, 7, 2, 9, 10, 2, 12, 13)
# Joints of the second person follow those of the first. The parent of the torso of the second
# person is the torso of the first person.
_SECOND_BODY = (16, 17, 2, 16, 18, 19, 16, 21, 22, 17, 24, 25, 17, 27, 28)
# Parents of the joints of a hand: wrist, the knuckles of five fingers, then three more joints of
# each finger.
_HAND = (0, 0, 0, 0, 0, 0, 1, 6, 7, 2, 9, 10, 3, 12, 13, 4, 15, 16, 5, 18, 19)

# Number of coordinates of a position.
_AXES = 3

SKELETON_PARENTS = MappingProxyType({"sbu": _BODY + _SECOND_BODY, "fpha": _HAND})
"""Parent of each joint of :func:`load_sbu`, 30 of two persons, and of :func:`load_fpha`, 21."""


class SkeletonGCN(nn.Module):
    """Graph convolution over joints: aggregation, dot products with filters, activation.

    A node is a joint; its features are the mean positions of the joint in consecutive chunks of
    the sequence, as :func:`skeleton_nodes` computes them. An aggregation layer sums the nodes
    with the weights of an adjacency matrix, a dot-product layer applies the same filters at
    every node [1]_, and a ReLU follows. With the adjacency of a skeleton, the position of each
    joint is relative to its parent.

    In addition, joints can be paired. A filter sums the differences of two joints over the chunks
    of the sequence; the feature is the length of the sum, which no rotation of the skeleton
    changes.

    Parameters
    ----------
    n_nodes : int
        Number of joints, of all persons together.
    n_node_features : int
        Features per node, ``3 * n_chunks``; the coordinate varies fastest.
    adjacency : {"sbu", "fpha"} or array-like of shape (n_nodes, n_nodes), default=None
        Weights of the nodes (columns) in the sum for each node (rows). A name selects
        `tree_adjacency` of that entry of `SKELETON_PARENTS`. None makes each node relative to
        the mean of all nodes.
    n_filters : int, default=8
        Number of filters, each followed by a ReLU.
    n_pairings : int, default=0
        Number of pairings of the joints. A pairing with shift `s` pairs each joint with the joint
        `s` places later, in cyclic order; the shifts are spread evenly over 1 to ``n_nodes // 2``.
    n_length_filters : int, default=8
        Number of filters per pairing, each of which gives lengths.
    pooled : bool, default=False
        Whether each feature is the mean over the nodes, or every node has features of its own.
    random_state : int, default=None
        Seed of the filters. None draws them from the global generator of torch, which a
        `TorchFeatureExtractor` seeds.

    Attributes
    ----------
    n_features : int
        Width of the output: ``n_filters + n_pairings * n_length_filters``, times `n_nodes` unless
        the features are pooled.

    See Also
    --------
    ffnb_sklearn.TorchFeatureExtractor : Turns this network into a transformer.

    Notes
    -----
    The features are useful before any training, because the filters are drawn orthonormal. If there
    are fewer filters than features per node, they are drawn from the slowest cosines over the
    chunks of the sequence, starting with the mean over time. The filters beyond the first
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
        n_nodes: int,
        n_node_features: int,
        *,
        adjacency: str | ArrayLike | None = None,
        n_filters: int = 8,
        n_pairings: int = 0,
        n_length_filters: int = 8,
        pooled: bool = False,
        random_state: int | None = None,
    ) -> None:
        super().__init__()
        # Torch does not accept the integers of NumPy.
        n_nodes = _check_integer("n_nodes", n_nodes, 2)
        n_node_features = _check_integer("n_node_features", n_node_features, 1)
        n_filters = _check_integer("n_filters", n_filters, 0)
        n_pairings = _check_integer("n_pairings", n_pairings, 0, n_nodes // 2)
        n_length_filters = _check_integer("n_length_filters", n_length_filters, 1)
        if not isinstance(pooled, bool):
            raise ValueError(f"pooled must be True or False; got {pooled!r}.")
        if n_node_features % _AXES:
            raise ValueError(
                f"n_node_features must be a multiple of 3 coordinates; got {n_node_features}."
            )
        generator = None
        if random_state is not None:
            seed = _check_integer("random_state", random_state, 0)
            generator = torch.Generator().manual_seed(seed)
        self.n_nodes = n_nodes
        self.n_node_features = n_node_features
        self.pooled = pooled
        n_responses = n_filters + n_pairings * n_length_filters
        self.n_features = n_responses if pooled else n_nodes * n_responses
        n_chunks = n_node_features // _AXES
        filters = _draw_filters(1, n_chunks, _AXES, n_filters, generator)
        _mirror_filters(filters)
        length_filters = _draw_filters(n_pairings, n_chunks, 1, n_length_filters, generator)
        self.filters = nn.Parameter(filters)
        self.length_filters = nn.Parameter(length_filters)
        dtype = torch.get_default_dtype()
        graph = torch.as_tensor(_graph_matrix(adjacency, n_nodes), dtype=dtype)
        pairings = torch.as_tensor(_pairing_matrices(n_nodes, n_pairings), dtype=dtype)
        self.register_buffer("adjacency", graph)
        self.register_buffer("pairings", pairings)

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        """Compute features of shape (batch, n_features), node by node, of a batch of nodes.

        Parameters
        ----------
        nodes : torch.Tensor of shape (batch, n_nodes, n_node_features)
            Features of the nodes.

        Returns
        -------
        torch.Tensor of shape (batch, `n_features`)
            All features of the first node, then all features of the next node, and so on, or the
            means over the nodes if `pooled`.
        """
        if nodes.ndim != 3 or nodes.shape[1:] != (self.n_nodes, self.n_node_features):
            raise ValueError(
                f"nodes must have shape (batch, {self.n_nodes}, {self.n_node_features}); "
                f"got {tuple(nodes.shape)}."
            )
        # Batch b, matrix k, node i, neighbour j, input d = (chunk t, coordinate c), filter f.
        relative = torch.einsum("kij,bjd->bikd", self.adjacency, nodes)
        products = torch.einsum("bikd,kdf->bikf", relative, self.filters)
        responses = torch.relu(products)
        differences = torch.einsum("kij,bjd->bikd", self.pairings, nodes)
        vectors = differences.unflatten(-1, (-1, _AXES))
        sums = torch.einsum("biktc,ktf->bikfc", vectors, self.length_filters)
        lengths = sums.norm(dim=-1)
        features = torch.cat([responses.flatten(2), lengths.flatten(2)], dim=2)
        if self.pooled:
            return features.mean(dim=1)
        return features.flatten(1)


def _draw_filters(n_matrices, n_chunks, n_coordinates, n_filters, generator):
    """Draw filters of shape (n_matrices, n_chunks * n_coordinates, n_filters), basis by basis."""
    n_inputs = n_chunks * n_coordinates
    filters = torch.empty(n_matrices, n_inputs, n_filters)
    for matrix in filters:
        for basis in matrix.split(n_inputs, dim=1):
            n_vectors = basis.shape[1]
            vectors = _draw_slow_basis(n_chunks, n_coordinates, n_vectors, generator)
            basis.copy_(vectors)
    return filters


def _mirror_filters(filters):
    """Replace every second basis by the basis before it with opposite sign, in place."""
    n_inputs, n_filters = filters.shape[1:]
    for start in range(n_inputs, n_filters, 2 * n_inputs):
        end = min(start + n_inputs, n_filters)
        previous = filters[..., start - n_inputs : end - n_inputs]
        filters[..., start:end] = -previous


def _draw_slow_basis(n_chunks, n_coordinates, n_vectors, generator):
    """Draw orthonormal vectors from the span of the slowest cosines over the chunks.

    Cosine k of K chunks has the value cos(pi k (t + 1/2) / K) in chunk t, divided by its norm.
    """
    # Enough cosines for all vectors, rounded up.
    n_cosines = -(-n_vectors // n_coordinates)
    centres = (torch.arange(n_chunks, device="cpu") + 0.5) / n_chunks
    frequencies = torch.arange(n_cosines, device="cpu")
    cosines = torch.cos(torch.pi * centres[:, None] * frequencies)
    cosines = cosines / cosines.norm(dim=0)
    coordinates = torch.eye(n_coordinates, device="cpu")
    basis = torch.kron(cosines, coordinates)
    n_basis = n_cosines * n_coordinates
    rotation = torch.empty(n_basis, n_basis, device="cpu")
    nn.init.orthogonal_(rotation, generator=generator)
    return basis @ rotation[:, :n_vectors]


def _graph_matrix(adjacency, n_nodes):
    """Return the matrix of the graph, of shape (1, n_nodes, n_nodes)."""
    if adjacency is None:
        adjacency = np.eye(n_nodes) - 1 / n_nodes
    if isinstance(adjacency, str):
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
    return matrix[np.newaxis]


def _pairing_matrices(n_nodes, n_pairings):
    """Build matrices that subtract from each joint the joint some places later, in cyclic order.

    The shifts are spread evenly over ``n_nodes // 2`` to 1; a single shift is the largest.
    """
    joints = np.arange(n_nodes)
    shifts = np.linspace(n_nodes // 2, 1, n_pairings).round().astype(int)
    matrices = np.empty((n_pairings, n_nodes, n_nodes))
    for number, shift in enumerate(shifts):
        partners = (joints + shift) % n_nodes
        matrices[number] = tree_adjacency(partners)
    return matrices


def _check_integer(name, value, low, high=None):
    """Return an integer; raise unless it lies between two bounds."""
    is_valid = isinstance(value, Integral) and not isinstance(value, bool)
    expected = f"at least {low}"
    if high is not None:
        expected = f"from {low} to {high}"
    if not is_valid or value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be an integer {expected}; got {value!r}.")
    return int(value)


def skeleton_nodes(
    sequences: Sequence[ArrayLike], *, n_chunks: int = 8, root: int = 0
) -> NDArray[np.float64]:
    """Compute the mean positions of each joint in consecutive chunks of a sequence.

    Parameters
    ----------
    sequences : list of n_sequences arrays of shape (n_frames, n_joints, n_dims) or (n_frames, \
n_persons, n_joints, n_dims)
        Joint positions, in the same unit along all axes; the number of frames may differ.
    n_chunks : int, default=8
        Number of chunks, of equal duration.
    root : int, default=0
        Joint whose mean position over persons and frames becomes the origin: 0, the wrist, for
        FPHA; 2, the torso, for SBU. Positions are in units of the size of the skeleton, as in
        :class:`~ffnb_sklearn.SkeletonDescriptor`.

    Returns
    -------
    ndarray of shape (n_sequences, n_persons * n_joints * n_chunks * n_dims)
        Mean positions, ordered by joint, then by chunk, then by coordinate: rows for a
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
    n_root_values = n_chunks * n_persons * n_dims
    shape = (len(rows), n_chunks, n_persons, -1, n_dims)
    roots = rows[:, -n_root_values:].reshape(shape)
    roots = roots / BLOCK_SCALES["trajectory"]
    relative_joints = rows[:, :-n_root_values].reshape(shape)
    relative_joints = relative_joints / BLOCK_SCALES["joints"]
    joints = np.insert(relative_joints + roots, [root], roots, axis=3)
    by_joint = joints.transpose(0, 2, 3, 1, 4)
    return by_joint.reshape(len(rows), -1)


def tree_adjacency(parents: ArrayLike) -> NDArray[np.float64]:
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
    n_joints = parents.size
    joints = np.arange(n_joints)
    if parents.ndim != 1 or not n_joints or not np.isin(parents, joints).all():
        raise ValueError(
            "parents must hold the index of a joint for each joint, at least 0 and less than "
            f"their number, {n_joints}; got {parents!r}."
        )
    has_parent = parents != joints
    children = joints[has_parent]
    parents_of_children = parents[has_parent].astype(int)
    matrix = np.eye(n_joints)
    matrix[children, parents_of_children] = -1.0
    return matrix
