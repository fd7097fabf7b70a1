"""Turn rows into features by a frozen network: its output, or pooled outputs of its layers."""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import get_ident
from typing import Any

import numpy as np
import torch
from torch import nn

from ffnb_sklearn._locks import ForkSafeLock
from ffnb_sklearn.backbones._arithmetic import Arithmetic
from ffnb_sklearn.backbones._augmentation import view_batches
from ffnb_sklearn.backbones._checks import check_features, check_output
from ffnb_sklearn.backbones._inputs import Inputs
from ffnb_sklearn.backbones._loading import LONGEST_REASON

# Lock for adding and removing hooks, because several threads may use one network.
_HOOKS = ForkSafeLock()

# Largest allowed effect of the batch on the features of a row, relative to the largest feature.
# Rounding errors stay below it.
_BATCH_TOLERANCE = 1e-3

_GRID_POOLS = {
    1: nn.functional.adaptive_avg_pool1d,
    2: nn.functional.adaptive_avg_pool2d,
    3: nn.functional.adaptive_avg_pool3d,
}

# Layers whose output has its channels on axis 1, or on the last axis, with the name of the
# attribute that holds the number of channels.
_CHANNELS_FIRST = {
    nn.modules.conv._ConvNd: "out_channels",
    nn.modules.batchnorm._NormBase: "num_features",
    nn.GroupNorm: "num_channels",
}
_CHANNELS_LAST = {nn.Linear: "out_features", nn.Embedding: "embedding_dim"}


@dataclass(frozen=True)
class Readout:
    """Selection and pooling of the outputs of a network that become features.

    `layers` are names of submodules; None selects the output of the network. The features are
    averaged over the `views` of each input.
    """

    layers: Any = None
    pooling: Any = "mean"
    views: Any = None

    def check(self, module):
        """Raise `ValueError` unless the layers name different submodules, at least one."""
        if self.layers is None:
            return
        if not self.layers:
            raise ValueError("layers must name at least one submodule of the backbone; got none.")
        valid = [name for name, _ in module.named_modules(remove_duplicate=False) if name]
        unknown = [name for name in self.layers if name not in valid]
        if unknown:
            raise ValueError(
                f"layers must name submodules of the backbone; got unknown {unknown}. Valid names "
                f"are {valid}."
            )
        twice = sorted({name for name in self.layers if self.layers.count(name) > 1})
        if twice:
            raise ValueError(f"layers must name each submodule once; got {twice} several times.")

    def read(self, module, inputs):
        """Compute the features of a batch: of each layer, or only the output of the network.

        Raise `TypeError` or `ValueError` if an output is not a tensor with one row per input, or a
        layer did not run.
        """
        total, n_views = None, 0
        for view in view_batches(self.views, inputs):
            parts = self._read_view(module, view)
            total = parts if total is None else [a + b for a, b in zip(total, parts, strict=True)]
            n_views += 1
        return total if n_views == 1 else [part / n_views for part in total]

    def _read_view(self, module, inputs):
        """Return the features of one view of a batch, layer by layer."""
        n = len(inputs)
        if self.layers is None:
            return [check_output(module(inputs), n).reshape(n, -1).to(inputs.dtype)]

        def pooled(name, output):
            # In mixed precision, convolutions return bfloat16; pooling uses the dtype of the
            # inputs.
            output = check_output(output, n, f"layer {name!r}").to(inputs.dtype)
            return pool(output, self.pooling, module.get_submodule(name), module)

        with _captured(module, self.layers, pooled) as found:
            module(inputs)
        idle = [name for name in self.layers if name not in found]
        if idle:
            raise ValueError(
                f"layers must name submodules that the backbone runs; it did not run {idle}."
            )
        return [found[name] for name in self.layers]


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


def pool(output, pooling, layer, network):
    """Pool the output of a layer over all axes except samples and channels, in new memory.

    An integer gives the means over the cells of a grid with this many cells along each axis, at
    most the length of the axis; it needs one to three axes. The layer and its network determine the
    axis of the channels.
    """
    n = len(output)
    if output.ndim <= 2:
        return output.reshape(n, -1).clone()
    if channel_axis(output.shape, layer, network) == -1:
        output = output.movedim(-1, 1)
    if pooling == "mean":
        return output.flatten(2).mean(dim=2)
    if pooling == "max":
        return output.flatten(2).amax(dim=2)
    sizes = output.shape[2:]
    if len(sizes) not in _GRID_POOLS:
        raise ValueError(
            f"pooling={pooling!r}, a grid, needs outputs of one to three axes beside samples and "
            f"channels; got shape {tuple(output.shape)}. Use 'mean' or 'max'."
        )
    cells = [min(pooling, size) for size in sizes]
    return _GRID_POOLS[len(sizes)](output, cells).reshape(n, -1).clone()


def channel_axis(shape, layer, network):
    """Return the axis of the channels of an output with three axes or more: axis 1 or axis -1.

    Convolutions put the channels on axis 1, and transformer layers put them on the last axis. The
    lengths of both axes are compared with the widths of the layer, and then with those of the whole
    network. If no axis has a usual width, an axis may still have a width of the other kind of
    layer, as after a permutation. For images, usual widths of the network come before such widths
    of the layer, as in concatenations; two equal last axes of an image are its height and width. If
    nothing fits, the channels are on axis 1.
    """
    own, all_ = (_widths_of_kinds(owner) for owner in (layer, network))
    is_image = len(shape) > 3
    rules = [own, all_, own[::-1], all_[::-1]] if is_image else [own, own[::-1], all_, all_[::-1]]
    may_be_last = not (is_image and shape[-1] == shape[-2])
    for first, last in rules:
        if shape[1] in first:
            return 1
        if may_be_last and shape[-1] in last:
            return -1
    return 1


