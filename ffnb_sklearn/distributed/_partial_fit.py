"""`partial_fit` as a map-reduce over shards: the part that runs in the process of the caller.

dask runs the graph on a `dask.distributed` cluster if a client is active, and otherwise in the
threads of this process. dask is imported only when it is used.
"""

from dataclasses import replace
from time import perf_counter

import numpy as np
from sklearn.base import clone

from .._estimators.priors import check_priors
from .._estimators.settings import bands_of
from .._estimators.transactions import learning_lock
from .._inputs.labels import check_labels, label_positions
from ..classifier import FFNBClassifier
from ..core.device import resolve_device
from ..core.model import Model
from ..core.shards import learn_band, learn_moments, only_inputs, same_samples
from ._shards import import_dask, list_of_shards
from ._workers import (
    CHANGED,
    Plan,
    added,
    inputs_of,
    merged_spreads,
    spreads_of,
    statistics_of,
    whole,
)

__all__ = ["partial_fit_shards"]

# Number of statistics that one step of the reduction merges.
_FAN_IN = 4


def partial_fit_shards(estimator, X, y=None, *, classes=None, sample_weight=None):
    """Learn one more task from samples that are distributed over a dask cluster.

    The function is `FFNBClassifier.partial_fit` as a map-reduce. The workers compute the exact
    moments of the classes of each shard, sum them in a tree, truncate them to `rank` once, and send
    them to the caller, who solves the classifier at the first prediction. Samples are never sent to
    the caller. The result is that of one `partial_fit` on all shards together, up to rounding,
    except that no samples are left out with ``novelty=True``.

    Parameters
    ----------
    estimator : FFNBClassifier
        Estimator to train, new or already fitted.
    X : dask array of shape (n_samples, n_features), or list of shards
        Samples. A shard is a delayed object or a future that gives ``(X, y)`` or
        ``(X, y, sample_weight)``, or a tuple of two or three delayed objects that give these.
        A first task needs a pass of its own to decide the repair of columns (`scale`), and trained
        bands need one more pass; shards that are not persisted are computed in each pass.
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
        If the parameters require trained bands that need all samples of a task at once
        (``band_size > 1``, ``n_layers > 1``, fine-tuning or batch normalisation), if the shards
        change between two passes, or if `FFNBClassifier.partial_fit` would raise this error.
    ConcurrentLearningError
        If another call is changing the estimator.

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
    shards = list_of_shards(X, y, sample_weight)
    with learning_lock(estimator):
        estimator._validate_params()
        _check_bands(estimator)
        state = estimator._state
        estimator._keep(_learned(estimator, state, shards, classes), is_first=state is None)
    return estimator


def _check_bands(estimator):
    """Raise if trained bands cannot be computed from sums over samples."""
    if not estimator.band_size:
        return
    bands = bands_of(estimator)
    for name, value, needed in [
        ("band_size", estimator.band_size, 1),
        ("n_layers", estimator.n_layers, 1),
        ("bands__max_epochs", bands.max_epochs, 0),
        ("bands__batch_norm", bands.batch_norm, False),
    ]:
        if value != needed:
            raise ValueError(
                f"{name} must be {needed} to train bands from shards; got {value!r}. Use "
                "band_size=0, or partial_fit."
            )


def _learned(estimator, state, shards, classes):
    """Return the state after learning all shards, in one pass or, with bands, in two passes."""
    start, device = perf_counter(), resolve_device(estimator.device)
    if state is None:
        state = _first_state(estimator, shards)
        if estimator.scale:
            blank = _blank(estimator, state)
            spreads = _map_reduce(blank, shards, spreads_of, merged_spreads, merged_spreads)
            state = state if spreads is None else estimator._repaired(state, spreads)
    model, settings = estimator._begun(state)
    model = replace(model, settings=settings, loss_curve=())
    plan, sums = Plan(_blank(estimator, state), _light(model)), None
    if settings.band_size:
        sums = _map_reduce(replace(plan, model=only_inputs(plan.model), pooled=True), shards)
        moments, arrived, _ = _numbered(state, sums)
        check_priors(estimator.priors, arrived)
        if len(arrived) > len(model.moments):
            model, band = learn_band(model, moments, device=device)
            plan = replace(plan, model=_light(model), band=band, arrived=arrived)
    statistics = _map_reduce(plan, shards)
    if sums is not None and not _agree(sums, statistics):
        raise ValueError(CHANGED)
    moments, arrived, labels = _numbered(state, statistics)
    check_priors(estimator.priors, arrived)
    if classes is not None:
        classes = check_labels(classes, labels, "classes")
    model = learn_moments(model, moments, device=device)
    seconds = perf_counter() - start
    state = estimator._after_task(state, model, arrived, statistics.n_samples, seconds)
    # Labels that only samples of weight 0 have are declared, as in `partial_fit`.
    return state.declaring(labels).declaring(classes)


def _agree(first, second):
    """Return whether two passes saw the same numbers of samples, labels and moments."""
    return (
        first.n_samples == second.n_samples
        and len(first.labels) == len(second.labels)
        and all(map(np.array_equal, first.labels, second.labels))
        and same_samples(first.moments, second.moments)
    )


def _first_state(estimator, shards):
    """Return a state with the features of the first shard and no classes."""
    dask = import_dask()
    # The shard is needed again, and would be computed again.
    (shards[0],) = dask.persist(shards[0])
    return dask.delayed(inputs_of, pure=False)(clone(estimator), shards[0]).compute()


def _blank(estimator, state):
    """Return an estimator that validates samples like the given estimator, but has no model."""
    blank = clone(estimator)
    blank._state = replace(state, model=None)
    return blank


def _light(model):
    """Return a model with only the features and settings; the classes stay with the caller."""
    return Model(model.settings, model.seed, model.features)


def _map_reduce(plan, shards, of_shard=statistics_of, added=added, whole=whole):
    """Compute the statistics of all shards according to a plan; the functions take the plan."""
    dask = import_dask()
    # The shared band is part of the graph, so that it cannot be lost with a worker.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
        plan = dask.delayed(plan, pure=False, traverse=False)
        leaves = [dask.delayed(of_shard, pure=False)(plan, shard) for shard in shards]
        # Keep the leaves until the end, so that a lost worker costs only the shards it worked on.
        level = leaves = dask.persist(*leaves)
        while len(level) > _FAN_IN:
            groups = [level[start : start + _FAN_IN] for start in range(0, len(level), _FAN_IN)]
            level = [dask.delayed(added, pure=False)(plan, list(group)) for group in groups]
        return dask.delayed(whole, pure=False)(plan, list(level)).compute()


def _numbered(state, statistics):
    """Return the moments by class number, the labels in order of arrival, and all labels.

    The labels of all shards are checked together.
    """
    if not statistics.labels:
        raise ValueError("X must hold at least one sample; all of its shards are empty.")
    labels = state.classes
    for some in statistics.labels:
        some = check_labels(some, labels, "y")
        labels = np.union1d(some if labels is None else labels, some)
    if not statistics.moments:
        raise ValueError(
            "sample_weight must be positive for at least one sample; all weights are 0."
        )
    seen = labels[[label in statistics.moments for label in labels.tolist()]]
    positions, arrived = label_positions(seen, state.arrived)
    found = zip(positions.tolist(), seen.tolist(), strict=True)
    return {number: statistics.moments[label] for number, label in found}, arrived, labels
