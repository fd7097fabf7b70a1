"""FFNBClassifier: its parameters, forgetting and merging."""

import copy
import pickle
import re
import warnings
from io import BytesIO

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError

from ffnb_sklearn import (
    Bands,
    FFNBClassifier,
    load,
    make_continual_pipeline,
    save,
)
from ffnb_sklearn._base import learning
from ffnb_sklearn._base.bound import descent_bound
from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.features.feature_map import FeatureMap
from tests.separated_classes import CODES, N_FEATURES, NAMES, X, failing, learned, of, unchanged

N_SHARED = 10


def estimator(**parameters):
    return FFNBClassifier().set_params(
        **{"band_size": 1, "shared_band_size": N_SHARED, "random_state": 0, **parameters}
    )


# ---- parameters


def test_verbose_prints_a_line_per_task(capsys):
    learned(estimator(), [0])
    assert capsys.readouterr().out == ""
    learned(estimator(verbose=True), [0, 1], [1, 2])
    first, second = capsys.readouterr().out.splitlines()
    seconds = r", \d+\.\d\d s"
    start = r"\[FFNBClassifier\] task"
    assert re.fullmatch(start + " 1: 40 samples, 2 new classes, 2 known" + seconds, first)
    assert re.fullmatch(start + " 2: 40 samples, 1 new classes, 3 known" + seconds, second)


def test_verbose_counts_the_epochs(capsys):
    tuned = estimator(verbose=True, band_size=1, bands__max_epochs=3)
    tuned.fit(X, np.random.default_rng(0).permutation(CODES))
    epochs = f"{tuned.n_iter_} epochs, loss {tuned.loss_curve_[-1]:.3g}, "
    assert epochs in capsys.readouterr().out


@pytest.mark.cuda
@pytest.mark.parametrize("parameters", [{}, {"classifier": "ova"}, {"shrinkage": 0.0}], ids=repr)
def test_cuda_and_cpu_agree_and_tasks_may_alternate(parameters):
    on_cpu = learned(estimator(device="cpu", **parameters), [0, 1], [2, 3], [4])
    mixed = learned(estimator(device="cuda", **parameters), [0, 1])
    learned(mixed.set_params(device="cpu"), [2, 3])
    learned(mixed.set_params(device="cuda"), [4])
    assert_allclose(mixed.decision_function(X), on_cpu.decision_function(X), atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [{"n_layers": 2}, {"shared_band_size": 11}, {"skip_connection": False}, {"band_size": 0}],
    ids=repr,
)
def test_parameters_that_earlier_tasks_rest_upon(change):
    model = learned(estimator(), [0, 1]).set_params(**change)
    before, state = estimator().get_params(), model._state
    message = f"{next(iter(change))}.* cannot change between tasks"
    with pytest.raises(ValueError, match=message):
        learned(model, [2])
    assert model._state is state
    assert learned(model.set_params(**before), [2]).n_tasks_ == 2


# ---- forgetting


