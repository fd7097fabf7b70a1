"""Every public call that learns, on problems as small as they can be."""

import warnings
from dataclasses import dataclass

import dask
import numpy as np
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.random_projection import GaussianRandomProjection
from torch import nn

from ffnb_sklearn import (
    ContinualPipeline,
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    OpenSetClassifier,
    SkeletonDescriptor,
    TorchFeatureExtractor,
)
from ffnb_sklearn.baselines import AnaCP, RanPAC
from ffnb_sklearn.distributed import partial_fit_shards

# Four classes, four samples each.
RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(4), 4)
X = 5.0 * RNG.standard_normal((4, 3))[Y] + RNG.standard_normal((16, 3))
OLD, NEW = Y < 2, Y >= 2


def network():
    """Network in which training differs from inference, and draws random numbers."""
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.2), nn.Linear(4, 2))


SMALL = {"shared_band_size": 4, "random_state": 0, "device": "cpu"}


def bands(**parameters):
    """Return a classifier with trained bands."""
    return FFNBClassifier().set_params(**{"band_size": 1, **SMALL, **parameters})


def plain(**parameters):
    """Return a classifier without bands."""
    return IncrementalDiscriminantAnalysis(**{**SMALL, **parameters})


def naive():
    return NaiveIncrementalClassifier(band_size=1, max_epochs=2, random_state=0, device="cpu")


def extractor(**parameters):
    defaults = {"train_batch_size": 8, "random_state": 0, "device": "cpu"}
    return TorchFeatureExtractor(network, **{**defaults, **parameters})


def pipeline(last):
    return ContinualPipeline([("unit", StandardScaler()), ("last", last)])


def open_set():
    return OpenSetClassifier(pipeline(bands()))


def with_generator(estimator):
    """Return an estimator with a generator, which the first call that learns advances."""
    return estimator.set_params(random_state=np.random.RandomState(0))


def noisy_pipeline():
    """Pipeline whose steps share a generator, which a call consumes only if it succeeds."""
    generator = np.random.RandomState(0)
    steps = [("noise", GaussianRandomProjection(2, random_state=generator))]
    return ContinualPipeline([*steps, ("last", bands(random_state=generator))])


def fit(estimator, now=NEW):
    return estimator.fit(X[now], Y[now])


def learn(estimator, now=NEW, **arguments):
    return estimator.partial_fit(X[now], Y[now], **arguments)


def learn_shards(estimator):
    with dask.config.set(scheduler="synchronous"):
        return partial_fit_shards(estimator, [dask.delayed((X[Y == 2], Y[Y == 2]))])


def sequences(n_frames=5, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n_frames + k, 15, 3)) for k in range(2)]


def other(make, **parameters):
    """Return an estimator to be merged, which knows classes 1 to 3 from other samples."""
    return make(**parameters).partial_fit(1.01 * X[Y >= 1], Y[Y >= 1])


@dataclass(frozen=True)
class Call:
    """A call that learns.

    Attributes
    ----------
    before : callable
        Makes the estimator on which it is called.
    call : callable
        The call.
    """

    before: object
    call: object


def fitted_pipeline():
    with warnings.catch_warnings():
        # The scaler is frozen: here that is wanted.
        warnings.simplefilter("ignore")
        return learn(pipeline(bands()), OLD)


def exact():
    """Return a classifier with exact moments and left-out scores."""
    return plain(rank=None, novelty=True)


def exact_pipeline():
    with warnings.catch_warnings():
        # The scaler is frozen: here that is wanted.
        warnings.simplefilter("ignore")
        return learn(pipeline(exact()), Y >= 0)


def forget_some(estimator):
    """Forget one sample of class 0, and all of class 1."""
    return estimator.forget_samples(X[3:8], Y[3:8])


def merge_pipeline(estimator):
    return estimator.merge(MERGED)


def merge_other(estimator):
    """Merge in an estimator of the same class."""
    return estimator.merge(OTHERS[type(estimator)])


OTHERS = {FFNBClassifier: other(bands), IncrementalDiscriminantAnalysis: other(plain)}
with warnings.catch_warnings():
    # Bands of class 2 and 3 keep a trace of the forgotten classes: here that is wanted.
    warnings.simplefilter("ignore")
    MERGED = learn(fitted_pipeline(), NEW).forget([0, 1])