def _widths_of_kinds(owner):
    """Return the widths of submodules with the channels on axis 1, and on the last axis."""
    norms = {one.normalized_shape[-1] for one in owner.modules() if isinstance(one, nn.LayerNorm)}
    return _widths(owner, _CHANNELS_FIRST), _widths(owner, _CHANNELS_LAST) | norms


def _widths(owner, kinds):
    """Return the widths of all submodules of the given kinds."""
    return {
        getattr(module, name)
        for module in owner.modules()
        for kind, name in kinds.items()
        if isinstance(module, kind)
    }


@dataclass(frozen=True)
class Extraction:
    """A frozen network with all settings that determine its features."""

    module: nn.Module
    inputs: Inputs
    readout: Readout
    arithmetic: Arithmetic

    @classmethod
    def of(cls, extractor, module, inputs):
        """Return the extraction for a `TorchFeatureExtractor` with this network."""
        layers = None if extractor.layers is None else tuple(extractor.layers)
        readout = Readout(layers, extractor.pooling, extractor.views)
        return cls(module, inputs, readout, Arithmetic.of(extractor, training=False))

    def parts(self, rows, first_row=0):
        """Compute the features of one batch: of each layer, or only the output of the network.

        `first_row` is the position of the first row in X, for messages.
        """
        # Weights that are moved inside of the inference mode could not be moved again.
        how = self.arithmetic
        how.place(self.module)
        with torch.inference_mode(), how.autocast():
            inputs = how.arrange(self.inputs.prepare(rows, how.device, how.dtype))
            outputs = self.readout.read(self.module, inputs)
        return [check_features(output, len(rows), first_row) for output in outputs]

    def probe(self, pair):
        """Check that the features of a row do not depend on its batch; return their widths.

        Raise `ValueError` if a layer does not exist, or the features of a row of the pair depend on
        the other row.
        """
        self.readout.check(self.module)
        # Use full precision, because bfloat16 rounds more coarsely than the tolerance.
        full = replace(self, arithmetic=replace(self.arithmetic, mixed=False))
        try:
            together, alone = full.parts(pair), full.parts(pair[:1])
        except RuntimeError as error:
            if type(error) is not RuntimeError:  # out of memory, or an error of the network's own
                raise
            raise ValueError(self._misfit(pair, error)) from error
        if not all(map(_agree, together, alone)):
            raise ValueError(
                "backbone must treat each row by itself; the features of the first row of X "
                "change when another row is in its batch (statistics of the batch, perhaps)."
            )
        return [part.shape[1] for part in together]

    def _misfit(self, pair, error):
        """Return a message for an error that torch raised on the first inputs."""
        shape = tuple(pair.shape[1:] if self.inputs.shape is None else self.inputs.shape)
        layer = next((m for m in self.module.modules() if isinstance(m, nn.Conv2d)), None)
        if layer is not None and len(shape) == 3 and shape[0] != layer.in_channels:
            return (
                f"backbone takes images of {layer.in_channels} channels; got {shape[0]} channels. "
                f"With input_shape={(layer.in_channels, *shape[1:])}, grey and opaque images are "
                "converted to colour."
            )
        reason = " ".join(str(error).split())[:LONGEST_REASON]
        return f"backbone cannot compute features of inputs of shape {shape}: {reason}."

    def stream(self, rows, batch_size):
        """Yield the positions of each batch of rows, and the features that `parts` returns."""
        for start in range(0, len(rows), batch_size):
            batch = slice(start, min(start + batch_size, len(rows)))
            yield batch, self.parts(rows[batch], first_row=start)

    def scales(self, rows, batch_size, widths, *, keep=False):
        """Compute a factor per layer that gives its features unit mean square length.

        A factor is 1 if all features of the layer are zero. The second result is the scaled
        features of all rows if `keep` is true, else None.
        """
        squares = np.zeros(len(widths))
        features = self._empty(len(rows), sum(widths)) if keep else None
        for batch, parts in self.stream(rows, batch_size):
            squares += [np.square(part, dtype=np.float64).sum() for part in parts]
            if keep:
                features[batch] = np.hstack(parts)
        scales = [float(np.sqrt(len(rows) / square)) if square else 1.0 for square in squares]
        if keep:
            _scale(features, widths, scales)
        return scales, features

    def features(self, rows, batch_size, n_features, widths, scales):
        """Compute the scaled features of all rows.

        `widths` and `scales` are those of `fit` by layer, or None for the output of the network.
        Raise `ValueError` if the layers have other widths now.
        """
        features = self._empty(len(rows), n_features)
        expected = [n_features] if widths is None else list(widths.values())
        for batch, parts in self.stream(rows, batch_size):
            found = [part.shape[1] for part in parts]
            if found != expected:
                raise ValueError(
                    f"layers must have the widths of fit, {expected}; got {found}. Call fit again."
                )
            features[batch] = np.hstack(parts)
        if scales is not None:
            _scale(features, widths.values(), scales.values())
        return features

    def _empty(self, *shape):
        """Return an uninitialised array for features."""
        return np.empty(shape, dtype=str(self.arithmetic.dtype).removeprefix("torch."))


def _scale(features, widths, scales):
    """Multiply the columns of each layer by its factor, in place."""
    features *= np.repeat(list(scales), list(widths)).astype(features.dtype)


def _agree(together, alone):
    """Return whether the features of the first row are the same in both batches."""
    scale = np.abs(together).max(initial=0.0)
    return together.shape[1] == alone.shape[1] and np.allclose(
        together[0], alone[0], rtol=0.0, atol=_BATCH_TOLERANCE * scale
    )
