"""Every public call that takes samples, found by its signature, and estimators to make it on."""

import inspect
from dataclasses import dataclass
from operator import attrgetter
from types import SimpleNamespace

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from torch import nn

import ffnb_sklearn
from ffnb_sklearn import (
    ContinualPipeline,
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    OpenSetClassifier,
    SkeletonDescriptor,
    TorchFeatureExtractor,
    backbones,
    baselines,
    datasets,
    metrics,
    streams,
)
from ffnb_sklearn._inputs.arrays import checked_sparse

__all__ = ["CALLS", "ENTRANCES", "Entrance", "X", "Y"]

RNG = np.random.default_rng(0)
X = np.where(RNG.random((12, 6)) < 0.5, RNG.normal(size=(12, 6)) + 9.0, 0.0)
Y = np.repeat([0, 1], 6)
SEQUENCES = list(RNG.normal(size=(12, 4, 15, 3)))

MODULES = (ffnb_sklearn, backbones, baselines, datasets, metrics, streams)
PUBLIC = {name: getattr(module, name) for module in MODULES for name in module.__all__}


class ForeignStep(TransformerMixin, BaseEstimator):
    """Step of another package, which fails if it gets samples that were not checked."""

    # It learns nothing, so pipelines do not warn of it.
    frozen_on_purpose = True

    def fit(self, X, y=None):
        self.fit_predict(X)
        return self

    def fit_predict(self, X, y=None):
        self.is_fitted_ = True
        self.transform(X)
        return np.zeros(X.shape[0])

    def transform(self, X):
        try:
            checked_sparse(X, "X")
        except ValueError as error:
            raise AssertionError("a foreign step gets samples that were not checked") from error
        return X

    inverse_transform = transform


def network():
    return nn.Linear(6, 2)


def classifier(**parameters):
    defaults = {"shared_band_size": 5, "rank": None, "random_state": 0}
    return IncrementalDiscriminantAnalysis().set_params(**{**defaults, **parameters})


def steps(last):
    return [("foreign", ForeignStep()), ("last", last)]


# The first word of a name is the class.
ESTIMATORS = {
    "IncrementalDiscriminantAnalysis": classifier,
    "IncrementalDiscriminantAnalysis without neurons": lambda: classifier(shared_band_size=0),
    "FFNBClassifier": lambda: FFNBClassifier(shared_band_size=5, random_state=0),
    "NaiveIncrementalClassifier": lambda: baselines.NaiveIncrementalClassifier(max_epochs=1),
    "OpenSetClassifier": lambda: OpenSetClassifier(classifier()),
    "OpenSetClassifier of Pipeline": lambda: OpenSetClassifier(Pipeline(steps(classifier()))),
    "OpenSetClassifier of ContinualPipeline": lambda: OpenSetClassifier(
        ContinualPipeline(steps(classifier()))
    ),
    "ContinualPipeline": lambda: ContinualPipeline(steps(classifier())),
    "ContinualPipeline of OpenSetClassifier": lambda: ContinualPipeline(
        steps(OpenSetClassifier(classifier()))
    ),
    "ContinualPipeline of foreign steps": lambda: ContinualPipeline(steps(ForeignStep())),
    "SkeletonDescriptor": SkeletonDescriptor,
    "SkeletonDescriptor of rows": lambda: SkeletonDescriptor(frame_shape=(2, 3)),
    "TorchFeatureExtractor": lambda: TorchFeatureExtractor(network, random_state=0),
    "NearestClassMean": baselines.NearestClassMean,
    "StreamingLDA": baselines.StreamingLDA,
    "FeCAM": baselines.FeCAM,
    "RanPAC": lambda: baselines.RanPAC(n_components=5),
    "KernelLDA": lambda: baselines.KernelLDA(n_components=5),
    "AnaCP": lambda: baselines.AnaCP(n_components=5),
}


@dataclass(frozen=True)
class Entrance:
    """A public call, and its parameter for samples.

    Attributes
    ----------
    function : str
        Name of a function, or of a class and its method.
    parameter : str
        Name of the parameter.
    estimator : str or None
        Key of `ESTIMATORS` if the function is a method of an estimator.
    """

    function: str
    parameter: str
    estimator: str | None = None

    def __str__(self):
        return f"{self.function}({self.parameter}), {self.estimator}"

    def ready(self, samples=X):
        """Return the function; its estimator is fitted to samples unless the function does that."""
        if self.estimator is None:
            return attrgetter(self.function)(SimpleNamespace(**PUBLIC))
        estimator = ESTIMATORS[self.estimator]()
        method = self.function.rpartition(".")[2]
        if self.estimator == "SkeletonDescriptor":
            samples = SEQUENCES
        if not method.startswith(("fit", "partial_fit")):
            estimator.fit(samples, Y)
        return getattr(estimator, method)

    def call(self, function, samples):
        """Call a function that is `ready` with samples."""
        others = {"X": X, "X_test": X, "X_old": X, "X_new": X, "y": Y, "y_test": Y}
        others["estimator"] = classifier()
        names = inspect.signature(function).parameters
        arguments = {name: others[name] for name in names if name in others}
        arguments[self.parameter] = samples
        return function(**arguments)


def _public_functions():
    """Yield the name of every public function and public method, with the function."""
    for name, found in PUBLIC.items():
        if not inspect.isclass(found):
            yield name, found
        elif not issubclass(found, BaseException):
            for method, function in inspect.getmembers(found, callable):
                if not method.startswith("_"):
                    yield f"{name}.{method}", function


def _calls():
    """Yield the function and the parameter of every public call that takes samples."""
    for name, function in _public_functions():
        if callable(function):
            for parameter in inspect.signature(function).parameters:
                if parameter.startswith("X"):
                    yield name, parameter


def _entrances_of(function, parameter):
    """Yield an entrance for each estimator that has a method, or a single one for a function."""
    owner, _, method = function.partition(".")
    found = PUBLIC[owner]
    if not inspect.isclass(found) or not issubclass(found, BaseEstimator):
        yield Entrance(function, parameter)
        return
    for name, make in ESTIMATORS.items():
        if name.split()[0] == owner and hasattr(make(), method):
            yield Entrance(function, parameter, name)


CALLS = list(_calls())
ENTRANCES = [entrance for call in CALLS for entrance in _entrances_of(*call)]
