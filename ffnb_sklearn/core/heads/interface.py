"""The contract of a head: the methods of a classifier that the model and the estimator use."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import nn

from ..choice.pooled import SolvedMeans
from ..device import Array, as_array, as_tensor
from ..gaussians import ClassGaussians
from ..settings import Choice, Settings
from ..sparse import SparseRows

__all__ = ["NUMBERS_TOGETHER", "Head", "Rows"]

# Largest number of entries of a product of samples with the rows of some classes. Many small
# products take longer, especially on a GPU, and a single product needs too much memory.
NUMBERS_TOGETHER = 2**22

# Features of samples: a tensor of shape (n_samples, d), or wide sparse inputs.
Rows = torch.Tensor | SparseRows


class Head(ABC):
    """A classifier that follows from the Gaussians of C classes; it holds NumPy arrays alone.

    Attributes
    ----------
    planes, offsets : ndarray of shape (n_planes, d) and (n_planes,)
        The linear part.
    keeps_own : bool
        Whether a class keeps a part of its own covariance, so that its shrinkage is limited, and
        may be compared as a Gaussian in the inputs.
    fixed_ridge : float or None
        Relative ridge, if the head does not follow the chosen one.
    tuned_as : str
        Name of the head, linear in the features, whose hinge loss fine-tuning descends.
    """

    planes: Array
    offsets: Array

    keeps_own: ClassVar[bool] = False
    fixed_ridge: ClassVar[float | None] = None
    tuned_as: ClassVar[str]

    @classmethod
    def solve_means(
        cls, gaussians: ClassGaussians, choice: Choice, settings: Settings
    ) -> SolvedMeans | None:
        """Solve the class means, which give the temperature; None if the head needs none."""
        return None

    @classmethod
    @abstractmethod
    def from_gaussians(
        cls,
        gaussians: ClassGaussians,
        solved_means: SolvedMeans | None,
        choice: Choice,
        settings: Settings,
    ) -> "Head":
        """Solve the head.

        `gaussians`, whose rows may be overwritten, have the penalties. `solved_means` is the result
        of `solve_means`.
        """

    def update_classes(
        self, gaussians: Sequence[ClassGaussians], numbers: Sequence[int]
    ) -> "Head | None":
        """Return the head with some known classes solved again; None if it cannot.

        `gaussians` holds each class with one of the given numbers, over the features that count.
        """
        return None

    @staticmethod
    @abstractmethod
    def n_weights(n_features: int, n_classes: int, n_axes: int) -> int:
        """Return the number of weights, given the number of own axes of all classes."""

    @abstractmethod
    def scores(self, x: Rows) -> torch.Tensor:
        """Return the scores of samples, of shape (n_samples, C)."""

    def most_likely(self, x: Rows, order: torch.Tensor) -> torch.Tensor:
        """Return the class of the highest score of each sample, the first in `order` of equals."""
        return order[self.scores(x)[:, order].argmax(1)]

    def logits(self, scores: Array) -> Array:
        """Return the logarithms of the probabilities up to a constant, in the order of scores."""
        logits = self.logits_module()(as_tensor(scores))
        return as_array(logits)

    @abstractmethod
    def apply_priors(self, scores: Array, priors: Array) -> Array:
        """Return the scores for classes of these priors, of sum 1, instead of equal priors.

        Classes of prior 0 have no column.
        """

    @abstractmethod
    def scores_module(self, priors: Array) -> nn.Module:
        """Return the module that maps features to the scores for classes of these priors.

        Classes of prior 0 have no column.
        """

    @abstractmethod
    def logits_module(self) -> nn.Module:
        """Return the module that maps scores to `logits`."""

    def pooling(self) -> Array | None:
        """Return the matrix that turns the tanh of responses into scores.

        It is None if the responses of the planes are the scores.
        """
        return None
