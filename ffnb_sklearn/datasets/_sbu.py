"""Loader of the SBU Kinect Interaction skeletons."""

import inspect
import os
from collections.abc import Iterable

import numpy as np
from sklearn.utils import Bunch

from ffnb_sklearn.datasets._base import data_folder, read_frames, require_file

CLASS_NAMES = (
    "approaching",
    "departing",
    "kicking",
    "pushing",
    "shaking_hands",
    "hugging",
    "exchanging",
    "punching",
)

# The five folds of the protocol of Yun et al. (2012): every pair of participants is in one fold.
FOLDS = (
    ("s01s02", "s03s04", "s05s02", "s06s04"),
    ("s02s03", "s02s07", "s03s05", "s05s03"),
    ("s01s03", "s01s07", "s07s01", "s07s03"),
    ("s02s01", "s02s06", "s03s02", "s03s06"),
    ("s04s02", "s04s03", "s04s06", "s06s02", "s06s03"),
)
FOLD_OF_PAIR = {pair: fold for fold, pairs in enumerate(FOLDS) for pair in pairs}

# Inverse of the normalisation: position = _ORIGIN + _UNITS * normalised position, close to mm.
_ORIGIN = np.array([1280.0, 960.0, 0.0])
_UNITS = np.array([-2560.0, -1920.0, 10000 / 7.8125])


def load_sbu(
    data_home: str | os.PathLike[str],
    *,
    pairs: Iterable[str] | None = None,
    coordinates: str = "normalized",
) -> Bunch:
    """Read the SBU Kinect Interaction skeletons from their official text files.

    SBU holds two persons who interact in front of a Kinect: 282 sequences of 8 interactions,
    performed by 21 ordered pairs of 7 participants; the first participant of a pair acts, the
    second reacts. The protocol is a 5-fold cross-validation over the pairs. Nothing is downloaded.
    Licence: the data set is distributed by its authors for research and is not part of this
    package.

    The files are `<pair>/<class 01..08>/<sequence>/skeleton_pos.txt`, one line per frame: the
    frame number, then 2 persons x 15 joints x (x, y, z), separated by commas. The joints are head,
    neck, torso, left shoulder, elbow and hand, right shoulder, elbow and hand, left hip, knee and
    foot, right hip, knee and foot.

    Parameters
    ----------
    data_home : str or path-like
        Folder that holds the folders of the pairs, such as `s01s02`.
    pairs : sequence of str, default=None
        The pairs to read; None reads all 21 pairs, which must all exist.
    coordinates : {"normalized", "original"}, default="normalized"
        "normalized" keeps the values of the files: x and y are fractions of the image.
        "original" undoes the normalisation: X = 1280 - 2560 x, Y = 960 - 1920 y and
        Z = 10000 / 7.8125 z. The results are close to millimetres, so that lengths are comparable
        along all axes, as descriptors built on distances require.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        Bunch with these attributes.

        data : list of n_sequences arrays of shape (n_frames, 2, 15, 3), float64
            Joint positions, sorted by pair, class and sequence.
        target : ndarray of shape (n_sequences,), int64
            Class, 0 to 7, as a position in `target_names`.
        target_names : list of str
            Names of the classes.
        fold : ndarray of shape (n_sequences,), int64
            Fold of the official 5-fold protocol, 0 to 4.
        pair : ndarray of shape (n_sequences,), str
            Pair of participants; a grouping for cross-validation.
        filenames : list of str
            The file of each sequence.
        DESCR : str
            This text.

    Raises
    ------
    FileNotFoundError
        If an expected folder or file is missing.
    ValueError
        If a file is malformed (the message names the file and the line), or a parameter has a value
        that is not allowed.

    References
    ----------
    K. Yun, J. Honorio, D. Chattopadhyay, T. L. Berg and D. Samaras, "Two-person interaction
    detection using body-pose features and multiple instance learning", CVPR Workshops, 2012.
    """
    if coordinates not in ("normalized", "original"):
        raise ValueError(f"coordinates must be 'normalized' or 'original', got {coordinates!r}.")
    if pairs is None:
        pairs = FOLD_OF_PAIR
    pairs = sorted(set(pairs))
    if not pairs or not set(pairs) <= set(FOLD_OF_PAIR):
        raise ValueError(f"pairs must name some of {sorted(FOLD_OF_PAIR)}, got {pairs}.")
    folder = data_folder(data_home)
    sequences = []
    filenames = []
    labels = []
    folds = []
    pair_of_sequence = []
    for pair in pairs:
        for path in _sequence_files(folder / pair):
            frames = read_frames(path, (2, 15, 3), separator=b",")
            if coordinates == "original":
                frames = _ORIGIN + frames * _UNITS
            class_folder = path.parts[-3]
            sequences.append(frames)
            filenames.append(str(path))
            labels.append(int(class_folder) - 1)
            folds.append(FOLD_OF_PAIR[pair])
            pair_of_sequence.append(pair)
    return Bunch(
        data=sequences,
        target=np.array(labels, dtype=np.int64),
        target_names=list(CLASS_NAMES),
        fold=np.array(folds, dtype=np.int64),
        pair=np.array(pair_of_sequence),
        filenames=filenames,
        DESCR=inspect.getdoc(load_sbu),
    )


def _sequence_files(folder):
    """List the files of one pair, which may lack whole classes, as four pairs of the release do."""
    sequence_folders = sorted(folder.glob("0[1-8]/[0-9]*/"))
    if not sequence_folders:
        raise FileNotFoundError(f"{folder}: no <class 01..08>/<sequence> folder in it.")
    files = []
    for sequence_folder in sequence_folders:
        path = sequence_folder / "skeleton_pos.txt"
        files.append(require_file(path, "each sequence has one"))
    return files
