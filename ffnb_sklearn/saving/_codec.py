"""Write values as JSON and arrays, and read them.

None, booleans, numbers, strings and lists are plain JSON. Any other value is an object with a
single key: the kind of the value, or the name of a class, with its parameters or fields by name.
Arrays are numbered in the order in which they are written.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import is_dataclass
from reprlib import repr as shortened

import numpy as np
import torch
from sklearn.base import BaseEstimator

from ..backbones import TorchFeatureExtractor
from ..core.features.shared_band import SharedBand, draw_shared_band
from ._checks import OWN_NETWORKS, check_drawn, check_estimator, is_path
from ._classes import CLASSES, ESTIMATORS, fits, stored_fields
from ._container import KINDS
from ._foreign import read_foreign, write_foreign

__all__ = ["Reader", "Writer"]

# Private attributes of estimators that a file holds; other private attributes are caches,
# callbacks and metadata requests.
_PRIVATE = ("_state", "_sklearn_output_config")

_MT_WORDS = 624


def _is_fitted_name(name):
    """Return whether an attribute of an estimator belongs to its learned state."""
    return name in _PRIVATE or (name.endswith("_") and not name.startswith("_"))


def _is_backbone(made, name):
    """Return whether a parameter is a factory of networks."""
    return issubclass(made, TorchFeatureExtractor) and name == "backbone"


class _Walk:
    """A walk through nested values; `path` leads to the present value, also after an error."""

    def __init__(self):
        self._names = []

    @property
    def path(self):
        """Names of the values from the outermost to the present, for messages."""
        return "".join(self._names)[-200:].lstrip(".") or "the estimator"

    def _at(self, name, function, *arguments):
        """Call a function for the part of a value that has a name."""
        self._names.append(name)
        found = function(*arguments)
        self._names.pop()
        return found

    def _each(self, function, values):
        """Call a function for each value of a list."""
        return [self._at(f"[{i}]", function, value) for i, value in enumerate(values)]

    def _each_named(self, function, values):
        """Call a function for each value of a dictionary of names."""
        return {name: self._at(f".{name}", function, value) for name, value in values.items()}


class Writer(_Walk):
    """Writes values, and collects their arrays."""

    def __init__(self):
        super().__init__()
        self.arrays = []

    def write(self, value):
        """Return the JSON of a value."""
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return self._each(self.write, value)
        if kind in (tuple, torch.Size):
            return {"tuple": self._each(self.write, value)}
        if isinstance(value, Mapping):
            return {"dict": self._each(self.write, map(list, value.items()))}
        if isinstance(value, torch.Tensor):
            # NumPy lacks bfloat16.
            value = value.float() if value.dtype == torch.bfloat16 else value
            return self._array(value.detach().cpu().numpy())
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value))}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"dtype": np.dtype(value).name}
        if kind is np.random.RandomState:
            state = value.get_state(legacy=False)
            if state["bit_generator"] != "MT19937":
                raise ValueError(
                    f"{self.path} cannot be saved: a RandomState of another generator."
                )
            return {"generator": self.write(state)}
        if kind is SharedBand and value.seed is not None:
            return {"shared_band": self._drawn(value)}
        if CLASSES.get(kind.__name__) is kind:
            write = self._fields if is_dataclass(kind) else self._estimator
            return {kind.__name__: self._at(f".{kind.__name__}", write, value)}
        if isinstance(value, BaseEstimator):
            data = np.frombuffer(write_foreign(value, self.path), np.uint8)
            return {"skops": [kind.__name__, self._array(data)]}
        raise TypeError(
            f"{self.path} cannot be saved: an instance of {kind.__name__}. A file can hold "
            "numbers, strings, lists, dictionaries, arrays, the estimators "
            f"{', '.join(one.__name__ for one in ESTIMATORS)}, and with skops other estimators."
        )

    def _array(self, array):
        """Return the reference to an array of numbers, booleans or strings."""
        is_list = array.dtype == object and array.ndim == 1
        if is_list and all(isinstance(one, str) for one in array):
            return {"strings": list(map(str, array))}
        if array.dtype.kind not in KINDS:
            raise ValueError(f"{self.path} cannot be saved: an array of dtype {array.dtype}.")
        self.arrays.append(array)
        return {"array": len(self.arrays) - 1}

    def _drawn(self, band):
        """Return the arguments that draw a shared band."""
        n_neurons, n_inputs = len(band), band.rows.shape[1] - 1
        check_drawn(n_neurons, n_inputs)
        return [n_neurons, n_inputs, band.mirrored, band.seed]

    def _fields(self, value):
        """Return the JSON of a dataclass."""
        names = stored_fields(type(value))
        return self._each_named(self.write, {name: getattr(value, name) for name in names})

    def _estimator(self, estimator):
        """Return the JSON of an estimator."""
        # A copy holds a single state, even if another thread fits the estimator in the meantime.
        estimator = copy(estimator)
        if isinstance(estimator, TorchFeatureExtractor):
            # Parameters that were set later belong to the next fit.
            estimator = estimator._as_fitted()
        parameters = estimator.get_params(deep=False)
        attributes = {name: one for name, one in vars(estimator).items() if name not in parameters}
        fitted = {name: one for name, one in attributes.items() if _is_fitted_name(name)}
        written = {}
        for name, value in parameters.items():
            if is_path(estimator, name, value):
                if "n_features_in_" not in fitted:
                    raise ValueError(
                        f"{self.path}.{name} cannot be saved before fit: a file holds no path. "
                        "Call fit first, or set it to the arrays."
                    )
                value = None
            write = _name_of_factory if _is_backbone(type(estimator), name) else self.write
            written[name] = self._at(f".{name}", write, value)
        check_estimator(estimator)
        return {"parameters": written, "fitted": self._each_named(self.write, fitted)}


def _name_of_factory(factory):
    """Return the dotted name of a factory of networks."""
    if isinstance(factory, str):
        return factory
    try:
        return f"{factory.__module__}:{factory.__qualname__}"
    except AttributeError:
        raise TypeError(
            "backbone of TorchFeatureExtractor cannot be saved: it must be a function, a class or "
            f"a dotted name; got an instance of {type(factory).__name__}."
        ) from None


class Reader(_Walk):
    """Reads values from JSON and arrays; the other arguments are those of `load`."""

    def __init__(self, arrays, factories, trusted):
        super().__init__()
        self._arrays = arrays
        self._factories = {**OWN_NETWORKS, **factories}
        self._trusted = trusted

    def read(self, value):
        """Return a value; an error of any kind can come from JSON that `Writer` has not written."""
        if type(value) is list:
            return self._each(self.read, value)
        if type(value) is not dict:
            return value
        ((kind, content),) = value.items()
        if kind in CLASSES:
            made = CLASSES[kind]
            read = self._fields if is_dataclass(made) else self._estimator
            return self._at(f".{kind}", read, made, content)
        match kind:
            case "tuple":
                return tuple(self._each(self.read, content))
            case "dict":
                return dict(self._each(self.read, content))
            case "array":
                return self._arrays[content]
            case "strings":
                return np.array(list(map(str, content)), dtype=object)
            case "scalar":
                return self.read(content)[()]
            case "dtype":
                return np.dtype(content).type
            case "generator":
                return _generator(self.read(content))
            case "shared_band":
                n_neurons, n_inputs, mirrored, seed = content
                check_drawn(n_neurons, n_inputs)
                return draw_shared_band(n_neurons, n_inputs, mirrored=mirrored, seed=seed)
            case "skops":
                name, data = content
                return read_foreign(self.read(data).tobytes(), self.path, name, self._trusted)
        raise ValueError(f"unknown kind {kind:.40}")

    def _fields(self, made, content):
        """Return a dataclass whose fields have their declared types."""
        types = stored_fields(made)
        values = self._each_named(self.read, content)
        for name, value in values.items():
            if not fits(value, types[name]):
                expected = f"of type {types[name]}, and finite"
                raise ValueError(f"{name} must be {expected}; got {shortened(value)}")
        return made(**values)

    def _estimator(self, made, content):
        """Return an estimator whose parameters and numbers have been checked."""
        parameters = {}
        for name, value in content["parameters"].items():
            read = self._factory if _is_backbone(made, name) else self.read
            parameters[name] = self._at(f".{name}", read, value)
        estimator = made(**parameters)
        for name, value in parameters.items():
            if is_path(made, name, value):
                raise ValueError(f"{name} must not be a path")
        fitted = self._each_named(self.read, content["fitted"])
        vars(estimator).update({n: one for n, one in fitted.items() if _is_fitted_name(n)})
        if "state_dict_" in fitted and isinstance(estimator, TorchFeatureExtractor):
            estimator._fitted_params = estimator._fixed_params()
        check_estimator(estimator)
        return estimator

    def _factory(self, name):
        """Return the value of `backbone` for a name in the file."""
        if name not in self._factories:
            raise ValueError(
                "a factory of networks is code and no part of the file. Call "
                f"load(path, factories={{{name[:200]!r}: factory}}) with a factory that you trust"
            )
        return self._factories[name]


def _generator(state):
    """Return a random generator in a given state."""
    # The generator reads the word at this position without a check.
    if not 0 <= state["state"]["pos"] <= _MT_WORDS:
        raise ValueError(f"pos must be at most {_MT_WORDS}")
    generator = np.random.RandomState(0)
    generator.set_state(state)
    return generator
