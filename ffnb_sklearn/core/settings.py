"""The estimator's parameters in the form of the core."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Descent:
    """Settings of a gradient descent; ``max_epochs=0`` skips it.

    `n_folds`, `draws` and `standard_errors` belong to `ffnb_sklearn.core.tuning.finetune` alone.
    """

    max_epochs: int = 0
    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch_size: int = 50
    adaptive_rate: bool = True
    patience: int | None = 10
    n_folds: int = 4
    draws: bool = True
    standard_errors: float | None = 2.0


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
    scale: bool = False
    batch_norm: bool = False
    chunk_size: int = 4096
    units: str = "relative"
    half_bias: bool = True
    left_out: bool = True
    novelty: bool = False
    descent: Descent = field(default_factory=Descent)

    @property
    def sees_past(self) -> bool:
        """Whether new bands depend on the second moment of previous samples."""
        return self.null_space or self.init == "multi"
