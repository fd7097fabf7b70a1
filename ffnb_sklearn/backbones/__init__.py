"""Torch networks, and torch networks as scikit-learn transformers."""

from ffnb_sklearn.backbones._augmentation import FlipCrop, ImageTransform, Jitter, MirrorShift
from ffnb_sklearn.backbones._conv_net import ConvNet
from ffnb_sklearn.backbones._feature_extractor import TorchFeatureExtractor
from ffnb_sklearn.backbones._images import image_files
from ffnb_sklearn.backbones._pretrained import from_efficientnet_lite, from_timm
from ffnb_sklearn.backbones._skeleton_gcn import (
    SKELETON_PARENTS,
    SkeletonGCN,
    skeleton_nodes,
    tree_adjacency,
)

__all__ = [
    "SKELETON_PARENTS",
    "ConvNet",
    "FlipCrop",
    "ImageTransform",
    "Jitter",
    "MirrorShift",
    "SkeletonGCN",
    "TorchFeatureExtractor",
    "from_efficientnet_lite",
    "from_timm",
    "image_files",
    "skeleton_nodes",
    "tree_adjacency",
]
