"""Fixtures shared by the whole suite."""

import csv
import importlib
import os
import sys
from pathlib import Path

import pytest
import torch

# One thread per worker: pytest-xdist already fills the cores.
torch.set_num_threads(1)

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="session")
def shared_data():
    """Folder of the real data sets, from FFNB_DATA or beside the checkout."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("FFNB_DATA", beside))
    if not (folder / "sbu.npz").is_file():
        pytest.skip(f"the real data sets are not at {folder}; set FFNB_DATA to their folder")
    return folder


@pytest.fixture(scope="module")
def bench():
    """Import a module of the benchmarks as the scripts do, from their own folder."""
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module
    sys.path.remove(str(BENCHMARKS))
    for path in BENCHMARKS.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def run_script(bench, capsys, tmp_path):
    """Run a benchmark that writes both files; return what it prints, and the records."""

    def run(name, *arguments):
        report, records = tmp_path / f"{name}.md", tmp_path / f"{name}.csv"
        bench(name).main([*arguments, "--out", str(report), str(records)])
        printed = capsys.readouterr().out
        assert report.read_text(encoding="utf-8") == printed
        with open(records, encoding="utf-8", newline="") as file:
            return printed, list(csv.DictReader(file))

    return run
