"""Estimators that are saved, and files that are forged, digest and all."""

import copy
import hashlib
import io
import json
import zipfile
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.decomposition import PCA

# skops trusts the experimental estimators that are enabled before it is imported.
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import (
    ContinualPipeline,
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    OpenSetClassifier,
    load,
    save,
)
from ffnb_sklearn.exceptions import ModelFileError
from ffnb_sklearn.saving._container import Budget, read_container, write_container
from tests.separated_classes import CODES, NAMES, X, learned


def classifier(**parameters):
    """Return an unfitted classifier with few neurons, which learns one task in `fit`."""
    values = {"band_size": 1, "classes_per_task": None, "shared_band_size": 7, "random_state": 0}
    return FFNBClassifier().set_params(**values | parameters)


def discriminant(**parameters):
    """Return an unfitted classifier with few neurons and without bands."""
    values = {"shared_band_size": 7, "random_state": 0}
    return IncrementalDiscriminantAnalysis().set_params(**values | parameters)


def without_choice(**parameters):
    """Return an unfitted classifier that chooses no shrinkage, which takes most of the time."""
    return classifier(shrinkage=0.5, epsilon=0.1, **parameters)


def deep_classifier():
    """Return a classifier of two layers with everything that a model may hold."""
    state = np.random.RandomState(5)
    model = classifier(n_layers=2, bands__batch_norm=True, novelty=True, random_state=state)
    return learned(model, [4, 1], [6, 0])


def discriminant_pipeline():
    """Return a pipeline whose classifier has no bands, and left-out scores of each class."""
    steps = [("scaler", StandardScaler()), ("clf", discriminant(rank=2, novelty=True))]
    return learned(ContinualPipeline(steps), [4, 1], [6, 0])


def naive_classifier():
    """Return a naive classifier of string labels."""
    model = NaiveIncrementalClassifier(n_layers=2, band_size=2, max_epochs=2, random_state=0)
    return learned(model, [4, 1], [0], y=NAMES[CODES])


def pipeline():
    """Return a pipeline of two steps, with a residual in the moments of each class."""
    steps = [("scaler", StandardScaler()), ("clf", classifier(rank=2))]
    return learned(ContinualPipeline(steps), [2, 3])


def open_set_classifier():
    """Return a classifier with a label for unknown samples, around a pipeline."""
    model = OpenSetClassifier(pipeline())
    return learned(model, [4, 1], [6])


def foreign_pipeline():
    """Return a pipeline with a step that is stored with skops."""
    return learned(ContinualPipeline([("axes", PCA(4)), ("clf", classifier(rank=2))]), [2, 3])


ESTIMATORS = {
    "deep": deep_classifier,
    "discriminant": discriminant_pipeline,
    "naive": naive_classifier,
    "pipeline": pipeline,
    "open set": open_set_classifier,
}
if find_spec("skops"):
    ESTIMATORS["foreign"] = foreign_pipeline


def saved(estimator, path):
    """Return the bytes of the file of an estimator."""
    save(estimator, path)
    return path.read_bytes()


@cache
def file_of(name):
    """Return the bytes of the file of one of `ESTIMATORS`."""
    file = io.BytesIO()
    save(ESTIMATORS[name](), file)
    return file.getvalue()


def opened(content):
    """Return the JSON content and the arrays of a file."""
    return read_container(io.BytesIO(content), Budget(len(content)))


def closed(content, arrays):
    """Return a file of any content, with the digest that belongs to it."""
    file = io.BytesIO()
    write_container(file, content, arrays)
    return file.getvalue()


def signed(content):
    """Return the bytes of a file with the digest that belongs to them."""
    body = content[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def load_bytes(content, path, **keywords):
    """Load an estimator from bytes."""
    path.write_bytes(content)
    return load(path, **keywords)


def scores(estimator):
    """Return what an estimator makes of the samples."""
    return estimator.decision_function(X)


def places(value, path=()):
    """Yield the path to every value of the JSON content of an estimator."""
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            yield from places(part, (*path, key))


def put(content, path, value):
    """Return content with another value at a place."""
    content = copy.deepcopy(content)
    *parents, last = path
    owner = content
    for key in parents:
        owner = owner[key]
    if value is None:
        del owner[last]
    else:
        owner[last] = value
    return content


def with_text(change):
    """Make a function that changes the JSON text in the bytes of skops."""

    def changed(data):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        text = json.loads(members["schema.json"])
        members["schema.json"] = json.dumps(change(text) or text)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, part in members.items():
                archive.writestr(name, part)
        return file.getvalue()

    return changed


def check_refused(content, path):
    """Check that bytes raise the documented error, with a short message."""
    with pytest.raises(ModelFileError) as caught:
        load_bytes(content, path)
    assert len(str(caught.value)) < 700
    assert str(path) in str(caught.value)
