"""A frozen network that turns rows into features, batch by batch."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from ffnb_sklearn.backbones._arithmetic import Arithmetic
from ffnb_sklearn.backbones._checks import check_features
from ffnb_sklearn.backbones._inputs import Inputs
from ffnb_sklearn.backbones._loading import LONGEST_REASON
from ffnb_sklearn.backbones._readout import Readout

# Largest allowed effect of the batch on the features of a row, relative to the largest feature.
# Rounding errors stay below it.
_BATCH_TOLERANCE = 1e-3


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
        full = replace(self, arithmetic=self.arithmetic.full())
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
