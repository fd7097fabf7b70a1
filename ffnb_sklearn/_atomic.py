"""Atomic replacement of files: a reader finds the old file or the new file, never a part."""

import errno
import functools
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

    The bytes are written to a temporary file in the same folder, which only its owner can read.
    Once they are on the disk, the temporary file gets the permissions of the old file, or those
    that the umask gives a new file, and is moved over the old file. Temporary files of killed
    writers are removed. If the path is a link, the link stays and its target is replaced.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "its folder does not exist", str(path))
    _check_replaceable(path)
    _remove_leftovers(path)
    partial, file = _open_partial(path)
    try:
        with file:
            yield file
            file.flush()
            # Without this call the name could reach the disk before the bytes.
            os.fsync(file.fileno())
            _check_replaceable(path)
            if fcntl is None:
                # Windows does not move an open file.
                file.close()
            else:
                _publish(file.fileno(), path)
            os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _check_replaceable(path):
    """Raise `OSError` if a path is a folder, a pipe, a socket or a device."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file and is not replaced", str(path))


def _publish(descriptor, path):
    """Give a private file the owner and the permissions of the file that it replaces."""
    try:
        old = path.stat()
    except FileNotFoundError:
        mode = _mode_of_new_files(path)
    else:
        mode, new = stat.S_IMODE(old.st_mode), os.fstat(descriptor)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            # Only some users can give files away.
            with suppress(PermissionError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
    # Some file systems have one mode for all files, and refuse to change it.
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
        os.fchmod(descriptor, mode)


def _mode_of_new_files(path):
    """Return the permissions of a new file in the folder of a path.

    The umask can only be read by changing it, which would change the files that other threads
    create meanwhile. So an empty file is created instead.
    """
    sample = _partial_name(path)
    descriptor = os.open(sample, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)
        sample.unlink(missing_ok=True)


def _partial_name(path):
    """Return a new name for a temporary file."""
    return path.with_name(f".{path.name[:_LONGEST_STEM]}.{secrets.token_hex(_TOKEN_BYTES)}.partial")


def _open_partial(path):
    """Create a temporary file, and lock it to show other writers that it is in use."""
    while True:
        partial = _partial_name(path)
        # Only the owner can read the file, which the caller closes.
        file = open(partial, "xb", opener=functools.partial(os.open, mode=0o600))  # noqa: SIM115
        locked = _lock(file)
        # Another writer may take the file for a leftover of a killed writer before it is locked:
        # it then has the lock and removes the file, or has removed the file.
        if locked is None or (locked and os.fstat(file.fileno()).st_nlink):
            return partial, file
        file.close()
        partial.unlink(missing_ok=True)


def _lock(file):
    """Lock a file; return whether that succeeded, or None on a file system without locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Some network file systems have no locks; leftovers stay there.
        return None
    return True


def _remove_leftovers(path):
    """Remove the temporary files of writers that no longer exist."""
    stem, token = escape(path.name[:_LONGEST_STEM]), "[0-9a-f]" * (2 * _TOKEN_BYTES)
    for leftover in path.parent.glob(f".{stem}.{token}.partial"):
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
