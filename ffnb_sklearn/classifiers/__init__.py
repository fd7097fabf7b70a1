"""The two classifiers: with and without trained bands."""

from .discriminant import IncrementalDiscriminantAnalysis
from .ffnb import FFNBClassifier

__all__ = ["FFNBClassifier", "IncrementalDiscriminantAnalysis"]
