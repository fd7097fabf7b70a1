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

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from reprlib import repr as shortened
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from sklearn.base import BaseEstimator

from .._base.state import State
from ..backbones import TorchFeatureExtractor
from ..baselines._base import MomentClassifier
from ..core.features import SharedBand, draw_shared_band
from ._checks import check_estimator, is_path, nested_estimators, restrict
from ._container import KINDS, Array, Budget, Json, ModelFileError
from ._foreign import read_foreign, write_foreign
from ._schema import ESTIMATORS, FORMAT, NETWORKS, PRIVATE, RECORDS, RENAMED_FIELDS, UPGRADES

__all__ = ["Factory", "Reader", "Writer", "field_types", "fits"]

# A factory of networks, or its dotted name.
Factory: TypeAlias = Callable[..., torch.nn.Module] | str

# Number of words in the state of a Mersenne Twister.
_N_WORDS = 624

# Names in files by class.
_NAMES = {python_class: name for name, python_class in (RECORDS | ESTIMATORS).items()}

# Bytes of memory per weight of a band while it is drawn.
_PER_WEIGHT = 8

# Largest number of characters of a path in a message.
_LONGEST_PATH = 200


def _is_fitted(attribute: str) -> bool:
    """Return whether an attribute has the public name of a fitted attribute."""
    return attribute.endswith("_") and not attribute.startswith("_")


class _Walk:
    """A walk through nested values; `path` leads to the present value, also after an error."""

    def __init__(self) -> None:
        self._names: list[str] = []

    @property
    def path(self) -> str:
        """Names of the values from the outermost to the present, for messages."""
        path = "".join(self._names)
        path = path[-_LONGEST_PATH:].lstrip(".")
        return path or "the estimator"

    @contextmanager
    def _at(self, name: str) -> Iterator[None]:
        """Go to a member of the present value for the length of a block."""
        self._names.append(name)
        yield
        # An error in the block skips this line, so the path leads to the value that has failed.
        self._names.pop()


