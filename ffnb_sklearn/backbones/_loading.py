"""From the name or factory of a backbone to a frozen module, and its weights as arrays."""

from collections.abc import Mapping
from copy import deepcopy
from functools import reduce
from importlib import import_module

import numpy as np
import torch
from torch import nn

from ffnb_sklearn.backbones._files import read_tensors
from ffnb_sklearn.backbones._seeding import seeded_layers
from ffnb_sklearn.datasets._base import LONGEST_SHOWN, shown

# Keys, and characters of the reason that torch gives, in a message.
_SHOWN_KEYS, _LONGEST_REASON = 5, 500

# Packages of networks that are no dependencies of this one.
_OPTIONAL = {"torchvision", "timm"}


def build_backbone(backbone, backbone_params, seed=0):
    """Build the network on the CPU.

    Parameters
    ----------
    backbone : str, callable or nn.Module
        Dotted name of a factory, a factory, or a network, which is copied.
    backbone_params : dict or None
        Keyword arguments of the factory.
    seed : int, default=0
        Where the random weights of a factory start from.

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
    with seeded_layers(seed):
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
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        # The last two come from libraries that were built for another version of torch.
        package = module_name.partition(".")[0]
        absent = isinstance(error, ModuleNotFoundError) and error.name == package
        advice = f"; install it: python -m pip install {package}" if package in _OPTIONAL else ""
        raise ValueError(
            f"backbone={name!r} cannot be imported: {error}{advice if absent else ''}"
        ) from error
    if not callable(factory):
        raise ValueError(f"backbone={name!r} is not callable; it is {factory!r}.")
    return factory


def remove_head(module, head):
    """Replace a submodule by the identity.

    Parameters
    ----------
    module : nn.Module
        Changed in place.
    head : str
        Name of the submodule, with dots where it is nested.

    Raises
    ------
    ValueError
        If there is none of this name.
    """
    parent, _, name = head.rpartition(".")
    try:
        owner = module.get_submodule(parent)
        owner.get_submodule(name)
        if not name:
            raise AttributeError("an empty name stands for the module itself")
    except AttributeError as error:
        names = [name for name, _ in module.named_children()]
        raise ValueError(
            f"head must name a submodule of the backbone, such as one of {names}; got {head!r}."
        ) from error
    setattr(owner, name, nn.Identity())


def count_random(backbone, backbone_params, head, module):
    """Count the parameters that a factory draws at random, by making the network once more.

    Parameters
    ----------
    backbone, backbone_params, head
        What made the network, as in `build_backbone` and `remove_head`.
    module : nn.Module
        The network that was made from another seed.

    Returns
    -------
    n_random, n_parameters : int
        Tensors of parameters that came out otherwise, and all of them.
    """
    again = build_backbone(backbone, backbone_params, seed=1)
    if head is not None:
        remove_head(again, head)
    others = dict(again.named_parameters())
    pairs = [(one, others.get(name)) for name, one in module.named_parameters()]
    random = [
        one for one, other in pairs if other is None or not torch.equal(one, other.to(one.dtype))
    ]
    return len(random), len(pairs)


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
    OSError
        If the file is missing or cannot be read.
    ValueError
        If the file is damaged, or does not hold a state dict.
    """
    if not isinstance(weights, Mapping):
        path = weights
        weights = read_tensors(
            path,
            f"weights={str(path)!r} must be a file of tensors and plain types, written by "
            "torch.save; it is damaged, or something else. Files of torch before 1.6 have no "
            "check sums: give what torch.load(weights_only=True) makes of them.",
        )
        if not isinstance(weights, Mapping):
            raise ValueError(
                f"weights={str(path)!r} must hold a state dict; it holds an instance of "
                f"{type(weights).__name__}."
            )
    return {_checked_key(key): _as_tensor(key, value) for key, value in weights.items()}


def _checked_key(key):
    if not isinstance(key, str):
        raise ValueError(f"weights must map names of parameters to tensors; got {shown(key)}.")
    return key


def _as_tensor(key, value):
    """Return a tensor on the CPU, or a copy of an array as one."""
    if isinstance(value, torch.Tensor):
        if value.layout == torch.strided and not (value.is_quantized or value.is_meta):
            return value.detach().cpu()
    else:
        array = np.array(value)
        if array.dtype.kind in "biufc":
            return torch.from_numpy(array)
    raise ValueError(
        f"weights must map keys to tensors or arrays of numbers; {shown(key)} maps to an "
        f"instance of {type(value).__name__}."
    )


def load_weights(module, state_dict, head=None):
    """Load weights that must fit the network exactly.

    Parameters
    ----------
    module : nn.Module
        Changed in place.
    state_dict : dict of str -> torch.Tensor
        One entry per parameter and buffer.
    head : str, default=None
        Name of the submodule that was removed; its entries may be there.

    Raises
    ------
    ValueError
        If a key is missing or left over, or a shape differs.
    """
    if head is not None:
        state_dict = {k: v for k, v in state_dict.items() if not k.startswith(f"{head}.")}
    for key, own in module.state_dict().items():
        if key in state_dict and state_dict[key].is_complex() and not own.is_complex():
            raise ValueError(f"weights do not fit the backbone: {key[:LONGEST_SHOWN]} is complex.")
    try:
        missing, unexpected = module.load_state_dict(state_dict, strict=False)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:_LONGEST_REASON]
        raise ValueError(f"weights do not fit the backbone: {reason}") from error
    if missing or unexpected:
        raise ValueError(
            f"weights do not fit the backbone: missing {_listing(missing)}; "
            f"unexpected {_listing(unexpected)}."
        )


def _listing(keys):
    """Tell how many keys there are, and the first few."""
    dots = ", ..." if len(keys) > _SHOWN_KEYS else ""
    names = ", ".join(key[:LONGEST_SHOWN] for key in keys[:_SHOWN_KEYS])
    return f"{len(keys)} keys [{names}{dots}]"


def freeze(module):
    """Switch a network to inference and stop its gradients."""
    return module.eval().requires_grad_(False)


def state_to_arrays(module):
    """Parameters and buffers of a network as C-ordered arrays, which may share its memory.

    NumPy lacks bfloat16, which becomes float32.
    """
    tensors = {key: _as_tensor(key, value) for key, value in module.state_dict().items()}
    arrays = {
        key: (one.float() if one.dtype == torch.bfloat16 else one).numpy()
        for key, one in tensors.items()
    }
    # Images with the channels last leave odd strides, even of axes of length one; hashes see them.
    return {name: array.ravel().reshape(array.shape) for name, array in arrays.items()}
