"""Loader of the First-Person Hand Action skeletons."""

import inspect
import os
import re
from typing import NamedTuple

import numpy as np
from sklearn.utils import Bunch

from ffnb_sklearn.datasets._base import (
    data_folder,
    line_error,
    read_frames,
    read_lines,
    require_file,
    short_text,
    subfolder_if_present,
)

# Lines of the split file. Numbers of at most nine digits fit an int64.
_HEADER = rb"(Training|Test)\s+(\d{1,9})\s*"
_ENTRY = rb"\s*(Subject_(\d{1,9})/(\w{1,200})/\d{1,9})\s+(\d{1,9})\s*"


class _Entry(NamedTuple):
    """A line of the split file, counted from 1, and the sequence that it lists."""

    line: int
    is_train: bool
    path: str
    subject: int
    action: str
    label: int


def load_fpha(data_home: str | os.PathLike[str]) -> Bunch:
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
    split_path = folder / "data_split_action_recognition.txt"
    require_file(split_path, "expected the official split file")
    entries = _read_split(split_path)
    poses = subfolder_if_present(folder, "Hand_pose_annotation_v1")
    sequences = []
    filenames = []
    labels = []
    subjects = []
    is_train = []
    for entry in entries:
        path = poses / entry.path / "skeleton.txt"
        require_file(path, f"line {entry.line} of {split_path} lists it")
        sequences.append(read_frames(path, (21, 3)))
        filenames.append(str(path))
        labels.append(entry.label)
        subjects.append(entry.subject)
        is_train.append(entry.is_train)
    return Bunch(
        data=sequences,
        target=np.array(labels, dtype=np.int64),
        target_names=_action_names(split_path, entries),
        train=np.array(is_train),
        subject=np.array(subjects, dtype=np.int64),
        filenames=filenames,
        DESCR=inspect.getdoc(load_fpha),
    )


def _read_split(path):
    """Parse the split file: `Training n` and its n lines, then `Test n` and its n lines."""
    announced = {}
    entries = []
    for number, line in enumerate(read_lines(path), start=1):
        header = re.fullmatch(_HEADER, line)
        fields = re.fullmatch(_ENTRY, line)
        if header:
            name = header[1].decode()
            announced[name] = int(header[2])
        elif announced and fields:
            is_train = "Test" not in announced
            entries.append(_parse_entry(number, is_train, fields))
        else:
            expected = "'Training <count>', 'Test <count>' or 'Subject_<k>/<action>/<n> <label>'"
            message = f"expected {expected}, got {short_text(line)}."
            raise line_error(path, number, message)
    n_train = sum(entry.is_train for entry in entries)
    n_test = len(entries) - n_train
    listed = {"Training": n_train, "Test": n_test}
    if announced != listed:
        raise ValueError(f"{path}: the headers announce {announced}, the lines list {listed}.")
    return entries


def _parse_entry(line, is_train, fields):
    """Return the entry of a line that matches `_ENTRY`."""
    return _Entry(
        line=line,
        is_train=is_train,
        path=fields[1].decode(),
        subject=int(fields[2]),
        action=fields[3].decode(),
        label=int(fields[4]),
    )


def _action_names(path, entries):
    """Return the action of each label; the labels must be 0, 1, ... without a gap."""
    names = {}
    for entry in entries:
        name = names.setdefault(entry.label, entry.action)
        if name != entry.action:
            message = f"label {entry.label} is {name!r} above, {entry.action!r} here."
            raise line_error(path, entry.line, message)
    labels = sorted(names)
    if labels != list(range(len(names))):
        raise ValueError(f"{path}: labels must be 0, 1, ... without a gap, got {labels}.")
    return [names[label] for label in labels]
