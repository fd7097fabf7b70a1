"""The baseline of the paper, Algorithm 1, which forgets because nothing prevents it."""

from dataclasses import replace
from numbers import Integral
from typing import ClassVar, Self

import numpy.typing as npt
from sklearn.utils._param_validation import Interval

from .._base.band_parameters import descent_of
from .._base.bands import Bands
from .._base.base import ProbabilisticClassifier, learned_attribute
from .._base.parameters import check_seed, check_unchanged
from .._base.task_learning import place_task
from .._inputs.seeds import next_seed
from .._inputs.tasks import class_incremental_tasks
from ..core.bands.tuning.naive import empty_network, grow, train_newest
from ..core.device import as_array

__all__ = ["NaiveIncrementalClassifier"]


class NaiveIncrementalClassifier(ProbabilisticClassifier):
    """A growing network trained by back-propagation on one task after another; it forgets.

    This is the baseline of the paper [1]_ (Algorithm 1, "incremental"). Each call with new labels
    appends a band of neurons to every layer and a linear output per new class, and trains only
    these, with the multi-class hinge loss over all known classes. The new outputs have no
    information on where old classes lie, so they claim their samples.

    Parameters
    ----------
    band_size : int, default=8
        Number of neurons per new class and layer.
    n_layers : int, default=1
        Number of layers of bands. The outputs read the last layer.
    activation : {"relu", "tanh", "sigmoid"}, default="relu"
        Activation of new bands.
    max_epochs : int, default=250
        Maximum number of epochs per call.
    learning_rate : float, default=0.01
        Initial rate of a call, relative to the mean square norm of the first task's samples. It
        adapts as `Bands.adaptive_rate` describes.
    momentum : float, default=0.9
        Fraction of a step that is repeated in the next step, in [0, 1).
    weight_decay : float, default=1e-3
        Multiple of each parameter that is added to its gradient.
    batch_size : int, default=50
        Number of samples per step.
    patience : int or None, default=10
        Number of epochs without a lower loss after which training ends. With None, all epochs run.
    classes_per_task : int or None, default=None
        Only for `fit`: number of classes per task, in sorted order. None makes them one task.
    device : str, default="auto"
        Where to compute, as for `FFNBClassifier`.
    random_state : int, RandomState instance or None, default=None
        Seed of the weights and of the mini-batches.
    verbose : bool or int, default=False
        Whether to print a line for every task, and up to ten lines for its epochs.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted: the columns of `predict_proba`.
    n_features_in_ : int
        Number of features seen at the first task.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.
    n_tasks_ : int
        Number of tasks that brought new labels.
    task_classes_ : list of ndarray
        The labels that each task brought.
    n_parameters_ : int
        Number of weights and offsets of all tasks.
    n_iter_ : int
        Number of epochs for the last task; 0 while only one class is known, which has no loss.
    loss_curve_ : list of float
        Loss of the last task in each of these epochs, averaged over the mini-batches.

    See Also
    --------
    FFNBClassifier : Does not forget.

    Notes
    -----
    Without a new class, a call trains the newest parameters further. Probabilities are the softmax
    of the outputs, which is not calibrated.

    References
    ----------
    .. [1] H. Sahbi and H. Zhan. FFNB: Forgetting-Free Neural Blocks for Deep Continual Visual
       Learning. arXiv:2111.11366, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from ffnb_sklearn.baselines import NaiveIncrementalClassifier
    >>> X, y = load_digits(n_class=6, return_X_y=True)
    >>> clf = NaiveIncrementalClassifier(classes_per_task=2, random_state=0).fit(X, y)
    >>> np.unique(clf.predict(X))  # 0 to 3 are forgotten
    array([4, 5])
    """

    _parameter_constraints: ClassVar[dict] = {
        **ProbabilisticClassifier._parameter_constraints,
        "band_size": [Interval(Integral, 1, None, closed="left")],
        "n_layers": [Interval(Integral, 1, None, closed="left")],
        "classes_per_task": [Interval(Integral, 1, None, closed="left"), None],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "patience": [Interval(Integral, 1, None, closed="left"), None],
        **{
            name: Bands._parameter_constraints[name]
            for name in ("activation", "learning_rate", "momentum", "weight_decay", "batch_size")
        },
    }

    def __init__(
        self,
        *,
        band_size=8,
        n_layers=1,
        activation="relu",
        max_epochs=250,
        learning_rate=0.01,
        momentum=0.9,
        weight_decay=1e-3,
        batch_size=50,
        patience=10,
        classes_per_task=None,
        device="auto",
        random_state=None,
        verbose=False,
    ):
        self.band_size = band_size
        self.n_layers = n_layers
        self.activation = activation
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.patience = patience
        self.classes_per_task = classes_per_task
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: object, y: npt.ArrayLike) -> Self:
        """Discard the learned state, then learn all classes, `classes_per_task` at a time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels of the samples: numbers, strings or booleans.

        Returns
        -------
        self : NaiveIncrementalClassifier
            The fitted estimator. It is unchanged if an error is raised.
        """
        return super().fit(X, y)

    def _learn_task(self, state, X, positions, arrived, weights, observe):
        """Return the state with the network after a task; outputs are trained with their bands."""
        model = state.model
        n_layers = int(self.n_layers)
        task = place_task(self.device, state, X, positions, weights)
        samples = task.X
        if model is None:
            model = empty_network(samples, n_layers, next_seed(state.random_state))
        check_unchanged("n_layers", model.n_layers, n_layers)
        check_seed(model.seed, self.random_state)
        n_new = len(arrived) - model.n_classes
        if n_new > 0:
            model = grow(model, n_new, int(self.band_size), str.__str__(self.activation))
        model = train_newest(model, samples, task.classes, descent_of(self), observe)
        return replace(state, model=model)

    n_parameters_ = learned_attribute(lambda state: state.model.n_weights)
    loss_curve_ = learned_attribute(lambda state: list(state.model.loss_curve))
    n_iter_ = learned_attribute(lambda state: len(state.model.loss_curve))

    def _scores(self, state, samples):
        """Return the scores of the labels seen."""
        return as_array(state.model.scores(samples))

    def _tasks_of_fit(self, y):
        """Return the numbers of the samples of each task of `fit`."""
        if self.classes_per_task is None:
            return [slice(None)]
        return class_incremental_tasks(y, classes_per_task=self.classes_per_task)

    def _loss_curve(self, state):
        """Return the loss after each epoch of the last task."""
        return state.model.loss_curve

    def _max_epochs(self):
        """Return the largest number of epochs of a task."""
        return int(self.max_epochs)
