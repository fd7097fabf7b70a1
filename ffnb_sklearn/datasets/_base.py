"""Line-numbered reading of text files, and messages about files, shared by the loaders."""

from pathlib import Path

import numpy as np

# Characters or bytes of a file that a message repeats; a path of the data sets has fewer.
LONGEST_SHOWN = 80


def data_folder(data_home):
    """Return `data_home` as a `Path`, or raise if no such folder exists."""
    folder = Path(data_home).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"data_home must be an existing folder, got {str(folder)!r}.")
    return folder


def require_file(path, reason):
    """Return `path`, or raise naming the file and why it was expected."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; {reason}.")
    return path


def malformed(path, line, message):
    """Build the error of line `line` (counted from 1) of the file `path`."""
    return ValueError(f"{path}, line {line}: {message}")


def read_lines(path):
    """Return the lines of a text file as bytes, without blank lines at its end.

    LF and CRLF line ends are both accepted.
    """
    lines = path.read_bytes().splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise malformed(path, 1, "the file is empty.")
    return lines


def read_frames(path, shape, *, separator=None):
    """Read one skeleton sequence: a frame number, then the joints, on each line.

    Parameters
    ----------
    path : Path
        The text file.

    shape : tuple of int
        Shape of one frame, such as ``(21, 3)``; a line holds 1 + prod(shape) fields.

    separator : bytes, default=None
        What separates the fields; None stands for any run of blanks.

    Returns
    -------
    ndarray of shape (n_frames, *shape), float64
        The values of the file, unchanged.

    Raises
    ------
    ValueError
        If a line has the wrong number of fields, a field that is not a finite number, or a
        frame number that does not exceed the one before; the message names file and line.
    """
    n_fields = 1 + int(np.prod(shape))
    lines = read_lines(path)
    table = np.array([_numbers(path, i, line, separator, n_fields) for i, line in count(lines)])
    _check_finite(path, table)
    _check_frame_numbers(path, table[:, 0])
    return np.ascontiguousarray(table[:, 1:]).reshape(len(table), *shape)


def count(lines):
    """Return the lines of a file numbered from 1, as editors do."""
    return enumerate(lines, start=1)


def shown(value):
    """Return a short text that shows a value of a file in a message, whatever its size."""
    if isinstance(value, bytes | str):
        text = repr(value[:LONGEST_SHOWN]).removeprefix("b")
        return text if len(value) <= LONGEST_SHOWN else f"{text}... of length {len(value)}"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"  # Python prints no more than 4300 digits
    if value is None or isinstance(value, int | float):
        return repr(value)
    return f"an object of type {type(value).__name__}"


def _numbers(path, number, line, separator, n_fields):
    """Convert the fields of one line to floats."""
    fields = line.split(separator)
    if len(fields) != n_fields:
        raise malformed(path, number, f"expected {n_fields} values, got {len(fields)}.")
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


def _check_finite(path, table):
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if bad.size:
        raise malformed(path, bad[0] + 1, "expected finite values, got NaN or infinity.")


def _check_frame_numbers(path, frames):
    """Frame numbers are integers that rise: a file pasted twice must not pass for one."""
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
