"""Atomic replacement of files: a reader finds the old file or the new file, never a part."""

import os
import secrets
import stat
from contextlib import contextmanager
from functools import partial
from pathlib import Path

__all__ = ["replaced_file"]

# Leading characters of a file name that its temporary files repeat; file systems limit the length.
_LONGEST_STEM = 50


@contextmanager
def replaced_file(path):
    """Open a file for reading and writing that replaces another when the block ends without error.

    The bytes are written to a temporary file in the same folder, and are on the disk before it is
    moved over the old file. It has the permissions of the old file, or those of any new file. If
    the path is a link, the link stays and its target is replaced.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder of {str(path)!r} does not exist")
    if path.exists() and not path.is_file():
        raise OSError(f"{str(path)!r} is not a regular file and is not replaced")
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    temporary = path.with_name(f".{path.name[:_LONGEST_STEM]}.{secrets.token_hex(8)}.partial")
    # No one may read the new file who may not read the old file.
    opener = partial(os.open, mode=0o666 if mode is None else mode & 0o600)
    try:
        with open(temporary, "x+b", opener=opener) as file:
            yield file
            file.flush()
            # Without this call the name could reach the disk before the bytes.
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
