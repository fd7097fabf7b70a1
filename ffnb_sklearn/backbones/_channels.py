"""Find the axis of the channels in the outputs of layers.

An output of more than two axes has an axis of samples, an axis of channels, and axes of positions
(pixels, frames, tokens, joints), over which it is pooled. Three sources tell the channels:

- most layers of torch define their axis: 1 for convolutions, the last for linear layers; an
  activation behind them keeps it;
- in other outputs, the number of channels is that of the last layer that defined it before, if the
  positions of both outputs agree;
- a longer input gives more positions, never more channels.
"""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from torch import nn
from torch.nn.modules import activation, batchnorm, conv, dropout
from torch.nn.modules import pooling as pools

# Layers of torch by the axis of their channels, apart from poolings.
_SECOND = (conv._ConvNd, batchnorm._NormBase, nn.GroupNorm)
_LAST = (nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.TransformerEncoderLayer)
_POOLS = (
    pools._MaxPoolNd,
    pools._AvgPoolNd,
    pools._LPPoolNd,
    pools._AdaptiveMaxPoolNd,
    pools._AdaptiveAvgPoolNd,
)

# Modules of layers of torch that treat each value by itself.
_ELEMENTWISE = {activation.__name__, dropout.__name__, nn.Identity.__module__}

# Attributes of these layers that hold the number of channels of their outputs.
_WIDTHS = ("out_channels", "num_features", "num_channels", "out_features", "embedding_dim")


@dataclass(frozen=True)
class _Run:
    """An output of a layer: its shape, and the axes on which the layers before place channels."""

    shape: tuple[int, ...]
    is_certain: bool
    candidates: frozenset[int]


def check_channel_axis(channel_axis, layers):
    """Raise unless the parameter is an integer or a mapping from some of the layers to integers."""
    if isinstance(channel_axis, Mapping):
        unknown = [name for name in channel_axis if name not in layers]
        if unknown:
            raise ValueError(
                f"channel_axis must map names in layers={list(layers)} to integers; got {unknown}."
            )
        values = list(channel_axis.values())
    else:
        values = [channel_axis]
    if not all(isinstance(value, Integral) and not isinstance(value, bool) for value in values):
        raise ValueError(
            "channel_axis must be an integer, or map names in layers to integers; got "
            f"{channel_axis!r}."
        )


def channel_axes(module, inputs, layers, channel_axis=None):
    """Return the axis of the channels in the output of each layer, by name.

    `inputs` is a batch of one input. `channel_axis` is the axis, or the axes of some of the layers,
    if the user has named it. The network must run all layers. It is copied, because it may store
    values that depend on the size of the input. Raise `ValueError` if several axes are possible.
    """
    if channel_axis is None:
        named = {}
    elif isinstance(channel_axis, Mapping):
        named = dict(channel_axis)
    else:
        named = dict.fromkeys(layers, channel_axis)

    module = deepcopy(module)
    runs = {name: [] for name in layers}
    _record_runs(module, inputs, runs)
    last = {name: found[-1] for name, found in runs.items()}
    uncertain = [name for name in layers if name not in named and not last[name].is_certain]
    constant = _constant_axes(module, inputs, {name: runs[name] for name in uncertain})
    axes = {}
    for name, run in last.items():
        if len(run.shape) <= 2:
            axes[name] = 1
        elif name in named:
            axes[name] = _named_axis(name, run.shape, named[name])
        elif run.is_certain:
            (axes[name],) = run.candidates
        else:
            axes[name] = _only_axis(name, run.shape, run.candidates & constant[name])
    return axes


def _named_axis(name, shape, axis):
    """Return an axis that the user has named, as a positive number."""
    if not (0 < axis < len(shape) or -len(shape) < axis < 0):
        raise ValueError(
            f"channel_axis must be an axis of the output of layer {name!r} other than 0, which has "
            f"shape {_batch_shape(shape)}; got {axis}."
        )
    return int(axis % len(shape))


def _only_axis(name, shape, candidates):
    """Return the only candidate; raise `ValueError` if there is none, or more than one."""
    if len(candidates) != 1:
        possible = sorted(candidates) or list(range(1, len(shape)))
        raise ValueError(
            f"channel_axis must name the axis of the channels in the output of layer {name!r}, "
            f"which has shape {_batch_shape(shape)}, because it cannot be found; possible axes are "
            f"{possible}. Give an integer, or a mapping from names in layers to integers."
        )
    (axis,) = candidates
    return axis


