"""What is known, and how one more task is learnt.

What a model says is never changed: every function returns a new one, so that whatever fails on
the way leaves the old one as it was. It only keeps the solution that was asked for. Classes are
numbered in the order of their arrival.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
import torch

from .classifier.solve import Solution, n_classifier_weights, solve
from .features.feature_map import FeatureMap, as_slice, classifier_columns
from .features.shared_band import draw_shared_band
from .settings import Settings
from .statistics import Array, ClassMoments, merge_classes, moments_of

__all__ = ["Model", "Settings", "Task", "empty_model", "updated_moments"]


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

    def weighted(self, rows: torch.Tensor) -> torch.Tensor:
        """What belongs to each sample, of shape (n_samples, d), times the root of its weight."""
        if bool((self.weights == 1.0).all()):
            return rows
        return rows * self.weights.sqrt()[:, None]


@dataclass(frozen=True)
class Model:
    """All that is learnt; the classifier follows from it.

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
    """

    settings: Settings
    seed: int
    features: FeatureMap
    moments: tuple[ClassMoments, ...] = ()
    past: tuple[Array, ...] = ()
    null_space_dims: tuple[tuple[int, ...], ...] = ()
    kept_axes: tuple[Array, ...] = ()
    loss_curve: tuple[float, ...] = ()

    def __deepcopy__(self, memo: dict[int, object]) -> "Model":
        """The model itself: it is never changed, so copies may share it."""
        return self

    @property
    def n_weights(self) -> int:
        """Number of weights in the bands and in the classifier, solved or not."""
        in_classifier = n_classifier_weights(self.features, self.moments, self.settings)
        return self.features.n_weights + in_classifier

    def __getstate__(self) -> dict[str, object]:
        """What is learnt, without what follows from it."""
        return {name: value for name, value in vars(self).items() if name != "_solution"}

    @property
    def is_solved(self) -> bool:
        """Whether the classifier has been asked for before."""
        return "_solution" in vars(self)

    def solution(self, device: torch.device) -> Solution:
        """The classifier that the moments imply, solved when it is first asked for.

        Parameters
        ----------
        device : torch.device
            Where to compute.

        Returns
        -------
        Solution
            The same one at every call; a stream of tasks does not pay for it after each.
        """
        kept: Solution | None = self.__dict__.get("_solution")
        if kept is None:
            # What the model says stays the same. Threads that ask at once may each solve it.
            kept = solve(self.features, self.moments, self.settings, device=device)
            self.__dict__["_solution"] = kept
        return kept

    def scores(self, X: torch.Tensor) -> torch.Tensor:
        """Class scores of some samples, of shape (n_samples, n_classes)."""
        classifier = self.solution(X.device).classifier
        # Small results kept among the features of the chunks would break up the heap.
        scores = X.new_empty((len(X), len(self.moments)), dtype=torch.float64)
        size = self.settings.chunk_size
        for part, x in zip(torch.split(scores, size), torch.split(X, size), strict=True):
            part[:] = classifier.scores(self.view(x.double()))
        return scores

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
    shared = draw_shared_band(
        settings.shared_band_size, n_inputs, mirrored=settings.skip_connection, rng=rng
    )
    widths = [n_inputs, *[0] * (len(settings.p) - 1)] if settings.band_size else []
    past = tuple(np.empty((0, width)) for width in widths)
    return Model(settings, seed, FeatureMap(n_inputs, shared), past=past)


def updated_moments(
    model: Model, task: Task, fresh: torch.Tensor | None = None
) -> tuple[ClassMoments, ...]:
    """Return the moments of all classes, including a task's samples.

    Parameters
    ----------
    model : Model
        Model with the bands of the task.
    task : Task
        Samples of new classes, of known ones, or both.
    fresh : Tensor of shape (n_samples, n) or None, default=None
        Values of the last n features, up to all of them; None computes all features.

    Returns
    -------
    tuple of ClassMoments
        New classes follow the known ones.
    """
    rank = model.settings.rank
    pieces = groupby(_class_pieces(model, task, fresh), key=itemgetter(0))
    new = ((label, moments_of((piece[1:] for piece in group), rank)) for label, group in pieces)
    return merge_classes(model.moments, new, rank, device=task.X.device)


def _class_pieces(
    model: Model, task: Task, fresh: torch.Tensor | None
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield features and weights of some samples of a class at a time, class by class."""
    order = torch.argsort(task.classes, stable=True).cpu()
    for part in torch.split(order, model.settings.chunk_size):
        # Samples in order of their classes are not copied.
        chunk = as_slice(part.numpy())
        classes = task.classes[chunk]
        if fresh is not None and fresh.shape[1] == model.features.n_features:
            values = fresh[chunk]
        else:
            values = model.features(task.X[chunk].double())
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
