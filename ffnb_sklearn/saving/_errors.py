"""The error of model files, and how it shows what a file holds."""

from ..datasets._base import shown

__all__ = ["ModelFileError", "misfit"]


# Characters of the place of a value that a message repeats; places nest as deeply as files do.
_LONGEST_PLACE = 200


class ModelFileError(ValueError):
    """A file is no model file, is damaged, is of a newer format, or holds no valid model."""


def misfit(where, expected, got=None):
    """Return the error for a part of a file, with a bounded message.

    Parameters
    ----------
    where : str
        The part.
    expected : str
        What it must be.
    got : object, default=None
        Its value, of which a bounded part is shown. None shows none.

    Returns
    -------
    ModelFileError
        Error to raise.
    """
    found = "" if got is None else f"; got {shown(got)}"
    place = where if len(where) <= _LONGEST_PLACE else f"...{where[-_LONGEST_PLACE:]}"
    return ModelFileError(f"{place} must be {expected}{found}.")
