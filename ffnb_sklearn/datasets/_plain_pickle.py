"""Read pickles of plain data and of arrays of bytes, and create no other objects.

As the standard library documents, `pickle.Unpickler.find_class` restricts what a file may name.
But `numpy.ndarray.__setstate__` and item assignment trust their arguments, so that a file that is
allowed to name `numpy.ndarray` can read and write out of bounds. Here, every allowed name stands
for an inert `Record` of its call, which `image_rows` checks.
"""

import io
import pickle
import pickletools
import warnings
from dataclasses import dataclass

import numpy as np

from ffnb_sklearn.datasets._base import shown

# The functions that rebuild an array have moved between NumPy versions, and depend on the protocol.
_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}

# Instructions that create plain data, as `pickletools` names them.
_PLAIN = {
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BINFLOAT"),
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "SHORT_BINSTRING", "BINSTRING"),
    *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("EMPTY_LIST", "EMPTY_DICT", "APPEND", "APPENDS", "SETITEM", "SETITEMS"),
    *("BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "MEMOIZE"),
}

# Instructions that arrays need as well.
_OF_ARRAYS = {
    *("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "TUPLE"),
    *("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD"),
}

# Most instructions of arrays in a file, which needs about 20 of them. The hash of nested tuples and
# the deletion of nested records descend into them; 100,000 levels overflow the C stack.
_MOST_OF_ARRAYS = 1000


@dataclass(eq=False, repr=False, slots=True)
class Record:
    """Inert record of a name, or of the call of a name and the state of its result."""

    name: str
    arguments: tuple | None = None
    state: object = None

    def __call__(self, *arguments):
        """Return the record of a call."""
        if self.arguments is not None:
            raise ValueError("an object is called that is no function")
        return Record(self.name, arguments)

    def __setstate__(self, state):
        """Store the state of the result of a call."""
        if self.arguments is None or self.state is not None:
            raise ValueError("a state is given to an object that takes none")
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Unpickler that imports nothing."""

    def find_class(self, module, name):
        if (module, name) not in _NAMES:
            full_name = shown(f"{module}.{name}").strip("'")
            raise ValueError(f"{full_name} is not allowed in this file")
        return Record(name)


def read_pickle(content):
    """Return the object that a pickle holds: plain data, and a `Record` for every array.

    Strings of Python 2 are read as bytes. Raise `ValueError` if the stream is cut short,
    inconsistent, or has an instruction that plain data does not need.
    """
    try:
        with warnings.catch_warnings():
            # `pickletools` decodes the text of an instruction before it can be refused.
            warnings.simplefilter("ignore", DeprecationWarning)
            _check_instructions(content)
        return _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except ValueError:
        raise
    except (
        pickle.UnpicklingError,
        ArithmeticError,
        AttributeError,
        EOFError,
        LookupError,
    ) as error:
        raise ValueError(str(error)) from None
    except TypeError as error:
        raise ValueError(f"an operand has a wrong type: {error}") from None


def _check_instructions(content):
    """Raise `ValueError` for an instruction that is not needed, or takes more than the file has."""
    n_of_arrays = 0
    for number, (code, argument, _) in enumerate(pickletools.genops(content)):
        is_of_array = code.name in _OF_ARRAYS
        n_of_arrays += is_of_array
        if not is_of_array and code.name not in _PLAIN:
            raise ValueError(f"the instruction {code.name} is not allowed in this file")
        if n_of_arrays > _MOST_OF_ARRAYS:
            raise ValueError("the file describes too many objects")
        # The memo has a place for each number up to the largest.
        if code.name == "LONG_BINPUT" and argument > number:
            raise ValueError(f"the memo has no place {argument}")


def image_rows(value, n_values):
    """Return the array of uint8 that a record describes, of shape (n_images, n_values).

    Raise `ValueError` if the value is not such a record, or if its shape does not fit its bytes.
    """
    match value:
        case Record("_reconstruct", (_, _, _), (_, tuple(shape), dtype, order, bytes(content))):
            order = "F" if order in (1, True) else "C"
        case Record(
            "_frombuffer",
            (bytes() | bytearray() as content, dtype, tuple(shape), "C" | "F" as order),
        ):
            pass
        case _:
            raise ValueError("must be an array of uint8")
    match dtype:
        case Record("dtype", (b"u1" | "u1", *_)):
            pass
        case _:
            raise ValueError("must be an array of uint8")
    if shape != (len(content) // n_values, n_values) or len(content) % n_values:
        found = ", ".join(shown(length) for length in shape[:3])
        raise ValueError(
            f"must have shape (n_images, {n_values}) and one byte per value, got ({found}) and "
            f"{len(content)} bytes"
        )
    return np.frombuffer(content, np.uint8).reshape(-1, n_values, order=order)
