"""Both classifiers: their parameters, forgetting, decay, merging, new labels and data on disk."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from ffnb_sklearn import (
    IncrementalDiscriminantAnalysis,
    load,
    save,
)
from tests.separated_classes import CODES, X, discriminant, ffnb, learned, of

both = pytest.mark.parametrize("estimator", [discriminant, ffnb])


# ---- parameters


@both
def test_verbose_prints_a_line_per_task(estimator, capsys):
    learned(estimator(), [0])
    assert capsys.readouterr().out == ""
    learned(estimator(verbose=True), [0, 1], [1, 2])
    first, second = capsys.readouterr().out.splitlines()
    seconds = r", \d+\.\d\d s"
    start = rf"\[{type(estimator()).__name__}\] task"
    assert re.fullmatch(start + " 1: 40 samples, 2 new classes, 2 known" + seconds, first)
    assert re.fullmatch(start + " 2: 40 samples, 1 new classes, 3 known" + seconds, second)


@pytest.mark.cuda
@pytest.mark.parametrize("parameters", [{}, {"classifier": "ova"}, {"shrinkage": 0.0}], ids=repr)
@both
def test_cuda_and_cpu_agree_and_tasks_may_alternate(estimator, parameters):
    on_cpu = learned(estimator(device="cpu", **parameters), [0, 1], [2, 3], [4])
    mixed = learned(estimator(device="cuda", **parameters), [0, 1])
    learned(mixed.set_params(device="cpu"), [2, 3])
    learned(mixed.set_params(device="cuda"), [4])
    assert_allclose(mixed.decision_function(X), on_cpu.decision_function(X), atol=1e-6)


@pytest.mark.parametrize(
    ("estimator", "change"),
    [
        (discriminant, {"shared_band_size": 11}),
        (ffnb, {"shared_band_size": 11}),
        (ffnb, {"skip_connection": False}),
        (ffnb, {"n_layers": 2}),
    ],
)
def test_parameters_that_earlier_tasks_rest_upon(estimator, change):
    model = learned(estimator(), [0, 1]).set_params(**change)
    before, state = estimator().get_params(), model._state
    message = f"{next(iter(change))}.* cannot change between tasks"
    with pytest.raises(ValueError, match=message):
        learned(model, [2])
    assert model._state is state
    assert learned(model.set_params(**before), [2]).n_tasks_ == 2


# ---- decay


# ---- data on disk


@pytest.fixture(params=["float32", "float64"])
def on_disk(request, tmp_path):
    """X as a memory map, read-only."""
    path = tmp_path / "X.dat"
    X.astype(request.param).tofile(path)
    return np.memmap(path, dtype=request.param, mode="r", shape=X.shape)


@both
def test_data_on_disk_is_learnt_as_if_it_were_in_memory(estimator, on_disk):
    in_memory = np.array(on_disk, dtype=np.float64)
    model = estimator(chunk_size=7).fit(on_disk, CODES)
    same = estimator().fit(in_memory, CODES)
    # Bands amplify the rounding of the chunks.
    assert_allclose(model.decision_function(on_disk), same.decision_function(in_memory), rtol=1e-8)


@pytest.mark.parametrize("head", ["gaussian", "ovo", "ova"])
@pytest.mark.parametrize("weight", [0.1, 1.0 / 400])
def test_weights_below_one_do_not_count_as_fewer_samples(head, weight):
    digits, labels = load_digits(return_X_y=True)
    learned_rows, scored = slice(0, 400), slice(400, 800)
    clf = IncrementalDiscriminantAnalysis(classifier=head, shared_band_size=200, random_state=0)
    clf.fit(digits[learned_rows], labels[learned_rows])
    whole = clf.score(digits[scored], labels[scored])

    clf.fit(digits[learned_rows], labels[learned_rows], sample_weight=np.full(400, weight))

    assert clf.score(digits[scored], labels[scored]) > whole - 0.01
    losses = -np.log(clf.predict_proba(digits[scored])[np.arange(400), labels[scored]])
    assert losses.mean() < 0.7


# ---- weights of classes


def test_class_counts_follow_all_that_is_learned(tmp_path):
    clf = learned(discriminant(), [2, 0], classes=[1])
    assert_array_equal(clf.class_counts_, [20.0, 0.0, 20.0])
    weights = np.full(20, 0.5)
    clf.partial_fit(of(2), np.full(20, 2), sample_weight=weights)
    assert_array_equal(clf.class_counts_, [20.0, 0.0, 30.0])
    clf.decay(0.5, [0])
    assert_array_equal(clf.class_counts_, [10.0, 0.0, 30.0])
    clf.merge(learned(discriminant(), [1, 3]))
    assert_array_equal(clf.classes_, [0, 1, 2, 3])
    assert_array_equal(clf.class_counts_, [10.0, 20.0, 30.0, 20.0])
    clf.forget(1)
    assert_array_equal(clf.class_counts_, [10.0, 30.0, 20.0])
    save(clf, tmp_path / "model.ffnb")
    assert_array_equal(load(tmp_path / "model.ffnb").class_counts_, clf.class_counts_)


@both
def test_class_counts_exist_after_learning(estimator):
    with pytest.raises(NotFittedError):
        _ = estimator().class_counts_
