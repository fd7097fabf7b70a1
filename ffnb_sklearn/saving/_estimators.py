"""The estimators that can be saved, and their stored parts.

A file names a class of the table below and its parameters; no other class can be created from it.
The table lists every fitted attribute with its checks.
"""

import inspect
import math
import os
from dataclasses import dataclass, fields

import numpy as np
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

from .._estimators.bands import Bands
from .._estimators.base import ClassIncrementalClassifier
from .._estimators.callbacks import CALLBACK_ATTRIBUTES
from ..backbones import FlipCrop, Jitter, MirrorShift, TorchFeatureExtractor
from ..backbones._feature_extractor import _OPTIONAL
from ..baselines import NaiveIncrementalClassifier
from ..classifier import FFNBClassifier
from ..pipeline._pipeline import ContinualPipeline
from ..skeletons._descriptor import SkeletonDescriptor
from ._errors import ModelFileError, misfit
from ._models import read_names, read_state, write_state
from ._networks import OWN_NETWORKS, check_extractor
from ._parameters import check_columns, check_parameter

__all__ = ["read_other", "write_other"]

# Attribute in which scikit-learn stores the choice of `set_output`.
_OUTPUT = "_sklearn_output_config"
_CONTAINERS = ("default", "pandas", "polars")

# Kinds of values that are not plain values. A factory occurs in the parameter `backbone` alone.
_ESTIMATOR, _FACTORY, _AUGMENTATION = "estimator", "factory", "augmentation"

_AUGMENTATIONS = {one.__name__: one for one in (FlipCrop, Jitter, MirrorShift)}


def _reader(expected, holds):
    """Make a reader of a value that holds for a number of features; errors say the expected."""

    def read(node, n_features):
        value = node.plain()
        if not holds(value, n_features):
            raise misfit(node.where, expected)
        return value

    return read


def _by_name(expected, holds):
    """Make a reader of a dictionary whose values all hold."""
    return _reader(
        expected,
        lambda value, _: (
            type(value) is dict
            and all(type(name) is str and holds(one) for name, one in value.items())
        ),
    )


def _is_number(value, *kinds):
    return isinstance(value, kinds) and not isinstance(value, bool)


def _is_array(value, kinds, *shape):
    return type(value) is np.ndarray and value.dtype.kind in kinds and value.shape == shape


def _is_size(value):
    return type(value) is int and value > 0


def _is_shape(value):
    return type(value) is tuple and all(map(_is_size, value))


_count = _reader(
    "an integer of at least 0", lambda value, _: _is_number(value, int, np.integer) and value >= 0
)
_counts = _reader(
    "a count, or one per feature",
    lambda value, n: _is_array(value, "iuf", n) or _is_number(value, int, float, np.number),
)
_per_feature = _reader(
    "one number per feature", lambda value, n: value is None or _is_array(value, "f", n)
)
_weights_by_name = _by_name(
    "arrays by name", lambda one: type(one) is np.ndarray and one.dtype.kind in "biufc"
)
_history = _by_name(
    "lists of numbers by name",
    lambda one: type(one) is list and all(type(number) is float for number in one),
)
_labels = _reader("labels", lambda value, _: _is_array(value, "biufUO", np.size(value)))
_shape = _reader("a shape", lambda value, _: _is_shape(value))
_shape_or_none = _reader("a shape", lambda value, _: value is None or _is_shape(value))
_image_values = _reader("a kind of numbers", lambda value, _: value in (None, "uint8", "number"))
_network_params = _reader(
    "parameters of a network",
    lambda value, _: (
        type(value) is dict
        and value.keys() == {"backbone_params", "head"}
        and type(value["backbone_params"]) is dict
    ),
)
_widths_by_layer = _by_name("widths by layer", _is_size)
_scales_by_layer = _by_name(
    "scales by layer", lambda one: type(one) is float and 0.0 < one < math.inf
)
_pooling = _reader(
    "a kind of pooling",
    lambda value, _: _is_size(value) or (type(value) is str and value in ("mean", "max")),
)


@dataclass(frozen=True)
class _Kind:
    """An estimator that can be saved, with the readers of its fitted attributes by name.

    The number and the names of the features have no reader. A fitted estimator may lack the
    `optional` attributes.
    """

    made: type
    fitted: dict
    optional: tuple = ()


