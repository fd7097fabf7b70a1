"""The container of a model file: a ZIP archive of a JSON text and arrays, with a digest.

The archive holds `model.json`, then `arrays/0.npy`, `arrays/1.npy` and so on in NumPy's format,
uncompressed. Its comment, at the end of the file, is a mark and the SHA-256 of all bytes before the
digest. Every version of the package must read this container. An older version can therefore
distinguish a newer file, whose version is in the JSON text, from a damaged file.
"""

import hashlib
import json
import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

__all__ = [
    "KINDS",
    "Array",
    "Budget",
    "Json",
    "ModelFileError",
    "read_container",
    "reread_container",
    "spend_on_text",
    "write_container",
]

# Values of a JSON text.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

# Arrays of a file, of any of these kinds.
Array: TypeAlias = npt.NDArray[np.generic]

# Kinds of arrays: booleans, integers, floating-point and complex numbers, strings.
KINDS = "biufcU"

_MARK = b"ffnb_sklearn model, sha256 "
_DIGEST_LENGTH = 64
_TEXT = "model.json"
_CHUNK = 1 << 20

# Largest code of a character of Unicode.
_LARGEST_CODE = 0x10FFFF


# Memory that all parts of a file may take together: 1 GB, and a multiple of the size of the file.
_ALLOWANCE = 1 << 30
_PER_FILE_BYTE = 4

# Bytes per character of a JSON text, which is decoded and cut into strings. A single character
# outside of Latin-1 widens all characters of a string.
_PER_CHARACTER = 2
_PER_WIDE_CHARACTER = 8

# Bytes per value, such as an empty container and the object that is created from it. Each value
# follows one of these characters.
_PER_VALUE = 64
_BEFORE_VALUES = b"[{,:"


class ModelFileError(ValueError):
    """A file is not a model file, is damaged, has a newer format, or holds no valid model."""


class Budget:
    """Memory in bytes that the parts of a file share when it is loaded.

    The budget counts everything that takes more memory than bytes in the file: the values of JSON
    texts, labels of unequal lengths, arrays that are drawn from a seed or whose shapes follow from
    parameters, and the arrays of skops at each reference. It does not count the arrays of the file,
    because each is read once.
    """

    def __init__(self, file_size: int) -> None:
        self._total = _ALLOWANCE + _PER_FILE_BYTE * file_size
        self._remaining = self._total

    def spend(self, n_bytes: int, name: str) -> None:
        """Take memory for a part of the file; raise `ValueError` if too little remains."""
        if not 0 <= n_bytes <= self._remaining:
            spent = self._total - self._remaining
            raise ValueError(
                f"{name} would take {n_bytes:.3g} bytes of memory, beside {spent:.3g} for other "
                f"parts; all parts of the file may take {self._total:.3g}"
            )
        self._remaining -= n_bytes


def spend_on_text(budget: Budget, text: bytes) -> None:
    """Take the memory of the values of a JSON text, before it is read."""
    per_character = _PER_CHARACTER
    if not text.isascii() or b"\\u" in text:
        per_character = _PER_WIDE_CHARACTER
    n_values = 0
    for character in _BEFORE_VALUES:
        n_values += text.count(character)
    n_bytes = per_character * len(text) + _PER_VALUE * n_values
    budget.spend(n_bytes, "the JSON text")


def write_container(file: BinaryIO, content: Json, arrays: Sequence[Array]) -> None:
    """Write a container to an empty file that is open for reading and writing."""
    with zipfile.ZipFile(file, "w") as archive:
        # A `ZipInfo` without a time has a fixed date, so equal estimators have equal files.
        archive.writestr(zipfile.ZipInfo(_TEXT), json.dumps(content))
        for index, array in enumerate(arrays):
            info = zipfile.ZipInfo(_array_name(index))
            # The archive reserves the fields of a large member if this estimate is large.
            info.file_size = array.nbytes
            with archive.open(info, "w") as member:
                npy.write_array(member, array, version=(1, 0), allow_pickle=False)
        archive.comment = _MARK + b"0" * _DIGEST_LENGTH
    digest = _digest(file)
    file.write(digest)


