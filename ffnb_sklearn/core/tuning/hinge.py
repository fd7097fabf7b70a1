"""The multi-class hinge loss as a function of the rows of new bands."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..classifier.heads import Head
from ..device import as_tensor
from ..features.feature_map import Band
from .descent import multi_class_hinge

__all__ = ["Network", "Samples"]


class Samples(NamedTuple):
    """Constants of samples, real or drawn, during the descent of new bands.

    `old` holds the features of each layer that feeds a band, psi_0 first, without the new neurons;
    `corrections` the terms added to the responses of the new neurons, per layer; `fixed` the
    features of the classifier without the new neurons. Sample weights have a mean of 1.
    """

    old: tuple[torch.Tensor, ...]
    corrections: tuple[torch.Tensor, ...]
    fixed: torch.Tensor
    classes: torch.Tensor
    weights: torch.Tensor

    def take(self, index: torch.Tensor) -> "Samples":
        """Return some of the samples."""
        old = tuple(one[index] for one in self.old)
        corrections = tuple(one[index] for one in self.corrections)
        rest = (one[index] for one in (self.fixed, self.classes, self.weights))
        return Samples(old, corrections, *rest)

    def followed_by(self, others: "Samples") -> "Samples":
        """Return these samples with other samples behind them."""
        joined = zip(self.old, others.old, strict=True)
        added = zip(self.corrections, others.corrections, strict=True)
        rest = (torch.cat(pair) for pair in zip(self[2:], others[2:], strict=True))
        return Samples(tuple(map(torch.cat, joined)), tuple(map(torch.cat, added)), *rest)


class Network:
    """A model as a function of the rows of its newest bands, one per layer.

    The classifier, which is linear, is constant.
    """

    def __init__(self, bands: Sequence[Band], classifier: Head, device: torch.device) -> None:
        self._bands = bands
        self._planes = as_tensor(classifier.planes, device=device)
        self._offsets = as_tensor(classifier.offsets, device=device)
        pooling = classifier.pooling()
        self._pooling = None if pooling is None else as_tensor(pooling, device=device)

    def hinge(self, samples: Samples, rows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Compute the multi-class hinge loss of each sample, of shape (..., n_samples).

        `rows` holds W of the newest band of each layer, of shape (..., n_neurons, d), or of several
        copies of the band.
        """
        n_fixed = samples.fixed.shape[1]
        fixed = torch.addmm(self._offsets, samples.fixed, self._planes[:, :n_fixed].T)
        scores = fixed + self._new_neurons(samples, rows) @ self._planes[:, n_fixed:].T
        if self._pooling is not None:
            scores = scores.tanh() @ self._pooling
        return multi_class_hinge(scores, samples.classes)

    def _new_neurons(self, samples: Samples, rows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Compute the outputs of the newest band of the last layer."""
        outputs = samples.fixed[:, :0]
        layers = zip(self._bands, samples.old, samples.corrections, rows, strict=True)
        for band, old, corrections, weights in layers:
            n_old = old.shape[1]
            responses = old @ weights[..., :n_old].mT + outputs @ weights[..., n_old:].mT
            responses = responses + corrections
            outputs = band.output(responses)
        return outputs
