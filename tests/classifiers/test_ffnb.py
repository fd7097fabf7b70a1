"""FFNBClassifier: trained bands when it forgets and merges, fine-tuning, and the bound."""

import copy

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn import FFNBClassifier, NaiveIncrementalClassifier
from ffnb_sklearn.core import prediction
from ffnb_sklearn.distributed import partial_fit_shards
from tests.separated_classes import (
    CODES,
    N_FEATURES,
    N_SHARED,
    X,
    failing,
    ffnb,
    learned,
    of,
    unchanged,
)

TRACE = "Trained neurons keep a trace of the classes"
INEXACT = "Merging is not exact with trained bands"


# ---- parameters


def test_verbose_counts_the_epochs(capsys):
    tuned = ffnb(verbose=True, bands__max_epochs=3)
    tuned.fit(X, np.random.default_rng(0).permutation(CODES))
    epochs = f"{tuned.n_iter_} epochs, loss {tuned.loss_curve_[-1]:.3g}, "
    assert epochs in capsys.readouterr().out


def test_verbose_prints_a_tenth_of_the_epochs_with_their_losses(capsys):
    tuned = ffnb(verbose=True, bands__max_epochs=25)
    tuned.fit(X, np.random.default_rng(0).permutation(CODES))
    *epochs, task = capsys.readouterr().out.splitlines()

    numbers = range(3, 25, 3)
    assert len(epochs) == len(numbers)
    for number, line in zip(numbers, epochs, strict=True):
        loss = tuned.loss_curve_[number - 1]
        start = f"[FFNBClassifier] task 1: epoch {number} of 25, loss {loss:.3g}, "
        assert line.startswith(start)
    assert task.startswith("[FFNBClassifier] task 1: ")


def test_an_epoch_of_known_classes_belongs_to_no_new_task(capsys):
    clf = NaiveIncrementalClassifier(verbose=True, max_epochs=1, random_state=0)
    learned(clf, [0, 1], [0, 1])

    starts = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert starts == ["[NaiveIncrementalClassifier] task 1"] * 4


def test_fit_streams_one_class_per_task_by_default():
    clf = FFNBClassifier(random_state=0).fit(X, CODES)
    assert [task.tolist() for task in clf.task_classes_] == [[label] for label in range(8)]
    assert clf.transform(X).shape[1] == N_FEATURES + 500 + 8 * 3


def test_bands_have_at_least_one_neuron():
    with pytest.raises(ValueError, match=r"'band_size' parameter .* range \[1, inf\)"):
        ffnb(band_size=0).fit(X, CODES)


def test_a_head_of_identities_has_no_weights_of_own_axes():
    clf = ffnb(covariance="identity").fit(X, CODES)
    clf.predict(X)
    model = clf._state.model
    head = prediction.solve_once(model, torch.device("cpu")).head

    found = sum(one.size for one in (head.centre, head.planes, head.offsets, head.rows))

    assert clf.n_parameters_ - model.feature_map.n_weights == found


# ---- what bands cannot do


def test_single_samples_cannot_be_forgotten():
    assert not hasattr(FFNBClassifier(), "forget_samples")


def test_shards_are_not_merged():
    pytest.importorskip("dask")
    message = "estimator must be an IncrementalDiscriminantAnalysis; got FFNBClassifier"
    with pytest.raises(TypeError, match=message):
        partial_fit_shards(ffnb(), [(X, CODES)])


def test_rename_keeps_trained_bands_and_refuses_to_join_their_classes():
    clf = learned(ffnb(), [0, 1], [2, 3])
    scores = clf.decision_function(X)
    clf.rename({0: 1, 1: 0, 2: 5})
    assert_allclose(clf.decision_function(X), scores[:, [1, 0, 3, 2]], rtol=1e-9)
    message = r"equal new labels\. IncrementalDiscriminantAnalysis joins classes"
    with unchanged(clf), pytest.raises(ValueError, match=message):
        clf.rename({0: 1, 1: 1})


# ---- forgetting