def test_forgetting_without_bands_is_exact():
    exact = {"band_size": 0, "rank": None}
    model = learned(estimator(**exact), [0, 1], [2, 3], [4]).forget([1, 4])
    never = learned(estimator(**exact), [0], [2, 3])
    assert_array_equal(model.classes_, [0, 2, 3])
    assert [task.tolist() for task in model.task_classes_] == [[0], [2, 3]]
    assert model.n_tasks_ == 2
    assert_allclose(model.decision_function(X), never.decision_function(X), atol=1e-9)
    learned(model, [1])
    learned(never, [1])
    assert_allclose(model.decision_function(X), never.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("parameters", [{}, {"n_layers": 2}, {"classifier": "ova"}], ids=repr)
def test_forgetting_with_bands(parameters):
    model = learned(estimator(**parameters), [0, 1], [2, 3], [4])
    columns = model.transform(X)
    model.forget(2).forget([0])
    assert_array_equal(model.classes_, [1, 3, 4])
    assert_array_equal(model.transform(X), columns)
    assert set(model.predict(X)) <= {1, 3, 4}
    assert model.score(of(1, 3, 4), np.repeat([1, 3, 4], 20)) > 0.95
    assert_array_equal(learned(model, [2, 5]).classes_, [1, 2, 3, 4, 5])
    assert model.score(of(1, 2, 3, 4, 5), np.repeat([1, 2, 3, 4, 5], 20)) > 0.95


def test_forgetting_strings_and_declared_classes():
    model = learned(estimator(), [0, 1], y=NAMES[CODES], classes=["later"])
    expected = model.predict_proba(X)
    assert_array_equal(model.forget("later").classes_, ["a rather long name", "m"])
    assert_array_equal(model.predict_proba(X), expected[:, [0, 2]])
    assert_array_equal(model.forget("m").classes_, ["a rather long name"])


@pytest.mark.parametrize("band_size", [0, 1])
def test_forgetting_all_leaves_an_unfitted_estimator(band_size):
    model = learned(estimator(band_size=band_size), [0, 1], [2]).forget([0, 1, 2])
    assert vars(model) == {**vars(estimator(band_size=band_size)), "_state": None}
    assert not hasattr(model, "classes_")
    with pytest.raises(NotFittedError):
        model.predict(X)
    learned(model, [3, 4])
    fresh = learned(estimator(band_size=band_size), [3, 4])
    assert_array_equal(model.predict_proba(X), fresh.predict_proba(X))


def test_forgetting_what_is_not_known(monkeypatch):
    with pytest.raises(NotFittedError):
        estimator().forget([0])
    model = learned(estimator(), [0, 1])
    for classes, message in [
        ([0, 7], r"classes must be labels in classes_; got \[7\], known are \[0, 1\]"),
        ("m", "classes must hold labels of the kind seen before"),
        ([[0, 1]], "classes must be one-dimensional"),
        ([0.5], "continuous"),
    ]:
        with unchanged(model), pytest.raises(ValueError, match=message):
            model.forget(classes)
    monkeypatch.setattr("ffnb_sklearn.core.revision.replace", failing)
    with unchanged(model), pytest.raises(RuntimeError, match="told to fail"):
        model.forget([0])


# ---- decay


@pytest.mark.parametrize(
    "parameters",
    [{}, {"classifier": "ovo"}, {"classifier": "ova"}, {"priors": "empirical"}, {"shrinkage": 0.0}],
    ids=repr,
)
@pytest.mark.parametrize("fading", [None, [1], [0, 2]], ids=repr)
def test_decay_is_learning_with_smaller_weights(parameters, fading):
    exact = {"band_size": 0, "rank": None, **parameters}
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    old = np.arange(len(X)) % 2 == 0
    model = estimator(**exact).fit(X[old], CODES[old], sample_weight=weights[old])
    model.decay(0.5).decay(0.3, fading).partial_fit(
        X[~old], CODES[~old], sample_weight=weights[~old]
    )
    counts = fading is None or np.isin(CODES, fading)
    weights = np.where(old, 0.5 * np.where(counts, 0.3, 1.0) * weights, weights)
    joint = estimator(**exact).fit(X, CODES, sample_weight=weights)
    for method in ("decision_function", "predict_proba", "score_samples"):
        assert_allclose(getattr(model, method)(X), getattr(joint, method)(X), rtol=1e-8, atol=1e-8)


def test_decay_with_bands_lets_a_class_move_and_keeps_its_neurons():
    model = learned(estimator(), [0, 1], [2, 3])
    columns, moved = model.transform(X), of(0) + 20.0 * (of(1).mean(0) - of(0).mean(0))
    fading = copy.deepcopy(model).decay(0.01, 0)
    assert_array_equal(fading.transform(X), columns)
    model.partial_fit(moved[:10], np.zeros(10, int))
    fading.partial_fit(moved[:10], np.zeros(10, int))
    nearness = [np.median(one.score_samples(moved[10:])) for one in (model, fading)]
    assert nearness[0] < nearness[1]


def test_endless_decay_leaves_a_finite_model():
    model = learned(estimator(), [0, 1], [2], classes=[9])
    for _ in range(200):
        model.decay(0.5, [0, 9])
    assert np.isfinite(model.decision_function(X)).all()
    weights = [one.weight for one in model._state.model.moments]
    assert 1e-20 <= weights[0] < 2e-20
    assert weights[1:] == [20.0, 20.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0,), "factor == 0.0, must be > 0.0"),
        ((1.5,), "factor == 1.5, must be <= 1.0"),
        (("half",), "factor must be an instance of float, not str"),
        ((0.5, [0, 7]), r"classes must be labels in classes_; got \[7\], known are \[0, 1\]"),
        ((0.5, "m"), "classes must hold labels of the kind seen before"),
    ],
)
def test_decay_refuses_by_name_and_changes_nothing(arguments, message):
    with pytest.raises(NotFittedError):
        estimator().decay(0.5)
    model = learned(estimator(), [0, 1])
    with unchanged(model), pytest.raises((TypeError, ValueError), match=message):
        model.decay(*arguments)


# ---- merging


def test_merging_without_bands_is_learning_together():
    exact = {"band_size": 0, "rank": None}
    first = learned(estimator(**exact), [5, 1], [2])
    second = learned(estimator(**exact), [0], [7], classes=[6])
    # Class 2 has other samples here than there.
    more = 1.0 + of(2)
    second.partial_fit(more, np.full(len(more), 2))
    theirs = second.predict_proba(X)
    together = learned(estimator(**exact), [5, 1], [2], [0], [7], classes=[6])
    together.partial_fit(more, np.full(len(more), 2))
    merged = first.merge(second)
    assert merged is first
    assert_array_equal(merged.classes_, [0, 1, 2, 5, 6, 7])
    assert [task.tolist() for task in merged.task_classes_] == [[1, 5], [2], [0], [7]]
    assert merged.n_tasks_ == 4
    assert_allclose(merged.predict_proba(X), together.predict_proba(X), atol=1e-9)
    assert_array_equal(second.predict_proba(X), theirs)


