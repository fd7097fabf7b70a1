"""One-vs-all softmax outputs instead of pairs: the ablation of the paper's classifier.

The paper compares its pairs with "the usual one-vs-all softmax" on the same bands (tables tablebbb
and tablebbbb), and trains "only the parameters of the feature map and the classification layers
associated to the current task". So each task appends a linear output per class, which is trained
with the rows of the task's band by the cross-entropy over all known classes on the task's samples.
Old outputs stay as they are, with zero weight on newer neurons. Rows start at Eq. 6 or 7 and stay
in the null-space.
"""

from dataclasses import replace

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from ffnb_sklearn._base.band_parameters import bands_of, descent_of
from ffnb_sklearn.core.bands.bound import open_axes
from ffnb_sklearn.core.bands.layers import Layers
from ffnb_sklearn.core.bands.tuning.descent import MomentumSteps
from ffnb_sklearn.core.bands.tuning.naive import (
    NaiveNetwork,
    Outputs,
    append_parameters,
    newest_parameters,
    newest_scores,
)


class SoftmaxOneVsAll(ClassifierMixin, BaseEstimator):
    """The bands of an `FFNBClassifier` with one layer, and softmax outputs.

    Parameters
    ----------
    estimator : FFNBClassifier
        Gives the bands of each task in closed form, their null-space and the rate, momentum and
        batch size of the descent. It needs ``n_layers=1``, no shared band, no skip connection and
        an integer as `random_state`.
    max_epochs : int, default=250
        Number of epochs per task.
    tune_bands : bool, default=True
        Whether the rows of the newest band are trained with the outputs, or the outputs alone.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in order of arrival.
    n_parameters_ : int
        Number of weights and offsets.
    n_iter_ : int
        Number of epochs of the last task; 0 for a single class, which has no loss.
    """

    def __init__(self, estimator, *, max_epochs=250, tune_bands=True):
        self.estimator = estimator
        self.max_epochs = max_epochs
        self.tune_bands = tune_bands

    def partial_fit(self, X, y):
        """Learn one more task, all of whose classes are new."""
        if not hasattr(self, "bands_of_tasks_"):
            self._start(X)
        n_known = self.network_.n_classes
        self.bands_of_tasks_.partial_fit(X, y)
        state = self.bands_of_tasks_._learned_state()
        self.classes_ = state.arrived
        positions = {label: position for position, label in enumerate(state.arrived)}
        classes = torch.tensor([positions[label] for label in y])
        samples = torch.as_tensor(X, dtype=torch.float64)
        network = self._append_closed_form(state.model, len(state.arrived) - n_known)
        (null_space,) = open_axes(state.model, samples.device)
        self.network_ = self._train_newest(network, null_space, samples, classes)
        self.n_parameters_ = self.network_.n_weights
        self.n_iter_ = len(self.network_.loss_curve)
        return self

    def decision_function(self, X):
        """Return the outputs, one column per entry of `classes_`."""
        return self.network_.scores(torch.as_tensor(X, dtype=torch.float64)).numpy()

    def predict(self, X):
        """Return the label of the largest output of each sample."""
        return self.classes_[self.decision_function(X).argmax(axis=1)]

    def _start(self, X):
        """Set up the classifier of the bands, and a network without a task."""
        estimator = clone(self.estimator).set_params(bands__max_epochs=0)
        if estimator.n_layers != 1 or estimator.shared_band_size or estimator.skip_connection:
            raise ValueError(
                "estimator must have n_layers=1, shared_band_size=0 and skip_connection=False; got "
                f"n_layers={estimator.n_layers}, shared_band_size={estimator.shared_band_size} and "
                f"skip_connection={estimator.skip_connection}."
            )
        self.bands_of_tasks_ = estimator
        layers = Layers(X.shape[1])
        self.network_ = NaiveNetwork(estimator.random_state, 1, 1.0, layers)

    def _append_closed_form(self, model, n_new):
        """Return the network with the newest band in closed form, and random outputs."""
        network = self.network_
        rng = np.random.default_rng([network.seed, len(network.outputs), 0])
        band = model.trained.layers.bands[-1]
        width = network.hidden.width(1) + len(band.weights)
        weights = rng.normal(scale=width**-0.5, size=(n_new, width))
        return network.append_task([band], Outputs(weights, np.zeros(n_new)))

    def _train_newest(self, network, null_space, X, classes):
        """Return the network with trained outputs of the newest task, and rows if requested."""
        if network.n_classes == 1:
            return network
        bands = network.newest_bands
        old_network = network.remove_newest_task()
        old_layers = old_network.layers(X)
        old_scores = old_network.scores(X)
        rows, weights, offsets = newest_parameters(network, X.device)

        def loss(batch):
            # The step of alpha is the projected step of the rows.
            parameters = [null_space.project(rows), weights, offsets]
            old_layers_of_batch = [layer[batch] for layer in old_layers]
            new_scores = newest_scores(bands, old_layers_of_batch, parameters)
            scores = torch.cat([old_scores[batch], new_scores], dim=1)
            return torch.nn.functional.cross_entropy(scores, classes[batch])

        trained = [rows, weights, offsets] if self.tune_bands else [weights, offsets]
        rng = np.random.default_rng([network.seed, len(network.outputs), 1])
        losses = []
        steps = MomentumSteps(trained, self._descent())
        for _ in steps.epochs(losses):
            losses.append(steps.epoch(loss, len(X), rng))
        old_network = replace(old_network, loss_curve=tuple(losses))
        return append_parameters(old_network, bands, [null_space.project(rows), weights, offsets])

    def _descent(self):
        """Return the settings of the descent."""
        bands = clone(bands_of(self.estimator))
        return descent_of(bands.set_params(max_epochs=self.max_epochs))
