"""Build a frozen module from the name or factory of a backbone; return weights as arrays."""

import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ffnb_sklearn.backbones._seeding import seeded_layers
from ffnb_sklearn.backbones._tensor_files import read_tensors
from ffnb_sklearn.core.messages import level_of_user
from ffnb_sklearn.datasets._base import LONGEST_SHOWN, shown

# Most keys, and most characters of torch's reason, that a message shows.
_SHOWN_KEYS, LONGEST_REASON = 5, 500

# Prefixes of the keys of a network in `DataParallel` or `DistributedDataParallel`, and of a network
# that `torch.compile` has returned.
_WRAPPERS = {"module.", "_orig_mod."}

# Packages of networks that are not dependencies of this package.
_OPTIONAL = {"torchvision", "timm"}


@dataclass(frozen=True)
class Blueprint:
    """Description of a network; the fields are parameters of `TorchFeatureExtractor`."""

    backbone: Any
    backbone_params: dict | None
    head: str | None
    dtype: str

    @classmethod
    def of(cls, extractor):
        """Return the blueprint of a `TorchFeatureExtractor`."""
        return cls(*(getattr(extractor, field.name) for field in fields(cls)))

    def build(self, weights=None, seed=0):
        """Build a new network on the CPU, with some weights or with those of the factory.

        `weights` is a path, a mapping or None; `seed` determines random weights of a factory. Raise
        `ValueError` if the dotted name cannot be imported, a network is given with arguments, the
        head does not exist, or the weights do not fit, and `TypeError` if the factory returns no
        network.
        """
        module = self._made(seed)
        if self.head is not None:
            _remove_head(module, self.head)
        # Cast before the weights are loaded, so that they keep their digits.
        module.to(getattr(torch, self.dtype))
        if weights is not None:
            _load_weights(module, _read_weights(weights), self.head)
        return module

    def count_random(self, module):
        """Count the tensors that the factory draws at random, and all tensors.

        The network must have been built with the default seed and without weights. It is built
        again with another seed for comparison.
        """
        ours, others = (
            {**dict(one.named_parameters()), **dict(one.named_buffers())}
            for one in (module, self.build(seed=1))
        )
        same = [
            name in others and np.array_equal(one.detach(), others[name].detach(), equal_nan=True)
            for name, one in ours.items()
        ]
        return len(same) - sum(same), len(same)

    def _made(self, seed):
        """Copy the network, or call the factory."""
        if isinstance(self.backbone, nn.Module):
            if self.backbone_params:
                raise ValueError(
                    "backbone_params must be None where backbone is a network; "
                    f"got {self.backbone_params!r}."
                )
            return deepcopy(self.backbone)
        named = isinstance(self.backbone, str)
        factory = _import_factory(self.backbone) if named else self.backbone
        # Random weights must be the same at every call and must not change the global generator,
        # even if the factory of a trained backbone replaces them.
        with seeded_layers(seed):
            module = factory(**(self.backbone_params or {}))
        if not isinstance(module, nn.Module):
            raise TypeError(
                f"backbone must return a torch.nn.Module; {self.backbone!r} made an instance of "
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
    root = module_name.partition(".")[0]
    try:
        module = import_optional(module_name, root if root in _OPTIONAL else None)
        factory = reduce(getattr, attributes.split("."), module)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"backbone={name!r} cannot be imported: {error}") from error
    if not callable(factory):
        raise ValueError(f"backbone={name!r} is not callable; it is {factory!r}.")
    return factory


def import_optional(name, package):
    """Import a module of another package; if that is missing, the error says how to install it."""
    try:
        return import_module(name)
    except (ImportError, RuntimeError, OSError) as error:
        # RuntimeError and OSError come from libraries that were built for another version of torch.
        absent = isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]
        advice = f"; install it: python -m pip install {package}" if absent and package else ""
        raise ImportError(f"{name} cannot be imported: {error}{advice}") from error


def _remove_head(module, head):
    """Replace a submodule by the identity; the name of a nested submodule has dots."""
    named_submodule(module, head, "head")
    parent, _, name = head.rpartition(".")
    setattr(module.get_submodule(parent), name, nn.Identity())


