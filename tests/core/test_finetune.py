"""Algorithm 2: what moves, what stays, how fast, and when it ends."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core import finetune as module
from ffnb_sklearn.core.descent import Descent, MomentumSteps
from ffnb_sklearn.core.finetune import finetune
from ffnb_sklearn.core.growth import draft_bands
from ffnb_sklearn.core.learning import learn
from ffnb_sklearn.core.model import empty_model
from tests.core.small_models import SETTINGS, D, learnt, task

DESCENT = Descent(max_epochs=5, learning_rate=0.05)
TUNED = replace(SETTINGS, p=(1, 1), skip_connection=False, shared_band_size=0, descent=DESCENT)


def known(settings=TUNED, tasks=None):
    return learnt(tasks or [task(0, 1)], settings)


def tuned(**changes):
    """Bands of a second task before and after tuning, and the loss."""
    settings = replace(TUNED, **changes)
    model, new = known(settings), task(2, 3)
    drafts = draft_bands(model, new)
    return drafts, *finetune(model, new, drafts)


def test_without_epochs_bands_stay_as_they_start():
    drafts, after, losses = tuned(descent=Descent())

    assert losses == ()
    assert all(a is b for a, b in zip(drafts, after, strict=True))


def test_a_single_class_has_no_loss():
    settings = replace(TUNED, p=(0.5,))
    model = empty_model(D, settings, 0)
    drafts = draft_bands(model, task(0))

    after, losses = finetune(model, task(0), drafts)

    assert losses == ()
    assert after[0] is drafts[0]


def test_rows_move_within_the_open_axes_only():
    descent = Descent(max_epochs=30, learning_rate=0.05)
    drafts, after, losses = tuned(descent=descent, old_statistics="zero")

    assert 0 < len(losses) <= 30
    for start, end in zip(drafts, after, strict=True):
        assert not torch.equal(start.rows, end.rows)
        kept = end.open_axes.kept
        assert len(kept) > 0
        assert float((end.rows @ kept.T).abs().max()) < 1e-12


def test_old_bands_are_bit_identical():
    before = known()

    after = learn(before, task(2, 3), TUNED)

    for old, new in zip(before.features.bands, after.features.bands[:2], strict=True):
        assert new is old
    assert after.loss_curve


def test_the_best_epoch_counts_and_the_start_is_one(monkeypatch):
    # A rate this large makes the first step worse than the start.
    drafts, after, losses = tuned(descent=Descent(max_epochs=30, learning_rate=1e4))

    assert len(losses) == 10
    assert all(torch.equal(a.rows, b.rows) for a, b in zip(drafts, after, strict=True))


@pytest.mark.parametrize(
    ("own", "drawn", "better"),
    [
        ([0.1, 0.1, 0.1, 0.1], [0.0, 0.0], True),
        ([0.1, 0.1, 0.1, 0.1], [0.2, -0.1], True),
        ([0.1, 0.1, 0.1, 0.1], [0.1, -0.2], False),
        # A gain of 0.5 on the mean, with a standard error of 0.75.
        ([3.0, -1.0, 0.0, 0.0], [0.0, 0.0], False),
        ([0.0, 0.0, 0.0, 0.0], [1.0, 1.0], False),
        ([0.1, 0.1, 0.1, 0.1], [], True),
    ],
)
def test_an_epoch_has_to_be_better_for_the_task_and_no_worse_for_draws(own, drawn, better):
    tuning = module._Tuning(known(), task(2, 3), draft_bands(known(), task(2, 3)))
    assert tuning._n_own == 4
    before = torch.full((4 + len(drawn),), 5.0)

    assert tuning._is_better(before - torch.tensor([*own, *drawn]), before) == better


def test_the_loss_of_samples_held_out_falls_from_a_poor_start():
    descent = Descent(max_epochs=30, learning_rate=0.05)
    drafts, after, losses = tuned(descent=descent, p=(0, 0), gamma=10.0)

    # It ends with the first epoch that leaves no loss.
    assert losses[0] > 0.1
    assert losses[-1] == 0.0
    assert not torch.equal(after[0].rows, drafts[0].rows)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_rates_mean_the_same_at_every_scale(scale):
    # Without draws: the same noise falls along other axes where inputs outweigh the bands.
    settings = replace(TUNED, old_statistics="zero")
    curves = [
        known(settings, [replace(one, X=factor * one.X) for one in (task(0, 1), task(2, 3))])
        for factor in (1.0, scale)
    ]
    curves = [model.loss_curve for model in curves]

    assert_allclose(curves[1], curves[0], rtol=1e-5)


def test_draws_of_old_classes_stand_in_the_loss_only_where_these_are_gaussian(monkeypatch):
    seen = []
    original = module.pseudo_features

    def counted(moments, n_per_class, rng, *, device):
        seen.append((len(moments), n_per_class))
        return original(moments, n_per_class, rng, device=device)

    monkeypatch.setattr(module, "pseudo_features", counted)
    tuned(old_statistics="zero")
    assert seen == []
    _, _, losses = tuned()
    # Once to judge by, and anew in every epoch; as many as a new class has samples there.
    assert seen == [(2, 2)] + [(2, 6)] * len(losses)


def test_draws_are_limited_and_weigh_as_much_as_a_new_class():
    model = known(tasks=[task(*range(40), n=3)])
    tuning = module._Tuning(model, task(40, n=8), draft_bands(model, task(40, n=8)))

    samples = tuning._with_draws(tuning._trained)

    assert len(samples.classes) == 6 + 40
    weights = torch.zeros(41, dtype=torch.float64).index_add(0, samples.classes, samples.weights)
    assert_allclose(weights[:40], 6.0, rtol=1e-12)


def test_it_repeats_with_the_seed_and_leaves_the_global_generators_alone():
    torch.manual_seed(0)
    state = torch.get_rng_state()

    first = tuned()[1]
    np.random.seed(1)  # noqa: NPY002
    again = tuned()[1]

    assert all(torch.equal(a.rows, b.rows) for a, b in zip(first, again, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


def test_it_works_where_gradients_are_switched_off():
    with torch.no_grad():
        quiet = tuned()[2]

    assert quiet == tuned()[2]


def test_weight_decay_shortens_the_rows():
    new, lengths = task(2, 3), []
    for decay in (0.0, 10.0):
        model = known(replace(TUNED, descent=replace(DESCENT, weight_decay=decay)))
        drafts = draft_bands(model, new)
        tuning = module._Tuning(model, new, drafts)
        steps = [draft.rows.clone().requires_grad_() for draft in drafts]
        move = MomentumSteps(steps, model.settings.descent)
        tuning._epoch(tuning._solved(drafts)[0], drafts, steps, move)
        lengths.append(float(steps[0].detach().norm()))

    assert lengths[1] < 0.7 * lengths[0]


def test_samples_count_by_their_weights():
    new = task(2, 3)
    tuning = module._Tuning(known(), new, draft_bands(known(), new))

    weights = dict(zip(map(tuple, new.X.tolist()), new.weights / new.weights.mean(), strict=True))
    expected = [weights[tuple(x)] for x in tuning._trained.old[0].tolist()]
    assert_allclose(tuning._trained.weights, expected, rtol=1e-12)


def test_a_quarter_of_each_class_judges_and_has_no_part_in_the_gradients():
    new = task(2, 3)
    tuning = module._Tuning(known(), new, draft_bands(known(), new))

    assert torch.bincount(tuning._trained.classes).tolist() == [0, 0, 6, 6]
    # Two held out of each new class, and as many draws of each old one.
    assert torch.bincount(tuning._judged.classes).tolist() == [2, 2, 2, 2]
    rows = torch.cat([tuning._trained.old[0], tuning._judged.old[0][:4]])
    assert len(torch.unique(rows, dim=0)) == 16


def test_classes_of_a_single_sample_judge_themselves():
    new = task(2, 3, n=1)
    tuning = module._Tuning(known(), new, draft_bands(known(), new))

    assert len(tuning._trained.classes) == 2
    assert len(tuning._judged.classes) == 2 + 2


def test_rows_out_of_range_are_an_error_that_names_the_rate():
    with pytest.raises(ValueError, match=r"learning_rate=1e\+300 is too large"):
        tuned(activation="relu", descent=Descent(max_epochs=5, learning_rate=1e300))


def test_moments_of_new_classes_are_those_of_the_tuned_bands():
    before, new = known(), task(2, 3)
    drafts, _ = finetune(before, new, draft_bands(before, new))

    after = learn(before, new, TUNED)

    outputs = torch.relu(drafts[0].responses(new.X))
    for label in (2, 3):
        now = new.classes == label
        share = new.weights[now] / new.weights[now].sum()
        columns = after.features.layer(1)[-2:]
        assert_allclose(after.moments[label].mean[columns], share @ outputs[now], rtol=1e-9)
    assert_array_equal(after.features.bands[2].weights, drafts[0].rows)
