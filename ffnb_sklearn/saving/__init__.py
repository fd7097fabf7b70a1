"""Model files: one file of arrays and JSON, checked as a whole, that runs no code."""

from ._errors import ModelFileError
from ._files import load, save

__all__ = ["ModelFileError", "load", "save"]
