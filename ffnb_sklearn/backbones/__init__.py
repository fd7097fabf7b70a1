"""Torch networks, and torch networks as scikit-learn transformers."""

from ffnb_sklearn.backbones._augmentation import FlipCrop, Jitter
from ffnb_sklearn.backbones._checks import NonFiniteFeaturesError, NonFiniteLossError
from ffnb_sklearn.backbones._conv_net import ConvNet
from ffnb_sklearn.backbones._feature_extractor import TorchFeatureExtractor
from ffnb_sklearn.backbones._skeleton_gcn import SkeletonGCN
from ffnb_sklearn.backbones._skeleton_graph import (
    SKELETON_PARENTS,
    skeleton_nodes,
    tree_adjacency,
)

__all__ = [
    "SKELETON_PARENTS",
    "ConvNet",
    "FlipCrop",
    "Jitter",
    "NonFiniteFeaturesError",
    "NonFiniteLossError",
    "SkeletonGCN",
    "TorchFeatureExtractor",
    "skeleton_nodes",
    "tree_adjacency",
]
