"""Read the files of the data sets, and format messages about them."""

from pathlib import Path

import numpy as np

# Most characters or bytes of a file that a message repeats; paths of the data sets are shorter.
LONGEST_SHOWN = 80


def data_folder(data_home):
    """Return `data_home` as a `Path` with `~` expanded, or raise if no such folder exists."""
    folder = Path(data_home).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"data_home must be an existing folder, got {str(folder)!r}.")
    return folder


def require_file(path, reason):
    """Return `path`, or raise an error that names the file and why it was expected."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; {reason}.")
    return path


def malformed(path, line, message):
    """Return the error for line `line` (counted from 1) of the file `path`."""
    return ValueError(f"{path}, line {line}: {message}")


def read_lines(path):
    """Return the lines of a text file as bytes, without blank lines at its end."""
    lines = path.read_bytes().rstrip().splitlines()
    if not lines:
        raise malformed(path, 1, "the file is empty.")
    return lines


def read_frames(path, shape, *, separator=None):
    """Read one skeleton sequence with a frame number and then the joints on each line.

    Return an array of shape (n_frames, *shape) with the values of the file, unchanged. The fields
    are separated by `separator`, or by any run of blanks. An error names the file and the line.
    """
    n_fields = 1 + int(np.prod(shape))
    lines = read_lines(path)
    frames = np.empty((len(lines), n_fields - 1))
    for i, line in enumerate(lines):
        fields = line.split(separator)
        if len(fields) != n_fields:
            raise malformed(path, i + 1, f"expected {n_fields} values, got {len(fields)}.")
        try:
            frames[i] = [float(field) for field in fields][1:]
        except ValueError as error:
            raise malformed(path, i + 1, f"{error!s:.200}.") from None
        if not np.isfinite(frames[i]).all():
            raise malformed(path, i + 1, "expected finite values, got NaN or infinity.")
    return frames.reshape(-1, *shape)


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
