"""Read pickles of plain data and of arrays of bytes, and create no other objects.

A pickle is a program for a machine with a stack and a memo; `pickletools` of the standard library
describes its instructions. An unpickler that allows `numpy.ndarray` by name lets a file call
`ndarray.__setstate__` and set items. Both operations trust their arguments, so a tampered file can
read and write out of bounds. The machine below has only the instructions that plain data needs. It
imports and calls nothing, apart from encoding text in Latin-1: an array remains a `Record` of its
description in the file until `uint8_array` has checked every entry.
"""

import math
import os
import pickle
import struct
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ffnb_sklearn.datasets._base import shown

# Longest name, in bytes; the names below have at most 22.
_LONGEST_NAME = 100


class _Name(Enum):
    """Name of a function or a class that a pickle may request; nothing is imported for it."""

    RECONSTRUCT = "_reconstruct"
    FROM_BUFFER = "_frombuffer"
    ENCODE = "encode"
    NDARRAY = "ndarray"
    DTYPE = "dtype"


# The functions that rebuild an array have moved between NumPy versions, and depend on the protocol
# of the pickle. Protocol 2 writes bytes as text that is to be encoded.
_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): _Name.RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _Name.RECONSTRUCT,
    ("numpy.core.numeric", "_frombuffer"): _Name.FROM_BUFFER,
    ("numpy._core.numeric", "_frombuffer"): _Name.FROM_BUFFER,
    ("_codecs", "encode"): _Name.ENCODE,
    ("numpy", "ndarray"): _Name.NDARRAY,
    ("numpy", "dtype"): _Name.DTYPE,
}


@dataclass(eq=False, repr=False, slots=True)
class Record:
    """Inert record of an array or a dtype: the pickled call that creates it, and its state."""

    name: _Name
    arguments: object
    state: object = None


def read_pickle(file):
    """Return the content of a pickle: plain data, and a `Record` for every array.

    The binary file must be positioned at the first byte of the pickle. Strings of Python 2 are read
    as bytes. Raise `ValueError` if the stream is cut short, inconsistent, or has an instruction
    that plain data does not need.
    """
    machine = _Machine(file)
    while (code := machine.read(1)) != pickle.STOP:
        try:
            if code in _VALUES:
                value = _VALUES[code](machine)  # may close a mark, and so change the stack
                machine.stack.append(value)
            elif code in _ACTIONS:
                _ACTIONS[code](machine)
            else:
                raise ValueError(f"the instruction {shown(code)} is not allowed in this file")
        except LookupError:
            raise ValueError(
                f"the instruction {shown(code)} lacks an operand on the stack or in the memo"
            ) from None
    if machine.outer or len(machine.stack) != 1:
        raise ValueError("the stream ends with a stack that does not hold exactly one object")
    return machine.stack[0]


def uint8_array(value):
    """Return the array of uint8 that a record describes, as a read-only view of its bytes.

    Raise `ValueError` if the value is not such a record, or if its shape does not fit its bytes.
    """
    match value:
        case Record(
            _Name.RECONSTRUCT,
            (_Name.NDARRAY, (0,), b"b"),
            (1, tuple(shape), dtype, (0 | 1) as fortran, bytes(content)),
        ) if _is_uint8(dtype):
            order = "F" if fortran else "C"
        case Record(
            _Name.FROM_BUFFER, (bytes(content), dtype, tuple(shape), ("C" | "F") as order), None
        ) if _is_uint8(dtype):
            pass
        case _:
            raise ValueError("must be an array of uint8")
    # NumPy allows at most 64 axes with int64 lengths, so the product is fast and can be shown.
    valid = len(shape) <= 64 and all(type(n) is int and 0 <= n < 2**63 for n in shape)
    if not valid or math.prod(shape) != len(content):
        size = shape if valid else "that is invalid"
        raise ValueError(f"must hold one byte per value, got {len(content)} for a shape {size}")
    return np.frombuffer(content, np.uint8).reshape(shape, order=order)


def _is_uint8(dtype):
    """Return whether a record describes plain uint8, as every version of NumPy writes it."""
    match dtype:
        case Record(
            _Name.DTYPE,
            (b"u1" | "u1", 0, 1),
            (3, b"|" | "|", None, None, None, -1, -1, 0),
        ):
            return True
    return False


