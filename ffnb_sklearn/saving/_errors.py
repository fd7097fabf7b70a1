"""The error for invalid model files, and its message."""

from ..datasets._base import shown

__all__ = ["ModelFileError", "misfit"]


# Most characters of the location of a value that a message repeats; locations can be nested deeply.
_LONGEST_PLACE = 200


class ModelFileError(ValueError):
    """A file is not a model file, is damaged, has a newer format, or holds no valid model."""


def misfit(where, expected, got=None):
    """Return the error for a part of a file, with a bounded message; None shows no value."""
    found = "" if got is None else f"; got {shown(got)}"
    place = where if len(where) <= _LONGEST_PLACE else f"...{where[-_LONGEST_PLACE:]}"
    return ModelFileError(f"{place} must be {expected}{found}.")
