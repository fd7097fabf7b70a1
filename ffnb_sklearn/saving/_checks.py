"""Check that the numbers of an estimator belong together, and limit the memory that they allocate.

`load` makes these checks, and `save` makes them when it reads the file that it has written. An
estimator from a forged file that passes them may predict any label, or raise an error when it is
used. It runs no code, does not crash the interpreter, and takes no more memory than the budget of
the file.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator

from .._base.base import ClassIncrementalClassifier
from .._base.state import State
from .._inputs.labels import check_labels
from ..backbones import SkeletonGCN, TorchFeatureExtractor
from ..backbones._network import is_state
from ..baselines import NaiveIncrementalClassifier
from ..baselines._base import MomentClassifier
from ..baselines._moments import ClassMeans
from ..classifiers import FFNBClassifier
from ..core.bands.trained import BandMoments, trained_of
from ..core.bands.tuning.naive import NaiveNetwork
from ..core.model import Model
from ..core.moments import ClassMoments
from ..core.novelty.likeness import LeftOutLikeness
from ..skeletons import SkeletonDescriptor
from ._container import Array, Budget
from ._schema import NETWORKS, RECORDS

__all__ = ["check_estimator", "check_parameters", "is_path", "nested_estimators", "restrict"]

# Values that these parameters must have in a file. A cache holds pickles, and the other values of
# `input` are for paths.
_REQUIRED_VALUES = {"memory": None, "input": "content"}

# Largest number of features.
_MOST_FEATURES = 1 << 24

# Largest values of parameters that allocate memory before they are compared with a sample.
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
    "thresholds": 1 << 16,
    # The number of columns that `PolynomialFeatures` allocates.
    "_n_out_full": _MOST_FEATURES,
}

# Bytes of memory that the first use takes, per feature of a random projection.
_PER_PROJECTED = 64

# Bytes per pair of positions and chunks of a skeleton: a distance has indices and a name.
_PER_PAIR = 8

# Bytes per label and byte of the longest label, for a few copies of the labels.
_PER_LABEL_BYTE = 4

# Bytes per entry of the pairings of a network.
_PER_PAIRING = 8

# Largest integer in the arguments of a network of this package, and their largest sum.
_LARGEST_ARGUMENT = 1 << 10
_LARGEST_SUM = 1 << 14

# Largest depth of nested estimators. Pipelines ask each other for their methods: a prediction
# takes 20 ms with 8 levels, and 2.7 times as long with each further level.
_MOST_LEVELS = 8

# Largest number of objects in an estimator. Repeated objects count each time, because a short file
# can repeat an estimator ten times on each of eight levels.
_MOST_OBJECTS = 1 << 20

# Types of objects that hold no estimators.
_PLAIN = str | bytes | bool | int | float | complex | np.generic | type | ModuleType | None
_RECORD_CLASSES = tuple(RECORDS.values())

# Values of attributes that start processes or threads, which are not taken from a file.
_SEQUENTIAL = {"n_jobs": None, "n_threads": None, "_n_threads": 1}


def _require(condition: bool | np.bool, name: str, expected: str) -> None:
    """Raise `ValueError` unless a condition holds."""
    if not condition:
        raise ValueError(f"{name} must be {expected} in a file")


def is_path(estimator: BaseEstimator | type[BaseEstimator], name: str, value: object) -> bool:
    """Return whether a parameter is a path, which a file cannot hold."""
    constraints = getattr(estimator, "_parameter_constraints", {})
    may_be_path = os.PathLike in [*constraints.get(name, ())]
    return may_be_path and isinstance(value, str | os.PathLike)


def check_parameters(estimator: BaseEstimator) -> None:
    """Raise `ValueError` unless a file may hold the parameters of an estimator.

    Attributes that are not parameters have the same limits, because some estimators pass them on as
    parameters of other estimators.
    """
    for attribute, value in vars(estimator).items():
        name = f"{attribute} of {type(estimator).__name__}"
        if attribute in _REQUIRED_VALUES:
            required = _REQUIRED_VALUES[attribute]
            is_required = isinstance(value, str | None) and value == required
            _require(is_required, name, repr(required))
        if attribute in _LARGEST and not isinstance(value, str | None):
            largest = _LARGEST[attribute]
            _require(np.max(value) <= largest, name, f"at most {largest}")


def restrict(estimator: BaseEstimator) -> None:
    """Set the values that a file may not choose: numbers of processes, and texts as paths."""
    attributes = vars(estimator)
    for name, value in _SEQUENTIAL.items():
        if name in attributes:
            attributes[name] = value
    if isinstance(estimator, TorchFeatureExtractor):
        attributes["_is_from_file"] = True


def check_estimator(estimator: BaseEstimator, budget: Budget) -> None:
    """Raise `ValueError` unless a file may hold an estimator, which is in `ESTIMATORS`."""
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()
    check_parameters(estimator)
    attributes = vars(estimator)
    for name in ("n_features_in_", "n_features_out_"):
        n_features = attributes.get(name, 0)
        _require(n_features <= _MOST_FEATURES, name, f"at most {_MOST_FEATURES}")
    if isinstance(estimator, ClassIncrementalClassifier) and estimator._state is not None:
        _check_kind_of_model(estimator, estimator._state)
        _check_state(estimator, estimator._state, budget)
    if isinstance(estimator, TorchFeatureExtractor) and "state_dict_" in attributes:
        _check_extractor(estimator, budget)
    if isinstance(estimator, SkeletonDescriptor) and "frame_shape_" in attributes:
        n_positions = estimator.n_chunks * math.prod(estimator.frame_shape_)
        budget.spend(_PER_PAIR * n_positions**2, "n_chunks times frame_shape_")


def _check_kind_of_model(classifier: ClassIncrementalClassifier, state: State) -> None:
    """Raise unless the model of a classifier is of its kind, with bands or without."""
    kind = f"that of {type(classifier).__name__}"
    if isinstance(classifier, MomentClassifier):
        _require(type(state.model) is classifier._model_class, "model", kind)
        return
    is_naive = isinstance(state.model, NaiveNetwork)
    _require(is_naive == isinstance(classifier, NaiveIncrementalClassifier), "model", kind)
    if not is_naive:
        has_bands = state.model.trained is not None
        _require(has_bands == isinstance(classifier, FFNBClassifier), "trained", kind)


def _check_state(classifier: ClassIncrementalClassifier, state: State, budget: Budget) -> None:
    """Raise unless the parts of the learned state of a classifier belong together."""
    _check_inputs(state, budget)
    _check_labels(state, budget)
    n_classes = len(state.arrived)
    if isinstance(state.model, NaiveNetwork):
        _check_naive_network(state.model, state.n_inputs, n_classes)
    elif isinstance(classifier, MomentClassifier):
        _check_baseline(classifier, state, budget)
    else:
        _check_model(state.model, state.n_inputs, n_classes)


def _check_inputs(state: State, budget: Budget) -> None:
    """Raise unless the projection has the features of the state; take its memory."""
    n_features = state.n_features_in
    projection = state.projection
    _require(n_features <= _MOST_FEATURES, "n_features_in", f"at most {_MOST_FEATURES}")
    if projection is not None:
        fits = projection.n_columns <= n_features == projection.n_features
        _require(fits, "projection", f"that of {n_features} features")
        budget.spend(_PER_PROJECTED * n_features, f"the projection of {n_features} features")


def _check_labels(state: State, budget: Budget) -> None:
    """Raise unless labels are different and of one kind, and `classes` is sorted and complete."""
    arrays = [state.classes, *state.task_classes]
    _spend_on_labels(budget, arrays)
    for labels in [state.arrived, *arrays]:
        converted = check_labels(labels, state.arrived, "labels")
        _require(converted.dtype == labels.dtype, "labels", "int64, strings or booleans")
        n_different = len(np.unique(labels))
        _require(0 < len(labels) == n_different, "labels", "different")
    is_complete = np.isin(state.arrived, state.classes).all()
    is_sorted = np.array_equal(np.sort(state.classes), state.classes)
    _require(is_complete and is_sorted, "classes", "sorted, with all that arrived")


def _spend_on_labels(budget: Budget, arrays: Sequence[Array]) -> None:
    """Take the memory of an array of all labels, in which each label is as long as the longest."""
    n_labels = 0
    longest = 0
    for labels in arrays:
        n_labels += len(labels)
        longest = max(longest, labels.itemsize)
        if labels.dtype == object:
            n_characters = max(map(len, labels), default=0)
            longest = max(longest, 4 * n_characters)
    budget.spend(_PER_LABEL_BYTE * longest * n_labels, f"{n_labels} labels of {longest} bytes")


def _check_baseline(baseline: MomentClassifier, state: State, budget: Budget) -> None:
    """Raise unless the numbers of a baseline fit the inputs and the classes; take memory."""
    model = state.model
    assert isinstance(model, ClassMeans)
    for name, shape in model.shapes(state.n_inputs, len(state.arrived)).items():
        _require(getattr(model, name).shape == shape, name, f"of shape {shape}")
    _require((model.counts > 0.0).all(), "counts", "positive")
    for name, (least, largest) in model.ranges.items():
        is_within = least <= getattr(model, name) <= largest
        _require(is_within, name, f"between {least} and {largest}")
    n_bytes = baseline._n_bytes_to_solve(model)
    budget.spend(n_bytes, f"the solution of {type(baseline).__name__}")


def _check_naive_network(network: NaiveNetwork, n_inputs: int, n_classes: int) -> None:
    """Raise unless the layers of a naive network fit the inputs, the classes and each other."""
    n_bands = len(network.hidden.bands)
    is_complete = 0 < n_bands == network.n_layers * len(network.outputs)
    _require(is_complete, "n_layers", "the number of bands of each task")
    row = torch.zeros((1, n_inputs), dtype=torch.float64)
    # The layers multiply the row, and raise unless they fit it and each other.
    n_outputs = network.scores(row).shape[1]
    _require(n_outputs == n_classes, "outputs", "one per class")


def _check_model(model: Model, n_inputs: int, n_classes: int) -> None:
    """Raise unless the features and the moments fit the inputs, the classes and each other."""
    _require(model.features.n_inputs == n_inputs, "n_inputs", f"{n_inputs}")
    row = torch.zeros((1, n_inputs), dtype=torch.float64)
    n_features = model.features(row).shape[1]
    _require(len(model.moments) == n_classes, "moments", "one per class")
    for moments in model.moments:
        _check_moments(moments, n_features)
    if model.trained is not None:
        n_features += _check_trained(model, row)
    _require(len(model.chosen_from) in (0, n_classes), "chosen_from", "one per class")
    for chosen in model.chosen_from:
        if chosen is not None:
            _check_moments(chosen, n_features)
    for likeness in model.left_out:
        _check_left_out(likeness)


def _check_trained(model: Model, row: torch.Tensor) -> int:
    """Raise unless the bands and the moments in them fit the inputs, the classes and each other.

    Return the number of neurons.
    """
    trained = trained_of(model)
    n_classes = len(model.moments)
    _require(trained.layers.n_inputs == row.shape[1], "n_inputs of layers", f"{row.shape[1]}")
    # The bands multiply the row, and raise unless they fit it and each other.
    n_neurons: int = trained.layers(row).shape[1]
    n_bands = len(trained.layers.bands)
    n_tasks = len(trained.null_space_dims)
    _require(n_bands == n_tasks * trained.n_layers, "bands", "one per task and layer")
    _require(trained.owners.shape == (n_neurons,), "owners", "one per neuron")
    are_classes = (trained.owners >= -1) & (trained.owners < n_classes)
    _require(are_classes.all(), "owners", "numbers of classes")
    _require(0 <= trained.n_newest <= n_classes, "n_newest", f"at most {n_classes}")
    _require(len(trained.moments) == n_classes, "moments of bands", "one per class")
    for moments, in_neurons in zip(model.moments, trained.moments, strict=True):
        _check_band_moments(in_neurons, moments.rank, n_neurons)
    return n_neurons


def _check_band_moments(moments: BandMoments, rank: int, n_neurons: int) -> None:
    """Raise unless the moments of a class in the bands have all neurons and the rank of a class."""
    shapes = {moments.mean.shape, moments.residual.shape}
    is_complete = shapes == {(n_neurons,)} and moments.factor(rank).shape == (rank, n_neurons)
    _require(is_complete, "moments of bands", f"those of {n_neurons} neurons")
    _require((moments.residual >= 0.0).all(), "moments of bands", "positive")


def _check_moments(moments: ClassMoments, n_features: int) -> None:
    """Raise unless the moments of a class have all features and positive weights."""
    widths = {
        moments.factor.shape[1],
        len(moments.mean),
        len(moments.residual),
        len(moments.error_energies),
    }
    _require(widths == {n_features}, "moments", f"those of {n_features} features")
    weights = (moments.weight, moments.weight_norm)
    has_weight = min(weights) > 0.0 and math.isfinite(max(weights))
    diagonals = (moments.residual, moments.error_energies)
    is_positive = has_weight and all((diagonal >= 0.0).all() for diagonal in diagonals)
    _require(is_positive, "moments", "positive")


def _check_left_out(likeness: LeftOutLikeness) -> None:
    """Raise unless the left-out likeness of a class are numbers with positive weights."""
    weights = [likeness.weights, likeness.learned_weights]
    of_calls = [likeness.arrivals, likeness.arrived_weights]
    for arrays in ([likeness.values, *weights], of_calls):
        shape = (len(arrays[0]),)
        for array in arrays:
            is_vector = array.dtype == np.float64 and array.shape == shape
            _require(is_vector and np.isfinite(array).all(), "left_out", "vectors of one length")
    for array in weights + of_calls:
        _require((array > 0.0).all(), "left_out", "of positive weights")


def _check_extractor(extractor: TorchFeatureExtractor, budget: Budget) -> None:
    """Raise unless the sizes of a fitted network belong together."""
    if extractor.input_shape_ is not None:
        _check_input_shape(extractor)
    has_arrays = is_state(extractor.state_dict_)
    _require(has_arrays, "state_dict_", "a mapping of names to arrays of numbers")
    if getattr(extractor, "layer_widths_", None) is not None:
        _check_layers(extractor)
    for name, network in NETWORKS.items():
        if extractor.backbone in (name, network):
            _check_weights(extractor, network, budget)


def _check_input_shape(extractor: TorchFeatureExtractor) -> None:
    """Raise unless the shape of an image has the size of a row, and views stay in the image."""
    shape = extractor.input_shape_
    n_values = math.prod(shape)
    _require(n_values == extractor.n_features_in_, "input_shape_", "that of the rows")
    shift = getattr(extractor.views, "shift", 0)
    _require(shift <= max(shape), "views", "a shift of at most the size of an image")


def _check_layers(extractor: TorchFeatureExtractor) -> None:
    """Raise unless the widths and the axes of the layers belong to the columns."""
    widths = extractor.layer_widths_
    n_columns = sum(widths.values())
    _require(n_columns == extractor.n_features_out_, "n_features_out_", "the sum of layer_widths_")
    axes = getattr(extractor, "layer_axes_", {})
    _require(axes.keys() == widths.keys(), "layer_axes_", "the axes of the layers")


def _check_weights(
    extractor: TorchFeatureExtractor, network: type[torch.nn.Module], budget: Budget
) -> None:
    """Raise unless the weights have the shapes of a network; allocate no memory for the network."""
    arguments = extractor.backbone_params or {}
    _check_sizes(arguments, network)
    if network is SkeletonGCN:
        n_pairings = arguments.get("n_pairings", 0)
        n_bytes = _PER_PAIRING * n_pairings * arguments["n_nodes"] ** 2
        budget.spend(n_bytes, f"backbone_params with {n_pairings} pairings")
    # Tensors on the device "meta" have no values. Some weights are drawn on the CPU in any case.
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        module = network(**arguments)
    head_names = extractor.head or []
    if isinstance(head_names, str):
        head_names = [head_names]
    head_prefixes = tuple(f"{name}." for name in head_names)
    expected_shapes = {}
    for name, tensor in module.state_dict().items():
        if not name.startswith(head_prefixes):
            expected_shapes[name] = tuple(tensor.shape)
    shapes = {name: np.shape(array) for name, array in extractor.state_dict_.items()}
    _require(shapes == expected_shapes, "state_dict_", "that of the backbone with backbone_params")


def _check_sizes(arguments: Mapping[str, npt.ArrayLike], network: type[torch.nn.Module]) -> None:
    """Raise unless the numbers in the arguments of a network are small."""
    sizes_of_arguments = [np.zeros(1)]
    for name, value in arguments.items():
        if name != "random_state" and not isinstance(value, str | None):
            sizes_of_arguments.append(np.abs(np.ravel(value)))
    sizes = np.concatenate(sizes_of_arguments)
    are_small = sizes.max() <= _LARGEST_ARGUMENT and sizes.sum() <= _LARGEST_SUM
    limits = f"integers of at most {_LARGEST_ARGUMENT}, and {_LARGEST_SUM} in sum"
    _require(are_small, f"backbone_params of {network.__name__}", limits)


def nested_estimators(
    estimator: BaseEstimator, *, closed: Sequence[BaseEstimator] = ()
) -> Iterator[BaseEstimator]:
    """Yield an estimator and all estimators in its attributes, in each place where they occur.

    The attributes themselves are read, because a file chooses what `get_params` returns. `closed`
    estimators and the estimators inside them are left out. Raise `ValueError` if estimators are
    nested too deeply or too often.
    """
    closed_ids = {id(one) for one in closed}
    open_values = [(estimator, 0)]
    n_objects = 0
    # The members of each object are listed once, because a short file can repeat a long list often.
    members_by_id = {}
    while open_values:
        value, level = open_values.pop()
        n_objects += 1
        if n_objects > _MOST_OBJECTS:
            raise ValueError(f"estimators must hold at most {_MOST_OBJECTS} objects in a file")
        if id(value) in closed_ids:
            continue
        if isinstance(value, BaseEstimator):
            level += 1
            if level > _MOST_LEVELS:
                raise ValueError(
                    f"estimators must be nested at most {_MOST_LEVELS} levels deep in a file"
                )
            yield value
        if id(value) not in members_by_id:
            members_by_id[id(value)] = _open_members(value)
        for member in members_by_id[id(value)]:
            open_values.append((member, level))


def _open_members(value: object) -> list[object]:
    """Return the members of an object that can hold estimators."""
    return [member for member in _members(value) if not isinstance(member, _PLAIN)]


def _members(value: object) -> Iterable[object]:
    """Return the objects that an object, a container or an array of objects holds directly."""
    if isinstance(value, _RECORD_CLASSES):
        return ()
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, np.ndarray) and value.dtype == object:
        # A masked array holds objects behind its mask too.
        return np.asarray(value).flat
    # Some objects of scikit-learn that are no estimators hold estimators, such as scorers.
    return getattr(value, "__dict__", {}).values()
