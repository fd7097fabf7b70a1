"""Public cases about ensembles, searches, pipelines, metadata routing and displays."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, average_precision_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from ffnb_sklearn import (
    AccuracyMatrixDisplay,
    ContinualPipeline,
    class_incremental_tasks,
    evaluate_stream,
    make_continual_pipeline,
)
from ffnb_sklearn.metrics import forgetting
from tests.public_cases.flowers import NAMES, WEIGHTS, X, Y, heads, small

# ---- ensembles and other estimators around the classifier


@heads
def test_bootstraps_without_a_rare_class(head):
    """scikit-learn #8566."""
    kept = (Y < 2) | (np.cumsum(Y == 2) <= 3)
    ensemble = BaggingClassifier(small(head), n_estimators=8, max_samples=0.1, random_state=0)
    ensemble.fit(X[kept], NAMES[kept])
    assert any("virginica" not in NAMES[kept][drawn] for drawn in ensemble.estimators_samples_)
    assert_allclose(ensemble.predict_proba(X[kept]).sum(axis=1), 1.0)
    assert ensemble.score(X[kept], NAMES[kept]) > 0.9


@heads
@pytest.mark.filterwarnings("ignore:Number of classes in training fold:RuntimeWarning")
@pytest.mark.parametrize("method", ["predict_proba", "decision_function"])
def test_folds_that_lack_a_class(head, method):
    """scikit-learn #34264, scikit-learn #9593."""
    rows = np.vstack([X[Y == 0], X[Y == 1], X[Y == 2], X[Y == 0] + 5.0])
    labels = np.repeat(np.arange(4), 50)
    # Each of the four folds is one class, so that training never sees it.
    scores = cross_val_predict(small(head), rows, labels, cv=KFold(4), method=method)
    assert scores.shape == (200, 4)
    assert np.isfinite(scores).all()
    assert_array_equal(scores.argmin(axis=1), labels)
    if method == "predict_proba":
        assert_array_equal(scores[np.arange(200), labels], 0.0)


def test_a_calibrated_frozen_classifier_inside_self_training():
    """scikit-learn #19848."""
    known = np.where(np.arange(150) % 2, Y, -1)
    # Isotonic regression needs scores that rank the samples of a class against all others, which
    # the log-densities of the default head do not.
    frozen = FrozenEstimator(small("ovo").fit(X[::2], Y[::2]))
    calibrated = CalibratedClassifierCV(frozen, method="isotonic").fit(X, Y)
    model = SelfTrainingClassifier(calibrated, threshold=0.6).fit(X, known)
    assert model.score(X, Y) > 0.9


@heads
def test_several_targets_learn_batch_by_batch(head):
    """scikit-learn #28240."""
    targets = np.column_stack([Y, Y == 0])
    declared = [np.arange(3), np.arange(2)]
    model = MultiOutputClassifier(small(head))
    with config_context(enable_metadata_routing=True):
        model.estimator.set_partial_fit_request(sample_weight=True)
        for part in np.array_split(np.arange(150), 3):
            model.partial_fit(X[part], targets[part], classes=declared, sample_weight=WEIGHTS[part])
    assert (model.predict(X) == targets).mean() > 0.9
    alone = small(head)
    for part in np.array_split(np.arange(150), 3):
        alone.partial_fit(X[part], Y[part], sample_weight=WEIGHTS[part])
    assert_array_equal(model.estimators_[0].predict_proba(X), alone.predict_proba(X))


@heads
def test_the_positive_label_may_be_the_first(head):
    """scikit-learn #18114."""
    kept = Y > 0
    model = small(head).fit(X[kept], NAMES[kept])
    positive = NAMES[kept] == "versicolor"
    scorer = make_scorer(
        average_precision_score,
        response_method=("decision_function", "predict_proba"),
        pos_label="versicolor",
    )
    expected = average_precision_score(positive, -model.decision_function(X[kept]))
    assert_allclose(scorer(model, X[kept], NAMES[kept]), expected)
    assert expected > 0.9


# ---- searches


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite:UserWarning")
def test_a_candidate_that_fails_scores_nan_and_others_win():
    """scikit-learn #25328, scikit-learn #16874."""
    grid = {"epsilon": [-1.0, 0.3], "shrinkage": [0.5]}
    with pytest.warns(FitFailedWarning, match="epsilon"):
        search = GridSearchCV(small(), grid, cv=2, error_score=np.nan).fit(X, Y)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [True, False]
    assert search.best_params_["epsilon"] == 0.3


# ---- metadata routing


@heads
def test_score_uses_its_weights_also_with_metadata_routing(head):
    """scikit-learn #30817."""
    model = small(head, shrinkage=1.0).fit(X[:, :2], Y)
    expected = accuracy_score(Y, model.predict(X[:, :2]), sample_weight=WEIGHTS)
    assert expected != accuracy_score(Y, model.predict(X[:, :2]))
    for enabled in (False, True):
        with config_context(enable_metadata_routing=enabled):
            assert model.score(X[:, :2], Y, sample_weight=WEIGHTS) == expected


