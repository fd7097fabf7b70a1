"""Train a backbone to classify, with a linear head that is discarded afterwards."""

from functools import partial
from math import cos, isfinite, pi
from time import perf_counter

import torch
from torch import nn

from ffnb_sklearn.backbones._augmentation import ImageTransform, augmented
from ffnb_sklearn.backbones._checkpoint import (
    check_same_training,
    check_state,
    digest_arrays,
    write_checkpoint,
)
from ffnb_sklearn.backbones._checks import NonFiniteLossError
from ffnb_sklearn.backbones._loading import named_submodule, state_to_arrays
from ffnb_sklearn.backbones._plan import batches, hold_out
from ffnb_sklearn.backbones._seeding import derived_seeds, seeded_layers, seeded_torch

# Name of the initial network in the message that two trainings differ.
_NETWORK = "the network (backbone, backbone_params, head, weights, dtype)"

# Indices of the derived seeds: the head, the validation split, and the first epoch.
_HEAD, _SPLIT, _EPOCHS = 0, 1, 2


def pretrain(backbone, n_features, samples, plan, *, arithmetic, saved, checkpoint, verbose):
    """Train a backbone in place; return its history and the number of epochs of its weights.

    Training resumes from the checkpoint `saved`, if there is one, and writes one to the file
    `checkpoint` after each epoch. The history has one list per quantity that was measured. Raise
    `NonFiniteLossError` if the loss becomes NaN or infinite, and `ValueError` if the checkpoint
    belongs to another training, or the plan cannot train the backbone.
    """
    for name in plan.frozen:
        named_submodule(backbone, name, "frozen").requires_grad_(False)
    _check_trainable(backbone, plan)
    model = _Classifier(backbone, n_features, len(samples.classes), plan.seed)
    settings = None
    if checkpoint is not None:
        network = {_NETWORK: digest_arrays(state_to_arrays(model))}
        settings = plan.settings() | samples.settings() | network
        if saved is not None:
            check_same_training(checkpoint, saved["settings"], settings)
    run = _Run(arithmetic.place(model), samples, plan, arithmetic)
    if saved is not None:
        run.restore(checkpoint, saved["state"])
    for epoch in range(run.n_epochs, plan.epochs):
        start = perf_counter()
        run.train(epoch)
        run.validate()
        if verbose:
            print(f"{run.last_epoch()}, {perf_counter() - start:.1f} s")
        if checkpoint is not None:
            write_checkpoint(checkpoint, settings, run.state())
    return run.history, run.keep_best()


class _Classifier(nn.Module):
    """A backbone and a linear head."""

    def __init__(self, backbone, n_features, n_classes, seed):
        super().__init__()
        self.backbone = backbone
        dtype = next(backbone.parameters()).dtype
        with seeded_layers(*derived_seeds(seed, _HEAD, 1)):
            self.head = nn.Linear(n_features, n_classes).to(dtype)

    def forward(self, inputs):
        """Return one score per class."""
        return self.head(self.backbone(inputs).reshape(len(inputs), -1))


