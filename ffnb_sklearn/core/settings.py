"""The estimator's parameters as the core takes them."""

from dataclasses import dataclass, field

__all__ = ["Descent", "Settings"]


@dataclass(frozen=True)
class Descent:
    """How parameters are trained by gradients; not at all with ``max_epochs=0``."""

    max_epochs: int = 0
    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch_size: int = 50


@dataclass(frozen=True)
class Settings:
    """What the estimator's parameters come to; their meaning is documented there.

    `p` has one entry per layer, and so settles the number of layers. A shrinkage or a ridge of
    None is left to `ffnb_sklearn.core.classifier.selection.choose`.
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
    rank: int | None
    classifier: str
    old_statistics: str
    batch_norm: bool = False
    shortlist: int | None = None
    chunk_size: int = 4096
    descent: Descent = field(default_factory=Descent)