@pytest.mark.parametrize("parameters", [{}, {"n_layers": 2}, {"classifier": "ova"}], ids=repr)
def test_merging_with_bands(parameters):
    first = learned(estimator(**parameters), [0, 1], [2])
    second = learned(estimator(**parameters), [4], [3, 5])
    columns = first.transform(X)
    first.merge(second)
    assert_array_equal(first.classes_, np.arange(6))
    assert_array_equal(first.transform(X)[:, : columns.shape[1]], columns)
    assert first.transform(X).shape[1] == N_FEATURES + N_SHARED + 6
    assert first.score(X[:120], CODES[:120]) > 0.95
    assert len(first.null_space_dims_) == 4
    learned(first, [6, 7])
    assert first.score(X, CODES) > 0.95


def test_merging_strings_of_other_lengths():
    y = NAMES[CODES]
    first, second = learned(estimator(), [0], y=y), learned(estimator(), [1], y=y)
    assert_array_equal(first.merge(second).classes_, ["a rather long name", "m"])
    assert first.score(of(0, 1), y[:40]) == 1.0


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        (lambda: "model", TypeError, "other must be a fitted FFNBClassifier; got str"),
        (lambda: estimator(), NotFittedError, "FFNBClassifier"),
        (lambda: learned(estimator(random_state=1), [2]), ValueError, "random_state"),
        (lambda: learned(estimator(epsilon=1.0, p=2), [2]), ValueError, "differs in p."),
        (lambda: learned(estimator(n_layers=2), [2]), ValueError, "differs in n_layers, p"),
        (
            lambda: learned(estimator(bands__max_epochs=1), [2]),
            ValueError,
            "differs in bands__max_epochs.",
        ),
        (lambda: learned(estimator(), [2], y=NAMES[CODES]), ValueError, "other.classes_ must hold"),
        (lambda: estimator().fit(X[:, 1:], CODES), ValueError, "differs in n_features_in_"),
    ],
)
def test_what_cannot_be_merged(other, error, message):
    model = learned(estimator(), [0, 1])
    with unchanged(model), pytest.raises(error, match=message):
        model.merge(other())
    with pytest.raises(NotFittedError):
        estimator().merge(model)


@pytest.mark.parametrize("parameters", [{}, {"band_size": 0}, {"band_size": 0, "rank": None}])
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_samples_that_both_have_learned_are_not_merged(parameters, form, tmp_path):
    def model(*codes):
        now = np.isin(CODES, codes)
        return estimator(**parameters).partial_fit(form(X[now]), CODES[now])

    first, now = model(0, 1), np.isin(CODES, [2, 3])
    save(first, tmp_path / "first.ffnb")
    more = copy.deepcopy(first).partial_fit(form(X[now]), CODES[now])
    same = (first, copy.deepcopy(first), pickle.loads(pickle.dumps(first)), more)
    message = r"moments of classes \[0, 1\] are the same in both"
    for other in (*same, load(tmp_path / "first.ffnb")):
        with unchanged(first), pytest.raises(ValueError, match=message):
            first.merge(other)
    # A file is merged once.
    hub = model(4).merge(load(tmp_path / "first.ffnb"))
    with unchanged(hub), pytest.raises(ValueError, match=message):
        hub.merge(load(tmp_path / "first.ffnb"))
    # The remedy of the message.
    hub.merge(more.forget([0, 1]))
    assert_array_equal(hub.classes_, range(5))


def test_a_pipeline_is_not_merged_with_its_copy():
    pipeline = make_continual_pipeline(estimator()).partial_fit(X, CODES)
    for other in (pipeline, copy.deepcopy(pipeline)):
        with unchanged(pipeline), pytest.raises(ValueError, match="count the same samples twice"):
            pipeline.merge(other)


def test_merging_other_feature_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    model = estimator().fit(frame, CODES)
    other = estimator().fit(frame.rename(columns={"a": "z"}), CODES)
    with pytest.raises(ValueError, match="differs in feature_names_in_"):
        model.merge(other)


def test_a_merge_that_fails_inside_changes_nothing(monkeypatch):
    model, other = (learned(estimator(scale=False), some) for some in ([0, 1], [2]))
    monkeypatch.setattr("ffnb_sklearn.core.revision.merge_classes", failing)
    with unchanged(model), pytest.raises(RuntimeError, match="told to fail"):
        model.merge(other)


# ---- fine-tuning

# Six classes that overlap and a poor start: else there is nothing to tune.
OVERLAPPING = X + 4.0 * np.random.default_rng(1).standard_normal(X.shape)
TUNED = {
    "skip_connection": False,
    "shared_band_size": 0,
    "p": 0.8,
    "bands__gamma": 1.0,
    "bands__max_epochs": 12,
    "bands__learning_rate": 0.03,
    "shrinkage": 0.25,
    "epsilon": 0.3,
}


def tuned(model, *tasks):
    for task in tasks:
        now = np.isin(CODES, task)
        model.partial_fit(OVERLAPPING[now], CODES[now])
    return model


