"""Assemble pickles instruction by instruction, to write what no pickler would."""

import pickle
import struct

NONE, TRUE, FALSE, STOP = pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.STOP
REDUCE, BUILD, SETITEMS = pickle.REDUCE, pickle.BUILD, pickle.SETITEMS


def integer(number):
    return pickle.BININT + struct.pack("<i", number)


def long(number):
    content = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    return pickle.LONG4 + struct.pack("<I", len(content)) + content


def text(content):
    return pickle.BINSTRING + struct.pack("<I", len(content)) + content


def unicode(content):
    content = content.encode()
    return pickle.BINUNICODE + struct.pack("<I", len(content)) + content


def several(*items):
    return pickle.MARK + b"".join(items) + pickle.TUPLE


def sequence(*items):
    return pickle.EMPTY_LIST + pickle.MARK + b"".join(items) + pickle.APPENDS


def dictionary(entries):
    items = [text(key) + value for key, value in entries.items()]
    return pickle.EMPTY_DICT + pickle.MARK + b"".join(items) + SETITEMS


def named(module, name):
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def put(index):
    return pickle.BINPUT + bytes([index])


def get(index):
    return pickle.BINGET + bytes([index])


def set_item(target, key, value):
    return target + pickle.MARK + key + value + SETITEMS


def dtype(code, *, version=3, fields=(NONE, NONE), sizes=(-1, -1), flags=0):
    """Write a dtype and its state as NumPy does."""
    call = named("numpy", "dtype") + several(text(code), integer(0), integer(1)) + REDUCE
    sizes = map(integer, sizes)
    state = (integer(version), text(b"|"), NONE, *fields, *sizes, integer(flags))
    return call + several(*state) + BUILD


def structure(size, field, offset):
    """Write the dtype of a structure whose only field, `f`, is said to lie at an offset."""
    members = pickle.EMPTY_DICT + pickle.MARK + unicode("f") + several(field, integer(offset))
    fields = (several(unicode("f")), members + SETITEMS)
    return dtype(b"V%d" % size, fields=fields, sizes=(size, 1))


UINT8 = dtype(b"u1")
OBJECT = dtype(b"O8", flags=63)


def unbuilt_array():
    """Write the call that makes an empty array."""
    function = named("numpy.core.multiarray", "_reconstruct")
    return function + several(named("numpy", "ndarray"), several(integer(0)), text(b"b")) + REDUCE


def array(shape, content, *, kind=UINT8, order=FALSE, version=1):
    """Write an array; a shape or a content that is no tuple or bytes is taken as instructions."""
    shape = several(*map(integer, shape)) if isinstance(shape, tuple) else shape
    state = (integer(version), shape, kind, order, text(content))
    return unbuilt_array() + several(*state) + BUILD
