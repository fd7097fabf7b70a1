"""Fixtures shared by the whole suite."""

import os
from pathlib import Path

import pytest
import torch

# One thread per worker: pytest-xdist already fills the cores.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_data():
    """Folder of the real data sets, from FFNB_DATA or beside the checkout."""
    beside = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("FFNB_DATA", beside))
    if not (folder / "sbu.npz").is_file():
        pytest.skip(f"the real data sets are not at {folder}; set FFNB_DATA to their folder")
    return folder


def pytest_runtest_setup(item):
    """Skip tests of CUDA devices where there is none."""
    if item.get_closest_marker("cuda") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture(autouse=True)
def cpu_unless_marked(request, monkeypatch):
    """Let `device="auto"` be the CPU, also beside a GPU, in all tests without the mark `cuda`."""
    if torch.cuda.is_available() and not request.node.get_closest_marker("cuda"):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