_KINDS = {
    one.made.__name__: one
    for one in (
        _Kind(FFNBClassifier, {}),
        _Kind(NaiveIncrementalClassifier, {}),
        _Kind(Bands, {}),
        _Kind(ContinualPipeline, {}),
        _Kind(FrozenEstimator, {}),
        _Kind(Normalizer, {}),
        _Kind(FeatureHasher, {}),
        _Kind(HashingVectorizer, {}),
        _Kind(
            StandardScaler,
            {
                **dict.fromkeys(["mean_", "var_", "scale_"], _per_feature),
                "n_samples_seen_": _counts,
            },
        ),
        _Kind(
            MaxAbsScaler,
            {"scale_": _per_feature, "max_abs_": _per_feature, "n_samples_seen_": _count},
        ),
        _Kind(
            MinMaxScaler,
            {
                **dict.fromkeys(
                    ["min_", "scale_", "data_min_", "data_max_", "data_range_"], _per_feature
                ),
                "n_samples_seen_": _count,
            },
        ),
        _Kind(SkeletonDescriptor, {"frame_shape_": _shape}),
        _Kind(
            TorchFeatureExtractor,
            {
                "state_dict_": _weights_by_name,
                "n_features_out_": _count,
                "history_": _history,
                "n_epochs_": _count,
                "classes_": _labels,
                "layer_widths_": _widths_by_layer,
                "layer_scales_": _scales_by_layer,
                "pooling_": _pooling,
                "input_shape_": _shape_or_none,
                "image_values_": _image_values,
                "network_params_": _network_params,
            },
            _OPTIONAL,
        ),
    )
}

# Attributes that are not saved: values that are computed again if missing, metadata requests and
# callbacks.
_LEFT_OUT = {"_built", "_stop_words_id", "_metadata_request", *CALLBACK_ATTRIBUTES}


def write_other(writer, value, where):
    """Return the JSON of a value that is not plain: an estimator or an augmentation."""
    name = type(value).__name__
    if name in _KINDS and type(value) is _KINDS[name].made:
        return {_ESTIMATOR: _write_estimator(writer, value)}
    if type(value) in _AUGMENTATIONS.values():
        values = {one.name: getattr(value, one.name) for one in fields(value)}
        return {_AUGMENTATION: [name, writer.plain(values, where)]}
    raise TypeError(
        f"{where} cannot be saved: an instance of {name}. A file can hold numbers, strings, lists, "
        f"tuples, dictionaries, arrays, tensors and the estimators {', '.join(_KINDS)}."
    )


def _write_estimator(writer, estimator):
    """Return the JSON of an estimator."""
    made = type(estimator)
    _check_parameters(estimator)
    parameters = estimator.get_params(deep=False)
    written = {
        name: _write_parameter(writer, estimator, name, parameters[name]) for name in parameters
    }
    fitted = _write_fitted(writer, estimator, parameters)
    try:
        _check_whole(estimator)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{made.__name__} cannot be saved: {error}.") from error
    output = vars(estimator).get(_OUTPUT, {})
    return {
        "class": made.__name__,
        "parameters": written,
        "output": output.get("transform"),
        "fitted": fitted,
    }


def _write_parameter(writer, estimator, name, value):
    """Return the JSON of a parameter."""
    where = f"{name} of {type(estimator).__name__}"
    if isinstance(estimator, TorchFeatureExtractor):
        if name == "backbone":
            return {_FACTORY: _name_of_factory(value)}
        if isinstance(value, str | os.PathLike) and _is_left_out(estimator, name):
            return None
    written = writer.plain(value, where)
    try:
        check_parameter(type(estimator), name, value)
    except ValueError as error:
        raise ValueError(f"{where} cannot be saved: it must be {error}.") from None
    return written


def _is_left_out(extractor, name):
    """Return whether a file lacks a path: only `fit` opens it, and a loaded file must not."""
    if name == "weights" and not hasattr(extractor, "state_dict_"):
        raise ValueError(
            "weights of TorchFeatureExtractor cannot be saved before fit: a file holds no path. "
            "Call fit first, or set weights to the arrays."
        )
    return name in ("weights", "checkpoint")


def _name_of_factory(factory):
    """Return the dotted name of a factory."""
    if isinstance(factory, str):
        return factory
    try:
        return f"{factory.__module__}:{factory.__qualname__}"
    except AttributeError:
        raise TypeError(
            "backbone of TorchFeatureExtractor cannot be saved: it must be a function, a class or "
            f"a dotted name; got an instance of {type(factory).__name__}."
        ) from None


