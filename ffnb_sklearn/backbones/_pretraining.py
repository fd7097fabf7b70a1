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
from ffnb_sklearn.backbones._network import named_submodule
from ffnb_sklearn.backbones._readout import Arithmetic
from ffnb_sklearn.backbones._seeding import derive_seeds, seed_layers, seed_torch

# Indices of the derived seeds: the head, and the first epoch.
_HEAD, _EPOCHS = 0, 2


class NonFiniteLossError(ValueError):
    """The loss of a training became NaN or infinite."""


def check_labels(y, rows):
    """Return the classes of some rows, at least two, and the position of the class of each row."""
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
    return classes, codes


def pretrain(extractor, backbone, n_features, rows, codes, inputs, seed):
    """Train a backbone in place as an extractor says; return the losses of its epochs."""
    for name in extractor.frozen or ():
        named_submodule(backbone, name, "frozen").requires_grad_(False)
    _check_trainable(backbone, extractor)
    arithmetic = Arithmetic.of(extractor, backbone)
    model = arithmetic.place(_Classifier(backbone, n_features, int(codes.max()) + 1, seed))
    training = _Training(extractor, model, arithmetic, rows, codes, inputs, seed)
    losses = []
    for epoch in range(extractor.epochs):
        start = perf_counter()
        losses.append(training.run_epoch(epoch))
        if extractor.verbose:
            number, seconds = f"{epoch + 1} of {extractor.epochs}", perf_counter() - start
            print(f"epoch {number}: train loss {losses[-1]:.4g}, {seconds:.1f} s")
    return losses


class _Classifier(nn.Module):
    """A backbone and a linear head."""

    def __init__(self, backbone, n_features, n_classes, seed):
        super().__init__()
        self.backbone = backbone
        dtype = next(backbone.parameters()).dtype
        with seed_layers(*derive_seeds(seed, _HEAD, 1)):
            self.head = nn.Linear(n_features, n_classes).to(dtype)

    def forward(self, inputs):
        """Return one score per class."""
        return self.head(self.backbone(inputs).reshape(len(inputs), -1))


class _Training:
    """A training in progress: its settings, samples, model and optimizer."""

    def __init__(self, settings, model, arithmetic, rows, codes, inputs, seed):
        self.settings, self.model, self.arithmetic, self.seed = settings, model, arithmetic, seed
        self.rows, self.codes, self.inputs = rows, codes, inputs
        self.optimizer = _optimizer(model, settings)

    def run_epoch(self, epoch):
        """Train on all samples once; return the mean loss."""
        settings, how = self.settings, self.arithmetic
        order_seed, layer_seed = derive_seeds(self.seed, _EPOCHS + epoch, 2)
        generator = torch.Generator().manual_seed(order_seed)
        parts = _batches(len(self.codes), settings.train_batch_size, generator)
        self.model.train()
        for name in settings.frozen or ():
            self.model.backbone.get_submodule(name).eval()
        total = torch.zeros((), dtype=how.dtype, device=how.device)
        with seed_torch(layer_seed, how.device):
            for step, part in enumerate(parts, start=epoch * len(parts)):
                rate = _one_cycle(settings.learning_rate, step, settings.epochs * len(parts))
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                total += len(part) * self._step(part, generator)
        loss = total.item() / len(self.codes)
        if not isfinite(loss):
            raise NonFiniteLossError(
                f"the loss is {loss} in epoch {epoch + 1} of {settings.epochs}. A smaller "
                f"learning_rate than {settings.learning_rate} may help, or a mean and std that "
                "scale the input."
            )
        return loss

    def _step(self, part, generator):
        """Take a gradient step on one batch; return its mean loss."""
        inputs = self._augmented_inputs(part, generator)
        codes = torch.from_numpy(self.codes[part]).to(inputs.device)
        self.optimizer.zero_grad()
        with self.arithmetic.autocast():
            scores = self.model(self.arithmetic.arrange(inputs))
            loss = nn.functional.cross_entropy(scores, codes)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _augmented_inputs(self, part, generator):
        """Return the augmented inputs of some samples on the device."""
        how, augment = self.arithmetic, self.settings.augment
        change = partial(augment_batch, augment, generator=generator)
        if isinstance(augment, ImageTransform):
            return self.inputs.prepare(self.rows[part], how.device, how.dtype, change)
        return change(self.inputs.prepare(self.rows[part], how.device, how.dtype))


def _batches(n_samples, size, generator):
    """Split the positions of samples into batches in random order.

    A last batch of one sample is merged with the previous batch, because a single sample has no
    variance for a batch normalisation to divide by.
    """
    order = torch.randperm(n_samples, generator=generator, device=generator.device).numpy()
    starts = list(range(size, n_samples, size))
    if size > 1 and starts and n_samples - starts[-1] == 1:
        starts.pop()
    return np.split(order, starts)


def _one_cycle(peak, step, n_steps):
    """Return the learning rate of one step, counted from 0, of `n_steps` steps.

    It rises linearly from a 25th of `peak` over the first 30 % of the steps, and then falls to zero
    along half a cosine (Smith and Topin, Super-Convergence, 2019); the momentum stays.
    """
    warm_up = 0.3 * n_steps
    if step < warm_up:
        return peak * (0.04 + 0.96 * step / warm_up)
    return peak * 0.5 * (1.0 + cos(pi * (step - warm_up) / (n_steps - warm_up)))


def _optimizer(model, settings):
    """Create the optimizer; the learning rate is set at each step."""
    wanted = [one for one in model.parameters() if one.requires_grad]
    rates = {"lr": settings.learning_rate, "weight_decay": settings.weight_decay}
    if settings.optimizer == "sgd":
        return torch.optim.SGD(wanted, momentum=0.9, **rates)
    return torch.optim.AdamW(wanted, **rates)


def _check_trainable(backbone, settings):
    """Raise if a backbone cannot be trained with these settings."""
    if not any(one.requires_grad for one in backbone.parameters()):
        raise ValueError(
            f"epochs={settings.epochs} needs a backbone with parameters that require a gradient; "
            "it has none."
        )
    normalised = any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in backbone.modules())
    if settings.train_batch_size == 1 and normalised:
        raise ValueError(
            "train_batch_size must be at least 2 for a backbone with batch normalisation, which "
            "divides by the variance of the batch; got 1."
        )
