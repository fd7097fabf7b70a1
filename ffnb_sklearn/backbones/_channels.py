"""Find the axis of the channels in the outputs of layers.

An output of more than two axes has an axis of samples, an axis of channels, and axes of positions
(pixels, frames, tokens, joints), over which it is pooled. Three sources determine the axis of
the channels:

- most layers of torch define their axis: 1 for convolutions, the last for linear layers; an
  activation behind them keeps it;
- in other outputs, the number of channels is taken from the last earlier layer that defined it, if
  the positions of both outputs agree;
- a longer input gives more positions, never more channels.
"""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral

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
    """An output of a layer: its shape, and the axes on which earlier layers place channels."""

    shape: tuple[int, ...]
    is_certain: bool
    candidates: frozenset[int]


def check_channel_axis(channel_axis, layers):
    """Raise unless the parameter is an integer or a mapping from some of the layers to integers."""
    axes = [channel_axis]
    if isinstance(channel_axis, Mapping):
        unknown = [name for name in channel_axis if name not in layers]
        if unknown:
            raise ValueError(
                f"channel_axis must map names in layers={list(layers)} to integers; got {unknown}."
            )
        axes = channel_axis.values()
    for axis in axes:
        if not isinstance(axis, Integral) or isinstance(axis, bool):
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
    named_axes = {}
    if isinstance(channel_axis, Mapping):
        named_axes.update(channel_axis)
    elif channel_axis is not None:
        named_axes = dict.fromkeys(layers, channel_axis)

    module = deepcopy(module)
    runs = _layer_runs(module, inputs, layers)
    axes = {}
    runs_of_uncertain = {}
    for name in layers:
        last_run = runs[name][-1]
        if len(last_run.shape) <= 2:
            axes[name] = 1
        elif name in named_axes:
            axes[name] = _positive_axis(name, last_run.shape, named_axes[name])
        elif last_run.is_certain:
            (axes[name],) = last_run.candidates
        else:
            runs_of_uncertain[name] = runs[name]
    constant_axes = _constant_axes(module, inputs, runs_of_uncertain)
    for name, constant in constant_axes.items():
        last_run = runs[name][-1]
        axes[name] = _only_axis(name, last_run.shape, last_run.candidates & constant)
    return {name: axes[name] for name in layers}


def _positive_axis(name, shape, axis):
    """Return an axis that the user has named, counted from the first axis."""
    n_axes = len(shape)
    is_positive = 0 < axis < n_axes
    is_negative = -n_axes < axis < 0
    if not is_positive and not is_negative:
        raise ValueError(
            f"channel_axis must be an axis of the output of layer {name!r} other than 0, which has "
            f"shape {_batch_shape(shape)}; got {axis}."
        )
    return int(axis % n_axes)


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
    sides = ", ".join(map(str, shape[1:]))
    return f"(n_samples, {sides})"


def _constant_axes(module, inputs, runs):
    """Return the axes of the last output of each layer that no longer input makes longer.

    Each axis of the input is doubled by itself. Networks refuse most of these inputs, but layers
    that have run before still count.
    """
    constant_axes = {}
    for name, layer_runs in runs.items():
        n_axes = len(layer_runs[-1].shape)
        constant_axes[name] = set(range(1, n_axes))
    if not runs:
        return constant_axes
    for input_axis in range(1, inputs.ndim):
        longer_inputs = torch.cat([inputs, inputs], dim=input_axis)
        longer_runs = {name: [] for name in runs}
        # The error may be of any kind.
        with suppress(Exception):
            _record_runs(module, longer_inputs, longer_runs)
        for name, layer_runs in runs.items():
            # A layer may run several times; compare the same run.
            number = len(layer_runs) - 1
            if number < len(longer_runs[name]):
                shape = layer_runs[number].shape
                longer_shape = longer_runs[name][number].shape
                constant_axes[name] -= _changed_axes(shape, longer_shape)
    return constant_axes


def _changed_axes(shape, longer_shape):
    """Return the axes along which two shapes differ, if they have the same number of axes."""
    if len(shape) != len(longer_shape):
        return set()
    sides = zip(shape, longer_shape, strict=True)
    return {axis for axis, (side, longer_side) in enumerate(sides) if side != longer_side}


def _layer_runs(module, inputs, layers):
    """Return the runs of each layer, by name."""
    runs = {name: [] for name in layers}
    _record_runs(module, inputs, runs)
    return runs


