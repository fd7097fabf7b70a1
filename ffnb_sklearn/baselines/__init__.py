"""Classifiers of other papers for streams of new classes, to compare with."""

from ._anacp import AnaCP
from ._fecam import FeCAM
from ._kernel_lda import KernelLDA
from ._naive import NaiveIncrementalClassifier
from ._nearest_class_mean import NearestClassMean
from ._ranpac import RanPAC
from ._streaming_lda import StreamingLDA

__all__ = [
    "AnaCP",
    "FeCAM",
    "KernelLDA",
    "NaiveIncrementalClassifier",
    "NearestClassMean",
    "RanPAC",
    "StreamingLDA",
]
