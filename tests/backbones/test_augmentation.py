import pickle

import numpy as np
import pytest
import torch

from ffnb_sklearn.backbones import FlipCrop, ImageTransform, Jitter
from ffnb_sklearn.backbones._augmentation import augment_batch

IMAGES = torch.arange(1.0, 40 * 2 * 3 * 5 + 1).reshape(40, 2, 3, 5)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def crops_by_hand(image, padding, flip):
    """All images that shifting and mirroring can make of one."""
    n, height, width = image.shape
    padded = np.zeros((n, height + 2 * padding, width + 2 * padding))
    padded[:, padding : padding + height, padding : padding + width] = image
    for top in range(2 * padding + 1):
        for left in range(2 * padding + 1):
            crop = padded[:, top : top + height, left : left + width]
            yield crop
            if flip:
                yield crop[:, :, ::-1]


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_flip_crop_shifts_and_mirrors(padding, flip):
    changed = FlipCrop(padding=padding, flip=flip)(IMAGES, seeded()).numpy()
    chosen = set()
    for image, result in zip(IMAGES.numpy(), changed, strict=True):
        matches = [
            i
            for i, crop in enumerate(crops_by_hand(image, padding, flip))
            if np.array_equal(crop, result)
        ]
        assert len(matches) == 1
        chosen.update(matches)
    n_crops = (2 * padding + 1) ** 2 * (2 if flip else 1)
    assert len(chosen) > 0.5 * n_crops


def test_flip_crop_mirrors_about_half():
    changed = FlipCrop(padding=0)(IMAGES, seeded())
    mirrored = (changed != IMAGES).any(dim=(1, 2, 3)).float().mean().item()
    assert 0.3 < mirrored < 0.7


@pytest.mark.parametrize("cutout", [1, 2, 3])
def test_cutout_sets_a_square_to_zero(cutout):
    images = torch.ones(500, 2, 6, 9)
    changed = FlipCrop(padding=0, flip=False, cutout=cutout)(images, seeded())
    seen = set()
    for image in changed.numpy():
        assert np.array_equal(image[0], image[1])
        rows, columns = np.nonzero(image[0] == 0)
        tops, lefts = np.unique(rows), np.unique(columns)
        # A square but for what is beyond the border.
        assert len(rows) == len(tops) * len(lefts)
        for found, size in ((tops, 6), (lefts, 9)):
            assert np.array_equal(found, np.arange(found[0], found[-1] + 1))
            inside = found[0] > 0 and found[-1] < size - 1
            assert len(found) == cutout if inside else len(found) <= cutout
        seen.add((tops[0], tops[-1], lefts[0], lefts[-1]))
    assert len(seen) == 6 * 9


def test_flip_crop_refuses_rows():
    with pytest.raises(ValueError, match=r"FlipCrop needs images, .* inputs of shape \(6,\)"):
        FlipCrop()(torch.zeros(4, 6), seeded())


@pytest.mark.parametrize(
    ("hook", "parameters", "message"),
    [
        (FlipCrop, {"padding": -1}, "padding must be an integer, at least 0; got -1"),
        (FlipCrop, {"padding": 1.5}, r"padding must be an integer, at least 0; got 1\.5"),
        (FlipCrop, {"cutout": -1}, "cutout must be an integer, at least 0; got -1"),
        (Jitter, {"noise": -1}, "noise must be a finite number, at least 0; got -1"),
        (Jitter, {"scale": float("nan")}, "scale must be a finite number, at least 0; got nan"),
        (Jitter, {"scale": "0.1"}, r"scale must be a finite number, at least 0; got '0\.1'"),
    ],
)
def test_parameters_that_make_no_hook(hook, parameters, message):
    with pytest.raises(ValueError, match=message):
        hook(**parameters)


@pytest.mark.parametrize("shape", [(500, 40), (500, 8, 5)])
def test_jitter_has_the_moments_it_was_given(shape):
    ones = torch.ones(shape, dtype=torch.float64)
    factors = Jitter(noise=0.0, scale=0.2)(ones, seeded()).reshape(500, -1)
    assert torch.equal(factors, factors[:, :1].expand(-1, 40))
    assert factors[:, 0].std().item() == pytest.approx(0.2, rel=0.1)
    assert factors.mean().item() == pytest.approx(1.0, abs=0.05)
    noise = Jitter(noise=0.3, scale=0.0)(ones, seeded()) - 1.0
    assert noise.std().item() == pytest.approx(0.3, rel=0.02)
    assert noise.dtype == torch.float64


@pytest.mark.parametrize("hook", [FlipCrop(padding=1), Jitter(noise=0.5, scale=0.5)])
def test_hooks_draw_from_their_generator_alone_and_leave_the_batch_as_it_was(hook):
    before, state = IMAGES.clone(), torch.get_rng_state()
    first, again, other = (hook(IMAGES, seeded(seed)) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(IMAGES, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert pickle.loads(pickle.dumps(hook)) == hook


def test_values_of_the_parameter():
    assert augment_batch(None, IMAGES, seeded()) is IMAGES
    expected = FlipCrop()(IMAGES, seeded())
    assert torch.equal(augment_batch("flip-crop", IMAGES, seeded()), expected)
    assert torch.equal(augment_batch(lambda batch, _: batch + 1, IMAGES, seeded()), IMAGES + 1)


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (
            lambda batch, _: batch[1:],
            r"was given, \(40, 2, 3, 5\); got an instance of Tensor of shape \(39",
        ),
        (lambda batch, _: None, "of NoneType"),
    ],
)
def test_a_hook_that_returns_something_else(hook, message):
    with pytest.raises(ValueError, match=message):
        augment_batch(hook, IMAGES, seeded())


def test_cutout_draws_beside_its_generator_whatever_the_default_device():
    torch.set_default_device("meta")
    try:
        changed = FlipCrop(cutout=2)(IMAGES, seeded())
    finally:
        torch.set_default_device(None)
    assert torch.equal(changed, FlipCrop(cutout=2)(IMAGES, seeded()))


def rotated_or_not(images):
    """Rotate a batch by a draw of torch's global generator, as torchvision does."""
    return images.flip(3) if torch.rand(()) < 0.5 else images


def test_transforms_of_other_libraries_are_seeded():
    transform = ImageTransform(rotated_or_not)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    changed = [transform(IMAGES, seeded(seed)) for seed in (0, 0, 1, 2, 3, 4, 5)]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(changed[0], changed[1])
    flipped = torch.stack([(one != IMAGES).any(dim=(1, 2, 3)) for one in changed]).float()
    assert 0 < flipped.mean() < 1
    # Every image has a draw of its own.
    assert (flipped.std(dim=1) > 0).all()
    assert pickle.loads(pickle.dumps(transform)) == transform


def test_a_transform_must_be_a_function():
    for wrong in (None, FlipCrop, "flip-crop"):
        with pytest.raises(TypeError, match="transform must be a function or an instance"):
            ImageTransform(wrong)
