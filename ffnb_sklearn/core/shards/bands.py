r"""The band of a task whose samples are in shards: exactly, in two passes over them.

The rows of a band regress codes on the inputs [Eq. 6, Eq. 7]. All that the regression sees of
the samples is their second moment and the sum of each class, which add up over shards: the first
pass. Any samples with these sums give the same rows, so stand-ins are made of them,
:math:`\mu \pm \sqrt{r / W} f_j` of weight :math:`W / 2r` each, for the r rows :math:`f_j` of a
scatter of weight W. What a sample gives as if the rows had not been fitted to it needs the
regression and that sample alone: the second pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..device import as_array, as_tensor
from ..drafts import append_band, draft_bands
from ..features.bands import code_ridge, code_system, left_out
from ..features.feature_map import Band, FeatureMap
from ..features.nullspace import NullSpace
from ..model import Model, Task
from ..statistics import Array, ClassMoments, principal_rows

__all__ = ["ShardBand", "learn_band", "only_inputs", "pooled", "with_past_of"]


@dataclass(frozen=True)
class ShardBand:
    """A band, and what is needed to tell how samples respond that it was not fitted to.

    Attributes
    ----------
    band : Band
        Of the first layer.
    kept : ndarray of shape (p, d)
        Axes kept for the past.
    moment : ndarray of shape (r, d)
        Rows of the moment that the regression inverted, in the axes left; none if the band was
        drawn at random.
    ridge : float
        Its ridge.
    """

    band: Band
    kept: Array
    moment: Array
    ridge: float

    def outputs(self, X: torch.Tensor, codes: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Outputs for samples of the task, as if each had been left out of the regression.

        Parameters
        ----------
        X : Tensor of shape (n_samples, d)
            psi_0.
        codes : Tensor of shape (n_samples, n_neurons)
            Their codes.
        weights : Tensor of shape (n_samples,)
            Sample weights.

        Returns
        -------
        Tensor of shape (n_samples, n_neurons)
            As `ffnb_sklearn.core.features.bands.left_out` gives them.
        """
        responses = self.band.response(X)
        if len(self.moment):
            moment = as_tensor(self.moment, device=X.device)
            system = code_system(moment, as_tensor(self.ridge, device=X.device))
            open_part = NullSpace(as_tensor(self.kept, device=X.device)).project(X)
            responses = left_out(system, open_part, responses, codes, weights)
        return self.band.output(responses)


def only_inputs(model: Model) -> Model:
    """A model that measures psi_0 alone."""
    features = model.features
    inputs = FeatureMap(features.n_inputs, features.shared.without_neurons())
    return replace(model, features=inputs)


def pooled(moments: Mapping[int, ClassMoments], *, device: torch.device) -> dict[int, ClassMoments]:
    """Moments of the same weights, means and sum of scatters, with few rows in all.

    Parameters
    ----------
    moments : mapping to ClassMoments
        Exact moments of some classes, by any key.
    device : torch.device
        Where to compute.

    Returns
    -------
    dict to ClassMoments
        The first class has the scatter of all, in at most as many rows as there are features.
    """
    factors = (as_tensor(one.factor, device=device) for one in moments.values())
    everything = as_array(principal_rows(*factors))
    bare = {key: replace(one, blocks=(everything[:0],)) for key, one in moments.items()}
    first = next(iter(bare))
    return {**bare, first: replace(bare[first], blocks=(everything,))}


def learn_band(
    model: Model, moments: Mapping[int, ClassMoments], *, device: torch.device
) -> tuple[Model, ShardBand]:
    """The model with the band of a task, from what its samples add up to.

    Parameters
    ----------
    model : Model
        What was learnt before, with the settings of the task.
    moments : mapping of int to ClassMoments
        Of the inputs, by number of class, as `pooled` gives them. New classes follow on from the
        last one of the model.
    device : torch.device
        Where to compute.

    Returns
    -------
    model : Model
        Its classifier does not see the band yet.
    band : ShardBand
        The band.

    Raises
    ------
    ValueError
        If `p` leaves no axis for new neurons.
    """
    settings, task = model.settings, _stand_ins(moments, device)
    (draft,) = draft_bands(model, task)
    band = Band(1, as_array(draft.rows), settings.activation, scale=draft.scale)
    ridge, moment = 1.0, task.X[:0]
    if settings.init != "random":
        past = as_tensor(model.past[0], device=device)[: None if settings.init == "multi" else 0]
        moment = principal_rows(torch.cat([past, task.X * task.weights.sqrt()[:, None]]))
        ridge = float(code_ridge(settings.gamma, moment.square().sum(), moment.shape[1]))
    kept = as_array(draft.open_axes.kept)
    dims = (*model.null_space_dims, (draft.open_axes.n_residual,))
    extended = replace(append_band(model, band, device), kept_axes=(kept,), null_space_dims=dims)
    open_part = as_array(draft.open_axes.project(moment))
    return extended, ShardBand(band, kept, open_part, ridge)


def with_past_of(
    model: Model, moments: Mapping[int, ClassMoments], *, device: torch.device
) -> Model:
    """The model with a task's samples taken into the past of psi_0.

    Parameters
    ----------
    model : Model
        Any model with trained bands in a single layer.
    moments : mapping of int to ClassMoments
        Of the task's inputs, as `pooled` gives them.
    device : torch.device
        Where to compute.

    Returns
    -------
    Model
        Nothing else has changed.
    """
    means = [np.sqrt(one.weight) * one.mean[None] for one in moments.values()]
    rows = [model.past[0], *means, *(one.factor for one in moments.values())]
    past = principal_rows(as_tensor(np.concatenate(rows), device=device))
    return replace(model, past=(as_array(past),))


def _stand_ins(moments: Mapping[int, ClassMoments], device: torch.device) -> Task:
    """Few samples with the second moment, and the sums of the classes, of the true ones."""
    X, classes, weights = [], [], []
    for number, one in moments.items():
        shifts = one.factor * np.sqrt(one.rank / one.weight)
        points = np.concatenate([one.mean + shifts, one.mean - shifts])
        if not len(points):
            points = one.mean[None]
        X.append(points)
        classes += [number] * len(points)
        weights += [one.weight / len(points)] * len(points)
    return Task(
        as_tensor(np.concatenate(X), device=device),
        as_tensor(classes, device=device, dtype=torch.int64),
        as_tensor(weights, device=device),
    )
