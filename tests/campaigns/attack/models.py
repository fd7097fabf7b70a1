"""Damaged and forged model files, their first use, and processes that save or are killed."""

import io
import os
import signal
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from traceback import print_exception

import numpy as np
from sklearn.model_selection import GridSearchCV

from ffnb_sklearn import load, save
from ffnb_sklearn.baselines import AnaCP
from ffnb_sklearn.exceptions import ModelFileError
from tests.saving.model_files import (
    ESTIMATORS,
    closed,
    discriminant,
    load_bytes,
    opened,
    pipeline,
    places,
    put,
    scores,
)
from tests.separated_classes import CODES, X, learned

# Processes that save to one path at the same time, and threads of each.
_N_PROCESSES, _N_THREADS = 3, 3

# Longest time that a writer lives, in seconds; a file is written several times meanwhile.
_LONGEST_LIFE = 0.05

# Values that are put into forged files; None removes the value.
_VALUES = [
    *(None, True, -1, 0, 1, 2**31, 10**12, 2**63, 10**30, -1.0, 0.0, 0.5, 1e308),
    *("", "x", "auto", "relu", [], [[]], {}, {"array": 0}, {"array": 1}, {"scalar": 0}),
    *({"float": "nan"}, {"tuple": [1, 2]}, {"dict": [["a", 1]]}, {"generator": 0}),
    *({"path": "/"}, {"factory": "os:system"}, {"strings": ["a", "b"]}, {"estimator": {}}),
]


def many_layers():
    """Return a baseline whose parameters decide how many arrays its first prediction takes."""
    model = AnaCP(n_components=6, n_layers=2, n_draws=3, random_state=0)
    return learned(model, [4, 1], [6])


def following_classifier():
    """Return a classifier whose choice follows from former moments."""
    model = learned(discriminant(refresh=1.0, rank=2), [4, 1])
    return model.partial_fit(X[:2], [1, 1])


def search():
    """Return a search with a scorer, around a classifier of this package."""
    model = GridSearchCV(discriminant(), {"shrinkage": [0.1, 0.5]}, scoring="f1_macro", cv=2)
    return model.fit(X, CODES)


ORIGINALS = {**ESTIMATORS, "layers": many_layers, "following": following_classifier}
if find_spec("skops"):
    ORIGINALS["search"] = search


@cache
def original_files():
    """Return the bytes of the files of `ORIGINALS`."""
    files = []
    for make in ORIGINALS.values():
        file = io.BytesIO()
        save(make(), file)
        files.append(file.getvalue())
    return files


def flipped(content, rng, n_bits=1):
    """Return bytes with some bits flipped."""
    changed = bytearray(content)
    for position in rng.integers(len(content), size=n_bits):
        changed[position] ^= 1 << rng.integers(8)
    return bytes(changed)


def cut(content, rng):
    return content[: rng.integers(len(content))]


def with_gap(content, rng):
    start, stop = sorted(rng.integers(len(content), size=2))
    return content[:start] + content[stop + 1 :]


def zeroed(content, rng):
    start = rng.integers(len(content))
    n_bytes = min(len(content) - start, rng.integers(1, 4096))
    return content[:start] + b"\xff" * n_bytes + content[start + n_bytes :]


def longer(content, rng):
    return content + rng.bytes(rng.integers(1, 100))


