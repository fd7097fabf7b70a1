"""Samples and settings of pretraining: plain data, without a network."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils import check_consistent_length
from sklearn.utils._param_validation import Interval, StrOptions

from ffnb_sklearn._arrays import as_numpy, as_targets
from ffnb_sklearn._targets import check_labels, unmixed
from ffnb_sklearn.backbones._checkpoint import digest_arrays, digest_callable
from ffnb_sklearn.backbones._inputs import Inputs


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Settings of pretraining: parameters of `TorchFeatureExtractor`, in plain types."""

    epochs: int
    optimizer: str
    learning_rate: float
    momentum: float
    weight_decay: float
    schedule: str
    train_batch_size: int
    label_smoothing: float
    augment: Any
    validation_fraction: float
    mixed_precision: bool | str
    seed: int

    constraints: ClassVar = {
        "epochs": [Interval(Integral, 0, None, closed="left")],
        "optimizer": [StrOptions({"adamw", "sgd"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "schedule": [StrOptions({"one-cycle", "cosine", "constant"})],
        "train_batch_size": [Interval(Integral, 1, None, closed="left")],
        "label_smoothing": [Interval(Real, 0, 1, closed="left")],
        "augment": [StrOptions({"flip-crop"}), callable, None],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
    }

    # Parameters and attributes of a fitted extractor that do not determine its output; `pooling_`
    # equals the parameter.
    not_in_output: ClassVar = frozenset(
        {
            *("weights", "batch_size", "device", "checkpoint", "random_state", "verbose"),
            *("history_", "n_epochs_", "classes_", "pooling_", "image_values_"),
            *constraints,
        }
    )

    @classmethod
    def of(cls, extractor, seed):
        """Return the plan of an extractor, without NumPy scalars, which checkpoints cannot hold."""
        mixed = extractor.mixed_precision
        return cls(
            epochs=int(extractor.epochs),
            optimizer=str(extractor.optimizer),
            learning_rate=float(extractor.learning_rate),
            momentum=float(extractor.momentum),
            weight_decay=float(extractor.weight_decay),
            schedule=str(extractor.schedule),
            train_batch_size=int(extractor.train_batch_size),
            label_smoothing=float(extractor.label_smoothing),
            augment=extractor.augment,
            validation_fraction=float(extractor.validation_fraction),
            mixed_precision=mixed if isinstance(mixed, str) else bool(mixed),
            seed=seed,
        )

    def settings(self):
        """Return the fields by parameter name, to compare with a checkpoint."""
        fields = dict(vars(self))
        fields["random_state"] = fields.pop("seed")
        fields["augment"] = digest_callable("augment", self.augment)
        return fields


@dataclass(frozen=True)
class Samples:
    """Samples to train on.

    Parameters
    ----------
    rows : ndarray or ImageSource of shape (n_samples, n_features)
        Rows as given by the user.
    codes : ndarray of shape (n_samples,)
        Position in `classes` of the class of each sample.
    classes : ndarray of shape (n_classes,)
        Labels of the classes.
    inputs : Inputs
        Conversion of the rows to inputs of the network.
    """

    rows: Any
    codes: np.ndarray
    classes: np.ndarray
    inputs: Inputs

    def batch(self, index, device, dtype):
        """Return the inputs of some samples and the codes of their classes, on a device."""
        inputs = self.inputs.prepare(self.rows[index], device, dtype)
        return inputs, torch.from_numpy(self.codes[index]).to(device)

    def settings(self):
        """Return the data digest, the shape and the scaling, to compare with a checkpoint."""
        # The name includes the labels, because an array of objects has no bytes to digest.
        named = {"rows": self.rows, f"codes of {self.classes.tolist()}": self.codes}
        return {
            "X or y": digest_arrays(named),
            **self.inputs.settings(self.rows.shape[1]),
        }


def labelled_samples(rows, y, inputs):
    """Check labels and combine them with their rows.

    Parameters
    ----------
    rows : ndarray or ImageSource of shape (n_samples, n_features)
        Rows, checked.
    y : array-like of shape (n_samples,) or None
        Labels of the rows.
    inputs : Inputs
        Conversion of the rows to inputs of the network.

    Returns
    -------
    Samples
        Samples of at least two classes.

    Raises
    ------
    ValueError
        If the labels are missing, invalid, or of only one class.
    """
    if y is None:
        raise ValueError(
            "requires y to be passed, but the target y is None: with epochs > 0, the backbone "
            "is trained on the labels of X."
        )
    y = check_labels(as_targets(unmixed(as_numpy(y, "y"), "y")), None, "y")
    check_consistent_length(rows, y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            "y must hold at least two classes where epochs > 0, or there is nothing to tell "
            f"apart; got one class, {classes.tolist()}."
        )
    return Samples(rows, codes, classes, inputs)


def hold_out(codes, fraction, seed):
    """Split the samples of each class into training and validation samples.

    Parameters
    ----------
    codes : ndarray of shape (n_samples,)
        Class of each sample, from 0.
    fraction : float in [0, 1)
        Fraction of each class to hold out: at least one sample, but never all samples. With 0,
        nothing is held out.
    seed : int
        Seed of the split.

    Returns
    -------
    kept, held_out : ndarray of int
        Positions in ascending order.

    Raises
    ------
    ValueError
        If every class has only one sample.
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

    Parameters
    ----------
    positions : ndarray of shape (n,)
        Positions to split.
    size : int
        Length of a batch.
    generator : torch.Generator, default=None
        Source of randomness.

    Returns
    -------
    list of ndarray
        The batches.
    """
    if generator is not None:
        order = torch.randperm(len(positions), generator=generator, device=generator.device)
        positions = positions[order.numpy()]
    starts = list(range(size, len(positions), size))
    if size > 1 and starts and len(positions) - starts[-1] == 1:
        starts.pop()
    return np.split(positions, starts)