@pytest.mark.parametrize("parameters", [{}, {"n_layers": 2}, {"classifier": "ova"}], ids=repr)
def test_forgetting_with_bands(parameters):
    model = learned(ffnb(**parameters), [0, 1], [2, 3], [4])
    columns = model.transform(X)
    with pytest.warns(UserWarning, match=rf"{TRACE} \[2\]"):
        model.forget(2)
    with pytest.warns(UserWarning, match=rf"{TRACE} \[0\]"):
        model.forget([0])
    assert_array_equal(model.classes_, [1, 3, 4])
    # The neurons of classes 0 and 2 are gone, and the others are as before.
    n_fixed = N_FEATURES + N_SHARED
    remaining = [*range(n_fixed), n_fixed + 1, n_fixed + 3, n_fixed + 4]
    assert_allclose(model.transform(X), columns[:, remaining], rtol=1e-12, atol=1e-12)
    assert set(model.predict(X)) <= {1, 3, 4}
    assert model.score(of(1, 3, 4), np.repeat([1, 3, 4], 20)) > 0.95
    assert_array_equal(learned(model, [2, 5]).classes_, [1, 2, 3, 4, 5])
    assert model.score(of(1, 2, 3, 4, 5), np.repeat([1, 2, 3, 4, 5], 20)) > 0.95


def test_forgetting_the_newest_classes_leaves_no_trace():
    model = learned(ffnb(), [0, 1], [2, 3])
    expected = learned(ffnb(), [0, 1])
    # Warnings are errors here.
    model.forget([2, 3])
    assert_allclose(model.transform(X), expected.transform(X), rtol=1e-12, atol=1e-12)
    assert_allclose(model.decision_function(X), expected.decision_function(X), rtol=1e-9)
    assert model.null_space_dims_ == expected.null_space_dims_


def test_forgetting_one_of_the_newest_classes_leaves_a_trace():
    model = learned(ffnb(), [0, 1], [2, 3])
    with pytest.warns(UserWarning, match=rf"{TRACE} \[3\]"):
        model.forget(3)


def test_a_declared_class_is_forgotten_without_a_trace():
    model = learned(ffnb(), [0, 1], classes=[7])
    columns = model.transform(X)
    model.forget(7)
    assert_array_equal(model.classes_, [0, 1])
    assert_array_equal(model.transform(X), columns)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_cycles_of_learning_and_forgetting_do_not_add_features(n_layers):
    model = learned(ffnb(band_size=3, n_layers=n_layers), [0, 1])
    n_features = []
    for _ in range(20):
        learned(model, [2])
        n_features.append(model.transform(X).shape[1])
        model.forget(2)
    assert set(n_features) == {N_FEATURES + N_SHARED + 3 * 3}
    assert len(model.null_space_dims_) == 1
    assert len(model._state.model.trained.layers.bands) == n_layers


# ---- decay


def test_decay_with_bands_lets_a_class_move_and_keeps_its_neurons():
    model = learned(ffnb(), [0, 1], [2, 3])
    columns, moved = model.transform(X), of(0) + 20.0 * (of(1).mean(0) - of(0).mean(0))
    fading = copy.deepcopy(model).decay(0.01, 0)
    assert_array_equal(fading.transform(X), columns)
    model.partial_fit(moved[:10], np.zeros(10, int))
    fading.partial_fit(moved[:10], np.zeros(10, int))
    nearness = [np.median(one.score_samples(moved[10:])) for one in (model, fading)]
    assert nearness[0] < nearness[1]


# ---- merging


@pytest.mark.parametrize("parameters", [{}, {"n_layers": 2}, {"classifier": "ova"}], ids=repr)
def test_merging_with_bands(parameters):
    first = learned(ffnb(**parameters), [0, 1], [2])
    second = learned(ffnb(**parameters), [4], [3, 5])
    columns = first.transform(X)
    with pytest.warns(UserWarning, match=INEXACT):
        first.merge(second)
    assert_array_equal(first.classes_, np.arange(6))
    assert_array_equal(first.transform(X)[:, : columns.shape[1]], columns)
    assert first.transform(X).shape[1] == N_FEATURES + N_SHARED + 6
    assert first.score(X[:120], CODES[:120]) > 0.95
    assert len(first.null_space_dims_) == 4
    learned(first, [6, 7])
    assert first.score(X, CODES) > 0.95


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"epsilon": 1.0, "p": 2}, "p."),
        ({"n_layers": 2}, "n_layers, p"),
        ({"bands__max_epochs": 1}, "bands__max_epochs."),
        ({"bands__gamma": 1.0}, "bands__gamma."),
        ({"band_size": 2}, "band_size."),
    ],
)
def test_models_of_other_bands_are_not_merged(parameters, names):
    model = learned(ffnb(), [0, 1])
    other = learned(ffnb(**parameters), [2])
    with unchanged(model), pytest.raises(ValueError, match=f"differs in {names}"):
        model.merge(other)


