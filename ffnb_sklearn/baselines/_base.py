"""Base of the classifiers that learn from additive moments of the classes."""

from numbers import Integral
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from .._base.callbacks import CallbackSupportMixin, ReportedTask, with_callbacks
from .._base.priors import unseen_scores
from .._base.validation import check_magnitudes
from .._inputs.arrays import as_numpy
from .._inputs.labels import check_labels, check_targets
from .._inputs.locks import exclusive
from .._inputs.seeds import advance_of, next_seed
from ._linear_algebra import add_to_diagonal, solve_positive

__all__ = ["MomentClassifier", "PooledScatterClassifier", "class_sums", "seeded_generator"]

# Least magnitude of the largest feature in the first call. The squares of smaller values lose
# digits.
_LEAST_MAGNITUDE = 1e-150


class Batch(NamedTuple):
    """Samples of a call, and what they change in the moments of their classes.

    Attributes
    ----------
    features : ndarray of shape (n_samples, n_columns)
        Features of the samples.
    codes : ndarray of shape (n_samples,)
        Number of the class of each sample within the batch.
    rows : ndarray of shape (n_labels,)
        Position of each class of the batch in `classes_`.
    counts : ndarray of shape (n_labels,)
        Number of samples of each class.
    means : ndarray of shape (n_labels, n_columns)
        Mean of each class in the batch.
    shifts : ndarray of shape (n_labels, n_columns)
        These means less the means of earlier samples.
    shift_weights : ndarray of shape (n_labels,)
        Factor of the outer product of a shift in the scatter of the union: a b / (a + b) for a
        earlier and b new samples.
    """

    features: np.ndarray
    codes: np.ndarray
    rows: np.ndarray
    counts: np.ndarray
    means: np.ndarray
    shifts: np.ndarray
    shift_weights: np.ndarray

    @property
    def deviations(self):
        """Features less the mean of their class in the batch."""
        return self.features - self.means[self.codes]


def class_sums(values, codes):
    """Return the sums of some values of each sample over the samples of each class."""
    n_samples = len(codes)
    ones = np.ones(n_samples)
    # Column i has a single entry, in the row of the class of sample i.
    memberships = sparse.csc_array((ones, codes, np.arange(n_samples + 1)))
    return memberships @ values


def seeded_generator(random_state):
    """Return a generator of its own for the first call; `advance_of` then consumes its seed."""
    if isinstance(random_state, Integral):
        return np.random.RandomState(int(random_state))
    return np.random.RandomState(next_seed(random_state))


class MomentClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Base of classifiers that add up moments of each class, and solve for scores.

    A call that learns works on a copy of the estimator. It replaces attributes and changes no
    array, so an error leaves the estimator as it was. The solution follows from the moments and is
    no part of a pickle.

    Subclasses define `_solve`, and `_scores` if these are not linear. They may also define
    `_start_features`, which prepares the features at the first call, `_features`, and
    `_merge_batch`, which adds to further moments.
    """

    _parameter_constraints: ClassVar[dict] = {}

    # Names of attributes with a row for each entry of `classes_`.
    _class_arrays: ClassVar[tuple] = ("class_counts_", "means_")

    # Names of attributes that can be computed from the others and the parameters.
    _computed: ClassVar[tuple] = ("_solution", "_solved_parameters")

    # Types and least values of learned numbers by name, which `load` checks.
    _scalars: ClassVar[dict] = {}

    def fit(self, X: object, y: npt.ArrayLike) -> Self:
        """Discard what was learned, then learn all classes of `y` as one task.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels of the samples: numbers, strings or booleans.

        Returns
        -------
        self : estimator
            The fitted estimator. It is unchanged if an error is raised.
        """
        return self._learn(X, y, reset=True)

    def partial_fit(
        self, X: object, y: npt.ArrayLike, classes: npt.ArrayLike | None = None
    ) -> Self:
        """Learn samples of known classes, of new classes, or of both.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels of the samples: numbers, strings or booleans.
        classes : array-like of shape (n_labels,), default=None
            Labels expected in later calls. They get a column now and are never predicted before
            they have been seen.

        Returns
        -------
        self : estimator
            The estimator. It is unchanged if an error is raised.
        """
        return self._learn(X, y, classes=classes)

    @exclusive
    def _learn(self, X, y, *, classes=None, reset=False):
        """Learn a batch on a copy, then take its attributes."""
        self._validate_params()
        learner = self._from_attributes(vars(self))
        if reset:
            learner._forget()
        is_first = not hasattr(learner, "classes_")
        method = "partial_fit"
        if reset:
            method = "fit"
        learner._learn_batch(X, y, classes, method, is_first=is_first)
        advance = advance_of(getattr(self, "random_state", None) if is_first else None)
        attributes = vars(learner)
        self.__dict__ = attributes
        # No other call may follow, because it could fail or be interrupted.
        advance()
        return self

    @classmethod
    def _from_attributes(cls, attributes):
        """Return an estimator with some attributes, including those that no pickle holds."""
        result = cls.__new__(cls)
        vars(result).update(attributes)
        return result

    def _forget(self):
        """Remove what was learned: attributes whose names end with an underscore."""
        for name in list(vars(self)):
            if name.endswith("_") or name in self._computed:
                delattr(self, name)

    @with_callbacks
    def _learn_batch(self, X, y, classes, method, *, is_first):
        """Validate a batch, merge its moments, and solve; callbacks get `method` as the task."""
        y = check_targets(y, None if is_first else self.classes_, "y")
        if classes is not None:
            classes = check_labels(classes, y, "classes")
        X = self._check_samples(X, reset=is_first)
        check_consistent_length(X, y)
        call = ReportedTask(self._init_callback_context(method), self, X, y)
        if is_first:
            self._start_features(X)
        features = self._features(X)
        labels, codes = np.unique(y, return_inverse=True)
        self._add_classes(labels, classes, features.shape[1])
        batch = self._batch(features, labels, codes)
        self._merge_batch(batch)
        self._drop_outdated()
        self._solution = self._solve()
        # The learner has its fitted attributes already.
        call.end({})

    def _drop_outdated(self):
        """Remove computed attributes if the parameters have changed since they were computed."""
        parameters = self.get_params(deep=False)
        if vars(self).get("_solved_parameters") != parameters:
            for name in self._computed:
                vars(self).pop(name, None)
        self._solved_parameters = parameters

    def _check_samples(self, X, *, reset):
        """Return samples as an array of float64."""
        X = as_numpy(X, "X")
        X = validate_data(self, X, reset=reset, dtype=np.float64)
        check_magnitudes(X)
        largest = np.abs(X).max()
        if reset and 0.0 < largest < _LEAST_MAGNITUDE:
            raise ValueError(
                f"X must have magnitudes of at least {_LEAST_MAGNITUDE:.0e} in the first call, "
                f"because squares of smaller values lose digits; its largest is {largest:.3e}. "
                "Rescale the features."
            )
        return X

    def _add_classes(self, labels, declared, n_columns):
        """Give columns to the labels of a batch and to declared labels, in sorted order."""
        if not hasattr(self, "classes_"):
            self.classes_ = labels[:0]
            self._start_moments(n_columns)
        known = self.classes_
        classes = np.union1d(known, labels)
        if declared is not None:
            classes = np.union1d(classes, declared)
        rows = np.searchsorted(classes, known)
        for name in self._class_arrays:
            values = getattr(self, name)
            grown = np.zeros((len(classes), *values.shape[1:]))
            grown[rows] = values
            setattr(self, name, grown)
        self.classes_ = classes

    def _batch(self, features, labels, codes):
        """Return the batch of some samples."""
        rows = np.searchsorted(self.classes_, labels)
        counts = np.bincount(codes).astype(np.float64)
        sums = class_sums(features, codes)
        means = sums / counts[:, np.newaxis]
        shifts = means - self.means_[rows]
        earlier_counts = self.class_counts_[rows]
        shift_weights = earlier_counts * counts / (earlier_counts + counts)
        return Batch(features, codes, rows, counts, means, shifts, shift_weights)

    def _start_moments(self, n_columns):
        """Start the moments of no class."""
        self.class_counts_ = np.zeros(0)
        self.means_ = np.zeros((0, n_columns))

    def _merge_batch(self, batch):
        """Merge counts and means; `_add_classes` has made the arrays, so they may be changed."""
        rows = batch.rows
        self.class_counts_[rows] += batch.counts
        shares = batch.counts / self.class_counts_[rows]
        steps = shares[:, np.newaxis] * batch.shifts
        self.means_[rows] += steps

    def _start_features(self, X):
        """Draw or choose what the features depend on, from the samples of the first call."""

    def _features(self, X):
        """Return the features of samples."""
        return X

    @property
    def _learned_rows(self):
        """Rows of the classes that have samples."""
        return np.flatnonzero(self.class_counts_)

    @property
    def _n_columns(self):
        """Number of columns of the features."""
        return self.n_features_in_

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the learned arrays by name, which `load` checks."""
        n_classes = len(self.classes_)
        return {"class_counts_": (n_classes,), "means_": (n_classes, self._n_columns)}

    @property
    def _n_bytes_to_solve(self):
        """Memory that `_solve` takes beyond multiples of the learned arrays."""
        return 0

    def _solve(self):
        """Return what `_scores` needs of the moments."""
        raise NotImplementedError

    def _scores(self, features):
        """Return the scores of the classes seen, from the weights and offsets of the solution."""
        weights, offsets = self._solution
        return features @ weights.T + offsets

    def _solved(self):
        """Return a copy for a prediction, solved with the present parameters.

        The copy does not change if another thread learns meanwhile.
        """
        check_is_fitted(self)
        # A call that learns replaces this dictionary, so an old solution never gets into a new one.
        attributes = vars(self)
        result = self._from_attributes(attributes)
        result._drop_outdated()
        if "_solution" not in vars(result):
            result._validate_params()
            result._solution = result._solve()
            computed = {name: vars(result)[name] for name in self._computed}
            attributes.update(computed)
        return result

    def _scores_of(self, X):
        """Return the scores of the classes seen."""
        X = self._check_samples(X, reset=False)
        features = self._features(X)
        return self._scores(features)

    def decision_function(self, X: object) -> npt.NDArray[np.float64]:
        """Return the scores of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples,)
            One column per entry of `classes_`. A class that was declared and never seen has a lower
            score than all others. For two classes, the score of the second class less that of the
            first.
        """
        solved = self._solved()
        scores = solved._scores_of(X)
        columns = np.tile(unseen_scores(scores), len(solved.classes_))
        columns[:, solved._learned_rows] = scores
        if len(solved.classes_) == 2:
            return columns[:, 1] - columns[:, 0]
        return columns

    def predict(self, X: object) -> npt.NDArray[np.generic]:
        """Return the label with the largest score of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels that have been seen.
        """
        solved = self._solved()
        scores = solved._scores_of(X)
        rows = solved._learned_rows[scores.argmax(axis=1)]
        return solved.classes_[rows]

    def __getstate__(self):
        """Return the attributes without those that are computed from others."""
        state = dict(super().__getstate__())
        for name in self._computed:
            state.pop(name, None)
        return state


