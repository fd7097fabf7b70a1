"""Model files: a single file of arrays and JSON, verified as a whole, that runs no code."""

from ._files import load, save

__all__ = ["load", "save"]
