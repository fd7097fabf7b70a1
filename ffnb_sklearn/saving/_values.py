"""Write plain values as JSON and arrays, and check them when they are read.

None, booleans, integers, finite floats, strings and lists are plain JSON. Any other value is a JSON
object with a single key, which names the kind of the value: a tuple, a dictionary, an array, a
NumPy number, a random state and so on. Arrays are numbered in the order in which they are written.
"""

import math
import sys

import numpy as np
import torch

from ._container import is_storable, misfit

__all__ = ["NUMBER_TYPES", "Node", "Reader", "Writer"]

_MT_WORDS = 624

# Largest integer: NumPy and torch have no larger sizes and positions.
_MOST = 2**63 - 1

# NumPy's types of numbers by name, as in the parameter `dtype` of a vectorizer.
NUMBER_TYPES = {
    name: np.dtype(name).type
    for name in (
        *("bool", "float16", "float32", "float64", "complex64", "complex128"),
        *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    )
}


class Writer:
    """Turns values into JSON, and collects the arrays and the states of random generators.

    ``write_other(writer, value, where)`` returns the JSON of a value that is not plain.
    """

    def __init__(self, write_other):
        self.arrays = []
        self.generators = []
        self._write_other = write_other
        self._positions = {}

    def array(self, array, where):
        """Return the reference to an array of numbers, booleans or strings."""
        array = np.asarray(array)
        if array.dtype == np.dtype("U0"):
            array = array.astype("U1")
        if not is_storable(array.dtype):
            raise ValueError(f"{where} cannot be saved: an array of dtype {array.dtype}.")
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            array = np.ascontiguousarray(array)
        self.arrays.append(array)
        return {"array": len(self.arrays) - 1}

    def labels(self, labels, where):
        """Return the JSON of labels or names: an array, or a list of strings of any length."""
        if labels.dtype != object:
            return self.array(labels, where)
        if labels.ndim != 1 or not all(type(one) in (str, np.str_) for one in labels):
            raise ValueError(f"{where} cannot be saved: objects other than strings.")
        return {"strings": [str(one) for one in labels]}

    def plain(self, value, where):
        """Return the JSON of a value."""
        kind = type(value)
        if kind is int and not -_MOST - 1 <= value <= _MOST:
            raise ValueError(f"{where} cannot be saved: integers must have at most 64 bits.")
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return [self.plain(one, where) for one in value]
        if kind in (tuple, torch.Size):
            return {"tuple": [self.plain(one, where) for one in value]}
        if isinstance(value, dict):
            return {"dict": [[self.plain(part, where) for part in item] for item in value.items()]}
        if kind is np.ndarray:
            return self.labels(value, where) if value.dtype == object else self.array(value, where)
        if isinstance(value, np.generic):
            return {"scalar": self.array(value, where)["array"]}
        if isinstance(value, torch.Tensor):
            # NumPy lacks bfloat16.
            value = value.float() if value.dtype == torch.bfloat16 else value
            return {"tensor": self.array(value.detach().cpu().numpy(), where)["array"]}
        if value in NUMBER_TYPES.values():
            return {"number_type": np.dtype(value).name}
        if kind is np.random.RandomState:
            return {"generator": self._generator(value, where)}
        return self._write_other(self, value, where)

    def _generator(self, generator, where):
        """Return the number of a random generator, which several estimators may share."""
        if id(generator) not in self._positions:
            state = generator.get_state(legacy=False)
            if state["bit_generator"] != "MT19937":
                raise ValueError(f"{where} cannot be saved: a RandomState over another generator.")
            key, position = state["state"]["key"], int(state["state"]["pos"])
            entry = [key, position, bool(state["has_gauss"]), float(state["gauss"])]
            self._positions[id(generator)] = len(self.generators)
            self.generators.append(self.plain(entry, where))
        return self._positions[id(generator)]


class Reader:
    """The arrays of a file, each of which belongs to one value.

    ``read_other(kind, node)`` returns a value that is not plain. `factories` and `trusted` are the
    arguments of `load`.
    """

    def __init__(self, arrays, read_other, factories, trusted):
        self._arrays = list(arrays)
        self.generators = []
        self.read_other = read_other
        self.factories = factories
        self.trusted = trusted

    def take(self, index, where):
        """Return an array; raise if it has been taken before."""
        if type(index) is not int or not 0 <= index < len(self._arrays):
            raise misfit(where, f"a number below {len(self._arrays)}", index)
        array, self._arrays[index] = self._arrays[index], None
        if array is None:
            raise misfit(where, "an array of its own", index)
        return array

    def check_all_taken(self):
        """Raise unless every array has been taken."""
        if any(array is not None for array in self._arrays):
            raise misfit("every array", "a part of the model")


