"""Pictures of class-incremental runs, in scikit-learn's Display form."""

from ._accuracy_matrix import AccuracyMatrixDisplay
from ._incremental_accuracy import IncrementalAccuracyDisplay

__all__ = ["AccuracyMatrixDisplay", "IncrementalAccuracyDisplay"]