def _batch_shape(shape):
    """Return the shape of an output for any number of samples, as a text."""
    return "(n_samples, " + ", ".join(map(str, shape[1:])) + ")"


def _constant_axes(module, inputs, runs):
    """Return the axes of the last output of each layer that no longer input makes longer.

    Each axis of the input is doubled by itself. Networks refuse most of these inputs, but layers
    that have run before still count.
    """
    constant = {name: set(range(1, len(found[-1].shape))) for name, found in runs.items()}
    if not runs:
        return constant
    for input_axis in range(1, inputs.ndim):
        longer_runs = {name: [] for name in runs}
        # The error may be of any kind.
        with suppress(Exception):
            _record_runs(module, torch.cat([inputs, inputs], dim=input_axis), longer_runs)
        for name, found in runs.items():
            # A layer may run several times; compare the same run.
            same_run = longer_runs[name][len(found) - 1 : len(found)]
            for longer in same_run:
                if len(longer.shape) == len(found[-1].shape):
                    sizes = zip(longer.shape, found[-1].shape, strict=True)
                    constant[name] -= {i for i, (new, old) in enumerate(sizes) if new != old}
    return constant


def _record_runs(module, inputs, runs):
    """Append a `_Run` to ``runs[name]`` whenever a layer runs; all layers run in this thread."""
    names = {}
    for name in runs:
        names.setdefault(module.get_submodule(name), []).append(name)
    # Shape and number of channels of the last output of each number of values.
    known = {}
    # Last output whose axis is certain, and the axis.
    latest = None, None

    def hook(layer, inputs_of_layer, output):
        nonlocal latest
        if not isinstance(output, torch.Tensor):
            return
        shape = tuple(output.shape)
        axis = _defined_axis(layer, shape)
        if axis is None and _is_elementwise(layer) and inputs_of_layer[0] is latest[0]:
            axis = latest[1]
        if axis is not None:
            latest = output, axis
        n_channels = _declared_width(layer) if axis is None else shape[axis]
        if n_channels in shape[1:]:
            known[output.numel()] = shape, n_channels
        for name in names.get(layer, ()):
            if axis is None:
                candidates = _axes_of_width(shape, *known.get(output.numel(), (shape, None)))
            else:
                candidates = {axis}
            runs[name].append(_Run(shape, axis is not None, frozenset(candidates)))

    handles = [layer.register_forward_hook(hook) for layer in set(module.modules())]
    try:
        module(inputs)
    finally:
        for handle in handles:
            handle.remove()


def _defined_axis(layer, shape):
    """Return the axis on which a layer of torch places its channels, or None if it has none."""
    # Subclasses may permute axes around the layer.
    if not type(layer).__module__.startswith("torch.nn.modules."):
        return None
    width = _declared_width(layer)
    if isinstance(layer, _SECOND) and shape[1] == width:
        return 1
    if isinstance(layer, nn.TransformerEncoderLayer) or (
        isinstance(layer, _LAST) and shape[-1] == width
    ):
        return len(shape) - 1
    # Without channels, a pooling takes the samples for channels.
    if isinstance(layer, _POOLS) and type(layer).__name__.endswith(f"{len(shape) - 2}d"):
        return 1
    return None


def _is_elementwise(layer):
    """Return whether a layer of torch treats each value by itself, apart from a softmax."""
    return type(layer).__module__ in _ELEMENTWISE and not isinstance(layer, nn.GLU | nn.Linear)


def _declared_width(layer):
    """Return the number of channels of the outputs of a layer, or None if it does not say so."""
    if not isinstance(layer, _SECOND + _LAST):
        return None
    normalized = getattr(layer, "normalized_shape", ())
    if len(normalized) == 1:
        return normalized[0]
    widths: list[Any] = [getattr(layer, name) for name in _WIDTHS if hasattr(layer, name)]
    return widths[0] if widths else None


def _axes_of_width(shape, known_shape, n_channels):
    """Return the axes of an output that may hold the channels of an earlier output.

    The positions of both outputs must agree up to their order, or one of the outputs must have all
    positions on one axis. Return all axes if there is no such axis.
    """
    known_positions = list(known_shape[1:])
    if n_channels in known_positions:
        known_positions.remove(n_channels)
    axes = set()
    for axis in range(1, len(shape)):
        positions = [*shape[1:axis], *shape[axis + 1 :]]
        is_flat = 1 in (len(positions), len(known_positions))
        if shape[axis] == n_channels and (is_flat or sorted(positions) == sorted(known_positions)):
            axes.add(axis)
    return axes or set(range(1, len(shape)))
