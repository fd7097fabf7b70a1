"""From the name or factory of a backbone to a frozen module, and its weights as arrays."""

from collections.abc import Mapping
from copy import deepcopy
from functools import reduce
from importlib import import_module

import numpy as np
import torch
from torch import nn

_SHOWN_KEYS = 5


def build_backbone(backbone, backbone_params):
    """Build the network on the CPU.

    Parameters
    ----------
    backbone : str, callable or nn.Module
        Dotted name of a factory, a factory, or a network, which is copied.
    backbone_params : dict or None
        Keyword arguments of the factory.

    Returns
    -------
    nn.Module
        A network of its own: nothing else refers to it.

    Raises
    ------
    ValueError
        If a dotted name leads nowhere, or a network comes with arguments.
    TypeError
        If the factory returns something else than a network.
    """
    if isinstance(backbone, nn.Module):
        if backbone_params:
            raise ValueError(
                "backbone_params must be None where backbone is a network; "
                f"got {backbone_params!r}."
            )
        return deepcopy(backbone)
    factory = _import_factory(backbone) if isinstance(backbone, str) else backbone
    # Random weights, which the factory of a trained backbone replaces, must neither differ
    # from one call to the next nor move the global generator.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        module = factory(**(backbone_params or {}))
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"backbone must make a torch.nn.Module; {backbone!r} made an instance of "
            f"{type(module).__name__}."
        )
    return module


def _import_factory(name):
    """Import 'package.module:factory' or 'package.module.factory'."""
    module_name, colon, attributes = name.partition(":")
    if not colon:
        module_name, _, attributes = name.rpartition(".")
    if not module_name or not attributes:
        raise ValueError(
            "backbone must be a dotted name 'package.module:factory' or "
            f"'package.module.factory'; got {name!r}."
        )
    try:
        factory = reduce(getattr, attributes.split("."), import_module(module_name))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"backbone={name!r} cannot be imported: {error}") from error
    if not callable(factory):
        raise ValueError(f"backbone={name!r} is not callable; it is {factory!r}.")
    return factory


def read_weights(weights):
    """Read a state dict.

    Parameters
    ----------
    weights : path or mapping
        File written by `torch.save`, or a mapping from keys to tensors or arrays.

    Returns
    -------
    dict
        Tensors on the CPU by key.

    Raises
    ------
    ValueError
        If the file does not hold a state dict.
    """
    if not isinstance(weights, Mapping):
        path = weights
        weights = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(weights, Mapping):
            raise ValueError(
                f"weights={str(path)!r} must hold a state dict; it holds an instance of "
                f"{type(weights).__name__}."
            )
    return {key: torch.as_tensor(np.array(value)) for key, value in _as_arrays(weights).items()}


def _as_arrays(state_dict):
    """Tensors and arrays as arrays; bfloat16, which NumPy lacks, as float32."""
    arrays = {}
    for key, value in state_dict.items():
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu()
            value = value.float() if value.dtype == torch.bfloat16 else value
        arrays[key] = np.asarray(value)
        if arrays[key].dtype.kind not in "biufc":
            raise ValueError(
                f"weights must map keys to tensors or arrays of numbers; {key!r} maps to an "
                f"instance of {type(value).__name__}."
            )
    return arrays


def load_weights(module, state_dict):
    """Load weights that must fit the network exactly.

    Parameters
    ----------
    module : nn.Module
        Changed in place.
    state_dict : dict of str -> torch.Tensor
        One entry per parameter and buffer.

    Raises
    ------
    ValueError
        If a key is missing or left over, or a shape differs.
    """
    try:
        missing, unexpected = module.load_state_dict(state_dict, strict=False)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"weights do not fit the backbone: {reason}") from error
    if missing or unexpected:
        raise ValueError(
            f"weights do not fit the backbone: missing {_listing(missing)}; "
            f"unexpected {_listing(unexpected)}."
        )


def _listing(keys):
    """Tell how many keys there are, and the first few."""
    dots = ", ..." if len(keys) > _SHOWN_KEYS else ""
    return f"{len(keys)} keys [{', '.join(keys[:_SHOWN_KEYS])}{dots}]"


def freeze(module, dtype):
    """Cast a network to `dtype`, switch it to inference and stop its gradients."""
    return module.to(dtype).eval().requires_grad_(False)


def state_to_arrays(module):
    """Parameters and buffers of a network as arrays that share its memory on the CPU."""
    return _as_arrays(module.state_dict())
