"""Turn rows into features by a frozen network: its output, or pooled outputs of its layers."""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import get_ident
from typing import Any

import numpy as np
import torch
from torch import nn

from ffnb_sklearn._inputs.locks import ForkSafeLock
from ffnb_sklearn.backbones._augmentation import MirrorShift
from ffnb_sklearn.backbones._channels import channel_axes, check_channel_axis
from ffnb_sklearn.backbones._inputs import Inputs
from ffnb_sklearn.backbones._network import short_reason
from ffnb_sklearn.core.device import resolve_device

# Lock for adding and removing hooks, because several threads may use one network.
_HOOKS = ForkSafeLock()

# Largest allowed effect of the batch on the features of a row, relative to the largest feature.
# Rounding errors stay below it.
_BATCH_TOLERANCE = 1e-3

# Number of axes of a batch of images, and of float32 values in a vector register (AVX-512).
_IMAGE_AXES, _REGISTER = 4, 16


class NonFiniteFeaturesError(ValueError):
    """A backbone computed NaN or infinite features from finite rows."""


@dataclass(frozen=True)
class Arithmetic:
    """Device, precision and memory layout of a network and of its inputs.

    If it is `mixed`, convolutions and matrix products are computed in bfloat16; sums, losses and
    normalisations stay in `dtype`, which is float32.
    """

    device: torch.device
    dtype: torch.dtype
    mixed: bool
    channels_last: bool

    @classmethod
    def of(cls, extractor, trained=None):
        """Return the arithmetic for a `TorchFeatureExtractor`; `trained` is a network to train.

        ``mixed_precision="auto"`` selects mixed precision only in training, so it never changes
        features.
        """
        device, mixed = resolve_device(extractor.device), extractor.mixed_precision
        is_single = extractor.dtype == "float32"
        if mixed == "auto":
            mixed = trained is not None and is_single and device.type == "cuda"
            mixed = mixed and torch.cuda.is_bf16_supported(including_emulation=False)
        elif mixed and not is_single:
            raise ValueError(
                "mixed_precision=True needs dtype='float32', because it replaces part of the "
                f"float32 arithmetic by bfloat16; got dtype={extractor.dtype!r}."
            )
        # On the CPU, this layout also speeds up convolutions in float32.
        is_cpu = device.type == "cpu"
        unsafe = is_cpu and trained is not None and _is_unsafe(trained)
        channels_last = (mixed or (is_single and is_cpu)) and not unsafe
        return cls(device, getattr(torch, extractor.dtype), bool(mixed), bool(channels_last))

    def autocast(self):
        """Return the context manager in which the network runs."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.mixed)

    def place(self, module):
        """Move a network to the device, lay out its weights, and return it."""
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        module.to(self.device)
        # Module.to would refuse this layout for weights with five axes.
        for one in module.parameters():
            if one.ndim == _IMAGE_AXES:
                one.data = one.data.contiguous(memory_format=layout)
        return module

    def arrange(self, inputs):
        """Give a batch of images the memory layout of the weights; keep other inputs."""
        if self.channels_last and inputs.ndim == _IMAGE_AXES:
            return inputs.contiguous(memory_format=torch.channels_last)
        return inputs


def _is_unsafe(module):
    """Return whether gradients with the channels last would be written to wrong memory.

    oneDNN on CPUs does so in strided 1 x 1 convolutions with fewer input channels than a vector
    register holds numbers (uxlfoundation/oneDNN, issue 6035).
    """
    return any(
        isinstance(one, nn.Conv2d)
        and one.kernel_size == (1, 1) != one.stride
        and one.in_channels < _REGISTER
        for one in module.modules()
    )


@dataclass(frozen=True)
class Extraction:
    """A frozen network with all settings that determine its features, except for the scales.

    `layers` are names of submodules; None selects the output of the network. `axes` are the axes of
    the channels in their outputs, by name. The features are averaged over the `views` of each
    input.
    """

    module: nn.Module
    inputs: Inputs
    layers: Any
    pooling: str
    views: Any
    arithmetic: Arithmetic
    axes: Any = None

    @classmethod
    def of(cls, extractor, module, inputs, layers, axes=None):
        """Return the extraction for a `TorchFeatureExtractor` with this network."""
        views = MirrorShift() if extractor.views == "mirror" else extractor.views
        arithmetic = Arithmetic.of(extractor)
        return cls(module, inputs, layers, extractor.pooling, views, arithmetic, axes)

    def probe(self, pair, channel_axis=None):
        """Check the network on two rows.

        Return the widths of its layers, or of its output, and the axes of the channels in the
        layers; `channel_axis` is that of the extractor. Raise `ValueError` if a layer does not
        exist, the axis of its channels cannot be found, or the features of the first row depend on
        the other row.
        """
        if self.layers is not None:
            _check_layers(self.module, self.layers)
            if channel_axis is not None:
                check_channel_axis(channel_axis, self.layers)
        # Use full precision, because bfloat16 rounds more coarsely than the tolerance.
        full = replace(self, arithmetic=replace(self.arithmetic, mixed=False))
        try:
            if self.layers is not None:
                full = replace(full, axes=full._channel_axes(pair, channel_axis))
            together, alone = full.parts(pair), full.parts(pair[:1])
        except RuntimeError as error:
            if type(error) is not RuntimeError:  # out of memory, or an error of the network's own
                raise
            shape = tuple(pair.shape[1:] if self.inputs.shape is None else self.inputs.shape)
            raise ValueError(
                f"backbone cannot compute features of inputs of shape {shape}, which is "
                f"input_shape, or that of the first image: {short_reason(error)}"
            ) from error
        if not all(map(_agree, together, alone)):
            raise ValueError(
                "backbone must treat each row by itself; the features of the first row of X "
                "change when another row is in its batch (statistics of the batch, perhaps)."
            )
        return [part.shape[1] for part in together], full.axes

    def _channel_axes(self, pair, channel_axis):
        """Return the axes of the channels in the outputs of the layers, by name."""
        # Check the outputs first; their pooling does not matter here.
        replace(self, axes=dict.fromkeys(self.layers, 1)).parts(pair)
        with torch.inference_mode():
            inputs = self._inputs(pair[:1])
            return channel_axes(self.module, inputs, self.layers, channel_axis)

    def scales(self, rows, batch_size):
        """Compute a factor per layer that gives its features unit mean square length.

        A factor is 1 if all features of the layer are zero.
        """
        squares = np.zeros(len(self.layers))
        for _, parts in self._stream(rows, batch_size):
            squares += [np.square(part, dtype=np.float64).sum() for part in parts]
        return [float(np.sqrt(len(rows) / square)) if square else 1.0 for square in squares]

    def features(self, rows, batch_size, widths, scales):
        """Compute the features of all rows; `widths` and `scales` are those of `fit` by layer."""
        dtype = str(self.arithmetic.dtype).removeprefix("torch.")
        features = np.empty((len(rows), sum(widths)), dtype=dtype)
        for batch, parts in self._stream(rows, batch_size):
            features[batch] = np.hstack(parts)
        if scales is not None:
            features *= np.repeat(scales, widths).astype(dtype)
        return features

    def _stream(self, rows, batch_size):
        """Yield the positions of each batch of rows, and the features that `parts` returns."""
        for start in range(0, len(rows), batch_size):
            batch = slice(start, min(start + batch_size, len(rows)))
            yield batch, self.parts(rows[batch], first_row=start)

    def parts(self, rows, first_row=0):
        """Compute the features of one batch: of each layer, or only the output of the network.

        `first_row` is the position of the first row in X, for messages.
        """
        # Weights that are moved inside of the inference mode could not be moved again.
        how = self.arithmetic
        how.place(self.module)
        with torch.inference_mode(), how.autocast():
            inputs = self._inputs(rows)
            # The network may write to its input, from which the next view is made.
            views = [inputs] if self.views is None else map(torch.clone, self.views(inputs))
            found = [
                read_layers(self.module, view, self.layers, self.pooling, self.axes)
                for view in views
            ]
            means = [sum(parts) / len(found) for parts in zip(*found, strict=True)]
        return [_checked_features(part, first_row) for part in means]

    def _inputs(self, rows):
        """Return a batch of rows as inputs of the network on its device."""
        how = self.arithmetic
        return how.arrange(self.inputs.prepare(rows, how.device, how.dtype))


def _check_layers(module, layers):
    """Raise `ValueError` unless the layers name different submodules, at least one."""
    valid = [name for name, _ in module.named_modules(remove_duplicate=False) if name]
    if not layers or len(set(layers)) < len(layers) or not set(layers) <= set(valid):
        raise ValueError(
            "layers must name submodules of the backbone, at least one, and each once; got "
            f"{list(layers)}. Valid names are {valid}."
        )


def read_layers(module, inputs, layers, pooling, axes=None):
    """Return the pooled outputs of some layers for a batch, or the output of the network.

    `axes` are the axes of the channels in the outputs of the layers, by name. Raise
    `TypeError` or `ValueError` if an output is not a tensor with one row per input, or a layer did
    not run.
    """
    n = len(inputs)
    if layers is None:
        return [_checked_output(module(inputs), n).reshape(n, -1).to(inputs.dtype)]

    def pooled(name, output):
        # In mixed precision, convolutions return bfloat16; pooling uses the dtype of the inputs.
        output = _checked_output(output, n, f"layer {name!r}").to(inputs.dtype)
        return _pooled(output, pooling, axes[name])

    with _captured(module, layers, pooled) as found:
        module(inputs)
    idle = [name for name in layers if name not in found]
    if idle:
        raise ValueError(
            f"layers must name submodules that the backbone runs; it did not run {idle}."
        )
    return [found[name] for name in layers]


@contextmanager
def _captured(module, layers, keep):
    """Collect ``keep(name, output)`` by name for the layers that run in this thread.

    If a layer runs several times, its last run is kept. `keep` is called at once, because the next
    layer may write to the output in place.
    """
    found, handles, thread = {}, [], get_ident()

    def hook_of(name):
        def hook(_module, _inputs, output):
            if get_ident() == thread:
                found[name] = keep(name, output)

        return hook

    try:
        for name in layers:
            with _HOOKS.held:
                handles.append(module.get_submodule(name).register_forward_hook(hook_of(name)))
        yield found
    finally:
        with _HOOKS.held:
            for handle in handles:
                handle.remove()


def _pooled(output, pooling, axis):
    """Pool the output of a layer over all axes except samples and channels, in new memory."""
    if output.ndim <= 2:
        return output.reshape(len(output), -1).clone()
    positions = output.movedim(axis, 1).flatten(2)
    return positions.mean(dim=2) if pooling == "mean" else positions.amax(dim=2)


def _checked_output(output, n_rows, source="backbone"):
    """Return an output of `source`; raise unless it is a real tensor with one row per input."""
    if not isinstance(output, torch.Tensor) or output.is_complex():
        kind = getattr(output, "dtype", type(output).__name__)
        raise TypeError(
            f"{source} must return a tensor of real numbers, one row per input; got {kind}."
        )
    if output.ndim == 0 or len(output) != n_rows:
        raise ValueError(
            f"{source} must return one row per input; got shape {tuple(output.shape)} for "
            f"{n_rows} inputs."
        )
    return output


def _checked_features(output, first_row):
    """Copy the features of one batch to the CPU, and check that they are finite."""
    features = output.cpu().numpy()
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if bad.size:
        raise NonFiniteFeaturesError(
            f"backbone gives NaN or infinite features for {bad.size} of {len(features)} rows of a "
            f"batch, the first of them row {first_row + bad[0]} of X."
        )
    return features


def _agree(together, alone):
    """Return whether the features of the first row are the same in both batches."""
    scale = np.abs(together).max(initial=0.0)
    return together.shape[1] == alone.shape[1] and np.allclose(
        together[0], alone[0], rtol=0.0, atol=_BATCH_TOLERANCE * scale
    )
