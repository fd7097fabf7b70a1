"""Baselines of the paper, as estimators with the same interface."""

from ffnb_sklearn.baselines._joint import JointClassifier
from ffnb_sklearn.baselines._naive import NaiveIncrementalClassifier

__all__ = ["JointClassifier", "NaiveIncrementalClassifier"]
