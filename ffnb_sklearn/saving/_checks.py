"""Numbers of an estimator that belong together, and limits on those that allocate memory.

`save` and `load` make the same checks. A forged file that passes them predicts anything, or raises
an error when it is used; it runs no code, does not crash the interpreter, and takes little memory.
"""

import math
import os

import numpy as np
import torch

from .._estimators.base import ClassIncrementalClassifier
from .._inputs.labels import check_labels
from ..backbones import ConvNet, SkeletonGCN, TorchFeatureExtractor
from ..core.tuning.naive import NaiveNetwork
from ..skeletons import SkeletonDescriptor

__all__ = ["OWN_NETWORKS", "check_drawn", "check_estimator", "check_parameters", "is_path"]

# Networks of this package by their names in files.
OWN_NETWORKS = {f"{one.__module__}:{one.__qualname__}": one for one in (ConvNet, SkeletonGCN)}

# Values of parameters in a file: a cache holds pickles, and other inputs are paths.
_ONLY = {"memory": None, "input": "content"}

# Largest values of parameters that allocate memory before a sample confirms them.
_LARGEST = {"n_chunks": 1 << 10, "n_layers": 1 << 10, "ngram_range": 16, "resize": 1 << 12}

# Largest number of features. A projection of samples takes 64 bytes per feature, 1 GB.
_MOST_FEATURES = 1 << 24

# Largest number of weights of a shared band, which is drawn on loading: 1 GB.
_MOST_DRAWN = 1 << 27

# Largest number of positions and chunks of a skeleton: the names of its distances take 2 GB.
_MOST_POSITIONS = 1 << 14

# Largest integer in the arguments of a network of this package, and their largest sum. A network of
# 1024 nodes with all pairings takes 4 GB.
_LARGEST_ARGUMENT, _LARGEST_SUM = 1 << 10, 1 << 14


def _require(holds, what, expected):
    """Raise `ValueError` unless a condition holds."""
    if not holds:
        raise ValueError(f"{what} must be {expected} in a file")


def is_path(estimator, name, value):
    """Return whether a parameter is a path, which a file cannot hold."""
    constraints = getattr(estimator, "_parameter_constraints", {}).get(name, ())
    return os.PathLike in [*constraints] and isinstance(value, str | os.PathLike)


def check_parameters(estimator, *, deep):
    """Raise `ValueError` unless a file may hold the parameters, or also those of its parts."""
    for key, value in estimator.get_params(deep).items():
        name, what = key.rpartition("__")[2], f"{key} of {type(estimator).__name__}"
        if name in _ONLY:
            _require(value == _ONLY[name], what, repr(_ONLY[name]))
        if name in _LARGEST and value is not None:
            _require(np.max(value) <= _LARGEST[name], what, f"at most {_LARGEST[name]}")


def check_estimator(estimator):
    """Raise `ValueError` unless a file may hold an estimator, one of `ESTIMATORS`."""
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()
    check_parameters(estimator, deep=False)
    fitted = vars(estimator)
    for name in ("n_features_in_", "n_features_out_"):
        _require(fitted.get(name, 0) <= _MOST_FEATURES, name, f"at most {_MOST_FEATURES}")
    if isinstance(estimator, ClassIncrementalClassifier) and estimator._state is not None:
        _check_state(estimator._state)
    if isinstance(estimator, TorchFeatureExtractor) and "state_dict_" in fitted:
        _check_extractor(estimator)
    if isinstance(estimator, SkeletonDescriptor) and "frame_shape_" in fitted:
        n_positions = estimator.n_chunks * math.prod(estimator.frame_shape_)
        what = "n_chunks times frame_shape_"
        _require(n_positions <= _MOST_POSITIONS, what, f"at most {_MOST_POSITIONS}")


def check_drawn(n_neurons, n_inputs):
    """Raise `ValueError` if a shared band has too many weights to be drawn on loading."""
    what = f"the weights of {n_neurons} shared neurons over {n_inputs} inputs"
    _require(n_neurons * (n_inputs + 1) <= _MOST_DRAWN, what, f"at most {_MOST_DRAWN}")


def _check_state(state):
    """Raise unless the parts of the learned state of a classifier belong together."""
    n_features, projection = state.n_features_in, state.projection
    _require(n_features <= _MOST_FEATURES, "n_features_in", f"at most {_MOST_FEATURES}")
    if projection is not None:
        fits = projection.n_columns <= n_features == projection.n_features
        _require(fits, "projection", f"that of {n_features} features")
    for labels in (state.arrived, state.classes, *state.task_classes):
        check_labels(labels, state.arrived, "labels")
        _require(0 < len(labels) == len(np.unique(labels)), "labels", "different")
    in_tasks = np.sort(np.concatenate(state.task_classes))
    _require(np.array_equal(in_tasks, np.sort(state.arrived)), "task_classes", "those that arrived")
    is_superset = np.isin(state.arrived, state.classes).all()
    is_sorted = np.array_equal(np.sort(state.classes), state.classes)
    _require(is_superset and is_sorted, "classes", "sorted, with all that arrived")

    model, row = state.model, torch.zeros((1, state.n_inputs), dtype=torch.float64)
    # The bands multiply the row, and raise unless they fit it and each other.
    if isinstance(model, NaiveNetwork):
        _require(model.scores(row).shape[1] == len(state.arrived), "outputs", "one per class")
        return
    n_features = model.features(row).shape[1]
    _require(len(model.moments) == len(state.arrived), "moments", "one per class")
    for one in model.moments:
        widths = {one.columns(slice(None)).shape[1], len(one.mean), len(one.residual)}
        _require(widths == {n_features}, "moments", f"those of {n_features} features")
        weights = (one.weight, one.weight_norm)
        counts = min(weights) > 0.0 and math.isfinite(max(weights)) and (one.residual >= 0.0).all()
        _require(counts, "moments", "positive")


def _check_extractor(extractor):
    """Raise unless the sizes of a fitted network belong together."""
    shape, widths = extractor.input_shape_, getattr(extractor, "layer_widths_", None)
    if shape is not None:
        _require(math.prod(shape) == extractor.n_features_in_, "input_shape_", "that of the rows")
        shift = getattr(extractor.views, "shift", 0)
        _require(shift <= max(shape), "views", "a shift of at most the size of an image")
    if widths is not None:
        is_sum = sum(widths.values()) == extractor.n_features_out_
        _require(is_sum, "n_features_out_", "the sum of layer_widths_")
    network = OWN_NETWORKS.get(extractor.backbone, extractor.backbone)
    if network in OWN_NETWORKS.values():
        _check_weights(extractor, network)


def _check_weights(extractor, network):
    """Raise unless the weights are those of a network, without allocating memory for them."""
    arguments = extractor.backbone_params or {}
    values = [value for name, value in arguments.items() if name != "random_state"]
    sizes = [np.abs(np.ravel(value)) for value in values if not isinstance(value, str | None)]
    numbers = np.concatenate([[0], *sizes])
    holds = numbers.max() <= _LARGEST_ARGUMENT and numbers.sum() <= _LARGEST_SUM
    limits = f"integers of at most {_LARGEST_ARGUMENT}, and {_LARGEST_SUM} in sum"
    _require(holds, f"backbone_params of {network.__name__}", limits)
    # Some weights are drawn on the CPU in any case.
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        module = network(**arguments)
    head = f"{extractor.head}."
    expected = {
        name: tuple(one.shape)
        for name, one in module.state_dict().items()
        if not name.startswith(head)
    }
    found = {name: np.shape(one) for name, one in extractor.state_dict_.items()}
    _require(found == expected, "state_dict_", "that of the backbone with backbone_params")
