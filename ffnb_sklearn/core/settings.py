"""The parameters that every estimator has, in the form of the core."""

from dataclasses import dataclass
from typing import Literal


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
