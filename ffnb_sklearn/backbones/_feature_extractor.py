"""A trained torch network as a frozen scikit-learn transformer."""

import os
from collections.abc import Mapping
from math import prod
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ffnb_sklearn.backbones._checks import check_features, scaling_constant
from ffnb_sklearn.backbones._loading import (
    build_backbone,
    freeze,
    load_weights,
    read_weights,
    state_to_arrays,
)
from ffnb_sklearn.core.device import as_tensor, resolve_device

__all__ = ["TorchFeatureExtractor"]

# The batch a row comes in may move its features by rounding errors, not by more than this.
_BATCH_TOLERANCE = 1e-3


class TorchFeatureExtractor(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turn rows into the features of a trained, frozen torch network.

    The backbone must come trained: `fit` builds it, loads its weights and measures the
    width of its output; it trains nothing and needs no targets.

    Parameters
    ----------
    backbone : callable, str or torch.nn.Module
        What makes the network: a factory or class, or its dotted name
        ``"package.module:factory"`` (also ``"package.module.factory"``). A network itself
        is accepted and copied, but a factory is better: scikit-learn compares parameters
        by hash, and the hash of a network differs from that of its copy.
    backbone_params : dict, default=None
        Keyword arguments of the factory.
    weights : path or mapping, default=None
        State dict of the network: a file read by ``torch.load(weights_only=True)``, or a
        mapping from keys to tensors or arrays. With `None`, the network is used as the
        factory made it.
    input_shape : tuple of int, default=None
        Shape of one input of the network, channels first for images: rows are reshaped to
        ``(n_samples, *input_shape)``. With `None`, rows go in as they are.
    mean : float or array-like of shape (n_channels,), default=None
        Subtracted from the input, in units of the input; one value per index of the first
        axis of `input_shape`.
    std : float or array-like of shape (n_channels,), default=None
        The input is divided by it, after `mean` was subtracted.
    batch_size : int, default=256
        Rows that go through the network at a time.
    dtype : {"float32", "float64"}, default="float32"
        Arithmetic of the network, and dtype of the features.
    device : {"auto", "cpu", "cuda", "mps"} or "cuda:<index>", default="auto"
        Where the network runs; chosen anew at each call. `"auto"` is CUDA where there is
        a CUDA device, else the CPU.

    Attributes
    ----------
    state_dict_ : dict of str -> ndarray
        Parameters and buffers of the network.
    n_features_in_ : int
        Number of values per row.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where `fit` saw a data frame.
    n_features_out_ : int
        Number of features per row; the output of the network is flattened.

    See Also
    --------
    ffnb_sklearn.pipeline.ContinualPipeline : Puts it before a classifier that learns on.

    Notes
    -----
    *Images.* Rows of ``uint8`` are taken as they are; only one batch at a time becomes
    floating point, so give the scaling as `mean` and `std`. Images of shape (n, height,
    width, channels) become rows by
    ``images.transpose(0, 3, 1, 2).reshape(len(images), -1)``.

    *Precision.* In float32 the features of a row depend, in the last digits, on the rows
    that share its batch (5e-7 for features up to 2 of a small ResNet); in float64 they
    agree to rounding errors of 1e-12. But float64 is several times slower for convolutions
    (8 times for that network on one CPU core), and MPS devices do not have it. On recent
    CUDA devices torch may compute float32 convolutions in TF32, with 10 bits of mantissa.

    *State.* The fitted state is `state_dict_`; the network is rebuilt from `backbone` where
    it is missing, as after unpickling. A file of `weights` is read by `fit` only.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> from ffnb_sklearn.backbones import TorchFeatureExtractor
    >>> weights = {"weight": np.array([[1.0, 2.0]]), "bias": np.array([0.5])}
    >>> extractor = TorchFeatureExtractor(
    ...     nn.Linear, backbone_params={"in_features": 2, "out_features": 1}, weights=weights
    ... )
    >>> extractor.fit_transform([[1, 1], [2, 0]])
    array([[3.5],
           [2.5]], dtype=float32)
    """

    _parameter_constraints: dict = {  # noqa: RUF012
        "backbone": [callable, str],
        "backbone_params": [dict, None],
        "weights": [str, os.PathLike, Mapping, None],
        "input_shape": [tuple, list, None],
        "mean": ["array-like", Real, None],
        "std": ["array-like", Real, None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "dtype": [StrOptions({"float32", "float64"})],
        "device": [str],
    }

    def __init__(
        self,
        backbone,
        *,
        backbone_params=None,
        weights=None,
        input_shape=None,
        mean=None,
        std=None,
        batch_size=256,
        dtype="float32",
        device="auto",
    ):
        self.backbone = backbone
        self.backbone_params = backbone_params
        self.weights = weights
        self.input_shape = input_shape
        self.mean = mean
        self.std = std
        self.batch_size = batch_size
        self.dtype = dtype
        self.device = device

    def fit(self, X, y=None):
        """Build the network, load its weights and measure the width of its output.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; two of them are sent through the network.
        y : None
            Ignored.

        Returns
        -------
        self : TorchFeatureExtractor
            The fitted transformer.

        Raises
        ------
        ValueError
            If rows, weights or scaling do not fit, the dotted name of the backbone leads
            nowhere, or the features of a row depend on the other rows of its batch.
        TypeError
            If the backbone makes no network, or the network puts out no tensor.
        NonFiniteFeaturesError
            If the features are not finite.
        """
        self._validate_params()
        rows = check_array(X, estimator=self, input_name="X")
        self._check_shape(rows.shape[1])
        module = self._build(self.weights)
        state = state_to_arrays(module)
        n_features_out = self._probe(module, rows[[0, -1]])
        # Last, so that a failing call leaves nothing behind.
        validate_data(self, X, skip_check_array=True)
        self.state_dict_ = state
        self.n_features_out_ = n_features_out
        self._built = (self.dtype, module)
        return self

    def transform(self, X):
        """Compute the features of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, `n_features_out_`)
            Features, of dtype `dtype`.

        Raises
        ------
        NonFiniteFeaturesError
            If the features are not finite.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False)
        features = np.empty((len(rows), self.n_features_out_), dtype=self.dtype)
        module = self._frozen_module()
        for start in range(0, len(rows), self.batch_size):
            batch = slice(start, start + self.batch_size)
            features[batch] = self._forward(module, rows[batch], first_row=start)
        return features

    def _frozen_module(self):
        """Return the network; rebuild it where it is missing or of another dtype."""
        dtype, module = getattr(self, "_built", (None, None))
        if dtype != self.dtype:
            module = self._build(self.state_dict_)
            self._built = (self.dtype, module)
        return module

    def _build(self, weights):
        """Build the network, cast it and then load weights, which so keep their digits."""
        module = build_backbone(self.backbone, self.backbone_params)
        freeze(module, getattr(torch, self.dtype))
        if weights is not None:
            load_weights(module, read_weights(weights))
        return module

    def _check_shape(self, n_features):
        """Refuse rows that cannot be reshaped to `input_shape`."""
        if self.input_shape is None:
            return
        if not all(isinstance(n, Integral) and n > 0 for n in self.input_shape):
            raise ValueError(f"input_shape must hold positive integers; got {self.input_shape!r}.")
        if prod(self.input_shape) != n_features:
            raise ValueError(
                f"X has {n_features} features, but input_shape={tuple(self.input_shape)} "
                f"needs {prod(self.input_shape)}."
            )

    def _probe(self, module, pair):
        """Send two rows through the network alone and together; return the width."""
        together = self._forward(module, pair, first_row=0)
        alone = self._forward(module, pair[:1], first_row=0)
        scale = np.abs(together).max(initial=0.0)
        if together.shape[1] != alone.shape[1] or not np.allclose(
            together[0], alone[0], rtol=0.0, atol=_BATCH_TOLERANCE * scale
        ):
            raise ValueError(
                "backbone must treat each row by itself; the features of the first row of X "
                "change when another row is in its batch (statistics of the batch, perhaps)."
            )
        return together.shape[1]

    def _forward(self, module, rows, first_row):
        """Compute the features of one batch, of shape (len(rows), n_features_out)."""
        device = resolve_device(self.device)
        dtype = getattr(torch, self.dtype)
        # Bytes travel as bytes: floating-point values take four or eight times as much.
        source = torch.uint8 if rows.dtype == np.uint8 else dtype
        scaling = self._scaling(rows.shape[1], device, dtype)
        inputs = as_tensor(rows, device=device, dtype=source)
        # Outside of the inference mode: weights that are moved inside could not move again.
        module.to(device)
        with torch.inference_mode():
            inputs = inputs.to(dtype)
            if self.input_shape is not None:
                inputs = inputs.reshape(len(rows), *self.input_shape)
            for operation, constant in scaling:
                inputs = operation(inputs, constant)
            output = module(inputs)
        return check_features(output, len(rows), first_row)

    def _scaling(self, n_features, device, dtype):
        """Operations that apply `mean` and `std`, with their constants on the device."""
        shape = (n_features,) if self.input_shape is None else tuple(self.input_shape)
        steps = (("mean", self.mean, torch.sub), ("std", self.std, torch.div))
        return [
            (operation, as_tensor(scaling_constant(name, value, shape), device=device, dtype=dtype))
            for name, value, operation in steps
            if value is not None
        ]

    @property
    def _n_features_out(self):
        return self.n_features_out_

    def __getstate__(self):
        # A module is bound to a device and has no stable hash; `state_dict_` stands for it.
        state = dict(super().__getstate__())
        state.pop("_built", None)
        return state

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_features_out_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        return tags
