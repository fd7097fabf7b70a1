"""The memory that one file may take when it is loaded: one budget for all its parts.

The budget pays for all that takes more memory than it has bytes in the file: the values of JSON
texts, labels of unequal lengths, what is drawn from a seed or follows from sizes, and the arrays of
skops, at each reference. It does not pay for the arrays of the file, because each is read once.
"""

import io
import json
import zipfile

__all__ = ["Budget", "spend_on_skops", "spend_on_text"]

# Memory that all parts of a file may take together: 1 GB, and a multiple of the size of the file.
_ALLOWANCE = 1 << 30
_PER_FILE_BYTE = 4

# Bytes per character of a JSON text, which is decoded and cut into strings. A single character
# outside of Latin-1 widens all characters of a string.
_PER_CHARACTER, _PER_WIDE_CHARACTER = 2, 8

# Bytes per value, and the characters before values: a value is an empty container, say, and what is
# created from it.
_PER_VALUE = 64
_BEFORE_VALUES = b"[{,:"

_SKOPS_TEXT = "schema.json"

# First bytes by which NumPy recognizes an archive of arrays.
_ARCHIVE_MARK = b"PK"


class Budget:
    """Memory in bytes that the parts of a file of a given size share."""

    def __init__(self, file_size):
        self._total = _ALLOWANCE + _PER_FILE_BYTE * file_size
        self._remaining = self._total

    def spend(self, n_bytes, what):
        """Take memory for a part of the file; raise `ValueError` if too little remains."""
        if not 0 <= n_bytes <= self._remaining:
            spent = self._total - self._remaining
            raise ValueError(
                f"{what} would take {n_bytes:.3g} bytes of memory, beside {spent:.3g} for other "
                f"parts; all parts of the file may take {self._total:.3g}"
            )
        self._remaining -= n_bytes


def spend_on_text(budget, text):
    """Take the memory of the values of a JSON text, before it is read."""
    n_values = sum(text.count(character) for character in _BEFORE_VALUES)
    is_wide = not text.isascii() or b"\\u" in text
    per_character = _PER_WIDE_CHARACTER if is_wide else _PER_CHARACTER
    budget.spend(per_character * len(text) + _PER_VALUE * n_values, "the JSON text")


def spend_on_skops(budget, data):
    """Take the memory of an estimator in the bytes of skops, before it is read.

    skops reads the bytes of an array once per reference, unless references have the same number.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        budget.spend(archive.getinfo(_SKOPS_TEXT).file_size, "the JSON text of skops")
        text = archive.read(_SKOPS_TEXT)
        spend_on_text(budget, text)
        sizes = {}
        seen = set()
        for number, name in _references(json.loads(text)):
            if name not in sizes:
                sizes[name] = _size_in_memory(archive, name)
            if number not in seen:
                budget.spend(sizes[name], "the arrays of skops")
            if number:
                seen.add(number)


def _references(value):
    """Yield the number and the file name of each reference to an array in the JSON of skops."""
    open_values = [value]
    while open_values:
        value = open_values.pop()
        if isinstance(value, dict):
            if isinstance(value.get("file"), str):
                yield value.get("__id__"), value["file"]
            open_values.extend(value.values())
        elif isinstance(value, list):
            open_values.extend(value)


def _size_in_memory(archive, name):
    """Return the size of a member, or of what it unpacks to: sparse arrays are archives."""
    size = archive.getinfo(name).file_size
    with archive.open(name) as member:
        is_archive = member.read(len(_ARCHIVE_MARK)) == _ARCHIVE_MARK
    if is_archive:
        with zipfile.ZipFile(io.BytesIO(archive.read(name))) as parts:
            size += sum(part.file_size for part in parts.infolist())
    return size
