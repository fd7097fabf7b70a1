"""Samples and settings of pretraining: plain data, without a network."""

from dataclasses import dataclass
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_consistent_length
from sklearn.utils._param_validation import Interval, StrOptions

from ffnb_sklearn._inputs.labels import check_targets
from ffnb_sklearn.backbones._checkpoint import digest_arrays, digest_callable
from ffnb_sklearn.backbones._inputs import Inputs

# Constraints of the parameters of `TorchFeatureExtractor` that only pretraining uses.
PLAN_CONSTRAINTS = {
    "epochs": [Interval(Integral, 0, None, closed="left")],
    "optimizer": [StrOptions({"adamw", "sgd"})],
    "learning_rate": [Interval(Real, 0, None, closed="neither")],
    "momentum": [Interval(Real, 0, 1, closed="left")],
    "weight_decay": [Interval(Real, 0, None, closed="left")],
    "schedule": [StrOptions({"one-cycle", "cosine", "constant"})],
    "train_batch_size": [Interval(Integral, 1, None, closed="left")],
    "label_smoothing": [Interval(Real, 0, 1, closed="left")],
    "augment": [StrOptions({"flip-crop"}), callable, None],
    "frozen": [list, tuple, None],
    "validation_fraction": [Interval(Real, 0, 1, closed="left")],
}


class Plan(SimpleNamespace):
    """Settings of pretraining: parameters of `TorchFeatureExtractor` by name, and the seed."""

    @classmethod
    def of(cls, extractor, seed):
        """Return the plan of an extractor, without NumPy scalars, which checkpoints cannot hold."""
        names = [*PLAN_CONSTRAINTS, "mixed_precision"]
        values = {name: getattr(extractor, name) for name in names}
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}
        return cls(**{**plain, "frozen": list(map(str, extractor.frozen or ()))}, seed=seed)

    def settings(self):
        """Return the fields by parameter name, to compare with a checkpoint."""
        fields = {**vars(self), "frozen": ", ".join(self.frozen)}
        fields["random_state"] = fields.pop("seed")
        fields["augment"] = digest_callable("augment", self.augment)
        return fields


@dataclass(frozen=True)
class Samples:
    """Samples to train on: rows, the position in `classes` of the class of each, and inputs."""

    rows: Any
    codes: np.ndarray
    classes: np.ndarray
    inputs: Inputs

    def batch(self, index, device, dtype, change=None):
        """Return the inputs of some samples and the codes of their classes, on a device."""
        inputs = self.inputs.prepare(self.rows[index], device, dtype, change)
        return inputs, torch.from_numpy(self.codes[index]).to(device)

    def settings(self):
        """Return the data digest, the shape and the scaling, to compare with a checkpoint."""
        # The name includes the labels, because an array of objects has no bytes to digest.
        named = {"rows": self.rows, f"codes of {self.classes.tolist()}": self.codes}
        return {
            "X or y": digest_arrays(named),
            **self.inputs.settings(),
        }


def labelled_samples(rows, y, inputs):
    """Check the labels of some rows, of at least two classes, and combine them with the rows."""
    if y is None:
        raise ValueError(
            "requires y to be passed, but the target y is None: with epochs > 0, the backbone "
            "is trained on the labels of X."
        )
    y = check_targets(y, None, "y")
    check_consistent_length(rows, y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            "y must hold at least two classes where epochs > 0, or there is nothing to tell "
            f"apart; got one class, {classes.tolist()}."
        )
    return Samples(rows, codes, classes, inputs)


def hold_out(codes, fraction, seed):
    """Return the positions of training samples and of validation samples, by their classes.

    The fraction of each class is held out: at least one sample, but never all samples. With 0,
    nothing is held out. Raise `ValueError` if every class has only one sample.
    """
    if not fraction:
        return np.arange(len(codes)), np.arange(0)
    rng = np.random.default_rng(seed)
    is_held = np.zeros(len(codes), dtype=bool)
    for code in range(codes.max() + 1):
        members = np.flatnonzero(codes == code)
        n_held = min(max(round(fraction * len(members)), 1), len(members) - 1)
        is_held[rng.permutation(members)[:n_held]] = True
    if not is_held.any():
        raise ValueError(
            f"validation_fraction={fraction} needs a class of two samples or more; all classes "
            "have one. Use validation_fraction=0."
        )
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def batches(positions, size, generator=None):
    """Split positions into batches, in random order if a generator is given.

    A last batch of one sample is merged with the previous batch, because a single sample has no
    variance for a batch normalisation to divide by.
    """
    if generator is not None:
        order = torch.randperm(len(positions), generator=generator, device=generator.device)
        positions = positions[order.numpy()]
    starts = list(range(size, len(positions), size))
    if size > 1 and starts and len(positions) - starts[-1] == 1:
        starts.pop()
    return np.split(positions, starts)
