"""Parameters of trained bands as settings, and warnings of options without effect."""

from dataclasses import replace

import numpy as np
import pytest

from ffnb_sklearn import Bands, FFNBClassifier
from ffnb_sklearn._base.band_parameters import band_settings_of, check_band_continuation
from tests.separated_classes import CODES, X, learned

# ---- settings


@pytest.mark.parametrize(
    ("p", "n_layers", "expected"),
    [
        (0.5, 1, (0.5,)),
        (3, 2, (3, 3)),
        (0, 1, (0,)),
        ([1, 0.9], 2, (1, 0.9)),
        ((np.int64(2), np.float32(0.5)), 2, (2, 0.5)),
    ],
)
def test_p_has_one_entry_per_layer_of_a_plain_type(p, n_layers, expected):
    settings = band_settings_of(FFNBClassifier(p=p, n_layers=n_layers))
    assert settings.p == expected
    assert [type(one) for one in settings.p] == [type(one) for one in expected]


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([], r"n_layers=1; got 0 entries"),
        ([1, 2], r"n_layers=1; got 2 entries"),
        ([-1], "got -1"),
        ([1.0], r"got 1\.0"),
        ([0.0], r"got 0\.0"),
        ([np.nan], "got nan"),
        (["a"], "got 'a'"),
        ([None], "got None"),
    ],
)
def test_entries_of_p_that_mean_nothing(p, message):
    with pytest.raises(ValueError, match=f"p must .*{message}"):
        band_settings_of(FFNBClassifier(p=p))


def test_options_of_the_descent_are_settings_of_their_own():
    settings = band_settings_of(FFNBClassifier(bands=Bands(max_epochs=np.int64(3), momentum=0)))
    assert (settings.descent.max_epochs, settings.descent.momentum) == (3, 0.0)
    assert [type(value) for value in (settings.descent.max_epochs, settings.descent.momentum)] == [
        int,
        float,
    ]
    # All epochs of Algorithm 2 run.
    assert settings.descent.patience is None


@pytest.mark.parametrize(
    ("change", "is_refused"),
    [({"p": (0.95, 0.95)}, True), ({"p": (3,)}, False), ({"band_size": 4}, False)],
)
def test_what_may_change_between_tasks(change, is_refused):
    model = learned(FFNBClassifier(shared_band_size=5, random_state=0), [0, 1])._state.model
    settings = replace(model.trained.settings, **change)
    if not is_refused:
        check_band_continuation(model, settings)
        return
    message = r"n_layers cannot change between tasks: it was 1 in .* is 2 now"
    with pytest.raises(ValueError, match=message):
        check_band_continuation(model, settings)


# ---- options without effect


def small(**parameters):
    return FFNBClassifier(shared_band_size=5, random_state=0).set_params(**parameters)


@pytest.mark.parametrize("classes_per_task", [None, 8, 100])
def test_one_task_has_one_warning_of_all_options_that_later_tasks_read(classes_per_task):
    clf = small(
        classes_per_task=classes_per_task,
        p=2,
        bands__null_space=True,
        bands__init="mono",
        bands__old_statistics="zero",
    )
    message = (
        r"no effect, because fit learns all classes as one task: p, bands__init, "
        rf"bands__old_statistics\. Set classes_per_task, .* got classes_per_task={classes_per_task}"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        clf.fit(X, CODES)
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("classes_per_task", [1, 7, None])
def test_default_options_have_no_warning(classes_per_task):
    # Warnings are errors here.
    small(classes_per_task=classes_per_task).fit(X, CODES)


def test_random_neurons_are_no_option_of_later_tasks():
    one_task = {"classes_per_task": None}
    features = small(**one_task).fit(X, CODES).transform(X)
    # Warnings are errors here.
    random_features = small(**one_task, bands__init="random").fit(X, CODES).transform(X)
    assert np.abs(random_features - features).max() > 1e-3


def test_options_have_no_warning_in_calls_that_have_tasks():
    small(p=2, classes_per_task=1).fit(X, CODES)
    learned(small(p=2), [0, 1], [2])


@pytest.mark.parametrize(
    ("parameters", "idle", "reason"),
    [
        (
            {"bands__learning_rate": 0.1, "bands__momentum": 0.5},
            "bands__learning_rate, bands__momentum",
            "bands__max_epochs=0, which skips the descent",
        ),
        ({"bands__weight_decay": 0.1}, "bands__weight_decay", "bands__max_epochs=0"),
        ({"bands__adaptive_rate": False}, "bands__adaptive_rate", "bands__max_epochs=0"),
        ({"bands__batch_size": 7}, "bands__batch_size", "bands__max_epochs=0"),
        ({"bands__null_space": False, "p": 2}, "p", "bands__null_space=False"),
        (
            {"bands__init": "random", "bands__gamma": 9.0, "bands__left_out": False},
            "bands__gamma, bands__left_out",
            'bands__init="random"',
        ),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_options_that_other_options_leave_without_effect(parameters, idle, reason, method):
    clf = small(**parameters)
    message = rf"These parameters have no effect with {reason}.*: {idle}\.$"
    with pytest.warns(UserWarning, match=message) as caught:
        getattr(clf, method)(X, CODES)
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("p", [0.5, 2])
def test_a_single_label_is_one_task_without_a_warning(p):
    few = np.zeros(len(X), dtype=int)
    small(p=p).fit(X, few)


def test_batch_normalisation_reads_the_size_of_a_batch():
    small(bands__batch_norm=True, bands__batch_size=7).fit(X, CODES)


def test_epochs_without_any_loss_have_a_warning():
    clf = small(bands__max_epochs=2)
    with pytest.warns(UserWarning, match=r"bands__max_epochs=2 has had no effect in a task"):
        learned(clf, [0, 1])
    # Weight decay moves the rows also without a loss.
    learned(small(bands__max_epochs=2, bands__weight_decay=0.1), [0, 1])
