"""The parameters that every estimator has, in the form of the core, and the chosen values."""

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Settings:
    """Values of the parameters of features and classifier; the estimators explain them.

    A shrinkage or ridge of None is estimated. `units` and `half_bias` belong to the published
    model: an epsilon in "absolute" units is the ridge of a pair of classes, and without
    `half_bias` the thresholds of pairs have the bias printed in the paper.
    """

    shared_band_size: int
    shrinkage: float | None
    epsilon: float | None
    rank: int | Literal["auto"] | None
    classifier: str
    scale: bool | Literal["auto"]
    chunk_size: int
    refresh: float
    novelty: bool
    skip_connection: bool = True
    covariance: str = "class"
    units: str = "relative"
    half_bias: bool = True


class Choice(NamedTuple):
    """Values that a head is solved with.

    Attributes
    ----------
    input_energy : float or None
        Energy of the inputs as a multiple of the shared band's, or None if both have no penalties.
    shrinkage : float
        rho.
    epsilon : float
        Ridge relative to the mean variance within classes.
    candidate : {"given", "pooled", "densities"}
        The winner, or "given" if nothing was open. With "densities" the inputs count alone.
    temperature : float
        Divisor of scores that makes them logits, of least left-out cross-entropy.
    """

    input_energy: float | None
    shrinkage: float
    epsilon: float
    candidate: Literal["given", "pooled", "densities"] = "given"
    temperature: float = 1.0
