import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from ffnb_sklearn.backbones import MirrorShift

IMAGES = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5) + 1


def test_a_view_is_the_image_and_the_next_its_mirror_image():
    first, second = MirrorShift()(IMAGES)
    assert_array_equal(first, IMAGES)
    assert_array_equal(second, IMAGES.numpy()[..., ::-1])


def test_shifts_go_to_four_sides_and_let_zeros_in():
    views = [view.numpy() for view in MirrorShift(shift=2, mirror=False)(IMAGES)]
    images = IMAGES.numpy()
    assert len(views) == 5
    moved = {name: np.zeros_like(images) for name in ("down", "up", "right", "left")}
    moved["down"][:, :, 2:], moved["up"][:, :, :-2] = images[:, :, :-2], images[:, :, 2:]
    moved["right"][..., 2:], moved["left"][..., :-2] = images[..., :-2], images[..., 2:]
    for view, expected in zip(views[1:], moved.values(), strict=True):
        assert_array_equal(view, expected)


@pytest.mark.parametrize("shift", [-1, 1.5, "1"])
def test_a_shift_that_is_no_number_of_pixels(shift):
    with pytest.raises(ValueError, match="shift must be an integer, at least 0; got"):
        MirrorShift(shift=shift)


def test_rows_have_no_views():
    with pytest.raises(ValueError, match=r"MirrorShift needs .*inputs of shape \(12"):
        list(MirrorShift()(torch.ones(2, 12)))
