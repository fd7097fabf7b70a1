"""`partial_fit` as a map-reduce: each worker learns its shards, and the results are merged.

dask runs the graph on a `dask.distributed` cluster if a client is active, and otherwise in the
threads of this process. dask is imported only when it is used.
"""

from copy import copy
from dataclasses import replace
from functools import reduce

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import _num_samples

from .._base.priors import check_priors
from .._base.transactions import exclusive
from .._base.validation import check_samples
from .._inputs.columns import ColumnSpreads
from .._inputs.labels import check_labels, label_positions
from ..classifier import FFNBClassifier
from ..core.class_moments import merge
from ..core.device import resolve_device
from ..core.model import Model
from ..core.revision import merge_models
from ._shards import import_dask, list_of_shards

__all__ = ["partial_fit_shards"]

# Number of results that one step of the reduction merges.
_FAN_IN = 4

# Seconds between two looks at a cluster that has not finished. Lost workers are often replaced, so
# only a cluster that has no workers at two looks in succession is given up.
_PATIENCE = 30.0

_NOTHING = (
    "X must hold at least one sample, and sample_weight a positive weight; all shards are empty or "
    "have weights of 0 alone."
)


def partial_fit_shards(estimator, X, y=None, *, classes=None, sample_weight=None):
    """Learn one more task from samples that are distributed over a dask cluster.

    The workers compute the exact moments of the classes of each shard, merge them in a tree,
    truncate them to `rank` once, and send them to the caller. The result is that of one
    `partial_fit` on all shards together, up to rounding, except that no samples are left out with
    ``novelty=True``.

    Parameters
    ----------
    estimator : FFNBClassifier
        Estimator to train, new or already fitted, with ``band_size=0``, the default.
    X : dask array of shape (n_samples, n_features), or list of shards
        Samples. A shard is a delayed object or a future that gives ``(X, y)`` or
        ``(X, y, sample_weight)``, or a tuple of two or three delayed objects that give these.
        With ``scale=True`` a first task takes two passes: persist the shards.
    y : dask array of shape (n_samples,), default=None
        Labels of the samples, if X is a dask array.
    classes : array-like of shape (n_labels,), default=None
        Labels expected later, as in `FFNBClassifier.partial_fit`.
    sample_weight : dask array of shape (n_samples,), default=None
        Weights of the samples, if X is a dask array. None gives all samples the weight 1.

    Returns
    -------
    estimator : FFNBClassifier
        The same estimator. If an error is raised, the estimator does not change.

    Raises
    ------
    ImportError
        If dask is not installed.
    TypeError
        If `estimator`, `X` or a shard has another type.
    ValueError
        If `band_size` is positive, because trained bands are fitted to all samples of a task at
        once, or if `FFNBClassifier.partial_fit` would raise this error.
    ConcurrentLearningError
        If another call is changing the estimator.
    RuntimeError
        If the cluster has no workers for a while.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_digits
    >>> from ffnb_sklearn import FFNBClassifier
    >>> from ffnb_sklearn.distributed import partial_fit_shards
    >>> X, y = load_digits(return_X_y=True)
    >>> shards = da.from_array(X[:900], chunks=(300, 64)), da.from_array(y[:900], chunks=300)
    >>> clf = FFNBClassifier(shared_band_size=200, random_state=0)
    >>> partial_fit_shards(clf, *shards).score(X[900:], y[900:]) > 0.9
    True
    """
    import_dask()
    if not isinstance(estimator, FFNBClassifier):
        raise TypeError(f"estimator must be an FFNBClassifier; got {type(estimator).__name__}.")
    _learn(estimator, list_of_shards(X, y, sample_weight), classes)
    return estimator


@exclusive
def _learn(estimator, shards, classes):
    """Validate the parameters, learn all shards, and store the result."""
    estimator._validate_params()
    if estimator.band_size:
        raise ValueError(
            "partial_fit_shards trains no bands, which need all samples of a task at once; got "
            f"band_size={estimator.band_size!r}. Use FFNBClassifier(band_size=0), or "
            "partial_fit."
        )
    state = _learned_by_all(estimator, shards, classes)
    estimator._keep(state, is_first=estimator._state is None)


def _learned_by_all(estimator, shards, classes):
    """Return the state of an estimator after learning all shards."""
    start = estimator._state
    if start is None:
        start = _first_state(estimator, shards)
    if estimator.scale and start.repair is None:
        start = _standardised_state(estimator, start, shards)
    model, settings = estimator._begun(start)
    model = replace(model, settings=settings, loss_curve=())
    blank = _blank(estimator, start, model)
    found = _map_reduce((blank, settings.rank), shards, _learned, _merged, _truncated)
    if found is None or found.arrived is None:
        raise ValueError(_NOTHING)
    positions, arrived = label_positions(found.arrived, start.arrived)
    check_priors(estimator.priors, arrived)
    if classes is not None:
        classes = check_labels(classes, arrived, "classes")
    device = resolve_device(estimator.device)
    model = merge_models(model, found.model, positions.tolist(), device=device)
    estimator._warn_of_columns(start, model)
    return start.after_task(model, arrived).declaring(found.classes).declaring(classes)


def _first_state(estimator, shards):
    """Return a state of the features and labels of the first shard with samples."""
    dask, blank = import_dask(), clone(estimator)
    for number, shard in enumerate(shards):
        # The shard is needed again, and would be computed again.
        (shards[number],) = dask.persist(shard)
        described = dask.delayed(_of_shard, pure=False)(_described, (blank, None), shards[number])
        description = _computed(described)
        if description is not None:
            state, labels, _ = description
            # The labels of all other shards must be of their kind.
            return state.declaring(labels)
    raise ValueError(_NOTHING)


