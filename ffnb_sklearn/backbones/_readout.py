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

# Number of axes of a batch of images.
_IMAGE_AXES = 4

# Number of float32 values in a vector register (AVX-512).
_REGISTER = 16


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

    def autocast(self):
        """Return the context manager in which the network runs."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.mixed)

    def place(self, module):
        """Move a network to the device, lay out its weights, and return it."""
        layout = torch.contiguous_format
        if self.channels_last:
            layout = torch.channels_last
        module.to(self.device)
        # Module.to would refuse this layout for weights with five axes.
        for parameter in module.parameters():
            if parameter.ndim == _IMAGE_AXES:
                parameter.data = parameter.data.contiguous(memory_format=layout)
        return module

    def arrange(self, inputs):
        """Convert a batch of images to the memory layout of the weights; keep other inputs."""
        if self.channels_last and inputs.ndim == _IMAGE_AXES:
            return inputs.contiguous(memory_format=torch.channels_last)
        return inputs


def transform_arithmetic(extractor):
    """Return the arithmetic in which a `TorchFeatureExtractor` computes features.

    ``mixed_precision="auto"`` never selects mixed precision here, so it never changes features.
    """
    device = resolve_device(extractor.device)
    mixed = False
    if extractor.mixed_precision != "auto":
        mixed = _requests_mixed_precision(extractor)
    is_single_on_cpu = device.type == "cpu" and extractor.dtype == "float32"
    # On the CPU, this layout also speeds up convolutions in float32.
    channels_last = mixed or is_single_on_cpu
    return Arithmetic(device, getattr(torch, extractor.dtype), mixed, channels_last)


def training_arithmetic(extractor, module):
    """Return the arithmetic in which a `TorchFeatureExtractor` trains a network."""
    inference = transform_arithmetic(extractor)
    mixed = inference.mixed
    if extractor.mixed_precision == "auto":
        is_single_on_cuda = inference.device.type == "cuda" and extractor.dtype == "float32"
        mixed = is_single_on_cuda and torch.cuda.is_bf16_supported(including_emulation=False)
    channels_last = mixed or inference.channels_last
    if inference.device.type == "cpu" and _is_unsafe(module):
        channels_last = False
    return replace(inference, mixed=mixed, channels_last=channels_last)


def _requests_mixed_precision(extractor):
    """Return whether the user has requested mixed precision, which needs float32."""
    if extractor.mixed_precision and extractor.dtype != "float32":
        raise ValueError(
            "mixed_precision=True needs dtype='float32', because it replaces part of the "
            f"float32 arithmetic by bfloat16; got dtype={extractor.dtype!r}."
        )
    return bool(extractor.mixed_precision)


def _is_unsafe(module):
    """Return whether gradients with the channels last would be written to wrong memory.

    oneDNN on CPUs does so in strided 1 x 1 convolutions with fewer input channels than a vector
    register holds numbers (uxlfoundation/oneDNN, issue 6035).
    """
    for layer in module.modules():
        if not isinstance(layer, nn.Conv2d):
            continue
        is_strided = layer.kernel_size == (1, 1) and layer.stride != (1, 1)
        if is_strided and layer.in_channels < _REGISTER:
            return True
    return False


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
    def from_extractor(cls, extractor, module, inputs, layers, axes=None):
        """Return the extraction for a `TorchFeatureExtractor` with this network."""
        views = extractor.views
        if views == "mirror":
            views = MirrorShift()
        arithmetic = transform_arithmetic(extractor)
        return cls(module, inputs, layers, extractor.pooling, views, arithmetic, axes)

    def probe(self, pair, channel_axis=None):
        """Check the network on two rows.

        Return the widths of its layers, or of its output, and the axes of the channels in the
        layers; `channel_axis` is that of the extractor. Raise `ValueError` if a layer does not
        exist, the axis of its channels cannot be determined, or the features of the first row
        depend on the other row.
        """
        if self.layers is not None:
            _check_layers(self.module, self.layers)
            if channel_axis is not None:
                check_channel_axis(channel_axis, self.layers)
        # Use full precision, because bfloat16 rounds more coarsely than the tolerance.
        full_precision = replace(self.arithmetic, mixed=False)
        extraction = replace(self, arithmetic=full_precision)
        with self._explain_errors(pair):
            if self.layers is not None:
                axes = extraction._channel_axes(pair, channel_axis)
                extraction = replace(extraction, axes=axes)
            features_of_pair = extraction.layer_features(pair)
            features_of_first = extraction.layer_features(pair[:1])
        if not all(map(_agree, features_of_pair, features_of_first)):
            raise ValueError(
                "backbone must treat each row by itself; the features of the first row of X "
                "change when another row is in its batch (statistics of the batch, perhaps)."
            )
        widths = [features.shape[1] for features in features_of_pair]
        return widths, extraction.axes

    @contextmanager
    def _explain_errors(self, pair):
        """Raise errors of torch in the block as `ValueError` with the shape of the inputs."""
        try:
            yield
        except RuntimeError as error:
            # Subclasses mean that memory is exhausted, or are errors of the network.
            if type(error) is not RuntimeError:
                raise
            shape = self.inputs.shape
            if shape is None:
                shape = pair.shape[1:]
            raise ValueError(
                f"backbone cannot compute features of inputs of shape {tuple(shape)}, which is "
                f"input_shape, or that of the first image: {short_reason(error)}"
            ) from error

    def _channel_axes(self, pair, channel_axis):
        """Return the axes of the channels in the outputs of the layers, by name."""
        # Check the outputs first; their pooling does not matter here.
        any_axes = dict.fromkeys(self.layers, 1)
        replace(self, axes=any_axes).layer_features(pair)
        with torch.inference_mode():
            inputs = self._prepare(pair[:1])
            return channel_axes(self.module, inputs, self.layers, channel_axis)

    def scales(self, rows, batch_size):
        """Compute a factor per layer that gives its features unit mean square length.

        The factor of a layer is sqrt(n / sum of squared features) for n rows, and 1 if all features
        of the layer are zero.
        """
        sums_of_squares = np.zeros(len(self.layers))
        for _, layer_features in self._batches(rows, batch_size):
            for number, features in enumerate(layer_features):
                squares = np.square(features, dtype=np.float64)
                sums_of_squares[number] += squares.sum()
        is_zero = sums_of_squares == 0.0
        sums_of_squares[is_zero] = len(rows)
        return np.sqrt(len(rows) / sums_of_squares).tolist()

    def features(self, rows, batch_size, widths, scales):
        """Compute the features of all rows; `widths` and `scales` are those of `fit` by layer."""
        dtype = str(self.arithmetic.dtype).removeprefix("torch.")
        features = np.empty((len(rows), sum(widths)), dtype=dtype)
        for batch, layer_features in self._batches(rows, batch_size):
            features[batch] = np.hstack(layer_features)
        if scales is not None:
            features *= np.repeat(scales, widths).astype(dtype)
        return features

    def _batches(self, rows, batch_size):
        """Yield the positions of each batch of rows, and the result of `layer_features`."""
        for start in range(0, len(rows), batch_size):
            end = min(start + batch_size, len(rows))
            batch = slice(start, end)
            yield batch, self.layer_features(rows[batch], first_row=start)

    def layer_features(self, rows, first_row=0):
        """Compute the features of one batch: of each layer, or only the output of the network.

        `first_row` is the position of the first row in X, for messages.
        """
        # Weights that are moved inside of the inference mode could not be moved again.
        self.arithmetic.place(self.module)
        with torch.inference_mode(), self.arithmetic.autocast():
            inputs = self._prepare(rows)
            sums = None
            n_views = 0
            for view in self._input_views(inputs):
                outputs = read_layers(self.module, view, self.layers, self.pooling, self.axes)
                if sums is None:
                    sums = outputs
                else:
                    sums = [total + output for total, output in zip(sums, outputs, strict=True)]
                n_views += 1
            means = [total / n_views for total in sums]
        return [_to_array(mean, first_row) for mean in means]

    def _input_views(self, inputs):
        """Return the views of a batch of inputs."""
        if self.views is None:
            return [inputs]
        # The network may write to its input, from which the next view is made.
        return map(torch.clone, self.views(inputs))

    def _prepare(self, rows):
        """Return a batch of rows as inputs of the network on its device."""
        device = self.arithmetic.device
        inputs = self.inputs.prepare(rows, device, self.arithmetic.dtype)
        return self.arithmetic.arrange(inputs)


def _check_layers(module, layers):
    """Raise `ValueError` unless the layers name different submodules, at least one."""
    valid = [name for name, _ in module.named_modules(remove_duplicate=False) if name]
    names = set(layers)
    if not layers or len(names) < len(layers) or not names <= set(valid):
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
    n_inputs = len(inputs)
    if layers is None:
        output = module(inputs)
        _check_output(output, n_inputs, "backbone")
        return [output.reshape(n_inputs, -1).to(inputs.dtype)]

    def pool_output(name, output):
        _check_output(output, n_inputs, f"layer {name!r}")
        # In mixed precision, convolutions return bfloat16; pooling uses the dtype of the inputs.
        output = output.to(inputs.dtype)
        return _pool(output, pooling, axes[name])

    with _collect_outputs(module, layers, pool_output) as outputs:
        module(inputs)
    idle = [name for name in layers if name not in outputs]
    if idle:
        raise ValueError(
            f"layers must name submodules that the backbone runs; it did not run {idle}."
        )
    return [outputs[name] for name in layers]


@contextmanager
def _collect_outputs(module, layers, process):
    """Collect ``process(name, output)`` by name for the layers that run in this thread.

    If a layer runs several times, its last run is kept. `process` is called at once, because the
    next layer may write to the output in place.
    """
    outputs = {}
    handles = []
    thread = get_ident()

    def make_hook(name):
        def hook(_module, _inputs, output):
            if get_ident() == thread:
                outputs[name] = process(name, output)

        return hook

    try:
        for name in layers:
            layer = module.get_submodule(name)
            with _HOOKS.held:
                handles.append(layer.register_forward_hook(make_hook(name)))
        yield outputs
    finally:
        with _HOOKS.held:
            for handle in handles:
                handle.remove()


def _pool(output, pooling, axis):
    """Pool the output of a layer over all axes except samples and channels, in new memory."""
    if output.ndim <= 2:
        return output.reshape(len(output), -1).clone()
    positions_last = output.movedim(axis, 1).flatten(2)
    if pooling == "mean":
        return positions_last.mean(dim=2)
    return positions_last.amax(dim=2)


def _check_output(output, n_rows, source):
    """Raise unless an output of `source` is a real tensor with one row per input."""
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


def _to_array(output, first_row):
    """Copy the features of one batch to the CPU, and check that they are finite."""
    features = output.cpu().numpy()
    is_finite = np.isfinite(features).all(axis=1)
    bad_rows = np.flatnonzero(~is_finite)
    if bad_rows.size:
        raise NonFiniteFeaturesError(
            f"backbone gives NaN or infinite features for {bad_rows.size} of {len(features)} rows "
            f"of a batch, the first of them row {first_row + bad_rows[0]} of X."
        )
    return features


def _agree(features_of_pair, features_of_first):
    """Return whether the features of the first row are the same in both batches."""
    if features_of_pair.shape[1] != features_of_first.shape[1]:
        return False
    largest = np.abs(features_of_pair).max(initial=0.0)
    tolerance = _BATCH_TOLERANCE * largest
    return np.allclose(features_of_pair[0], features_of_first[0], rtol=0.0, atol=tolerance)