def test_fine_tuning_is_recorded():
    model = tuned(estimator(**TUNED), [0, 1], [2, 3, 4, 5, 6, 7])
    assert model.n_iter_ == len(model.loss_curve_) > 0
    assert np.isfinite(model.loss_curve_).all()
    tuned(model, [3])
    # No new class, no new band, nothing to tune.
    assert (model.n_iter_, model.loss_curve_) == (0, [])
    assert tuned(estimator(), [0, 1]).n_iter_ == 0
    # All epochs run, also without any loss.
    model = learned(estimator(**TUNED), [0, 1])
    assert model.loss_curve_ == [0.0] * TUNED["bands__max_epochs"]


def test_fine_tuning_changes_the_newest_bands_only():
    options = {**TUNED, "random_state": 1}
    closed = tuned(estimator(**options | {"bands__max_epochs": 0}), [0, 1])
    before = closed.transform(OVERLAPPING)
    model = closed.set_params(bands__max_epochs=12)
    tuned(model, [2, 3, 4, 5, 6, 7])
    assert_array_equal(model.transform(OVERLAPPING)[:, : before.shape[1]], before)
    again = estimator(**options | {"bands__max_epochs": 0})
    tuned(again, [0, 1], [2, 3, 4, 5, 6, 7])
    assert not np.allclose(model.transform(OVERLAPPING), again.transform(OVERLAPPING))


def test_fine_tuning_repeats_with_random_state():
    first, again, other = (
        tuned(estimator(**TUNED, random_state=seed), [0, 1], [2, 3, 4, 5, 6, 7])
        for seed in (0, 0, 1)
    )
    assert first.loss_curve_ == again.loss_curve_
    assert first.loss_curve_ != other.loss_curve_
    assert_array_equal(first.transform(OVERLAPPING), again.transform(OVERLAPPING))


def test_a_failure_in_an_epoch_leaves_the_estimator(monkeypatch):
    model = tuned(estimator(**TUNED), [0, 1])
    monkeypatch.setattr("ffnb_sklearn.core.bands.tuning.descent.rate_factor", failing)
    with unchanged(model, OVERLAPPING), pytest.raises(RuntimeError, match="told to fail"):
        tuned(model, [2, 3, 4, 5, 6, 7])


def test_a_rate_too_large_is_an_error_that_names_it():
    with pytest.raises(ValueError, match=r"learning_rate=1e\+300 or weight_decay=0.0 is too large"):
        tuned(estimator(**{**TUNED, "bands__learning_rate": 1e300}), [2, 3, 4, 5, 6, 7])


# ---- batch normalisation


def test_the_bound_is_not_defined_for_bands_that_were_normalised():
    X, y = load_digits(return_X_y=True)
    clf = FFNBClassifier(
        band_size=1, shared_band_size=10, p=1, random_state=0, bands=Bands(batch_norm=True)
    )
    for task in ((0, 1), (2,)):
        clf.partial_fit(X[np.isin(y, task)], y[np.isin(y, task)])
    clf.set_params(bands__batch_norm=False).partial_fit(X[y == 2], y[y == 2])
    with pytest.raises(ValueError, match=r"with Bands\(batch_norm=False\)"):
        clf.forgetting_bound(X[y < 2])


def test_batch_norm_moves_old_features():
    parameters = {**TUNED, "bands__max_epochs": 0, "bands__batch_norm": True}
    model = learned(estimator(**parameters), [0, 1])
    before = model.transform(X)
    learned(model, [2, 3])
    after = model.transform(X)
    assert after.shape[1] == before.shape[1] + 2
    assert not np.allclose(after[:, : before.shape[1]], before)


@pytest.mark.parametrize("change", ["merge", "forget"])
def test_batch_norm_survives(change):
    parameters = {"bands__batch_norm": True, "p": 1}
    model = learned(estimator(**parameters), [0, 1], [2, 3])
    if change == "forget":
        model.forget([1])
    else:
        model.merge(learned(estimator(**parameters), [4, 5]))
    known = np.isin(CODES, model.classes_)
    assert model.score(X[known], CODES[known]) > 0.9


# ---- the bound on forgetting


def test_the_drift_is_within_the_bound():
    model = learned(estimator(p=1, n_layers=2, bands__max_epochs=2), [0, 1, 2], [3, 4])

    found = model.forgetting_bound(of(0, 1, 2))

    assert len(found.layers) == 2
    assert 0.0 < found.drift <= found.bound
    assert all(one.drift <= one.bound for one in found.layers)


@pytest.mark.parametrize(
    ("parameters", "tasks"),
    [
        ({"band_size": 0}, [[0], [1]]),
        ({}, [[0, 1]]),
        ({"bands__batch_norm": True, "p": 1}, [[0, 1], [2]]),
    ],
)
def test_there_may_be_no_bound(parameters, tasks):
    model = learned(estimator(**parameters), *tasks)
    with pytest.raises(
        ValueError, match=r"forgetting_bound needs (two tasks that brought )?trained bands"
    ):
        model.forgetting_bound(X)


@pytest.mark.parametrize("change", ["merge", "forget"])
def test_after_a_merge_there_is_no_newest_task(change):
    model = learned(estimator(), [0, 1])
    if change == "merge":
        model.merge(learned(estimator(), [2, 3]))
    else:
        learned(model, [2, 3, 5]).forget([5])
    with pytest.raises(ValueError, match="no merge or forget after the newest task"):
        model.forgetting_bound(X)
    learned(model, [4])
    assert model.forgetting_bound(of(0, 1, 2, 3)).bound > 0.0


