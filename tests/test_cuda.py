"""Estimators on a CUDA device agree with the CPU, within a stream and across files."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    load,
    save,
)
from tests.separated_classes import CODES, X, learned

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.filterwarnings("ignore:bands__max_epochs=3 has had no effect:UserWarning"),
]

ESTIMATORS = {
    "gaussian": IncrementalDiscriminantAnalysis(classifier="gaussian", random_state=0),
    "ovo": IncrementalDiscriminantAnalysis(classifier="ovo", random_state=0),
    "ova": IncrementalDiscriminantAnalysis(classifier="ova", random_state=0),
    "without bands": IncrementalDiscriminantAnalysis(shared_band_size=0, random_state=0),
    "full covariance": IncrementalDiscriminantAnalysis(rank=None, random_state=0),
    "trained bands": FFNBClassifier(random_state=0),
    "as published": FFNBClassifier.as_published(p=2, random_state=0, bands__max_epochs=3),
    "naive": NaiveIncrementalClassifier(max_epochs=3, random_state=0),
}


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    """Return a function that makes the estimator for a device."""
    return lambda device: clone(ESTIMATORS[request.param]).set_params(device=device)


def assert_same(model, expected):
    assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-6)
    assert_array_equal(model.predict(X), expected.predict(X))


def test_a_stream_on_cuda_and_a_stream_on_both(estimator):
    tasks = ([0, 1], [2, 3], [0, 4])
    expected = learned(estimator("cpu"), *tasks)
    assert_same(learned(estimator("cuda"), *tasks), expected)
    mixed = estimator("cuda")
    for device, task in zip(("cuda", "cpu", "auto"), tasks, strict=True):
        learned(mixed.set_params(device=device), task)
    assert_same(mixed, expected)


def test_files_move_between_devices(estimator, tmp_path):
    model = learned(estimator("cuda"), [0, 1], [2, 3])
    save(model, tmp_path / "model.ffnb")
    restored = load(tmp_path / "model.ffnb").set_params(device="cpu")
    assert_same(learned(restored, [4]), learned(model, [4]))


def test_sparse_rows():
    rows = sparse.csr_array(np.where(X > 3, X, 0.0))
    on_cpu, on_cuda = (
        IncrementalDiscriminantAnalysis(shared_band_size=0, random_state=0, device=device).fit(
            rows, CODES
        )
        for device in ("cpu", "cuda")
    )
    assert_allclose(on_cuda.decision_function(rows), on_cpu.decision_function(rows), atol=1e-6)


def test_predictions_leave_the_memory_of_the_device_bounded():
    model = IncrementalDiscriminantAnalysis(device="cuda", random_state=0, chunk_size=100).fit(
        X, CODES
    )
    rows = np.tile(X, (50, 1))
    model.predict(rows)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    model.predict(rows)
    by_chunks = torch.cuda.max_memory_allocated() - before
    torch.cuda.reset_peak_memory_stats()
    model.set_params(chunk_size=len(rows)).predict(rows)
    assert by_chunks < 0.5 * (torch.cuda.max_memory_allocated() - before)


@pytest.mark.parametrize("head", ["gaussian", "ovo", "ova"])
def test_background_classes_and_shares(head):
    priors = {0: 0.0, 1: 1.0, 2: 3.0}
    models = [
        learned(
            IncrementalDiscriminantAnalysis(
                classifier=head, priors=priors, random_state=0, device=device
            ),
            [0, 1, 2],
        )
        for device in ("cpu", "cuda")
    ]
    on_cpu, on_cuda = models
    assert_same(on_cuda, on_cpu)
    assert_array_equal(on_cuda.predict_proba(X)[:, 0], 0.0)
    shares, expected = on_cuda.estimate_priors(X), on_cpu.estimate_priors(X)
    assert_allclose([*shares.values()], [*expected.values()], atol=1e-6)


def test_forgotten_samples():
    model = learned(
        IncrementalDiscriminantAnalysis(rank=None, random_state=0, device="cuda"), [0, 1]
    )
    model.forget_samples(X[:5], CODES[:5])
    expected = IncrementalDiscriminantAnalysis(rank=None, random_state=0, device="cpu").fit(
        X[5:40], CODES[5:40]
    )
    assert_same(model, expected)
