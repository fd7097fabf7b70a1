"""JointClassifier: the network of FFNBClassifier with every class in one task."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split

from ffnb_sklearn import FFNBClassifier, JointClassifier, make_continual_pipeline

X, Y = load_digits(return_X_y=True)
X_TRAIN, X_TEST, Y_TRAIN, Y_TEST = train_test_split(X, Y, stratify=Y, random_state=0)
SMALL = {"shared_band_size": 60, "random_state": 0}


@pytest.mark.parametrize(
    "parameters",
    [{}, {"n_layers": 2}, {"classifier": "ova"}, {"max_epochs": 2}, {"batch_norm": True}],
    ids=repr,
)
def test_it_is_ffnb_with_one_task(parameters):
    joint = JointClassifier(**SMALL, **parameters).fit(X_TRAIN, Y_TRAIN)
    one_task = FFNBClassifier(**SMALL, **parameters).fit(X_TRAIN, Y_TRAIN)

    assert_allclose(joint.decision_function(X_TEST), one_task.decision_function(X_TEST), rtol=1e-9)
    assert joint.n_tasks_ == 1
    assert joint.n_parameters_ == one_task.n_parameters_


def test_without_trained_bands_a_stream_comes_to_the_same():
    joint = JointClassifier(**SMALL, band_size=0).fit(X_TRAIN, Y_TRAIN)
    stream = FFNBClassifier(**SMALL, band_size=0, classes_per_task=2).fit(X_TRAIN, Y_TRAIN)

    assert_allclose(joint.decision_function(X_TEST), stream.decision_function(X_TEST), rtol=1e-7)


def test_it_learns_digits():
    assert JointClassifier(random_state=0).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST) > 0.985


@pytest.mark.parametrize("name", ["partial_fit", "merge", "forget", "forgetting_bound"])
def test_it_does_not_learn_incrementally(name):
    model = JointClassifier(**SMALL)

    assert hasattr(FFNBClassifier, name)
    assert not hasattr(JointClassifier, name)
    with pytest.raises(AttributeError, match=f"'JointClassifier' object has no attribute '{name}'"):
        getattr(model, name)
    assert not hasattr(make_continual_pipeline(model), "partial_fit")
    assert not hasattr(model, "set_partial_fit_request")


def test_parameters_of_the_past_have_no_effect():
    past = {"p": 3, "null_space": False, "old_statistics": "zero", "classes_per_task": 2}
    plain = JointClassifier(**SMALL).fit(X_TRAIN, Y_TRAIN)
    changed = JointClassifier(**SMALL, **past).fit(X_TRAIN, Y_TRAIN)

    assert changed.n_tasks_ == 1
    assert_array_equal(changed.decision_function(X_TEST), plain.decision_function(X_TEST))
    assert vars(JointClassifier()) == vars(FFNBClassifier())


def test_fit_starts_anew():
    model = JointClassifier(**SMALL).fit(X_TRAIN, Y_TRAIN)

    model.fit(X_TRAIN[Y_TRAIN < 3], Y_TRAIN[Y_TRAIN < 3])

    assert_array_equal(model.classes_, [0, 1, 2])


def test_a_failed_fit_leaves_it():
    model = JointClassifier(**SMALL).fit(X_TRAIN, Y_TRAIN)
    expected = model.predict(X_TEST)

    with pytest.raises(ValueError, match="epsilon"):
        model.set_params(epsilon=-1.0).fit(X_TRAIN, Y_TRAIN)
    with pytest.raises(ValueError, match="NaN"):
        model.set_params(epsilon="auto").fit(np.full_like(X_TRAIN, np.nan), Y_TRAIN)

    assert_array_equal(model.predict(X_TEST), expected)


def test_grid_search():
    search = GridSearchCV(JointClassifier(**SMALL), {"band_size": [0, 2]}, cv=2)

    assert search.fit(X_TRAIN[:300], Y_TRAIN[:300]).best_score_ > 0.9
