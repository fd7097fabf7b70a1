"""The estimators that can be saved, and their stored parts.

A file names a class of the list below and its parameters. Other estimators are stored with skops.
"""

import inspect
import os
from dataclasses import fields

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

from .._estimators.bands import Bands
from .._estimators.base import ClassIncrementalClassifier
from ..backbones import FlipCrop, Jitter, MirrorShift, TorchFeatureExtractor
from ..backbones._feature_extractor import _OPTIONAL
from ..baselines import NaiveIncrementalClassifier
from ..classifier import FFNBClassifier
from ..pipeline._pipeline import ContinualPipeline
from ..skeletons._descriptor import SkeletonDescriptor
from ._container import ModelFileError, misfit
from ._foreign import is_own, read_foreign, write_foreign
from ._models import MOST_PROJECTED, read_names, read_state, write_state
from ._networks import OWN_NETWORKS, check_extractor
from ._parameters import check_columns, check_parameter, rules_of

__all__ = ["read_other", "write_other"]

# Attribute in which scikit-learn stores the choice of `set_output`.
_OUTPUT = "_sklearn_output_config"
_CONTAINERS = ("default", "pandas", "polars")

# Kinds of values that are not plain values. A factory occurs in the parameter `backbone` alone.
_ESTIMATOR, _FOREIGN, _FACTORY, _AUGMENTATION = "estimator", "foreign", "factory", "augmentation"

_AUGMENTATIONS = {one.__name__: one for one in (FlipCrop, Jitter, MirrorShift)}

# Estimators with a format of their own, by name.
_KINDS = {
    one.__name__: one
    for one in (
        *(FFNBClassifier, NaiveIncrementalClassifier, Bands, ContinualPipeline, Pipeline),
        *(TorchFeatureExtractor, SkeletonDescriptor, FrozenEstimator, Normalizer),
        *(StandardScaler, MaxAbsScaler, MinMaxScaler, FeatureHasher, HashingVectorizer),
    )
}
_SCALERS = (StandardScaler, MaxAbsScaler, MinMaxScaler)

# Attributes that are not saved: values that are computed again if missing, and metadata requests.
_LEFT_OUT = {_OUTPUT, "_built", "_stop_words_id", "_metadata_request"}


def write_other(writer, value, where):
    """Return the JSON of a value that is not plain: an estimator or an augmentation."""
    name = type(value).__name__
    if _KINDS.get(name) is type(value):
        return {_ESTIMATOR: _write_estimator(writer, value)}
    if type(value) in _AUGMENTATIONS.values():
        values = {one.name: getattr(value, one.name) for one in fields(value)}
        return {_AUGMENTATION: [name, writer.plain(values, where)]}
    if isinstance(value, BaseEstimator) and not is_own(value):
        return {_FOREIGN: write_foreign(writer, value, where)}
    raise TypeError(
        f"{where} cannot be saved: an instance of {name}. A file can hold numbers, strings, lists, "
        f"tuples, dictionaries, arrays, tensors, the estimators {', '.join(_KINDS)}, and with "
        "skops other estimators of scikit-learn."
    )


def _write_estimator(writer, estimator):
    """Return the JSON of an estimator."""
    made = type(estimator)
    _check_parameters(estimator)
    parameters = estimator.get_params(deep=False)
    written = {
        name: _write_parameter(writer, estimator, name, value) for name, value in parameters.items()
    }
    fitted = _write_fitted(writer, estimator, parameters)
    try:
        _check_whole(estimator)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{made.__name__} cannot be saved: {error}.") from error
    output = vars(estimator).get(_OUTPUT, {}).get("transform")
    return {"class": made.__name__, "parameters": written, "output": output, "fitted": fitted}


