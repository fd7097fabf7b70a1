"""The names in a model file: this table is the written schema of the format.

Each entry gives the name of a class in files, the class, and the names of its fields: in files on
the left, in Python on the right. If a name changes in Python, the right column changes and files
stay the same. A new field of a class gets a line here. Names in files never change within a format;
CONTRIBUTING.md explains how to change the format.

`_codec` writes the values themselves; its docstring lists the other kinds of values.
"""

from typing import NamedTuple

from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

from .._base.bands import Bands
from .._base.state import State
from .._inputs.columns import ColumnRepair
from .._inputs.sparse import RandomProjection
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
from ..classifiers import FFNBClassifier, IncrementalDiscriminantAnalysis
from ..classifiers.ffnb import PublishedFFNBClassifier
from ..core.bands.batch_norm import BatchNorm
from ..core.bands.layers import Band, Layers
from ..core.bands.settings import BandSettings, Descent
from ..core.bands.trained import BandMoments, Trained
from ..core.bands.tuning.naive import NaiveNetwork, Outputs
from ..core.features import FixedFeatures
from ..core.likeness import LeftOutLikeness
from ..core.model import Model
from ..core.moments import ClassMoments
from ..core.settings import Settings
from ..open_set import OpenSetClassifier
from ..pipeline import ContinualPipeline
from ..skeletons import SkeletonDescriptor

__all__ = [
    "ESTIMATORS",
    "FORMAT",
    "NETWORKS",
    "OF_ALL",
    "RECORDS",
    "UPGRADES",
    "EstimatorNames",
    "RecordNames",
]

# Format of the files that `save` writes.
FORMAT = 1

# Functions that convert a format to the next format, by the number of the format that they read.
# A function takes the JSON of the estimator and the list of arrays, to which it may append arrays,
# and returns the JSON of the next format.
UPGRADES = {}


class RecordNames(NamedTuple):
    """A dataclass, and the names of its fields: in files on the left, in Python on the right."""

    python_class: type
    fields: dict


class EstimatorNames(NamedTuple):
    """An estimator, and the names of its parameters and of its fitted attributes.

    None stands for the public names of scikit-learn, which are equal in files and in Python:
    parameters, and attributes whose names end with an underscore.
    """

    python_class: type
    parameters: dict | None
    fitted: dict | None


# Fitted attributes that every estimator may have.
OF_ALL = {"set_output": "_sklearn_output_config"}

# Fitted attributes of the baselines that learn from moments.
_OF_BASELINES = {
    "n_features_in_": "n_features_in_",
    "feature_names_in_": "feature_names_in_",
    "classes_": "classes_",
    "class_counts_": "class_counts_",
    "means_": "means_",
    **OF_ALL,
}

RECORDS = {
    "State": RecordNames(
        State,
        {
            "n_features_in": "n_features_in",
            "feature_names_in": "feature_names_in",
            "projection": "projection",
            "repair": "repair",
            "repair_labels": "repair_labels",
            "model": "model",
            "classes": "classes",
            "task_classes": "task_classes",
            "random_state": "random_state",
        },
    ),
    "RandomProjection": RecordNames(
        RandomProjection,
        {"n_features": "n_features", "seed": "seed", "n_columns": "n_columns"},
    ),
    "ColumnRepair": RecordNames(ColumnRepair, {"offset": "offset", "scale": "scale"}),
    "Model": RecordNames(
        Model,
        {
            "settings": "settings",
            "seed": "seed",
            "features": "features",
            "moments": "moments",
            "trained": "trained",
            "left_out": "left_out",
            "chosen_from": "chosen_from",
        },
    ),
    "Settings": RecordNames(
        Settings,
        {
            "shared_band_size": "shared_band_size",
            "shrinkage": "shrinkage",
            "epsilon": "epsilon",
            "rank": "rank",
            "classifier": "classifier",
            "scale": "scale",
            "chunk_size": "chunk_size",
            "refresh": "refresh",
            "novelty": "novelty",
            "skip_connection": "skip_connection",
            "covariance": "covariance",
            "units": "units",
            "half_bias": "half_bias",
        },
    ),
    "BandSettings": RecordNames(
        BandSettings,
        {
            "p": "p",
            "band_size": "band_size",
            "activation": "activation",
            "init": "init",
            "gamma": "gamma",
            "null_space": "null_space",
            "old_statistics": "old_statistics",
            "batch_norm": "batch_norm",
            "left_out": "left_out",
            "descent": "descent",
        },
    ),
    "Descent": RecordNames(
        Descent,
        {
            "max_epochs": "max_epochs",
            "learning_rate": "learning_rate",
            "momentum": "momentum",
            "weight_decay": "weight_decay",
            "batch_size": "batch_size",
            "adaptive_rate": "adaptive_rate",
            "patience": "patience",
        },
    ),
    "FixedFeatures": RecordNames(FixedFeatures, {"n_inputs": "n_inputs", "shared_band": "shared"}),
    "Layers": RecordNames(Layers, {"n_inputs": "n_inputs", "bands": "bands"}),
    "Trained": RecordNames(
        Trained,
        {
            "settings": "settings",
            "layers": "layers",
            "moments": "moments",
            "owners": "owners",
            "null_space_dims": "null_space_dims",
            "n_newest": "n_newest",
            "loss_curve": "loss_curve",
        },
    ),
    "BandMoments": RecordNames(
        BandMoments, {"mean": "mean", "residual": "residual", "factor": "blocks"}
    ),
    "Band": RecordNames(
        Band,
        {
            "layer": "layer",
            "weights": "weights",
            "activation": "activation",
            "batch_norm": "batch_norm",
            "scale": "scale",
        },
    ),
    "BatchNorm": RecordNames(BatchNorm, {"mean": "mean", "variance": "variance"}),
    "ClassMoments": RecordNames(
        ClassMoments,
        {
            "weight": "weight",
            "weight_norm": "weight_norm",
            "mean": "mean",
            "factor": "factor",
            "residual": "truncated",
            "errors": "errors",
        },
    ),
    "LeftOutLikeness": RecordNames(
        LeftOutLikeness,
        {
            "values": "values",
            "weights": "weights",
            "learned_weights": "learned_weights",
            "arrivals": "arrivals",
            "arrived_weights": "arrived_weights",
        },
    ),
    "NaiveNetwork": RecordNames(
        NaiveNetwork,
        {
            "seed": "seed",
            "n_layers": "n_layers",
            "scale": "scale",
            "layers": "hidden",
            "outputs": "outputs",
            "n_trainings": "n_trainings",
            "loss_curve": "loss_curve",
        },
    ),
    "Outputs": RecordNames(Outputs, {"weights": "weights", "offsets": "offsets"}),
    "FlipCrop": RecordNames(FlipCrop, {"padding": "padding", "flip": "flip", "cutout": "cutout"}),
    "Jitter": RecordNames(Jitter, {"noise": "noise", "scale": "scale"}),
    "MirrorShift": RecordNames(MirrorShift, {"shift": "shift", "mirror": "mirror"}),
}

