"""Damage and forge files for every reader, and kill writers: few in the tests, many by a command.

python -m tests.campaigns.attack --files 8000 --kills 300 --saves 3000
"""

import argparse
import os
import tempfile
import warnings
from pathlib import Path

from tests.campaigns.attack import (
    data_sets,
    first_use,
    models,
    references,
    sparse_rows,
    weights,
)

# What a reader makes of a file that it accepts, and the function that counts such files.
READERS = {
    "damaged model files": ("not noticed", models.count_accepted),
    "forged model files, digest and all": ("hold a model", models.count_forged),
    "consistently forged model files": (
        "load, and do no harm when they are used",
        first_use.count_used,
    ),
    "damaged files of weights": ("not noticed", weights.count_damaged),
    "model files with a repeated reference": ("not noticed", references.count_repeated),
    "sparse rows with a wrong index": ("not noticed", sparse_rows.count_rows),
    "changed texts of SBU and FPHA": ("hold other skeletons", data_sets.count_texts),
}

# The formats with check sums: none of these files may be accepted.
CHECKED = [name for name, (kind, _) in READERS.items() if kind == "not noticed"]


def attack_reader(name, n_files, folder):
    """Return how many files a reader accepts; errors that are not documented are raised."""
    n_accepted = READERS[name][1](n_files, folder)
    assert n_accepted == 0 or name not in CHECKED
    return n_accepted


def main():
    """Attack as often as the arguments say, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=8000, help="files, of all kinds together")
    parser.add_argument("--kills", type=int, default=300, help="killed writers")
    parser.add_argument("--saves", type=int, default=3000, help="concurrent saves to one path")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # The processes come first: a fork after a threaded operation of torch may hang.
        if hasattr(os, "fork"):
            n_inside = models.kill_writers(arguments.kills, folder)
            print(f"{arguments.kills} killed writers, {n_inside} while writing: none lost")
            n_loaded = models.save_together(arguments.saves, folder)
            print(f"{arguments.saves} saves to one path, loaded {n_loaded} times: none lost")
        n_files = arguments.files // len(READERS)
        for reader, (kind, _) in READERS.items():
            n_accepted = attack_reader(reader, n_files, folder)
            print(f"{n_files} {reader}: {n_accepted} {kind}, no other error", flush=True)


if __name__ == "__main__":
    # A file that makes torch or NumPy warn is no failure.
    warnings.simplefilter("ignore")
    main()
