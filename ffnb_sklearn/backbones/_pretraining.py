"""Train a backbone to classify, with a linear head that is discarded afterwards."""

from functools import partial
from math import cos, isfinite, pi
from time import perf_counter

import numpy as np
import torch
from sklearn.utils import check_consistent_length
from torch import nn

from ffnb_sklearn._inputs.labels import check_targets
from ffnb_sklearn.backbones._augmentation import ImageTransform, augment_batch
from ffnb_sklearn.backbones._network import find_submodule
from ffnb_sklearn.backbones._readout import training_arithmetic
from ffnb_sklearn.backbones._seeding import derive_seeds, seed_layers, seed_torch

# Indices of the derived seeds of the head and of the first epoch.
_HEAD = 0
_FIRST_EPOCH = 2


class NonFiniteLossError(ValueError):
    """The loss of a training became NaN or infinite."""


def check_labels(y, rows):
    """Return the classes of some rows, at least two, and the position of the class of each row."""
    if y is None:
        raise ValueError(
            "requires y to be passed, but the target y is None: with epochs > 0, the backbone "
            "is trained on the labels of X."
        )
    labels = check_targets(y, None, "y")
    check_consistent_length(rows, labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            "y must hold at least two classes if epochs > 0, because the backbone is trained to "
            f"distinguish them; got one class, {classes.tolist()}."
        )
    return classes, codes


def pretrain(extractor, backbone, n_features, rows, codes, inputs, seed, observe=iter):
    """Train a backbone in place with the settings of an extractor; return the losses per epoch.

    `observe` wraps the numbers of the epochs: it may report each epoch, and may stop early.
    """
    for name in extractor.frozen or ():
        find_submodule(backbone, name, "frozen").requires_grad_(False)
    _check_trainable(backbone, extractor)
    arithmetic = training_arithmetic(extractor, backbone)
    n_classes = int(codes.max()) + 1
    model = _Classifier(backbone, n_features, n_classes, seed)
    model = arithmetic.place(model)
    training = _Training(extractor, model, arithmetic, rows, codes, inputs, seed)
    losses = []
    for epoch in observe(range(extractor.epochs)):
        start = perf_counter()
        loss = training.run_epoch(epoch)
        losses.append(loss)
        if extractor.verbose:
            seconds = perf_counter() - start
            print(
                f"epoch {epoch + 1} of {extractor.epochs}: train loss {loss:.4g}, {seconds:.1f} s"
            )
    return losses


class _Classifier(nn.Module):
    """A backbone and a linear head."""

    def __init__(self, backbone, n_features, n_classes, seed):
        super().__init__()
        self.backbone = backbone
        dtype = next(backbone.parameters()).dtype
        (head_seed,) = derive_seeds(seed, _HEAD, 1)
        with seed_layers(head_seed):
            self.head = nn.Linear(n_features, n_classes).to(dtype)

    def forward(self, inputs):
        """Return one score per class."""
        features = self.backbone(inputs).reshape(len(inputs), -1)
        return self.head(features)


class _Training:
    """A training in progress: its settings, samples, model and optimizer."""

    def __init__(self, settings, model, arithmetic, rows, codes, inputs, seed):
        self.settings = settings
        self.model = model
        self.arithmetic = arithmetic
        self.rows = rows
        self.codes = codes
        self.inputs = inputs
        self.seed = seed
        self.optimizer = _create_optimizer(model, settings)

    def run_epoch(self, epoch):
        """Train on all samples once; return the mean loss."""
        order_seed, layer_seed = derive_seeds(self.seed, _FIRST_EPOCH + epoch, 2)
        generator = torch.Generator().manual_seed(order_seed)
        n_samples = len(self.codes)
        batches = _random_batches(n_samples, self.settings.train_batch_size, generator)
        n_steps = self.settings.epochs * len(batches)
        self._set_modes()
        device = self.arithmetic.device
        total_loss = torch.zeros((), dtype=self.arithmetic.dtype, device=device)
        with seed_torch(layer_seed, device):
            for step, batch in enumerate(batches, start=epoch * len(batches)):
                rate = _learning_rate(self.settings.learning_rate, step, n_steps)
                total_loss += len(batch) * self._step(batch, rate, generator)
        loss = total_loss.item() / n_samples
        if not isfinite(loss):
            raise NonFiniteLossError(
                f"the loss is {loss} in epoch {epoch + 1} of {self.settings.epochs}. A smaller "
                f"learning_rate than {self.settings.learning_rate} may help, or a mean and std "
                "that scale the input."
            )
        return loss

    def _set_modes(self):
        """Switch the model to training mode, and its frozen submodules to evaluation mode."""
        self.model.train()
        for name in self.settings.frozen or ():
            self.model.backbone.get_submodule(name).eval()

    def _step(self, batch, rate, generator):
        """Take a gradient step on the samples at some positions; return their mean loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        inputs = self._augmented_inputs(batch, generator)
        codes = torch.from_numpy(self.codes[batch]).to(inputs.device)
        self.optimizer.zero_grad()
        with self.arithmetic.autocast():
            scores = self.model(self.arithmetic.arrange(inputs))
            loss = nn.functional.cross_entropy(scores, codes)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _augmented_inputs(self, batch, generator):
        """Return the augmented inputs of some samples on the device."""
        rows = self.rows[batch]
        device = self.arithmetic.device
        dtype = self.arithmetic.dtype
        augment = partial(augment_batch, self.settings.augment, generator=generator)
        if isinstance(self.settings.augment, ImageTransform):
            return self.inputs.prepare(rows, device, dtype, augment)
        inputs = self.inputs.prepare(rows, device, dtype)
        return augment(inputs)


def _random_batches(n_samples, size, generator):
    """Split the positions of samples into batches in random order.

    A last batch of one sample is merged with the previous batch, because a single sample has no
    variance for a batch normalisation to divide by.
    """
    order = torch.randperm(n_samples, generator=generator, device=generator.device)
    starts = list(range(size, n_samples, size))
    if size > 1 and starts and starts[-1] == n_samples - 1:
        starts.pop()
    return np.split(order.numpy(), starts)


def _learning_rate(peak, step, n_steps):
    """Return the learning rate of one step, counted from 0, of `n_steps` steps.

    It rises linearly from a 25th of `peak` over the first 30 % of the steps, and then falls to zero
    along half a cosine (Smith and Topin, Super-Convergence, 2019); the momentum stays.
    """
    n_rising = 0.3 * n_steps
    if step < n_rising:
        share = 0.04 + 0.96 * step / n_rising
    else:
        angle = pi * (step - n_rising) / (n_steps - n_rising)
        share = 0.5 * (1.0 + cos(angle))
    return peak * share


def _create_optimizer(model, settings):
    """Create the optimizer; the learning rate is set at each step."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    options = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=0.9, **options)
    return torch.optim.AdamW(parameters, **options)


def _check_trainable(backbone, settings):
    """Raise if a backbone cannot be trained with these settings."""
    if not any(parameter.requires_grad for parameter in backbone.parameters()):
        raise ValueError(
            f"epochs={settings.epochs} needs a backbone with parameters that require a gradient; "
            "it has none."
        )
    if settings.train_batch_size > 1:
        return
    batch_norm = nn.modules.batchnorm._BatchNorm
    if any(isinstance(layer, batch_norm) for layer in backbone.modules()):
        raise ValueError(
            "train_batch_size must be at least 2 for a backbone with batch normalisation, which "
            "divides by the variance of the batch; got 1."
        )
