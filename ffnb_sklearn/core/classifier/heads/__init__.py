"""The heads: distances to Gaussians, pairs of classes, ridge regression.

Each is solved from `ffnb_sklearn.core.classifier.gaussians.ClassGaussians`, and offers what
`ffnb_sklearn.core.classifier.heads.interface.Head` lists.
"""

from .distances import GaussianDistances
from .interface import Head
from .pairs import PairwiseFisher
from .ridge import OneVsAllRidge

__all__ = ["Head", "head_named"]


def head_named(classifier: str) -> type[Head]:
    """Return the head of a value of the parameter `classifier`."""
    heads: dict[str, type[Head]] = {
        "gaussian": GaussianDistances,
        "ovo": PairwiseFisher,
        "ova": OneVsAllRidge,
    }
    return heads[classifier]
