"""Torch networks as scikit-learn transformers."""

from ffnb_sklearn.backbones._checks import NonFiniteFeaturesError
from ffnb_sklearn.backbones._feature_extractor import TorchFeatureExtractor

__all__ = ["NonFiniteFeaturesError", "TorchFeatureExtractor"]
