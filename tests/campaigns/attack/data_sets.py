"""Damaged and forged files of the data sets.

These formats have no check sums: a digit that became another is as good as the first.
So each file that is accepted is compared with what a second, independent reader finds in it.
"""

import re

import numpy as np

from ffnb_sklearn.datasets import load_fpha, load_sbu
from tests.campaigns.attack.models import DAMAGES

SBU_FILE = ("s01s02", "01", "001", "skeleton_pos.txt")
FPHA_SPLIT = "data_split_action_recognition.txt"
FPHA_FILE = ("Subject_1", "open_jar", "1", "skeleton.txt")

SPLIT = b"Training 1\nSubject_1/open_jar/1 0\nTest 1\nSubject_2/pour/1 1\n"

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

# Fields and lines that are put into text files.
STRANGE = [
    *(b"", b" ", b"\0", b"nan", b"inf", b"-inf", b"1e999", b"0x10", b"1e", b"--1"),
    *(b"9" * 5000, b"-" + b"9" * 400, b"0" * 10**5, b"\xd9\xa3", b"\xff\xfe", b"~nobody/x"),
    *(b"Training", b"Test 1", b"Subject_1/../../x", b"1e-400", b"5.5", b"-3", b"1,2", b"\r"),
]


def sequence(n_frames, n_values, separator):
    """Return the bytes of a text file of skeletons."""
    values = np.random.default_rng(n_values).normal(size=(n_frames, n_values)).round(4)
    lines = [
        separator.join([b"%d" % number, *(repr(float(one)).encode() for one in row)])
        for number, row in enumerate(values)
    ]
    return b"\n".join([*lines, b""])


def write(folder, parts, content):
    """Write a file below a folder."""
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def forged_text(content, rng):
    """Return a text with one field or line that is strange."""
    lines = content.split(b"\n")
    line = rng.integers(len(lines))
    fields = re.split(rb"([ ,/])", lines[line])
    fields[2 * rng.integers((len(fields) + 1) // 2)] = STRANGE[rng.integers(len(STRANGE))]
    lines[line] = b"".join(fields)
    return b"\n".join(lines)


def mutated_text(content, rng):
    """Return a text that is damaged or forged."""
    kinds = [*(DAMAGES[name] for name in DAMAGES if name != "swapped"), *[forged_text] * 6]
    return kinds[rng.integers(len(kinds))](content, rng)


def is_refused(check, *arguments):
    """Whether a documented error is raised, with a short message; others are not caught."""
    try:
        check(*arguments)
    except (ValueError, FileNotFoundError) as error:
        message = str(error)
    else:
        return False
    assert len(message) < 2000
    return True


def table_of(content, separator):
    """Return the numbers of a text, by a reader that knows no more than the format."""
    lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip().split(b"\n")
    fields = [[one.strip() for one in line.split(separator)] for line in lines]
    assert all(NUMBER.fullmatch(one) for line in fields for one in line)
    return np.array(fields, dtype=np.float64)


def check_frames(found, content, separator):
    """Check that all frames of a text were read."""
    table = table_of(content, separator)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found.reshape(len(found), -1), table[:, 1:])


def check_sbu(folder, content, coordinates):
    """Read one sequence of SBU and check it; raise what the loader raises."""
    (found,) = load_sbu(folder, pairs=["s01s02"], coordinates=coordinates).data
    assert np.isfinite(found).all()
    if coordinates == "normalized":
        check_frames(found, content, b",")


def check_fpha(folder, content):
    """Read two sequences of FPHA and check the first; raise what the loader raises."""
    found = load_fpha(folder)
    assert len(found.data) == len(found.target) == 2
    check_frames(found.data[0], content, None)


def count_texts(n_files, folder):
    """Return how many changed texts hold other skeletons of the same form."""
    sbu, fpha = folder / "sbu", folder / "fpha"
    originals = {"sbu": sequence(3, 90, b","), "fpha": sequence(3, 63, b" "), "split": SPLIT}
    write(fpha, ("Subject_2", "pour", "1", "skeleton.txt"), originals["fpha"])
    n_accepted = 0
    for number in range(-3, n_files):
        rng = np.random.default_rng(max(0, number))
        changed, files = list(originals)[number % 3], dict(originals)
        if number >= 0:
            files[changed] = mutated_text(files[changed], rng)
        write(sbu, SBU_FILE, files["sbu"])
        write(fpha, FPHA_FILE, files["fpha"])
        write(fpha, (FPHA_SPLIT,), files["split"])
        if changed == "sbu":
            coordinates = ("normalized", "original")[number // 3 % 2]
            refused = is_refused(check_sbu, sbu, files["sbu"], coordinates)
        else:
            refused = is_refused(check_fpha, fpha, files["fpha"])
        # The first three are whole.
        assert number >= 0 or not refused
        n_accepted += number >= 0 and not refused
    return n_accepted