class Writer(_Walk):
    """Writes values, and collects their arrays."""

    def __init__(self) -> None:
        super().__init__()
        self.arrays: list[Array] = []
        # `load` also needs factories by name, and types that skops does not trust.
        self.factories: dict[str, Factory] = {}
        self.types: set[str] = set()

    def write(self, value: object) -> Json:
        """Return the JSON of a value."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, np.generic):
            return {"scalar": self._write_array(np.asarray(value))}
        # Members of enumerations and other subclasses become plain numbers and strings.
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            return float(value)
        if type(value) is list:
            return self._write_items(value)
        if type(value) is tuple or type(value) is torch.Size:
            return {"tuple": self._write_items(value)}
        if isinstance(value, Mapping):
            pairs = list(map(list, value.items()))
            return {"dict": self._write_items(pairs)}
        if isinstance(value, torch.Tensor):
            return self._write_tensor(value)
        if isinstance(value, np.ndarray):
            return self._write_array(value)
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"dtype": np.dtype(value).name}
        if type(value) is np.random.RandomState:
            return {"generator": self._write_generator(value)}
        if type(value) is SharedBand:
            return {"drawn_band": self._write_drawn_band(value)}
        name = _NAMES.get(type(value))
        if name in RECORDS:
            with self._at(f".{name}"):
                return {name: self._write_record(name, value)}
        if name in ESTIMATORS:
            with self._at(f".{name}"):
                return {name: self._write_estimator(value)}
        if isinstance(value, BaseEstimator):
            return {"skops": self._write_foreign(value)}
        raise TypeError(
            f"{self.path} cannot be saved: an instance of {type(value).__name__}. A file can hold "
            "numbers, strings, lists, dictionaries, arrays, the estimators "
            f"{', '.join(ESTIMATORS)}, and with skops other estimators."
        )

    def _write_items(self, items: Sequence[object]) -> list[Json]:
        """Return the JSON of each item of a list."""
        written = []
        for index, item in enumerate(items):
            with self._at(f"[{index}]"):
                written.append(self.write(item))
        return written

    def _write_fields(self, fields: Mapping[str, object]) -> dict[str, Json]:
        """Return the JSON of each value of a dictionary, by name."""
        written = {}
        for name, value in fields.items():
            with self._at(f".{name}"):
                written[name] = self.write(value)
        return written

    def _write_tensor(self, tensor: torch.Tensor) -> Json:
        """Return the reference to the array of a tensor."""
        if tensor.dtype == torch.bfloat16:
            # NumPy lacks bfloat16.
            tensor = tensor.float()
        array = tensor.detach().cpu().numpy()
        return self._write_array(array)

    def _write_array(self, array: Array) -> Json:
        """Return the reference to an array of numbers, booleans or strings."""
        is_list = array.dtype == object and array.ndim == 1
        if is_list and all(isinstance(element, str) for element in array):
            return {"strings": list(map(str, array))}
        if array.dtype.kind not in KINDS:
            raise ValueError(f"{self.path} cannot be saved: an array of dtype {array.dtype}.")
        self.arrays.append(array)
        return {"array": len(self.arrays) - 1}

    def _write_generator(self, generator: np.random.RandomState) -> Json:
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
        return self._write_fields(content)

    def _write_drawn_band(self, band: SharedBand) -> Json:
        """Return the arguments that draw a shared band."""
        # The last column of the rows is the bias.
        n_inputs = band.rows.shape[1] - 1
        return {
            "n_neurons": len(band.rows),
            "n_inputs": n_inputs,
            "mirrored": band.mirrored,
            "seed": band.seed,
        }

    def _write_record(self, name: str, record: object) -> Json:
        """Return the JSON of a dataclass."""
        renamed = {attribute: name for name, attribute in RENAMED_FIELDS.get(name, {}).items()}
        values = {}
        for attribute in field_types(RECORDS[name]):
            values[renamed.get(attribute, attribute)] = getattr(record, attribute)
        return self._write_fields(values)

    def _write_estimator(self, estimator: BaseEstimator) -> Json:
        """Return the JSON of an estimator."""
        # A copy holds a single state, even if another thread fits the estimator in the meantime.
        estimator = copy(estimator)
        if isinstance(estimator, TorchFeatureExtractor):
            # Parameters that were set later belong to the next fit.
            estimator = estimator._as_fitted()
        parameters = estimator.get_params(deep=False)
        written = {}
        for name, value in parameters.items():
            with self._at(f".{name}"):
                if isinstance(estimator, TorchFeatureExtractor):
                    written[name] = self._write_parameter_of_extractor(estimator, name, value)
                else:
                    written[name] = self.write(value)
        attributes = vars(estimator)
        fitted = {}
        for name, value in attributes.items():
            if _is_fitted(name) and name not in parameters:
                fitted[name] = value
        for name, attribute in PRIVATE.items():
            if attribute in attributes:
                fitted[name] = attributes[attribute]
        return {"parameters": written, "fitted": self._write_fields(fitted)}

    def _write_parameter_of_extractor(
        self, estimator: TorchFeatureExtractor, parameter: str, value: object
    ) -> Json:
        """Return the JSON of a parameter; the path of weights that were loaded becomes None."""
        if is_path(estimator, parameter, value):
            if "n_features_in_" not in vars(estimator):
                raise ValueError(
                    f"{self.path} cannot be saved before fit: a file holds no path. Call fit "
                    "first, or set it to the arrays."
                )
            return None
        if parameter == "backbone":
            return self._write_factory(estimator.backbone)
        return self.write(value)

    def _write_factory(self, factory: Factory | torch.nn.Module) -> str:
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

    def _write_foreign(self, estimator: BaseEstimator) -> Json:
        """Return the class name of another estimator, its bytes, and our estimators inside it."""
        name = type(estimator).__name__
        data, inside = write_foreign(estimator, self.path)
        self.types |= _types_beyond_skops(data)
        array = np.frombuffer(data, np.uint8)
        reference = self._write_array(array)
        with self._at(f".{name}"):
            return [name, reference, self._write_items(inside)]


def _types_beyond_skops(data: bytes) -> set[str]:
    """Return the types in the bytes of an estimator that skops does not trust."""
    from skops.io import get_untrusted_types

    return set(get_untrusted_types(data=data))


class Reader(_Walk):
    """Reads values from JSON and arrays within a budget, with the last arguments of `load`."""

    def __init__(
        self,
        arrays: Sequence[Array],
        factories: Mapping[str, Factory],
        trusted: set[str],
        budget: Budget,
    ) -> None:
        super().__init__()
        # Each array is read once. An upgrade from an older format may change this list.
        self.arrays = list(arrays)
        self._read_numbers: set[int] = set()
        self._factories: dict[str, Factory] = {**NETWORKS, **factories}
        self._trusted = trusted
        self._budget = budget

    def read_file(self, content: Json) -> BaseEstimator:
        """Return the estimator in the content of a container; raise `ModelFileError`."""
        try:
            content = _check_object(content)
            version = _check_integer(content["format"])
            if version > FORMAT:
                writer = _check_object(content["written_by"])
                raise ModelFileError(
                    f"the file has format {version:.6g}, which is newer than {FORMAT}, the newest "
                    "that this version of ffnb_sklearn reads. Version "
                    f"{writer['ffnb_sklearn']:.40} has written it."
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

    def _upgraded(self, content: Json, version: int) -> Json:
        """Return the JSON of an estimator in the present format."""
        while version != FORMAT:
            if version not in UPGRADES:
                raise ValueError(f"the format must be {FORMAT}")
            upgrade = UPGRADES[version]
            content = upgrade(content, self.arrays)
            version += 1
        return content

    def read(self, value: Json) -> object:
        """Return a value; forged JSON can raise an error of any kind."""
        if type(value) is list:
            return self._read_items(value)
        if type(value) is not dict:
            return value
        ((kind, content),) = value.items()
        if kind in RECORDS:
            with self._at(f".{kind}"):
                return self._read_record(kind, content)
        if kind in ESTIMATORS:
            with self._at(f".{kind}"):
                return self._read_estimator(ESTIMATORS[kind], content)
        match kind:
            case "tuple":
                return tuple(self._read_items(content))
            case "dict":
                return self._read_dict(content)
            case "array":
                return self._read_array(content)
            case "strings":
                strings = list(map(str, _check_list(content)))
                return np.array(strings, dtype=object)
            case "scalar":
                return self._read_own_array(content)[()]
            case "dtype":
                return np.dtype(_check_string(content)).type
            case "generator":
                return _generator(**self._read_fields(content))
            case "drawn_band":
                return self._draw_band(**_check_object(content))
            case "skops":
                return self._read_foreign(*_check_list(content))
        raise ValueError(f"unknown kind {kind:.40}")

    def _read_items(self, content: Json) -> list[object]:
        """Return the items of a list."""
        items = []
        for index, item in enumerate(_check_list(content)):
            with self._at(f"[{index}]"):
                items.append(self.read(item))
        return items

    def _read_fields(self, content: Json) -> dict[str, object]:
        """Return the values of a JSON object, by name."""
        fields = {}
        for name, value in _check_object(content).items():
            with self._at(f".{name}"):
                fields[name] = self.read(value)
        return fields

    def _read_dict(self, content: Json) -> dict[object, object]:
        """Return a dictionary from a list of its keys and values."""
        values = {}
        for index, pair in enumerate(_check_list(content)):
            with self._at(f"[{index}]"):
                key, value = self._read_items(pair)
                values[key] = value
        return values

    def _read_array(self, content: Json) -> Array:
        """Return an array of the file by its number, which no other value may have."""
        number = _check_integer(content)
        if not 0 <= number < len(self.arrays) or number in self._read_numbers:
            raise ValueError(f"array {number:.6g} is missing, or has another reference")
        self._read_numbers.add(number)
        return self.arrays[number]

    def _read_own_array(self, content: Json) -> Array:
        """Return the array to which the content of another kind refers."""
        array = self.read(content)
        if not isinstance(array, np.ndarray):
            raise ValueError("the content must be an array")
        return array

    def _draw_band(self, n_neurons: Json, n_inputs: Json, mirrored: Json, seed: Json) -> SharedBand:
        """Return a shared band from the arguments that have drawn it."""
        n_neurons = _check_integer(n_neurons)
        n_inputs = _check_integer(n_inputs)
        if min(n_neurons, n_inputs) < 0:
            raise ValueError("a shared band must have neurons and inputs")
        # Each neuron of cosines has two numbers and a bias in addition to its weights.
        n_weights = n_neurons * (n_inputs + 3)
        n_bytes = _PER_WEIGHT * n_weights
        self._budget.spend(n_bytes, f"{n_neurons} shared neurons over {n_inputs} inputs")
        return draw_shared_band(
            n_neurons, n_inputs, mirrored=bool(mirrored), seed=_check_integer(seed)
        )

    def _read_foreign(self, name: Json, content: Json, inside: Json) -> BaseEstimator:
        """Return an estimator of another package from its bytes and our estimators in it."""
        name = _check_string(name)
        data = self._read_own_array(content).tobytes()
        with self._at(f".{name:.40}"):
            estimators = self._read_items(inside)
        return read_foreign(data, estimators, self.path, name, self._trusted, self._budget)

    def _read_record(self, kind: str, content: Json) -> object:
        """Return a dataclass whose fields have their declared types."""
        values = self._read_fields(content)
        return _record(RECORDS[kind], values, RENAMED_FIELDS.get(kind, {}))

    def _read_estimator(self, estimator_class: type[BaseEstimator], content: Json) -> BaseEstimator:
        """Return an estimator whose parameters and numbers have been checked."""
        content = _check_object(content)
        is_extractor = issubclass(estimator_class, TorchFeatureExtractor)
        parameters = {}
        for name, written in _check_object(content["parameters"]).items():
            with self._at(f".{name}"):
                if is_extractor:
                    parameters[name] = self._read_parameter_of_extractor(name, written)
                else:
                    parameters[name] = self.read(written)
        estimator = estimator_class(**parameters)
        fitted = self._read_fields(content["fitted"])
        if isinstance(estimator, MomentClassifier) and "classes_" in fitted:
            fitted = {"state": _state_of_attributes(estimator, fitted)}
        for name, value in fitted.items():
            attribute = PRIVATE.get(name, name)
            is_allowed = name in PRIVATE or _is_fitted(name)
            if not is_allowed or attribute in parameters:
                raise ValueError(f"unknown name {name:.40}")
            vars(estimator)[attribute] = value
        if is_extractor and "state_dict_" in fitted:
            estimator._fitted_params = estimator._fixed_params()
        check_estimator(estimator, self._budget)
        return estimator

    def _read_parameter_of_extractor(self, parameter: str, content: Json) -> object:
        """Return a parameter, which is a factory by its name or not a path."""
        if parameter == "backbone":
            return self._read_factory(content)
        value = self.read(content)
        if is_path(TorchFeatureExtractor, parameter, value):
            raise ValueError(f"{parameter} must not be a path")
        return value

    def _read_factory(self, content: Json) -> Factory:
        """Return the value of `backbone` for a name in the file."""
        name = _check_string(content)
        if name not in self._factories:
            raise ValueError(
                "a factory of networks is code and no part of the file. Call "
                f"load(path, factories={{{name[:200]!r}: factory}}) with a factory that you trust"
            )
        return self._factories[name]


def _check_list(content: Json) -> list[Json]:
    """Return the content of a kind that is a list; a string of many characters would expand."""
    if not isinstance(content, list):
        raise ValueError("the content must be a list")
    return content


def _check_object(content: Json) -> dict[str, Json]:
    """Return the content of a kind that is an object of fields."""
    if not isinstance(content, dict):
        raise ValueError("the content must be an object")
    return content


def _check_string(content: Json) -> str:
    """Return the content of a kind that is a string."""
    if not isinstance(content, str):
        raise ValueError("the content must be a string")
    return content


def _check_integer(content: Json) -> int:
    """Return the content of a kind that is an integer."""
    if not isinstance(content, int):
        raise ValueError("the content must be an integer")
    return content


def _record(python_class: type, fields: Mapping[str, object], renamed: Mapping[str, str]) -> object:
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


def _state_of_attributes(baseline: MomentClassifier, fitted: Mapping[str, Any]) -> object:
    """Return the state of a baseline, given the fitted attributes that the first files hold.

    Their arrays have a row for each entry of `classes_`, also for labels not seen.
    """
    attributes = dict(fitted)
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


def _generator(
    words: object, position: object, has_normal: object, normal: object
) -> np.random.RandomState:
    """Return a random generator in a given state."""
    # The generator reads the word at this position without a check.
    if not isinstance(position, int) or not 0 <= position <= _N_WORDS:
        raise ValueError(f"position must be an integer of at most {_N_WORDS}")
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
def field_types(dataclass: type) -> dict[str, object]:
    """Return the types of the fields of a dataclass that a file holds, by name.

    A field that does not take part in comparisons is a cache, which a file does not hold.
    """
    hints = get_type_hints(dataclass)
    types = {}
    for field in fields(dataclass):
        if field.init and field.compare:
            types[field.name] = hints[field.name]
    return types


def fits(value: object, hint: Any) -> bool:
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


def _fits_array(array: Array, arguments: tuple[Any, ...]) -> bool:
    """Return whether an array is finite and has the kind of numbers that a hint may name."""
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        return False
    if not arguments:
        return True
    # The hint is `np.ndarray[shape, np.dtype[scalar]]`.
    _, dtype = arguments
    (scalar,) = get_args(dtype)
    if scalar is np.generic:
        return True
    kind: str = np.dtype(scalar).kind
    return array.dtype.kind == kind
