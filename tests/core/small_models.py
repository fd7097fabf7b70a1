"""Settings, tasks and models that the tests of the core have in common."""

from dataclasses import dataclass, fields, replace

import numpy as np
import torch

from ffnb_sklearn.core import learning
from ffnb_sklearn.core.bands.band_settings import BandSettings, Descent
from ffnb_sklearn.core.bands.learning import learn_with_bands
from ffnb_sklearn.core.bands.old_classes import layer_past
from ffnb_sklearn.core.bands.past import Past
from ffnb_sklearn.core.linalg import SUM_ROUNDING
from ffnb_sklearn.core.model import Settings, Task, empty_model
from ffnb_sklearn.core.moments import Scatter

CPU = torch.device("cpu")
D = 6

# The paper's descent without an epoch.
DESCENT = Descent(
    max_epochs=0,
    learning_rate=0.01,
    momentum=0.9,
    weight_decay=0.0,
    batch_size=50,
    adaptive_rate=True,
)


@dataclass(frozen=True, kw_only=True)
class Parameters(Settings, BandSettings):
    """Settings of a model and of its bands, so that a test can change any of them."""

    def of(self, settings_class):
        """Return the settings of one class."""
        return settings_class(
            **{one.name: getattr(self, one.name) for one in fields(settings_class)}
        )


# Two layers of bands beside inputs and a small shared band, exact moments.
SETTINGS = Parameters(
    p=(2, 1),
    band_size=1,
    shared_band_size=4,
    skip_connection=True,
    activation="relu",
    init="multi",
    gamma=0.1,
    null_space=True,
    covariance="class",
    shrinkage=0.25,
    epsilon=0.3,
    rank=None,
    classifier="ovo",
    old_statistics="gaussian",
    scale=False,
    batch_norm=False,
    chunk_size=4096,
    refresh=0.0,
    units="relative",
    half_bias=True,
    left_out=True,
    novelty=False,
    descent=DESCENT,
)


def empty(n_inputs, parameters, seed=3):
    """A model without classes."""
    return empty_model(n_inputs, parameters.of(Settings), seed)


def learn(model, one, parameters, **observers):
    """A model that has learnt one more task, with bands unless `band_size` is 0."""
    settings = parameters.of(Settings)
    if parameters.band_size:
        return learn_with_bands(model, one, settings, parameters.of(BandSettings), **observers)
    return learning.learn(model, one, settings)


def parameters_of(model):
    """The parameters with which a model with bands has learnt its last task."""
    return Parameters(**vars(model.settings), **vars(model.trained.settings))


def with_bands(model, **changes):
    """A model with other settings of its bands."""
    settings = replace(model.trained.settings, **changes)
    return replace(model, trained=replace(model.trained, settings=settings))


def moments_of_all(model):
    """The moments of all classes over all features."""
    return [model.complete_moments(number) for number in range(len(model.moments))]


def task(*classes, n=8, seed=0):
    """Weighted samples around one random centre per class."""
    rng = np.random.default_rng([seed, *classes])
    labels = np.repeat(classes, n)
    X = rng.normal(size=(len(labels), D)) + rng.normal(size=(len(classes), D)).repeat(n, axis=0)
    weights = rng.uniform(0.5, 2.0, size=len(labels))
    return Task(*(torch.as_tensor(one) for one in (X, labels, weights)))


def learnt(tasks, settings=SETTINGS, **changes):
    """A model that has learnt some tasks."""
    settings = replace(settings, **changes)
    model = empty(tasks[0].X.shape[1], settings)
    for one in tasks:
        model = learn(model, one, settings)
    return model


def streamed(*sizes, seed=0, **changes):
    """A model of one task per entry, with that many new classes each; and its samples."""
    settings = replace(SETTINGS, **{"p": (0.5, 0.5), **changes})
    rng = np.random.default_rng(seed)
    model = empty(D, settings)
    tasks = []
    first = 0
    for size in sizes:
        labels = np.repeat(np.arange(first, first + size), 8)
        X = torch.as_tensor(rng.normal(size=(len(labels), D)) + rng.normal(size=D))
        tasks.append(Task(X, torch.as_tensor(labels), torch.ones(len(labels)).double()))
        model = learn(model, tasks[-1], settings)
        first += size
    return model, torch.cat([one.X for one in tasks])


def principal_rows(rows):
    """Orthogonal rows with the sum of outer products of some rows, the longest first."""
    principal = Scatter(rows.shape[1]).add([rows]).factor()[0]
    energies = principal.square().sum(1)
    return principal[energies > SUM_ROUNDING * energies.sum()]


def past_rows(model, layer):
    """The principal rows of the past of a layer of a model."""
    return layer_past(model, layer, CPU).principal.rows()


def past_of(rows):
    """The principal axes of a past that has some rows alone."""
    n, d = rows.shape
    if n > d:
        return Past(None, rows.T @ rows, np.zeros(d), 1, CPU).principal
    basis, coordinates = torch.linalg.qr(rows.T)
    return Past(basis.T, coordinates.T, np.zeros(d), 1, CPU).principal


def second_moment(moments, columns=slice(None)):
    """The weighted sum of the outer products of some features with themselves."""
    whole = moments.scatter() + moments.weight * np.outer(moments.mean, moments.mean)
    return whole[columns][:, columns]


def samples(n, d, seed=0):
    """Correlated samples far from the origin, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 10.0 * rng.normal(size=d)
    return X, rng.uniform(0.2, 3.0, size=n)
