"""Files of every version of the format load for ever, and predict what they predicted."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import ContinualPipeline, FFNBClassifier, load
from tests.separated_classes import CODES, NAMES, X, learned

# Written by `golden_pipeline` with version 0.1.0.dev0, and never again.
FILES = sorted(Path(__file__).parent.glob("golden_*.ffnb"))

# Its scores of the first sample of each class, in the order of `classes_`, up to their temperature.
SCORES = [
    [-0.254938734, 1.81072569, -4.36261131],
    [-1.03540395, -2.82420832, 2.0323375],
    [1.57411177, -0.347324727, -3.61439316],
]


def golden_pipeline():
    """Return what the file of format 1 holds."""
    parameters = {"shared_band_size": 4, "n_layers": 2, "rank": 2, "random_state": 0}
    classifier = FFNBClassifier(**parameters)
    model = ContinualPipeline([("scaler", StandardScaler()), ("clf", classifier)])
    return learned(model, [1, 2], [4], y=NAMES[CODES])


def first_samples():
    """Return the first sample of each class that is known."""
    return X[[20, 40, 80]]


def test_there_is_a_file_of_each_format():
    assert [path.name for path in FILES] == ["golden_1.ffnb"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_loads_and_predicts_as_ever(path):
    model = load(path)
    assert model.classes_.tolist() == sorted([NAMES[1], NAMES[2], NAMES[4]])
    assert model.predict(first_samples()).tolist() == [NAMES[1], NAMES[2], NAMES[4]]
    scores = model.decision_function(first_samples())
    ratios = scores / SCORES
    np.testing.assert_allclose(ratios, np.repeat(ratios[:, :1], 3, axis=1), rtol=1e-6)
    assert (ratios > 0.0).all()
    assert model[-1].get_params()["rank"] == 2
    assert model[-1].task_classes_[1].tolist() == [""]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_goes_on_learning(path):
    model = learned(load(path), [0], y=NAMES[CODES])
    now = np.isin(CODES, [0, 1, 2, 4])
    assert model.score(X[now], NAMES[CODES[now]]) > 0.9
    assert model.forget([NAMES[2]]).merge(load(path)).classes_.size == 4
