"""Build the network of a `TorchFeatureExtractor`, load its weights, and return them as arrays."""

import io
import os
import re
import stat
import warnings
import zipfile
from collections.abc import Mapping
from copy import deepcopy
from importlib import import_module
from math import sqrt
from pathlib import Path

import numpy as np
import torch
from scipy.stats import kstest
from torch import nn

from ffnb_sklearn.backbones._seeding import seed_layers
from ffnb_sklearn.core.messages import level_of_user

# Most characters of a message of torch that is repeated.
_LONGEST_REASON = 500

# Prefixes of the keys of a network in `DataParallel` or `DistributedDataParallel`, and of a network
# that `torch.compile` has returned.
_WRAPPERS = re.compile(r"(module\.|_orig_mod\.)+")

# Packages of networks that are not dependencies of this package.
_OPTIONAL_PACKAGES = {"torchvision", "timm"}

# Layers whose initial weights are constant, and layers whose weights torch draws from a uniform
# distribution.
_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
_DRAWN = (nn.Linear, nn.modules.conv._ConvNd)

# Kinds of the arrays of a state: booleans, integers and real numbers.
_NUMBERS = "biuf"

# Kinds of paths that are no regular files, and the tests of their modes.
_IRREGULAR = [
    ("a folder", stat.S_ISDIR),
    ("a pipe", stat.S_ISFIFO),
    ("a socket", stat.S_ISSOCK),
    ("a device", stat.S_ISCHR),
    ("a device", stat.S_ISBLK),
]


class RandomFeaturesWarning(UserWarning):
    """A backbone has weights that were drawn at random and never trained."""


def build_network(extractor, state=None, seed=0):
    """Build the network of an extractor on the CPU, with given weights or with its own.

    `state` maps names to tensors or arrays; no file is opened for it. `seed` determines random
    weights of a factory. Raise `ValueError` if the dotted name cannot be imported, the head does
    not exist, or the weights do not fit.
    """
    module = _create_network(extractor.backbone, extractor.backbone_params or {}, seed)
    # After a head is removed or the type changes, keys no longer share a tensor.
    tied_keys = _tied_keys(module)
    heads = head_names(extractor.head)
    for head in heads:
        remove_head(module, head)
    # Cast before the weights are loaded, so that they keep their digits.
    dtype = getattr(torch, extractor.dtype)
    module.to(dtype)
    if state is not None:
        _load_weights(module, _as_tensors(state), heads, tied_keys)
    return module


def head_names(head):
    """Return the names of the submodules to replace, which `head` of an extractor holds."""
    if head is None:
        return []
    if isinstance(head, str):
        return [head]
    return [str(name) for name in head]


def _create_network(backbone, params, seed):
    """Copy a network, or call its factory."""
    if isinstance(backbone, nn.Module):
        if params:
            raise ValueError(
                f"backbone_params must be None where backbone is a network; got {params!r}."
            )
        return deepcopy(backbone)
    factory = backbone
    if isinstance(backbone, str):
        factory = _import_factory(backbone)
    # Random weights must be the same at every call and must not change the global generator, even
    # if the factory of a trained backbone replaces them.
    with seed_layers(seed):
        module = factory(**params)
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"backbone must return a torch.nn.Module; {backbone!r} made an instance of "
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
    package = module_name.partition(".")[0]
    if package not in _OPTIONAL_PACKAGES:
        package = None
    try:
        factory = import_optional(module_name, package)
        for attribute in attributes.split("."):
            factory = getattr(factory, attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"backbone={name!r} cannot be imported: {error}") from error
    if not callable(factory):
        raise ValueError(f"backbone={name!r} is not callable; it is {factory!r}.")
    return factory


def import_optional(name, package):
    """Import a module of another package, or raise an error that explains how to install it."""
    try:
        return import_module(name)
    except (ImportError, RuntimeError, OSError) as error:
        # RuntimeError and OSError come from libraries that were built for another version of torch.
        root = name.partition(".")[0]
        is_absent = isinstance(error, ModuleNotFoundError) and error.name == root
        advice = ""
        if is_absent and package:
            advice = f"; install it: python -m pip install {package}"
        raise ImportError(f"{name} cannot be imported: {error}{advice}") from error