def read_container(file: BinaryIO, budget: Budget) -> tuple[Json, list[Array]]:
    """Return the content of the JSON text and the arrays of a file, which may hold any bytes.

    Raise `ModelFileError` if the file is not a container, if any bit has changed, or if the text
    takes more memory than the budget.
    """
    with _open_container(file, budget) as (archive, content):
        # All members but the JSON text are arrays.
        n_arrays = len(archive.infolist()) - 1
        arrays = [_read_array(archive, index) for index in range(n_arrays)]
        return content, arrays


def reread_container(file: BinaryIO, budget: Budget) -> Json:
    """Return the content of the JSON text of a file that has been written.

    Raise `ModelFileError` if the bytes of the file differ from the bytes that were written. No
    memory is allocated for the arrays: the check sums in the archive were computed from the arrays
    in memory.
    """
    with _open_container(file, budget) as (archive, content):
        if archive.testzip() is not None:
            raise ModelFileError("the file differs from what was written.")
        return content


@contextmanager
def _open_container(file: BinaryIO, budget: Budget) -> Iterator[tuple[zipfile.ZipFile, Json]]:
    """Verify the digest of a file, then yield the archive and the content of the JSON text."""
    _verify_digest(file)
    file_size = file.seek(0, 2)
    try:
        with zipfile.ZipFile(file) as archive:
            _check_is_stored(archive, file_size)
            yield archive, _read_text(archive, budget)
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:
        # A forged archive with a valid digest can raise an error of nearly any kind.
        raise ModelFileError("the file is a damaged archive.") from error


def _verify_digest(file: BinaryIO) -> None:
    """Raise `ModelFileError` unless a file ends with the mark and the digest of its bytes."""
    length = len(_MARK) + _DIGEST_LENGTH
    file_size = file.seek(0, 2)
    file.seek(max(0, file_size - length))
    comment = file.read()
    if len(comment) < length or not comment.startswith(_MARK):
        raise ModelFileError(
            "the file is cut short, or was not written by ffnb_sklearn.save: its end lacks the "
            "digest."
        )
    if _digest(file) != comment[len(_MARK) :]:
        raise ModelFileError("the file is damaged: its digest does not fit its content.")


def _check_is_stored(archive: zipfile.ZipFile, file_size: int) -> None:
    """Raise `ModelFileError` if members of an archive would expand when they are read."""
    members = archive.infolist()
    is_compressed = any(info.compress_type != zipfile.ZIP_STORED for info in members)
    members_size = sum(info.file_size for info in members)
    if is_compressed or members_size > file_size:
        raise ModelFileError("the archive is compressed, or larger than the file.")


def _read_text(archive: zipfile.ZipFile, budget: Budget) -> Json:
    """Return the content of the JSON text."""
    text = archive.read(_TEXT)
    try:
        spend_on_text(budget, text)
    except ValueError as error:
        raise ModelFileError(f"{error}.") from error
    content: Json = json.loads(text)
    return content


def _array_name(index: int) -> str:
    """Return the name of an array in the archive."""
    return f"arrays/{index}.npy"


def _digest(file: BinaryIO) -> bytes:
    """Return the SHA-256 of a file without its last 64 bytes, and seek to these bytes."""
    digest = hashlib.sha256()
    n_remaining = file.seek(0, 2) - _DIGEST_LENGTH
    file.seek(0)
    while n_remaining:
        n_bytes = min(_CHUNK, n_remaining)
        chunk = file.read(n_bytes)
        digest.update(chunk)
        n_remaining -= len(chunk)
    return digest.hexdigest().encode()


def _read_array(archive: zipfile.ZipFile, index: int) -> Array:
    """Return an array; allocate no memory before its size is compared with that of the member."""
    name = _array_name(index)
    member_size = archive.getinfo(name).file_size
    with archive.open(name) as member:
        npy.read_magic(member)
        shape, _, dtype = npy.read_array_header_1_0(member)
        header_size = member.tell()
        array_size = math.prod(shape) * dtype.itemsize
        if dtype.kind not in KINDS or header_size + array_size != member_size:
            raise ModelFileError(f"{name} must be an array of as many bytes as the member.")
        member.seek(0)
        array = npy.read_array(member, allow_pickle=False)
    if dtype.kind == "U":
        # Python does not check the codes of NumPy's strings.
        codes = array.reshape(-1).view(f"{dtype.str[0]}u4")
        if codes.max(initial=0) > _LARGEST_CODE:
            raise ModelFileError(f"{name} must hold Unicode strings.")
    return array
