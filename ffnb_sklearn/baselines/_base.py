"""Base of the classifiers that solve for scores from the moments of the classes."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from .._base.base import ClassIncrementalClassifier, learned_attribute
from .._base.parameters import derived_once
from .._base.validation import largest_magnitude
from .._inputs.sparse_samples import place_samples
from ..core.device import as_array
from ..core.moments import check_least
from ._moments import ClassMeans

__all__ = ["MomentClassifier", "of_classes", "of_model"]


def of_model(name):
    """Make an attribute that is a field of the model."""
    return learned_attribute(lambda state: getattr(state.model, name))


def of_classes(name):
    """Make an attribute with the row of a field for each entry of `classes_`; 0 if not seen."""
    return learned_attribute(lambda state: state.rows_by_class(getattr(state.model, name)))


class MomentClassifier(ClassIncrementalClassifier):
    """Base of classifiers that add up moments of each class, and solve for scores.

    A call that learns solves too, so its errors leave the estimator as it was. Later predictions
    take the solution from the cache of the model, unless parameters have changed.

    Subclasses define `_solve`, and the model in `_model_class`. They may also define `_start`,
    which prepares the features at the first call, `_add`, and `_scores_of` if scores are not
    linear.
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {}

    # Class of the model.
    _model_class: ClassVar[type[ClassMeans]] = ClassMeans

    class_counts_ = of_classes("counts")
    means_ = of_classes("means")

    def _learn_task(self, state, X, positions, arrived, weights, observe):
        """Return the state with the model after a task, and with its solution."""
        samples = as_array(place_samples(self.device, X, state.projection, state.scaling).double())
        model = state.model
        if model is None:
            check_least(largest_magnitude(samples))
            model = self._start(samples, state.random_state)
        batch = model.batch(samples, positions, len(arrived))
        model = self._add(model, batch)
        self._solution(model, arrived)
        return replace(state, model=model)

    def _start(self, X, seed):
        """Return a model without classes, which may depend on the samples of the first call."""
        return self._model_class.empty(X.shape[1])

    def _add(self, model, batch):
        """Return the model after a batch."""
        return model.add(batch)

    def _solution(self, model, arrived):
        """Return the solution with the present parameters, for classes sorted by their label."""
        attributes = vars(self)
        parameters = {name: attributes[name] for name in self._parameter_constraints}
        return derived_once(
            self, parameters, model.cache, lambda: self._solve(model, np.argsort(arrived))
        )

    def _solve(self, model, order) -> Any:
        """Return what `_scores_of` needs of the moments, for classes in an order."""
        raise NotImplementedError

    def _n_bytes_to_solve(self, model: ClassMeans) -> int:
        """Return the memory that `_solve` takes beyond multiples of the learned arrays."""
        return 0

    def _possible_labels(self, state):
        """Return the labels that were seen, sorted."""
        return np.sort(state.arrived)

    def _scores(self, state, samples):
        """Return the scores of the labels that were seen, sorted by label."""
        solution = self._solution(state.model, state.arrived)
        features = state.model.features(as_array(samples.double()))
        return self._scores_of(state.model, solution, features)

    def _scores_of(self, model, solution, features):
        """Return scores, given weights and offsets."""
        weights, offsets = solution
        return features @ weights.T + offsets

    def _most_likely(self, state, samples, order):
        """Return the positions of the highest scores; labels are sorted."""
        return self._scores(state, samples).argmax(axis=1)
