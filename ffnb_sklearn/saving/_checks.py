"""Numbers of an estimator that belong together, and limits on those that allocate memory.

`load` makes these checks, and `save` makes them by reading what it has written. A forged file that
passes them predicts anything, or raises an error when it is used; it runs no code, does not crash
the interpreter, and takes no more memory than the budget of the file.
"""

import math
import os

import numpy as np
import torch

from .._base.base import ClassIncrementalClassifier
from .._inputs.labels import check_labels
from ..backbones import SkeletonGCN, TorchFeatureExtractor
from ..backbones._network import is_state
from ..core.bands.tuning.naive import NaiveNetwork
from ..skeletons import SkeletonDescriptor
from ._schema import NETWORKS

__all__ = ["check_estimator", "check_parameters", "is_path", "restrict"]

# Values of parameters in a file: a cache holds pickles, and other inputs are paths.
_ONLY = {"memory": None, "input": "content"}

# Largest number of features.
_MOST_FEATURES = 1 << 24

# Largest values of parameters that allocate memory before a sample confirms them.
_LARGEST = {
    "degree": 1 << 6,
    "n_bins": 1 << 16,
    "n_chunks": 1 << 10,
    "n_components": 1 << 16,
    "n_features": _MOST_FEATURES,
    "n_knots": 1 << 16,
    "n_layers": 1 << 10,
    "ngram_range": 16,
    "resize": 1 << 12,
    "sample_steps": 1 << 10,
    # The number of columns that `PolynomialFeatures` allocates.
    "_n_out_full": _MOST_FEATURES,
}

# Bytes of memory that the first use takes: a feature of a random projection, a pair of positions
# and chunks of a skeleton, whose distances have indices and names, a label in a few copies per byte
# of the longest label, and an entry of the pairings of a network.
_PER_PROJECTED, _PER_PAIR, _PER_LABEL_BYTE, _PER_PAIRING = 64, 8, 4, 8

# Largest integer in the arguments of a network of this package, and their largest sum.
_LARGEST_ARGUMENT, _LARGEST_SUM = 1 << 10, 1 << 14

# Values of attributes that start processes or threads, which are not taken from a file.
_SEQUENTIAL = {"n_jobs": None, "n_threads": None, "_n_threads": 1}


def _require(holds, what, expected):
    """Raise `ValueError` unless a condition holds."""
    if not holds:
        raise ValueError(f"{what} must be {expected} in a file")


def is_path(estimator, name, value):
    """Return whether a parameter is a path, which a file cannot hold."""
    constraints = getattr(estimator, "_parameter_constraints", {}).get(name, ())
    return os.PathLike in [*constraints] and isinstance(value, str | os.PathLike)


def check_parameters(estimator):
    """Raise `ValueError` unless a file may hold the parameters of an estimator.

    Attributes that are no parameters have the same limits: some estimators hand them to others.
    """
    for name, value in vars(estimator).items():
        what = f"{name} of {type(estimator).__name__}"
        if name in _ONLY:
            holds = isinstance(value, str | None) and value == _ONLY[name]
            _require(holds, what, repr(_ONLY[name]))
        if name in _LARGEST and not isinstance(value, str | None):
            _require(np.max(value) <= _LARGEST[name], what, f"at most {_LARGEST[name]}")


def restrict(estimator):
    """Set what a file may not choose: numbers of processes, and whether texts are paths."""
    attributes = vars(estimator)
    attributes.update({name: _SEQUENTIAL[name] for name in _SEQUENTIAL.keys() & attributes.keys()})
    if isinstance(estimator, TorchFeatureExtractor):
        attributes["_is_from_file"] = True


def check_estimator(estimator, budget):
    """Raise `ValueError` unless a file may hold an estimator, one of `ESTIMATORS`."""
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()
    check_parameters(estimator)
    fitted = vars(estimator)
    for name in ("n_features_in_", "n_features_out_"):
        _require(fitted.get(name, 0) <= _MOST_FEATURES, name, f"at most {_MOST_FEATURES}")
    if isinstance(estimator, ClassIncrementalClassifier) and estimator._state is not None:
        _check_state(estimator._state, budget)
    if isinstance(estimator, TorchFeatureExtractor) and "state_dict_" in fitted:
        _check_extractor(estimator, budget)
    if isinstance(estimator, SkeletonDescriptor) and "frame_shape_" in fitted:
        n_positions = estimator.n_chunks * math.prod(estimator.frame_shape_)
        budget.spend(_PER_PAIR * n_positions**2, "n_chunks times frame_shape_")


