"""The checks of a `TorchFeatureExtractor` as a whole: sizes that belong together.

A network allocates its memory before its weights can be compared. The networks of this package are
therefore built without memory first, on torch's device "meta", and run there.
"""

import math
from numbers import Integral

import numpy as np
import torch

from ..backbones import SKELETON_PARENTS, ConvNet, FlipCrop, MirrorShift, SkeletonGCN
from ..backbones._network import freeze, remove_head
from ..backbones._readout import read_layers

__all__ = ["OWN_NETWORKS", "check_extractor"]

# Networks of this package by their names in files.
OWN_NETWORKS = {f"{one.__module__}:{one.__qualname__}": one for one in (ConvNet, SkeletonGCN)}

# Largest number of features per row. The network of another package may have any width, and the
# memory of all features is reserved before it runs.
_MOST_FEATURES = 1 << 20

# Largest number of weights of a network whose weights are not in the file, 0.5 GB in float32.
_MOST_WEIGHTS = 1 << 27

# Largest integers in the arguments of the networks of this package. The filters of a `SkeletonGCN`
# are drawn by a decomposition whose time grows with the cube of their number.
_LARGEST = {
    "blocks": 1 << 8,
    "n_filters": 1 << 10,
    "n_length_filters": 1 << 10,
    "n_nodes": 1 << 10,
    "n_pairings": 1 << 9,
    "random_state": (1 << 63) - 1,
}
_LARGEST_WIDTH = 1 << 14
_MOST_STAGES = 1 << 5

# Largest number of entries of the matrices of all pairings of a `SkeletonGCN`, 0.5 GB.
_MOST_ENTRIES = 1 << 26


def check_extractor(extractor):
    """Raise `ValueError` unless sizes of an extractor fit together and are those of a network."""
    is_fitted = hasattr(extractor, "state_dict_")
    shape = extractor.input_shape_ if is_fitted else extractor.input_shape
    if is_fitted:
        _check_widths(extractor)
    if shape is not None and len(shape) == 3:
        _check_shifts(extractor, max(shape[1:]))
    network = OWN_NETWORKS.get(extractor.backbone, extractor.backbone)
    if network not in OWN_NETWORKS.values():
        return
    _check_arguments(network, extractor.backbone_params or {})
    # `Blueprint.build` creates layers on the CPU.
    with torch.device("meta"):
        module = network(**(extractor.backbone_params or {}))
    if extractor.head is not None:
        remove_head(module, extractor.head)
    module = freeze(module.to("meta", getattr(torch, extractor.dtype)))
    sizes = {name: tuple(one.shape) for name, one in module.state_dict().items()}
    if is_fitted:
        _check_network(extractor, module, sizes)
    elif sum(map(math.prod, sizes.values())) > _MOST_WEIGHTS:
        raise ValueError(f"backbone_params must give a network of at most {_MOST_WEIGHTS} weights")


def _check_widths(extractor):
    """Raise unless the numbers of inputs and of features are those of shapes and layers."""
    shape, width = extractor.input_shape_, extractor.n_features_out_
    if shape is not None and math.prod(shape) != extractor.n_features_in_:
        raise ValueError(f"n_features_in_ must be the product of input_shape_, {shape}")
    if width > _MOST_FEATURES:
        raise ValueError(f"n_features_out_ must be at most {_MOST_FEATURES}; got {width}")
    widths = getattr(extractor, "layer_widths_", None)
    if widths is not None and sum(widths.values()) != width:
        raise ValueError(f"n_features_out_ must be the sum of layer_widths_; got {width}")


def _check_shifts(extractor, side):
    """Raise if images are shifted by more than their longer side."""
    for name, kind, length in (("views", MirrorShift, "shift"), ("augment", FlipCrop, "padding")):
        value = getattr(extractor, name)
        if type(value) is kind and getattr(value, length) > side:
            raise ValueError(f"{name} must shift images of {side} pixels by at most {side} pixels")


def _check_arguments(network, arguments):
    """Raise unless arguments of a network of this package are small enough to build it."""
    for name, value in arguments.items():
        if name == "adjacency":
            named = value is None or (isinstance(value, str) and value in SKELETON_PARENTS)
            if not named and not isinstance(value, np.ndarray | list | tuple):
                names = sorted(SKELETON_PARENTS)
                raise ValueError(f"adjacency in backbone_params must be matrices or one of {names}")
            continue
        numbers = value if isinstance(value, list | tuple | np.ndarray) else [value]
        most = _LARGEST.get(name, _LARGEST_WIDTH)
        small = all(isinstance(one, Integral) and one <= most for one in numbers if one is not None)
        if not small or len(numbers) > _MOST_STAGES:
            raise ValueError(
                f"{name} in backbone_params of {network.__name__} must be integers of at most "
                f"{most} in a file"
            )
    n_nodes = arguments.get("n_nodes", 0)
    n_pairings = arguments.get("n_pairings", 0)
    if n_pairings * n_nodes**2 > _MOST_ENTRIES:
        raise ValueError(f"backbone_params must give matrices of at most {_MOST_ENTRIES} entries")


def _check_network(extractor, module, sizes):
    """Raise unless weights and features are those of a network on the device "meta"."""
    if {name: np.shape(one) for name, one in extractor.state_dict_.items()} != sizes:
        raise ValueError("state_dict_ must hold the weights of the backbone with backbone_params")
    shape = extractor.input_shape_
    shape = (extractor.n_features_in_,) if shape is None else shape
    # Two rows, because `fit` has seen that the network treats each row by itself.
    dtype = getattr(torch, extractor.dtype)
    rows = torch.empty((2, *map(int, shape)), device="meta", dtype=dtype)
    layers = None if extractor.layers is None else tuple(extractor.layers)
    # Views change no width.
    parts = read_layers(module, rows, layers, extractor.pooling)
    widths = [part.shape[1] for part in parts]
    expected = [extractor.n_features_out_]
    if hasattr(extractor, "layer_widths_"):
        expected = list(extractor.layer_widths_.values())
    if widths != expected:
        raise ValueError(f"the features of the backbone must be {expected} numbers; got {widths}")
