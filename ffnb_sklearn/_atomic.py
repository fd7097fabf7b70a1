"""Atomic replacement of files: a reader finds the old file or the new file, never a part."""

import errno
import hashlib
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

try:
    import fcntl
except ImportError:
    # Windows has no such locks, and cannot remove an open file.
    fcntl = None

__all__ = ["HashedFile", "replaced_file"]

# Leading characters of a file name that its temporary files repeat; file systems limit the length.
_LONGEST_STEM = 50

_TOKEN_BYTES = 8


class HashedFile:
    """File that is written sequentially, with the SHA-256 digest of its bytes."""

    def __init__(self, file):
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data):
        """Write bytes, and return their number."""
        self.digest.update(data)
        return self._file.write(data)

    def flush(self):
        """Flush the file."""
        self._file.flush()


@contextmanager
def replaced_file(path):
    """Open a file for writing that replaces another file if the block ends without an error.

    The bytes are written to a temporary file in the same folder. Once they are on the disk, the
    temporary file is moved over the old file, whose permissions it takes over. Temporary files of
    killed writers are removed. If the path is a link, the link stays and its target is replaced.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist", str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    _remove_leftovers(path)
    partial, file = _open_partial(path)
    try:
        with file:
            if fcntl is not None and path.exists():
                _take_over(file.fileno(), path.stat())
            yield file
            file.flush()
            # Without this call the name could reach the disk before the bytes.
            os.fsync(file.fileno())
            if fcntl is None:
                # Windows does not move an open file.
                file.close()
            os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _take_over(descriptor, old):
    """Give a new file the owner, where that is allowed, and the permissions of the old file."""
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
    # Some file systems have one mode for all files, and refuse to change it.
    if stat.S_IMODE(new.st_mode) != stat.S_IMODE(old.st_mode):
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _stem(path):
    """Return the part of a name that its temporary files repeat."""
    return path.name[:_LONGEST_STEM]


def _open_partial(path):
    """Create a temporary file, and lock it to show other writers that it is in use."""
    while True:
        token = secrets.token_hex(_TOKEN_BYTES)
        partial = path.with_name(f".{_stem(path)}.{token}.partial")
        file = partial.open("xb")
        _lock(file)
        # Another writer may have removed the file as a leftover before it was locked.
        if fcntl is None or os.fstat(file.fileno()).st_nlink:
            return partial, file
        file.close()


def _lock(file):
    """Lock a file unless another process has locked it; return whether it is locked now."""
    if fcntl is not None:
        # Some network file systems have no locks; leftovers stay there.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _remove_leftovers(path):
    """Remove the temporary files of writers that no longer exist."""
    token = "[0-9a-f]" * (2 * _TOKEN_BYTES)
    for leftover in path.parent.glob(f".{escape(_stem(path))}.{token}.partial"):
        with suppress(OSError):
            if fcntl is None:
                leftover.unlink()
                continue
            with leftover.open("rb") as file:
                if _lock(file):
                    leftover.unlink()


def _sync_folder(folder):
    """Write the names in a folder to the disk, if the system supports this."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