def _write_parameter(writer, estimator, name, value):
    """Return the JSON of a parameter."""
    where = f"{name} of {type(estimator).__name__}"
    if isinstance(estimator, TorchFeatureExtractor):
        if name == "backbone":
            return {_FACTORY: _name_of_factory(value)}
        if isinstance(value, str | os.PathLike) and _is_left_out(estimator, name):
            return None
    if isinstance(estimator, Pipeline) and name == "steps":
        return [[key, writer.plain(step, f"step {key!r}")] for key, step in value]
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
    return name == "weights"


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
    made = type(estimator)
    # The copy holds a single state, even if another thread fits the estimator in the meantime.
    learned = {
        name: value
        for name, value in vars(estimator).copy().items()
        if name not in parameters and name not in _LEFT_OUT
    }
    names = learned.pop("feature_names_in_", None)
    n_features = learned.pop("n_features_in_", None)
    state = learned.pop("_state", None)
    unknown = learned.keys() - _fitted_names(made)
    if unknown:
        raise ValueError(
            f"{made.__name__} cannot be saved with the attribute {min(unknown)!r}, "
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


def _fitted_names(made):
    """Return the names of the fitted attributes of a class, without those of the features."""
    return [name for name in rules_of(made) if name.endswith("_")]


def read_other(kind, node):
    """Return a value of a kind that is not plain."""
    if kind == _ESTIMATOR:
        return _read_estimator(node)
    if kind == _FOREIGN:
        return read_foreign(node)
    if kind == _AUGMENTATION:
        name, values = node.entries(2)
        return _made(_AUGMENTATIONS[name.text(*_AUGMENTATIONS)], values.plain(), node)
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


def _read_estimator(node):
    """Return the estimator of a node."""
    name, parameters, output, fitted = node.fields("class", "parameters", "output", "fitted")
    made = _KINDS[name.text(*_KINDS)]
    # A parameter that was added after the file was written has its default.
    signature = inspect.signature(made).parameters
    required = [key for key, one in signature.items() if one.default is one.empty]
    given = parameters.some_fields(signature.keys(), required)
    values = {key: _read_parameter(made, key, one) for key, one in given.items()}
    estimator = _made(made, values, node)
    try:
        _check_parameters(estimator)
    except (ValueError, TypeError, AttributeError) as error:
        raise misfit(parameters.where, f"valid parameters of {made.__name__}") from error
    if output.value is not None:
        estimator._sklearn_output_config = {"transform": output.text(*_CONTAINERS)}
    if fitted.value is not None:
        vars(estimator).update(_read_fitted(fitted, estimator))
    try:
        _check_whole(estimator)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ModelFileError(f"{node.where} must be a valid {made.__name__}: {error}") from error
    return estimator


def _read_parameter(made, name, node):
    """Return the value of a parameter or fitted attribute of a class, after checking it."""
    if made is TorchFeatureExtractor and name == "backbone":
        return _read_factory(node)
    if issubclass(made, Pipeline) and name == "steps":
        value = [tuple(part.plain() for part in step.entries(2)) for step in node.entries()]
    else:
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
    if isinstance(estimator, _SCALERS):
        learned = [vars(estimator).get(name) for name in _fitted_names(type(estimator))]
        arrays = [one for one in learned if isinstance(one, np.ndarray)]
        if any(one.shape != (estimator.n_features_in_,) for one in arrays):
            raise ValueError(f"arrays must hold {estimator.n_features_in_} numbers")


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
    if isinstance(estimator, Pipeline):
        estimator._validate_steps()
    if isinstance(estimator, FrozenEstimator) and not hasattr(estimator.estimator, "transform"):
        raise TypeError("estimator of FrozenEstimator must be a transformer.")


def _read_fitted(node, estimator):
    """Return the fitted attributes of an estimator."""
    if isinstance(estimator, ClassIncrementalClassifier):
        naive = isinstance(estimator, NaiveIncrementalClassifier)
        return {"_state": read_state(node, naive=naive)}
    made = type(estimator)
    names = _fitted_names(made)
    optional = _OPTIONAL if made is TorchFeatureExtractor else ()
    parts = node.some_fields(
        ["n_features_in_", "feature_names_in_", *names],
        ["n_features_in_", "feature_names_in_", *(set(names) - set(optional))],
    )
    width, columns = parts.pop("n_features_in_"), parts.pop("feature_names_in_")
    known = {}
    if width.value is not None:
        # Names of features are made from this number alone.
        known["n_features_in_"] = width.integer(1, MOST_PROJECTED)
    if columns.value is not None:
        known["feature_names_in_"] = read_names(columns, known.get("n_features_in_"))
    return known | {name: _read_parameter(made, name, one) for name, one in parts.items()}
