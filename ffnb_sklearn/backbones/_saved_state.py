"""The state of a training in a checkpoint: its parts, and the checks before its use.

A forged file may hold anything, with a valid digest. Therefore the names, types, shapes and ranges
of the whole tree are compared with the training to resume. Forged weights of the right shape cannot
be detected.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["SavedState", "Shapes"]

# State of each optimizer per parameter: tensors shaped like the parameter, and counts of steps.
_LIKE_PARAMETER = {"sgd": {"momentum_buffer"}, "adamw": {"exp_avg", "exp_avg_sq"}}
_STEPS = {"sgd": set(), "adamw": {"step"}}

_ALWAYS = {"train_loss", "learning_rate"}
_VALIDATED = {"validation_loss", "validation_accuracy"}


@dataclass(frozen=True)
class Shapes:
    """Names, shapes and counts that a state must match.

    `trained` has the parameters in the order of the optimizer, `best` is the state dict of the
    backbone if samples are held out, and `n_steps` is the number of steps per epoch.
    """

    weights: dict
    trained: list
    optimizer: str
    best: dict | None
    n_epochs: int
    n_steps: int


@dataclass(frozen=True)
class SavedState:
    """The state after an epoch; the next epoch depends only on this state and the seed.

    The optimizer has a state for each parameter, by position.
    """

    weights: dict
    optimizer: dict
    history: dict
    best: Any

    @classmethod
    def checked(cls, path, state, shapes):
        """Return the state of a checkpoint; raise `ValueError` if any part does not match."""
        try:
            _require(_has_keys(state, set(cls.__annotations__)), "its parts")
            saved = cls(**state)
            _check_weights(saved.weights, shapes.weights)
            n_done = _check_history(saved.history, shapes)
            _check_optimizer(saved.optimizer, shapes, n_done * shapes.n_steps)
            _check_best(saved.best, shapes.best, saved.history)
        except _MisfitError as error:
            raise ValueError(
                f"checkpoint={str(path)!r} does not fit the training: {error}. Remove it to start "
                "over, or use another name."
            ) from None
        return saved


class _MisfitError(Exception):
    """A part of a state does not match the training."""


def _require(holds, part):
    if not holds:
        raise _MisfitError(f"{part} cannot be those of this training")


def _has_keys(value, keys):
    return isinstance(value, dict) and value.keys() == keys


def _is_like(value, tensor):
    """Return whether a value is a tensor with the shape and dtype of another tensor."""
    return (
        isinstance(value, torch.Tensor)
        and (value.layout, value.device.type) == (torch.strided, "cpu")
        and (value.shape, value.dtype) == (tensor.shape, tensor.dtype)
    )


def _is_list_of_numbers(values, length):
    return (
        type(values) is list and len(values) == length and all(type(one) is float for one in values)
    )


def _check_weights(weights, expected):
    _require(_has_keys(weights, expected.keys()), "the names of the weights")
    _require(all(_is_like(weights[name], one) for name, one in expected.items()), "the weights")


def _check_history(history, shapes):
    """Check the history of the training; return the number of completed epochs."""
    _require(_has_keys(history, _ALWAYS | _VALIDATED), "the names of the history")
    loss = history["train_loss"]
    n_done = len(loss) if isinstance(loss, list) else 0
    _require(1 <= n_done <= shapes.n_epochs, "the lengths of the history")
    for name, values in history.items():
        length = n_done if name in _ALWAYS or shapes.best is not None else 0
        _require(_is_list_of_numbers(values, length), "the lengths or types of the history")
    finite = all(math.isfinite(one) for name in _ALWAYS for one in history[name])
    shares = all(0 <= one <= 1 for one in history["validation_accuracy"])
    _require(finite and shares, "the numbers of the history")
    return n_done


def _check_optimizer(kept, shapes, n_steps):
    """Check the state of the optimizer; a parameter without a gradient so far has no entry."""
    positions = range(len(shapes.trained))
    named = isinstance(kept, dict) and all(type(one) is int and one in positions for one in kept)
    _require(named, "the parameters of the optimizer")
    like, steps = _LIKE_PARAMETER[shapes.optimizer], _STEPS[shapes.optimizer]
    for position, slots in kept.items():
        _require(_has_keys(slots, like | steps), "the parts of the optimizer")
        parameter = shapes.trained[position]
        # The buffer is None without momentum.
        fit = all(slots[name] is None or _is_like(slots[name], parameter) for name in like)
        fit = fit and (shapes.optimizer == "sgd" or all(slots[name] is not None for name in like))
        fit = fit and all(_is_number_of_steps(slots[name], n_steps) for name in steps)
        _require(fit, "the tensors of the optimizer")


def _is_number_of_steps(value, most):
    """Return whether a value is a scalar tensor with a valid number of steps."""
    return _is_like(value, torch.zeros(())) and value.item() in range(1, most + 1)


def _check_best(best, expected, history):
    """Check the best epoch against the history."""
    if expected is None:
        _require(best is None, "the best weights")
        return
    _require(_has_keys(best, {"n_epochs", "accuracy", "loss", "weights"}), "the best epoch")
    number = best["n_epochs"]
    done = type(number) is int and 1 <= number <= len(history["train_loss"])
    _require(done, "the best epoch")
    numbers = [best["accuracy"], best["loss"]]
    known = [history[name][number - 1] for name in ("validation_accuracy", "validation_loss")]
    # Compare texts, because the loss may be NaN, which does not equal itself.
    same = _is_list_of_numbers(numbers, 2) and repr(numbers) == repr(known)
    _require(same, "the numbers of the best epoch")
    _check_weights(best["weights"], expected)