def _write_fitted(writer, estimator, parameters):
    """Return the JSON of the learned state of an estimator, or None."""
    kind = _KINDS[type(estimator).__name__]
    # The copy holds a single state, even if another thread fits the estimator in the meantime.
    learned = {
        name: value
        for name, value in vars(estimator).copy().items()
        if name not in parameters and name != _OUTPUT and name not in _LEFT_OUT
    }
    names = learned.pop("feature_names_in_", None)
    n_features = learned.pop("n_features_in_", None)
    state = learned.pop("_state", None)
    unknown = learned.keys() - kind.fitted.keys()
    if unknown:
        raise ValueError(
            f"{type(estimator).__name__} cannot be saved with the attribute {min(unknown)!r}, "
            "which is not part of its fitted state."
        )
    if isinstance(estimator, ClassIncrementalClassifier):
        return state and write_state(state, writer)
    if n_features is None and not learned:
        return None
    return {
        "n_features_in_": None if n_features is None else int(n_features),
        "feature_names_in_": None if names is None else writer.labels(names, "feature_names_in_"),
        **{name: writer.plain(value, name) for name, value in learned.items()},
    }


def read_other(kind, node):
    """Return a value of a kind that is not plain."""
    if kind == _ESTIMATOR:
        return read_estimator(node)
    if kind == _AUGMENTATION:
        name, values = node.entries(2)
        made = _AUGMENTATIONS[name.text(*_AUGMENTATIONS)]
        return _made(made, values.plain(), node)
    raise misfit(node.where, "of a known kind", kind)


def _read_factory(node):
    """Return the value of `backbone` for a name in the file."""
    (node,) = node.fields(_FACTORY)
    name, known = node.text(), {**OWN_NETWORKS, **node.reader.factories}
    if name not in known:
        raise ModelFileError(
            f"{node.where} is made by a factory, which is code and no part of the file. Call "
            f"load(path, factories={{{name[:200]!r}: factory}}) with a factory that you trust."
        )
    return known[name]


def read_estimator(node):
    """Return the estimator of a node."""
    name, parameters, output, fitted = node.fields("class", "parameters", "output", "fitted")
    kind = _KINDS[name.text(*_KINDS)]
    # A parameter that was added after the file was written has its default.
    signature = inspect.signature(kind.made).parameters
    required = [key for key, one in signature.items() if one.default is one.empty]
    given = parameters.some_fields(signature.keys(), required)
    values = {key: _read_parameter(kind.made, key, one) for key, one in given.items()}
    estimator = _made(kind.made, values, node)
    try:
        _check_parameters(estimator)
    except (ValueError, TypeError, AttributeError) as error:
        raise misfit(parameters.where, f"valid parameters of {kind.made.__name__}") from error
    if output.value is not None:
        estimator._sklearn_output_config = {"transform": output.text(*_CONTAINERS)}
    if fitted.value is not None:
        vars(estimator).update(_read_fitted(fitted, estimator, kind))
    try:
        _check_whole(estimator)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ModelFileError(
            f"{node.where} must be a valid {kind.made.__name__}: {error}"
        ) from error
    return estimator


def _read_parameter(made, name, node):
    """Return the value of a parameter of a class, after checking it."""
    if made is TorchFeatureExtractor and name == "backbone":
        return _read_factory(node)
    value = node.plain()
    try:
        check_parameter(made, name, value)
    except ValueError as error:
        raise ModelFileError(f"{node.where} must be {error}.") from None
    return value


def _check_whole(estimator):
    """Raise `ValueError` unless the sizes in an estimator belong together."""
    if isinstance(estimator, TorchFeatureExtractor):
        check_extractor(estimator)
    if isinstance(estimator, SkeletonDescriptor):
        check_columns(estimator)


def _made(made, values, node):
    """Create an object of this package or of scikit-learn from its parameters."""
    try:
        return made(**values)
    except (ValueError, TypeError) as error:
        raise misfit(node.where, f"valid parameters of {made.__name__}") from error


def _check_parameters(estimator):
    """Raise if the parameters of an estimator are not valid."""
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()
    if isinstance(estimator, ContinualPipeline):
        estimator._validate_steps()
    if isinstance(estimator, FrozenEstimator) and not hasattr(estimator.estimator, "transform"):
        raise TypeError("estimator of FrozenEstimator must be a transformer.")


def _read_fitted(node, estimator, kind):
    """Return the fitted attributes of an estimator."""
    if isinstance(estimator, ClassIncrementalClassifier):
        naive = isinstance(estimator, NaiveIncrementalClassifier)
        return {"_state": read_state(node, naive=naive)}
    node.require(type(node.value) is dict, "an object")
    wanted = [name for name in kind.fitted if name not in kind.optional or name in node.value]
    n_features, names, *rest = node.fields("n_features_in_", "feature_names_in_", *wanted)
    known = {}
    if n_features.value is not None:
        known["n_features_in_"] = n_features.integer(1)
    width = known.get("n_features_in_")
    if names.value is not None:
        known["feature_names_in_"] = read_names(names, width)
    for name, one in zip(wanted, rest, strict=True):
        known[name] = kind.fitted[name](one, width)
    return known
