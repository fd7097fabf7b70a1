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
from numbers import Integral, Real
from reprlib import repr as shortened

import numpy as np
import torch
from sklearn.base import BaseEstimator

from ..backbones import TorchFeatureExtractor
from ..core.features import SharedBand, draw_shared_band
from ._budget import spend_on_skops
from ._checks import check_estimator, is_path
from ._classes import field_types, fits
from ._container import KINDS
from ._foreign import read_foreign, write_foreign
from ._schema import ESTIMATORS, NETWORKS, OF_ALL, RECORDS

__all__ = ["Reader", "Writer"]

# Number of words in the state of a Mersenne Twister.
_N_WORDS = 624

# Names in files by class.
_NAMES = {names.python_class: name for name, names in (RECORDS | ESTIMATORS).items()}

# Bytes of memory per weight of a band while it is drawn.
_PER_WEIGHT = 8

# Largest number of characters of a path in a message.
_LONGEST_PATH = 200


def _parameter_attributes(names, parameters):
    """Return the names in Python of the parameters of an estimator, by their names in files."""
    if names.parameters is not None:
        return names.parameters
    return {name: name for name in parameters}


def _fitted_attributes(names, fitted):
    """Return the names in Python of the fitted attributes of an estimator, by names in files."""
    if names.fitted is not None:
        return names.fitted
    attributes = {}
    for name in fitted:
        if name.endswith("_") and not name.startswith("_"):
            attributes[name] = name
    return attributes | OF_ALL


def _is_backbone(estimator_class, parameter):
    """Return whether a parameter is a factory of networks."""
    return issubclass(estimator_class, TorchFeatureExtractor) and parameter == "backbone"


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
            return {name: self._visit(f".{name}", self._write_record, RECORDS[name], value)}
        if name in ESTIMATORS:
            return {name: self._visit(f".{name}", self._write_estimator, ESTIMATORS[name], value)}
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
            "n_neurons": len(band),
            "n_inputs": n_inputs,
            "mirrored": band.mirrored,
            "seed": band.seed,
        }

    def _write_record(self, names, record):
        """Return the JSON of a dataclass."""
        values = {}
        for name, attribute in names.fields.items():
            values[name] = getattr(record, attribute)
        return self._visit_fields(self.write, values)

    def _write_estimator(self, names, estimator):
        """Return the JSON of an estimator."""
        # A copy holds a single state, even if another thread fits the estimator in the meantime.
        estimator = copy(estimator)
        if isinstance(estimator, TorchFeatureExtractor):
            # Parameters that were set later belong to the next fit.
            estimator = estimator._as_fitted()
        parameters = estimator.get_params(deep=False)
        written = {}
        for name, attribute in _parameter_attributes(names, parameters).items():
            value = parameters[attribute]
            written[name] = self._visit(
                f".{name}", self._write_parameter, estimator, attribute, value
            )
        attributes = vars(estimator)
        fitted = {}
        for name, attribute in _fitted_attributes(names, attributes).items():
            if attribute in attributes and attribute not in parameters:
                fitted[name] = attributes[attribute]
        return {"parameters": written, "fitted": self._visit_fields(self.write, fitted)}

    def _write_parameter(self, estimator, parameter, value):
        """Return the JSON of a parameter; the path of weights that were loaded becomes None."""
        if is_path(estimator, parameter, value):
            if "n_features_in_" not in vars(estimator):
                raise ValueError(
                    f"{self.path} cannot be saved before fit: a file holds no path. Call fit "
                    "first, or set it to the arrays."
                )
            return None
        if _is_backbone(type(estimator), parameter):
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

    def read(self, value):
        """Return a value; forged JSON can raise an error of any kind."""
        if type(value) is list:
            return self._visit_items(self.read, value)
        if type(value) is not dict:
            return value
        ((kind, content),) = value.items()
        if kind in RECORDS:
            return self._visit(f".{kind}", self._read_record, RECORDS[kind], content)
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
        spend_on_skops(self._budget, data)
        inside = self._visit(f".{name:.40}", self.read, _check_list(inside))
        return read_foreign(data, inside, self.path, name, self._trusted)

    def _read_record(self, names, content):
        """Return a dataclass whose fields have their declared types."""
        types = field_types(names.python_class)
        values = {}
        for name, value in self._visit_fields(self.read, content).items():
            attribute = _attribute(names.fields, name)
            if not fits(value, types[attribute]):
                expected = f"of type {types[attribute]}, and finite"
                raise ValueError(f"{name} must be {expected}; got {shortened(value)}")
            values[attribute] = value
        return names.python_class(**values)

    def _read_estimator(self, names, content):
        """Return an estimator whose parameters and numbers have been checked."""
        estimator_class = names.python_class
        attributes = _parameter_attributes(names, content["parameters"])
        parameters = {}
        for name, value in content["parameters"].items():
            attribute = _attribute(attributes, name)
            read = self.read
            if _is_backbone(estimator_class, attribute):
                read = self._read_factory
            parameters[attribute] = self._visit(f".{name}", read, value)
        estimator = estimator_class(**parameters)
        for attribute, value in parameters.items():
            if is_path(estimator_class, attribute, value):
                raise ValueError(f"{attribute} must not be a path")
        attributes = _fitted_attributes(names, content["fitted"])
        for name, value in self._visit_fields(self.read, content["fitted"]).items():
            attribute = _attribute(attributes, name)
            vars(estimator)[attribute] = value
        if "state_dict_" in content["fitted"] and isinstance(estimator, TorchFeatureExtractor):
            estimator._fitted_params = estimator._fixed_params()
        check_estimator(estimator, self._budget)
        return estimator

    def _read_factory(self, name):
        """Return the value of `backbone` for a name in the file."""
        if name not in self._factories:
            raise ValueError(
                "a factory of networks is code and no part of the file. Call "
                f"load(path, factories={{{name[:200]!r}: factory}}) with a factory that you trust"
            )
        return self._factories[name]


def _attribute(attributes, name):
    """Return the name in Python of a name in the file."""
    if name not in attributes:
        raise ValueError(f"unknown name {name:.40}")
    return attributes[name]


def _check_list(content):
    """Return the content of a kind that is a list; a string of many characters would expand."""
    if type(content) is not list:
        raise ValueError("the content must be a list")
    return content


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