def with_members_swapped(content, rng):
    """Return an archive in which two members have changed places."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [[name, archive.read(name)] for name in archive.namelist()]
        comment = archive.comment
    one = rng.integers(len(members))
    # Labels, say, may be equal in two members.
    differing = [k for k, member in enumerate(members) if member[1] != members[one][1]]
    other = rng.choice(differing)
    members[one][1], members[other][1] = members[other][1], members[one][1]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members:
            archive.writestr(name, data)
        archive.comment = comment
    return file.getvalue()


DAMAGES = {
    "flipped bit": flipped,
    "flipped bits": lambda content, rng: flipped(content, rng, 20),
    "cut": cut,
    "gap": with_gap,
    "overwritten": zeroed,
    "longer": longer,
    "swapped": with_members_swapped,
}


def damaged(content, damage, seed):
    """Return a damaged file."""
    return DAMAGES[damage](content, np.random.default_rng(seed))


def count_accepted(n_files, folder):
    """Return how many of some damaged files are loaded; an error of another kind is raised."""
    originals = original_files()
    n_accepted = 0
    for number in range(n_files):
        damage = list(DAMAGES)[number % len(DAMAGES)]
        content = damaged(originals[number // len(DAMAGES) % len(originals)], damage, number)
        try:
            load_bytes(content, folder / "damaged.ffnb")
        except ModelFileError:
            continue
        n_accepted += 1
    return n_accepted


def count_forged(n_files, folder):
    """Return how many of some forged files, digest and all, are loaded.

    A value of the text of each is replaced. An error other than `ModelFileError` is raised.
    """
    originals = [opened(file) for file in original_files()]
    everywhere = [
        [("estimator", *path) for path in places(content["estimator"]) if path]
        for content, _ in originals
    ]
    n_accepted = 0
    for number in range(n_files):
        rng = np.random.default_rng(number)
        chosen = number % len(originals)
        path = everywhere[chosen][rng.integers(len(everywhere[chosen]))]
        content, arrays = originals[chosen]
        content = put(content, path, _VALUES[rng.integers(len(_VALUES))])
        try:
            load_bytes(closed(content, arrays), folder / "forged.ffnb")
        except ModelFileError:
            continue
        n_accepted += 1
    return n_accepted


def kill_repeatedly(write, check, path, n_kills, seed=0):
    """Kill processes that write a file, and check that it is always one of two.

    Parameters
    ----------
    write : callable
        Writes the first content to the file if it is called with 0, and the second with 1.
    check : callable
        Raises unless the file holds one of the two.
    path : Path
        The file.
    n_kills : int
        Processes to kill.
    seed : int, default=0
        Seed of the times.

    Returns
    -------
    int
        How many of them left a temporary file, so that they were killed while they wrote.
    """
    rng, folder = np.random.default_rng(seed), path.parent
    write(0)
    n_inside, others = 0, set(folder.iterdir()) - {path}
    for _ in range(n_kills):
        process = os.fork()
        if not process:
            while True:
                write(1)
                write(0)
        time.sleep(rng.uniform(0.0, _LONGEST_LIFE))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        check()
        for leftover in set(folder.iterdir()) - {path} - others:
            leftover.unlink()
            n_inside += 1
    return n_inside


def _models_and_check(path):
    """Return two models, and a function that raises unless a file holds one of them."""
    models = [pipeline(), learned(pipeline(), [5, 7])]
    known = [scores(one) for one in models]

    def check():
        found = scores(load(path))
        assert any(one.shape == found.shape and (one == found).all() for one in known)

    return models, check


def kill_writers(n_kills, folder):
    """Kill processes that save models; return how many were killed while they wrote."""
    path = folder / "model.ffnb"
    models, check = _models_and_check(path)
    return kill_repeatedly(lambda number: save(models[number], path), check, path, n_kills)


def save_together(n_saves, folder):
    """Save to one path from threads of several processes, and load the file meanwhile.

    Return how often the file was loaded; raise if a save failed, or a file was none of the models.
    """
    path = folder / "shared.ffnb"
    models, check = _models_and_check(path)
    save(models[0], path)
    n_each = -(-n_saves // (_N_PROCESSES * _N_THREADS))
    alive, n_loaded = set(), 0
    for _ in range(_N_PROCESSES):
        process = os.fork()
        if not process:
            _save_in_threads(models, path, n_each)
        alive.add(process)
    while alive:
        for process in list(alive):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                alive.remove(process)
                assert status == 0
        check()
        n_loaded += 1
    assert not list(folder.glob(".shared*"))
    path.unlink()
    return n_loaded


def _save_in_threads(models, path, n_each):
    """Save models from several threads, and end the process; its status tells of errors."""
    status = 1
    try:
        with ThreadPoolExecutor(_N_THREADS) as pool:
            saves = [
                pool.submit(save, models[number % 2], path) for number in range(n_each * _N_THREADS)
            ]
        for one in saves:
            one.result()
        status = 0
    except BaseException as error:
        print_exception(error)
    finally:
        os._exit(status)
