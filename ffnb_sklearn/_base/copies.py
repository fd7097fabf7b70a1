"""Changes of an estimator that happen as a whole or not at all: learn in copies, then replace."""

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy, deepcopy
from typing import TypeVar

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .._inputs.locks import exclusive
from .._inputs.seeds import RandomState, advance_of

__all__ = ["learn_in_copies", "learn_in_draft", "replace_fitted"]

_Result = TypeVar("_Result")


def learn_in_copies(
    pipeline: Pipeline, changed: Iterable[object], call: Callable[[Pipeline], _Result]
) -> _Result:
    """Let a call change copies of some steps, then replace the steps of the pipeline at once.

    `call` takes a pipeline that has the copies; return its result. Frozen steps are not copied.
    The caller is `exclusive`.
    """
    copies = {}
    # The copies share the objects that the steps share.
    memo: dict[int, object] = {}
    for step in changed:
        if not isinstance(step, FrozenEstimator):
            # The copy shares the callbacks of the step, as a clone does.
            for callback in _callbacks_within(step):
                memo[id(callback)] = callback
            copies[id(step)] = _copy_of_step(step, memo)
    draft = copy(pipeline)
    draft.steps = [(name, copies.get(id(step), step)) for name, step in pipeline.steps]
    result = call(draft)
    pipeline.steps = draft.steps
    return result


def _callbacks_within(step: object) -> list[object]:
    """Return the callbacks of a step, and of the estimators among its parameters."""
    if not isinstance(step, BaseEstimator):
        return []
    callbacks: list[object] = []
    for value in [step, *step.get_params().values()]:
        if isinstance(value, BaseEstimator):
            callbacks += getattr(value, "_skl_callbacks", [])
    return callbacks


def _copy_of_step(step: object, memo: dict[int, object]) -> object:
    """Return a deep copy of a step; an error names the step that cannot be copied."""
    try:
        return deepcopy(step, memo)
    except TypeError as error:
        error.add_note(
            f"A call learns in copies of the steps. Wrap a fitted {type(step).__name__} that "
            "cannot be copied in sklearn.frozen.FrozenEstimator."
        )
        raise


@exclusive
def learn_in_draft(estimator: BaseEstimator, call: Callable[[BaseEstimator], object]) -> None:
    """Let a call change a copy of an estimator, then take all attributes of the copy at once.

    A shallow copy suffices: estimators of this package replace attributes and never change them.
    """
    draft = copy(estimator)
    call(draft)
    # No call may follow, because it could fail.
    estimator.__dict__ = vars(draft)


def replace_fitted(
    estimator: BaseEstimator,
    stale: Collection[str],
    learned: Mapping[str, object],
    *,
    random_state: RandomState = None,
) -> None:
    """Replace the attributes of an earlier fit, which `stale` names, all at once.

    A `random_state` that was used is advanced.
    """
    kept = {name: value for name, value in vars(estimator).items() if name not in stale}
    attributes = {**kept, **learned}
    advance = advance_of(random_state)
    # A single assignment: an interrupt leaves either the old attributes or the new attributes.
    estimator.__dict__ = attributes
    # No other call may follow, because it could fail or be interrupted.
    advance()
