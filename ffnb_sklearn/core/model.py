"""What is known, and how one more task is learnt.

A model is never changed: every function returns a new one, so that whatever fails on the way
leaves the old one as it was. Classes are numbered in the order of their arrival.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
import torch

from .descent import Descent
from .features import FeatureMap, draw_shared_band
from .fisher import PairwiseFisher, fit_pairwise
from .gaussians import ClassGaussians
from .one_vs_all import OneVsAllRidge, fit_one_vs_all
from .shortlist import ShortlistFisher
from .statistics import Array, ClassMoments, merge, moments_of
from .view import classifier_columns, classifier_view

__all__ = ["Model", "Settings", "Task", "empty_model", "solve", "updated_moments"]


@dataclass(frozen=True)
class Settings:
    """What the estimator's parameters come to; their meaning is documented there.

    `p` has one entry per layer, and so settles the number of layers.
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
    shrinkage: float
    epsilon: float
    rank: int | None
    classifier: str
    old_statistics: str
    batch_norm: bool = False
    shortlist: int | None = None
    chunk_size: int = 4096
    descent: Descent = field(default_factory=Descent)


@dataclass(frozen=True)
class Task:
    """Samples of one call.

    Attributes
    ----------
    X : Tensor of shape (n_samples, n_inputs)
        psi_0, float64 or float32.
    classes : Tensor of shape (n_samples,)
        Numbers of their classes; new ones follow on from the last class of the model.
    weights : Tensor of shape (n_samples,)
        Positive sample weights.
    """

    X: torch.Tensor
    classes: torch.Tensor
    weights: torch.Tensor


@dataclass(frozen=True)
class Model:
    """All that is kept.

    Attributes
    ----------
    settings : Settings
        The settings it was last brought up to date with.
    seed : int
        Seed of every random draw.
    features : FeatureMap
        Maps an input to all features.
    moments : tuple of ClassMoments
        One per class, over all features.
    past : tuple of ndarray of shape (r, d_l)
        For every layer that feeds bands, psi_0 first, principal rows of the second moment of
        its features over all samples seen; empty where there are no bands.
    null_space_dims : tuple of tuple of int
        Number of residual axes, per task that brought bands and per layer.
    kept_axes : tuple of ndarray of shape (p_l, d_(l-1))
        Per layer, the axes that were out of reach of its newest band; empty where no band is
        the newest, as in a model merged of two.
    loss_curve : tuple of float
        Loss after each epoch of fine-tuning for the last task.
    classifier : PairwiseFisher, ShortlistFisher, OneVsAllRidge or None
        Solved from the moments; None before the first task.
    """

    settings: Settings
    seed: int
    features: FeatureMap
    moments: tuple[ClassMoments, ...] = ()
    past: tuple[Array, ...] = ()
    null_space_dims: tuple[tuple[int, ...], ...] = ()
    kept_axes: tuple[Array, ...] = ()
    loss_curve: tuple[float, ...] = ()
    classifier: PairwiseFisher | ShortlistFisher | OneVsAllRidge | None = None

    def __deepcopy__(self, memo: dict[int, object]) -> "Model":
        """The model itself: it is never changed, so copies may share it."""
        return self

    @property
    def n_weights(self) -> int:
        """Number of weights in the bands and in the classifier."""
        return self.features.n_weights + (self.classifier.n_weights if self.classifier else 0)

    def scores(self, X: torch.Tensor) -> torch.Tensor:
        """Class scores of some samples, of shape (n_samples, n_classes)."""
        assert self.classifier is not None
        chunks = torch.split(X, self.settings.chunk_size)
        return torch.cat([self.classifier.scores(self.view(x.double())) for x in chunks])

    def view(self, X: torch.Tensor) -> torch.Tensor:
        """Features of some samples that the classifier sees, of shape (n_samples, d)."""
        columns = classifier_columns(self.features, self.settings.skip_connection)
        features = self.features(X)
        if len(columns) == self.features.n_features:
            return features
        return features[:, torch.as_tensor(columns, device=X.device)]


def empty_model(n_inputs: int, settings: Settings, seed: int) -> Model:
    """A model that knows no class yet; its shared band is drawn."""
    rng = np.random.default_rng([seed, 0])
    shared = draw_shared_band(settings.shared_band_size, n_inputs, rng)
    widths = [n_inputs, *[0] * (len(settings.p) - 1)] if settings.band_size else []
    past = tuple(np.empty((0, width)) for width in widths)
    return Model(settings, seed, FeatureMap(n_inputs, shared, settings.skip_connection), past=past)


def solve(model: Model, device: torch.device, known: PairwiseFisher | None = None) -> Model:
    """The model with the classifier that its moments imply.

    Parameters
    ----------
    model : Model
        Any model.
    device : torch.device
        Where to compute.
    known : PairwiseFisher or None, default=None
        Pairs of the first classes, whose moments and features have not changed since.

    Returns
    -------
    Model
        Without a classifier where there is no class.
    """
    if not model.moments:
        return replace(model, classifier=None)
    settings = model.settings
    view = classifier_view(
        model.features,
        model.moments,
        skip_connection=settings.skip_connection,
        pooled=settings.shrinkage > 0.0,
    )
    covariance, shrinkage, epsilon = settings.covariance, settings.shrinkage, settings.epsilon
    n_listed = settings.shortlist or len(model.moments)
    if settings.classifier == "ovo" and n_listed < len(model.moments):
        listed = ShortlistFisher(model.moments, view, covariance, shrinkage, epsilon, n_listed)
        listed.check(device)
        return replace(model, classifier=listed)
    gaussians = ClassGaussians.from_moments(model.moments, *view, device=device)
    if settings.classifier == "ova":
        return replace(model, classifier=fit_one_vs_all(gaussians, epsilon=epsilon))
    pairs = fit_pairwise(
        gaussians, covariance=covariance, shrinkage=shrinkage, epsilon=epsilon, known=known
    )
    return replace(model, classifier=pairs)


def updated_moments(
    model: Model, task: Task, fresh: torch.Tensor | None = None
) -> tuple[ClassMoments, ...]:
    """Moments of all classes, with a task's samples taken in.

    Parameters
    ----------
    model : Model
        Whose features already include the task's bands, and the moments of its classes too.
    task : Task
        Samples of new classes, of known ones, or both.
    fresh : Tensor of shape (n_samples, n_new_neurons) or None, default=None
        What to take for the outputs of the newest neurons; None takes what they give.

    Returns
    -------
    tuple of ClassMoments
        New classes behind the known ones.
    """
    moments, rank, device = list(model.moments), model.settings.rank, task.X.device
    pieces = groupby(_class_pieces(model, task, fresh), key=lambda piece: piece[0])
    for label, group in pieces:
        new = moments_of(((features, weights) for _, features, weights in group), rank)
        if label < len(model.moments):
            moments[label] = merge(moments[label], new, rank, device=device)
        else:
            moments.append(new)
    return tuple(moments)


def _class_pieces(
    model: Model, task: Task, fresh: torch.Tensor | None
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Features and weights of a task, class by class, some of the samples at a time."""
    order = torch.argsort(task.classes, stable=True)
    for chunk in torch.split(order, model.settings.chunk_size):
        values, classes = model.features(task.X[chunk].double()), task.classes[chunk]
        if fresh is not None:
            values[:, -fresh.shape[1] :] = fresh[chunk]
        labels, counts = torch.unique_consecutive(classes, return_counts=True)
        sizes = counts.tolist()
        pieces = zip(
            labels.tolist(),
            torch.split(values, sizes),
            torch.split(task.weights[chunk], sizes),
            strict=True,
        )
        yield from pieces
