"""The estimators that the rows of the paper's tables stand for."""

from numbers import Integral

from _paper_settings import DEEP_P, PEER_WIDTH, UnavailableError
from heads import METHODS, Context
from sklearn.base import BaseEstimator, clone

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.baselines import JointClassifier, NaiveIncrementalClassifier


class Logged(BaseEstimator):
    """A classifier that notes its size and its epochs after each task.

    Parameters
    ----------
    estimator : classifier with `partial_fit`
        A clone of it learns.

    Attributes
    ----------
    estimator_ : classifier
        The clone.
    sizes_ : list of float
        Number of parameters after each task, nan where the classifier has no such attribute.
    epochs_ : list of int
        Epochs of each task.
    losses_ : list of tuple of float
        Loss after the first and the last epoch of each task, nan where it had none.
    """

    def __init__(self, estimator):
        self.estimator = estimator

    def partial_fit(self, X, y):
        """Learn one more task."""
        if not hasattr(self, "estimator_"):
            self.estimator_, self.sizes_ = clone(self.estimator), []
            self.epochs_, self.losses_ = [], []
        self.estimator_.partial_fit(X, y)
        self.sizes_.append(getattr(self.estimator_, "n_parameters_", float("nan")))
        self.epochs_.append(getattr(self.estimator_, "n_iter_", 0))
        losses = getattr(self.estimator_, "loss_curve_", None) or [float("nan")]
        self.losses_.append((losses[0], losses[-1]))
        return self

    def predict(self, X):
        """Most likely label of each sample."""
        return self.estimator_.predict(X)


def ffnb_parameters(row, n_features, max_epochs=None):
    """Parameters of `FFNBClassifier` in paper mode.

    Parameters
    ----------
    row : Row
        What the row changes.
    n_features : int
        Width of the inputs.
    max_epochs : int or None
        Instead of the epochs of the settings, where the row is fine-tuned.

    Returns
    -------
    parameters : dict
        An int p of the first layer gets `DEEP_P` for the layers above it.

    Raises
    ------
    UnavailableError
        If p leaves no axis of the inputs.
    """
    parameters = row.settings
    if max_epochs is not None and parameters["max_epochs"]:
        parameters["max_epochs"] = max_epochs
    p = parameters["p"]
    if isinstance(p, Integral):
        if p >= n_features:
            raise UnavailableError(f"p={p} leaves none of {n_features} axes")
        parameters["p"] = (p, *[DEEP_P] * (parameters["n_layers"] - 1))
    return parameters


def build_model(row, n_features, *, seed, device, max_epochs=None, width=PEER_WIDTH):
    """Return the estimator of a row, and whether it learns all classes at once.

    Parameters
    ----------
    row : Row
        Its model is a head of `heads.METHODS`, "default" or "default joint" for `FFNBClassifier`
        as it comes, "paper" for its paper mode, "joint" for `JointClassifier` as it comes, "paper
        joint" for the network of the paper mode fitted to all classes at once, or "algorithm 1".
    n_features : int
        Width of the inputs.
    seed, device : int, str
        `random_state` and `device` of the estimator.
    max_epochs : int or None
        As in `ffnb_parameters`.
    width : int
        Random neurons of the lifted heads.

    Returns
    -------
    estimator : classifier
        Not fitted.
    joint : bool
        Whether it has to learn all classes at once.

    Raises
    ------
    UnavailableError
        If p leaves no axis of the inputs, or Algorithm 1 has no epoch.
    """
    common = {"random_state": seed, "device": device}
    if row.model in METHODS:
        method = METHODS[row.model]
        return method.build(Context(seed, width, device)), method.joint
    if row.model.startswith("default"):
        return FFNBClassifier(**common), row.model == "default joint"
    if row.model == "joint":
        return JointClassifier(**common), True
    parameters = ffnb_parameters(row, n_features, max_epochs)
    if row.model == "paper":
        return FFNBClassifier(**parameters, **common), False
    if row.model == "paper joint":
        return JointClassifier(**parameters, **common), True
    if not parameters["max_epochs"]:
        raise UnavailableError("Algorithm 1 has no closed form; --epochs trains it")
    known = NaiveIncrementalClassifier().get_params()
    shared = {name: value for name, value in parameters.items() if name in known}
    return NaiveIncrementalClassifier(**shared, **common), False