class _Machine:
    """The state of the machine: the rest of the stream, the stack and the memo."""

    def __init__(self, file):
        self.file = file
        self.left = os.fstat(file.fileno()).st_size
        # Number of characters; otherwise, a text in the memo could be encoded any number of times.
        self.encodable = self.left
        self.stack = []
        self.outer = []  # the stacks below each open mark
        self.memo = {}

    def read(self, n_bytes):
        """Read a number of bytes; memory is allocated only if the file has them."""
        if not 0 <= n_bytes <= self.left:
            raise ValueError(f"expected {n_bytes} more bytes, {self.left} are left")
        self.left -= n_bytes
        return self.file.read(n_bytes)

    def line(self):
        """Read a line of text."""
        line = self.file.readline(_LONGEST_NAME)
        self.left -= len(line)
        if not line.endswith(b"\n"):
            raise ValueError(f"expected a name, got {shown(line)}")
        return line[:-1].decode()

    def integer(self, n_bytes, *, signed=False):
        return int.from_bytes(self.read(n_bytes), "little", signed=signed)

    def text(self, n_bytes):
        return self.read(n_bytes).decode()

    def take(self, n_objects):
        """Remove the topmost objects from the stack."""
        if len(self.stack) < n_objects:
            raise LookupError
        taken = self.stack[-n_objects:]
        del self.stack[-n_objects:]
        return taken

    def mark(self):
        """Open a mark."""
        self.outer.append(self.stack)
        self.stack = []

    def take_marked(self):
        """Remove all objects above the last mark, and the mark."""
        taken, self.stack = self.stack, self.outer.pop()
        return taken

    def remember(self, index):
        self.memo[index] = self.stack[-1]

    def extend(self, items):
        """Append items to the list on top of the stack."""
        if type(self.stack[-1]) is not list:
            raise ValueError("items are appended to an object that is not a list")
        self.stack[-1].extend(items)

    def update(self, items):
        """Add alternating keys and values to the dictionary on top of the stack."""
        if type(self.stack[-1]) is not dict:
            raise ValueError("items are set in an object that is not a dictionary")
        keys, values = items[::2], items[1::2]
        # Other keys are not needed, and the hash of deeply nested tuples overflows the C stack.
        if len(keys) != len(values) or not all(type(key) in (bytes, str) for key in keys):
            raise ValueError("a dictionary must have text as keys, and a value for each")
        self.stack[-1].update(zip(keys, values, strict=True))

    def call(self, name, arguments):
        """Return the record of a call, or bytes that were written as text."""
        if not isinstance(name, _Name):
            raise ValueError("an object is called that is no function")
        return self.encode(arguments) if name is _Name.ENCODE else Record(name, arguments)

    def encode(self, arguments):
        """Return the bytes of a text; other codecs take a time that is quadratic in its length."""
        match arguments:
            case (str(text), "latin1") if len(text) <= self.encodable:
                self.encodable -= len(text)
                return text.encode("latin-1")
        raise ValueError("bytes must be written once, as text of the encoding latin1")

    def build(self, state):
        """Store the state of the record on top of the stack."""
        record = self.stack[-1]
        if type(record) is not Record or record.state is not None:
            raise ValueError("a state is given to an object that takes none")
        record.state = state


def _named(module, name):
    """Return the `_Name` of a global name; raise if the name is not allowed."""
    if type(module) is not str or type(name) is not str:
        raise ValueError("a global name must be text")
    if (module, name) not in _NAMES:
        full_name = shown(f"{module}.{name}").strip("'")
        raise ValueError(f"{full_name} is not allowed in this file")
    return _NAMES[module, name]


# Instructions that put a value on the stack. The numbers are the sizes, in bytes, of an integer or
# of a length.
_VALUES = {
    pickle.NONE: lambda m: None,
    pickle.NEWTRUE: lambda m: True,
    pickle.NEWFALSE: lambda m: False,
    pickle.BININT: lambda m: m.integer(4, signed=True),
    pickle.BININT1: lambda m: m.integer(1),
    pickle.BININT2: lambda m: m.integer(2),
    pickle.LONG1: lambda m: m.integer(m.integer(1), signed=True),
    pickle.LONG4: lambda m: m.integer(m.integer(4), signed=True),
    pickle.BINFLOAT: lambda m: struct.unpack(">d", m.read(8))[0],
    pickle.SHORT_BINSTRING: lambda m: m.read(m.integer(1)),
    pickle.BINSTRING: lambda m: m.read(m.integer(4)),
    pickle.SHORT_BINBYTES: lambda m: m.read(m.integer(1)),
    pickle.BINBYTES: lambda m: m.read(m.integer(4)),
    pickle.BINBYTES8: lambda m: m.read(m.integer(8)),
    pickle.BYTEARRAY8: lambda m: m.read(m.integer(8)),
    pickle.SHORT_BINUNICODE: lambda m: m.text(m.integer(1)),
    pickle.BINUNICODE: lambda m: m.text(m.integer(4)),
    pickle.BINUNICODE8: lambda m: m.text(m.integer(8)),
    pickle.EMPTY_LIST: lambda m: [],
    pickle.EMPTY_DICT: lambda m: {},
    pickle.EMPTY_TUPLE: lambda m: (),
    pickle.TUPLE1: lambda m: tuple(m.take(1)),
    pickle.TUPLE2: lambda m: tuple(m.take(2)),
    pickle.TUPLE3: lambda m: tuple(m.take(3)),
    pickle.TUPLE: lambda m: tuple(m.take_marked()),
    pickle.BINGET: lambda m: m.memo[m.integer(1)],
    pickle.LONG_BINGET: lambda m: m.memo[m.integer(4)],
    pickle.GLOBAL: lambda m: _named(m.line(), m.line()),
    pickle.STACK_GLOBAL: lambda m: _named(*m.take(2)),
    pickle.REDUCE: lambda m: m.call(*m.take(2)),
}

# Instructions that change an object on the stack, the memo or the position in the stream.
_ACTIONS = {
    pickle.PROTO: lambda m: m.read(1),
    pickle.FRAME: lambda m: m.read(8),
    pickle.MARK: lambda m: m.mark(),
    pickle.APPEND: lambda m: m.extend(m.take(1)),
    pickle.APPENDS: lambda m: m.extend(m.take_marked()),
    pickle.SETITEM: lambda m: m.update(m.take(2)),
    pickle.SETITEMS: lambda m: m.update(m.take_marked()),
    pickle.BUILD: lambda m: m.build(*m.take(1)),
    pickle.BINPUT: lambda m: m.remember(m.integer(1)),
    pickle.LONG_BINPUT: lambda m: m.remember(m.integer(4)),
    pickle.MEMOIZE: lambda m: m.remember(len(m.memo)),
}
