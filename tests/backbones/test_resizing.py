"""Images are scaled as by Pillow, and cut or padded as by timm."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor
from ffnb_sklearn.backbones._resizing import FILTERS, resize_images

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(0)
MEAN = [10.4, 99.6, 200.0]


def expected_of(picture, resize, size, crop_mode, interpolation):
    """Compute the transform of timm's evaluations by Pillow."""
    sides = np.array([picture.height, picture.width])
    if crop_mode == "squash":
        scaled = resize
    elif crop_mode == "border":
        scaled = [round(side / max(sides / resize)) for side in sides]
    elif resize[0] == resize[1]:
        scaled = [int(resize[0] * side / min(sides)) for side in sides]
    else:
        scaled = [round(side / min(sides / resize)) for side in sides]
    picture = picture.resize(tuple(scaled)[::-1], getattr(Image.Resampling, interpolation.upper()))
    canvas = np.empty((*np.maximum(scaled, size), 3), dtype=np.uint8)
    canvas[:] = np.round(MEAN)
    top, left = ((n - m) // 2 for n, m in zip(canvas.shape, scaled, strict=False))
    canvas[top : top + scaled[0], left : left + scaled[1]] = np.asarray(picture)
    top, left = (round((n - m) / 2) for n, m in zip(canvas.shape, size, strict=False))
    return canvas[top : top + size[0], left : left + size[1]].transpose(2, 0, 1)


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("crop_mode", ["center", "border", "squash"])
@pytest.mark.parametrize(("resize", "size"), [((16, 16), (13, 12)), ((20, 14), (20, 14))])
@pytest.mark.parametrize("sides", [(50, 37), (9, 16), (16, 16), (5, 64)])
def test_images_are_scaled_as_by_pillow(interpolation, crop_mode, resize, size, sides):
    image = RNG.integers(256, size=(*sides, 3), dtype=np.uint8)
    picture = Image.fromarray(image)
    expected = expected_of(picture, resize, size, crop_mode, interpolation)
    found = resize_images(
        image.transpose(2, 0, 1)[None], resize, size, crop_mode, interpolation, MEAN
    )
    assert found.dtype == np.uint8
    # Pillow rounds the weights, which decides about halves.
    assert np.abs(found[0].astype(int) - expected).max() <= 1
    floats = resize_images(
        image.transpose(2, 0, 1)[None] / 255, resize, size, crop_mode, interpolation, 0.0
    )
    assert floats.dtype == np.float64
    assert floats.shape == found.shape


@pytest.mark.parametrize("interpolation", FILTERS)
def test_a_constant_image_stays_constant(interpolation):
    images = np.full((2, 1, 30, 7), 0.3)
    assert_allclose(resize_images(images, (9, 9), (9, 5), "center", interpolation), 0.3, rtol=1e-12)


def test_thin_images_take_little_memory():
    image = np.zeros((1, 3, 1, 200_000), dtype=np.uint8)
    for crop_mode in ("center", "border", "squash"):
        assert resize_images(image, (256, 256), (224, 224), crop_mode).shape == (1, 3, 224, 224)


def extractor(**parameters):
    values = {"input_shape": (3, 12, 12), "resize": 16, "mean": MEAN}
    return TorchFeatureExtractor(nn.Flatten, **{**values, **parameters})


@pytest.mark.parametrize("crop_mode", ["center", "border", "squash"])
@pytest.mark.parametrize("resize", [16, [20, 14], 9])
def test_an_extractor_scales_each_form(crop_mode, resize, tmp_path):
    images = [RNG.integers(256, size=(20 + k, 33, 3), dtype=np.uint8) for k in range(3)]
    pictures = [Image.fromarray(image) for image in images]
    scaled = extractor(crop_mode=crop_mode, resize=resize, interpolation="bilinear")
    if resize == 9 and crop_mode != "border":
        with pytest.raises(ValueError, match=r"resize must be at least .* got resize=9"):
            scaled.fit(images)
        return
    sides = (resize, resize) if isinstance(resize, int) else resize
    expected = [expected_of(one, sides, (12, 12), crop_mode, "bilinear") for one in pictures]
    means = np.reshape(MEAN, (3, 1, 1))
    features = scaled.fit_transform(pictures)
    assert_allclose(features, (expected - means).reshape(3, -1), atol=1.01)
    assert_array_equal(scaled.transform(images), features)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"crop_mode": "pad"}, "'crop_mode' parameter"),
        ({"interpolation": "cubic"}, "'interpolation' parameter"),
        ({"resize": (16, 16, 16)}, "resize must be a positive integer or a pair"),
        ({"resize": (16, 0)}, "resize must be a positive integer or a pair"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        extractor(**parameters).fit(np.zeros((2, 20, 20, 3), dtype=np.uint8))
