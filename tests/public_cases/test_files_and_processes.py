"""Public cases about other processes and global state."""

import subprocess
import sys

import numpy as np
from numpy.testing import assert_array_equal
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import make_continual_pipeline, save
from tests.public_cases.flowers import NAMES, X, small

# ---- other processes

FRESH = """
import sys
import numpy, torch

seed, n_threads = torch.initial_seed(), torch.get_num_threads()
state = numpy.random.get_state()[1].tolist()
import ffnb_sklearn

assert torch.initial_seed() == seed
assert torch.get_num_threads() == n_threads
assert numpy.random.get_state()[1].tolist() == state
# Packages that only some calls need are not imported.
assert not {"matplotlib", "skops"} & set(sys.modules)
rows = numpy.load(sys.argv[1])
numpy.save(sys.argv[3], ffnb_sklearn.load(sys.argv[2]).predict_proba(rows))
"""


def test_a_new_process_predicts_the_same_and_its_seeds_are_left_alone(tmp_path):
    """auto-sklearn #1280, flash-fft-conv #26."""
    model = make_continual_pipeline(StandardScaler(), small()).partial_fit(X, NAMES)
    rows, file, answers = (tmp_path / name for name in ("rows.npy", "model", "answers.npy"))
    np.save(rows, X)
    save(model, file)
    subprocess.run([sys.executable, "-c", FRESH, rows, file, answers], check=True)
    assert_array_equal(np.load(answers), model.predict_proba(X))