def test_the_bound_checks_its_samples():
    with pytest.raises(NotFittedError):
        estimator().forgetting_bound(X)
    model = learned(estimator(), [0, 1], [2])
    with pytest.raises(ValueError, match="5 features"):
        model.forgetting_bound(X[:, :5])
    with pytest.raises(ValueError, match="NaN"):
        model.forgetting_bound(np.full((1, N_FEATURES), np.nan))


def test_the_bound_of_a_descent_leaves_the_classifier():
    model = learned(estimator(p=1, bands__max_epochs=2), [0, 1])

    with unchanged(model):
        bound = descent_bound(model, of(2), np.full(20, 2), of(0, 1))

    assert bound > 0.0


# ---- data on disk


@pytest.fixture(params=["float32", "float64"])
def on_disk(request, tmp_path):
    """X as a memory map, read-only."""
    path = tmp_path / "X.dat"
    X.astype(request.param).tofile(path)
    return np.memmap(path, dtype=request.param, mode="r", shape=X.shape)


def test_data_on_disk_is_learnt_as_if_it_were_in_memory(on_disk):
    in_memory = np.array(on_disk, dtype=np.float64)
    for parameters in ({"band_size": 0}, {"band_size": 1}):
        model = estimator(chunk_size=7, **parameters).fit(on_disk, CODES)
        same = estimator(**parameters).fit(in_memory, CODES)
        assert_allclose(
            model.decision_function(on_disk), same.decision_function(in_memory), rtol=1e-9
        )


def test_data_on_disk_is_read_in_chunks(on_disk, monkeypatch):
    seen, shared = [], []
    features = FeatureMap.__call__
    learn = learning.learn

    def counted(self, values):
        seen.append(len(values))
        return features(self, values)

    def watched(model, task, *others):
        shared.append(np.shares_memory(task.samples.numpy(), on_disk))
        return learn(model, task, *others)

    monkeypatch.setattr(FeatureMap, "__call__", counted)
    monkeypatch.setattr(learning, "learn", watched)
    model = estimator(band_size=0, chunk_size=15).partial_fit(on_disk, CODES)
    model.predict(on_disk)

    assert shared == [True]
    # Two chunks of each class of twenty samples in learning, eleven chunks in prediction.
    assert seen == 8 * [15, 5] + 10 * [15] + [10]


def test_models_merge_whatever_their_chunks():
    left, right = (learned(estimator(band_size=0, chunk_size=n), [n]) for n in (3, 5))
    both = learned(estimator(band_size=0), [3], [5])
    assert_allclose(left.merge(right).decision_function(X), both.decision_function(X))


@pytest.mark.parametrize("parameters", [{"shrinkage": 1.0}, {"covariance": "identity"}])
def test_a_head_without_own_axes_has_no_weights_of_them(parameters):
    clf = FFNBClassifier().set_params(
        band_size=0, shared_band_size=20, random_state=0, **parameters
    )
    clf.fit(X, CODES).predict(X)
    head = prediction.solve_once(clf._state.model, torch.device("cpu")).classifier

    found = sum(one.size for one in (head.centre, head.planes, head.offsets, head.rows))

    assert clf.n_parameters_ - clf._state.model.features.n_weights == found


@pytest.mark.parametrize("head", ["gaussian", "ovo", "ova"])
@pytest.mark.parametrize("weight", [0.1, 1.0 / 400])
def test_weights_below_one_do_not_count_as_fewer_samples(head, weight):
    digits, labels = load_digits(return_X_y=True)
    learned_rows, scored = slice(0, 400), slice(400, 800)
    clf = FFNBClassifier(classifier=head, shared_band_size=200, random_state=0)
    whole = clf.fit(digits[learned_rows], labels[learned_rows]).score(
        digits[scored], labels[scored]
    )

    clf.fit(digits[learned_rows], labels[learned_rows], sample_weight=np.full(400, weight))

    assert clf.score(digits[scored], labels[scored]) > whole - 0.01
    losses = -np.log(clf.predict_proba(digits[scored])[np.arange(400), labels[scored]])
    assert losses.mean() < 0.7


# ---- weights of classes


def test_class_counts_follow_all_that_is_learned(tmp_path):
    clf = learned(FFNBClassifier(random_state=0), [2, 0], classes=[1])
    assert_array_equal(clf.class_counts_, [20.0, 0.0, 20.0])
    weights = np.full(20, 0.5)
    clf.partial_fit(of(2), np.full(20, 2), sample_weight=weights)
    assert_array_equal(clf.class_counts_, [20.0, 0.0, 30.0])
    clf.decay(0.5, [0])
    assert_array_equal(clf.class_counts_, [10.0, 0.0, 30.0])
    clf.merge(learned(FFNBClassifier(random_state=0), [1, 3]))
    assert_array_equal(clf.classes_, [0, 1, 2, 3])
    assert_array_equal(clf.class_counts_, [10.0, 20.0, 30.0, 20.0])
    clf.forget(1)
    assert_array_equal(clf.class_counts_, [10.0, 30.0, 20.0])
    save(clf, tmp_path / "model.ffnb")
    assert_array_equal(load(tmp_path / "model.ffnb").class_counts_, clf.class_counts_)


