"""scikit-learn's validation of the arguments of functions, with types."""

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from sklearn.utils._param_validation import validate_params

__all__ = ["validate_arguments"]

_Function = TypeVar("_Function", bound=Callable[..., object])


def validate_arguments(
    constraints: Mapping[str, list[object]],
) -> Callable[[_Function], _Function]:
    """Return a decorator that raises if an argument of a function violates its constraints."""
    decorator = validate_params(constraints, prefer_skip_nested_validation=True)
    return cast(Callable[[_Function], _Function], decorator)
