"""FFNBClassifier: trained bands when it forgets and merges, fine-tuning, and the bound."""

import copy

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from ffnb_sklearn import Bands, FFNBClassifier, NaiveIncrementalClassifier
from ffnb_sklearn._base.bound import descent_bound
from ffnb_sklearn.core import prediction
from ffnb_sklearn.distributed import partial_fit_shards
from tests.separated_classes import CODES, N_FEATURES, X, failing, learned, of, unchanged

N_SHARED = 10

TRACE = "Trained neurons keep a trace of the classes"
INEXACT = "Merging is not exact with trained bands"


def estimator(**parameters):
    """Return an estimator with bands of one neuron; `fit` learns one task."""
    return FFNBClassifier().set_params(
        **{
            "band_size": 1,
            "classes_per_task": None,
            "shared_band_size": N_SHARED,
            "random_state": 0,
            **parameters,
        }
    )


# ---- parameters


def test_verbose_counts_the_epochs(capsys):
    tuned = estimator(verbose=True, bands__max_epochs=3)
    tuned.fit(X, np.random.default_rng(0).permutation(CODES))
    epochs = f"{tuned.n_iter_} epochs, loss {tuned.loss_curve_[-1]:.3g}, "
    assert epochs in capsys.readouterr().out


def test_verbose_prints_a_tenth_of_the_epochs_with_their_losses(capsys):
    tuned = estimator(verbose=True, bands__max_epochs=25)
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
        estimator(band_size=0).fit(X, CODES)


def test_a_head_of_identities_has_no_weights_of_own_axes():
    clf = estimator(covariance="identity").fit(X, CODES)
    clf.predict(X)
    model = clf._state.model
    head = prediction.solve_once(model, torch.device("cpu")).classifier

    found = sum(one.size for one in (head.centre, head.planes, head.offsets, head.rows))

    assert clf.n_parameters_ - model.feature_map.n_weights == found


# ---- what bands cannot do


def test_single_samples_cannot_be_forgotten():
    assert not hasattr(FFNBClassifier(), "forget_samples")


def test_shards_are_not_merged():
    pytest.importorskip("dask")
    message = "estimator must be an IncrementalDiscriminantAnalysis; got FFNBClassifier"
    with pytest.raises(TypeError, match=message):
        partial_fit_shards(estimator(), [(X, CODES)])


def test_rename_keeps_trained_bands_and_refuses_to_join_their_classes():
    clf = learned(estimator(), [0, 1], [2, 3])
    scores = clf.decision_function(X)
    clf.rename({0: 1, 1: 0, 2: 5})
    assert_allclose(clf.decision_function(X), scores[:, [1, 0, 3, 2]], rtol=1e-9)
    message = r"equal new labels\. IncrementalDiscriminantAnalysis joins classes"
    with unchanged(clf), pytest.raises(ValueError, match=message):
        clf.rename({0: 1, 1: 1})


# ---- forgetting


@pytest.mark.parametrize("parameters", [{}, {"n_layers": 2}, {"classifier": "ova"}], ids=repr)
def test_forgetting_with_bands(parameters):
    model = learned(estimator(**parameters), [0, 1], [2, 3], [4])
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
    model = learned(estimator(), [0, 1], [2, 3])
    expected = learned(estimator(), [0, 1])
    # Warnings are errors here.
    model.forget([2, 3])
    assert_allclose(model.transform(X), expected.transform(X), rtol=1e-12, atol=1e-12)
    assert_allclose(model.decision_function(X), expected.decision_function(X), rtol=1e-9)
    assert model.null_space_dims_ == expected.null_space_dims_


def test_forgetting_one_of_the_newest_classes_leaves_a_trace():
    model = learned(estimator(), [0, 1], [2, 3])
    with pytest.warns(UserWarning, match=rf"{TRACE} \[3\]"):
        model.forget(3)


def test_a_declared_class_is_forgotten_without_a_trace():
    model = learned(estimator(), [0, 1], classes=[7])
    columns = model.transform(X)
    model.forget(7)
    assert_array_equal(model.classes_, [0, 1])
    assert_array_equal(model.transform(X), columns)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_cycles_of_learning_and_forgetting_do_not_add_features(n_layers):
    model = learned(estimator(band_size=3, n_layers=n_layers), [0, 1])
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
    model = learned(estimator(), [0, 1], [2, 3])
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
    first = learned(estimator(**parameters), [0, 1], [2])
    second = learned(estimator(**parameters), [4], [3, 5])
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
    model = learned(estimator(), [0, 1])
    other = learned(estimator(**parameters), [2])
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
    model = tuned(estimator(**TUNED), [0, 1], [2, 3, 4, 5, 6, 7])
    assert model.n_iter_ == len(model.loss_curve_) > 0
    assert np.isfinite(model.loss_curve_).all()
    tuned(model, [3])
    # No new class, no new band, nothing to tune.
    assert (model.n_iter_, model.loss_curve_) == (0, [])
    assert tuned(estimator(), [0, 1]).n_iter_ == 0
    # All epochs run, also without any loss.
    with pytest.warns(UserWarning, match=WITHOUT_LOSS):
        model = learned(estimator(**TUNED), [0, 1])
    assert model.loss_curve_ == [0.0] * TUNED["bands__max_epochs"]