class _Run:
    """A training in progress: its model, its optimizer and its history."""

    def __init__(self, model, samples, plan, arithmetic):
        self.model, self.samples, self.plan, self.arithmetic = model, samples, plan, arithmetic
        (seed,) = derived_seeds(plan.seed, _SPLIT, 1)
        self.kept, self.held_out = hold_out(samples.codes, plan.validation_fraction, seed)
        self.optimizer = _optimizer(model, plan)
        validation = ("validation_loss", "validation_accuracy") if len(self.held_out) else ()
        self.history = {name: [] for name in ("train_loss", "learning_rate", *validation)}
        self.best = None

    @property
    def n_epochs(self):
        """Number of completed epochs."""
        return len(self.history["train_loss"])

    def train(self, epoch):
        """Train the model for one epoch on all samples that are not held out."""
        plan = self.plan
        order_seed, layer_seed = derived_seeds(plan.seed, _EPOCHS + epoch, 2)
        generator = torch.Generator().manual_seed(order_seed)
        parts = batches(self.kept, plan.train_batch_size, generator)
        self.model.train()
        for name in plan.frozen:
            self.model.backbone.get_submodule(name).eval()
        how = self.arithmetic
        total = torch.zeros((), dtype=how.dtype, device=how.device)
        with seeded_torch(layer_seed, how.device):
            for step, part in enumerate(parts, start=epoch * len(parts)):
                n_steps = plan.epochs * len(parts)
                rate = learning_rate(plan.schedule, plan.learning_rate, step, n_steps)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                total += len(part) * self._step(part, generator)
        loss = total.item() / len(self.kept)
        if not isfinite(loss):
            raise NonFiniteLossError(
                f"the loss is {loss} in epoch {epoch + 1} of {plan.epochs}. A smaller "
                f"learning_rate than {plan.learning_rate} may help, or a mean and std that scale "
                "the input."
            )
        self.history["train_loss"].append(loss)
        self.history["learning_rate"].append(rate)

    def _step(self, part, generator):
        """Take a gradient step on one batch; return its mean loss."""
        inputs, codes = self._batch(part, generator)
        self.optimizer.zero_grad()
        with self.arithmetic.autocast():
            scores = self.model(self.arithmetic.arrange(inputs))
            loss = nn.functional.cross_entropy(
                scores, codes, label_smoothing=self.plan.label_smoothing
            )
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def validate(self):
        """Evaluate the model on the held-out samples, if any; store the best weights."""
        if not len(self.held_out):
            return
        self.model.eval()
        loss, n_right = 0.0, 0
        with torch.no_grad(), self.arithmetic.autocast():
            for part in batches(self.held_out, self.plan.train_batch_size):
                inputs, codes = self._batch(part)
                scores = self.model(self.arithmetic.arrange(inputs))
                loss += nn.functional.cross_entropy(scores, codes, reduction="sum").item()
                n_right += (scores.argmax(dim=1) == codes).sum().item()
        loss, accuracy = loss / len(self.held_out), n_right / len(self.held_out)
        self.history["validation_loss"].append(loss)
        self.history["validation_accuracy"].append(accuracy)
        if self.best is None or (accuracy, -loss) > (self.best["accuracy"], -self.best["loss"]):
            weights = {k: v.cpu().clone() for k, v in self.model.backbone.state_dict().items()}
            self.best = {
                "n_epochs": self.n_epochs,
                "accuracy": accuracy,
                "loss": loss,
                "weights": weights,
            }

    def _batch(self, part, generator=None):
        """Return the inputs of some samples, augmented by a generator, and their classes' codes."""
        how, augment = self.arithmetic, self.plan.augment if generator is not None else None
        change = partial(augmented, augment, generator=generator)
        if isinstance(augment, ImageTransform):
            return self.samples.batch(part, how.device, how.dtype, change)
        inputs, codes = self.samples.batch(part, how.device, how.dtype)
        return change(inputs), codes

    def last_epoch(self):
        """Return a line that describes the last epoch."""
        last = {name: values[-1] for name, values in self.history.items()}
        numbers = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in last.items())
        return f"epoch {self.n_epochs} of {self.plan.epochs}: {numbers}"

    def state(self):
        """Return everything that the next epoch depends on, except the seed."""
        return {
            "weights": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict()["state"],
            "history": self.history,
            "best": self.best,
        }

    def restore(self, path, state):
        """Continue from the state of another run; raise `ValueError` if it does not fit."""
        trained = self.optimizer.param_groups[0]["params"]
        weights = self.model.backbone.state_dict()
        best = {"n_epochs": 1, "accuracy": 0.0, "loss": 0.0, "weights": weights}
        like = {
            "weights": self.model.state_dict(),
            "optimizer": {i: self._slots(one) for i, one in enumerate(trained)},
            "history": {name: [0.0] for name in self.history},
            "best": best if len(self.held_out) else None,
        }
        check_state(path, state, like)
        self.model.load_state_dict(state["weights"])
        # The plan determines the parameter groups.
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state["optimizer"]})
        self.history, self.best = state["history"], state["best"]

    def _slots(self, parameter):
        """Return what the optimizer keeps for a parameter after a step, with other numbers."""
        if self.plan.optimizer == "sgd":
            return {"momentum_buffer": parameter if self.plan.momentum else None}
        return {"step": torch.zeros(()), "exp_avg": parameter, "exp_avg_sq": parameter}

    def keep_best(self):
        """Load the best weights into the backbone; return the number of epochs that led to them."""
        if self.best is None:
            return self.n_epochs
        self.model.backbone.load_state_dict(self.best["weights"])
        return self.best["n_epochs"]


def learning_rate(schedule, peak, step, n_steps):
    """Return the learning rate of one step, counted from 0, of `n_steps` steps.

    ``"cosine"`` falls from `peak` to zero along half a cosine (Loshchilov and Hutter, SGDR, 2017).
    ``"one-cycle"`` rises linearly from a 25th of `peak` over the first 30 % of the steps and then
    falls like ``"cosine"`` (Smith and Topin, Super-Convergence, 2019); the momentum stays.
    """
    if schedule == "constant":
        return peak
    warm_up = 0.3 * n_steps if schedule == "one-cycle" else 0.0
    if step < warm_up:
        return peak * (0.04 + 0.96 * step / warm_up)
    return peak * 0.5 * (1.0 + cos(pi * (step - warm_up) / (n_steps - warm_up)))


def _optimizer(model, plan):
    """Create the optimizer of a plan; the learning rate is set at each step."""
    wanted = [one for one in model.parameters() if one.requires_grad]
    if plan.optimizer == "sgd":
        return torch.optim.SGD(
            wanted, lr=plan.learning_rate, momentum=plan.momentum, weight_decay=plan.weight_decay
        )
    return torch.optim.AdamW(wanted, lr=plan.learning_rate, weight_decay=plan.weight_decay)


def _check_trainable(backbone, plan):
    """Raise if a backbone cannot be trained with this plan."""
    if not any(one.requires_grad for one in backbone.parameters()):
        raise ValueError(
            f"epochs={plan.epochs} needs a backbone with parameters that require a gradient; "
            "it has none."
        )
    normalised = any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in backbone.modules())
    if plan.train_batch_size == 1 and normalised:
        raise ValueError(
            "train_batch_size must be at least 2 for a backbone with batch normalisation, which "
            "divides by the variance of the batch; got 1."
        )
