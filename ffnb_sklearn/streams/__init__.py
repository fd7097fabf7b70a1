"""Streams of tasks, and what they measure."""

from ._result import StreamResult
from ._streams import class_incremental_tasks, evaluate_stream

__all__ = ["StreamResult", "class_incremental_tasks", "evaluate_stream"]