CALLS = {
    "fit": Call(lambda: learn(plain(), OLD), fit),
    "fit, bands": Call(lambda: learn(bands(), OLD), fit),
    "fit, bands of one task": Call(lambda: learn(bands(classes_per_task=None), OLD), fit),
    "first partial_fit": Call(plain, lambda one: learn(one, NEW, classes=[7])),
    "first partial_fit, bands": Call(bands, lambda one: learn(one, NEW, classes=[7])),
    "partial_fit": Call(lambda: learn(plain(), OLD), lambda one: learn(one, Y >= 1)),
    "partial_fit, exact": Call(lambda: learn(exact(), OLD), learn),
    "partial_fit, bands": Call(lambda: learn(bands(), OLD), lambda one: learn(one, Y >= 1)),
    "partial_fit, descent": Call(
        lambda: learn(bands(bands__max_epochs=1), OLD),
        lambda one: learn(one, Y == 2),
    ),
    "forget": Call(lambda: learn(plain(), Y >= 0), lambda one: one.forget([1])),
    "forget, bands": Call(lambda: learn(learn(bands(), OLD)), lambda one: one.forget([1])),
    "forget all": Call(lambda: learn(bands(), OLD), lambda one: one.forget([0, 1])),
    "forget samples": Call(lambda: learn(exact(), Y >= 0), forget_some),
    "forget all samples": Call(
        lambda: learn(exact(), OLD), lambda one: one.forget_samples(X[OLD], Y[OLD])
    ),
    "rename": Call(lambda: learn(bands(), Y >= 0), lambda one: one.rename({0: 1, 1: 0, 2: 9})),
    "rename, join": Call(
        lambda: learn(exact(), Y >= 0), lambda one: one.rename({0: 3, 3: 3, 1: 0})
    ),
    "decay": Call(lambda: learn(plain(), Y >= 0), lambda one: one.decay(0.5, [1])),
    "decay, bands": Call(lambda: learn(bands(), Y >= 0), lambda one: one.decay(0.5, [1])),
    "merge": Call(lambda: learn(plain(), OLD), merge_other),
    "merge, bands": Call(lambda: learn(bands(), OLD), merge_other),
    "shards": Call(lambda: learn(plain(), OLD), learn_shards),
    "first shards": Call(plain, learn_shards),
    "naive fit": Call(lambda: fit(naive(), OLD), fit),
    "naive partial_fit": Call(lambda: learn(naive(), OLD), learn),
    "pipeline fit": Call(fitted_pipeline, fit),
    "pipeline fit_transform": Call(fitted_pipeline, lambda one: one.fit_transform(X, Y)),
    "pipeline first partial_fit": Call(lambda: pipeline(bands()), learn),
    "pipeline partial_fit": Call(fitted_pipeline, learn),
    "pipeline partial_fit, in place": Call(
        lambda: learn(pipeline(GaussianNB()), OLD, classes=[0, 1, 2, 3]), learn
    ),
    "fit, generator": Call(lambda: bands(random_state=np.random.RandomState(0)), fit),
    "pipeline fit, generator": Call(noisy_pipeline, fit),
    "pipeline first partial_fit, generator": Call(noisy_pipeline, learn),
    "pipeline forget": Call(fitted_pipeline, lambda one: one.forget([1])),
    "pipeline forget samples": Call(exact_pipeline, forget_some),
    "pipeline rename": Call(fitted_pipeline, lambda one: one.rename({0: 5})),
    "pipeline decay": Call(fitted_pipeline, lambda one: one.decay(0.5)),
    "pipeline merge": Call(fitted_pipeline, merge_pipeline),
    "open set fit": Call(lambda: learn(open_set(), OLD), fit),
    "open set first partial_fit": Call(open_set, learn),
    "open set partial_fit": Call(lambda: learn(open_set(), OLD), learn),
    "naive fit, generator": Call(lambda: with_generator(naive()), fit),
    "RanPAC fit, generator": Call(lambda: with_generator(RanPAC(n_components=3)), fit),
    "AnaCP first partial_fit, generator": Call(
        lambda: with_generator(AnaCP(n_components=3)), learn
    ),
    "extractor pretraining, generator": Call(lambda: with_generator(extractor(epochs=1)), fit),
    "extractor fit": Call(extractor, lambda one: one.fit(X)),
    "extractor layers": Call(
        lambda: extractor(epochs=1).fit(X, Y).set_params(epochs=0, layers=["0", "3"]),
        lambda one: one.fit_transform(X),
    ),
    "extractor pretraining": Call(lambda: extractor(epochs=1).fit(X[:, ::-1], Y), fit),
    "skeletons fit": Call(lambda: SkeletonDescriptor(n_chunks=2), lambda one: one.fit(sequences())),
    "skeletons refit": Call(
        lambda: SkeletonDescriptor(n_chunks=2).fit(sequences()),
        lambda one: one.fit([np.hstack([s, s]) for s in sequences()]),
    ),
}