def remove_head(module, head):
    """Replace a submodule by the identity; the name of a nested submodule has dots."""
    find_submodule(module, head, "head")
    parent_name, _, name = head.rpartition(".")
    parent = module.get_submodule(parent_name)
    setattr(parent, name, nn.Identity())


def find_submodule(module, name, parameter):
    """Return a submodule; raise `ValueError` if a parameter names none."""
    submodules = dict(module.named_modules(remove_duplicate=False))
    if not name or name not in submodules:
        names = [child for child, _ in module.named_children()]
        raise ValueError(
            f"{parameter} must name a submodule of the backbone, such as one of {names}; got "
            f"{name!r}."
        )
    return submodules[name]


def read_weights(weights):
    """Return the state dict in the parameter `weights`; read the file if it is a path."""
    if weights is None or isinstance(weights, Mapping):
        return weights
    state = _read_file(weights)
    if not isinstance(state, Mapping):
        raise ValueError(
            f"weights={str(weights)!r} must hold a state dict; it holds an instance of "
            f"{type(state).__name__}."
        )
    return state


def is_state(value: object) -> bool:
    """Return whether a value is a mapping of names to arrays of numbers, as `state_dict_` is."""
    if not isinstance(value, Mapping):
        return False
    for name, array in value.items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray):
            return False
        if array.dtype.kind not in _NUMBERS:
            return False
    return True


def _read_file(path):
    """Read a file of `torch.save`, of any age, or of safetensors, without running any code."""
    check_regular(path, f"weights={str(path)!r}")
    content = Path(path).read_bytes()
    try:
        # The names of a file of safetensors follow the eight bytes of their length.
        if content[8:9] == b"{":
            import_optional("safetensors", "safetensors")
            from safetensors.torch import load

            return load(content)
        if content.startswith(b"PK"):
            _check_archive(content)
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except ImportError:
        raise
    except Exception as error:
        # A damaged file can raise an error of nearly any kind. The reason is not repeated, because
        # the message of torch advises reading the file without its safeguard.
        raise ValueError(
            f"weights={str(path)!r} must be a state dict, a file of torch.save or safetensors with "
            "tensors and plain types; it is damaged, or something else."
        ) from error


def _check_archive(content):
    """Raise `ValueError` if a checksum or a size in an archive is wrong, which torch ignores."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if archive.testzip():
            raise ValueError("the archive has a wrong checksum")
        for member in archive.infolist():
            # Torch leaves memory unset for members that are shorter than their size, or marked as
            # folders.
            if member.compress_size != member.file_size or member.external_attr:
                raise ValueError("the archive has a wrong size")


def check_regular(path, name):
    """Raise `ValueError` unless a path leads to a regular file; reading other files may hang."""
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        return
    kind = "something else"
    for irregular_kind, has_kind in _IRREGULAR:
        if has_kind(mode):
            kind = irregular_kind
    raise ValueError(f"{name} must be a regular file; it is {kind}.")


def _as_tensors(state):
    """Return the tensors of a state dict on the CPU, by key."""
    if not isinstance(state, Mapping):
        raise ValueError(
            "state_dict_ must be a mapping of names to arrays of numbers; got an instance of "
            f"{type(state).__name__}."
        )
    return {str(key): _as_tensor(key, value) for key, value in state.items()}


def _as_tensor(key, value):
    """Return a tensor on the CPU; an array is copied to a tensor."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    array = np.array(value)
    if array.dtype.kind not in _NUMBERS:
        raise ValueError(
            f"weights must map keys to tensors or arrays of numbers; {str(key)[:100]!r} maps to an "
            f"instance of {type(value).__name__}."
        )
    return torch.from_numpy(array)


def _load_weights(module, state_dict, heads, tied_keys):
    """Load weights that must fit the network exactly, except for entries of the removed heads."""
    state_dict = _unwrap_keys(state_dict, module)
    state_dict = _fill_tied_keys(state_dict, tied_keys)
    head_prefixes = tuple(f"{head}." for head in heads)
    kept_keys = [key for key in state_dict if not key.startswith(head_prefixes)]
    weights = {key: state_dict[key] for key in kept_keys}
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"weights do not fit the backbone: {short_reason(error)}") from error