def _record_runs(module, inputs, runs):
    """Append a `_Run` to ``runs[name]`` whenever a layer runs; all layers run in this thread."""
    recorder = _Recorder(module, runs)
    handles = []
    for layer in set(module.modules()):
        handles.append(layer.register_forward_hook(recorder))
    try:
        module(inputs)
    finally:
        for handle in handles:
            handle.remove()


class _Recorder:
    """Hook that records the runs of layers, and follows the channels through the network."""

    def __init__(self, module, runs):
        self.runs = runs
        self.names_of_layer = {}
        for name in runs:
            layer = module.get_submodule(name)
            self.names_of_layer.setdefault(layer, []).append(name)
        # Last output with a certain axis of the channels, and the axis.
        self.certain_output = None
        self.certain_axis = None
        # Shape and number of channels of the last output with channels, by its number of values.
        self.shapes_and_widths = {}

    def __call__(self, layer, inputs, output):
        """Record the run of a layer; a forward hook has this signature."""
        if not isinstance(output, torch.Tensor):
            return
        shape = tuple(output.shape)
        axis = self._find_certain_axis(layer, inputs, shape)
        if axis is None:
            width = _declared_width(layer)
        else:
            self.certain_output = output
            self.certain_axis = axis
            width = shape[axis]
        if width in shape[1:]:
            self.shapes_and_widths[output.numel()] = (shape, width)
        for name in self.names_of_layer.get(layer, ()):
            candidates = {axis}
            if axis is None:
                candidates = self._candidate_axes(output)
            run = _Run(shape, axis is not None, frozenset(candidates))
            self.runs[name].append(run)

    def _find_certain_axis(self, layer, inputs, shape):
        """Return the axis of the channels if the layer, or the previous layer, determines it."""
        axis = _defined_axis(layer, shape)
        if axis is None and _is_elementwise(layer) and inputs[0] is self.certain_output:
            return self.certain_axis
        return axis

    def _candidate_axes(self, output):
        """Return the axes that may hold the channels of an earlier output with as many values."""
        shape = tuple(output.shape)
        if output.numel() not in self.shapes_and_widths:
            return _axes_of_width(shape, shape, None)
        earlier_shape, width = self.shapes_and_widths[output.numel()]
        return _axes_of_width(shape, earlier_shape, width)


def _defined_axis(layer, shape):
    """Return the axis on which a layer of torch places its channels, or None if it has none."""
    # Subclasses may permute axes around the layer.
    if not type(layer).__module__.startswith("torch.nn.modules."):
        return None
    width = _declared_width(layer)
    n_axes = len(shape)
    if isinstance(layer, _SECOND) and shape[1] == width:
        return 1
    if isinstance(layer, _LAST) and shape[-1] == width:
        return n_axes - 1
    if isinstance(layer, nn.TransformerEncoderLayer):
        return n_axes - 1
    # A pooling takes a batch without channels for one image whose channels are the samples.
    n_positions = n_axes - 2
    if isinstance(layer, _POOLS) and type(layer).__name__.endswith(f"{n_positions}d"):
        return 1
    return None


def _is_elementwise(layer):
    """Return whether a layer of torch treats each value by itself, apart from a softmax."""
    is_in_module = type(layer).__module__ in _ELEMENTWISE
    return is_in_module and not isinstance(layer, nn.GLU | nn.Linear)


def _declared_width(layer):
    """Return the number of channels in the outputs of a layer, or None if it has no such number."""
    if not isinstance(layer, _SECOND + _LAST):
        return None
    normalized_shape = getattr(layer, "normalized_shape", ())
    if len(normalized_shape) == 1:
        return normalized_shape[0]
    for name in _WIDTHS:
        if hasattr(layer, name):
            return getattr(layer, name)
    return None


def _axes_of_width(shape, earlier_shape, width):
    """Return the axes of an output that may hold the channels of an earlier output.

    The positions of both outputs must agree up to their order, or one of the outputs must have all
    positions on one axis. Return all axes if there is no such axis.
    """
    earlier_positions = list(earlier_shape[1:])
    if width in earlier_positions:
        earlier_positions.remove(width)
    axes = set()
    for axis in range(1, len(shape)):
        positions = [*shape[1:axis], *shape[axis + 1 :]]
        is_flat = len(positions) == 1 or len(earlier_positions) == 1
        has_same_positions = sorted(positions) == sorted(earlier_positions)
        if shape[axis] == width and (is_flat or has_same_positions):
            axes.add(axis)
    return axes or set(range(1, len(shape)))