def named_submodule(module, name, parameter):
    """Return a submodule; raise `ValueError` if a parameter names none."""
    try:
        if not name or name.endswith("."):
            raise AttributeError("an empty name stands for the module itself")
        return module.get_submodule(name)
    except AttributeError as error:
        names = [child for child, _ in module.named_children()]
        raise ValueError(
            f"{parameter} must name a submodule of the backbone, such as one of {names}; got "
            f"{name!r}."
        ) from error


def _read_weights(weights):
    """Return the tensors of a state dict on the CPU, by key."""
    if not isinstance(weights, Mapping):
        path = weights
        weights = read_tensors(
            Path(path).read_bytes(),
            f"weights={str(path)!r} must be a state dict, a file of torch.save or safetensors with "
            "tensors and plain types; it is damaged, or something else.",
        )
        if not isinstance(weights, Mapping):
            raise ValueError(
                f"weights={str(path)!r} must hold a state dict; it holds an instance of "
                f"{type(weights).__name__}."
            )
    for key in weights:
        if not isinstance(key, str):
            raise ValueError(f"weights must map names of parameters to tensors; got {shown(key)}.")
    return {key: _as_tensor(key, value) for key, value in weights.items()}


def _as_tensor(key, value):
    """Return a tensor on the CPU; an array is copied to a tensor."""
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


def _without_prefixes(state_dict, module):
    """Remove prefixes that torch adds to all keys of a wrapped network; warn of it."""
    own, removed = list(module.state_dict()), ""
    while state_dict:
        prefix = next(iter(state_dict)).partition(".")[0] + "."
        if prefix not in _WRAPPERS or any(key.startswith(prefix) for key in own):
            break
        if not all(key.startswith(prefix) for key in state_dict):
            break
        state_dict = {key.removeprefix(prefix): one for key, one in state_dict.items()}
        removed += prefix
    if removed:
        warnings.warn(
            f"The prefix {removed!r} of all keys of weights was removed: the file or mapping was "
            "saved from a network that was wrapped for parallel training or compiled.",
            UserWarning,
            stacklevel=level_of_user(),
        )
    return state_dict


def _load_weights(module, state_dict, head):
    """Load weights that must fit the network exactly, except for entries of the removed head."""
    state_dict = _without_prefixes(state_dict, module)
    if head is not None:
        state_dict = {k: v for k, v in state_dict.items() if not k.startswith(f"{head}.")}
    for key, own in module.state_dict().items():
        if key in state_dict and state_dict[key].is_complex() and not own.is_complex():
            raise ValueError(f"weights do not fit the backbone: {key[:LONGEST_SHOWN]} is complex.")
    try:
        missing, unexpected = module.load_state_dict(state_dict, strict=False)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:LONGEST_REASON]
        raise ValueError(f"weights do not fit the backbone: {reason}") from error
    if missing or unexpected:
        raise ValueError(
            f"weights do not fit the backbone: missing {_listing(missing)}; "
            f"unexpected {_listing(unexpected)}."
        )


def _listing(keys):
    """Return a text with the number of keys and the first few keys."""
    dots = ", ..." if len(keys) > _SHOWN_KEYS else ""
    names = ", ".join(key[:LONGEST_SHOWN] for key in keys[:_SHOWN_KEYS])
    return f"{len(keys)} keys [{names}{dots}]"


def freeze(module):
    """Switch a network to evaluation mode and disable its gradients."""
    return module.eval().requires_grad_(False)


def state_to_arrays(module):
    """Return parameters and buffers as C-ordered arrays, which may share memory with the network.

    NumPy lacks bfloat16, which is converted to float32.
    """
    tensors = {key: _as_tensor(key, value) for key, value in module.state_dict().items()}
    arrays = {
        key: (one.float() if one.dtype == torch.bfloat16 else one).numpy()
        for key, one in tensors.items()
    }
    # Channels-last weights have unusual strides, even on axes of length one, which changes hashes.
    return {name: array.ravel().reshape(array.shape) for name, array in arrays.items()}


class Weights(dict):
    """A state dict that prints as a summary, also inside of an estimator."""

    def __repr__(self):
        count = sum(int(np.prod(np.shape(value))) for value in self.values())
        return f"<{len(self)} arrays of {count} numbers in all>"


def summarised(weights):
    """Return a dictionary as `Weights`, which share its arrays; return other values as they are."""
    is_plain = isinstance(weights, dict) and not isinstance(weights, Weights)
    return Weights(weights) if is_plain else weights
