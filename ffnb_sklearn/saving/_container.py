"""The container of a model file: a ZIP archive of one JSON text and arrays, with a digest.

The archive holds `model.json` first, then `arrays/0.npy`, `arrays/1.npy` and so on in NumPy's
format 1.0, uncompressed. The comment of the archive, at the end of the file, is a mark and the
SHA-256 of the whole file with zeros in place of the digest.

Every version of the package must read this container, so that an older version can distinguish a
newer file from a damaged file. The version of the content is in the JSON text.
"""

import hashlib
import json
import math
import re
import zipfile

import numpy as np
from numpy.lib import format as npy

from .._atomic import HashedFile
from ..datasets._base import shown

__all__ = ["ModelFileError", "is_storable", "misfit", "read_container", "write_container"]

_MARK = b"ffnb_sklearn model, sha256 "
_DIGEST_LENGTH = 64
_BLANK = b"0" * _DIGEST_LENGTH

_TEXT = "model.json"

# Largest size of the JSON text, in bytes. The text grows by a few hundred bytes per class.
_LONGEST_TEXT = 1 << 28

_CHUNK = 1 << 20

# Room for the header of an array, in bytes; the archive reserves fields for sizes of this order.
_HEADER = 1 << 10

# Booleans, integers, floating-point and complex numbers, and strings of fixed length.
_DTYPE = re.compile(r"\|[biu]1|[<>][iu][248]|[<>]f[248]|[<>]c(8|16)|[<>]U[1-9]\d{0,8}")

# Most characters of the location of a value that a message repeats; locations can be nested deeply.
_LONGEST_PLACE = 200

# Flags that a member may have: sizes after the data, and a name in UTF-8.
_HARMLESS_FLAGS = 0x0808


class ModelFileError(ValueError):
    """A file is not a model file, is damaged, has a newer format, or holds no valid model."""


def misfit(where, expected, got=None):
    """Return the error for a part of a file, with a bounded message; None shows no value."""
    found = "" if got is None else f"; got {shown(got)}"
    place = where if len(where) <= _LONGEST_PLACE else f"...{where[-_LONGEST_PLACE:]}"
    return ModelFileError(f"{place} must be {expected}{found}.")


def is_storable(dtype):
    """Return whether arrays of a dtype can be stored."""
    return _DTYPE.fullmatch(dtype.str) is not None


def write_container(file, content, arrays):
    """Write a container to an empty seekable file, with contiguous arrays that `is_storable`."""
    text = json.dumps(content, allow_nan=False).encode("ascii")
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"the description of the model takes {len(text)} bytes, which is too much")
    hashed = HashedFile(file)
    with zipfile.ZipFile(hashed, "w") as archive:
        # Members without a time of their own have a fixed date.
        archive.writestr(zipfile.ZipInfo(_TEXT), text)
        for index, array in enumerate(arrays):
            info = zipfile.ZipInfo(_array_name(index))
            info.file_size = array.nbytes + _HEADER
            with archive.open(info, "w") as member:
                npy.write_array(member, array, version=(1, 0), allow_pickle=False)
        archive.comment = _MARK + _BLANK
    file.seek(-_DIGEST_LENGTH, 2)
    file.write(hashed.digest.hexdigest().encode("ascii"))


def _array_name(index):
    return f"arrays/{index}.npy"


def read_container(file):
    """Read and verify a container, which may hold any bytes.

    Return the content of the JSON text, and writable arrays with the same dtypes, shapes and memory
    order. Raise `ModelFileError` if the file is not a container, or if any bit has changed.
    """
    size = _checked_size(file)
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check_members(members, size)
            text = archive.read(members[0])
            content = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
            return content, [_read_array(archive, member) for member in members[1:]]
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
    while n_left and (chunk := file.read(min(_CHUNK, n_left))):
        digest.update(chunk)
        n_left -= len(chunk)
    digest.update(_BLANK)
    if n_left or digest.hexdigest().encode("ascii") != end[len(_MARK) :]:
        raise ModelFileError("the file is damaged: its digest does not fit its content.")
    return size


def _check_members(members, size):
    """Check the names and sizes of the members, which together must not exceed the file."""
    if not members:
        raise misfit("the archive", "of one member or more")
    for index, member in enumerate(members):
        name = _array_name(index - 1) if index else _TEXT
        if member.filename != name:
            raise misfit("a member of the archive", f"named {name}", member.filename)
        is_plain = member.compress_type == zipfile.ZIP_STORED
        is_plain &= member.compress_size == member.file_size
        if not is_plain or member.flag_bits & ~_HARMLESS_FLAGS:
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


def _read_array(archive, member):
    """Read one array; no memory is allocated before its size is that of the member."""
    with archive.open(member) as stream:
        if npy.read_magic(stream) != (1, 0):
            raise misfit(member.filename, "an array in NumPy's format 1.0")
        shape, is_fortran, dtype = npy.read_array_header_1_0(stream)
        n_bytes = stream.tell() + math.prod(shape) * dtype.itemsize
        if not is_storable(dtype) or n_bytes != member.file_size:
            raise misfit(member.filename, f"an array of {member.file_size} bytes", (dtype, shape))
        order = "F" if is_fortran else "C"
        array = np.empty(shape, dtype, order)
        left = memoryview(array.reshape(-1, order=order).view(np.uint8))
        while len(left):
            n_read = stream.readinto(left)
            if not n_read:
                raise misfit(member.filename, "longer")
            left = left[n_read:]
        # Reading the end of the member verifies its checksum.
        stream.read(1)
    if array.dtype.kind == "U":
        codes = array.reshape(-1).view(f"{array.dtype.str[0]}u4")
        if codes.max(initial=0) > 0x10FFFF:
            raise misfit(member.filename, "of Unicode strings")
    return array
