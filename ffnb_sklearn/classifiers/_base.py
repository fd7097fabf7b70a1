"""The common base of both classifiers: scikit-learn's interface to the models of the core."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, ParamSpec, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_array, check_scalar
from torch import nn

from .._base import export, revision
from .._base.base import ProbabilisticClassifier, first_of_highest, learned_attribute
from .._base.new_features import (
    TransferQuality,
    check_dense,
    draw_samples,
    expected_accuracy,
    transfer,
)
from .._base.novelty_threshold import novelty_threshold
from .._base.parameters import present_state
from .._base.priors import allow_for_unforeseen, class_priors, estimate_shares
from .._base.task_learning import learn_task
from .._inputs.arrays import as_numpy, in_library_of
from .._inputs.labels import check_labels
from .._inputs.locks import exclusive
from .._inputs.sparse_samples import WideSamples
from ..core import prediction
from ..core.device import as_array, resolve_device
from ..core.heads import HEADS

__all__ = ["BaseDiscriminantClassifier", "without_class_weight"]

_P = ParamSpec("_P")


def _numbered(name: str, n_columns: int) -> list[str]:
    """Return names of columns, numbered from 0."""
    return [f"{name}{number}" for number in range(n_columns)]


def without_class_weight(constructor: Callable[_P, None]) -> Callable[_P, None]:
    """Make a constructor refuse `class_weight` with an error that names `priors`."""

    @wraps(constructor)
    def checked_constructor(*args: _P.args, **parameters: _P.kwargs) -> None:
        if "class_weight" in parameters:
            raise TypeError(
                f"{type(args[0]).__name__} has no parameter class_weight; use priors. Their "
                'default, "uniform", treats all classes alike, as class_weight="balanced" does.'
            )
        constructor(*args, **parameters)

    return checked_constructor


class BaseDiscriminantClassifier(
    TransformerMixin,
    ProbabilisticClassifier,
):
    """Base of the classifiers that solve a discriminant from the moments of the classes.

    Subclasses define how the model learns a task (`_learn_model`) and how two models are merged
    (`_merge_models`).
    """

    # Parameters that all subclasses have.
    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **ProbabilisticClassifier._parameter_constraints,
        "shared_band_size": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "classifier": [StrOptions(set(HEADS))],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "epsilon": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "rank": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "priors": [StrOptions({"uniform", "empirical"}), Mapping],
        "scale": ["boolean", StrOptions({"auto"})],
        "novelty": ["boolean"],
        "refresh": [Interval(Real, 0, None, closed="left")],
        "chunk_size": [Interval(Integral, 1, None, closed="left")],
    }

    def _learn_model(self, model, task, settings, observe):
        """Return the model after a task; `observe` reports the epochs, and may end them."""
        raise NotImplementedError

    def _merge_models(self, first, second, positions, *, device):
        """Return the model of two models, given the numbers in it of the second model's classes."""
        raise NotImplementedError

    def _warn_of_idle_parameters(self):
        """Warn of parameters that other parameters leave without effect."""

    def _merge_conditions(self, model):
        """Return by name the values of a model, beside its settings, that a merge needs equal."""
        return {}

    def _merged_state(self, other, expected_class):
        """Return the state with everything that another estimator, of a class, has learned."""
        if not isinstance(other, expected_class):
            raise TypeError(
                f"other must be a fitted {expected_class.__name__}; got {type(other).__name__}."
            )
        mine = self._learned_state()
        theirs = other._learned_state()
        device = resolve_device(self.device)
        return revision.check_and_merge(mine, theirs, self, device)

    def partial_fit(
        self,
        X: object,
        y: npt.ArrayLike,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn one more task, and keep all earlier classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of new classes, of known classes, or of both.
        y : array-like of shape (n_samples,)
            Labels of the samples, of the kind seen before: numbers, strings or booleans.
        classes : array-like of shape (n_labels,), default=None
            Labels expected in later calls. They get a column now, and are not predicted before
            they have been seen.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, as in `fit`.

        Returns
        -------
        self : object
            The estimator. It is unchanged if an error is raised.
        """
        self._learn(X, y, classes=classes, sample_weight=sample_weight)
        return self

    def transform(self, X: object) -> npt.NDArray[np.float64] | sparse.csr_array:
        """Compute the features that the classifier uses.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray or sparse array of shape (n_samples, n_features_out)
            Inputs or their projection, then the shared neurons, then trained neurons. A sparse
            array if the projection has more than 2000 columns.
        """
        state = self._present_state()
        samples = self._samples(state, X)
        if isinstance(samples, WideSamples):
            return samples.matrix
        samples = samples.double()
        features = prediction.classifier_features(state.model, samples)
        if features is samples:
            # Without neurons the features are the samples, which belong to the caller.
            features = features.clone()
        return in_library_of(X, as_array(features))

    def get_feature_names_out(
        self, input_features: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.object_]:
        """Return the names of the features of `transform`.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of X, which must equal `feature_names_in_` if that exists. None
            stands for these names, or else for `x0`, `x1` and so on.

        Returns
        -------
        ndarray of str objects
            Names of the inputs, then `shared0` and so on for the shared neurons, and `trained0` and
            so on for the trained neurons. Columns of a projection are `projection0` and so on.

        Raises
        ------
        ValueError
            If the names do not fit the columns learned.
        """
        state = self._learned_state()
        model = state.model
        names = _check_feature_names_in(self, input_features).tolist()
        if state.n_inputs != len(names):
            names = _numbered("projection", state.n_inputs)
        blocks = model.feature_map.fixed.blocks(model.settings.skip_connection)
        names = names[: blocks.n_inputs]
        names += _numbered("shared", blocks.n_shared)
        names += _numbered("trained", len(model.columns) - len(names))
        return np.array(names, dtype=object)

    def solve(self) -> Self:
        """Solve the classifier now instead of at the first prediction after learning.

        With ``novelty=True`` the novelty scores are prepared too. A service that answers while it
        learns updates and solves a copy, which then replaces the classifier.

        Returns
        -------
        self : object
            The estimator. The learned state does not change.

        Raises
        ------
        NotPositiveDefiniteError
            If a covariance cannot be factored.
        """
        device = resolve_device(self.device)
        prediction.solve_once(self._present_state().model, device)
        state = self._learned_state()
        model = state.model
        if model.settings.novelty:
            prediction.relative_distances(model, device)
            state.prepare()
        return self

    @exclusive
    def decay(self, factor: float, classes: npt.ArrayLike | None = None) -> Self:
        """Let the samples learned so far count less, compared with later samples.

        The weights of the samples are multiplied by a factor. With ``rank=None`` the moments equal
        those of samples with these weights as `sample_weight`. Trained neurons do not change.

        Parameters
        ----------
        factor : float
            Multiple of the weights, in (0, 1]. A class stops before its weight is below 1e-20.
        classes : label or array-like of labels, default=None
            Labels in `classes_` whose samples count less. None stands for all classes.

        Returns
        -------
        self : object
            The estimator. It is unchanged if an error is raised.
        """
        state = self._learned_state()
        self._keep(revision.decay(state, factor, classes))
        return self

    def score_samples(self, X: object) -> npt.NDArray[np.float64]:
        """Score how similar samples are to the classes learned; low scores indicate new classes.

        The score is minus the squared Mahalanobis distance to the nearest class, relative to the
        distance from the mean of all classes, and lower if the probabilities name no single class,
        as far as the classes overlap (user guide, "Labels"). It uses the parameters of the last
        call that learned. Samples that were learned have higher scores than new samples, so a
        threshold needs samples that were not learned, see `novelty_threshold`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores of at most zero; a higher score means more similar to the samples learned.
        """
        state = self._learned_state()
        samples = self._samples(state, X)
        likeness = as_array(prediction.likeness(state.model, samples))
        return in_library_of(X, likeness)

    def novelty_threshold(self, rate: float) -> float:
        """Return a threshold of `score_samples` for a rate of false alarms.

        It needs ``novelty=True`` while learning, and is a quantile of the scores of samples that
        were left out then (in closed form), with the shares of the classes given by `priors`.

        Parameters
        ----------
        rate : float
            Share, in (0, 1), of new samples of the classes learned whose score should be below the
            threshold.

        Returns
        -------
        float
            The threshold. It is uncertain for small rates of few samples.

        Raises
        ------
        ValueError
            If the rate is not a number in (0, 1), or no class has scores of left-out samples.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from ffnb_sklearn import IncrementalDiscriminantAnalysis
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = IncrementalDiscriminantAnalysis(novelty=True, random_state=0)
        >>> clf = clf.fit(X[:100], y[:100])
        >>> is_new = clf.score_samples(X) < clf.novelty_threshold(0.05)
        >>> bool(is_new[100:].mean() > 0.5), bool(is_new[:100].mean() <= 0.05)
        (True, True)
        """
        state = self._learned_state()
        return novelty_threshold(state, self._class_priors(state), rate)

    def estimate_priors(self, X: object) -> dict[Any, float]:
        """Estimate the shares of the classes among unlabelled samples.

        The shares of the largest likelihood are found by expectation-maximisation [1]_, from the
        probabilities for equal priors. ``clf.set_params(priors=clf.estimate_priors(X))`` adapts
        predictions to the samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of the classes learned, drawn as future samples will be.

        Returns
        -------
        dict
            Share of each label learned, sorted by label; they sum to 1. The share of a class with
            the prior 0 is 0; apart from that, the result does not depend on `priors`.

        Warns
        -----
        ConvergenceWarning
            If the shares still change after 10,000 steps.

        References
        ----------
        .. [1] M. Saerens, P. Latinne and C. Decaestecker. Adjusting the outputs of a classifier to
           new a priori probabilities: a simple procedure. Neural Computation 14(1), 2002.
        """
        state = self._present_state()
        is_possible = self._class_priors(state) > 0.0
        weights = is_possible.astype(np.float64)
        equal_priors = dict(zip(state.arrived.tolist(), weights.tolist(), strict=True))
        for_equal_priors = self._clone_in_state(state, priors=equal_priors)
        probabilities = as_numpy(for_equal_priors.predict_proba(X), "probabilities")
        labels = self._possible_labels(state)
        columns = np.searchsorted(state.classes, labels)
        shares = estimate_shares(probabilities[:, columns])
        priors = dict.fromkeys(np.sort(state.arrived).tolist(), 0.0)
        priors.update(zip(labels.tolist(), shares.tolist(), strict=True))
        return priors

    def sample(
        self, n_samples: int = 1, classes: npt.ArrayLike | None = None
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.generic]]:
        """Draw samples from what was learned: Gaussian rows with the moments of the classes.

        They serve to train another classifier, to test a pipeline and to plot. They are as
        confidential as the classifier, and samples of a class with a single sample equal it.

        Parameters
        ----------
        n_samples : int, default=1
            Number of samples.
        classes : label or array-like of labels, default=None
            Labels in `classes_` that were seen. None stands for all whose prior is not 0.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Samples, sorted by class.
        y : ndarray of shape (n_samples,)
            Their labels. The shares of the classes follow `priors`; numbers of samples that are not
            whole are rounded at random.

        Raises
        ------
        ValueError
            If a label was not learned, or the first samples were sparse and had more than 2000
            features.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.svm import SVC
        >>> from ffnb_sklearn import IncrementalDiscriminantAnalysis
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = IncrementalDiscriminantAnalysis(random_state=0).fit(X, y)
        >>> bool(SVC().fit(*clf.sample(300)).score(X, y) > 0.9)
        True
        """
        check_scalar(n_samples, "n_samples", Integral, min_val=1)
        state = self._learned_state()
        labels, shares = self._shares_of(state, classes)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        expected = n_samples * shares
        counts = np.floor(expected).astype(int)
        n_missing = n_samples - counts.sum()
        if n_missing:
            remainders = expected - counts
            counts += rng.multinomial(n_missing, remainders / remainders.sum())
        return draw_samples(state, labels, counts, rng)

    def transfer(
        self, X_old: object, X_new: object, *, return_quality: bool = False
    ) -> Self | tuple[Self, TransferQuality]:
        """Return a classifier for a new feature space, from rows given in both spaces.

        It serves when the network that computes the features is replaced, and the old samples are
        gone. The means and covariances of the classes are mapped by a ridge regression of the new
        rows on the old ones, and the covariance of its errors is added. The new classifier learns
        drawn rows with these moments, and may learn on. The user guide ("Replace the embedding
        network") tells how much accuracy remains, and when to keep the old network.

        Parameters
        ----------
        X_old, X_new : array-like of shape (n_pairs, n_features) and (n_pairs, n_new_features)
            The same rows in the old and in the new space, of any classes, in the same order. A few
            hundred suffice if the spaces resemble each other.
        return_quality : bool, default=False
            Whether to return how well the new classifier may do.

        Returns
        -------
        clf : estimator
            A new estimator with the same parameters and classes. The present one does not change.
        quality : TransferQuality
            Its attributes are `explained_variance`, `expected_accuracy_old` and
            `expected_accuracy_new`. Only if `return_quality` is True.

        Raises
        ------
        ValueError
            If the numbers of rows differ or are less than three, or the first samples were sparse
            and had more than 2000 features.
        """
        state = self._learned_state()
        check_dense(state)
        new_rows = as_numpy(X_new, "X_new")
        new_rows = check_array(new_rows, dtype=np.float64, input_name="X_new")
        old_rows = as_array(self._samples(state, X_old).double())
        if len(old_rows) != len(new_rows) or len(old_rows) < 3:
            raise ValueError(
                "X_old and X_new must have the same rows, at least 3, in both spaces; got "
                f"{len(old_rows)} and {len(new_rows)}."
            )
        moved, explained_variance = transfer(self, state, old_rows, new_rows)
        if not return_quality:
            return moved
        quality = TransferQuality(
            explained_variance,
            expected_accuracy(self, X_old),
            expected_accuracy(moved, X_new),
        )
        return moved, quality

    def to_torch(self, dtype: Literal["float32", "float64"] = "float32") -> nn.Module:
        """Return the solved classifier as a module of torch, to be used without this package.

        It does not change when the estimator does. ``nn.Sequential(network, clf.to_torch())`` maps
        images to scores; `torch.export` and ONNX can store it.

        Parameters
        ----------
        dtype : {"float32", "float64"}, default="float32"
            Type of the buffers, and of the samples that the module takes.

        Returns
        -------
        torch.nn.Module
            Maps samples to scores, of shape (n_samples, n_labels), on the CPU at first. Its
            attribute `classes_` holds the labels of the columns: those that were seen and whose
            prior is not 0, sorted. The module `probabilities` in it maps the scores to
            probabilities. With two labels, half the difference of the scores is the value of
            `decision_function`.

        Raises
        ------
        ValueError
            If `dtype` has another value, if the model has numbers beyond the range of `dtype`, or
            if the first samples were sparse and had more than 2000 features, which the classifier
            keeps sparse or projects.
        """
        state = self._present_state()
        head = self._head(state)
        return export.torch_module(state, head, self._class_priors(state), dtype)

    def _open_set_module(self, rate, dtype):
        """Return `to_torch` with the shares of `OpenSetClassifier.score_samples` for a rate."""
        state = self._learned_state()
        present = present_state(self, state)
        head = self._head(present)
        relative = prediction.relative_distances(state.model, resolve_device(self.device))
        priors = self._class_priors(present)
        return export.open_set_module(present, head, priors, relative, rate, dtype)

    class_counts_ = learned_attribute(lambda state: state.class_counts)
    random_state_ = learned_attribute(lambda state: state.random_state)
    offset_ = learned_attribute(lambda state: state.scaling and state.scaling.offset)
    scale_ = learned_attribute(lambda state: state.scaling and state.scaling.scale)

    shrinkage_ = property(lambda self: self._solved_choice().shrinkage)
    epsilon_ = property(lambda self: self._solved_choice().epsilon)

    def _solved_choice(self):
        """Return the values with which the last prediction has solved the classifier."""
        self._learned_state()
        # An estimator whose parameters have become invalid can still be displayed.
        with suppress(ValueError):
            solution = self._present_state().model.solution
            if solution is not None:
                return solution.choice
        raise AttributeError("shrinkage_ and epsilon_ exist after a prediction.")

    _learn_task = learn_task

    n_parameters_ = learned_attribute(lambda state: state.model.n_weights)

    _with_present_parameters = present_state

    def _possible_labels(self, state):
        """Return the labels that predictions may have, in order of arrival."""
        is_possible = self._class_priors(state) > 0.0
        return state.arrived[is_possible]

    def _scores(self, state, samples):
        """Return the scores of the possible labels, adjusted for the priors."""
        scores = as_array(prediction.scores(state.model, samples))
        return self._apply_priors(state, scores, self._class_priors(state))

    def _apply_priors(self, state, scores, priors):
        """Return the scores of the possible labels, given those of all classes for equal priors."""
        if np.ptp(priors) == 0.0:
            return scores
        return self._head(state).apply_priors(scores, priors)

    def _logits(self, state, samples):
        """Return scores of the possible labels whose softmax is the probability of each label."""
        return self._logits_of_scores(state, self._scores(state, samples))

    def _logits_of_scores(self, state, scores):
        """Return logits of the possible labels, given their scores."""
        logits = self._head(state).logits(scores)
        return allow_for_unforeseen(logits, state.n_samples)

    def _judge_samples(self, X):
        """Return labels, probabilities and novelty scores, and the state and priors they read."""
        state = self._learned_state()
        present = present_state(self, state)
        samples = self._samples(state, X)
        model = state.model
        if present.model is model:
            scores, likeness = prediction.scores_and_likeness(model, samples)
        else:
            scores = prediction.scores(present.model, samples)
            likeness = prediction.likeness(model, samples)
        priors = self._class_priors(present)
        scores = self._apply_priors(present, as_array(scores), priors)
        possible = present.arrived[priors > 0.0]
        labels = possible[first_of_highest(scores, np.argsort(possible))]
        logits = self._logits_of_scores(present, scores)
        probabilities = self._probabilities(present, logits, possible)
        return labels, probabilities, as_array(likeness), state, priors

    def _most_likely(self, state, samples, order):
        """Return the positions of the highest scores, the first in `order` of equal scores."""
        priors = self._class_priors(state)
        if np.ptp(priors) > 0.0:
            return super()._most_likely(state, samples, order)
        positions = prediction.most_likely(state.model, samples, order)
        return positions.cpu().numpy()

    def _head(self, state):
        """Return the solved classifier."""
        device = resolve_device(self.device)
        return prediction.solve_once(state.model, device).head

    def _class_priors(self, state):
        """Return the prior probabilities of the classes seen; background classes have 0."""
        return class_priors(self.priors, state.arrived, state.class_weights)

    def _shares_of(self, state, classes):
        """Return the labels of some classes, or of all possible ones, and their shares."""
        priors = self._class_priors(state)
        if classes is None:
            numbers = np.flatnonzero(priors)
            shares = priors[numbers]
        else:
            labels = np.unique(check_labels(np.ravel(classes), state.classes, "classes"))
            is_chosen = np.isin(state.arrived, labels)
            if is_chosen.sum() != len(labels):
                missing = np.setdiff1d(labels, state.arrived)
                raise ValueError(
                    f"classes must be labels of classes learned; got {missing.tolist()}, which "
                    "were not."
                )
            numbers = np.flatnonzero(is_chosen)
            shares = priors[numbers]
            if not shares.any():
                shares = np.ones(len(numbers))
        return state.arrived[numbers], shares / shares.sum()
