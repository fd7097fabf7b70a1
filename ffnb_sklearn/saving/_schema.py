"""The names in a model file: this table is the written schema of the format.

A class, a field, a parameter and a fitted attribute have the same name in files as in Python, but
for those in `_RENAMED_CLASSES`, `RENAMED_FIELDS` and `PRIVATE`. A name that changes in Python
gets an entry there, and files stay the same: names in files never change within a format.
docs/contributing/architecture.rst explains how to change the format.

`_codec` writes the values themselves; its docstring lists the other kinds of values.
"""

from collections.abc import Callable

from sklearn.base import BaseEstimator
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from torch import nn

from .._base.bands import Bands
from .._base.state import State
from .._inputs.columns import ColumnScaling
from .._inputs.sparse_samples import RandomProjection
from ..backbones import (
    ConvNet,
    FlipCrop,
    Jitter,
    MirrorShift,
    SkeletonGCN,
    TorchFeatureExtractor,
)
from ..baselines import (
    AnaCP,
    FeCAM,
    KernelLDA,
    NaiveIncrementalClassifier,
    NearestClassMean,
    RanPAC,
    StreamingLDA,
)
from ..baselines._anacp import RandomLayers
from ..baselines._fecam import ClassScatters
from ..baselines._kernel_lda import RandomCosines
from ..baselines._moments import ClassMeans, PooledScatter
from ..baselines._ranpac import RandomNeurons
from ..classifiers import FFNBClassifier, IncrementalDiscriminantAnalysis
from ..classifiers.ffnb import PublishedFFNBClassifier
from ..core.bands.band_settings import BandSettings, Descent
from ..core.bands.batch_norm import BatchNorm
from ..core.bands.layers import Band, Layers
from ..core.bands.trained import BandMoments, Trained
from ..core.bands.tuning.naive import NaiveNetwork, Outputs
from ..core.features import FixedFeatures
from ..core.model import Model
from ..core.moments import ClassMoments
from ..core.novelty.likeness import LeftOutLikeness
from ..core.settings import Settings
from ..open_set import OpenSetClassifier
from ..pipeline import ContinualPipeline
from ..skeletons import SkeletonDescriptor
from ._container import Array, Json

__all__ = [
    "ESTIMATORS",
    "FORMAT",
    "NETWORKS",
    "PRIVATE",
    "RECORDS",
    "RENAMED_FIELDS",
    "UPGRADES",
]

# Format of the files that `save` writes.
FORMAT = 1

# Functions that convert a format to the next format, by the number of the format that they read.
# A function takes the JSON of the estimator and the list of arrays, to which it may append arrays,
# and returns the JSON of the next format.
UPGRADES: dict[int, Callable[[Json, list[Array]], Json]] = {}


# Dataclasses that a file may hold.
_RECORD_CLASSES = (
    State,
    RandomProjection,
    ColumnScaling,
    Model,
    Settings,
    BandSettings,
    Descent,
    FixedFeatures,
    Layers,
    Trained,
    BandMoments,
    Band,
    BatchNorm,
    ClassMoments,
    LeftOutLikeness,
    NaiveNetwork,
    Outputs,
    ClassMeans,
    PooledScatter,
    ClassScatters,
    RandomNeurons,
    RandomCosines,
    RandomLayers,
    FlipCrop,
    Jitter,
    MirrorShift,
)

# Estimators that a file may hold.
_ESTIMATOR_CLASSES = (
    IncrementalDiscriminantAnalysis,
    FFNBClassifier,
    PublishedFFNBClassifier,
    Bands,
    NaiveIncrementalClassifier,
    OpenSetClassifier,
    NearestClassMean,
    StreamingLDA,
    FeCAM,
    RanPAC,
    KernelLDA,
    AnaCP,
    TorchFeatureExtractor,
    SkeletonDescriptor,
    ContinualPipeline,
    Pipeline,
    FrozenEstimator,
    Normalizer,
    StandardScaler,
    MaxAbsScaler,
    MinMaxScaler,
    FeatureHasher,
    HashingVectorizer,
)

# Names in files of classes with another name in Python.
_RENAMED_CLASSES: dict[type, str] = {ColumnScaling: "ColumnRepair"}

# Dataclasses and estimators by their names in files.
RECORDS: dict[str, type] = {
    _RENAMED_CLASSES.get(each, each.__name__): each for each in _RECORD_CLASSES
}
ESTIMATORS: dict[str, type[BaseEstimator]] = {each.__name__: each for each in _ESTIMATOR_CLASSES}

# Fields of dataclasses with another name in Python, by class and by name in files.
RENAMED_FIELDS: dict[str, dict[str, str]] = {
    "BandMoments": {"factor": "blocks"},
    "ClassMoments": {"residual": "truncated"},
    "FixedFeatures": {"shared_band": "shared"},
    "NaiveNetwork": {"layers": "hidden"},
    "State": {"repair": "scaling", "repair_labels": "scaling_labels"},
}

# Private attributes of estimators that a file holds, by their names in files.
PRIVATE = {"state": "_state", "set_output": "_sklearn_output_config"}

# Networks of this package, by the value of `backbone` in files.
NETWORKS: dict[str, type[nn.Module]] = {
    "ffnb_sklearn.backbones:ConvNet": ConvNet,
    "ffnb_sklearn.backbones:SkeletonGCN": SkeletonGCN,
}
