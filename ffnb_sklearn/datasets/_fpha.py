"""Loader of the First-Person Hand Action skeletons."""

import inspect
import re
from collections import namedtuple

import numpy as np
from sklearn.utils import Bunch

from ffnb_sklearn.datasets._base import (
    data_folder,
    malformed,
    read_frames,
    read_lines,
    require_file,
    shown,
)

# Lines of the split file. Numbers of at most nine digits fit an int64.
_HEADER = rb"(Training|Test)\s+(\d{1,9})\s*"
_ENTRY = rb"\s*(Subject_(\d{1,9})/(\w{1,200})/\d{1,9})\s+(\d{1,9})\s*"

# A line of the split file: its number, and the sequence that it lists.
_Entry = namedtuple("_Entry", "line train path subject action label")


def load_fpha(data_home):
    r"""Read the First-Person Hand Action skeletons from their official text files.

    FPHA holds hands that handle objects, seen from the wearer's shoulder: 1175 sequences of 45
    actions by 6 subjects. The protocol trains on 600 sequences and tests on 575, as the split file
    lists them. Nothing is downloaded. Licence: academic, non-commercial use only; the data may not
    be redistributed and are not part of this package.

    The sequences are `Subject_k/<action>/<n>/skeleton.txt`, one line per frame: the frame number,
    then 21 joints x (x, y, z) in millimetres, separated by blanks. The joints are the wrist, the
    base joints of the thumb, index, middle, ring and little finger, and then, finger by finger in
    the same order, the two further joints and the tip.

    Parameters
    ----------
    data_home : str or path-like
        Folder that holds the split file `data_split_action_recognition.txt`, and `Subject_1` to
        `Subject_6` or their parent folder `Hand_pose_annotation_v1`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        Bunch with these attributes.

        data : list of n_sequences arrays of shape (n_frames, 21, 3), float64
            Joint positions in millimetres, in the order of the split file.
        target : ndarray of shape (n_sequences,), int64
            Action, as a position in `target_names`.
        target_names : list of str
            Names of the actions.
        train : ndarray of shape (n_sequences,), bool
            True for the training sequences of the official split.
        subject : ndarray of shape (n_sequences,), int64
            Number of the subject, from 1; a grouping for cross-validation.
        filenames : list of str
            The file of each sequence.
        DESCR : str
            This text.

    Raises
    ------
    FileNotFoundError
        If the split file or a sequence that it lists is missing.
    ValueError
        If a file is malformed; the message names the file and the line.

    References
    ----------
    G. Garcia-Hernando, S. Yuan, S. Baek and T.-K. Kim, "First-person hand action benchmark with
    RGB-D videos and 3D hand pose annotations", CVPR, 2018.
    """
    folder = data_folder(data_home)
    split = folder / "data_split_action_recognition.txt"
    entries = _read_split(require_file(split, "expected the official split file"))
    poses = folder / "Hand_pose_annotation_v1"
    poses = poses if poses.is_dir() else folder
    files = [
        require_file(poses / e.path / "skeleton.txt", f"line {e.line} of {split} lists it")
        for e in entries
    ]
    return Bunch(
        data=[read_frames(path, (21, 3)) for path in files],
        target=np.array([e.label for e in entries], dtype=np.int64),
        target_names=_action_names(split, entries),
        train=np.array([e.train for e in entries]),
        subject=np.array([e.subject for e in entries], dtype=np.int64),
        filenames=[str(path) for path in files],
        DESCR=inspect.getdoc(load_fpha),
    )


def _read_split(path):
    """Parse the split file: `Training n` and its n lines, then `Test n` and its n lines."""
    announced, entries = {}, []
    for number, line in enumerate(read_lines(path), start=1):
        if header := re.fullmatch(_HEADER, line):
            announced[header[1].decode()] = int(header[2])
        elif announced and (entry := re.fullmatch(_ENTRY, line)):
            place, subject, action, label = (field.decode() for field in entry.groups())
            is_train = "Test" not in announced
            entries.append(_Entry(number, is_train, place, int(subject), action, int(label)))
        else:
            expected = "'Training <count>', 'Test <count>' or 'Subject_<k>/<action>/<n> <label>'"
            raise malformed(path, number, f"expected {expected}, got {shown(line)}.")
    n_train = sum(e.train for e in entries)
    listed = {"Training": n_train, "Test": len(entries) - n_train}
    if announced != listed:
        raise ValueError(f"{path}: the headers announce {announced}, the lines list {listed}.")
    return entries


def _action_names(path, entries):
    """Return the action of each label; the labels must be 0, 1, ... without a gap."""
    names = {}
    for e in entries:
        if names.setdefault(e.label, e.action) != e.action:
            raise malformed(
                path, e.line, f"label {e.label} is {names[e.label]!r} above, {e.action!r} here."
            )
    if set(names) != set(range(len(names))):
        raise ValueError(f"{path}: labels must be 0, 1, ... without a gap, got {sorted(names)}.")
    return [names[label] for label in sorted(names)]
