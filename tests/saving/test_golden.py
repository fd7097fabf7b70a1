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

from ffnb_sklearn import (
    ContinualPipeline,
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    load,
    save,
)
from tests.saving.test_schema import KEYS, written_keys
from tests.separated_classes import CODES, NAMES, X, learned

# Written by the command above while the format is not released, and never again.
FILE = Path(__file__).parent / "golden_1.ffnb"

# Sums of the features of the first sample of each class, and of the scatter of each class, in the
# classifier without bands and in the classifier with bands.
FEATURES = [
    [11.996467140440286, 3.9048650759835533, 10.010119791415436],
    [20.34140190354468, 14.222623703823828, 15.535968213511293],
]
SCATTERS = [
    [135.5563783156374, 80.3727543366897],
    [425.94161856637015, 327.79401458240125, 645.0560975215406],
]
NULL_SPACE_DIMS = [(10, 2), (6, 1)]
THRESHOLDS = [-0.7454821301870479, -0.6445896984502978]


def golden_pipeline():
    """Return what the file holds: the features of one classifier are the inputs of the other."""
    parameters = {"shared_band_size": 4, "rank": 2, "novelty": True, "random_state": 0}
    first = IncrementalDiscriminantAnalysis(**parameters)
    last = FFNBClassifier(band_size=1, n_layers=2, **parameters)
    model = ContinualPipeline([("scaler", StandardScaler()), ("features", first), ("clf", last)])
    return learned(model, [1, 2], [4], y=NAMES[CODES])


def first_samples():
    """Return the first sample of each class that is known."""
    return X[[20, 40, 80]]


def contents(model):
    """Return the sums of the features and of the scatters of both classifiers."""
    rows = model[0].transform(first_samples())
    sums_of_features = []
    sums_of_scatters = []
    for classifier in model[1:]:
        rows = classifier.transform(rows)
        sums_of_features.append(rows.sum(axis=1).tolist())
        learned_model = classifier._state.model
        scatters = []
        for number in range(len(learned_model.moments)):
            scatter = learned_model.complete_moments(number).scatter()
            scatters.append(float(scatter.sum()))
        sums_of_scatters.append(scatters)
    return sums_of_features, sums_of_scatters


def thresholds(model):
    """Return the thresholds of the left-out samples of both classifiers."""
    return [classifier.novelty_threshold(0.1) for classifier in model[1:]]


def test_file_holds_what_it_held():
    model = load(FILE)
    assert model.classes_.tolist() == sorted([NAMES[1], NAMES[2], NAMES[4]])
    assert model.predict(first_samples()).tolist() == [NAMES[1], NAMES[2], NAMES[4]]
    features, scatters = contents(model)
    for number in range(2):
        np.testing.assert_allclose(features[number], FEATURES[number], rtol=1e-7)
        np.testing.assert_allclose(scatters[number], SCATTERS[number], rtol=1e-7)
        assert model[1 + number].get_params()["rank"] == 2
    assert model[-1].task_classes_[1].tolist() == [""]
    assert model[-1].null_space_dims_ == NULL_SPACE_DIMS


def test_file_holds_the_threshold_of_left_out_samples():
    assert thresholds(load(FILE)) == pytest.approx(THRESHOLDS)


@pytest.mark.filterwarnings("ignore:Trained neurons keep a trace:UserWarning")
@pytest.mark.filterwarnings("ignore:The novelty scores of other classes:UserWarning")
@pytest.mark.filterwarnings("ignore:Merging is not exact:UserWarning")
def test_file_goes_on_learning():
    model = learned(load(FILE), [0], y=NAMES[CODES])
    now = np.isin(CODES, [0, 1, 2, 4])
    assert model.score(X[now], NAMES[CODES[now]]) > 0.9
    other = load(FILE).forget([NAMES[1], NAMES[4]])
    assert model.forget([NAMES[2]]).merge(other).classes_.size == 4


@pytest.mark.filterwarnings("ignore:The novelty scores of other classes:UserWarning")
def test_classifier_without_bands_goes_on_learning():
    scaler, classifier, _ = load(FILE)
    rows = scaler.transform(X)
    classifier.forget([NAMES[2]])
    for code in (2, 0):
        classifier.partial_fit(rows[code == CODES], NAMES[CODES[code == CODES]])
    now = np.isin(CODES, [0, 1, 2])
    assert classifier.score(rows[now], NAMES[CODES[now]]) > 0.9


if __name__ == "__main__":
    golden = golden_pipeline()
    save(golden, FILE)
    with tempfile.TemporaryDirectory() as folder:
        keys = json.dumps(written_keys(Path(folder)), indent=1)
    KEYS.write_text(keys + "\n", encoding="utf-8")
    print("FEATURES, SCATTERS =", contents(golden))
    print("NULL_SPACE_DIMS =", golden[-1].null_space_dims_)
    print("THRESHOLDS =", thresholds(golden))
