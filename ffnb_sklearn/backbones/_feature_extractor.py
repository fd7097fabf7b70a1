"""A torch network as a frozen scikit-learn transformer, trained elsewhere or by `fit`."""

import os
from collections.abc import Mapping
from copy import deepcopy
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ffnb_sklearn.backbones._checkpoint import read_checkpoint
from ffnb_sklearn.backbones._checks import check_features, differing_pair
from ffnb_sklearn.backbones._inputs import Inputs
from ffnb_sklearn.backbones._loading import (
    build_backbone,
    freeze,
    load_weights,
    read_weights,
    remove_head,
    state_to_arrays,
)
from ffnb_sklearn.backbones._plan import Plan, labelled_samples
from ffnb_sklearn.backbones._pretraining import pretrain
from ffnb_sklearn.core.device import resolve_device

__all__ = ["TorchFeatureExtractor"]

# The batch a row comes in may move its features by rounding errors, not by more than this.
_BATCH_TOLERANCE = 1e-3


class TorchFeatureExtractor(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turn rows into the features of a frozen torch network.

    `fit` builds the backbone, loads its weights and measures the width of its output. By
    default that is all: the backbone comes trained, and no targets are needed. With
    ``epochs > 0``, `fit` also trains it to classify `X`, by a linear layer on its features
    that is thrown away afterwards. Either way, `transform` trains nothing.

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
        factory made it. Pretraining starts from them.
    head : str, default=None
        Name of the submodule that is replaced by the identity, so that the features before
        it come out: ``"classifier"`` of an EfficientNet of torchvision, ``"fc"`` of its
        ResNets. Weights may hold entries of it, which are left out.
    input_shape : tuple of int, default=None
        Shape of one input of the network, channels first for images: rows are reshaped to
        ``(n_samples, *input_shape)``. With `None`, rows go in as they are.
    mean : float or array-like of shape (n_channels,), default=None
        Subtracted from the input, in units of the input; one value per index of the first
        axis of `input_shape`.
    std : float or array-like of shape (n_channels,), default=None
        The input is divided by it, after `mean` was subtracted.
    batch_size : int, default=256
        Rows that `transform` sends through the network at a time.
    dtype : {"float32", "float64"}, default="float32"
        Arithmetic of the network, and dtype of the features.
    device : {"auto", "cpu", "cuda", "mps"} or "cuda:<index>", default="auto"
        Where the network runs; chosen anew at each call. `"auto"` is CUDA where there is
        a CUDA device, else the CPU.
    epochs : int, default=0
        How often pretraining goes through the samples; 0: no pretraining. All that follows
        is about pretraining.
    optimizer : {"adamw", "sgd"}, default="adamw"
        What follows the gradients.
    learning_rate : float, default=0.003
        Largest learning rate. ``"sgd"`` takes more, 0.05 to 0.2 for a `ConvNet`.
    momentum : float, default=0.9
        Momentum of ``"sgd"``.
    weight_decay : float, default=0.01
        Of all parameters. ``"sgd"`` takes less, such as 5e-4.
    schedule : {"one-cycle", "cosine", "constant"}, default="one-cycle"
        Course of the learning rate, step by step: a rise over the first 30 % of the steps
        and half a cosine down to zero; the cosine alone; or none.
    train_batch_size : int, default=128
        Rows of one step.
    label_smoothing : float, default=0.0
        Share of each target that is spread over all classes.
    augment : {"flip-crop"}, callable or None, default=None
        What changes the inputs of each step at random. ``"flip-crop"`` is
        :class:`FlipCrop` with its defaults, for images. A callable takes a batch, shaped and
        scaled as the network sees it, and a `torch.Generator` on the CPU, and returns a
        batch of the same shape; it must be picklable.
    validation_fraction : float, default=0.0
        Share of each class that is not trained on, but measured after each epoch. The
        weights of the epoch with the best accuracy there are kept, of several the one with
        the smallest loss. With 0, those of the last epoch are.
    mixed_precision : bool or "auto", default="auto"
        Whether to compute in bfloat16 what can be; `"auto"` does so on CUDA devices.
    checkpoint : path, default=None
        File to which the state is written after each epoch, and from which a call of `fit`
        with the same data and parameters goes on, if it exists.
    random_state : int, RandomState instance or None, default=None
        Seed of the first weights, the order of the samples, the validation samples, the
        dropout and the augmentation.
    verbose : bool or int, default=False
        Whether to print a line per epoch.

    Attributes
    ----------
    state_dict_ : dict of str -> ndarray
        Parameters and buffers of the network.
    history_ : dict of str -> list of float
        With ``epochs > 0``, the course of the training, one entry per epoch: `train_loss`,
        `learning_rate` of the last step, and, if samples were held out, `validation_loss`
        and `validation_accuracy`.
    n_epochs_ : int
        With ``epochs > 0``, how many epochs are behind the weights that were kept.
    classes_ : ndarray of shape (n_classes,)
        With ``epochs > 0``, the labels that the network was trained on.
    n_features_in_ : int
        Number of values per row.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where `fit` saw a data frame.
    n_features_out_ : int
        Number of features per row; the output of the network is flattened.

    See Also
    --------
    ffnb_sklearn.pipeline.ContinualPipeline : Puts it before a classifier that learns on;
        pretraining then sees the first task only.
    ConvNet : Backbone for small images.

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

    *Pretraining* on the CPU gives the same weights for the same `random_state`, data and
    number of threads, whether it was interrupted and resumed or not; the global generators
    are left as they were. Epochs in several threads of a process wait for each other, since
    they share these generators. On CUDA devices some operations of torch add in no fixed order.
    Parameters of the backbone that require no gradient are left as they are.

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
        "head": [str, None],
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
        "mixed_precision": ["boolean", StrOptions({"auto"})],
        "checkpoint": [str, os.PathLike, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        backbone,
        *,
        backbone_params=None,
        weights=None,
        head=None,
        input_shape=None,
        mean=None,
        std=None,
        batch_size=256,
        dtype="float32",
        device="auto",
        epochs=0,
        optimizer="adamw",
        learning_rate=0.003,
        momentum=0.9,
        weight_decay=0.01,
        schedule="one-cycle",
        train_batch_size=128,
        label_smoothing=0.0,
        augment=None,
        validation_fraction=0.0,
        mixed_precision="auto",
        checkpoint=None,
        random_state=None,
        verbose=False,
    ):
        self.backbone = backbone
        self.backbone_params = backbone_params
        self.weights = weights
        self.head = head
        self.input_shape = input_shape
        self.mean = mean
        self.std = std
        self.batch_size = batch_size
        self.dtype = dtype
        self.device = device
        self.epochs = epochs
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.train_batch_size = train_batch_size
        self.label_smoothing = label_smoothing
        self.augment = augment
        self.validation_fraction = validation_fraction
        self.mixed_precision = mixed_precision
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y=None):
        """Build the network, load its weights, and pretrain it if ``epochs > 0``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. Without pretraining, two that differ are sent through the network.
        y : array-like of shape (n_samples,), default=None
            Labels of at least two classes; ignored without pretraining.

        Returns
        -------
        self : TorchFeatureExtractor
            The fitted transformer.

        Raises
        ------
        ValueError
            If rows, labels, weights or scaling do not fit, the dotted name of the backbone
            leads nowhere, the features of a row depend on the other rows of its batch, or
            the checkpoint belongs to another training.
        TypeError
            If the backbone makes no network, or the network puts out no tensor.
        NonFiniteFeaturesError
            If the features are not finite.
        NonFiniteLossError
            If the loss of the pretraining becomes NaN or infinite.
        """
        self._validate_params()
        rows = check_array(X, estimator=self, input_name="X")
        self._inputs().check(rows.shape[1])
        if self.epochs:
            module, learned = self._pretrain(rows, y)
        else:
            module, learned = self._build(self.weights), {}
        n_features_out = self._probe(freeze(module), differing_pair(rows))
        state = state_to_arrays(module)
        # Last, so that a failing call leaves nothing behind.
        validate_data(self, X, skip_check_array=True)
        for name in ("history_", "n_epochs_", "classes_"):
            vars(self).pop(name, None)
        vars(self).update(learned)
        self.state_dict_ = state
        self.n_features_out_ = n_features_out
        self._built = (self.dtype, module)
        return self

    def _pretrain(self, rows, y):
        """Train the network; return it with the attributes that tell of it."""
        samples = labelled_samples(rows, y, self._inputs())
        saved = None if self.checkpoint is None else read_checkpoint(self.checkpoint)
        if self.random_state is None and saved is not None:
            seed = saved["settings"]["random_state"]
        else:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        module = self._build(self.weights, seed)
        # A copy, because what a network keeps of a call in inference mode cannot be trained.
        n_features = self._probe(freeze(deepcopy(module)), differing_pair(rows))
        history, n_epochs = pretrain(
            module,
            n_features,
            samples,
            Plan.of(self, seed),
            device=resolve_device(self.device),
            saved=saved,
            checkpoint=self.checkpoint,
            verbose=self.verbose,
        )
        return module, {"history_": history, "n_epochs_": n_epochs, "classes_": samples.classes}

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
            module = freeze(self._build(self.state_dict_))
            self._built = (self.dtype, module)
        return module

    def _build(self, weights, seed=0):
        """Build the network, cast it and then load weights, which so keep their digits."""
        module = build_backbone(self.backbone, self.backbone_params, seed)
        if self.head is not None:
            remove_head(module, self.head)
        module.to(getattr(torch, self.dtype))
        if weights is not None:
            load_weights(module, read_weights(weights), self.head)
        return module

    def _inputs(self):
        """What becomes of rows before they enter the network."""
        return Inputs(self.input_shape, self.mean, self.std)

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
        # Outside of the inference mode: weights that are moved inside could not move again.
        module.to(device)
        with torch.inference_mode():
            output = module(self._inputs().prepare(rows, device, getattr(torch, self.dtype)))
        return check_features(output, len(rows), first_row)

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
        tags.target_tags.required = bool(self.epochs)
        return tags
