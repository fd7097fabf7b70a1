"""Public cases about fitted members, selection, inspection, calibration, chains and subclasses."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectFromModel, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import DecisionBoundaryDisplay, partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, learning_curve
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import StandardScaler
from torch import nn

from ffnb_sklearn import (
    IncrementalDiscriminantAnalysis,
    TorchFeatureExtractor,
    make_continual_pipeline,
)
from tests.public_cases.flowers import NAMES, WEIGHTS, X, Y, heads, small

# ---- members that are fitted already


@heads
def test_a_vote_of_fitted_members(head):
    """scikit-learn #12297."""
    members = [small(head, random_state=seed).fit(X, NAMES) for seed in range(2)]
    frozen = [(f"member {k}", FrozenEstimator(member)) for k, member in enumerate(members)]
    vote = VotingClassifier(frozen, voting="soft").fit(X[::9], NAMES[::9])
    mean = np.mean([member.predict_proba(X) for member in members], axis=0)
    assert_allclose(vote.predict_proba(X), mean)
    assert_array_equal(vote.predict(X), members[0].classes_[mean.argmax(axis=1)])


@heads
def test_a_majority_of_names(head):
    """mlxtend #321."""
    members = [(f"member {seed}", small(head, random_state=seed)) for seed in range(3)]
    vote = VotingClassifier(members, voting="hard").fit(X, NAMES)
    assert vote.score(X, NAMES) > 0.85
    assert set(vote.predict(X)) == set(NAMES)


@heads
def test_a_stack_of_fitted_members(head):
    """scikit-learn #24429."""
    member = small(head).fit(X, NAMES)
    stack = StackingClassifier([("member", member)], LogisticRegression(), cv="prefit")
    stack.fit(X, NAMES)
    assert stack.estimators_ == [member]
    assert_array_equal(stack.transform(X), member.predict_proba(X))
    assert stack.score(X, NAMES) > 0.85


# ---- selection and inspection


@heads
def test_features_are_selected_by_scores_and_not_by_coefficients(head):
    """scikit-learn #9110."""
    noisy = np.column_stack([np.random.default_rng(0).normal(size=(150, 2)), X[:, 2:]])
    chosen = SequentialFeatureSelector(small(head), n_features_to_select=1, cv=2).fit(noisy, Y)
    assert chosen.get_support()[2:].any()
    selector = SelectFromModel(small(head)).fit(noisy, Y)
    with pytest.raises(ValueError, match="should have `coef_` or `feature_importances_`"):
        selector.transform(noisy)


@heads
def test_permutation_importance_with_weights_of_part_of_the_samples(head):
    """scikit-learn #28183."""
    found = permutation_importance(
        small(head).fit(X, Y),
        X,
        Y,
        sample_weight=WEIGHTS,
        max_samples=0.5,
        n_repeats=3,
        random_state=0,
    )
    # The petals tell the kinds apart.
    assert found.importances_mean[2:].min() > found.importances_mean[:2].max()


@heads
def test_partial_dependence_has_a_curve_for_each_number(head):
    """evalml #2114."""
    model = small(head).fit(X, 10 * Y + 100)
    curves = partial_dependence(model, X, [2], grid_resolution=7)["average"]
    assert curves.shape == (3, 7)
    assert_allclose(curves.sum(axis=0), 1.0)


@heads
def test_boundaries_of_a_named_class(head):
    """scikit-learn #27291, scikit-learn #27462."""
    petals = X[:, 2:]
    model = small(head).fit(petals, NAMES)
    try:
        display = DecisionBoundaryDisplay.from_estimator(
            model,
            petals,
            response_method="predict_proba",
            class_of_interest="virginica",
            grid_resolution=9,
        )
        everything = DecisionBoundaryDisplay.from_estimator(
            model, petals, response_method="decision_function", grid_resolution=9
        )
    finally:
        plt.close("all")
    assert everything.response.shape == (9, 9, 3)
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    assert_array_equal(display.response.ravel(), model.predict_proba(grid)[:, 2])


# ---- calibration


@heads
def test_conformal_sets_from_samples_that_lack_a_class(head):
    """MAPIE #116."""
    model = small(head).fit(X[::2], NAMES[::2])
    rows, names = X[1::2], NAMES[1::2]
    kept = names != "virginica"
    columns = np.searchsorted(model.classes_, names)
    # The probabilities of the true names bound those of 90 % of further samples.
    of_true_names = model.predict_proba(rows)[np.arange(75), columns]
    least = np.quantile(of_true_names[kept], 0.1, method="lower")
    sets = model.predict_proba(rows) >= least
    assert sets.shape == (75, 3)
    assert sets[np.arange(75), columns][kept].mean() >= 0.9


@heads
@pytest.mark.filterwarnings("ignore:Number of classes in training fold:RuntimeWarning")
def test_folds_of_calibration_that_lack_a_class(head):
    """scikit-learn #17827, scikit-learn #29551."""
    order = np.argsort(Y, kind="stable")
    calibrated = CalibratedClassifierCV(small(head), cv=KFold(3)).fit(X[order], Y[order])
    for lacking, member in enumerate(calibrated.calibrated_classifiers_):
        probabilities = member.predict_proba(X)
        assert_array_equal(probabilities[:, lacking], 0.0)
        assert_allclose(probabilities.sum(axis=1), 1.0)


