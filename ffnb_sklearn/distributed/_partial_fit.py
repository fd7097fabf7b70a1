"""`partial_fit` as a map-reduce: each worker learns its shards, and the results are merged."""

from dataclasses import replace

from numpy.typing import ArrayLike

from .._base.priors import check_priors
from .._base.task_learning import (
    may_standardise,
    prepare_model,
    standardise_columns,
    warn_of_new_columns,
)
from .._inputs.labels import check_labels, label_positions
from .._inputs.locks import exclusive
from ..classifiers import IncrementalDiscriminantAnalysis
from ..core.device import resolve_device
from ..core.merge_and_forget import merge_models
from ..core.model import Model
from ..core.moments import most_axes
from ._jobs import DescribeShards, LearnShards
from ._map_reduce import map_reduce
from ._shards import import_dask, list_of_shards

__all__ = ["partial_fit_shards"]

_NO_SAMPLES = (
    "X must hold at least one sample, and sample_weight a positive weight; all shards are empty or "
    "have weights of 0 alone."
)


def partial_fit_shards(
    estimator: IncrementalDiscriminantAnalysis,
    X: object,
    y: object = None,
    *,
    classes: ArrayLike | None = None,
    sample_weight: object = None,
) -> IncrementalDiscriminantAnalysis:
    """Learn one more task from samples that are distributed over a dask cluster.

    The workers compute the exact moments of the classes of each shard, merge them in a tree,
    truncate them to `rank` once, and send them to the caller. The result is that of one
    `partial_fit` on all shards together, up to rounding. As the only exception, no samples are left
    out with ``novelty=True``.

    Parameters
    ----------
    estimator : IncrementalDiscriminantAnalysis
        Estimator to train, new or already fitted.
    X : dask array of shape (n_samples, n_features), or list of shards
        Samples. A shard is a delayed object or a future that returns ``(X, y)`` or
        ``(X, y, sample_weight)``, or a tuple of two or three delayed objects that return these
        arrays. With ``scale=True`` or "auto", the first task reads the shards twice: persist them.
    y : dask array of shape (n_samples,), default=None
        Labels of the samples, if X is a dask array.
    classes : array-like of shape (n_labels,), default=None
        Labels expected in later calls, as in `IncrementalDiscriminantAnalysis.partial_fit`.
    sample_weight : dask array of shape (n_samples,), default=None
        Weights of the samples, if X is a dask array. None gives all samples the weight 1.

    Returns
    -------
    estimator : IncrementalDiscriminantAnalysis
        The same estimator. If an error is raised, the estimator does not change.

    Raises
    ------
    ImportError
        If dask is not installed.
    TypeError
        If `estimator`, `X` or a shard has another type.
    ValueError
        If `IncrementalDiscriminantAnalysis.partial_fit` would raise this error.
    ConcurrentLearningError
        If another call is changing the estimator.
    RuntimeError
        If the cluster has no workers for a while.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_digits
    >>> from ffnb_sklearn import IncrementalDiscriminantAnalysis
    >>> from ffnb_sklearn.distributed import partial_fit_shards
    >>> X, y = load_digits(return_X_y=True)
    >>> shards = da.from_array(X[:900], chunks=(300, 64)), da.from_array(y[:900], chunks=300)
    >>> clf = IncrementalDiscriminantAnalysis(shared_band_size=200, random_state=0)
    >>> partial_fit_shards(clf, *shards).score(X[900:], y[900:]) > 0.9
    True
    """
    import_dask()
    if not isinstance(estimator, IncrementalDiscriminantAnalysis):
        raise TypeError(
            f"estimator must be an IncrementalDiscriminantAnalysis; got {type(estimator).__name__}."
        )
    _learn(estimator, list_of_shards(X, y, sample_weight), classes)
    return estimator


@exclusive
def _learn(estimator, shards, classes):
    """Validate the parameters, learn all shards, and store the result."""
    estimator._validate_params()
    is_first = estimator._state is None
    state = _state_after_shards(estimator, shards, classes)
    estimator._keep(state, is_first=is_first)


def _state_after_shards(estimator, shards, classes):
    """Return the state of an estimator after a task in shards."""
    state = estimator._state
    if state is None:
        state = _first_state(estimator, shards)
    if may_standardise(estimator, state):
        state = _standardised_state(estimator, state, shards)
    model, settings = prepare_model(estimator, state)
    model = replace(model, settings=settings)

    job = LearnShards(_estimator_of_workers(estimator, state, model), most_axes(settings.rank))
    learned = map_reduce(job, shards)
    if learned is None or not learned.n_arrived:
        raise ValueError(_NO_SAMPLES)
    positions, arrived = label_positions(learned.arrived, state.arrived)
    check_priors(estimator.priors, arrived)
    if classes is not None:
        classes = check_labels(classes, arrived, "classes")

    device = resolve_device(estimator.device)
    model = merge_models(model, learned.model, positions.tolist(), device=device)
    warn_of_new_columns(estimator, state, model)
    state = state.after_task(model, arrived)
    state = state.declaring(learned.classes)
    return state.declaring(classes)


def _first_state(estimator, shards):
    """Return a state with the features and the labels of the first shard that has samples.

    This shard is persisted in the list, because it is needed again.
    """
    job = DescribeShards(estimator._clone_in_state(None))
    for index, shard in enumerate(shards):
        (shards[index],) = import_dask().persist(shard)
        description = map_reduce(job, [shards[index]])
        if description is not None:
            # The labels of all other shards must be of the same kind.
            return description.state.declaring(description.labels)
    raise ValueError(_NO_SAMPLES)


def _standardised_state(estimator, state, shards):
    """Return a state that standardises the columns by the spreads of all shards."""
    job = DescribeShards(estimator._clone_in_state(state), state)
    description = map_reduce(job, shards)
    if description is None:
        raise ValueError(_NO_SAMPLES)
    return standardise_columns(estimator, state, description.spreads, description.labels)


def _estimator_of_workers(estimator, state, model):
    """Return an estimator for the workers, with the features of a model and without classes.

    Its moments are exact, except for wide sparse samples, whose moments keep four times `rank`
    axes.
    """
    rank = None
    keeps_sparse = state.projection is not None and state.projection.keeps_sparse
    n_axes = most_axes(model.settings.rank)
    if keeps_sparse and n_axes is not None:
        rank = 4 * n_axes
    model = Model(model.settings, model.seed, model.features)
    scaling_labels = state.scaling_labels
    if scaling_labels is None:
        # A single shard must not decide on the standardisation of the columns.
        scaling_labels = ()
    state = replace(state, model=model, scaling_labels=scaling_labels, task_classes=())
    return estimator._clone_in_state(
        state, rank=rank, novelty=False, priors="uniform", random_state=None, verbose=False
    )