def test_class_counts_exist_after_learning():
    with pytest.raises(NotFittedError):
        _ = FFNBClassifier().class_counts_


# ---- new labels


def exact(**parameters):
    return FFNBClassifier(rank=None, random_state=0, **parameters)


def test_joined_classes_equal_classes_learned_under_one_label(tmp_path):
    clf = learned(exact(), [4, 1], [0, 3], [2])
    clf.rename({0: 9, 4: 9, 1: 3, 3: 1})
    names = np.array([9, 3, 2, 1, 9, 5, 6, 7])
    expected = learned(exact(), [4, 1], [0, 3], [2], y=names[CODES])
    assert_array_equal(clf.classes_, [1, 2, 3, 9])
    assert_array_equal(clf.class_counts_, [20.0, 20.0, 20.0, 40.0])
    assert [task.tolist() for task in clf.task_classes_] == [[3, 9], [1], [2]]
    assert_allclose(clf.decision_function(X), expected.decision_function(X), rtol=1e-9, atol=1e-9)
    save(clf, tmp_path / "model.ffnb")
    restored = load(tmp_path / "model.ffnb")
    assert_array_equal(restored.predict_proba(X), clf.predict_proba(X))
    for model in (restored, expected):
        learned(model, [5], y=names[CODES]).forget(2)
    scores = restored.decision_function(X)
    assert_allclose(scores, expected.decision_function(X), rtol=1e-9, atol=1e-9)


def test_rename_moves_the_columns_of_text_labels_and_quantiles():
    clf = learned(FFNBClassifier(novelty=True, random_state=0), [0, 1], [2], y=NAMES[CODES])
    probabilities = clf.predict_proba(X)
    threshold = clf.novelty_threshold(0.1)
    assert_array_equal(clf.classes_, ["a rather long name", "m", "z"])
    clf.rename({"m": "the longest of all the names", "z": "b"})
    assert_array_equal(clf.classes_, ["a rather long name", "b", "the longest of all the names"])
    assert_allclose(clf.predict_proba(X), probabilities[:, [0, 2, 1]], rtol=1e-9)
    assert clf.novelty_threshold(0.1) == pytest.approx(threshold, rel=1e-9)


def test_rename_keeps_trained_bands_and_refuses_to_join_their_classes():
    clf = learned(estimator(), [0, 1], [2, 3])
    scores = clf.decision_function(X)
    clf.rename({0: 1, 1: 0, 2: 5})
    assert_allclose(clf.decision_function(X), scores[:, [1, 0, 3, 2]], rtol=1e-9)
    with unchanged(clf), pytest.raises(ValueError, match="must not join classes of an estimator"):
        clf.rename({0: 1, 1: 1})


def test_a_declared_label_joins_a_class():
    clf = learned(FFNBClassifier(random_state=0), [0, 1], classes=[2])
    clf.rename({2: 0, 0: 0})
    assert_array_equal(clf.classes_, [0, 1])
    assert_array_equal(clf.class_counts_, [20.0, 20.0])


def test_declared_labels_are_renamed_and_joined():
    clf = learned(FFNBClassifier(random_state=0), [0, 1], classes=[2, 5, 6])
    clf.rename({2: 7, 5: 3, 6: 3})
    assert_array_equal(clf.classes_, [0, 1, 3, 7])
    assert_array_equal(clf.predict_proba(X)[:, 2:], 0.0)
    learned(clf, [7])
    assert_array_equal(clf.classes_, [0, 1, 3, 7])
    assert_array_equal(clf.predict(of(7)), 7)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({7: 8}, r"labels in classes_; got \[7\], known are \[0, 1, 2\]"),
        ({0: 1}, r"must not be labels of other classes; got \[1\]"),
        ({0: "a"}, "of the kind seen before, number"),
        ({"a": 3}, "of the kind seen before, number"),
        ({0: 0.5}, "continuous"),
        ({0: None}, "contains NaN"),
    ],
)
def test_rename_refuses_labels_and_changes_nothing(mapping, message):
    clf = learned(FFNBClassifier(random_state=0), [0, 1, 2])
    with unchanged(clf), pytest.raises(ValueError, match=message):
        clf.rename(mapping)


def test_rename_needs_a_dictionary():
    clf = learned(FFNBClassifier(random_state=0), [0, 1, 2])
    with unchanged(clf), pytest.raises(TypeError, match="mapping must be a dictionary"):
        clf.rename([(0, 3)])


def test_rename_needs_priors_of_the_new_labels():
    clf = learned(FFNBClassifier(random_state=0, priors={0: 1, 1: 2}), [0, 1])
    with unchanged(clf), pytest.raises(ValueError, match=r"none for \[3\]"):
        clf.rename({0: 3})
    clf.set_params(priors={0: 1, 1: 2, 3: 1}).rename({0: 3})
    assert_array_equal(clf.classes_, [1, 3])


