"""Plots of class-incremental runs, in the form of scikit-learn's displays."""

from ._accuracy_matrix import AccuracyMatrixDisplay
from ._incremental_accuracy import IncrementalAccuracyDisplay

__all__ = ["AccuracyMatrixDisplay", "IncrementalAccuracyDisplay"]
