"""Write values as JSON and arrays, and read them.

None, booleans, numbers, strings and lists are plain JSON. Any other value is an object with a
single key, the kind of the value:

- the name of a class in `_schema`: an object of fields, or of `parameters` and `fitted` attributes;
- `tuple`: a list; `dict`: a list of pairs;
- `array`: the number of an array, in the order of writing; each array has one reference;
- `strings`: a list of strings, an array of objects; `scalar`: an array without axes;
- `dtype`: the name of a type of numbers;
- `generator`: the `words`, `position`, `has_normal` and `normal` of a Mersenne Twister;
- `drawn_band`: the `n_neurons`, `n_inputs`, `mirrored` and `seed` that draw a shared band;
- `skops`: a list of the name of a class, an array, which is the bytes of an estimator, and the
  estimators of this package inside it, for which the bytes have placeholders.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import fields
from functools import cache, partial
from numbers import Integral, Real
from reprlib import repr as shortened
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from sklearn.base import BaseEstimator

from .._base.state import State
from ..backbones import TorchFeatureExtractor
from ..baselines._base import MomentClassifier
from ..core.features import SharedBand, draw_shared_band
from ._checks import check_estimator, is_path, nested_estimators, restrict
from ._container import KINDS, ModelFileError
from ._foreign import read_foreign, write_foreign
from ._schema import ESTIMATORS, FORMAT, NETWORKS, PRIVATE, RECORDS, RENAMED_FIELDS, UPGRADES

__all__ = ["Reader", "Writer", "field_types", "fits"]

# Number of words in the state of a Mersenne Twister.
_N_WORDS = 624

# Names in files by class.
_NAMES = {python_class: name for name, python_class in (RECORDS | ESTIMATORS).items()}

# Bytes of memory per weight of a band while it is drawn.
_PER_WEIGHT = 8

# Largest number of characters of a path in a message.
_LONGEST_PATH = 200


def _is_fitted(attribute):
    """Return whether an attribute has the public name of a fitted attribute."""
    return attribute.endswith("_") and not attribute.startswith("_")


class _Walk:
    """A walk through nested values; `path` leads to the present value, also after an error."""

    def __init__(self):
        self._names = []

    @property
    def path(self):
        """Names of the values from the outermost to the present, for messages."""
        path = "".join(self._names)
        path = path[-_LONGEST_PATH:].lstrip(".")
        return path or "the estimator"

    def _visit(self, name, function, *arguments):
        """Return the result of a function for a member of the present value."""
        self._names.append(name)
        result = function(*arguments)
        self._names.pop()
        return result

    def _visit_items(self, function, items):
        """Return the results of a function for the items of a list."""
        results = []
        for index, item in enumerate(items):
            results.append(self._visit(f"[{index}]", function, item))
        return results

    def _visit_fields(self, function, fields):
        """Return the results of a function for the values of a dictionary, by name."""
        results = {}
        for name, value in fields.items():
            results[name] = self._visit(f".{name}", function, value)
        return results


class Writer(_Walk):
    """Writes values, and collects their arrays."""

    def __init__(self):
        super().__init__()
        self.arrays = []
        # `load` also needs factories by name, and types that skops does not trust.
        self.factories = {}
        self.types = set()

    def write(self, value):
        """Return the JSON of a value."""
        value_type = type(value)
        if value is None or value_type in (bool, int, float, str):
            return value
        if value_type is list:
            return self._visit_items(self.write, value)
        if value_type in (tuple, torch.Size):
            return {"tuple": self._visit_items(self.write, value)}
        if isinstance(value, Mapping):
            pairs = map(list, value.items())
            return {"dict": self._visit_items(self.write, pairs)}
        if isinstance(value, torch.Tensor):
            return self._write_tensor(value)
        if isinstance(value, np.ndarray):
            return self._write_array(value)
        if isinstance(value, np.generic):
            return {"scalar": self._write_array(np.asarray(value))}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"dtype": np.dtype(value).name}
        if value_type is np.random.RandomState:
            return {"generator": self._write_generator(value)}
        if value_type is SharedBand:
            return {"drawn_band": self._write_drawn_band(value)}
        name = _NAMES.get(value_type)
        if name in RECORDS:
            return {name: self._visit(f".{name}", self._write_record, name, value)}
        if name in ESTIMATORS:
            return {name: self._visit(f".{name}", self._write_estimator, value)}
        if isinstance(value, BaseEstimator):
            return {"skops": self._write_foreign(value)}
        # Subclasses of numbers and strings, such as members of an enumeration.
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            return float(value)
        raise TypeError(
            f"{self.path} cannot be saved: an instance of {value_type.__name__}. A file can hold "
            "numbers, strings, lists, dictionaries, arrays, the estimators "
            f"{', '.join(ESTIMATORS)}, and with skops other estimators."
        )

    def _write_tensor(self, tensor):
        """Return the reference to the array of a tensor."""
        if tensor.dtype == torch.bfloat16:
            # NumPy lacks bfloat16.
            tensor = tensor.float()
        array = tensor.detach().cpu().numpy()
        return self._write_array(array)

    def _write_array(self, array):
        """Return the reference to an array of numbers, booleans or strings."""
        is_list = array.dtype == object and array.ndim == 1
        if is_list and all(isinstance(element, str) for element in array):
            return {"strings": list(map(str, array))}
        if array.dtype.kind not in KINDS:
            raise ValueError(f"{self.path} cannot be saved: an array of dtype {array.dtype}.")
        self.arrays.append(array)
        return {"array": len(self.arrays) - 1}

    def _write_generator(self, generator):
        """Return the JSON of the state of a random generator."""
        state = generator.get_state(legacy=False)
        if state["bit_generator"] != "MT19937":
            raise ValueError(f"{self.path} cannot be saved: a RandomState of another generator.")
        content = {
            "words": state["state"]["key"],
            "position": state["state"]["pos"],
            "has_normal": state["has_gauss"],
            "normal": state["gauss"],
        }
        return self._visit_fields(self.write, content)

    def _write_drawn_band(self, band):
        """Return the arguments that draw a shared band."""
        # The last column of the rows is the bias.
        n_inputs = band.rows.shape[1] - 1
        return {
            "n_neurons": len(band.rows),
            "n_inputs": n_inputs,
            "mirrored": band.mirrored,
            "seed": band.seed,
        }

    def _write_record(self, name, record):
        """Return the JSON of a dataclass."""
        renamed = {attribute: name for name, attribute in RENAMED_FIELDS.get(name, {}).items()}
        values = {}
        for attribute in field_types(type(record)):
            values[renamed.get(attribute, attribute)] = getattr(record, attribute)
        return self._visit_fields(self.write, values)

    def _write_estimator(self, estimator):
        """Return the JSON of an estimator."""
        # A copy holds a single state, even if another thread fits the estimator in the meantime.
        estimator = copy(estimator)
        if isinstance(estimator, TorchFeatureExtractor):
            # Parameters that were set later belong to the next fit.
            estimator = estimator._as_fitted()
        parameters = estimator.get_params(deep=False)
        written = {}
        for name, value in parameters.items():
            write = self.write
            if isinstance(estimator, TorchFeatureExtractor):
                write = partial(self._write_parameter_of_extractor, estimator, name)
            written[name] = self._visit(f".{name}", write, value)
        attributes = vars(estimator)
        fitted = {}
        for name, value in attributes.items():
            if _is_fitted(name) and name not in parameters:
                fitted[name] = value
        for name, attribute in PRIVATE.items():
            if attribute in attributes:
                fitted[name] = attributes[attribute]
        return {"parameters": written, "fitted": self._visit_fields(self.write, fitted)}

    def _write_parameter_of_extractor(self, estimator, parameter, value):
        """Return the JSON of a parameter; the path of weights that were loaded becomes None."""
        if is_path(estimator, parameter, value):
            if "n_features_in_" not in vars(estimator):
                raise ValueError(
                    f"{self.path} cannot be saved before fit: a file holds no path. Call fit "
                    "first, or set it to the arrays."
                )
            return None
        if parameter == "backbone":
            return self._write_factory(value)
        return self.write(value)

    def _write_factory(self, factory):
        """Return the name of a factory of networks."""
        for name, network in NETWORKS.items():
            if network is factory:
                return name
        if isinstance(factory, str):
            name = str.__str__(factory)
        elif hasattr(factory, "__module__") and hasattr(factory, "__qualname__"):
            name = f"{factory.__module__}:{factory.__qualname__}"
        else:
            raise TypeError(
                "backbone of TorchFeatureExtractor cannot be saved: it must be a function, a class "
                f"or a dotted name; got an instance of {type(factory).__name__}."
            )
        self.factories[name] = factory
        return name

    def _write_foreign(self, estimator):
        """Return the class name of another estimator, its bytes, and our estimators inside it."""
        name = type(estimator).__name__
        data, inside = write_foreign(estimator, self.path)
        self.types |= _types_beyond_skops(data)
        array = np.frombuffer(data, np.uint8)
        return [name, self._write_array(array), self._visit(f".{name}", self.write, inside)]


def _types_beyond_skops(data):
    """Return the types in the bytes of an estimator that skops does not trust."""
    from skops.io import get_untrusted_types

    return set(get_untrusted_types(data=data))


class Reader(_Walk):
    """Reads values from JSON and arrays within a budget, with the last arguments of `load`."""

    def __init__(self, arrays, factories, trusted, budget):
        super().__init__()
        # Each array is read once. An upgrade from an older format may change this list.
        self.arrays = list(arrays)
        self._read_numbers = set()
        self._factories = {**NETWORKS, **factories}
        self._trusted = trusted
        self._budget = budget

    def read_file(self, content):
        """Return the estimator in the content of a container; raise `ModelFileError`."""
        try:
            version = content["format"]
            if version > FORMAT:
                raise ModelFileError(
                    f"the file has format {version:.6g}, which is newer than {FORMAT}, the newest "
                    "that this version of ffnb_sklearn reads. Version "
                    f"{content['written_by']['ffnb_sklearn']:.40} has written it."
                )
            estimator = self.read(self._upgraded(content["estimator"], version))
            if not isinstance(estimator, BaseEstimator):
                raise ValueError("the file must hold an estimator")
            for nested in nested_estimators(estimator):
                restrict(nested)
            return estimator
        except (ModelFileError, ImportError, MemoryError):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error)[:300]}"
            raise ModelFileError(f"{self.path} cannot be read ({reason}).") from error

    def _upgraded(self, content, version):
        """Return the JSON of an estimator in the present format."""
        while version != FORMAT:
            if version not in UPGRADES:
                raise ValueError(f"the format must be {FORMAT}")
            upgrade = UPGRADES[version]
            content = upgrade(content, self.arrays)
            version += 1
        return content

    def read(self, value):
        """Return a value; forged JSON can raise an error of any kind."""
        if type(value) is list:
            return self._visit_items(self.read, value)
        if type(value) is not dict:
            return value
        ((kind, content),) = value.items()
        if kind in RECORDS:
            return self._visit(f".{kind}", self._read_record, kind, content)
        if kind in ESTIMATORS:
            return self._visit(f".{kind}", self._read_estimator, ESTIMATORS[kind], content)
        match kind:
            case "tuple":
                return tuple(self._visit_items(self.read, _check_list(content)))
            case "dict":
                return dict(self._visit_items(self.read, _check_list(content)))
            case "array":
                return self._read_array(content)
            case "strings":
                strings = list(map(str, _check_list(content)))
                return np.array(strings, dtype=object)
            case "scalar":
                return self.read(content)[()]
            case "dtype":
                return np.dtype(content).type
            case "generator":
                return _generator(**self._visit_fields(self.read, content))
            case "drawn_band":
                return self._draw_band(**content)
            case "skops":
                return self._read_foreign(*content)
        raise ValueError(f"unknown kind {kind:.40}")

    def _read_array(self, number):
        """Return an array of the file, which no other value may share."""
        if not 0 <= number < len(self.arrays) or number in self._read_numbers:
            raise ValueError(f"array {number:.6g} is missing, or has another reference")
        self._read_numbers.add(number)
        return self.arrays[number]

    def _draw_band(self, n_neurons, n_inputs, mirrored, seed):
        """Return a shared band from the arguments that have drawn it."""
        if min(n_neurons, n_inputs) < 0:
            raise ValueError("a shared band must have neurons and inputs")
        # Each neuron of cosines has two numbers and a bias in addition to its weights.
        n_weights = n_neurons * (n_inputs + 3)
        n_bytes = _PER_WEIGHT * n_weights
        self._budget.spend(n_bytes, f"{n_neurons} shared neurons over {n_inputs} inputs")
        return draw_shared_band(n_neurons, n_inputs, mirrored=mirrored, seed=seed)

    def _read_foreign(self, name, content, inside):
        """Return an estimator of another package from its bytes and our estimators in it."""
        data = self.read(content).tobytes()
        inside = self._visit(f".{name:.40}", self.read, _check_list(inside))
        return read_foreign(data, inside, self.path, name, self._trusted, self._budget)

    def _read_record(self, kind, content):
        """Return a dataclass whose fields have their declared types."""
        values = self._visit_fields(self.read, content)
        return _record(RECORDS[kind], values, RENAMED_FIELDS.get(kind, {}))

    def _read_estimator(self, estimator_class, content):
        """Return an estimator whose parameters and numbers have been checked."""
        is_extractor = issubclass(estimator_class, TorchFeatureExtractor)
        parameters = {}
        for name, value in content["parameters"].items():
            read = self.read
            if is_extractor:
                read = partial(self._read_parameter_of_extractor, name)
            parameters[name] = self._visit(f".{name}", read, value)
        estimator = estimator_class(**parameters)
        fitted = self._visit_fields(self.read, content["fitted"])
        if isinstance(estimator, MomentClassifier) and "classes_" in fitted:
            fitted = {"state": _state_of_attributes(estimator, fitted)}
        for name, value in fitted.items():
            attribute = PRIVATE.get(name, name)
            is_allowed = name in PRIVATE or _is_fitted(name)
            if not is_allowed or attribute in parameters:
                raise ValueError(f"unknown name {name:.40}")
            vars(estimator)[attribute] = value
        if is_extractor and "state_dict_" in content["fitted"]:
            estimator._fitted_params = estimator._fixed_params()
        check_estimator(estimator, self._budget)
        return estimator

    def _read_parameter_of_extractor(self, parameter, content):
        """Return a parameter, which is a factory by its name or not a path."""
        if parameter == "backbone":
            return self._read_factory(content)
        value = self.read(content)
        if is_path(TorchFeatureExtractor, parameter, value):
            raise ValueError(f"{parameter} must not be a path")
        return value

    def _read_factory(self, name):
        """Return the value of `backbone` for a name in the file."""
        if name not in self._factories:
            raise ValueError(
                "a factory of networks is code and no part of the file. Call "
                f"load(path, factories={{{name[:200]!r}: factory}}) with a factory that you trust"
            )
        return self._factories[name]


def _check_list(content):
    """Return the content of a kind that is a list; a string of many characters would expand."""
    if type(content) is not list:
        raise ValueError("the content must be a list")
    return content


def _record(python_class, fields, renamed):
    """Return a dataclass from its fields by their names in files; raise unless types fit."""
    types = field_types(python_class)
    values = {}
    for name, value in fields.items():
        attribute = renamed.get(name, name)
        if attribute not in types or attribute in values:
            raise ValueError(f"unknown name {name:.40}")
        if not fits(value, types[attribute]):
            expected = f"of type {types[attribute]}, and finite"
            raise ValueError(f"{name} must be {expected}; got {shortened(value)}")
        values[attribute] = value
    return python_class(**values)


def _state_of_attributes(baseline, attributes):
    """Return the state of a baseline, given the fitted attributes that the first files hold.

    Their arrays have a row for each entry of `classes_`, also for labels not seen.
    """
    attributes = dict(attributes)
    classes = attributes.pop("classes_")
    n_features_in = attributes.pop("n_features_in_")
    feature_names_in = attributes.pop("feature_names_in_", None)
    is_seen = attributes["class_counts_"] > 0.0
    fields = {}
    for name, value in attributes.items():
        has_rows_of_classes = name in ("class_counts_", "means_", "sums_")
        if name == "scatter_":
            has_rows_of_classes = value.ndim == 3
        if has_rows_of_classes:
            value = value[is_seen]
        fields[name.removesuffix("_")] = value
    model = _record(baseline._model_class, fields, {"class_counts": "counts"})
    state = {
        "n_features_in": n_features_in,
        "feature_names_in": feature_names_in,
        "model": model,
        "classes": classes,
        "task_classes": (classes[is_seen],),
        "random_state": 0,
    }
    return _record(State, state, {})


def _generator(words, position, has_normal, normal):
    """Return a random generator in a given state."""
    # The generator reads the word at this position without a check.
    if not 0 <= position <= _N_WORDS:
        raise ValueError(f"position must be at most {_N_WORDS}")
    generator = np.random.RandomState(0)
    generator.set_state(
        {
            "bit_generator": "MT19937",
            "state": {"key": words, "pos": position},
            "has_gauss": has_normal,
            "gauss": normal,
        }
    )
    return generator


@cache
def field_types(dataclass):
    """Return the types of the fields of a dataclass that a file holds, by name.

    A field that does not take part in comparisons is a cache, which a file does not hold.
    """
    hints = get_type_hints(dataclass)
    types = {}
    for field in fields(dataclass):
        if field.init and field.compare:
            types[field.name] = hints[field.name]
    return types


def fits(value, hint):
    """Return whether a value has the type of a field; floating-point arrays must be finite."""
    origin = get_origin(hint) or hint
    arguments = get_args(hint)
    if hasattr(origin, "__value__"):
        # A named alias, which `NDArray` is since NumPy 2.5.
        return fits(value, origin.__value__[arguments])
    if origin in (Any, object):
        return True
    if origin in (Union, UnionType):
        return any(fits(value, argument) for argument in arguments)
    if origin is Literal:
        return value in arguments
    if origin is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if origin is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    if not isinstance(value, origin):
        return False
    if origin is tuple and arguments:
        # The hint is `tuple[item, ...]`.
        item = arguments[0]
        return all(fits(element, item) for element in value)
    if origin is np.ndarray:
        return _fits_array(value, arguments)
    return True


def _fits_array(array, arguments):
    """Return whether an array is finite and has the kind of numbers that a hint may name."""
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        return False
    if not arguments:
        return True
    # The hint is `np.ndarray[shape, np.dtype[scalar]]`.
    _, dtype = arguments
    (scalar,) = get_args(dtype)
    return array.dtype.kind == np.dtype(scalar).kind
