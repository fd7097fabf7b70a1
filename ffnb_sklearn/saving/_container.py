"""The container of a model file: a ZIP archive of one JSON text and arrays, with a digest.

The archive holds `model.json` first, then `arrays/0.npy`, `arrays/1.npy` and so on, uncompressed.
The JSON text lists the dtype, memory order and shape of every array. These determine the header and
the size of its member, so nothing in a member is interpreted. The comment of the archive, at the
end of the file, is a mark and the SHA-256 of the whole file with zeros in place of the digest.

Every version of the package must read this container, so that an older version can distinguish a
newer file from a damaged file. The version of the content is in the JSON text.
"""

import hashlib
import json
import math
import re
import zipfile
from itertools import count

import numpy as np

from .._atomic import HashedFile
from ._errors import ModelFileError, misfit

__all__ = ["is_storable", "read_container", "write_container"]

_MARK = b"ffnb_sklearn model, sha256 "
_DIGEST_LENGTH = 64
_BLANK = b"0" * _DIGEST_LENGTH

_TEXT = "model.json"

# Largest size of the JSON text, in bytes. The text grows by a few hundred bytes per class.
_LONGEST_TEXT = 1 << 28

_CHUNK = 1 << 20

# Booleans, integers, floating-point and complex numbers, and strings of fixed length.
_DTYPE = re.compile(r"\|[biu]1|[<>][iu][248]|[<>]f[248]|[<>]c(8|16)|[<>]U[1-9]\d{0,8}")
_MOST_AXES = 32

# Flags that a member may have: sizes after the data, and a name in UTF-8.
_HARMLESS_FLAGS = 0x0808


def is_storable(dtype):
    """Return whether arrays of a dtype can be stored."""
    return _DTYPE.fullmatch(dtype.str) is not None


def write_container(file, content, arrays):
    """Write a container to an empty seekable file, with contiguous arrays that `is_storable`."""
    layouts = [_layout(array) for array in arrays]
    text = json.dumps({"arrays": layouts, "content": content}, allow_nan=False).encode("ascii")
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"the description of the model takes {len(text)} bytes, which is too much")
    hashed = HashedFile(file)
    with zipfile.ZipFile(hashed, "w") as archive:
        _write_member(archive, _TEXT, text, b"")
        for index, (array, layout) in enumerate(zip(arrays, layouts, strict=True)):
            _write_member(archive, _array_name(index), _npy_header(*layout), _bytes_of(array))
        archive.comment = _MARK + _BLANK
    file.seek(-_DIGEST_LENGTH, 2)
    file.write(hashed.digest.hexdigest().encode("ascii"))


def _write_member(archive, name, header, data):
    """Append a member of two parts, with a fixed date."""
    info = zipfile.ZipInfo(name)
    info.file_size = len(header) + len(data)
    with archive.open(info, "w") as member:
        member.write(header)
        member.write(data)


def _array_name(index):
    return f"arrays/{index}.npy"


def _layout(array):
    """Return the dtype, the memory order and the shape of an array."""
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return array.dtype.str, "F" if is_fortran else "C", array.shape


def _bytes_of(array):
    """Return the memory of a contiguous array as bytes, without a copy."""
    order = "C" if array.flags.c_contiguous else "F"
    return array.reshape(-1, order=order).view(np.uint8)


def _npy_header(dtype, order, shape):
    """Return the header of NumPy's format 1.0, so that NumPy alone can read the member."""
    text = f"{{'descr': '{dtype}', 'fortran_order': {order == 'F'}, 'shape': {tuple(shape)}, }}"
    start = b"\x93NUMPY\x01\x00"
    n_spaces = -(len(start) + 2 + len(text) + 1) % 64
    text = text.encode("ascii") + b" " * n_spaces + b"\n"
    return start + len(text).to_bytes(2, "little") + text


def read_container(file):
    """Read and verify a container, which may hold any bytes.

    Return the content of the JSON text, and writable arrays with the same dtypes, shapes and memory
    order. Raise `ModelFileError` if the file is not a container, or if any bit has changed.
    """
    size = _checked_size(file)
    try:
        return _read_archive(file, size)
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:
        # A forged archive with a valid digest can raise an error of nearly any kind.
        raise ModelFileError("the file is a damaged archive.") from error


