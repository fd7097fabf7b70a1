"""A new head in one class, as an example: the nearest mean, which both classifiers can use."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.utils._param_validation import StrOptions
from torch import nn

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis
from ffnb_sklearn.core.device import Array, as_array, as_tensor
from ffnb_sklearn.core.heads import HEADS, Head
from ffnb_sklearn.core.heads.modules import PlaneScores

X, Y = load_digits(return_X_y=True)
X, X_TEST, Y, Y_TEST = X[:900], X[900:], Y[:900], Y[900:]


@dataclass(frozen=True)
class NearestMean(Head):
    """Scores m.x - |m|^2 / 2 for the means m, which are highest for the nearest mean."""

    planes: Array
    offsets: Array

    # Fine-tuning descends the loss of a head that is linear in the features.
    tuned_as = "ova"

    @classmethod
    def from_gaussians(cls, gaussians, solved_means, choice, settings):
        """Take the means from the moments of the classes."""
        means = as_array(gaussians.means)
        squared_lengths = np.square(means).sum(axis=1)
        return cls(means, -0.5 * squared_lengths)

    @staticmethod
    def n_weights(n_features, n_classes, n_axes):
        """Return the number of weights."""
        return n_classes * (n_features + 1)

    def scores(self, x):
        """Return the scores of samples."""
        planes = as_tensor(self.planes, device=x.device)
        offsets = as_tensor(self.offsets, device=x.device)
        return x @ planes.T + offsets

    def apply_priors(self, scores, priors):
        """Add the logarithms of the priors, relative to equal priors."""
        is_possible = priors > 0.0
        return scores[:, is_possible] + np.log(len(priors) * priors[is_possible])

    def scores_module(self, priors):
        """Return the scores as a module."""
        n_classes = len(self.planes)
        arrays = {
            "planes": self.planes,
            "offsets": self.offsets,
            "mixing": np.eye(n_classes)[:, priors > 0.0],
            "shift": self.apply_priors(np.zeros((1, n_classes)), priors),
        }
        return PlaneScores(arrays, has_tanh=False)

    def logits_module(self):
        """Return the identity: the scores are logits."""
        return nn.Identity()


@pytest.fixture(params=[FFNBClassifier, IncrementalDiscriminantAnalysis])
def make(request, monkeypatch):
    """Make a classifier with the new head, whose name would stand in `HEADS`."""
    monkeypatch.setitem(HEADS, "nearest", NearestMean)
    constraints = {"classifier": [StrOptions(set(HEADS))]}
    monkeypatch.setattr(
        request.param,
        "_parameter_constraints",
        request.param._parameter_constraints | constraints,
    )
    return lambda **parameters: request.param(classifier="nearest", random_state=0, **parameters)


def learned(clf):
    """Return a classifier that has learned the digits in two tasks."""
    for task in (Y < 5, Y >= 5):
        clf.partial_fit(X[task], Y[task])
    return clf


def test_it_predicts_the_class_of_the_nearest_mean(make):
    clf = learned(make())
    features = clf.transform(X)
    means = [features[digit == Y].mean(axis=0) for digit in clf.classes_]
    nearest = cdist(clf.transform(X_TEST), means).argmin(axis=1)
    # The means of old classes in later trained neurons are estimated.
    assert np.mean(clf.predict(X_TEST) == nearest) > 0.99
    assert clf.score(X_TEST, Y_TEST) > 0.8


def test_it_has_probabilities_priors_and_a_module(make):
    clf = learned(make(priors={digit: float(digit > 0) for digit in range(10)}))
    assert 0 not in clf.predict(X_TEST)
    scores = clf.decision_function(X_TEST)
    network = clf.to_torch(dtype="float64")
    assert_allclose(network(as_tensor(X_TEST)), scores[:, 1:], rtol=1e-9)
    assert_array_equal(clf.predict_proba(X_TEST).argmax(axis=1), scores.argmax(axis=1))
