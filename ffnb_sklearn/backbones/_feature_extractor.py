"""A frozen torch network as a scikit-learn transformer, trained elsewhere or by `fit`."""

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import nn
from torch.utils.data import Dataset

from ffnb_sklearn._base.callbacks import CallbackSupportMixin, ReportedTask, with_callbacks
from ffnb_sklearn._base.copies import replace_fitted
from ffnb_sklearn._inputs.seeds import next_seed
from ffnb_sklearn._inputs.tables import COLUMNS
from ffnb_sklearn.backbones._augmentation import MirrorShift
from ffnb_sklearn.backbones._inputs import Inputs, first_samples, more_samples
from ffnb_sklearn.backbones._network import (
    build_network,
    freeze,
    read_weights,
    state_to_arrays,
    warn_if_untrained,
)
from ffnb_sklearn.backbones._pretraining import check_labels, pretrain
from ffnb_sklearn.backbones._readout import Extraction
from ffnb_sklearn.backbones._resizing import CROP_MODES, FILTERS

# Rows or images; a list may hold arrays, tensors, PIL images or paths.
Images: TypeAlias = ArrayLike | torch.Tensor | Sequence[object] | Dataset[Any]

# Fitted attributes that only some settings produce.
_OPTIONAL = ("loss_curve_", "classes_", "layer_widths_", "layer_scales_", "layer_axes_")
_REPLACED = (*_OPTIONAL, *COLUMNS)

# Parameters that may change after `fit`. The fitted attributes depend on all other parameters.
_FREE = frozenset({"batch_size", "device", "dtype", "mixed_precision"})

