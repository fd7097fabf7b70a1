"""Class-incremental learning without forgetting and without stored examples.

The estimators follow scikit-learn's interface. Any call of `partial_fit` may bring labels that have
not been seen before, and earlier classes are retained. Metrics, loaders of data, networks, the
classifiers of other papers, the shrinkage of covariances, and the errors and warnings are in
`metrics`, `datasets`, `backbones`, `baselines`, `covariance` and `exceptions`.
"""

from . import backbones, baselines, covariance, datasets, exceptions, metrics, streams  # noqa: F401
from ._base.bands import Bands
from ._version import __version__
from .backbones import TorchFeatureExtractor
from .baselines import NaiveIncrementalClassifier
from .classifiers import FFNBClassifier, IncrementalDiscriminantAnalysis
from .displays import AccuracyMatrixDisplay, IncrementalAccuracyDisplay, PrequentialAccuracyDisplay
from .distributed import partial_fit_shards
from .open_set import OpenSetClassifier
from .pipeline._pipeline import ContinualPipeline, make_continual_pipeline
from .saving import load, save
from .skeletons._descriptor import SkeletonDescriptor
from .streams import class_incremental_tasks, evaluate_prequential, evaluate_stream

__all__ = [
    "AccuracyMatrixDisplay",
    "Bands",
    "ContinualPipeline",
    "FFNBClassifier",
    "IncrementalAccuracyDisplay",
    "IncrementalDiscriminantAnalysis",
    "NaiveIncrementalClassifier",
    "OpenSetClassifier",
    "PrequentialAccuracyDisplay",
    "SkeletonDescriptor",
    "TorchFeatureExtractor",
    "__version__",
    "class_incremental_tasks",
    "evaluate_prequential",
    "evaluate_stream",
    "load",
    "make_continual_pipeline",
    "partial_fit_shards",
    "save",
]
