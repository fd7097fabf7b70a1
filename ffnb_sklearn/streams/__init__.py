"""Streams of labelled data: tasks of new classes, or samples one after another."""

from .._inputs.tasks import class_incremental_tasks
from ._evaluation import StreamResult, evaluate_stream
from ._prequential import PrequentialResult, evaluate_prequential
from ._summary import StreamSummary

__all__ = [
    "PrequentialResult",
    "StreamResult",
    "StreamSummary",
    "class_incremental_tasks",
    "evaluate_prequential",
    "evaluate_stream",
]
