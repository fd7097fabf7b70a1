"""Damaged and forged files of the data sets.

These formats have no check sums: a digit or a pixel that became another is as good as the first.
So each file that is accepted is compared with what a second, independent reader finds in it.
"""

import pickle
import re

import numpy as np

from ffnb_sklearn.datasets import load_cifar100, load_fpha, load_sbu
from tests.campaigns.attack.models import DAMAGES
from tests.datasets import pickle_streams

SBU_FILE = ("s01s02", "01", "001", "skeleton_pos.txt")
FPHA_SPLIT = "data_split_action_recognition.txt"
FPHA_FILE = ("Subject_1", "open_jar", "1", "skeleton.txt")

SPLIT = b"Training 1\nSubject_1/open_jar/1 0\nTest 1\nSubject_2/pour/1 1\n"

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

# Fields and lines that are put into text files.
STRANGE = [
    *(
        b"",
        b" ",
        b"\0",
        b"nan",
        b"inf",
        b"-inf",
        b"1e999",
        b"1e306",
        b"1_0",
        b"0x10",
        b"1e",
        b"--1",
    ),
    *(b"9" * 5000, b"-" + b"9" * 400, b"0" * 10**5, b"\xd9\xa3", b"\xff\xfe", b"~nobody/x"),
    *(b"Training", b"Test 1", b"Subject_1/../../x", b"1e-400", b"5.5", b"-3", b"1,2", b"\r"),
]


def cifar_files():
    """Return the bytes of the three files of a tiny data set."""
    images = {
        b"data": np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072),
        b"fine_labels": [3, 99],
        b"coarse_labels": [0, 19],
    }
    names = {
        b"fine_label_names": [b"class %d" % number for number in range(100)],
        b"coarse_label_names": [b"superclass %d" % number for number in range(20)],
    }
    return {name: pickle.dumps(images, protocol=4) for name in ("train", "test")} | {
        "meta": pickle.dumps(names, protocol=4)
    }


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


def mutated_pickle(content, rng):
    """Return a pickle that is damaged, or in which an instruction or a value is strange."""
    if rng.integers(2):
        return mutated_text(content, rng)
    strange = [
        *(pickle_streams.integer(number) for number in (-1, 0, 2**31 - 1)),
        *(pickle_streams.long(number) for number in (-(10**5000), 2**63)),
        *(pickle_streams.text(b"x" * 10**5), pickle_streams.NONE, pickle_streams.REDUCE),
        *(pickle_streams.BUILD, pickle_streams.named("os", "system"), b"t", b"(", b"0", b"b"),
        *(pickle_streams.UINT8, pickle_streams.OBJECT, pickle_streams.unbuilt_array()),
        pickle_streams.array((2**31 - 1, 2), b"xx"),
    ]
    start = rng.integers(2, len(content))
    stop = min(len(content), start + rng.integers(10))
    return content[:start] + strange[rng.integers(len(strange))] + content[stop:]


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


def check_images(folder):
    """Read images and check them; raise what the loader raises."""
    found = load_cifar100(folder)
    assert found.data.dtype == np.uint8
    assert found.data.shape == (len(found.target), 3072) == (len(found.superclass), 3072)
    assert set(found.target) <= set(range(100))
    assert set(found.superclass) <= set(range(20))
    assert (len(found.target_names), len(found.superclass_names)) == (100, 20)


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
    assert (np.diff(table[:, 0]) > 0).all()


def count_pickles(n_files, folder):
    """Return how many changed pickles hold a data set."""
    files, n_accepted = cifar_files(), 0
    for name, content in files.items():
        write(folder, (name,), content)
    check_images(folder)
    for number in range(n_files):
        name = list(files)[number % 3]
        changed = mutated_pickle(files[name], np.random.default_rng(number))
        write(folder, (name,), changed)
        n_accepted += not is_refused(check_images, folder)
        write(folder, (name,), files[name])
    return n_accepted


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
