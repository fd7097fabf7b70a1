"""Read text files with line numbers, and format messages about files, for all loaders."""

import os
from pathlib import Path

import numpy as np

# Most characters or bytes of a file that a message repeats; paths of the data sets are shorter.
LONGEST_SHOWN = 80

# Most characters of a path that a message repeats; file systems allow longer paths.
_LONGEST_PATH = 1000

# Longest line, in bytes; the lines of the data sets have a few hundred.
_LONGEST_LINE = 1 << 16

# Largest absolute value in a text file, so that sums of squares in descriptors stay finite.
_LARGEST = 1e100


def user_path(path, name):
    """Return a path of the user with `~` expanded; `name` is the parameter name in the message."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        found = shown(str(path), _LONGEST_PATH)
        raise FileNotFoundError(f"{name} must be an existing path, got {found}: {error}") from None


def data_folder(data_home):
    """Return `data_home` as a `Path`, or raise if no such folder exists."""
    folder = user_path(data_home, "data_home")
    if not os.path.isdir(folder):  # unlike `Path.is_dir`, this is False for a name that is too long
        found = shown(str(folder), _LONGEST_PATH)
        raise FileNotFoundError(f"data_home must be an existing folder, got {found}.")
    return folder


def require_file(path, reason):
    """Return `path`, or raise an error that names the file and why it was expected."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{str(path)[:_LONGEST_PATH]}: no such file; {reason}.")
    return path


def malformed(path, line, message):
    """Return the error for line `line` (counted from 1) of the file `path`."""
    return ValueError(f"{path}, line {line}: {message}")


def read_lines(path):
    """Yield the lines of a text file as bytes, with their numbers, counted from 1.

    LF and CRLF line ends are both accepted, and blank lines at the end of the file are left out.
    Only one line is in memory, so that a caller that rejects a line does not read the rest.
    """
    number, n_blank = 0, 0
    with path.open("rb") as file:
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE:
                raise malformed(path, number, f"expected fewer than {_LONGEST_LINE} bytes.")
            if not line.strip():
                n_blank += 1
                continue
            if n_blank:
                raise malformed(path, number - n_blank, "expected values, got a blank line.")
            yield number, line.rstrip(b"\r\n")
    if number == n_blank:
        raise malformed(path, 1, "the file is empty.")


def read_frames(path, shape, *, separator=None):
    """Read one skeleton sequence with a frame number and then the joints on each line.

    Return an array of shape (n_frames, *shape) with the values of the file, unchanged. The fields
    are separated by `separator`, or by any run of blanks. An error names the file and the line.
    """
    n_fields = 1 + int(np.prod(shape))
    rows = [_numbers(path, i, line, separator, n_fields) for i, line in read_lines(path)]
    _check_frame_numbers(path, [row[0] for row in rows])
    return np.array([row[1:] for row in rows]).reshape(len(rows), *shape)


def shown(value, longest=LONGEST_SHOWN):
    """Return a short text for a value of any size, to show it in a message."""
    if isinstance(value, bytes | str):
        text = repr(value[:longest]).removeprefix("b")
        return text if len(value) <= longest else f"{text}... of length {len(value)}"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"  # Python prints no more than 4300 digits
    if value is None or isinstance(value, int | float):
        return repr(value)
    return f"an object of type {type(value).__name__}"


def _numbers(path, number, line, separator, n_fields):
    """Convert the fields of one line to floats."""
    fields = line.split(separator, n_fields)
    if len(fields) != n_fields:
        found = len(fields) if len(fields) < n_fields else "more"
        raise malformed(path, number, f"expected {n_fields} values, got {found}.")
    return [_number(path, number, field) for field in fields]


def _number(path, line, field):
    """Convert one field to a float of at most `_LARGEST` in absolute value."""
    try:
        value = float(field) if b"_" not in field else None  # Python reads 1_0 as 10
    except ValueError:
        value = None
    if value is None:
        raise malformed(path, line, f"expected a number, got {shown(field)}.")
    if not abs(value) <= _LARGEST:
        raise malformed(path, line, f"expected finite values up to {_LARGEST:g}, got {value:g}.")
    return value


def _check_frame_numbers(path, frames):
    """Raise unless frame numbers are increasing integers, which detects a file pasted twice."""
    for i, frame in enumerate(frames):
        if not frame.is_integer():
            raise malformed(path, i + 1, f"expected an integer frame number, got {frame:g}.")
        if i and frame <= frames[i - 1]:
            raise malformed(
                path, i + 1, f"frame number {frame:.15g} does not exceed {frames[i - 1]:.15g}."
            )
