"""Atomic replacement of files: readers get the old file or the new file, never a part of it."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

__all__ = ["replaced_file"]

# Leading characters of a file name that its temporary files repeat; file systems limit the length.
_LONGEST_STEM = 50

# Permissions that the system gives a new file, before it removes those that the user denies.
_NEW_FILE = 0o666
_OWNER_ONLY = 0o600


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file, and replace a file by it when the block ends without an error.

    The temporary file lies in the same folder, and its bytes are on the disk before it is moved
    over the old file. It gets the permissions of the old file, or those of any new file. If the
    path is a link, the link stays and its target is replaced.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder of {str(path)!r} does not exist")
    if path.exists() and not path.is_file():
        raise OSError(f"{str(path)!r} is not a regular file and is not replaced")
    old_mode = None
    first_mode = _NEW_FILE
    if path.exists():
        status = path.stat()
        old_mode = stat.S_IMODE(status.st_mode)
        # Users without access to the old file must not get access to the new one.
        first_mode = old_mode & _OWNER_ONLY
    stem = path.name[:_LONGEST_STEM]
    suffix = secrets.token_hex(8)
    temporary = path.with_name(f".{stem}.{suffix}.partial")
    opener = partial(os.open, mode=first_mode)
    try:
        with open(temporary, "x+b", opener=opener) as file:
            yield file
            file.flush()
            # Without this call, the new name could reach the disk before the bytes.
            os.fsync(file.fileno())
        if old_mode is not None:
            temporary.chmod(old_mode)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
