"""Write values as JSON and arrays, and read them.

None, booleans, numbers, strings and lists are plain JSON. Any other value is an object with a
single key, the kind of the value:

- the name of a class in `_schema`: an object of fields, or of `parameters` and `fitted` attributes;
- `tuple`: a list; `dict`: a list of pairs;
- `array`: the number of an array, in the order in which they are written; each has one reference;
- `strings`: a list of strings, an array of objects; `scalar`: an array without axes;
- `dtype`: the name of a type of numbers;
- `generator`: the `words`, `position`, `has_normal` and `normal` of a Mersenne Twister;
- `drawn_band`: the `n_neurons`, `n_inputs`, `mirrored` and `seed` that draw a shared band;
- `skops`: a list of the name of a class and an array, the bytes of an estimator.
"""

from collections.abc import Mapping
from copy import copy
from numbers import Integral, Real
from reprlib import repr as shortened

import numpy as np
import torch
from sklearn.base import BaseEstimator

from ..backbones import TorchFeatureExtractor
from ..core.features.shared_band import SharedBand, draw_shared_band
from ._budget import spend_on_skops
from ._checks import check_estimator, is_path
from ._classes import fits, stored_fields
from ._container import KINDS
from ._foreign import read_foreign, write_foreign
from ._schema import ESTIMATORS, NETWORKS, OF_ALL, RECORDS

__all__ = ["Reader", "Writer"]

_MT_WORDS = 624

# Names in files by class.
_NAMES = {names.made: name for name, names in (RECORDS | ESTIMATORS).items()}

# Bytes of memory per weight of a band while it is drawn.
_PER_WEIGHT = 8


def _parameters_of(names, given):
    """Return the names in Python of the parameters of an estimator, by their names in files."""
    return {name: name for name in given} if names.parameters is None else names.parameters


