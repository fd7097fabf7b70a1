"""Read the output of a network, or the pooled outputs of some of its layers."""

from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from torch import nn

from ffnb_sklearn._locks import ForkSafeLock
from ffnb_sklearn.backbones._augmentation import view_batches
from ffnb_sklearn.backbones._checks import check_output

# Lock for adding and removing hooks, because several threads may use one network.
_HOOKS = ForkSafeLock()

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
