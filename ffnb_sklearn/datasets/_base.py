"""Read text files with line numbers, and format messages about files, for all loaders."""

import errno
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
    if not _is_there(folder.is_dir):
        found = shown(str(folder), _LONGEST_PATH)
        raise FileNotFoundError(f"data_home must be an existing folder, got {found}.")
    return folder


def require_file(path, reason):
    """Return `path`, or raise an error that names the file and why it was expected."""
    if not _is_there(path.is_file):
        found = shown(str(path), _LONGEST_PATH)[1:-1] if len(str(path)) > _LONGEST_PATH else path
        raise FileNotFoundError(f"{found}: no such file; {reason}.")
    return path


def _is_there(is_of_kind):
    """Return the result of `Path.is_dir` or `Path.is_file`; False if the name is too long."""
    try:
        return is_of_kind()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


def malformed(path, line, message):
    """Return the error for line `line` (counted from 1) of the file `path`."""
    return ValueError(f"{path}, line {line}: {message}")


def read_lines(path):
    """Yield the lines of a text file as bytes, with their numbers, counted from 1.

    LF and CRLF line ends are both accepted. Blank lines at the end of the file are left out; of
    other blank lines in a row, only the first is yielded. Only one line is in memory, so that a
    caller that rejects a line does not read the rest of an unsuitable file.
    """
    blank, number, is_empty = None, 0, True
    with path.open("rb") as file:
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE:
                raise malformed(path, number, f"expected fewer than {_LONGEST_LINE} bytes.")
            if not line.strip():
                blank = blank or number
                continue
            if blank:
                yield blank, b""
            blank, is_empty = None, False
            yield number, line.rstrip(b"\r\n")
    if is_empty:
        raise malformed(path, 1, "the file is empty.")


def read_frames(path, shape, *, separator=None):
    """Read one skeleton sequence with a frame number and then the joints on each line.

    Return an array of shape (n_frames, *shape) with the values of the file, unchanged. The fields
    are separated by `separator`, or by any run of blanks. An error names the file and the line.
    """
    n_fields = 1 + int(np.prod(shape))
    rows = [_numbers(path, i, line, separator, n_fields) for i, line in read_lines(path)]
    table = np.array(rows)
    _check_size(path, table)
    _check_frame_numbers(path, table[:, 0])
    return np.ascontiguousarray(table[:, 1:]).reshape(len(table), *shape)


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
    try:
        if b"_" not in line:  # Python reads 1_0 as 10
            return [float(field) for field in fields]
    except ValueError:
        pass
    wrong = next(field for field in fields if not _is_number(field))
    raise malformed(path, number, f"expected a number, got {shown(wrong)}.")


def _is_number(field):
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


def _check_size(path, table):
    """Raise if a number is NaN, infinite, or larger than `_LARGEST` in absolute value."""
    bad = np.flatnonzero(~(np.abs(table) <= _LARGEST).all(axis=1))
    if bad.size:
        found = next(one for one in table[bad[0]] if not abs(one) <= _LARGEST)
        raise malformed(
            path, bad[0] + 1, f"expected finite values up to {_LARGEST:g}, got {found:g}."
        )


def _check_frame_numbers(path, frames):
    """Raise unless frame numbers are increasing integers, which detects a file pasted twice."""
    fraction = np.flatnonzero(frames != np.floor(frames))
    if fraction.size:
        i = fraction[0]
        raise malformed(path, i + 1, f"expected an integer frame number, got {frames[i]:g}.")
    falling = 1 + np.flatnonzero(np.diff(frames) <= 0)
    if falling.size:
        i = falling[0]
        raise malformed(
            path, i + 1, f"frame number {frames[i]:.15g} does not exceed {frames[i - 1]:.15g}."
        )