@heads
def test_priors_that_are_known_change_the_probabilities(head):
    """scikit-lego #201."""
    model = small(head).fit(X, Y)
    uniform = model.predict_proba(X)
    rare = model.set_params(priors={0: 0.4, 1: 0.5, 2: 0.1}).predict_proba(X)
    assert (rare[Y > 0, 2] < uniform[Y > 0, 2]).all()
    assert (rare[Y > 0, 1] > uniform[Y > 0, 1]).all()
    assert_allclose(rare.sum(axis=1), 1.0)
    model.set_params(priors="uniform")
    assert_array_equal(model.predict_proba(X), uniform)


# ---- chains and curves


@heads
def test_a_chain_of_labels(head):
    """scikit-learn #13339."""
    targets = np.column_stack([Y == 0, Y == 1, X[:, 0] > 5.8]).astype(int)
    chain = ClassifierChain(small(head)).fit(X, targets)
    assert (chain.predict(X) == targets).mean() > 0.9
    assert chain.decision_function(X).shape == (150, 3)


@heads
def test_a_learning_curve_of_batches(head):
    """scikit-learn #22981."""
    sizes = [0.1, 0.5, 1.0]
    curve = learning_curve(
        small(head), X, NAMES, train_sizes=sizes, cv=3, exploit_incremental_learning=True
    )
    assert curve[2].mean(axis=1)[-1] > 0.85
    assert np.isfinite(curve[2]).all()


@heads
def test_a_declared_class_that_comes_alone(head):
    """scikit-learn #6994."""
    model = small(head).partial_fit([[1], [2], [3]], ["a", "b", "c"], classes=list("abcd"))
    model.partial_fit([[4]], ["d"])
    assert model.predict([[1], [2], [3], [4]]).tolist() == list("abcd")


# ---- configuration


@pytest.mark.parametrize("output", ["pandas", "default"])
def test_the_output_of_transformers_changes_no_prediction(output):
    """scikit-learn #29401."""
    pytest.importorskip("pandas")
    pipe = make_continual_pipeline(StandardScaler(), small())
    expected = clone(pipe).fit(X, Y).predict_proba(X)
    with config_context(transform_output=output):
        pipe.fit(X, Y)
        assert_array_equal(pipe.predict_proba(X), expected)
        assert isinstance(pipe.predict_proba(X), np.ndarray)


def test_a_parameter_may_be_a_class():
    """scikit-learn #12521."""
    sizes = {"in_features": 4, "out_features": 3}
    network = TorchFeatureExtractor(nn.Linear, backbone_params=sizes, random_state=0)
    copy = clone(network)
    assert copy.backbone is nn.Linear
    assert_array_equal(copy.fit_transform(X), network.fit_transform(X))


class Careful(IncrementalDiscriminantAnalysis):
    """Subclass with fewer parameters and one more."""

    def __init__(self, *, threshold=0.5, classifier="gaussian", random_state=None):
        super().__init__(classifier=classifier, random_state=random_state)
        self.threshold = threshold


@heads
def test_a_subclass_has_the_parameters_of_its_constructor(head):
    """scikit-learn #13555, baikal #31."""
    model = clone(Careful(threshold=0.1, classifier=head, random_state=0)).fit(X, Y)
    assert model.get_params() == {"threshold": 0.1, "classifier": head, "random_state": 0}
    assert repr(model).startswith("Careful(")
    expected = IncrementalDiscriminantAnalysis(classifier=head, random_state=0).fit(X, Y)
    assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


@heads
def test_parameters_changed_after_fit_wait_for_the_next_fit(head):
    """scikit-learn #17158."""
    model = small(head).fit(X, Y)
    before, features = model.predict_proba(X), model.transform(X)
    model.set_params(shared_band_size=3, rank=2, random_state=9)
    assert_array_equal(model.predict_proba(X), before)
    assert_array_equal(model.transform(X), features)
    expected = small(head, shared_band_size=3, rank=2, random_state=9).fit(X, Y)
    assert_array_equal(model.fit(X, Y).predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("number", [float("nan"), np.float64("nan")])
def test_nan_is_in_no_range(number):
    """voluptuous #194."""
    model = small(novelty=True).fit(X, Y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"factor must be a number in \(0, 1\]; got nan"):
        model.decay(number)
    with pytest.raises(ValueError, match=r"rate must be a number in \(0, 1\); got nan"):
        model.novelty_threshold(number)
    for name in ("shrinkage", "epsilon", "p"):
        with pytest.raises(ValueError, match=f"(?s){name}.*nan"):
            small(classes_per_task=1, **{name: number}).fit(X, Y)
    assert_array_equal(model.predict_proba(X), before)


def test_a_rate_of_zero_is_refused():
    """PyOD #127."""
    model = small(novelty=True).fit(X, Y)
    for rate in (0, 1):
        with pytest.raises(ValueError, match=f"rate == {rate}, must be"):
            model.novelty_threshold(rate)
    # A threshold without false alarms among the samples learned is their lowest score.
    assert not (model.score_samples(X) < model.score_samples(X).min()).any()