def _standardised_state(estimator, state, shards):
    """Return a state that standardises the columns by the spreads of all shards."""
    blank = clone(estimator)
    blank._state = state
    description = _map_reduce((blank, state), shards, _described, _merged_descriptions)
    if description is None:
        raise ValueError(_NOTHING)
    _, labels, spreads = description
    return estimator._standardised(state, spreads, labels)


def _blank(estimator, state, model):
    """Return an estimator with the features of a model and no class, for the workers.

    It keeps exact moments, but for wide sparse samples four times the axes of the union.
    """
    keeps_sparse = state.projection is not None and state.projection.keeps_sparse
    rank = 4 * model.settings.rank if keeps_sparse and model.settings.rank else None
    blank = clone(estimator).set_params(
        rank=rank, novelty=False, priors="uniform", random_state=None, verbose=False
    )
    model = Model(model.settings, model.seed, model.features)
    blank._state = replace(state, model=model, task_classes=())
    return blank


def _map_reduce(plan, shards, of_shard, merged, whole=None):
    """Compute the results of all shards, and merge them in a tree; the functions take the plan."""
    dask = import_dask()
    # The shared band is part of the graph, so that it cannot be lost with a worker.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
        plan = dask.delayed(plan, pure=False, traverse=False)
        leaves = [dask.delayed(_of_shard, pure=False)(of_shard, plan, shard) for shard in shards]
        # Keep the leaves until the end, so that a lost worker costs only the shards it worked on.
        level = leaves = dask.persist(*leaves)
        while len(level) > _FAN_IN:
            groups = [level[start : start + _FAN_IN] for start in range(0, len(level), _FAN_IN)]
            level = [dask.delayed(_of_some, pure=False)(merged, plan, list(one)) for one in groups]
        return _computed(dask.delayed(_of_some, pure=False)(whole or merged, plan, list(level)))


def _computed(delayed):
    """Compute a delayed object; raise if the cluster has no workers for a while."""
    # The scheduler is a function, or a method of the client of a cluster.
    client = getattr(import_dask().base.get_scheduler(collections=[delayed]), "__self__", None)
    if not hasattr(client, "scheduler_info"):
        return delayed.compute()
    from distributed import wait

    future, n_empty = client.compute(delayed), 0
    while n_empty < 2:
        try:
            wait(future, timeout=_PATIENCE)
        except TimeoutError:
            n_empty = 0 if client.scheduler_info()["workers"] else n_empty + 1
        else:
            return future.result()
    future.cancel()
    raise RuntimeError(
        f"The dask cluster has no workers: the scheduler {client.scheduler.address} has had none "
        f"for at least {_PATIENCE:g} seconds, so the shards cannot be learned. Start workers, "
        "wait for them with client.wait_for_workers(1), and repeat the call."
    )


# ---- the tasks of the workers, whose plan is an estimator and a parameter


def _of_some(merged, plan, parts):
    """Merge the results of the shards that have any; None if there are none."""
    found = [part for part in parts if part is not None]
    return merged(plan, found) if found else None


def _of_shard(function, plan, shard):
    """Return a function of the plan and the parts of a shard; None without a sample."""
    is_sequence = isinstance(shard, (list, tuple))
    if not is_sequence or len(shard) not in (2, 3):
        size = f" of {len(shard)}" if is_sequence else ""
        raise TypeError(
            f"a shard must be (X, y) or (X, y, sample_weight); got {type(shard).__name__}{size}."
        )
    X, y, weights = (*shard, None)[:3]
    return None if _num_samples(X) == 0 else function(plan, X, y, weights)


def _described(plan, X, y, weights):
    """Return a state of the features of a shard, its labels, and the spreads of its columns.

    Return None if all weights are 0.
    """
    if _have_no_weight(weights):
        return None
    X, y, _, weights, state = check_samples(
        plan[0], X, y, classes=None, sample_weight=weights, state=plan[1]
    )
    return state, np.unique(y), ColumnSpreads.of(X, weights)


def _have_no_weight(weights):
    """Return whether the samples of a shard have weights of 0 alone."""
    return weights is not None and not np.any(weights)


def _merged_descriptions(plan, parts):
    """Return a state, the labels and the spreads of several groups of shards."""
    states, labels, spreads = zip(*parts, strict=True)
    return states[0], np.unique(np.concatenate(labels)), ColumnSpreads.merged(spreads)


def _learned(plan, X, y, weights):
    """Return the state after a shard alone; a shard with weights of 0 alone declares its labels."""
    if _have_no_weight(weights):
        state = plan[0]._state
        # scikit-learn refuses weights that are all 0.
        _, y, *_ = check_samples(plan[0], X, y, classes=None, sample_weight=None, state=state)
        return state.declaring(y)
    return copy(plan[0]).partial_fit(X, y, sample_weight=weights)._state


def _merged(plan, states):
    """Merge the states of several groups of shards."""
    # Shards may hold equal samples, so classes may have equal moments.
    learned = [state for state in states if state.task_classes]
    whole = reduce(plan[0]._merged, learned) if learned else states[0]
    for state in states:
        whole = whole.declaring(state.classes)
    return whole


def _truncated(plan, states):
    """Return the state of all shards for the caller, truncated to the rank."""
    state = _merged(plan, states)
    device, pairs = resolve_device(plan[0].device), state.model.features.shared.pairs()
    moments = tuple(
        merge([one], plan[1], device=device, pairs=pairs) for one in state.model.moments
    )
    return replace(state, model=replace(state.model, moments=moments))
