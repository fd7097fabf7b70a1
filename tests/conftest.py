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