def _fitted_of(names, given):
    """Return the names in Python of fitted attributes, by their names in files."""
    if names.fitted is not None:
        return names.fitted
    is_public = {name: name for name in given if name.endswith("_") and not name.startswith("_")}
    return is_public | OF_ALL


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
        # `load` also needs factories by name, and types that skops does not trust.
        self.factories = {}
        self.types = set()

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
            words, position = state["state"]["key"], state["state"]["pos"]
            content = {"words": words, "position": position}
            content |= {"has_normal": state["has_gauss"], "normal": state["gauss"]}
            return {"generator": self._each_named(self.write, content)}
        if kind is SharedBand and value.seed is not None:
            return {"drawn_band": self._drawn(value)}
        if kind in _NAMES:
            name = _NAMES[kind]
            write = self._record if name in RECORDS else self._estimator
            return {name: self._at(f".{name}", write, value)}
        if isinstance(value, BaseEstimator):
            data = write_foreign(value, self.path)
            self.types |= _types_beyond_skops(data)
            return {"skops": [kind.__name__, self._array(np.frombuffer(data, np.uint8))]}
        # Subclasses of numbers and strings, such as members of an enumeration.
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            return float(value)
        raise TypeError(
            f"{self.path} cannot be saved: an instance of {kind.__name__}. A file can hold "
            "numbers, strings, lists, dictionaries, arrays, the estimators "
            f"{', '.join(ESTIMATORS)}, and with skops other estimators."
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
        return {
            "n_neurons": len(band),
            "n_inputs": band.rows.shape[1] - 1,
            "mirrored": band.mirrored,
            "seed": band.seed,
        }

    def _record(self, value):
        """Return the JSON of a dataclass."""
        fields = RECORDS[_NAMES[type(value)]].fields
        values = {name: getattr(value, attribute) for name, attribute in fields.items()}
        return self._each_named(self.write, values)

    def _estimator(self, estimator):
        """Return the JSON of an estimator."""
        names = ESTIMATORS[_NAMES[type(estimator)]]
        # A copy holds a single state, even if another thread fits the estimator in the meantime.
        estimator = copy(estimator)
        if isinstance(estimator, TorchFeatureExtractor):
            # Parameters that were set later belong to the next fit.
            estimator = estimator._as_fitted()
        given = estimator.get_params(deep=False)
        learned = {name: one for name, one in vars(estimator).items() if name not in given}
        fitted = {
            name: learned[attribute]
            for name, attribute in _fitted_of(names, learned).items()
            if attribute in learned
        }
        written = {}
        for name, attribute in _parameters_of(names, given).items():
            value = given[attribute]
            if is_path(estimator, attribute, value):
                if "n_features_in_" not in learned:
                    raise ValueError(
                        f"{self.path}.{name} cannot be saved before fit: a file holds no path. "
                        "Call fit first, or set it to the arrays."
                    )
                value = None
            is_backbone = _is_backbone(type(estimator), attribute)
            write = self._factory if is_backbone else self.write
            written[name] = self._at(f".{name}", write, value)
        return {"parameters": written, "fitted": self._each_named(self.write, fitted)}

    def _factory(self, factory):
        """Return the name of a factory of networks."""
        own = [name for name, network in NETWORKS.items() if network is factory]
        if own:
            return own[0]
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


def _types_beyond_skops(data):
    """Return the types in the bytes of an estimator that skops does not trust."""
    from skops.io import get_untrusted_types

    return set(get_untrusted_types(data=data))


class Reader(_Walk):
    """Reads values from JSON and arrays within a budget; the rest are arguments of `load`."""

    def __init__(self, arrays, factories, trusted, budget):
        super().__init__()
        # Each array is read once. An upgrade from an older format may change this list.
        self.arrays = list(arrays)
        self._read = set()
        self._factories = {**NETWORKS, **factories}
        self._trusted = trusted
        self._budget = budget

    def read(self, value):
        """Return a value; an error of any kind can come from JSON that `Writer` has not written."""
        if type(value) is list:
            return self._each(self.read, value)
        if type(value) is not dict:
            return value
        ((kind, content),) = value.items()
        if kind in RECORDS:
            return self._at(f".{kind}", self._record, RECORDS[kind], content)
        if kind in ESTIMATORS:
            return self._at(f".{kind}", self._estimator, ESTIMATORS[kind], content)
        match kind:
            case "tuple":
                return tuple(self._each(self.read, _listed(content)))
            case "dict":
                return dict(self._each(self.read, _listed(content)))
            case "array":
                return self._array(content)
            case "strings":
                return np.array(list(map(str, _listed(content))), dtype=object)
            case "scalar":
                return self.read(content)[()]
            case "dtype":
                return np.dtype(content).type
            case "generator":
                return _generator(**self._each_named(self.read, content))
            case "drawn_band":
                return self._drawn(**content)
            case "skops":
                name, data = content
                return self._foreign(name, self.read(data).tobytes())
        raise ValueError(f"unknown kind {kind:.40}")

    def _array(self, number):
        """Return an array of the file, which no other value may share."""
        if not 0 <= number < len(self.arrays) or number in self._read:
            raise ValueError(f"array {number:.6g} is missing, or has another reference")
        self._read.add(number)
        return self.arrays[number]

    def _drawn(self, n_neurons, n_inputs, mirrored, seed):
        """Return a shared band that is drawn again."""
        if min(n_neurons, n_inputs) < 0:
            raise ValueError("a shared band must have neurons and inputs")
        # Cosines have two numbers beside their weights.
        n_bytes = _PER_WEIGHT * n_neurons * (n_inputs + 3)
        self._budget.spend(n_bytes, f"{n_neurons} shared neurons over {n_inputs} inputs")
        return draw_shared_band(n_neurons, n_inputs, mirrored=mirrored, seed=seed)

    def _foreign(self, name, data):
        """Return an estimator of another package."""
        spend_on_skops(self._budget, data)
        return read_foreign(data, self.path, name, self._trusted)

    def _record(self, names, content):
        """Return a dataclass whose fields have their declared types."""
        types = stored_fields(names.made)
        values = {}
        for name, value in self._each_named(self.read, content).items():
            attribute = _known(names.fields, name)
            if not fits(value, types[attribute]):
                expected = f"of type {types[attribute]}, and finite"
                raise ValueError(f"{name} must be {expected}; got {shortened(value)}")
            values[attribute] = value
        return names.made(**values)

    def _estimator(self, names, content):
        """Return an estimator whose parameters and numbers have been checked."""
        known = _parameters_of(names, content["parameters"])
        parameters = {}
        for name, value in content["parameters"].items():
            attribute = _known(known, name)
            read = self._factory if _is_backbone(names.made, attribute) else self.read
            parameters[attribute] = self._at(f".{name}", read, value)
        estimator = names.made(**parameters)
        for attribute, value in parameters.items():
            if is_path(names.made, attribute, value):
                raise ValueError(f"{attribute} must not be a path")
        known = _fitted_of(names, content["fitted"])
        for name, value in self._each_named(self.read, content["fitted"]).items():
            vars(estimator)[_known(known, name)] = value
        if "state_dict_" in content["fitted"] and isinstance(estimator, TorchFeatureExtractor):
            estimator._fitted_params = estimator._fixed_params()
        check_estimator(estimator, self._budget)
        return estimator

    def _factory(self, name):
        """Return the value of `backbone` for a name in the file."""
        if name not in self._factories:
            raise ValueError(
                "a factory of networks is code and no part of the file. Call "
                f"load(path, factories={{{name[:200]!r}: factory}}) with a factory that you trust"
            )
        return self._factories[name]


def _known(names, name):
    """Return the name in Python of a name in a file."""
    if name not in names:
        raise ValueError(f"unknown name {name:.40}")
    return names[name]


def _listed(content):
    """Return the content of a kind that is a list; a string of many characters would expand."""
    if type(content) is not list:
        raise ValueError("the content must be a list")
    return content


def _generator(words, position, has_normal, normal):
    """Return a random generator in a given state."""
    # The generator reads the word at this position without a check.
    if not 0 <= position <= _MT_WORDS:
        raise ValueError(f"position must be at most {_MT_WORDS}")
    state = {"bit_generator": "MT19937", "state": {"key": words, "pos": position}}
    state |= {"has_gauss": has_normal, "gauss": normal}
    generator = np.random.RandomState(0)
    generator.set_state(state)
    return generator
