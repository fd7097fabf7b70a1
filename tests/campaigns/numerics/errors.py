"""Relative errors of what the package computes, against the arithmetic of mpmath."""

from dataclasses import replace

import numpy as np
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.bands.bound import forgetting_bound, open_axes
from ffnb_sklearn.core.bands.trained import trained_of
from ffnb_sklearn.core.model import Task
from ffnb_sklearn.core.moments import merge, moments_of, subtract
from tests.campaigns.numerics.exact import (
    Classes,
    bound,
    likeliest_share,
    moments,
    relative_error,
)
from tests.core.small_models import CPU, SETTINGS, learnt

N_CLASSES, N_FEATURES, N_SAMPLES = 3, 4, 12
INPUTS = replace(SETTINGS, p=(2,), band_size=0, shared_band_size=0)
BANDS = replace(INPUTS, p=(1,), band_size=1, skip_connection=False)


def draw(offset=0.0, scale=1.0, seed=0):
    """Return weighted samples of three classes, the samples of each class, and new samples."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(N_CLASSES), N_SAMPLES)
    centres = 2.0 * rng.standard_normal((N_CLASSES, N_FEATURES))
    X = scale * (offset + centres[labels] + rng.standard_normal((len(labels), N_FEATURES)))
    weights = rng.uniform(0.5, 2.0, len(labels))
    parts = [(X[labels == one], weights[labels == one]) for one in range(N_CLASSES)]
    new = scale * (offset + 2.0 * rng.standard_normal((6, N_FEATURES)))
    return Task(*(torch.as_tensor(one) for one in (X, labels, weights))), parts, new


def model_errors(offset=0.0, scale=1.0, seed=0):
    """Return the error of each quantity of a model, by its name.

    The samples are `scale` times normal numbers around `offset`.
    """
    task, parts, new = draw(offset, scale, seed)
    model = learnt([task], INPUTS)
    classes = Classes(parts, INPUTS.shrinkage, INPUTS.epsilon)
    exactly = [moments(*part) for part in parts]
    pairs = list(zip(model.moments, exactly, strict=True))
    fisher = prediction.solve_once(model, CPU).head
    distances = prediction.solve_once(learnt([task], INPUTS, classifier="gaussian"), CPU).head
    rows = torch.as_tensor(new)
    errors = {
        "means": max(relative_error(one.mean[None], mean) for one, (mean, _) in pairs),
        "scatters": max(relative_error(one.scatter(), scatter) for one, (_, scatter) in pairs),
        "planes": relative_error(fisher.planes, classes.planes()[:, :-1]),
        "pair scores": relative_error(fisher.scores(rows).numpy(), classes.pair_scores(new)),
        "distances": relative_error(distances.log_ratios(rows).numpy(), classes.log_ratios(new)),
    }
    return {**errors, "bound": bound_error(offset, scale, seed)}


def constant_errors(value, seed=0):
    """Return the errors of a model whose inputs have a further column, of one value.

    The exact mean of that column is the value, and its exact scatter is zero.
    """
    task, parts, new = draw(seed=seed)
    task = replace(task, samples=torch.as_tensor(_beside(task.X.numpy(), value)))
    parts = [(_beside(X, value), weights) for X, weights in parts]
    new = _beside(new, value)
    model = learnt([task], INPUTS)
    classes = Classes(parts, INPUTS.shrinkage, INPUTS.epsilon)
    fisher = prediction.solve_once(model, CPU).head
    distances = prediction.solve_once(learnt([task], INPUTS, classifier="gaussian"), CPU).head
    rows = torch.as_tensor(new)
    scatters = [
        (one.scatter(), moments(*part)[1]) for one, part in zip(model.moments, parts, strict=True)
    ]
    return {
        "constant mean": max(abs(float(one.mean[-1]) / value - 1.0) for one in model.moments),
        "constant scatter": max(float(np.abs(found[-1]).max()) for found, _ in scatters),
        "scatters": max(relative_error(*pair) for pair in scatters),
        "pair scores": relative_error(fisher.scores(rows).numpy(), classes.pair_scores(new)),
        "distances": relative_error(distances.log_ratios(rows).numpy(), classes.log_ratios(new)),
    }


def _beside(X, value):
    """Return samples with a further column of one value."""
    return np.column_stack([X, np.full(len(X), value)])


def far_class_errors(distance, seed=0):
    """Return the errors of the squared lengths in the covariance of all samples.

    The first class is at this distance from the others. The largest error of the lengths of single
    samples counts, because those of the first class are far larger than the others.
    """
    task, parts, new = draw(seed=seed)
    direction = np.random.default_rng(seed).standard_normal(N_FEATURES)
    far = distance * direction
    X = task.X + torch.as_tensor(far) * (task.classes == 0)[:, None]
    parts = [(parts[0][0] + far, parts[0][1]), *parts[1:]]
    model = learnt([replace(task, samples=X)], INPUTS)
    lengths = prediction.relative_distances(model, CPU)._from_all(torch.as_tensor(new)).numpy()
    expected = Classes(parts, INPUTS.shrinkage, INPUTS.epsilon).total_lengths(new)
    errors = [relative_error(lengths[[i]], expected[i : i + 1, 0]) for i in range(len(lengths))]
    return {"lengths": max(errors)}


def weight_errors(ratio, n_left=20, seed=0):
    """Return the errors of mean and scatter after samples of larger weights are subtracted."""
    rng = np.random.default_rng(seed)
    X, weights = _samples(2 * n_left, 0.0, rng)
    weights[:n_left] *= ratio
    heavy, light = (
        moments_of([(torch.as_tensor(X[some]), torch.as_tensor(weights[some]))])
        for some in (slice(n_left), slice(n_left, None))
    )
    found = subtract(merge([heavy, light], device=CPU), heavy, device=CPU)
    return _errors_of(found, X[n_left:], weights[n_left:])


def share_errors(share, seed=0):
    """Return the errors of the share of a class among unlabelled rows.

    Two classes of 1000 samples are normal in two columns, and their means are 1.5 deviations apart.
    The other shares have the largest likelihood of the 4000 rows, given the probabilities of linear
    discriminant analysis, which has learned the same samples, and given the densities.
    """
    rng = np.random.default_rng(seed)
    step = np.array([1.5, 0.0])
    labels = np.repeat([0, 1], 1000)
    X = rng.standard_normal((2000, 2)) + labels[:, None] * step
    is_second = np.arange(4000) < round(4000 * share)
    new = rng.standard_normal((4000, 2)) + is_second[:, None] * step
    model = IncrementalDiscriminantAnalysis(random_state=0).fit(X, labels)
    log_ratios_of_lda = LinearDiscriminantAnalysis().fit(X, labels).decision_function(new)
    log_ratios = new @ step - step @ step / 2.0
    found = {
        "learned": model.estimate_priors(new)[1],
        "LDA": likeliest_share(np.exp(log_ratios_of_lda)),
        "densities": likeliest_share(np.exp(log_ratios)),
    }
    return {name: abs(one - share) for name, one in found.items()}


def bound_error(offset, scale, seed=0):
    """Return the error of the bound on forgetting of a band of the second task."""
    whole, parts, _ = draw(offset, scale, seed)
    first = whole.classes < 2
    tasks = [
        Task(whole.X[some], whole.classes[some], whole.weights[some]) for some in (first, ~first)
    ]
    model = learnt(tasks, BANDS)
    band, (axes,) = trained_of(model).layers.bands[-1], open_axes(model, CPU)
    old = np.concatenate([X for X, _ in parts[:2]])
    found = forgetting_bound(model, torch.as_tensor(old)).bound
    expected = bound(band.scale * band.weights, axes.kept.numpy(), old)
    return float(abs(found - expected) / expected)


def merge_errors(n_merges, offset=0.0, seed=0):
    """Return the errors of mean and scatter after merging single samples in a random tree."""
    rng = np.random.default_rng(seed)
    X, weights = _samples(n_merges + 1, offset, rng)
    pool = [
        moments_of([(torch.as_tensor(row[None]), torch.as_tensor(weight[None]))])
        for row, weight in zip(X, weights, strict=True)
    ]
    while len(pool) > 1:
        first, second = (pool.pop(int(rng.integers(len(pool)))) for _ in range(2))
        pool.append(merge([first, second], device=CPU))
    return _errors_of(pool[0], X, weights)


def call_errors(n_calls, offset=0.0, seed=0):
    """Return the errors of mean and scatter after calls with one or two samples."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 3, n_calls)
    X, weights = _samples(int(counts.sum()), offset, rng)
    model = IncrementalDiscriminantAnalysis(
        shared_band_size=0, rank=None, scale=False, device="cpu"
    )
    for rows in np.split(np.arange(len(X)), counts.cumsum()[:-1]):
        model.partial_fit(X[rows], np.zeros(len(rows)), sample_weight=weights[rows])
    return _errors_of(model._learned_state().model.moments[0], X, weights)