def test_pipeline_renames_in_its_last_step():
    pipeline = make_continual_pipeline(FFNBClassifier(random_state=0))
    learned(pipeline, [0, 1]).rename({0: 3})
    assert_array_equal(pipeline.classes_, [1, 3])


# ---- samples that are forgotten


def test_forgotten_samples_leave_scores_as_if_never_learned():
    digits, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    is_gone = rng.random(len(labels)) < 0.2
    is_gone[labels == 9] = True
    clf = exact().fit(digits, labels).forget_samples(digits[is_gone], labels[is_gone])
    expected = exact().fit(digits[~is_gone], labels[~is_gone])
    assert_array_equal(clf.classes_, np.arange(9))
    assert_array_equal(clf.class_counts_, expected.class_counts_)
    scores = expected.decision_function(digits)
    tolerance = 1e-7 * np.abs(scores).max()
    assert_allclose(clf.decision_function(digits), scores, rtol=1e-7, atol=tolerance)


@pytest.mark.parametrize("load_table", [load_iris, load_wine, load_breast_cancer])
def test_samples_of_columns_of_unlike_units_are_forgotten(load_table):
    samples, labels = load_table(return_X_y=True)
    is_gone = np.random.default_rng(0).random(len(labels)) < 0.3
    clf = exact()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clf.fit(samples, labels)
        expected = exact().fit(samples[~is_gone], labels[~is_gone])
    clf.forget_samples(samples[is_gone], labels[is_gone])
    scores = expected.decision_function(samples)
    tolerance = 1e-7 * np.abs(scores).max()
    assert_allclose(clf.decision_function(samples), scores, rtol=1e-7, atol=tolerance)


@pytest.mark.parametrize("n_gone", [5, 300])
def test_columns_in_which_a_class_is_constant_do_not_disturb_what_remains(n_gone):
    # Many pixels are constant in a class, but not zero once the columns are standardised.
    digits, labels = load_digits(return_X_y=True)
    digits = (digits - digits.mean(0)) / np.maximum(digits.std(0), 1e-3)
    clf = exact().fit(digits, labels).forget_samples(digits[:n_gone], labels[:n_gone])
    scores = exact().fit(digits[n_gone:], labels[n_gone:]).decision_function(digits)
    tolerance = 1e-7 * np.abs(scores).max()
    assert_allclose(clf.decision_function(digits), scores, rtol=1e-7, atol=tolerance)

    # The first pixel is constant in all classes.
    other = digits[n_gone : n_gone + 1].copy()
    other[0, 0] += 1.0
    remaining = clf.decision_function(digits)
    with pytest.raises(ValueError, match="differ in a column"):
        clf.forget_samples(other, labels[n_gone : n_gone + 1])
    assert_array_equal(clf.decision_function(digits), remaining)


def test_samples_are_forgotten_where_the_columns_are_standardised():
    digits, labels = load_digits(return_X_y=True)
    clf = exact(scale=True).fit(digits, labels)
    accuracy = clf.score(digits, labels)
    with pytest.warns(UserWarning, match="standardis"):
        clf.forget_samples(digits[:5], labels[:5])
    assert clf.score(digits, labels) > accuracy - 0.005


def test_samples_are_forgotten_with_their_weights_and_all_samples_leave_nothing():
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    now = CODES < 2
    clf = exact().fit(X[now], CODES[now], sample_weight=weights)
    clf.forget_samples(X[:10], CODES[:10], sample_weight=weights[:10])
    expected = exact().fit(X[10:40], CODES[10:40], sample_weight=weights[10:])
    assert_allclose(clf.decision_function(X), expected.decision_function(X), rtol=1e-7, atol=1e-7)
    clf.forget_samples(X[10:40], CODES[10:40], sample_weight=weights[10:])
    with pytest.raises(NotFittedError):
        clf.predict(X)


def test_forget_samples_refuses_what_was_not_learned():
    clf = learned(exact(), [0, 1], classes=[5])
    with unchanged(clf), pytest.raises(ValueError, match=r"learned; got \[5\], known are \[0, 1"):
        clf.forget_samples(X[:1], [5])
    with unchanged(clf), pytest.raises(ValueError, match=r"negative variance|outside"):
        clf.forget_samples(X[:1] + 100.0, [0])
    with unchanged(clf), pytest.raises(ValueError, match="larger than that of the class"):
        clf.forget_samples(X[:20], CODES[:20], sample_weight=np.full(20, 2.0))


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.parametrize("size", [1e4, 1e6, 1e9])
@pytest.mark.parametrize("columns", [slice(None), slice(2, 3)], ids=["all", "one"])
def test_samples_beside_which_the_others_lose_their_digits_are_not_forgotten(columns, size):
    outlier = X[:1].copy()
    outlier[:, columns] *= size
    clf = exact().fit(np.vstack([X, outlier]), [*CODES, 0])
    if size == 1e4:
        scores = exact().fit(X, CODES).decision_function(X)
        clf.forget_samples(outlier, [0])
        assert_allclose(clf.decision_function(X), scores, rtol=1e-5, atol=1e-5)
        return
    with unchanged(clf), pytest.raises(ValueError, match=r"samples of classes \[0\] lie so far"):
        clf.forget_samples(outlier, [0])
    # Nothing is compared if the class goes with its samples.
    assert len(clf.forget_samples(np.vstack([of(0), outlier]), np.zeros(21)).classes_) == 7


