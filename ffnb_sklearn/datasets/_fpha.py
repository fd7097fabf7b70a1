"""Loader of the First-Person Hand Action skeletons."""

import os
import re
from collections import namedtuple
from pathlib import Path

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

N_JOINTS = 21

# Lines of the split file. With these limits, every number fits an int64, and every action fits a
# folder name.
_HEADER = rb"(Training|Test)\s+(\d{1,9})\s*"
_ENTRY = rb"\s*(Subject_(\d{1,9})/(\w{1,200})/\d{1,9})\s+(\d{1,9})\s*"

FINGERS = ("thumb", "index", "middle", "ring", "pinky")
JOINT_NAMES = (
    "wrist",
    *(f"{finger}_mcp" for finger in FINGERS),
    *(f"{finger}_{joint}" for finger in FINGERS for joint in ("pip", "dip", "tip")),
)

DESCR = """\
First-Person Hand Action benchmark (FPHA), hand skeletons
=========================================================
Hands that handle objects, seen from the wearer's shoulder: 1175 sequences of 45 actions by 6
subjects, 21 joints per frame in millimetres. Joint order: {joints}.
Protocol: 600 sequences to train, 575 to test, as the split file lists them.
Reference: G. Garcia-Hernando, S. Yuan, S. Baek and T.-K. Kim, "First-person hand action benchmark
with RGB-D videos and 3D hand pose annotations", CVPR, 2018.
Licence: academic, non-commercial use only; the data may not be redistributed and are not part of
this package.
""".format(joints=", ".join(JOINT_NAMES))


# A line of the split file: its number, and the sequence that it lists.
_Entry = namedtuple("_Entry", "line train subject action path label")


def load_fpha(data_home, *, split_file=None):
    r"""Read the First-Person Hand Action skeletons from their official text files.

    The sequences are `Subject_k/<action>/<n>/skeleton.txt`, one line per frame: the frame number,
    then 21 joints x (x, y, z) in millimetres, separated by blanks. Only the sequences listed in the
    split file are read. Nothing is downloaded.

    Parameters
    ----------
    data_home : str or path-like
        Folder that holds `Subject_1` to `Subject_6`, or their parent folder
        `Hand_pose_annotation_v1`.
    split_file : str or path-like, default=None
        The split file; None reads `data_split_action_recognition.txt` in `data_home`.

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
            Description, citation and licence note.

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
    if split_file is not None:
        split = Path(os.path.expanduser(split_file))
    entries = _read_split(require_file(split, "expected the official split file"))
    poses = folder / "Hand_pose_annotation_v1"
    poses = poses if poses.is_dir() else folder
    files = [
        require_file(poses / e.path / "skeleton.txt", f"line {e.line} of {split} lists it")
        for e in entries
    ]
    return Bunch(
        data=[read_frames(path, (N_JOINTS, 3)) for path in files],
        target=np.array([e.label for e in entries], dtype=np.int64),
        target_names=_action_names(split, entries),
        train=np.array([e.train for e in entries]),
        subject=np.array([e.subject for e in entries], dtype=np.int64),
        filenames=[str(path) for path in files],
        DESCR=DESCR,
    )


def _read_split(path):
    """Parse the split file: `Training n` and its n lines, then `Test n` and its n lines."""
    sections, entries = {}, []
    for number, line in read_lines(path):
        if header := re.fullmatch(_HEADER, line):
            name = header[1].decode()
            if name in sections or name != ("Test" if sections else "Training"):
                raise malformed(path, number, f"unexpected header {name!r}.")
            sections[name] = number, int(header[2])
        elif not sections:
            raise malformed(path, number, f"expected 'Training <count>', got {shown(line)}.")
        elif entry := re.fullmatch(_ENTRY, line):
            name, subject, action, label = (field.decode() for field in entry.groups())
            is_train = "Test" not in sections
            entries.append(_Entry(number, is_train, int(subject), action, name, int(label)))
        else:
            expected = "'Subject_<k>/<action>/<n> <label>' or 'Test <count>'"
            raise malformed(path, number, f"expected {expected}, got {shown(line)}.")
    _check_counts(path, sections, entries)
    return entries


def _check_counts(path, sections, entries):
    """Raise unless both sections are as long as announced, and list every sequence once."""
    if "Test" not in sections:
        raise ValueError(f"{path}: the section 'Test' is missing.")
    for name, (number, announced) in sections.items():
        found = sum(e.train is (name == "Training") for e in entries)
        if found != announced:
            raise malformed(
                path, number, f"{name!r} announces {announced} sequences, {found} follow."
            )
    lines = {}
    for e in entries:
        if lines.setdefault(e.path, e.line) != e.line:
            raise malformed(path, e.line, f"{e.path!r} is already on line {lines[e.path]}.")


def _action_names(path, entries):
    """Return the action of each label; the labels must be 0, 1, ... without a gap."""
    names, labels = {}, {}
    for e in entries:
        if names.setdefault(e.label, e.action) != e.action:
            raise malformed(
                path, e.line, f"label {e.label} is {names[e.label]!r} above, {e.action!r} here."
            )
        if labels.setdefault(e.action, e.label) != e.label:
            raise malformed(
                path, e.line, f"{e.action!r} has label {labels[e.action]} above, {e.label} here."
            )
    missing = sorted(set(range(len(names))) - set(names))
    if missing:
        raise ValueError(f"{path}: labels must be 0 to {len(names) - 1}, {missing[0]} is missing.")
    return [names[label] for label in sorted(names)]