def deletion_errors(n_deletions, n_left, kind, seed=0):
    """Return the errors of mean and scatter after samples are subtracted one after the other.

    The samples are normal numbers, or one-hot columns, of which some become constant. The errors
    are relative to the moments of the samples that are left.
    """
    rng = np.random.default_rng(seed)
    n_samples = n_deletions + n_left
    X = rng.standard_normal((n_samples, N_FEATURES))
    if kind == "one-hot":
        X = np.eye(2 * N_FEATURES)[rng.integers(2 * N_FEATURES, size=n_samples)]
    ones = np.ones(n_samples)
    chunks = [(torch.as_tensor(X[[i]]), torch.as_tensor(ones[:1])) for i in range(n_samples)]
    found = moments_of(chunks)
    for chunk in chunks[:n_deletions]:
        found = subtract(found, moments_of([chunk]), device=CPU)
    return _errors_of(found, X[n_deletions:], ones[n_deletions:])


def _samples(n_samples, offset, rng):
    """Return samples around an offset, and their weights."""
    X = offset + rng.standard_normal((n_samples, N_FEATURES))
    return X, rng.uniform(0.5, 2.0, n_samples)


def _errors_of(found, X, weights):
    """Return the errors of mean and scatter."""
    mean, scatter = moments(X, weights)
    return {
        "means": relative_error(found.mean[None], mean),
        "scatters": relative_error(found.scatter(), scatter),
    }
