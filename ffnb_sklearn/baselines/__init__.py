"""What the paper compares its method with, as estimators of the same form."""

from ffnb_sklearn.baselines._joint import JointClassifier
from ffnb_sklearn.baselines._naive import NaiveIncrementalClassifier

__all__ = ["JointClassifier", "NaiveIncrementalClassifier"]