def _fill_tied_keys(state_dict, tied_keys):
    """Add keys that share a stored tensor, which a file of safetensors holds only once."""
    complete = dict(state_dict)
    for keys in tied_keys:
        stored_keys = [key for key in keys if key in state_dict]
        if not stored_keys:
            continue
        tensor = state_dict[stored_keys[0]]
        for key in keys:
            complete.setdefault(key, tensor)
    return complete


def _tied_keys(module):
    """Return the keys of the state dict of a network by tensor, for tensors with several keys."""
    keys_by_memory = {}
    state_dict = module.state_dict(keep_vars=True)
    for key, tensor in state_dict.items():
        if isinstance(tensor, torch.Tensor) and tensor.numel():
            memory = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
            keys_by_memory.setdefault(memory, []).append(key)
    return [keys for keys in keys_by_memory.values() if len(keys) > 1]


def _unwrap_keys(state_dict, module):
    """Remove the prefix that the keys of a wrapped network have, and warn about it."""
    first_key = next(iter(state_dict), "")
    match = _WRAPPERS.match(first_key)
    if match is None:
        return state_dict
    prefix = match[0]
    has_prefix = all(key.startswith(prefix) for key in state_dict)
    network_has_prefix = any(key.startswith(prefix) for key in module.state_dict())
    if not has_prefix or network_has_prefix:
        return state_dict
    warnings.warn(
        f"The prefix {prefix!r} of all keys of weights was removed: the file or mapping was "
        "saved from a network that was wrapped for parallel training or compiled.",
        UserWarning,
        stacklevel=level_of_user(),
    )
    return {key.removeprefix(prefix): tensor for key, tensor in state_dict.items()}


def short_reason(error):
    """Return the message of torch on one line of bounded length."""
    words = str(error).split()
    return " ".join(words)[:_LONGEST_REASON]


def warn_if_untrained(module, backbone):
    """Warn if the weights of a network look as torch draws them."""
    if not _looks_untrained(module):
        return
    name = repr(backbone)
    if isinstance(backbone, nn.Module):
        name = type(backbone).__name__
    warnings.warn(
        f"The features are random: the weights of backbone={name} are as torch initialises "
        "them, because there are no weights. Give weights, a backbone that has loaded them, or "
        "epochs to pretrain it.",
        RandomFeaturesWarning,
        stacklevel=level_of_user(),
    )


def _looks_untrained(module):
    """Return whether all normalisations are constant or, if none exist, the weights uniform."""
    norm_tensors = []
    drawn_layers = []
    for layer in module.modules():
        if isinstance(layer, _NORMS):
            norm_tensors.extend(layer.parameters())
            norm_tensors.extend(layer.buffers())
        elif isinstance(layer, _DRAWN):
            drawn_layers.append(layer)
    if norm_tensors:
        return all(map(_is_constant, norm_tensors))
    return _are_uniform(drawn_layers)


def _is_constant(tensor):
    """Return whether all values of a tensor are equal."""
    return bool((tensor == tensor.flatten()[0]).all())


def _are_uniform(layers):
    """Return whether the weights of layers have the distribution from which torch draws them.

    A weight of a layer with n inputs per output is uniform between -1 / sqrt(n) and 1 / sqrt(n).
    """
    samples = [np.empty(0, dtype=np.float32)]
    for layer in layers:
        weight = layer.weight.detach().cpu().float()
        n_inputs = weight[0].numel()
        # 10,000 numbers per layer are enough.
        values = weight.flatten()[:10_000]
        samples.append(values.numpy() * np.float32(sqrt(n_inputs)))
    sample = np.concatenate(samples)
    if len(sample) < 100:
        return False
    test = kstest(sample, "uniform", (-1, 2))
    return bool(test.pvalue > 1e-6)


def freeze(module):
    """Switch a network to evaluation mode and disable its gradients."""
    return module.eval().requires_grad_(False)


def state_to_arrays(module):
    """Return parameters and buffers as C-ordered arrays, which may share memory with the network.

    NumPy lacks bfloat16, which is converted to float32.
    """
    arrays = {}
    for name, tensor in module.state_dict().items():
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.float()
        array = tensor.detach().cpu().numpy()
        # Channels-last weights have unusual strides, even on axes of length 1, which changes
        # hashes.
        arrays[name] = array.ravel().reshape(array.shape)
    return arrays
