"""The heads: distances to Gaussians, pairs of classes, ridge regression.

Each is solved from `ffnb_sklearn.core.gaussians.ClassGaussians`, and offers what
`ffnb_sklearn.core.heads.interface.Head` lists.
"""

from .distances import GaussianDistances
from .interface import Head
from .pairs import PairwiseFisher
from .ridge import OneVsAllRidge

__all__ = ["HEADS", "Head"]

# All heads, by the values of the parameter `classifier`.
HEADS: dict[str, type[Head]] = {
    "gaussian": GaussianDistances,
    "ovo": PairwiseFisher,
    "ova": OneVsAllRidge,
}