def test_weights_reach_the_last_step_through_two_layers():
    """scikit-learn #21134, scikit-learn #30937."""
    with config_context(enable_metadata_routing=True):
        learner = small().set_fit_request(sample_weight=True)
        learner.set_partial_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipe = make_continual_pipeline(Normalizer(), learner)
        calibrated = CalibratedClassifierCV(clone(pipe), cv=2, ensemble=False)
        weighted = clone(calibrated).fit(X, Y, sample_weight=WEIGHTS**4).predict_proba(X)
        assert np.abs(weighted - calibrated.fit(X, Y).predict_proba(X)).max() > 0.01
        pipe.partial_fit(X, Y, sample_weight=WEIGHTS)
        expected = accuracy_score(Y, pipe.predict(X), sample_weight=WEIGHTS)
        assert pipe.score(X, Y, sample_weight=WEIGHTS) == expected
        rows = Normalizer().fit_transform(X)
        alone = small().fit(rows, Y, sample_weight=WEIGHTS)
        assert_array_equal(pipe.predict_proba(X), alone.predict_proba(rows))
        search = GridSearchCV(clone(pipe), {"ffnbclassifier__epsilon": [0.1]}, cv=2)
        assert 0.9 < search.fit(X, Y, sample_weight=WEIGHTS).best_score_ < 1.0


def test_cross_validation_of_tensors():
    """skorch #588."""
    rows, labels = torch.tensor(X), torch.tensor(Y)
    scores = cross_val_score(small(), rows, labels, cv=3, error_score="raise")
    assert_array_equal(scores, cross_val_score(small(), X, Y, cv=3))


# ---- arrays of other libraries


@pytest.mark.parametrize("convert", [torch.tensor, np.array])
def test_arrays_of_other_libraries_are_scored_where_scikit_learn_dispatches(convert, monkeypatch):
    """scikit-learn #33822, scikit-learn #32837."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    expected = evaluate_stream(small(), X, Y, X, Y)
    matrix = expected.accuracy_matrix
    with config_context(array_api_dispatch=True):
        rows, labels = convert(X), convert(Y)
        accuracy = small().fit(rows, labels).score(rows, labels)
        # scikit-learn averages tensors in float32.
        assert accuracy == pytest.approx(small().fit(X, Y).score(X, Y), abs=1e-6)
        result = evaluate_stream(small(), rows, labels, rows, labels)
        assert_array_equal(result.accuracy_matrix, matrix)
        assert_array_equal(class_incremental_tasks(labels), class_incremental_tasks(Y))
        assert forgetting(convert(matrix)) == forgetting(matrix)
        assert AccuracyMatrixDisplay(convert(matrix)).plot().text_[0, 0].get_text() == "100.0"


# ---- pipelines


def test_an_empty_pipeline_is_displayed_and_refused():
    """scikit-learn #30197, scikit-learn #31723."""
    empty = ContinualPipeline([])
    assert "ContinualPipeline" in estimator_html_repr(empty)
    assert repr(empty) == "ContinualPipeline(steps=[])"
    with pytest.raises(ValueError, match="pipeline is empty"):
        empty.fit(X, Y)
    empty.set_params(steps=[("nb", GaussianNB())]).fit(X, Y)


def test_a_pipeline_knows_whether_it_is_fitted():
    """scikit-learn #14545."""
    pipe = make_continual_pipeline(Normalizer(), small())
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(pipe)
    check_is_fitted(pipe.partial_fit(X, Y))
    check_is_fitted(make_pipeline(Normalizer(), small()).fit(X, Y))
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(clone(pipe))


def test_predictions_leave_no_trace_in_later_tasks():
    """river #499, river #1955."""
    asked, alone = (make_continual_pipeline(Normalizer(), small()) for _ in range(2))
    for label in (0, 1, 2):
        for pipe in (asked, alone):
            pipe.partial_fit(X[label == Y], Y[label == Y])
        asked.predict(X * [1.0, 200000.0, -3.0, 1.0])
        asked.transform(X)
        asked[:-1].transform(X)
    assert_array_equal(asked.predict_proba(X), alone.predict_proba(X))


# ---- displays


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    plt.close("all")


def test_numbers_beside_unknown_accuracies_are_legible():
    """scikit-learn #27306."""
    display = AccuracyMatrixDisplay([[1.0, np.nan], [0.1, 0.9]]).plot(cmap="Blues")
    best, worst, good = (display.text_[i, j].get_color() for i, j in [(0, 0), (1, 0), (1, 1)])
    assert best == good == display.im_.cmap(0.0)
    assert worst == display.im_.cmap(1.0)
    assert display.text_[0, 1] is None


def test_a_format_reaches_the_numbers_from_every_constructor():
    """scikit-learn #15937."""
    display = AccuracyMatrixDisplay.from_estimator(
        small(), X, Y, X, Y, values_format=".3f", cmap="Greys"
    )
    assert display.text_[0, 0].get_text() == "100.000"
    assert display.im_.get_cmap().name == "Greys"