class Node:
    """A value of the JSON text, its location for messages, and its checks."""

    def __init__(self, value, where, reader):
        self.value = value
        self.where = where
        self.reader = reader

    def require(self, holds, expected):
        """Raise unless a condition on the value holds."""
        if not holds:
            raise misfit(self.where, expected, self.value)

    def child(self, value, name):
        """Return a part of this value."""
        return Node(value, f"{self.where}{name}", self.reader)

    def fields(self, *names):
        """Return the values of an object that has these keys and no others."""
        expected = f"an object of {', '.join(names)}"
        self.require(type(self.value) is dict and self.value.keys() == set(names), expected)
        return [self.child(self.value[name], f".{name}") for name in names]

    def some_fields(self, allowed, required=()):
        """Return the values of an object by name; check for required and allowed names."""
        holds = type(self.value) is dict and set(required) <= self.value.keys() <= set(allowed)
        self.require(holds, "an object of the names that this version knows")
        return {name: self.child(one, f".{name}") for name, one in self.value.items()}

    def entries(self, length=None):
        """Return the entries of a list."""
        self.require(type(self.value) is list, "a list")
        if length is not None:
            self.require(len(self.value) == length, f"a list of {length} entries")
        return [self.child(one, f"[{index}]") for index, one in enumerate(self.value)]

    def optional(self, read):
        """Return None, or the value that a function reads from this node."""
        return None if self.value is None else read(self)

    def integer(self, least=0, most=_MOST):
        """Return an integer in a range."""
        holds = type(self.value) is int and least <= self.value <= most
        self.require(holds, f"an integer from {least} to {most}")
        return self.value

    def number(self, least=-math.inf, most=sys.float_info.max, *, above=False):
        """Return a finite float in a range; `above` excludes the lower end."""
        holds = type(self.value) is float and least <= self.value <= most
        self.require(holds and not (above and self.value == least), f"from {least} to {most}")
        return self.value

    def flag(self):
        """Return a boolean."""
        self.require(type(self.value) is bool, "true or false")
        return self.value

    def text(self, *options):
        """Return a string, which must be one of the options if there are any."""
        holds = type(self.value) is str and (not options or self.value in options)
        self.require(holds, f"one of {', '.join(options)}" if options else "a string")
        return self.value

    def array(self, *shape, least=-math.inf):
        """Return an array of floating-point numbers of a given shape; None allows any length."""
        (index,) = self.fields("array")
        array = self.reader.take(index.value, self.where)
        expected = " x ".join("n" if n is None else str(n) for n in shape)
        holds = array.ndim == len(shape) and all(
            n in (None, m) for n, m in zip(shape, array.shape, strict=True)
        )
        if not holds or array.dtype not in (np.float64, np.float32):
            raise misfit(self.where, f"an array of {expected} floating-point numbers")
        if not (np.isfinite(array).all() and (array >= least).all()):
            raise misfit(self.where, f"an array of finite numbers of at least {least}")
        return array

    def labels(self):
        """Return labels or names: a one-dimensional array."""
        found = self.plain()
        self.require(type(found) is np.ndarray and found.ndim == 1, "a one-dimensional array")
        return found

    def plain(self):
        """Return the value that `Writer.plain` has written."""
        if type(self.value) is int:
            return self.integer(-_MOST - 1, _MOST)
        if self.value is None or type(self.value) in (bool, float, str):
            return self.value
        if type(self.value) is list:
            return [one.plain() for one in self.entries()]
        self.require(type(self.value) is dict and len(self.value) == 1, "a value of one kind")
        (kind,) = self.value
        (content,) = self.fields(kind)
        read = _KINDS.get(kind)
        return self.reader.read_other(kind, content) if read is None else read(content)


def _read_dict(node):
    """Return a dictionary, whose keys must be hashable and distinct."""
    items = [[part.plain() for part in item.entries(2)] for item in node.entries()]
    holds = all(
        type(key) in (str, int, float, bool, type(None)) or isinstance(key, np.generic)
        for key, _ in items
    )
    node.require(holds, "a list of keys and values")
    found = dict(items)
    node.require(len(found) == len(items), "without a repeated key")
    return found


def _read_array(node):
    return node.reader.take(node.value, node.where)


def _read_strings(node):
    found = np.empty(len(node.entries()), dtype=object)
    found[:] = [one.text() for one in node.entries()]
    return found


def _read_scalar(node):
    array = _read_array(node)
    node.require(array.ndim == 0, "a single number")
    return array[()]


def _read_tensor(node):
    array = _read_array(node)
    node.require(array.dtype.kind in "biufc", "numbers")
    return torch.from_numpy(array)


def _read_generator(node):
    """Return a random generator; all references to it give the same object."""
    number = node.integer(0, len(node.reader.generators) - 1)
    found = node.reader.generators[number]
    if isinstance(found, Node):
        found = node.reader.generators[number] = _made_generator(found)
    return found


def _made_generator(node):
    """Return a random generator in a given state."""
    key, position, has_gauss, gauss = node.entries(4)
    words = key.plain()
    holds = type(words) is np.ndarray and (words.dtype, words.shape) == (np.uint32, (_MT_WORDS,))
    key.require(holds, f"{_MT_WORDS} integers of 32 bits")
    # The generator reads the word at this position without a check.
    at, flag = position.integer(0, _MT_WORDS), int(has_gauss.flag())
    found = np.random.RandomState(0)
    found.set_state(("MT19937", words, at, flag, gauss.number()))
    return found


# Function that reads the content of each kind.
_KINDS = {
    "float": lambda node: float(node.text("nan", "inf", "-inf")),
    "tuple": lambda node: tuple(one.plain() for one in node.entries()),
    "dict": _read_dict,
    "array": _read_array,
    "strings": _read_strings,
    "scalar": _read_scalar,
    "tensor": _read_tensor,
    "generator": _read_generator,
    "number_type": lambda node: NUMBER_TYPES[node.text(*NUMBER_TYPES)],
}
