"""The parameters of trained bands in the form of the core."""

from dataclasses import dataclass


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
class BandSettings:
    """Values of the parameters of trained bands; `FFNBClassifier` and `Bands` explain them.

    `p` has one entry per layer.
    """

    p: tuple[int | float, ...]
    band_size: int
    activation: str
    init: str
    gamma: float
    null_space: bool
    old_statistics: str
    batch_norm: bool
    left_out: bool
    descent: Descent

    @property
    def sees_past(self) -> bool:
        """Whether new bands depend on the second moment of previous samples."""
        return self.null_space or self.init == "multi"