def _checked_size(file):
    """Return the size of a file after verifying its digest."""
    size = file.seek(0, 2)
    n_end = len(_MARK) + _DIGEST_LENGTH
    file.seek(max(0, size - n_end))
    end = file.read(n_end)
    file.seek(0)
    if size <= n_end or not end.startswith(_MARK):
        raise ModelFileError(
            "the file is cut short, or was not written by ffnb_sklearn.save: its end lacks the "
            "digest."
        )
    digest, n_left = hashlib.sha256(), size - _DIGEST_LENGTH
    while n_left:
        chunk = file.read(min(_CHUNK, n_left))
        if not chunk:
            raise ModelFileError("the file became shorter while it was read.")
        digest.update(chunk)
        n_left -= len(chunk)
    digest.update(_BLANK)
    if digest.hexdigest().encode("ascii") != end[len(_MARK) :]:
        raise ModelFileError("the file is damaged: its digest does not fit its content.")
    return size


def _read_archive(file, size):
    """Read the members of an archive, after checking all of their sizes."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        _check_members(members, size)
        with archive.open(members[0]) as member:
            text = member.read()
        whole = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        if type(whole) is not dict or whole.keys() != {"arrays", "content"}:
            raise misfit(_TEXT, "an object of arrays and content", whole)
        layouts = _checked_layouts(whole["arrays"])
        if len(members) != len(layouts) + 1:
            raise misfit("the archive", f"of {len(layouts)} arrays", len(members) - 1)
        headers = [_npy_header(*layout) for layout in layouts]
        for member, header, (dtype, _, shape) in zip(members[1:], headers, layouts, strict=True):
            n_bytes = len(header) + math.prod(shape) * np.dtype(dtype).itemsize
            if member.file_size != n_bytes:
                raise misfit(member.filename, f"of {n_bytes} bytes", member.file_size)
        parts = zip(members[1:], headers, layouts, strict=True)
        return whole["content"], [_read_array(archive, *part) for part in parts]


def _check_members(members, size):
    """Check the names and sizes of the members, which together must not exceed the file."""
    names = (_TEXT if index == 0 else _array_name(index - 1) for index in count())
    if not members:
        raise misfit("the archive", "of one member or more")
    for member, name in zip(members, names, strict=False):
        if member.filename != name:
            raise misfit("a member of the archive", f"named {name}", member.filename)
        kind = (member.compress_type, member.compress_size)
        plain = kind == (zipfile.ZIP_STORED, member.file_size)
        if not plain or member.flag_bits & ~_HARMLESS_FLAGS:
            raise misfit(name, "uncompressed and unencrypted")
    if sum(member.file_size for member in members) > size or members[0].file_size > _LONGEST_TEXT:
        raise misfit("the members of the archive", "smaller than the file")


def _unique(pairs):
    """Return a JSON object; raise if a key is repeated."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise misfit(_TEXT, "without a repeated key")
    return found


def _no_constant(name):
    """Raise on the constants that JSON lacks."""
    raise misfit(_TEXT, "without NaN and infinity", name)


def _checked_layouts(layouts):
    """Return the dtype, memory order and shape of every array, after checking them."""
    if type(layouts) is not list:
        raise misfit("the list of arrays", "a list", layouts)
    for one in layouts:
        match one:
            case [str(dtype), "C" | "F", list(shape)] if (
                _DTYPE.fullmatch(dtype)
                and len(shape) <= _MOST_AXES
                and all(type(n) is int and 0 <= n < 1 << 62 for n in shape)
            ):
                pass
            case _:
                raise misfit("an entry of the list of arrays", "a dtype, an order and a shape")
    return layouts


def _read_array(archive, member, header, layout):
    """Read one array, whose size has been checked."""
    dtype, order, shape = layout
    array = np.empty(shape, dtype=dtype, order=order)
    left = memoryview(_bytes_of(array))
    with archive.open(member) as stream:
        if stream.read(len(header)) != header:
            raise misfit(member.filename, "an array as the list of arrays has it")
        while len(left):
            n_read = stream.readinto(left)
            if not n_read:
                raise misfit(member.filename, "longer")
            left = left[n_read:]
        # Reading the end of the member also verifies its checksum.
        if stream.read(1):
            raise misfit(member.filename, "shorter")
    if array.dtype.kind == "U":
        codes = array.reshape(-1).view(f"{array.dtype.str[0]}u4")
        if codes.max(initial=0) > 0x10FFFF:
            raise misfit(member.filename, "of Unicode strings")
    return array