class PooledScatterClassifier(MomentClassifier):
    """Base of classifiers that pool the scatter within the classes, of shape (d, d)."""

    def _start_moments(self, n_columns):
        super()._start_moments(n_columns)
        self.scatter_ = np.zeros((n_columns, n_columns))

    def _merge_batch(self, batch):
        """Add the scatter of the batch around its means, and that of the means around earlier."""
        deviations = batch.deviations
        scatter = deviations.T @ deviations
        weighted_shifts = batch.shift_weights[:, np.newaxis] * batch.shifts
        scatter += batch.shifts.T @ weighted_shifts
        scatter += self.scatter_
        self.scatter_ = scatter
        super()._merge_batch(batch)

    def _shapes(self):
        """Return the shapes of the learned arrays by name."""
        n_columns = self._n_columns
        return {**super()._shapes(), "scatter_": (n_columns, n_columns)}

    def _covariance(self):
        """Return the pooled covariance within the classes."""
        return self.scatter_ / self.class_counts_.sum()

    def _ridged_covariance(self, alpha):
        """Return the pooled covariance with a ridge of `alpha` samples of mean variance."""
        covariance = self._covariance()
        n_samples = self.class_counts_.sum()
        mean_variance = np.trace(covariance) / len(covariance)
        ridge = alpha * mean_variance / n_samples
        return add_to_diagonal(covariance, ridge)

    def _gaussian_rule(self, covariance):
        """Return weights and offsets of Gaussians with equal priors that share a covariance.

        With the centre c of the class means, the weights are w = S^-1 (mu - c), and the offsets
        -w' (mu + c) / 2. Without the centre, classes far from the origin would lose digits.
        """
        if not covariance.any():
            # Without two different samples in a class, distances are Euclidean.
            covariance = np.eye(len(covariance))
        means = self.means_[self._learned_rows]
        centre = means.mean(axis=0)
        weights = solve_positive(covariance, (means - centre).T).T
        offsets = -0.5 * np.sum(weights * (means + centre), axis=1)
        return weights, offsets
