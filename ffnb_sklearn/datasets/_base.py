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


def subfolder_if_present(folder, name):
    """Return a subfolder, or the folder itself if it has no such subfolder."""
    subfolder = folder / name
    if subfolder.is_dir():
        return subfolder
    return folder


def require_file(path, reason):
    """Return `path`, or raise an error that names the file and why it was expected."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; {reason}.")
    return path


def line_error(path, line, message):
    """Return the error for line `line` (counted from 1) of the file `path`."""
    return ValueError(f"{path}, line {line}: {message}")


def read_lines(path):
    """Return the lines of a text file as bytes, without blank lines at its end."""
    content = path.read_bytes()
    lines = content.rstrip().splitlines()
    if not lines:
        raise line_error(path, 1, "the file is empty.")
    return lines


def read_frames(path, shape, *, separator=None):
    """Read one skeleton sequence with a frame number and then the joints on each line.

    Return an array of shape (n_frames, *shape) with the values of the file, unchanged. The fields
    are separated by `separator`, or by any run of blanks. An error names the file and the line.
    """
    lines = read_lines(path)
    n_values = int(np.prod(shape))
    frames = np.empty((len(lines), n_values))
    for frame, line in enumerate(lines):
        number = frame + 1
        fields = line.split(separator)
        if len(fields) != n_values + 1:
            raise line_error(path, number, f"expected {n_values + 1} values, got {len(fields)}.")
        try:
            values = [float(field) for field in fields]
        except ValueError as error:
            raise line_error(path, number, f"{error!s:.200}.") from None
        frames[frame] = values[1:]
        if not np.isfinite(frames[frame]).all():
            raise line_error(path, number, "expected finite values, got NaN or infinity.")
    return frames.reshape(-1, *shape)


def short_text(value, longest=LONGEST_SHOWN):
    """Return a short text for a value of any size, to show it in a message."""
    if isinstance(value, bytes | str):
        text = repr(value[:longest]).removeprefix("b")
        if len(value) > longest:
            text = f"{text}... of length {len(value)}"
        return text
    if isinstance(value, int) and value.bit_length() > 128:
        # Python prints no more than 4300 digits.
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, int | float):
        return repr(value)
    return f"an object of type {type(value).__name__}"
