"""The estimator's parameters in the form of the core."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Descent:
    """Settings of a gradient descent; ``max_epochs=0`` skips it.

    With a `patience` of None, as in Algorithm 2, all epochs run.
    """

    max_epochs: int
    learning_rate: float
    momentum: float
    weight_decay: float
    batch_size: int
    adaptive_rate: bool
    patience: int | None = None


@dataclass(frozen=True)
class Settings:
    """Values of the estimator's parameters; its docstring explains them.

    `p` has one entry per layer. A shrinkage or ridge of None is estimated.
    """

    p: tuple[int | float, ...]
    band_size: int
    shared_band_size: int
    skip_connection: bool
    activation: str
    init: str
    gamma: float
    null_space: bool
    covariance: str
    shrinkage: float | None
    epsilon: float | None
    rank: int | Literal["auto"] | None
    classifier: str
    old_statistics: str
    scale: bool
    batch_norm: bool
    chunk_size: int
    refresh: float
    units: str
    half_bias: bool
    left_out: bool
    novelty: bool
    descent: Descent

    @property
    def sees_past(self) -> bool:
        """Whether new bands depend on the second moment of previous samples."""
        return self.null_space or self.init == "multi"