def test_equal_samples_may_remain_of_the_only_class():
    clf = exact().fit([[1.0, 2.0], [1.0, 2.0], [5.0, 0.0]], [0, 0, 0])
    clf.forget_samples([[5.0, 0.0]], [0])
    assert_allclose(clf.class_counts_, [2.0])


@pytest.mark.parametrize("model", [estimator(rank=None), FFNBClassifier(random_state=0)])
def test_forget_samples_needs_exact_moments(model):
    clf = learned(model, [0, 1], [2])
    with unchanged(clf), pytest.raises(ValueError, match="rank=None and band_size=0"):
        clf.forget_samples(X[:1], CODES[:1])


def test_a_column_that_becomes_zero_lets_later_samples_go():
    rows = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 4.0], [0.7, 3.0], [5.0, 5.0], [6.0, 7.0]])
    labels = np.array([0, 0, 0, 0, 1, 1])
    clf = exact(shared_band_size=0).fit(rows, labels)
    clf.forget_samples(rows[3:4], labels[3:4])
    clf.forget_samples(rows[:1], labels[:1])
    moments = clf._state.model.moments[0]
    assert_allclose(moments.mean, [0.0, 3.0], rtol=1e-14)
    assert_allclose(moments.scatter(), [[0.0, 0.0], [0.0, 2.0]], rtol=1e-12)


@pytest.mark.parametrize("n_persons", [3, 20])
@pytest.mark.parametrize("shared_band_size", [0, 100])
def test_persons_are_deleted_one_after_the_other(n_persons, shared_band_size):
    digits, labels = load_digits(return_X_y=True)
    digits, labels = digits[:600], labels[:600]
    person = np.arange(600) * n_persons // 600
    clf = exact(shared_band_size=shared_band_size).fit(digits, labels)
    order = np.random.default_rng(0).permutation(n_persons)
    for number, gone in enumerate(order[:-1]):
        clf.forget_samples(digits[person == gone], labels[person == gone])
        if number in (0, n_persons // 2, n_persons - 2):
            left = np.isin(person, order[number + 1 :])
            never = exact(shared_band_size=shared_band_size).fit(digits[left], labels[left])
            scores = never.decision_function(digits)
            tolerance = 1e-7 * np.abs(scores).max()
            assert_allclose(clf.decision_function(digits), scores, rtol=1e-7, atol=tolerance)
    last = person == order[-1]
    clf.forget_samples(digits[last], labels[last])
    with pytest.raises(NotFittedError):
        clf.predict(digits)
    clf.partial_fit(digits, labels)
    assert clf.score(digits, labels) > 0.99


@pytest.mark.parametrize("seed", range(3))
def test_single_rows_are_forgotten_until_nothing_is_left(seed):
    samples, labels = load_iris(return_X_y=True)
    order = np.random.default_rng(seed).permutation(150)
    clf = exact(shared_band_size=50).fit(samples, labels)
    for number, row in enumerate(order[:-1], 1):
        clf.forget_samples(samples[[row]], labels[[row]])
        if number in (100, 130, 140):
            left = order[number:]
            never = exact(shared_band_size=50).fit(samples[left], labels[left])
            expected = never.predict_proba(samples)
            assert_allclose(clf.predict_proba(samples), expected, atol=1e-6)
    assert_allclose(clf.class_counts_, [1.0])
    clf.forget_samples(samples[order[-1:]], labels[order[-1:]])
    with pytest.raises(NotFittedError):
        clf.predict(samples)


def test_a_small_column_is_not_lost_in_silence_beside_a_large_one():
    """A typical variance, averaged over columns of unlike units, hid the loss."""
    rows = X * np.where(np.arange(X.shape[1]) == 0, 1e9, 1.0)
    outlier = rows[:1].copy()
    outlier[:, 2] *= 1e6
    clf = exact(shared_band_size=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clf.fit(np.vstack([rows, outlier]), [*CODES, 0])
    with unchanged(clf), pytest.raises(ValueError, match=r"samples of classes \[0\] lie so far"):
        clf.forget_samples(outlier, [0])


def test_the_bound_on_rounding_errors_is_saved():
    digits, labels = load_digits(return_X_y=True)
    clf = exact().fit(digits[:100], labels[:100]).forget_samples(digits[:9], labels[:9])
    stream = BytesIO()
    save(clf, stream)
    stream.seek(0)
    loaded = load(stream)
    for found, expected in zip(loaded._state.model.moments, clf._state.model.moments, strict=True):
        assert_array_equal(found.error_energies, expected.error_energies)
    loaded.forget_samples(digits[9:20], labels[9:20])
    clf.forget_samples(digits[9:20], labels[9:20])
    assert_array_equal(loaded.decision_function(digits), clf.decision_function(digits))
