"""The line of the user to which a warning points."""

import sys
from types import FrameType


def level_of_user() -> int:
    """Return the stack level, from the calling function, of the first frame outside libraries."""
    between = {"ffnb_sklearn", "sklearn", "joblib", "contextlib"}
    frame = sys._getframe(1)
    level = 1
    while frame.f_back is not None and _library(frame) in between:
        frame = frame.f_back
        level += 1
    return level


def _library(frame: FrameType) -> str:
    """Return the name of the package that the code of a frame belongs to."""
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]