def test_fine_tuning_changes_the_newest_bands_only():
    closed = tuned(estimator(**CLOSED_FORM, random_state=1), [0, 1])
    before = closed.transform(OVERLAPPING)
    model = closed.set_params(**DESCENT)
    tuned(model, [2, 3, 4, 5, 6, 7])
    assert_array_equal(model.transform(OVERLAPPING)[:, : before.shape[1]], before)
    again = estimator(**CLOSED_FORM, random_state=1)
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
    clf = estimator(p=1, bands=Bands(batch_norm=True))
    for task in ((0, 1), (2,)):
        clf.partial_fit(X[np.isin(y, task)], y[np.isin(y, task)])
    clf.set_params(bands__batch_norm=False).partial_fit(X[y == 2], y[y == 2])
    with pytest.raises(ValueError, match=r"with Bands\(batch_norm=False\)"):
        clf.forgetting_bound(X[y < 2])


def test_batch_norm_moves_old_features():
    parameters = {**CLOSED_FORM, "bands__batch_norm": True}
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
        with pytest.warns(UserWarning, match=TRACE):
            model.forget([1])
    else:
        with pytest.warns(UserWarning, match=INEXACT):
            model.merge(learned(estimator(**parameters), [4, 5]))
    known = np.isin(CODES, model.classes_)
    assert model.score(X[known], CODES[known]) > 0.9


# ---- the bound on forgetting


@pytest.mark.filterwarnings(f"ignore:{WITHOUT_LOSS}:UserWarning")
def test_the_drift_is_within_the_bound():
    model = learned(estimator(p=1, n_layers=2, bands__max_epochs=2), [0, 1, 2], [3, 4])

    found = model.forgetting_bound(of(0, 1, 2))

    assert len(found.layers) == 2
    assert 0.0 < found.drift <= found.bound
    assert all(one.drift <= one.tight_bound <= one.bound for one in found.layers)


@pytest.mark.parametrize(
    ("parameters", "tasks"),
    [
        ({}, [[0, 1]]),
        ({"bands__batch_norm": True, "p": 1}, [[0, 1], [2]]),
    ],
)
def test_there_may_be_no_bound(parameters, tasks):
    model = learned(estimator(**parameters), *tasks)
    with pytest.raises(
        ValueError, match="forgetting_bound needs two tasks that brought trained bands"
    ):
        model.forgetting_bound(X)


@pytest.mark.parametrize("change", ["merge", "forget"])
def test_after_a_merge_there_is_no_newest_task(change):
    model = learned(estimator(), [0, 1])
    if change == "merge":
        with pytest.warns(UserWarning, match=INEXACT):
            model.merge(learned(estimator(), [2, 3]))
    else:
        learned(model, [2, 3, 5])
        with pytest.warns(UserWarning, match=TRACE):
            model.forget([5])
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


@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "X_previous contains NaN"), (1e80, "X_previous must have magnitudes of at most")],
)
def test_the_bound_names_its_samples_dense_and_sparse(value, message):
    model = learned(estimator(), [0, 1], [2])
    wrong = np.full((1, N_FEATURES), value)
    for samples in (wrong, sparse.csr_array(wrong)):
        with pytest.raises(ValueError, match=message):
            model.forgetting_bound(samples)


def test_the_bound_names_sparse_samples_with_a_wrong_index():
    model = learned(estimator(), [0, 1], [2])
    wrong = sparse.csr_array(X)
    wrong.indices[3] = N_FEATURES
    with pytest.raises(ValueError, match="X_previous must have indices within its shape"):
        model.forgetting_bound(wrong)


@pytest.mark.filterwarnings(f"ignore:{WITHOUT_LOSS}:UserWarning")
def test_the_bound_of_a_descent_leaves_the_classifier():
    model = learned(estimator(p=1, bands__max_epochs=2), [0, 1])

    with unchanged(model):
        bound = descent_bound(model, of(2), np.full(20, 2), of(0, 1))

    assert bound > 0.0
