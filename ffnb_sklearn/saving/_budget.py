"""The memory that a file may take when it is loaded: a budget that all its parts share.

The budget counts everything that takes more memory than bytes in the file: the values of JSON
texts, labels of unequal lengths, arrays that are drawn from a seed or whose shapes follow from
parameters, and the arrays of skops at each reference. It does not count the arrays of the file,
because each is read once.
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
_PER_CHARACTER = 2
_PER_WIDE_CHARACTER = 8

# Bytes per value, such as an empty container and the object that is created from it. Each value
# follows one of these characters.
_PER_VALUE = 64
_BEFORE_VALUES = b"[{,:"

_SKOPS_TEXT = "schema.json"

# First bytes by which NumPy recognizes an archive of arrays.
_ARCHIVE_MARK = b"PK"


class Budget:
    """Memory in bytes that the parts of a file share."""

    def __init__(self, file_size):
        self._total = _ALLOWANCE + _PER_FILE_BYTE * file_size
        self._remaining = self._total

    def spend(self, n_bytes, name):
        """Take memory for a part of the file; raise `ValueError` if too little remains."""
        if not 0 <= n_bytes <= self._remaining:
            spent = self._total - self._remaining
            raise ValueError(
                f"{name} would take {n_bytes:.3g} bytes of memory, beside {spent:.3g} for other "
                f"parts; all parts of the file may take {self._total:.3g}"
            )
        self._remaining -= n_bytes


def spend_on_text(budget, text):
    """Take the memory of the values of a JSON text, before it is read."""
    per_character = _PER_CHARACTER
    if not text.isascii() or b"\\u" in text:
        per_character = _PER_WIDE_CHARACTER
    n_values = 0
    for character in _BEFORE_VALUES:
        n_values += text.count(character)
    n_bytes = per_character * len(text) + _PER_VALUE * n_values
    budget.spend(n_bytes, "the JSON text")


def spend_on_skops(budget, data):
    """Take the memory of an estimator in the bytes of skops, before it is read."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        text_size = archive.getinfo(_SKOPS_TEXT).file_size
        budget.spend(text_size, "the JSON text of skops")
        text = archive.read(_SKOPS_TEXT)
        spend_on_text(budget, text)
        _spend_on_arrays(budget, archive, json.loads(text))


def _spend_on_arrays(budget, archive, content):
    """Take the memory of the arrays to which the JSON of skops refers.

    skops reads the bytes of an array once per reference, unless references have the same number.
    """
    sizes = {}
    read_numbers = set()
    for number, name in _references(content):
        if name not in sizes:
            sizes[name] = _size_in_memory(archive, name)
        if number not in read_numbers:
            budget.spend(sizes[name], "the arrays of skops")
        if number:
            read_numbers.add(number)


def _references(content):
    """Yield the number and the file name of each reference to an array in the JSON of skops."""
    open_values = [content]
    while open_values:
        value = open_values.pop()
        if isinstance(value, dict):
            if isinstance(value.get("file"), str):
                yield value.get("__id__"), value["file"]
            open_values.extend(value.values())
        elif isinstance(value, list):
            open_values.extend(value)


def _size_in_memory(archive, name):
    """Return the size of a member of an archive, with its arrays if it is an archive itself.

    skops stores a sparse array as an archive of dense arrays.
    """
    size = archive.getinfo(name).file_size
    with archive.open(name) as member:
        first_bytes = member.read(len(_ARCHIVE_MARK))
    if first_bytes != _ARCHIVE_MARK:
        return size
    data = archive.read(name)
    with zipfile.ZipFile(io.BytesIO(data)) as inner_archive:
        for info in inner_archive.infolist():
            size += info.file_size
    return size
