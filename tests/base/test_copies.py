"""Steps that learn in copies, and fitted attributes that are replaced at once."""

from threading import Lock

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn._base.copies import learn_in_copies, learn_in_draft, replace_fitted
from ffnb_sklearn.exceptions import ConcurrentLearningError

X = np.array([[0.0], [2.0]])


def test_a_call_that_fails_leaves_the_steps():
    scaler = StandardScaler()
    pipeline = Pipeline([("scaler", scaler)])

    def fail(draft):
        draft[0].fit(X)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        learn_in_copies(pipeline, [scaler], fail)
    assert pipeline[0] is scaler
    assert not hasattr(scaler, "mean_")


def test_frozen_steps_are_not_copied():
    frozen = FrozenEstimator(StandardScaler().fit(X))
    scaler = StandardScaler()
    pipeline = Pipeline([("frozen", frozen), ("scaler", scaler)])
    assert learn_in_copies(pipeline, [frozen, scaler], lambda draft: draft[1].fit(X).mean_) == 1.0
    assert pipeline[0] is frozen
    assert pipeline[1] is not scaler


def test_a_step_that_cannot_be_copied_is_named():
    step = StandardScaler()
    step.lock_ = Lock()
    with pytest.raises(TypeError) as caught:
        learn_in_copies(Pipeline([("scaler", step)]), [step], lambda draft: None)
    assert "Wrap a fitted StandardScaler" in caught.value.__notes__[0]


def test_stale_attributes_go_and_other_attributes_stay():
    estimator = BaseEstimator()
    estimator.old_ = 1
    estimator.parameter = 2
    replace_fitted(estimator, ("old_", "new_"), {"new_": 3})
    assert vars(estimator) == {"parameter": 2, "new_": 3}


@pytest.mark.parametrize("wrap", [lambda step: step, make_pipeline, MultiOutputClassifier])
def test_copies_share_callbacks_at_any_depth(wrap):
    callback = BaseEstimator()
    inner = StandardScaler()
    inner._skl_callbacks = [callback]
    step = wrap(inner)
    pipeline = Pipeline([("step", step)])
    learn_in_copies(pipeline, [step], lambda draft: None)
    assert pipeline[0] is not step
    parts = [pipeline[0], *pipeline[0].get_params().values()]
    (copied,) = [part for part in parts if hasattr(part, "_skl_callbacks")]
    assert copied is not inner
    assert copied._skl_callbacks[0] is callback


def test_a_draft_that_fails_leaves_the_estimator():
    scaler = StandardScaler().fit(X)
    attributes = vars(scaler).copy()

    def fail(draft):
        draft.fit(X[:1])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        learn_in_draft(scaler, fail)
    assert vars(scaler) == attributes
    learn_in_draft(scaler, lambda draft: draft.fit(X[1:]))
    assert scaler.mean_ == 2.0


def test_nothing_else_changes_the_estimator_of_a_draft():
    scaler = StandardScaler()
    with pytest.raises(ConcurrentLearningError):
        learn_in_draft(scaler, lambda draft: learn_in_draft(scaler, lambda other: other.fit(X)))
    assert not hasattr(scaler, "mean_")