# ---- fine-tuning

# Six classes that overlap and a poor start: else there is nothing to tune.
OVERLAPPING = X + 4.0 * np.random.default_rng(1).standard_normal(X.shape)
CLOSED_FORM = {
    "skip_connection": False,
    "shared_band_size": 0,
    "p": 0.8,
    "bands__gamma": 1.0,
    "shrinkage": 0.25,
    "epsilon": 0.3,
}
DESCENT = {"bands__max_epochs": 12, "bands__learning_rate": 0.03}
TUNED = CLOSED_FORM | DESCENT

WITHOUT_LOSS = "bands__max_epochs=.* has had no effect in a task"


def tuned(model, *tasks):
    for task in tasks:
        now = np.isin(CODES, task)
        model.partial_fit(OVERLAPPING[now], CODES[now])
    return model


def test_fine_tuning_is_recorded():
    model = tuned(ffnb(**TUNED), [0, 1], [2, 3, 4, 5, 6, 7])
    assert model.n_iter_ == len(model.loss_curve_) > 0
    assert np.isfinite(model.loss_curve_).all()
    tuned(model, [3])
    # No new class, no new band, nothing to tune.
    assert (model.n_iter_, model.loss_curve_) == (0, [])
    assert tuned(ffnb(), [0, 1]).n_iter_ == 0
    # All epochs run, also without any loss.
    with pytest.warns(UserWarning, match=WITHOUT_LOSS):
        model = learned(ffnb(**TUNED), [0, 1])
    assert model.loss_curve_ == [0.0] * TUNED["bands__max_epochs"]


def test_fine_tuning_changes_the_newest_bands_only():
    closed = tuned(ffnb(**CLOSED_FORM, random_state=1), [0, 1])
    before = closed.transform(OVERLAPPING)
    model = closed.set_params(**DESCENT)
    tuned(model, [2, 3, 4, 5, 6, 7])
    assert_array_equal(model.transform(OVERLAPPING)[:, : before.shape[1]], before)
    again = ffnb(**CLOSED_FORM, random_state=1)
    tuned(again, [0, 1], [2, 3, 4, 5, 6, 7])
    assert not np.allclose(model.transform(OVERLAPPING), again.transform(OVERLAPPING))


def test_fine_tuning_repeats_with_random_state():
    first, again, other = (
        tuned(ffnb(**TUNED, random_state=seed), [0, 1], [2, 3, 4, 5, 6, 7]) for seed in (0, 0, 1)
    )
    assert first.loss_curve_ == again.loss_curve_
    assert first.loss_curve_ != other.loss_curve_
    assert_array_equal(first.transform(OVERLAPPING), again.transform(OVERLAPPING))


def test_a_failure_in_an_epoch_leaves_the_estimator(monkeypatch):
    model = tuned(ffnb(**TUNED), [0, 1])
    monkeypatch.setattr("ffnb_sklearn.core.bands.tuning.descent.rate_factor", failing)
    with unchanged(model, OVERLAPPING), pytest.raises(RuntimeError, match="told to fail"):
        tuned(model, [2, 3, 4, 5, 6, 7])


def test_a_rate_too_large_is_an_error_that_names_it():
    with pytest.raises(ValueError, match=r"learning_rate=1e\+300 or weight_decay=0.0 is too large"):
        tuned(ffnb(**{**TUNED, "bands__learning_rate": 1e300}), [2, 3, 4, 5, 6, 7])


# ---- batch normalisation


def test_batch_norm_moves_old_features():
    parameters = {**CLOSED_FORM, "bands__batch_norm": True}
    model = learned(ffnb(**parameters), [0, 1])
    before = model.transform(X)
    learned(model, [2, 3])
    after = model.transform(X)
    assert after.shape[1] == before.shape[1] + 2
    assert not np.allclose(after[:, : before.shape[1]], before)


@pytest.mark.parametrize("change", ["merge", "forget"])
def test_batch_norm_survives(change):
    parameters = {"bands__batch_norm": True, "p": 1}
    model = learned(ffnb(**parameters), [0, 1], [2, 3])
    if change == "forget":
        with pytest.warns(UserWarning, match=TRACE):
            model.forget([1])
    else:
        with pytest.warns(UserWarning, match=INEXACT):
            model.merge(learned(ffnb(**parameters), [4, 5]))
    known = np.isin(CODES, model.classes_)
    assert model.score(X[known], CODES[known]) > 0.9
