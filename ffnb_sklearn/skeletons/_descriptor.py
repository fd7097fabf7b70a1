"""Fixed-length rows from skeleton sequences of any length."""

from collections.abc import Sequence
from numbers import Integral
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ffnb_sklearn._base.callbacks import CallbackSupportMixin, ReportedTask, with_callbacks
from ffnb_sklearn._base.copies import replace_fitted
from ffnb_sklearn._inputs.tables import COLUMNS, columns_of
from ffnb_sklearn.skeletons._blocks import BLOCK_SCALES, describe

# Largest plausible numbers of persons and of coordinates (a position and a rotation). Skeletons of
# data sets have at least 13 joints, which exceeds both numbers, so axes in another order raise an
# error.
_MOST_PERSONS = 12
_MOST_COORDINATES = 7


class SkeletonDescriptor(CallbackSupportMixin, TransformerMixin, BaseEstimator):
    """Describe skeleton sequences of any length by rows of one length.

    A sequence is cut into `n_chunks` temporal chunks of equal duration, and quantities of its
    frames are averaged in each chunk. The transformer is stateless: a row depends only on its own
    sequence and the parameters, so the rows of a first task do not change with later tasks. Lengths
    count in units of the size of the skeleton in each sequence: the root mean square distance of
    the joints from their centroid, averaged over persons and frames. Rows are therefore independent
    of the unit of the input and, largely, of the size of a person.

    Parameters
    ----------
    blocks : tuple of str, default=("joints", "trajectory", "distances", "speed", \
"distance_speed", "spread", "duration")
        The groups of columns, in the order of the columns. A block is multiplied by its factor:

        - "joints" (1): positions relative to the joint `root` of the same person;
        - "trajectory" (1.5): positions of the roots relative to their mean over the sequence;
        - "distances" (1.25): distances of all pairs of joints, within and between persons;
        - "speed" (6): square roots of the absolute velocities of the joints, per coordinate: the
          change per frame from two frames before to two frames after;
        - "distance_speed" (35): square roots of the absolute rates of change of the distances,
          averaged over the whole sequence;
        - "spread" (5): square roots of the standard deviations of "joints" within each chunk;
        - "duration" (1): the logarithm of the number of frames, which no other block includes.

        The square roots prevent a few fast frames from dominating a row.
    n_chunks : int, default=8
        Number of temporal chunks. If a chunk border lies inside a frame, the frame counts in both
        chunks in proportion to its parts, so short sequences need no special case.
    root : int, default=0
        Index of the joint used for centring, such as the wrist of a hand or the torso of a body.
    persons : {"auto", "ordered"}, default="auto"
        Whether the order of two persons in a frame has a meaning. With "auto", each column of one
        person and the corresponding column of the other person are replaced by their sum and the
        absolute value of their difference, both divided by the square root of 2. Rows are then
        independent of which person is listed first, and their width is the same. Other numbers of
        persons are always ordered.
    frame_shape : tuple of int, default=None
        Shape of a frame. With None, the input is a list of sequences. With (n_joints, n_dims) or
        (n_persons, n_joints, n_dims), it is a 2-d table whose rows are flattened sequences of equal
        length.

    Attributes
    ----------
    frame_shape_ : tuple of int
        (n_persons, n_joints, n_dims) of the sequences seen in `fit`.
    n_features_in_ : int
        Number of columns of the input; only if `frame_shape` is given.
    feature_names_in_ : ndarray of str
        Names of the columns of the input; only if `frame_shape` is given and the input has names.

    See Also
    --------
    backbones.SkeletonGCN : A network for skeletons, which learns its features.
    datasets.load_sbu : Sequences of two interacting persons.
    datasets.load_fpha : Sequences of hands.

    Notes
    -----
    The factors of the blocks were chosen once by cross-validation inside the training data of
    hands [1]_ and of pairs of bodies [2]_, with one set of factors for both. Distances assume one
    unit on all axes; see the `coordinates` of :func:`~ffnb_sklearn.datasets.load_sbu`.

    References
    ----------
    .. [1] G. Garcia-Hernando, S. Yuan, S. Baek and T.-K. Kim, "First-person hand action benchmark
       with RGB-D videos and 3D hand pose annotations", CVPR, 2018.
    .. [2] K. Yun, J. Honorio, D. Chattopadhyay, T. L. Berg and D. Samaras, "Two-person interaction
       detection using body-pose features and multiple instance learning", CVPR Workshops, 2012.
       This paper is the source of joint distances and joint motion as features.

    Examples
    --------
    >>> import numpy as np
    >>> from ffnb_sklearn.skeletons import SkeletonDescriptor
    >>> rng = np.random.default_rng(0)
    >>> sequences = [rng.normal(size=(n_frames, 21, 3)) for n_frames in (5, 40)]
    >>> SkeletonDescriptor(blocks=("joints", "trajectory")).fit_transform(sequences).shape
    (2, 504)
    """

    # `ContinualPipeline` reads this attribute and issues no warning: the transformer learns nothing
    # except the shape of a frame.
    frozen_on_purpose = True

    _parameter_constraints = {  # noqa: RUF012
        "blocks": ["array-like"],
        "n_chunks": [Interval(Integral, 1, None, closed="left")],
        "root": [Interval(Integral, 0, None, closed="left")],
        "persons": [StrOptions({"auto", "ordered"})],
        "frame_shape": ["array-like", None],
    }

    def __init__(
        self,
        *,
        blocks: Sequence[str] = tuple(BLOCK_SCALES),
        n_chunks: int = 8,
        root: int = 0,
        persons: str = "auto",
        frame_shape: Sequence[int] | None = None,
    ) -> None:
        self.blocks = blocks
        self.n_chunks = n_chunks
        self.root = root
        self.persons = persons
        self.frame_shape = frame_shape

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Sequence[ArrayLike] | ArrayLike, y: None = None) -> Self:
        """Check the parameters and record the shape of a frame; nothing else is learned.

        Parameters
        ----------
        X : list of n_sequences arrays of shape (n_frames, n_joints, n_dims) or (n_frames, \
n_persons, n_joints, n_dims)
            The sequences; their numbers of frames may differ. With `frame_shape`, X is an
            array-like of shape (n_sequences, n_frames * prod(frame_shape)).
        y : None
            Ignored.

        Returns
        -------
        self : SkeletonDescriptor
            The transformer itself.

        Raises
        ------
        ValueError
            If a parameter has an invalid value, if a sequence has the wrong shape, no frame or
            values that are not finite, or if the blocks have no columns. Frames of more than 12
            persons or 7 coordinates are refused, because their axes are probably in another order.
        """
        attributes = self._fit_attributes(X)
        replace_fitted(self, COLUMNS, attributes)
        return self

    @with_callbacks
    def _fit_attributes(self, X):
        """Return the fitted attributes; change nothing."""
        call = ReportedTask(self._init_callback_context(), self, X, None)
        sequences = self._check_sequences(X, reset=True)
        shape = sequences[0].shape[1:]
        # Raise for parameters that do not fit the frames.
        self._block_widths(shape)
        attributes = {"frame_shape_": shape}
        # A list of sequences has no columns.
        if self.frame_shape is not None:
            attributes |= columns_of(X)
        call.end()
        return attributes

    def transform(self, X: Sequence[ArrayLike] | ArrayLike) -> NDArray[np.float64]:
        """Compute the rows of the sequences.

        Parameters
        ----------
        X : list of n_sequences arrays, or array-like with `frame_shape`
            The sequences, as in `fit`.

        Returns
        -------
        ndarray of shape (n_sequences, n_features_out), float64
            The blocks side by side; `get_feature_names_out` names the columns.

        Raises
        ------
        ValueError
            If a sequence has another frame shape than in `fit`, no frame, or values that are
            not finite, or if a parameter that has been changed since does not fit the frames.
        """
        check_is_fitted(self)
        self._block_widths(self.frame_shape_)
        sequences = self._check_sequences(X, reset=False)
        rows = []
        for frames in sequences:
            blocks = describe(frames, self)
            rows.append(np.concatenate(blocks))
        return np.stack(rows)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Name the columns after their blocks.

        Parameters
        ----------
        input_features : None
            Ignored; the names follow from the parameters and the shape of a frame.

        Returns
        -------
        ndarray of str objects
            Names such as `joints0` or `distances41`.
        """
        check_is_fitted(self)
        widths = self._block_widths(self.frame_shape_)
        names: list[str] = []
        for block, width in zip(self.blocks, widths, strict=True):
            names.extend(f"{block}{number}" for number in range(width))
        return np.array(names, dtype=np.object_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = self.frame_shape is not None
        tags.input_tags.three_d_array = self.frame_shape is None
        return tags

    def _block_widths(self, shape):
        """Return the numbers of columns of the blocks; raise for parameters that do not fit."""
        blocks = list(self.blocks)
        names = set(map(str, blocks))
        if not names <= set(BLOCK_SCALES) or len(names) < len(blocks):
            raise ValueError(
                f"blocks must be different names among {sorted(BLOCK_SCALES)}, got {blocks}."
            )
        n_joints = shape[1]
        if self.root >= n_joints:
            raise ValueError(
                f"root must be the index of one of {n_joints} joints, got {self.root}."
            )
        frame = np.zeros((1, *shape))
        widths = [block.size for block in describe(frame, self)]
        if not any(widths):
            raise ValueError(f"blocks {tuple(blocks)} have no columns for frames of shape {shape}.")
        return widths

    def _check_sequences(self, X, *, reset):
        """Return the sequences as float64 arrays of shape (n_frames, n_persons, n_joints, d)."""
        if self.frame_shape is not None:
            X = self._split_rows(X, reset=reset)
        if len(X) == 0:
            raise ValueError("X must hold at least one sequence, got an empty list.")
        sequences = [_check_sequence(number, sequence) for number, sequence in enumerate(X)]
        expected_shape = sequences[0].shape[1:]
        if not reset:
            expected_shape = self.frame_shape_
        for number, frames in enumerate(sequences):
            shape = frames.shape[1:]
            if shape != expected_shape:
                raise ValueError(
                    f"Sequence {number} has frames of shape {shape} (persons, joints, "
                    f"coordinates), expected {expected_shape}."
                )
        return sequences

    def _split_rows(self, X, *, reset):
        """Validate a table of flattened sequences, and split its rows into frames."""
        if reset:
            rows = check_array(X, dtype=np.float64, estimator=self, input_name="X")
        else:
            rows = validate_data(self, X, dtype=np.float64, reset=False)
        n_values = np.prod(self.frame_shape)
        if rows.shape[1] % n_values:
            raise ValueError(
                "The number of columns must be a multiple of prod(frame_shape) = "
                f"{n_values}, got {rows.shape[1]}."
            )
        return rows.reshape(len(rows), -1, *self.frame_shape)


def _check_sequence(number, sequence):
    """Return one sequence as a float64 array of 4 dimensions."""
    frames = check_array(
        sequence,
        dtype=np.float64,
        order="C",
        ensure_2d=False,
        allow_nd=True,
        ensure_min_samples=0,
        input_name=f"Sequence {number}",
    )
    shape = frames.shape
    if frames.ndim == 3:
        frames = frames[:, np.newaxis]
    if not _has_plausible_axes(frames.shape):
        raise ValueError(
            f"Sequence {number} must have the axes (n_frames, n_joints, n_dims) or (n_frames, "
            "n_persons, n_joints, n_dims), with at least one frame and at most "
            f"{_MOST_PERSONS} persons and {_MOST_COORDINATES} coordinates; got the shape {shape}. "
            "Transpose arrays that have another order of axes."
        )
    return frames


def _has_plausible_axes(shape):
    """Return whether a shape may be (n_frames, n_persons, n_joints, n_dims)."""
    if len(shape) != 4 or 0 in shape:
        return False
    _, n_persons, _, n_dims = shape
    return n_persons <= _MOST_PERSONS and n_dims <= _MOST_COORDINATES
