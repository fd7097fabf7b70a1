"""The bands of a task in closed form: how many, their scale, and what the model gets of them."""

import pytest
import torch

from ffnb_sklearn.core.bands.drafts import append_drafts, draft_bands
from tests.core.small_models import learnt, task, with_bands


def test_each_layer_gets_a_draft_in_the_axes_that_the_past_leaves():
    model, new = learnt([task(0, 1)]), task(2)

    drafts = draft_bands(model, new)

    assert [draft.layer for draft in drafts] == [1, 2]
    assert [draft.open_axes.n_residual for draft in drafts] == [4, 2]
    for draft in drafts:
        assert float((draft.rows @ draft.open_axes.kept.T).abs().max()) < 1e-12


def test_all_bands_have_the_scale_of_the_first():
    model = learnt([task(0, 1)])

    drafts = draft_bands(model, task(2))

    assert {draft.scale for draft in drafts} == {model.trained.layers.bands[0].scale}


def test_absolute_units_leave_rows_and_outputs_as_they_are():
    model = learnt([task(0, 1)], units="absolute")

    for draft in draft_bands(model, task(2)):
        assert draft.scale == 1.0
        assert draft.typical_length == 1.0


def test_appended_drafts_give_the_model_its_new_features():
    model, new = learnt([task(0, 1)]), task(2, 3)
    drafts = draft_bands(model, new)

    after, outputs = append_drafts(model, new, drafts)

    assert outputs.shape == (16, 4)
    assert after.trained.n_newest == 2
    assert after.trained.null_space_dims == (*model.trained.null_space_dims, (4, 3))
    assert len(after.moments) == 2
    assert after.trained.owners.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    assert after.complete_moments(0).mean.shape == (after.feature_map.n_features,)
    # Without left-out responses, the outputs are those of the feature map.
    plain = with_bands(model, left_out=False)
    after, outputs = append_drafts(plain, new, draft_bands(plain, new))
    torch.testing.assert_close(after.feature_map(new.X)[:, -4:], outputs, rtol=1e-9, atol=1e-12)


def test_p_that_leaves_no_axis_names_the_layer():
    model = with_bands(learnt([task(0, 1)]), p=(2, 9))
    with pytest.raises(ValueError, match="p=9 leaves no axis for new neurons in layer 2"):
        draft_bands(model, task(2))
