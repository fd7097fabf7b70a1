"""Files of every version of the format load for ever, and hold what they held."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import ContinualPipeline, FFNBClassifier, load
from tests.separated_classes import CODES, NAMES, X, learned

# Written by `golden_pipeline` when the format was published, and never again; since format 2 the
# classifier is solved before, and since format 5 `novelty` is set.
FILES = sorted(Path(__file__).parent.glob("golden_*.ffnb"))

# Sums of the features of the first sample of each class, and of the scatter of each class.
FEATURES = [17.36716546, 2.65931285, 16.57780263]
SCATTERS = [421.7998557878013, 175.0335155297198, 403.55793147642277]

# Scores of the solutions in the files from format 2 on.
SOLVED = [
    [
        [1.47023617, 47.14301489, -133.58286082],
        [-38.19171653, -89.46770953, 60.19082021],
        [30.08677281, -7.26582221, -99.4679024],
    ],
    [
        [0.42392876, 38.2623973, -103.50202232],
        [-27.38188613, -67.52716249, 45.55530088],
        [24.34760534, -5.44021413, -74.09059392],
    ],
    [
        [3.52734834, 21.71347488, -73.87477646],
        [-24.01761829, -54.98047251, 31.17002593],
        [11.03728520, -6.67482506, -52.15726113],
    ],
]
# Format 5 changed no solution.
SOLVED.append(SOLVED[-1])
SOLVED.append(
    [
        [16.72402276, 31.43980408, -131.71319486],
        [-50.83932938, -95.64872445, 62.93868581],
        [9.07271145, -1.76499788, -90.8570816],
    ]
)
# Format 7 changed no solution of this classifier.
SOLVED.append(SOLVED[-1])


def golden_pipeline():
    """Return what the file of each format holds."""
    parameters = {"shared_band_size": 4, "n_layers": 2, "rank": 2, "random_state": 0}
    parameters["novelty"] = True
    classifier = FFNBClassifier(**parameters)
    model = ContinualPipeline([("scaler", StandardScaler()), ("clf", classifier)])
    return learned(model, [1, 2], [4], y=NAMES[CODES])


def first_samples():
    """Return the first sample of each class that is known."""
    return X[[20, 40, 80]]


def test_there_is_a_file_of_each_format():
    assert [path.name for path in FILES] == [
        "golden_1.ffnb",
        "golden_2.ffnb",
        "golden_3.ffnb",
        "golden_4.ffnb",
        "golden_5.ffnb",
        "golden_6.ffnb",
        "golden_7.ffnb",
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_holds_what_it_held(path):
    model = load(path)
    assert model.classes_.tolist() == sorted([NAMES[1], NAMES[2], NAMES[4]])
    assert model.predict(first_samples()).tolist() == [NAMES[1], NAMES[2], NAMES[4]]
    sums = model.transform(first_samples()).sum(axis=1)
    np.testing.assert_allclose(sums, FEATURES, rtol=1e-7)
    scatters = [one.scatter().sum() for one in model[-1]._state.model.moments]
    np.testing.assert_allclose(scatters, SCATTERS, rtol=1e-7)
    assert model[-1].get_params()["rank"] == 2
    assert model[-1].task_classes_[1].tolist() == [""]


def test_file_with_a_solution_predicts_the_same_whatever_solves_later():
    for path, scores in zip(FILES[1:], SOLVED, strict=True):
        model = load(path)
        assert model[-1]._state.model.solved is not None
        np.testing.assert_allclose(model.decision_function(first_samples()), scores, rtol=1e-7)


def test_file_with_left_out_samples_holds_their_threshold():
    assert load(FILES[4])[-1].novelty_threshold(0.1) == pytest.approx(-0.6545914700170455)
    with pytest.raises(ValueError, match="novelty_threshold needs scores of samples left out"):
        load(FILES[3])[-1].novelty_threshold(0.1)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_goes_on_learning(path):
    model = learned(load(path), [0], y=NAMES[CODES])
    now = np.isin(CODES, [0, 1, 2, 4])
    assert model.score(X[now], NAMES[CODES[now]]) > 0.9
    assert model.forget([NAMES[2]]).merge(load(path)).classes_.size == 4