def _spend_on_labels(budget, arrays):
    """Take the memory of labels in one array, in which all are as long as the longest."""
    n_labels = sum(len(labels) for labels in arrays)
    sizes = [labels.itemsize for labels in arrays]
    for labels in arrays:
        if labels.dtype == object:
            sizes += [4 * len(label) for label in labels]
    longest = max(sizes, default=0)
    budget.spend(_PER_LABEL_BYTE * longest * n_labels, f"{n_labels} labels of {longest} bytes")


def _check_state(state, budget):
    """Raise unless the parts of the learned state of a classifier belong together."""
    n_features, projection = state.n_features_in, state.projection
    _require(n_features <= _MOST_FEATURES, "n_features_in", f"at most {_MOST_FEATURES}")
    if projection is not None:
        fits = projection.n_columns <= n_features == projection.n_features
        _require(fits, "projection", f"that of {n_features} features")
        budget.spend(_PER_PROJECTED * n_features, f"the projection of {n_features} features")
    _spend_on_labels(budget, [state.classes, *state.task_classes])
    for labels in (state.arrived, state.classes, *state.task_classes):
        converted = check_labels(labels, state.arrived, "labels")
        _require(converted.dtype == labels.dtype, "labels", "int64, strings or booleans")
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
    _require(model.features.n_inputs == state.n_inputs, "n_inputs", f"{state.n_inputs}")
    n_features = model.features(row).shape[1]
    _require(len(model.moments) == len(state.arrived), "moments", "one per class")
    for one in model.moments:
        widths = {one.columns(slice(None)).shape[1], len(one.mean), len(one.residual)}
        _require(widths == {n_features}, "moments", f"those of {n_features} features")
        weights = (one.weight, one.weight_norm)
        counts = min(weights) > 0.0 and math.isfinite(max(weights)) and (one.residual >= 0.0).all()
        _require(counts, "moments", "positive")


def _check_extractor(extractor, budget):
    """Raise unless the sizes of a fitted network belong together."""
    shape, widths = extractor.input_shape_, getattr(extractor, "layer_widths_", None)
    if shape is not None:
        _require(math.prod(shape) == extractor.n_features_in_, "input_shape_", "that of the rows")
        shift = getattr(extractor.views, "shift", 0)
        _require(shift <= max(shape), "views", "a shift of at most the size of an image")
    holds = is_state(extractor.state_dict_)
    _require(holds, "state_dict_", "a mapping of names to arrays of numbers")
    if widths is not None:
        is_sum = sum(widths.values()) == extractor.n_features_out_
        _require(is_sum, "n_features_out_", "the sum of layer_widths_")
        axes = getattr(extractor, "layer_axes_", {})
        _require(axes.keys() == widths.keys(), "layer_axes_", "the axes of the layers")
    network = NETWORKS.get(extractor.backbone, extractor.backbone)
    if network in NETWORKS.values():
        _check_weights(extractor, network, budget)


def _check_weights(extractor, network, budget):
    """Raise unless the weights are those of a network, without allocating memory for them."""
    arguments = extractor.backbone_params or {}
    values = [value for name, value in arguments.items() if name != "random_state"]
    sizes = [np.abs(np.ravel(value)) for value in values if not isinstance(value, str | None)]
    numbers = np.concatenate([[0], *sizes])
    holds = numbers.max() <= _LARGEST_ARGUMENT and numbers.sum() <= _LARGEST_SUM
    limits = f"integers of at most {_LARGEST_ARGUMENT}, and {_LARGEST_SUM} in sum"
    _require(holds, f"backbone_params of {network.__name__}", limits)
    if network is SkeletonGCN:
        n_pairings = arguments.get("n_pairings", 0)
        n_bytes = _PER_PAIRING * n_pairings * arguments["n_nodes"] ** 2
        budget.spend(n_bytes, f"backbone_params with {n_pairings} pairings")
    # Some weights are drawn on the CPU in any case.
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        module = network(**arguments)
    heads = [extractor.head] if isinstance(extractor.head, str) else extractor.head or []
    prefixes = tuple(f"{head}." for head in heads)
    expected = {
        name: tuple(one.shape)
        for name, one in module.state_dict().items()
        if not name.startswith(prefixes)
    }
    found = {name: np.shape(one) for name, one in extractor.state_dict_.items()}
    _require(found == expected, "state_dict_", "that of the backbone with backbone_params")
