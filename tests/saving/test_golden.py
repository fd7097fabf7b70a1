"""The file of each version of the format loads for ever, and holds what it held.

This command records the file and the names in files anew, and prints the numbers below:

python -m tests.saving.test_golden
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import ContinualPipeline, FFNBClassifier, load, save
from tests.saving.test_schema import KEYS, written_keys
from tests.separated_classes import CODES, NAMES, X, learned

# Written by the command above while the format is not released, and never again.
FILE = Path(__file__).parent / "golden_1.ffnb"

# Sums of the features of the first sample of each class, and of the scatter of each class.
FEATURES = [13.21133162531589, 5.001414205183014, 11.811067902213527]
SCATTERS = [144.89123834551256, 88.33764779354306, 289.95656805960493]

THRESHOLD = -0.7215517924668089


def golden_pipeline():
    """Return what the file holds."""
    parameters = {"band_size": 1, "shared_band_size": 4, "n_layers": 2, "rank": 2}
    parameters |= {"novelty": True, "random_state": 0}
    classifier = FFNBClassifier(**parameters)
    model = ContinualPipeline([("scaler", StandardScaler()), ("clf", classifier)])
    return learned(model, [1, 2], [4], y=NAMES[CODES])


def first_samples():
    """Return the first sample of each class that is known."""
    return X[[20, 40, 80]]


def contents(model):
    """Return the sums of the features and of the scatters."""
    moments = model[-1]._state.model.moments
    features = model.transform(first_samples()).sum(axis=1)
    return features.tolist(), [float(one.scatter().sum()) for one in moments]


def test_file_holds_what_it_held():
    model = load(FILE)
    assert model.classes_.tolist() == sorted([NAMES[1], NAMES[2], NAMES[4]])
    assert model.predict(first_samples()).tolist() == [NAMES[1], NAMES[2], NAMES[4]]
    features, scatters = contents(model)
    np.testing.assert_allclose(features, FEATURES, rtol=1e-7)
    np.testing.assert_allclose(scatters, SCATTERS, rtol=1e-7)
    assert model[-1].get_params()["rank"] == 2
    assert model[-1].task_classes_[1].tolist() == [""]


def test_file_holds_the_threshold_of_left_out_samples():
    assert load(FILE)[-1].novelty_threshold(0.1) == pytest.approx(THRESHOLD)


@pytest.mark.filterwarnings("ignore:The novelty scores of other classes:UserWarning")
def test_file_goes_on_learning():
    model = learned(load(FILE), [0], y=NAMES[CODES])
    now = np.isin(CODES, [0, 1, 2, 4])
    assert model.score(X[now], NAMES[CODES[now]]) > 0.9
    other = load(FILE).forget([NAMES[1], NAMES[4]])
    assert model.forget([NAMES[2]]).merge(other).classes_.size == 4


if __name__ == "__main__":
    golden = golden_pipeline()
    save(golden, FILE)
    with tempfile.TemporaryDirectory() as folder:
        keys = json.dumps(written_keys(Path(folder)), indent=1)
    KEYS.write_text(keys + "\n", encoding="utf-8")
    print("FEATURES, SCATTERS =", contents(golden))
    print("THRESHOLD =", golden[-1].novelty_threshold(0.1))
