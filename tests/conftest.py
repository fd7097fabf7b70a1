"""Fixtures shared by the whole suite."""

import os
from pathlib import Path

# Workers and child processes use one thread each, because pytest-xdist already fills the cores.
# Libraries read these variables when they are loaded.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# ruff: noqa: E402
import pytest
import torch
from hypothesis import HealthCheck, settings

# Generated tests have no limits of time: other work on the machine would fail them.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

torch.set_num_threads(1)

# Quick tests of each room, which the mark `smoke` selects (README.md).
SMOKE = (
    "tests/backbones/test_readout.py",
    "tests/baselines/test_base.py",
    "tests/base/test_state.py",
    "tests/classifiers/test_discriminant.py",
    "tests/classifiers/test_ffnb.py",
    "tests/core/bands/test_null_space.py",
    "tests/core/test_features_shared_band.py",
    "tests/core/heads/test_distances.py",
    "tests/core/heads/test_pairs.py",
    "tests/core/test_moments.py",
    "tests/core/test_model.py",
    "tests/core/test_prediction.py",
    "tests/datasets/test_base.py",
    "tests/distributed/test_map_reduce.py",
    "tests/inputs/test_tasks.py",
    "tests/pipeline/test_pipeline.py",
    "tests/project/test_architecture.py",
    "tests/project/test_repository.py",
    "tests/saving/test_golden.py",
    "tests/skeletons/test_descriptor.py",
    "tests/streams/test_evaluation.py",
    "tests/test_exactness.py",
    "tests/test_metrics.py",
)


def pytest_collection_modifyitems(items):
    """Mark the tests of the smoke selection."""
    root = Path(__file__).resolve().parents[1]
    files = {root / name for name in SMOKE}
    for item in items:
        if item.path in files:
            item.add_marker(pytest.mark.smoke)


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
