"""score_samples: samples of classes that were not learned score low."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from ffnb_sklearn import FFNBClassifier, make_continual_pipeline
from tests.separated_classes import CODES, N_FEATURES, X, learned, of

DIGITS = train_test_split(*load_digits(return_X_y=True), test_size=0.4, random_state=0)
PAIRS = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]


def estimator(**parameters):
    return FFNBClassifier(**{"shared_band_size": 10, "random_state": 0, **parameters})


def novelty_auroc(model, new):
    """Area under the curve of unseen digits beside unseen rows of the learned ones."""
    A, B, a, b = DIGITS
    seen = ~np.isin(a, new)
    model.fit(A[seen], a[seen])
    return roc_auc_score(~np.isin(b, new), model.score_samples(B))


def test_left_out_digits():
    areas = [novelty_auroc(FFNBClassifier(random_state=0), pair) for pair in PAIRS]
    assert np.mean(areas) >= 0.98
    assert min(areas) >= 0.97


@pytest.mark.parametrize("head", ["ovo", "ova"])
def test_every_classifier_has_scores(head):
    assert novelty_auroc(FFNBClassifier(classifier=head, random_state=0), (4, 5)) > 0.95


def test_it_is_the_ratio_of_two_distances():
    plain = {"shared_band_size": 0, "band_size": 0, "rank": None}
    model = estimator(shrinkage=0.3, epsilon=0.2, **plain).fit(X, CODES)
    scatters = [np.cov(of(c).T, ddof=0) for c in range(8)]
    means = np.array([of(c).mean(0) for c in range(8)])
    pooled = np.mean(scatters, axis=0)
    variances = np.diag(pooled)
    penalties = variances + np.sort(variances)[(N_FEATURES - 1) // 2]
    ridge = 0.2 * np.diag(penalties) * np.mean(variances / penalties)
    total = pooled + np.cov(means.T, ddof=0) + ridge

    def distances(centre, covariance):
        return np.einsum("ij,ij->i", (X - centre) @ np.linalg.inv(covariance), X - centre)

    nearest = np.min(
        [
            distances(m, 0.7 * own + 0.3 * pooled + ridge)
            for m, own in zip(means, scatters, strict=True)
        ],
        axis=0,
    )
    from_all = distances(X.mean(0), total)
    assert_allclose(model.score_samples(X), -nearest / (from_all + from_all.mean()), rtol=1e-8)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"classifier": "ova"},
        {"covariance": "identity"},
        {"shrinkage": 0.0},
        {"shrinkage": 1.0},
        {"units": "absolute", "epsilon": 0.1},
        {"rank": 3},
    ],
    ids=repr,
)
def test_unknown_classes_score_low(parameters):
    model = learned(estimator(**parameters), [0, 1], [2, 3])
    scores = model.score_samples(X)
    assert scores.shape == (160,)
    assert (scores <= 0.0).all()
    assert roc_auc_score(CODES < 4, scores) > 0.95
    # Once they have been learned they are like the rest.
    assert learned(model, [4, 5, 6, 7]).score_samples(of(5)).mean() > scores[CODES == 5].mean()


def test_one_class_and_one_sample():
    alone = learned(estimator(), [0])
    assert roc_auc_score(CODES == 0, alone.score_samples(X)) > 0.99
    single = estimator().partial_fit(X[:1], ["only"])
    scores = single.score_samples(X)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 0


def test_scores_follow_what_is_learned_and_forgotten_and_not_the_priors():
    model = learned(estimator(band_size=0), [0, 1])
    before = model.score_samples(X)
    assert_array_equal(model.set_params(priors="empirical").score_samples(X), before)
    learned(model, [2])
    assert not np.allclose(model.score_samples(X), before)
    assert_allclose(model.forget(2).score_samples(X), before, rtol=1e-9)


def test_chunks_subsets_and_pipelines_give_the_same():
    model = learned(estimator(), [0, 1, 2])
    expected = model.score_samples(X)
    assert_allclose(model.score_samples(X[5:8]), expected[5:8], rtol=1e-9)
    parts = learned(estimator(chunk_size=7), [0, 1, 2])
    assert_allclose(parts.score_samples(X), expected, rtol=1e-7)
    pipeline = learned(make_continual_pipeline(estimator()), [0, 1, 2])
    assert_allclose(pipeline.score_samples(X), expected, rtol=1e-9)


def test_another_number_of_features_is_refused():
    with pytest.raises(ValueError, match="X has 2 features, but FFNBClassifier is expecting 6"):
        learned(estimator(), [0, 1]).score_samples(X[:, :2])


def test_rounding_leaves_no_likeness_positive():
    # Every sample is the mean of a class of its own, at a distance of zero but for rounding.
    model = estimator(shared_band_size=0, band_size=0).fit(1e3 + X, np.arange(len(X)))
    scores = model.score_samples(1e3 + X)
    assert (scores <= 0.0).all()
    assert_allclose(scores, 0.0, atol=1e-6)
