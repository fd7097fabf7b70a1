"""A frozen torch network as a scikit-learn transformer, trained elsewhere or by `fit`."""

import os
from collections.abc import Mapping
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ffnb_sklearn._estimators.transactions import COLUMNS, replace_fitted
from ffnb_sklearn.backbones._fitting import learn
from ffnb_sklearn.backbones._inputs import Inputs, first_samples, more_samples
from ffnb_sklearn.backbones._loading import Blueprint, freeze, summarised
from ffnb_sklearn.backbones._plan import PLAN_CONSTRAINTS
from ffnb_sklearn.backbones._readout import Extraction

__all__ = ["TorchFeatureExtractor"]

# Fitted attributes that only some settings produce.
_TRAINED = ("history_", "n_epochs_", "classes_")
_OPTIONAL = (*_TRAINED, "layer_widths_", "layer_scales_", "pooling_", "network_params_")


class TorchFeatureExtractor(
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
        weights. With `None`, the network keeps the weights from the factory; if these look random
        and there is no pretraining, `fit` issues a `RandomFeaturesWarning`.
    head : str, default=None
        Name of the submodule to replace by the identity, such as the final classifier, so that the
        network returns the features before it. Entries of `weights` for it are ignored.
    layers : list of str, default=None
        Names of submodules, as listed by ``named_modules()`` of the network, whose outputs are
        pooled, scaled by one factor per layer, and concatenated. None uses the final output.
    pooling : {"mean", "max"} or int, default="mean"
        Pooling of the outputs of `layers` over space or time: the mean, the maximum, or, for an
        integer, the means over the cells of a grid with this many cells along each axis.
    views : {"mirror"}, callable or None, default=None
        Views of each image, over which the features are averaged: ``"mirror"``, the image and its
        mirror image, a :class:`MirrorShift`, or a function from a batch, shaped and scaled as for
        the network, to a list of such batches.
    input_shape : tuple of int, default=None
        Shape of one input of the network, channels first for images. With `None`, rows are not
        reshaped, and all images have the shape of the first image.
    resize : int, default=None
        Number of pixels to which the shorter side of each image is scaled, by antialiased bicubic
        interpolation, before the centre is cut out: the size of `input_shape`, or a square. Images
        may then have any sizes. Rows are not scaled.
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
        `True` needs ``dtype="float32"``, and a CPU or CUDA device with bfloat16 arithmetic;
        `"auto"` uses it only for pretraining on such CUDA devices.
    epochs : int, default=0
        Number of passes of pretraining over the samples. All following parameters concern
        pretraining.
    optimizer : {"adamw", "sgd"}, default="adamw"
        Optimizer of the pretraining.
    learning_rate : float, default=0.003
        Largest learning rate. ``"sgd"`` needs larger values, 0.05 to 0.2 for a `ConvNet`.
    momentum : float, default=0.9
        Momentum of ``"sgd"``.
    weight_decay : float, default=0.01
        Weight decay of all parameters. ``"sgd"`` needs smaller values, such as 5e-4.
    schedule : {"one-cycle", "cosine", "constant"}, default="one-cycle"
        Learning rate over the steps: ``"one-cycle"`` rises over the first 30 % of them and then
        falls to zero along half a cosine, ``"cosine"`` only falls.
    train_batch_size : int, default=128
        Number of rows per step.
    label_smoothing : float, default=0.0
        Share of each target that is spread over all classes.
    augment : {"flip-crop"}, callable or None, default=None
        Random augmentation of the inputs of each step: ``"flip-crop"`` for a :class:`FlipCrop`, an
        :class:`ImageTransform` of torchvision, or a function from a batch, shaped and scaled as for
        the network, and a `torch.Generator` on the CPU to a batch of the same shape.
    frozen : list of str, default=None
        Names of submodules, as listed by ``named_modules()``, that pretraining does not change:
        neither their parameters nor the statistics of their normalisations.
    validation_fraction : float, default=0.0
        Fraction of each class that is held out and evaluated after each epoch. The weights of the
        epoch with the best accuracy, then the smallest loss, are kept; with 0, the last weights.
    checkpoint : path, default=None
        File to which the state is written after each epoch. If the file exists, a call of `fit`
        with the same data and parameters resumes from it.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights, sample order, validation samples, dropout and augmentation.
    verbose : bool or int, default=False
        Whether to print a line per epoch.

    Attributes
    ----------
    state_dict_ : dict of str -> ndarray
        Parameters and buffers of the network.
    history_ : dict of str -> list of float
        With ``epochs > 0``, one entry per epoch: `train_loss`, the `learning_rate` of the last
        step, and, if samples were held out, `validation_loss` and `validation_accuracy`.
    n_epochs_ : int
        With ``epochs > 0``, the number of epochs that led to the kept weights.
    classes_ : ndarray of shape (n_classes,)
        With ``epochs > 0``, the labels on which the network was trained.
    layer_widths_ : dict of str -> int
        With `layers`, the number of features of each layer.
    layer_scales_ : dict of str -> float
        With `layers`, the inverse root mean square length of the features of each layer over the
        samples passed to `fit`; 1 if all are zero.
    pooling_ : {"mean", "max"} or int
        With `layers`, the value of `pooling` in `fit`.
    network_params_ : dict
        The values of `backbone_params` and `head` in `fit`, which the fitted weights belong to.
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
    ffnb_sklearn.pipeline.ContinualPipeline : Pretrains the extractor on the first task.
    from_timm : Makes the extractor for a pretrained network.
    ConvNet : Backbone for small images.
    image_files : Lists the images in a folder.

    Notes
    -----
    *Images* can be an array or a tensor of shape (n, channels, height, width) or (n, height, width,
    channels), a list of arrays, tensors, PIL images or paths (the last two need Pillow), or a
    `torch.utils.data.Dataset` of images or of tuples whose first item is an image. Grey and opaque
    images are converted to the number of channels of `input_shape`. Only one batch at a time is
    read and converted to floating point, so pass the scaling as `mean` and `std`.

    *Precision.* In float32, the last digits of the features of a row depend on the other rows of
    its batch. In float64, the features agree to 1e-12, but convolutions take several times as long.

    *Pretraining* on the CPU gives the same weights for the same `random_state`, data and number of
    threads, also if it is interrupted and resumed. On CUDA devices, results can differ.

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

    # Tells `ContinualPipeline` not to warn that only the first task fits this transformer.
    frozen_on_purpose = True
    # Parameters and attributes that do not determine the output; `pooling_` equals the parameter.
    not_in_output = frozenset(
        {
            *("weights", "batch_size", "device", "checkpoint", "random_state", "verbose"),
            *("history_", "n_epochs_", "classes_", "pooling_", "image_values_"),
            *PLAN_CONSTRAINTS,
        }
    )

    _parameter_constraints: dict = {  # noqa: RUF012
        "backbone": [callable, str],
        "backbone_params": [dict, None],
        "weights": [str, os.PathLike, Mapping, None],
        "layers": [list, tuple, None],
        "pooling": [StrOptions({"mean", "max"}), Interval(Integral, 1, None, closed="left")],
        "views": [StrOptions({"mirror"}), callable, None],
        "input_shape": [tuple, list, None],
        "resize": [Interval(Integral, 1, None, closed="left"), None],
        "mean": ["array-like", Real, None],
        "std": ["array-like", Real, None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "dtype": [StrOptions({"float32", "float64"})],
        "device": [str],
        "mixed_precision": ["boolean", StrOptions({"auto"})],
        "head": [str, None],
        "checkpoint": [str, os.PathLike, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        **PLAN_CONSTRAINTS,
    }

    def __init__(
        self,
        backbone,
        *,
        backbone_params=None,
        weights=None,
        head=None,
        layers=None,
        pooling="mean",
        views=None,
        input_shape=None,
        resize=None,
        mean=None,
        std=None,
        batch_size=256,
        dtype="float32",
        device="auto",
        mixed_precision="auto",
        epochs=0,
        optimizer="adamw",
        learning_rate=0.003,
        momentum=0.9,
        weight_decay=0.01,
        schedule="one-cycle",
        train_batch_size=128,
        label_smoothing=0.0,
        augment=None,
        frozen=None,
        validation_fraction=0.0,
        checkpoint=None,
        random_state=None,
        verbose=False,
    ):
        self.backbone = backbone
        self.backbone_params = backbone_params
        self.weights = weights
        self.head = head
        self.layers = layers
        self.pooling = pooling
        self.views = views
        self.input_shape = input_shape
        self.resize = resize
        self.mean = mean
        self.std = std
        self.batch_size = batch_size
        self.dtype = dtype
        self.device = device
        self.mixed_precision = mixed_precision
        self.epochs = epochs
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.train_batch_size = train_batch_size
        self.label_smoothing = label_smoothing
        self.augment = augment
        self.frozen = frozen
        self.validation_fraction = validation_fraction
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y=None):
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
            or depend on the other rows of a batch, the loss is not finite, or the checkpoint
            belongs to another training.
        TypeError
            If the backbone or a layer returns something else than a network or a tensor.
        """
        self._fit(X, y)
        return self

    def fit_transform(self, X, y=None):
        """Fit to samples and compute their features; with `layers`, both in one pass.

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
        rows, features = self._fit(X, y, keep=True)
        return self._features(rows) if features is None else features

    def _fit(self, X, y, keep=False):
        """Fit the extractor; return the rows and, with `layers` and `keep`, their features."""
        self._validate_params()
        rows, features, fitted = self._fitted(X, y, keep)
        random_state = self.random_state if self.epochs else None
        replace_fitted(self, (*_OPTIONAL, *COLUMNS), fitted, random_state=random_state)
        return rows, features

    def _fitted(self, X, y, keep):
        """Return the rows, their features or None, and the fitted attributes; change nothing."""
        rows, inputs, seen = first_samples(self, X)
        learned, features = learn(self, rows, y, inputs, keep=keep)
        return rows, features, seen | learned

    def transform(self, X):
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
            If rows, images or parameters of the network do not match those of `fit`, or features
            are not finite.
        """
        check_is_fitted(self)
        return self._features(more_samples(self, X))

    def _features(self, rows):
        """Compute the features of all rows by the fitted network."""
        inputs = Inputs(self.input_shape_, self.mean, self.std)
        widths, scales = (getattr(self, name, None) for name in ("layer_widths_", "layer_scales_"))
        return Extraction.of(self, self._frozen_module(), inputs).features(
            rows, self.batch_size, self.n_features_out_, widths, scales
        )

    def _frozen_module(self):
        """Return the network; rebuild it if it is missing, or has another dtype, origin or fit."""
        state, backbone = self.state_dict_, self.backbone
        dtype, origin, weights, module = getattr(self, "_built", (None,) * 4)
        if dtype != self.dtype or origin is not backbone or weights is not state:
            module = freeze(Blueprint.of(self).build(state))
            # Keep its weights too, because `fit` in another thread may have replaced `state_dict_`.
            self._built = (self.dtype, backbone, state, module)
        return module

    def get_feature_names_out(self, input_features=None):
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
            # A `ColumnTransformer` gives the name of the column that holds the images.
            is_image = self.image_values_ is not None
            return super().get_feature_names_out(None if is_image else input_features)
        widths = self.layer_widths_.items()
        numbered = [f"{layer}_{index}" for layer, width in widths for index in range(width)]
        return np.array(numbered, dtype=object)

    def get_params(self, deep=True):
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Ignored: no parameter is an estimator.

        Returns
        -------
        dict
            The parameters; a dictionary of `weights` prints as a summary.
        """
        params = super().get_params(deep)
        return {**params, "weights": summarised(params["weights"])}

    def _get_fitted_attr_html(self, doc_link=""):
        """Summarise the weights in the table that scikit-learn shows in notebooks."""
        attributes = super()._get_fitted_attr_html(doc_link)
        if "state_dict_" in attributes:
            attributes["state_dict_"]["value"] = summarised(self.state_dict_)
        return attributes

    _n_features_out = property(lambda self: self.n_features_out_)

    def __getstate__(self):
        # A module is bound to a device and has no stable hash; `state_dict_` replaces it.
        state = dict(super().__getstate__())
        state.pop("_built", None)
        return state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [self.dtype]
        tags.target_tags.required = bool(self.epochs)
        return tags
