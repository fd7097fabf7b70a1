"""Class-incremental learning without forgetting and without stored examples.

The estimators follow scikit-learn's interface. Any call of `partial_fit` may bring labels that have
not been seen before, and earlier classes are retained.
"""

from ._freezing import FrozenTransformerWarning
from ._state import ConcurrentLearningError
from ._version import __version__
from .backbones import (
    ConvNet,
    FlipCrop,
    Jitter,
    MirrorShift,
    NonFiniteFeaturesError,
    NonFiniteLossError,
    RandomFeaturesWarning,
    SkeletonGCN,
    TorchFeatureExtractor,
    image_files,
    skeleton_nodes,
)
from .baselines import JointClassifier, NaiveIncrementalClassifier
from .classifier import FFNBClassifier
from .core.bound import ForgettingBound, LayerBound
from .core.features.nullspace import EmptyNullSpaceWarning
from .core.linalg import IllConditionedWarning, NotPositiveDefiniteError
from .core.revision import MergedBandsWarning
from .datasets import load_cifar100, load_fpha, load_sbu
from .displays import AccuracyMatrixDisplay, IncrementalAccuracyDisplay
from .distributed import partial_fit_shards
from .metrics import (
    average_accuracy,
    average_incremental_accuracy,
    backward_transfer,
    forgetting,
    forward_transfer,
)
from .pipeline import ContinualPipeline, make_continual_pipeline
from .saving import ModelFileError, load, save
from .skeletons import SkeletonDescriptor
from .streams import StreamResult, class_incremental_tasks, evaluate_stream
from .training import BandTraining

__all__ = [
    "AccuracyMatrixDisplay",
    "BandTraining",
    "ConcurrentLearningError",
    "ContinualPipeline",
    "ConvNet",
    "EmptyNullSpaceWarning",
    "FFNBClassifier",
    "FlipCrop",
    "ForgettingBound",
    "FrozenTransformerWarning",
    "IllConditionedWarning",
    "IncrementalAccuracyDisplay",
    "Jitter",
    "JointClassifier",
    "LayerBound",
    "MergedBandsWarning",
    "MirrorShift",
    "ModelFileError",
    "NaiveIncrementalClassifier",
    "NonFiniteFeaturesError",
    "NonFiniteLossError",
    "NotPositiveDefiniteError",
    "RandomFeaturesWarning",
    "SkeletonDescriptor",
    "SkeletonGCN",
    "StreamResult",
    "TorchFeatureExtractor",
    "__version__",
    "average_accuracy",
    "average_incremental_accuracy",
    "backward_transfer",
    "class_incremental_tasks",
    "evaluate_stream",
    "forgetting",
    "forward_transfer",
    "image_files",
    "load",
    "load_cifar100",
    "load_fpha",
    "load_sbu",
    "make_continual_pipeline",
    "partial_fit_shards",
    "save",
    "skeleton_nodes",
]