# Constraints of the parameters that only pretraining uses.
_PRETRAINING = {
    "epochs": [Interval(Integral, 0, None, closed="left")],
    "optimizer": [StrOptions({"adamw", "sgd"})],
    "learning_rate": [Interval(Real, 0, None, closed="neither")],
    "weight_decay": [Interval(Real, 0, None, closed="left")],
    "train_batch_size": [Interval(Integral, 1, None, closed="left")],
    "augment": [StrOptions({"flip-crop"}), callable, None],
    "frozen": [list, tuple, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class TorchFeatureExtractor(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Transform rows or images into the features of a frozen torch network.

    `fit` builds the backbone, loads its weights and measures the width of its output; no targets
    are needed. With ``epochs > 0``, `fit` also trains the backbone to classify `X`, with a linear
    layer on its features that is discarded afterwards. `transform` never trains.

    Parameters
    ----------
    backbone : callable, str or torch.nn.Module
        Factory or class that creates the network, or its dotted name, ``"package.module:factory"``.
        A network is also accepted, and copied, but a factory is better: scikit-learn compares
        parameters by hash, and the hash of a network differs from that of its copy.
    backbone_params : dict, default=None
        Keyword arguments of the factory.
    weights : path or mapping, default=None
        State dict of the network: a mapping from keys to tensors or arrays, or a file of
        ``torch.save`` or of safetensors, none of which runs code. Pretraining starts from these
        weights. With `None`, the network keeps its own weights; if these look like torch's initial
        weights and there is no pretraining, `fit` issues a `RandomFeaturesWarning`.
    head : str or list of str, default=None
        Name of the submodule to replace by the identity, such as the final classifier, so that the
        network returns the features before it; a list for a network with several classifiers.
        Entries of `weights` for these submodules are ignored.
    layers : list of str, default=None
        Names of submodules, as listed by ``named_modules()`` of the network, whose outputs are
        pooled, scaled by one factor per layer, and concatenated. None uses the final output.
    pooling : {"mean", "max"}, default="mean"
        Pooling of the outputs of `layers` over space or time.
    channel_axis : int or dict of str -> int, default=None
        Axis of the channels in the outputs of all `layers`, or a dictionary from names of layers to
        axes; axis 0 holds the samples. With `None`, `fit` determines the axis, and raises an error
        if several axes are possible.
    views : {"mirror"}, MirrorShift or None, default=None
        Views of each image, over which the features are averaged: ``"mirror"``, the image and its
        mirror image, or the views of a :class:`~ffnb_sklearn.backbones.MirrorShift`.
    input_shape : tuple of int, default=None
        Shape of one input of the network, channels first for images. With `None`, rows are not
        reshaped, and all images have the shape of the first image.
    resize : int or (int, int), default=None
        Height and width to which each image is scaled before its centre is cut out: the size of
        `input_shape`, or that of `resize`. A single number is a square. Images may then have any
        sizes. Rows are not scaled.
    crop_mode : {"center", "border", "squash"}, default="center"
        With ``"center"``, an image covers `resize` and keeps its proportions; with ``"border"``, it
        lies within `resize`, and borders are filled with `mean`; with ``"squash"``, it is scaled to
        `resize` without keeping its proportions.
    interpolation : {"nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"}, \
            default="bicubic"
        Filter of the scaling, as Pillow defines it; all except ``"nearest"`` apply antialiasing.
    mean, std : float or array-like of shape (n_channels,), default=None
        Values to subtract from the input, in units of the input, and to divide it by afterwards. An
        array has one value per index of the first axis of `input_shape`.
    batch_size : int, default=256
        Number of rows that `transform` passes through the network at a time.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the network, and dtype of the features.
    device : {"auto", "cpu", "cuda", "mps"} or "cuda:<index>", default="auto"
        Device on which the network runs, chosen at each call. `"auto"` is CUDA if available.
    mixed_precision : bool or "auto", default="auto"
        Whether to compute convolutions and matrix products in bfloat16, in about half the time.
        `True` needs ``dtype="float32"``, and is slow on a CPU without bfloat16 arithmetic; `"auto"`
        uses it only for pretraining on CUDA devices that have it.
    epochs : int, default=0
        Number of passes of pretraining over the samples. All following parameters concern
        pretraining.
    optimizer : {"adamw", "sgd"}, default="adamw"
        Optimizer of the pretraining; ``"sgd"`` has a momentum of 0.9.
    learning_rate : float, default=0.003
        Largest learning rate, reached after 30 % of the steps; afterwards, the rate falls to zero
        along half a cosine. ``"sgd"`` needs larger values, 0.05 to 0.2 for a `ConvNet`.
    weight_decay : float, default=0.01
        Weight decay of all parameters. ``"sgd"`` needs smaller values, such as 5e-4.
    train_batch_size : int, default=128
        Number of rows per step.
    augment : {"flip-crop"}, callable or None, default=None
        Random augmentation of the inputs of each step: ``"flip-crop"`` for a
        :class:`~ffnb_sklearn.backbones.FlipCrop`, an
        :class:`~ffnb_sklearn.backbones.ImageTransform` of torchvision, or a function from a batch,
        shaped and scaled as for the network, and a `torch.Generator` on the CPU to a batch of the
        same shape.
    frozen : list of str, default=None
        Names of submodules, as listed by ``named_modules()``, that pretraining does not change:
        neither their parameters nor the statistics of their normalisations.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights, sample order, dropout and augmentation.
    verbose : bool or int, default=False
        Whether to print a line per epoch.

    Attributes
    ----------
    state_dict_ : dict of str -> ndarray
        Parameters and buffers of the network.
    loss_curve_ : list of float
        With ``epochs > 0``, the mean training loss of each epoch.
    classes_ : ndarray of shape (n_classes,)
        With ``epochs > 0``, the labels on which the network was trained.
    layer_widths_ : dict of str -> int
        With `layers`, the number of features of each layer.
    layer_scales_ : dict of str -> float
        With `layers`, the inverse root mean square length of the features of each layer over the
        samples passed to `fit`; 1 if all are zero.
    layer_axes_ : dict of str -> int
        With `layers`, the axis of the channels in the output of each layer.
    input_shape_ : tuple of int or None
        `input_shape`, or the shape of the images passed to `fit`.
    image_values_ : {"uint8", "number"} or None
        Kind of values in the images passed to `fit`, required of all later images; None for rows.
    n_features_in_ : int
        Number of values per row.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if a data frame was passed to `fit`.
    n_features_out_ : int
        Number of features per row; the output of the network is flattened.

    See Also
    --------
    ContinualPipeline : Pretrains the extractor on the first task.
    backbones.from_timm : Makes the extractor for a pretrained network.
    backbones.ConvNet : Backbone for small images.
    backbones.image_files : Lists the images in a folder.

    Notes
    -----
    *Images* can be an array or a tensor of shape (n, channels, height, width) or (n, height, width,
    channels), a list of arrays, tensors, PIL images or paths (the last two need Pillow), or a
    `torch.utils.data.Dataset` of images or of tuples whose first item is an image. An extractor
    that :func:`~ffnb_sklearn.load` has returned takes paths as `pathlib.Path` objects, and not as
    texts, because a forged file could open the texts that a service receives. Grey and opaque
    images are converted to the number of channels of `input_shape`. Only one batch at a time is
    read and converted to floating point, so pass the scaling as `mean` and `std`.

    *Precision.* In float32, the last digits of the features of a row depend on the other rows of
    its batch. In float64, the features agree to 1e-12, but convolutions take several times as long.

    *Pretraining* on the CPU gives the same weights for the same `random_state`, data and number of
    threads. On CUDA devices, results can differ.

    *Changed parameters* take effect at the next call of `fit`, except `dtype`, `device`,
    `batch_size` and `mixed_precision`, which take effect at once. A file holds the parameters of
    the last call of `fit`.

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

    # `ContinualPipeline` reads this attribute and issues no warning: only the first task fits this
    # transformer, as documented.
    frozen_on_purpose = True
    # Parameters and attributes that do not determine the output.
    not_in_output = frozenset(
        {
            *_PRETRAINING,
            "weights",
            "batch_size",
            "device",
            "loss_curve_",
            "classes_",
            "image_values_",
            "_is_from_file",
        }
    )

    _parameter_constraints: dict = {  # noqa: RUF012
        "backbone": [callable, str],
        "backbone_params": [dict, None],
        "weights": [str, os.PathLike, Mapping, None],
        "head": [str, list, tuple, None],
        "layers": [list, tuple, None],
        "pooling": [StrOptions({"mean", "max"})],
        "channel_axis": [Integral, dict, None],
        "views": [StrOptions({"mirror"}), MirrorShift, None],
        "input_shape": [tuple, list, None],
        "resize": [Interval(Integral, 1, None, closed="left"), tuple, list, None],
        "crop_mode": [StrOptions(set(CROP_MODES))],
        "interpolation": [StrOptions(set(FILTERS))],
        "mean": ["array-like", Real, None],
        "std": ["array-like", Real, None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "dtype": [StrOptions({"float32", "float64"})],
        "device": [str],
        "mixed_precision": ["boolean", StrOptions({"auto"})],
        **_PRETRAINING,
    }

    def __init__(
        self,
        backbone: Callable[..., nn.Module] | str | nn.Module,
        *,
        backbone_params: dict[str, Any] | None = None,
        weights: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        head: str | Sequence[str] | None = None,
        layers: Sequence[str] | None = None,
        pooling: str = "mean",
        channel_axis: int | Mapping[str, int] | None = None,
        views: str | MirrorShift | None = None,
        input_shape: Sequence[int] | None = None,
        resize: int | Sequence[int] | None = None,
        crop_mode: str = "center",
        interpolation: str = "bicubic",
        mean: ArrayLike | None = None,
        std: ArrayLike | None = None,
        batch_size: int = 256,
        dtype: str = "float32",
        device: str = "auto",
        mixed_precision: bool | str = "auto",
        epochs: int = 0,
        optimizer: str = "adamw",
        learning_rate: float = 0.003,
        weight_decay: float = 0.01,
        train_batch_size: int = 128,
        augment: str | Callable[[torch.Tensor, torch.Generator], torch.Tensor] | None = None,
        frozen: Sequence[str] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.backbone = backbone
        self.backbone_params = backbone_params
        self.weights = weights
        self.head = head
        self.layers = layers
        self.pooling = pooling
        self.channel_axis = channel_axis
        self.views = views
        self.input_shape = input_shape
        self.resize = resize
        self.crop_mode = crop_mode
        self.interpolation = interpolation
        self.mean = mean
        self.std = std
        self.batch_size = batch_size
        self.dtype = dtype
        self.device = device
        self.mixed_precision = mixed_precision
        self.epochs = epochs
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.train_batch_size = train_batch_size
        self.augment = augment
        self.frozen = frozen
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Images, y: ArrayLike | None = None) -> Self:
        """Build the network, load its weights, and pretrain it if ``epochs > 0``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or images
            Rows or images. Without `epochs` and `layers`, only two pass through the network.
        y : array-like of shape (n_samples,), default=None
            Labels of at least two classes; ignored without pretraining.

        Returns
        -------
        self : TorchFeatureExtractor
            The fitted transformer.

        Raises
        ------
        ValueError
            If rows, images, labels, weights, layers or scaling do not fit, features are not finite
            or depend on the other rows of a batch, or the loss is not finite.
        TypeError
            If the backbone does not return a network, or a layer does not return a tensor.
        """
        _, attributes = self._fit_attributes(X, y)
        self._replace_attributes(attributes)
        return self

    def fit_transform(self, X: Images, y: ArrayLike | None = None) -> NDArray[np.floating]:
        """Fit to samples and compute their features; if either fails, nothing is changed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or images
            Rows or images.
        y : array-like of shape (n_samples,), default=None
            Labels, as in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, `n_features_out_`)
            Features, of dtype `dtype`.
        """
        rows, attributes = self._fit_attributes(X, y)
        draft = copy(self)
        replace_fitted(draft, _REPLACED, attributes)
        features = draft._features(draft, rows)
        self._replace_attributes(attributes)
        return features

    def _replace_attributes(self, attributes):
        """Replace the fitted attributes all at once; advance a `random_state` that was used."""
        random_state = None
        if self.epochs:
            random_state = self.random_state
        replace_fitted(self, _REPLACED, attributes, random_state=random_state)

    @with_callbacks
    def _fit_attributes(self, X, y):
        """Return the validated rows and the fitted attributes; change nothing."""
        self._validate_params()
        context = self._init_callback_context(max_subtasks=self.epochs)
        call = ReportedTask(context, self, X, y)
        rows, inputs, attributes = first_samples(self, X)
        if self.epochs:
            module, training = self._pretrain(rows, y, inputs, call.epochs)
            attributes |= training
        else:
            module = build_network(self, read_weights(self.weights))
        module = freeze(module)
        layers = self._layer_names()
        extraction = Extraction.from_extractor(self, module, inputs, layers)
        widths, axes = extraction.probe(rows[:2], self.channel_axis)
        if not self.epochs and self.weights is None:
            warn_if_untrained(module, self.backbone)
        if layers is not None:
            extraction = replace(extraction, axes=axes)
            scales = extraction.scales(rows, self.batch_size)
            attributes["layer_widths_"] = dict(zip(layers, widths, strict=True))
            attributes["layer_scales_"] = dict(zip(layers, scales, strict=True))
            attributes["layer_axes_"] = axes
        state = state_to_arrays(module)
        attributes["state_dict_"] = state
        attributes["n_features_out_"] = sum(widths)
        attributes["_built"] = (self.dtype, state, module)
        attributes["_fitted_params"] = self._fixed_params()
        call.end()
        return rows, attributes

    def _layer_names(self):
        """Return `layers` as a tuple of texts, or None."""
        if self.layers is None:
            return None
        return tuple(map(str, self.layers))

    def _fixed_params(self) -> dict[str, object]:
        """Return the parameters that determine the features and have an effect in `fit` alone."""
        names = self.get_params(deep=False).keys()
        fixed = names - _FREE - _PRETRAINING.keys() - {"weights"}
        return {name: getattr(self, name) for name in sorted(fixed)}

    def _as_fitted(self) -> Self:
        """Return a copy with the parameters that `fit` has read, except for those in `_FREE`."""
        fitted = copy(self)
        attributes = vars(fitted)
        # Pickles of earlier versions lack these parameters.
        attributes.update(attributes.get("_fitted_params", {}))
        return fitted

    def _pretrain(self, rows, y, inputs, observe):
        """Train the network; return it with the fitted attributes that describe the training."""
        classes, codes = check_labels(y, rows)
        seed = next_seed(self.random_state)
        # Keep only the parameters and buffers that the seed determines: everything else that the
        # factory draws must be the same when the network is rebuilt.
        seeded_module = build_network(self, read_weights(self.weights), seed)
        module = build_network(self, seeded_module.state_dict())
        n_features = self._probe_copy(module, rows[:2], inputs)
        losses = pretrain(self, module, n_features, rows, codes, inputs, seed, observe)
        return module, {"loss_curve_": losses, "classes_": classes}

    def _probe_copy(self, module, pair, inputs):
        """Check a network on two rows before its training; return the width of its output.

        An error after the training would waste it. A copy is checked, because tensors that a
        network stores in inference mode cannot be trained.
        """
        module = freeze(deepcopy(module))
        layers = self._layer_names()
        if layers is not None:
            extraction = Extraction.from_extractor(self, module, inputs, layers)
            extraction.probe(pair, self.channel_axis)
        extraction = Extraction.from_extractor(self, module, inputs, None)
        (n_features,), _ = extraction.probe(pair)
        return n_features

    def transform(self, X: Images) -> NDArray[np.floating]:
        """Compute the features of rows or images.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or images
            Rows or images, which may have another form than in `fit`.

        Returns
        -------
        ndarray of shape (n_samples, `n_features_out_`)
            Features, of dtype `dtype`.

        Raises
        ------
        ValueError
            If rows or images do not match those of `fit`, or features are not finite.
        """
        check_is_fitted(self)
        fitted = self._as_fitted()
        rows = more_samples(fitted, X)
        return self._features(fitted, rows)

    def _features(self, fitted, rows):
        """Compute the features of validated rows by the attributes of a fitted copy."""
        inputs = Inputs(fitted.input_shape_, fitted.mean, fitted.std)
        layers = None
        widths = [fitted.n_features_out_]
        scales = None
        axes = None
        if hasattr(fitted, "layer_widths_"):
            layers = tuple(fitted.layer_widths_)
            widths = list(fitted.layer_widths_.values())
            scales = [fitted.layer_scales_[layer] for layer in layers]
            axes = fitted.layer_axes_
        module = self._frozen_module(fitted)
        extraction = Extraction.from_extractor(fitted, module, inputs, layers, axes)
        return extraction.features(rows, fitted.batch_size, widths, scales)

    def _frozen_module(self, fitted):
        """Return the network of a fitted copy; rebuild it without one, or for another dtype."""
        state = fitted.state_dict_
        dtype, weights, module = getattr(self, "_built", (None, None, None))
        if dtype != fitted.dtype or weights is not state:
            module = freeze(build_network(fitted, state))
            # Keep its weights too, because `fit` in another thread may have replaced `state_dict_`.
            self._built = (fitted.dtype, state, module)
        return module

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the features.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns, compared with those of `fit`; ignored for images and `layers`.

        Returns
        -------
        ndarray of str
            ``"<layer>_<number>"`` with `layers`, else the class name in lower case and a number.
        """
        check_is_fitted(self)
        if not hasattr(self, "layer_widths_"):
            if self.image_values_ is not None:
                # A `ColumnTransformer` passes the name of the column that holds the images.
                input_features = None
            return super().get_feature_names_out(input_features)
        names: list[str] = []
        for layer, width in self.layer_widths_.items():
            names.extend(f"{layer}_{number}" for number in range(width))
        return np.array(names, dtype=np.object_)

    _n_features_out = property(lambda self: self.n_features_out_)

    def __getstate__(self):
        # A module is bound to a device and has no stable hash; `state_dict_` replaces it.
        state = dict(super().__getstate__())
        state.pop("_built", None)
        return state

    def __sklearn_clone__(self):
        cloned = super().__sklearn_clone__()
        # Steps of a file may clone other steps, and the rule of `load` for texts must hold for the
        # clones.
        if hasattr(self, "_is_from_file"):
            cloned._is_from_file = self._is_from_file
        return cloned

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        tags.target_tags.required = bool(self.epochs)
        return tags
