"""Algorithm 2: what moves, what stays, how fast, and when it ends."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.overrides import TorchFunctionMode

from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.bands.band_settings import BandSettings
from ffnb_sklearn.core.bands.complete_moments import add_task_to_bands, features_with_outputs
from ffnb_sklearn.core.bands.drafts import append_drafts, draft_bands
from ffnb_sklearn.core.bands.layers import Layers
from ffnb_sklearn.core.bands.trained import Trained, layer_columns
from ffnb_sklearn.core.bands.tuning import finetune as module
from ffnb_sklearn.core.bands.tuning.descent import MomentumSteps, multi_class_hinge
from ffnb_sklearn.core.bands.tuning.finetune import Network, Samples, finetune
from tests.core.small_models import CPU, DESCENT, SETTINGS, D, empty, learn, learnt, task

FAST = replace(DESCENT, max_epochs=5, learning_rate=0.05)
GENTLE = replace(DESCENT, max_epochs=30, learning_rate=0.001)
TUNED = replace(SETTINGS, p=(1, 1), skip_connection=False, shared_band_size=0, descent=FAST)


def known(settings=TUNED, tasks=None):
    return learnt(tasks or [task(0, 1)], settings)


def tuned(n=8, **changes):
    """Bands of a second task of 2 n samples before and after tuning, and the loss."""
    settings = replace(TUNED, **changes)
    model, new = known(settings), task(2, 3, n=n)
    drafts = draft_bands(model, new)
    return drafts, *finetune(model, new, drafts)


def leaves_of(drafts):
    """The rows of each band in units of the descent, as leaves."""
    return [(draft.rows * draft.typical_length).requires_grad_() for draft in drafts]


class CountedCopies(TorchFunctionMode):
    """Count calls that copy an array to the CPU, or to a device."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = (*args, *kwargs.values())
        names_device = any(isinstance(one, torch.device) for one in given)
        if function is torch.Tensor.cpu or (function is torch.Tensor.to and names_device):
            self.count += 1
        return function(*args, **kwargs)


def copies_per_epoch(n_known, n, batch_size):
    """Copies of each epoch of the paper's descent after a number of known classes."""
    counts = []
    for max_epochs in (2, 4):
        descent = replace(FAST, max_epochs=max_epochs, batch_size=batch_size)
        settings = replace(TUNED, p=(1,), old_statistics="zero", descent=descent)
        model = known(settings, [task(*range(n_known))])
        new = task(n_known, n=n)
        with CountedCopies() as copies:
            finetune(model, new, draft_bands(model, new))
        counts.append(copies.count)
    return (counts[1] - counts[0]) / 2


def test_an_epoch_copies_the_same_few_arrays_for_any_classes_samples_and_batches():
    few = copies_per_epoch(n_known=2, n=8, batch_size=50)

    assert 0 < few <= 20
    assert copies_per_epoch(n_known=9, n=8, batch_size=50) == few
    assert copies_per_epoch(n_known=2, n=40, batch_size=50) == few
    assert copies_per_epoch(n_known=2, n=40, batch_size=5) == few


def test_without_epochs_bands_stay_as_they_start():
    drafts, after, losses = tuned(descent=DESCENT)

    assert losses == ()
    assert all(a is b for a, b in zip(drafts, after, strict=True))


def test_the_descent_uses_all_pairs_where_gaussians_predict():
    _, pairs, losses = tuned()
    model, new = known(), task(2, 3)
    model = replace(model, settings=replace(model.settings, classifier="gaussian"))

    after, same = finetune(model, new, draft_bands(model, new))

    assert same == losses
    assert all(torch.equal(a.rows, b.rows) for a, b in zip(after, pairs, strict=True))


def test_a_single_class_has_no_loss():
    settings = replace(TUNED, p=(0.5,))
    trained = Trained(settings.of(BandSettings), Layers(D))
    model = replace(empty(D, settings, 0), trained=trained)
    drafts = draft_bands(model, task(0))

    after, losses = finetune(model, task(0), drafts)

    assert losses == ()
    assert after[0] is drafts[0]


def test_rows_move_within_the_open_axes_only():
    model, new = known(), task(2, 3)
    drafts = draft_bands(model, new)
    tuning = module._Tuning(model, new, drafts)
    leaves = leaves_of(drafts)

    tuning._run_epoch(tuning._solve(drafts)[0], leaves, MomentumSteps(leaves, FAST))

    after = tuning._drafts_of([leaf.detach() for leaf in leaves])
    for start, end in zip(drafts, after, strict=True):
        assert not torch.equal(start.rows, end.rows)
        kept = end.open_axes.kept
        assert len(kept) > 0
        assert float((end.rows @ kept.T).abs().max()) < 1e-12


def test_old_bands_are_bit_identical():
    before = known()

    after = learn(before, task(2, 3), TUNED)

    for old, new in zip(before.trained.layers.bands, after.trained.layers.bands[:2], strict=True):
        assert new is old
    assert after.trained.loss_curve