ESTIMATORS = {
    "IncrementalDiscriminantAnalysis": EstimatorNames(
        IncrementalDiscriminantAnalysis,
        {
            "shared_band_size": "shared_band_size",
            "classifier": "classifier",
            "shrinkage": "shrinkage",
            "epsilon": "epsilon",
            "rank": "rank",
            "priors": "priors",
            "scale": "scale",
            "novelty": "novelty",
            "refresh": "refresh",
            "chunk_size": "chunk_size",
            "device": "device",
            "random_state": "random_state",
            "verbose": "verbose",
        },
        {"state": "_state", **OF_ALL},
    ),
    "FFNBClassifier": EstimatorNames(
        FFNBClassifier,
        {
            "band_size": "band_size",
            "p": "p",
            "n_layers": "n_layers",
            "bands": "bands",
            "classes_per_task": "classes_per_task",
            "shared_band_size": "shared_band_size",
            "skip_connection": "skip_connection",
            "classifier": "classifier",
            "covariance": "covariance",
            "shrinkage": "shrinkage",
            "epsilon": "epsilon",
            "rank": "rank",
            "priors": "priors",
            "scale": "scale",
            "novelty": "novelty",
            "refresh": "refresh",
            "chunk_size": "chunk_size",
            "device": "device",
            "random_state": "random_state",
            "verbose": "verbose",
        },
        {"state": "_state", **OF_ALL},
    ),
    "PublishedFFNBClassifier": EstimatorNames(
        PublishedFFNBClassifier,
        {
            "units": "units",
            "half_bias": "half_bias",
            "band_size": "band_size",
            "p": "p",
            "n_layers": "n_layers",
            "bands": "bands",
            "classes_per_task": "classes_per_task",
            "shared_band_size": "shared_band_size",
            "skip_connection": "skip_connection",
            "classifier": "classifier",
            "covariance": "covariance",
            "shrinkage": "shrinkage",
            "epsilon": "epsilon",
            "rank": "rank",
            "priors": "priors",
            "scale": "scale",
            "novelty": "novelty",
            "refresh": "refresh",
            "chunk_size": "chunk_size",
            "device": "device",
            "random_state": "random_state",
            "verbose": "verbose",
        },
        {"state": "_state", **OF_ALL},
    ),
    "Bands": EstimatorNames(
        Bands,
        {
            "activation": "activation",
            "init": "init",
            "gamma": "gamma",
            "null_space": "null_space",
            "old_statistics": "old_statistics",
            "batch_norm": "batch_norm",
            "max_epochs": "max_epochs",
            "learning_rate": "learning_rate",
            "momentum": "momentum",
            "weight_decay": "weight_decay",
            "batch_size": "batch_size",
            "left_out": "left_out",
            "adaptive_rate": "adaptive_rate",
        },
        OF_ALL,
    ),
    "NaiveIncrementalClassifier": EstimatorNames(
        NaiveIncrementalClassifier,
        {
            "band_size": "band_size",
            "n_layers": "n_layers",
            "activation": "activation",
            "max_epochs": "max_epochs",
            "learning_rate": "learning_rate",
            "momentum": "momentum",
            "weight_decay": "weight_decay",
            "batch_size": "batch_size",
            "patience": "patience",
            "classes_per_task": "classes_per_task",
            "device": "device",
            "random_state": "random_state",
            "verbose": "verbose",
        },
        {"state": "_state", **OF_ALL},
    ),
    "OpenSetClassifier": EstimatorNames(
        OpenSetClassifier,
        {"estimator": "estimator", "rate": "rate", "unknown_label": "unknown_label"},
        {"estimator_": "estimator_", **OF_ALL},
    ),
    "NearestClassMean": EstimatorNames(NearestClassMean, {}, _OF_BASELINES),
    "StreamingLDA": EstimatorNames(
        StreamingLDA, {"shrinkage": "shrinkage"}, {"scatter_": "scatter_", **_OF_BASELINES}
    ),
    "FeCAM": EstimatorNames(
        FeCAM,
        {"alpha1": "alpha1", "alpha2": "alpha2", "tukey_power": "tukey_power"},
        {"scatter_": "scatter_", "sums_": "sums_", "power_": "power_", **_OF_BASELINES},
    ),
    "RanPAC": EstimatorNames(
        RanPAC,
        {"n_components": "n_components", "alpha": "alpha", "random_state": "random_state"},
        {
            "scatter_": "scatter_",
            "projection_": "projection_",
            "alpha_": "alpha_",
            "generator": "_generator",
            **_OF_BASELINES,
        },
    ),
    "KernelLDA": EstimatorNames(
        KernelLDA,
        {
            "n_components": "n_components",
            "gamma": "gamma",
            "alpha": "alpha",
            "random_state": "random_state",
        },
        {
            "scatter_": "scatter_",
            "random_weights_": "random_weights_",
            "random_offset_": "random_offset_",
            **_OF_BASELINES,
        },
    ),
    "AnaCP": EstimatorNames(
        AnaCP,
        {
            "n_components": "n_components",
            "n_layers": "n_layers",
            "alpha": "alpha",
            "spread": "spread",
            "n_draws": "n_draws",
            "random_state": "random_state",
        },
        {
            "scatter_": "scatter_",
            "layers_": "layers_",
            "last_layer_": "last_layer_",
            "grams_": "grams_",
            "sums_": "sums_",
            "draw_seed_": "draw_seed_",
            **_OF_BASELINES,
        },
    ),
    "TorchFeatureExtractor": EstimatorNames(
        TorchFeatureExtractor,
        {
            "backbone": "backbone",
            "backbone_params": "backbone_params",
            "weights": "weights",
            "head": "head",
            "layers": "layers",
            "pooling": "pooling",
            "channel_axis": "channel_axis",
            "views": "views",
            "input_shape": "input_shape",
            "resize": "resize",
            "crop_mode": "crop_mode",
            "interpolation": "interpolation",
            "mean": "mean",
            "std": "std",
            "batch_size": "batch_size",
            "dtype": "dtype",
            "device": "device",
            "mixed_precision": "mixed_precision",
            "epochs": "epochs",
            "optimizer": "optimizer",
            "learning_rate": "learning_rate",
            "weight_decay": "weight_decay",
            "train_batch_size": "train_batch_size",
            "augment": "augment",
            "frozen": "frozen",
            "random_state": "random_state",
            "verbose": "verbose",
        },
        {
            "n_features_in_": "n_features_in_",
            "feature_names_in_": "feature_names_in_",
            "input_shape_": "input_shape_",
            "image_values_": "image_values_",
            "state_dict_": "state_dict_",
            "n_features_out_": "n_features_out_",
            "layer_widths_": "layer_widths_",
            "layer_axes_": "layer_axes_",
            "layer_scales_": "layer_scales_",
            "loss_curve_": "loss_curve_",
            "classes_": "classes_",
            **OF_ALL,
        },
    ),
    "SkeletonDescriptor": EstimatorNames(
        SkeletonDescriptor,
        {
            "blocks": "blocks",
            "n_chunks": "n_chunks",
            "root": "root",
            "persons": "persons",
            "frame_shape": "frame_shape",
        },
        {
            "n_features_in_": "n_features_in_",
            "feature_names_in_": "feature_names_in_",
            "frame_shape_": "frame_shape_",
            **OF_ALL,
        },
    ),
    "ContinualPipeline": EstimatorNames(ContinualPipeline, None, None),
    "Pipeline": EstimatorNames(Pipeline, None, None),
    "FrozenEstimator": EstimatorNames(FrozenEstimator, None, None),
    "Normalizer": EstimatorNames(Normalizer, None, None),
    "StandardScaler": EstimatorNames(StandardScaler, None, None),
    "MaxAbsScaler": EstimatorNames(MaxAbsScaler, None, None),
    "MinMaxScaler": EstimatorNames(MinMaxScaler, None, None),
    "FeatureHasher": EstimatorNames(FeatureHasher, None, None),
    "HashingVectorizer": EstimatorNames(HashingVectorizer, None, None),
}

# Networks of this package, by the value of `backbone` in files.
NETWORKS = {
    "ffnb_sklearn.backbones:ConvNet": ConvNet,
    "ffnb_sklearn.backbones:SkeletonGCN": SkeletonGCN,
}
