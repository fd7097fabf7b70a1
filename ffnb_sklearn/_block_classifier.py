"""What the classifiers share that keep a `ffnb_sklearn.core.model.Model`."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions

from ._base import ClassIncrementalClassifier
from ._columns import warn_of_units
from ._priors import check_priors, class_priors, scores_with_priors
from ._probabilities import vote_probabilities
from ._seeds import next_seed
from ._sparse import WideSamples
from ._state import learned_attribute
from ._validation import check_continuation, check_settings
from .core.device import as_array, resolve_device
from .core.features.feature_map import classifier_columns
from .core.learning import learn
from .core.model import empty_model
from .training import BandTraining

__all__ = ["BlockClassifier"]

# Calls from the user's line to `_after_samples`: `fit` in its context, `_learn`, `_after_subtask`.
_CALLS_INSIDE = 6


class BlockClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassIncrementalClassifier
):
    """Base of classifiers made of neural blocks, shared band and a classifier in closed form.

    Subclasses have the parameters below, and `p`, `null_space` and `old_statistics`.
    """

    _parameter_constraints: ClassVar[dict] = {
        "band_size": [Interval(Integral, 0, None, closed="left")],
        "n_layers": [Interval(Integral, 1, None, closed="left")],
        "shared_band_size": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "skip_connection": ["boolean"],
        "activation": [StrOptions({"relu", "tanh", "sigmoid"})],
        "init": [StrOptions({"multi", "mono", "random"})],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "covariance": [StrOptions({"class", "identity"})],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "epsilon": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "rank": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "max_state_mb": [Interval(Real, 0, None, closed="neither"), None],
        "classifier": [StrOptions({"gaussian", "ovo", "ova"})],
        "chunk_size": [Interval(Integral, 1, None, closed="left")],
        "units": [StrOptions({"relative", "absolute"})],
        "half_bias": ["boolean"],
        "training": [BandTraining, None],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_epochs": [Interval(Integral, 0, None, closed="left")],
        "batch_norm": ["boolean"],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "priors": [StrOptions({"uniform", "empirical"}), Mapping],
    }

    null_space_dims_ = learned_attribute(lambda state: list(state.model.null_space_dims))

    def _after_samples(self, state, X, y, weights, context):
        """The state after a task; warn if the columns of the first seem to differ in units."""
        after = super()._after_samples(state, X, y, weights, context)
        if state.model is None and not issparse(X):
            warn_of_units(X, after.model.moments, after.feature_names_in, _CALLS_INSIDE)
        return after

    def _updated(self, state, task, watcher):
        """The model of a state after a task."""
        model, settings = self._begun(state)
        return learn(model, task, settings, watcher)

    def _begun(self, state):
        """The model before a task, a new one if there is none, and the settings of the task."""
        settings = check_settings(self, projection=state.projection)
        if state.model is not None:
            check_continuation(state.model.settings, settings)
            return state.model, settings
        return empty_model(state.n_inputs, settings, next_seed(self.random_state)), settings

    def _probabilities(self, model, scores):
        """Probabilities of the known classes from their scores."""
        if model.settings.classifier == "ovo":
            return vote_probabilities(scores)
        return super()._probabilities(model, self._tempered(model, scores))

    def _log_probabilities(self, model, scores):
        """Their logarithms."""
        if model.settings.classifier == "ovo":
            return np.log(vote_probabilities(scores))
        return super()._log_probabilities(model, self._tempered(model, scores))

    def _tempered(self, model, scores):
        """Scores whose softmax is a probability."""
        if model.settings.classifier == "gaussian":
            return scores
        return scores / model.solution(resolve_device(self.device)).classifier.temperature

    def _check_arrived(self, arrived):
        """Raise if the priors do not fit the labels that are seen after a call."""
        check_priors(self.priors, arrived)

    def _adjusted(self, state, scores):
        """Scores that allow for the priors."""
        model = state.model
        weights = np.array([one.weight for one in model.moments])
        priors = class_priors(self.priors, state.arrived, weights)
        if np.ptp(priors) == 0.0:
            return scores
        if model.settings.classifier == "ova":
            head = model.solution(resolve_device(self.device)).classifier
            return head.with_shares(scores, priors)
        return scores_with_priors(scores, model.settings.classifier, priors)

    def score_samples(self, X):
        """How like the classes learned samples are: low scores are of none of them.

        The squared Mahalanobis distance of a sample to its nearest class, with the regularised
        covariance of that class, is divided by its distance from the mean of all classes, in the
        total covariance, plus the mean of this distance over the samples learned. The score is
        minus the ratio. It needs what is kept of the classes alone, is the same for all values of
        `priors`, and solves a system of its own at the first call after one that learns.

        Scores of samples that were learned are higher than those of new samples of the same
        classes. So choose a threshold on samples that were not.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores of at most zero; higher is more like what was learned.
        """
        state = self._learned_state()
        return as_array(state.model.likeness(self._samples(state, X)))

    def transform(self, X):
        """The feature map that the classifier sees.

        Columns that exist never change: a new task appends its bands behind them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray or sparse array of shape (n_samples, n_features_out)
            Inputs where ``skip_connection=True``, shared band, last layer of trained bands. Of a
            model that projects its samples, the inputs are the columns of the projection: a sparse
            array if there are more than 2000.
        """
        state = self._learned_state()
        samples = self._samples(state, X)
        if isinstance(samples, WideSamples):
            return samples.matrix
        samples = samples.double()
        features = state.model.view(samples)
        # Where there are no neurons these are the samples themselves, which are the caller's.
        return as_array(features.clone() if features is samples else features)

    @property
    def shrinkage_(self):
        """The shrinkage that the classifier is solved with."""
        return self._solved_choice().shrinkage

    @property
    def epsilon_(self):
        """The relative ridge that the classifier is solved with."""
        return self._solved_choice().epsilon

    def _solved_choice(self):
        """Solve the classifier if need be, and return the values that it is solved with."""
        model = self._learned_state().model
        return model.solution(resolve_device(self.device)).choice

    def __dir__(self):
        """Return the names of all attributes but those that have yet to be solved for."""
        # scikit-learn evaluates every name in `dir`: in its own `__dir__`, which would solve the
        # classifier and is bypassed here, and when a notebook displays the fitted attributes.
        names, state = set(super(BaseEstimator, self).__dir__()), self._state
        if state is None or state.model.solved is None:
            names -= {"shrinkage_", "epsilon_"}
        # As there, methods that are not available are left out.
        return [name for name in names if hasattr(self, name)]

    @property
    def _n_features_out(self):
        """Number of columns of `transform`."""
        model = self._learned_state().model
        return len(classifier_columns(model.features, model.settings.skip_connection))