def test_the_loss_falls_from_a_poor_start_and_the_last_epoch_counts():
    drafts, after, losses = tuned(n=60, descent=GENTLE, p=(0, 0), gamma=1.0)

    assert len(losses) == GENTLE.max_epochs
    assert losses[-1] < 0.9 * losses[0]
    assert not torch.equal(after[0].rows, drafts[0].rows)


def test_epochs_go_on_at_a_loss_of_zero_because_weight_decay_still_moves_the_rows(monkeypatch):
    kind = replace(DESCENT, max_epochs=5, weight_decay=1.0)
    monkeypatch.setattr(module, "Network", Silent)
    drafts, after, losses = tuned(descent=kind)

    assert losses == (0.0,) * 5
    for start, end in zip(drafts, after, strict=True):
        assert end.rows.norm() < 0.9 * start.rows.norm()


class Silent(module.Network):
    """A network whose samples all have a loss of zero."""

    def hinge(self, samples, rows):
        return 0.0 * super().hinge(samples, rows)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_rates_mean_the_same_at_every_scale(scale):
    curves = [
        known(TUNED, [replace(one, samples=factor * one.X) for one in (task(0, 1), task(2, 3))])
        for factor in (1.0, scale)
    ]
    curves = [model.trained.loss_curve for model in curves]

    assert_allclose(curves[1], curves[0], rtol=1e-5)


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
        model = known(replace(TUNED, descent=replace(FAST, weight_decay=decay)))
        drafts = draft_bands(model, new)
        tuning = module._Tuning(model, new, drafts)
        leaves = leaves_of(drafts)
        steps = MomentumSteps(leaves, model.trained.settings.descent)
        tuning._run_epoch(tuning._solve(drafts)[0], leaves, steps)
        lengths.append(float(leaves[0].detach().norm()))

    assert lengths[1] < 0.7 * lengths[0]


def test_samples_count_by_their_weights():
    new = task(2, 3)
    tuning = module._Tuning(known(), new, draft_bands(known(), new))

    assert_allclose(tuning._samples.weights, new.weights / new.weights.mean(), rtol=1e-12)


def test_rows_out_of_range_are_an_error_that_names_the_rate():
    with pytest.raises(ValueError, match=r"learning_rate=1e\+300 or weight_decay=0.0 is too large"):
        tuned(activation="relu", descent=replace(DESCENT, max_epochs=5, learning_rate=1e300))


def test_moments_of_new_classes_are_those_of_the_tuned_bands():
    before, new = known(), task(2, 3)
    drafts, _ = finetune(before, new, draft_bands(before, new))

    after = learn(before, new, TUNED)

    outputs = drafts[0].scale * torch.relu(drafts[0].responses)
    for label in (2, 3):
        now = new.classes == label
        share = new.weights[now] / new.weights[now].sum()
        columns = layer_columns(after, 1)[-2:]
        mean = after.complete_moments(label).mean[columns]
        assert_allclose(mean, share @ outputs[now], rtol=1e-9)
    assert_array_equal(after.trained.layers.bands[2].weights, drafts[0].rows)


def last_task(**changes):
    """A model with the bands of a second task, its samples, the rows of the bands, the network."""
    settings = replace(SETTINGS, **changes)
    before = learnt([task(0, 1)], settings)
    new = task(2, 3)
    drafts = draft_bands(before, new)
    model, fresh = append_drafts(before, new, drafts)
    model = add_task_to_bands(model, new, features_with_outputs(model, new, fresh))
    zeros = torch.zeros(len(new.X), sum(len(draft.rows) for draft in drafts), dtype=torch.float64)
    samples = Samples(before.feature_map(new.X), zeros, new.classes, new.weights)
    network = Network(
        before, model.trained.layers.bands[-2:], prediction.solve_once(model, CPU).head, CPU
    )
    return model, new, samples, [draft.rows for draft in drafts], network


@pytest.mark.parametrize("classifier", ["ovo", "ova"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("skip_connection", [False, True])
def test_the_hinge_is_that_of_the_models_scores(
    classifier, activation, batch_norm, skip_connection
):
    model, new, samples, rows, network = last_task(
        classifier=classifier,
        activation=activation,
        batch_norm=batch_norm,
        skip_connection=skip_connection,
    )

    found = network.hinge(samples, rows)

    expected = multi_class_hinge(prediction.scores(model, new.X), new.classes)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_gradients_are_those_of_finite_differences():
    _, _, samples, rows, network = last_task(activation="tanh")
    moving = [row.clone().requires_grad_() for row in rows]

    assert torch.autograd.gradcheck(lambda *rows: network.hinge(samples, rows).sum(), moving)


def test_some_of_the_samples_are_taken():
    samples = last_task()[2]

    some = samples.take(torch.tensor([3, 1]))

    for values, chosen in zip(samples, some, strict=True):
        assert torch.equal(chosen, values[[3, 1]])
