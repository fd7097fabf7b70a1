"""A frozen network that turns rows into features, batch by batch."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from ffnb_sklearn.backbones._arithmetic import Arithmetic
from ffnb_sklearn.backbones._checks import check_features
from ffnb_sklearn.backbones._inputs import Inputs
from ffnb_sklearn.backbones._readout import Readout

# The batch a row comes in may move its features by rounding errors, not by more than this.
_BATCH_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Extraction:
    """A frozen network with all that decides what it makes of rows.

    Parameters
    ----------
    module : nn.Module
        The network.
    inputs : Inputs
        What becomes of rows before they enter it.
    readout : Readout
        What is read from it.
    arithmetic : Arithmetic
        Where it runs, in which precision.
    """

    module: nn.Module
    inputs: Inputs
    readout: Readout
    arithmetic: Arithmetic

    @classmethod
    def of(cls, extractor, module, inputs):
        """Return the extraction that a `TorchFeatureExtractor` with this network asks for."""
        layers = None if extractor.layers is None else tuple(extractor.layers)
        readout = Readout(layers, extractor.pooling, extractor.views)
        return cls(module, inputs, readout, Arithmetic.of(extractor, training=False))

    def parts(self, rows, first_row=0):
        """Compute the features of one batch.

        Parameters
        ----------
        rows : ndarray of shape (n, n_features)
            The batch.
        first_row : int, default=0
            Position of its first row in X, for messages.

        Returns
        -------
        list of ndarray of shape (n, width)
            Features of each layer, or the output of the network alone.
        """
        # Outside of the inference mode: weights that are moved inside could not move again.
        how = self.arithmetic
        how.place(self.module)
        with torch.inference_mode(), how.autocast():
            inputs = how.arrange(self.inputs.prepare(rows, how.device, how.dtype))
            outputs = self.readout.read(self.module, inputs)
        return [check_features(output, len(rows), first_row) for output in outputs]

    def probe(self, pair):
        """Send two rows through the network alone and together.

        Parameters
        ----------
        pair : ndarray of shape (2, n_features)
            Rows that differ.

        Returns
        -------
        list of int
            Width of each layer, or of the output of the network alone.

        Raises
        ------
        ValueError
            If the layers are not there, or the features of a row depend on the other row.
        """
        self.readout.check(self.module)
        # In full precision: bfloat16 rounds more coarsely than the tolerance.
        full = replace(self, arithmetic=self.arithmetic.full())
        together, alone = full.parts(pair), full.parts(pair[:1])
        if not all(map(_agree, together, alone)):
            raise ValueError(
                "backbone must treat each row by itself; the features of the first row of X "
                "change when another row is in its batch (statistics of the batch, perhaps)."
            )
        return [part.shape[1] for part in together]

    def stream(self, rows, batch_size):
        """Compute the features of all rows.

        Parameters
        ----------
        rows : ndarray or ImageSource of shape (n_samples, n_features)
            Rows, of which only a batch is read at a time.
        batch_size : int
            Rows of a batch.

        Yields
        ------
        batch : slice
            Positions of the batch.
        parts : list of ndarray of shape (n, width)
            Its features, as `parts` returns them.
        """
        for start in range(0, len(rows), batch_size):
            batch = slice(start, min(start + batch_size, len(rows)))
            yield batch, self.parts(rows[batch], first_row=start)

    def scales(self, rows, batch_size, widths, *, keep=False):
        """Learn one factor per layer, after which its features have unit mean square length.

        Parameters
        ----------
        rows, batch_size
            As in `stream`.
        widths : list of int
            Width of each layer.
        keep : bool, default=False
            Whether to return the features as well.

        Returns
        -------
        scales : list of float
            One per layer; 1 where all features are zero.
        features : ndarray of shape (n_samples, sum of widths) or None
            The scaled features, if they are to be kept.
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
        """Compute the features of all rows.

        Parameters
        ----------
        rows, batch_size
            As in `stream`.
        n_features : int
            Width of the features.
        widths, scales : dict of str to int or float, or None
            Width and factor of each layer, as `fit` found them; None for the output of the network.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The features, scaled.

        Raises
        ------
        ValueError
            If layers or pooling were changed after `fit`.
        """
        features = self._empty(len(rows), n_features)
        for batch, parts in self.stream(rows, batch_size):
            self._check_widths(parts, widths)
            features[batch] = np.hstack(parts)
        if scales is not None:
            _scale(features, widths.values(), scales.values())
        return features

    def _empty(self, *shape):
        """Return an array for features."""
        return np.empty(shape, dtype=str(self.arithmetic.dtype).removeprefix("torch."))

    def _check_widths(self, parts, fitted):
        """Refuse other layers or widths than those of `fit`."""
        layers, found = self.readout.layers, None
        if layers is not None:
            found = dict(zip(layers, (part.shape[1] for part in parts), strict=True))
        if found != fitted:
            raise ValueError(
                f"layers and pooling must be those of fit, with widths {fitted}; got widths "
                f"{found}. Call fit again."
            )


def _scale(features, widths, scales):
    """Multiply the columns of each layer by its factor, in place."""
    features *= np.repeat(list(scales), list(widths)).astype(features.dtype)


def _agree(together, alone):
    """Whether the features of the first row are the same in both batches."""
    scale = np.abs(together).max(initial=0.0)
    return together.shape[1] == alone.shape[1] and np.allclose(
        together[0], alone[0], rtol=0.0, atol=_BATCH_TOLERANCE * scale
    )
