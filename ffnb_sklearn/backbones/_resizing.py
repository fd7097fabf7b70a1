"""Scale images as Pillow does, and cut out or pad the centre as timm and torchvision do."""

from math import ceil, pi

import numpy as np
from scipy.sparse import csr_array


def _box(x):
    return ((x > -0.5) & (x <= 0.5)).astype(float)


def _triangle(x):
    return np.maximum(1.0 - np.abs(x), 0.0)


def _hamming(x):
    window = 0.54 + 0.46 * np.cos(pi * x)
    return np.where(np.abs(x) < 1.0, np.sinc(x) * window, 0.0)


def _cubic(x):
    """Return the weights of R. Keys (1981) for a = -0.5."""
    a, x = -0.5, np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x**2 + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def _lanczos(x):
    return np.where(np.abs(x) < 3.0, np.sinc(x) * np.sinc(x / 3.0), 0.0)


# Filters of Pillow by name: weight of a pixel by its distance, and the largest distance. The
# nearest pixel is no weighted mean.
FILTERS = {
    "nearest": (None, 0.0),
    "box": (_box, 0.5),
    "bilinear": (_triangle, 1.0),
    "hamming": (_hamming, 1.0),
    "bicubic": (_cubic, 2.0),
    "lanczos": (_lanczos, 3.0),
}
CROP_MODES = ("center", "border", "squash")


def resized(images, resize, size, crop_mode="center", interpolation="bicubic", fill=0.0):
    """Scale images of shape (n, channels, height, width), and cut out or pad their centre.

    `resize` has the height and the width between scaling and cutting, `size` those of the result.
    `fill` holds the values of added borders, one or one per channel. Only pixels that the result
    depends on are scaled, so that no image is larger than necessary.
    """
    scaled_size = _scaled_size(images.shape[2:], resize, crop_mode)
    windows = [_window(n, side) for n, side in zip(scaled_size, size, strict=True)]
    columns = _weights(images.shape[3], scaled_size[1], windows[1], interpolation)
    rows = _weights(images.shape[2], scaled_size[0], windows[0], interpolation)
    # Skip rows that have no weight before the columns are scaled.
    first, last = rows.indices.min(), rows.indices.max() + 1
    centre = _scaled(images[:, :, first:last], columns, axis=3)
    centre = _scaled(centre, rows[:, first:last], axis=2)
    if centre.shape[2:] == tuple(size):
        return centre
    canvas = np.empty((*images.shape[:2], *size), dtype=images.dtype)
    colour = _rounded(np.broadcast_to(fill, images.shape[1]), images.dtype)
    canvas[:] = colour[:, None, None]
    height, width = centre.shape[2:]
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    canvas[:, :, top : top + height, left : left + width] = centre
    return canvas


def _scaled_size(sides, resize, crop_mode):
    """Return the height and width of the scaled image."""
    if crop_mode == "squash":
        return tuple(resize)
    ratios = [n / goal for n, goal in zip(sides, resize, strict=True)]
    if crop_mode == "center" and resize[0] == resize[1]:
        # The longer side is truncated, as by torchvision.
        return tuple(int(resize[0] * n / min(sides)) for n in sides)
    ratio = max(ratios) if crop_mode == "border" else min(ratios)
    return tuple(max(round(n / ratio), 1) for n in sides)


def _window(scaled, side):
    """Return the first and the last position of the centre on one axis of the scaled image."""
    if scaled <= side:
        return 0, scaled
    first = round((scaled - side) / 2)
    return first, first + side


def _weights(length, scaled, window, interpolation):
    """Return the weights of the pixels of an axis for the pixels in the window of the scaled axis.

    A pixel at distance d of n pixels has the weight f(d / max(n, 1)), where n is the number of
    pixels per scaled pixel, and the weights sum up to 1.
    """
    scale = length / scaled
    centres = (np.arange(*window) + 0.5) * scale
    weight_of, largest = FILTERS[interpolation]
    if weight_of is None:
        # Pillow adds up the centres, whose rounding decides between equally near pixels.
        steps = np.full(window[1], scale)
        steps[0] = 0.5 * scale
        centres = np.add.accumulate(steps)[window[0] :]
        positions = np.minimum(centres.astype(int), length - 1)[:, None]
        weights = np.ones(positions.shape)
    else:
        width = max(scale, 1.0)
        n_pixels = 2 * ceil(largest * width) + 1
        first = np.floor(centres - largest * width).astype(int)
        positions = first[:, None] + np.arange(n_pixels)
        weights = weight_of((positions + 0.5 - centres[:, None]) / width)
        weights[(positions < 0) | (positions >= length)] = 0.0
        weights /= weights.sum(axis=1, keepdims=True)
    number = np.broadcast_to(np.arange(len(centres))[:, None], positions.shape)
    kept = weights != 0.0
    entries = weights[kept], (number[kept], positions[kept])
    return csr_array(entries, shape=(len(centres), length))


def _scaled(images, weights, axis):
    """Multiply one axis of images by weights; bytes are rounded."""
    moved = np.moveaxis(images, axis, 0)
    dtype = np.float32 if images.dtype == np.uint8 else images.dtype
    values = weights.astype(dtype) @ moved.reshape(len(moved), -1).astype(dtype)
    values = _rounded(values, images.dtype).reshape(-1, *moved.shape[1:])
    return np.moveaxis(values, 0, axis)


def _rounded(values, dtype):
    """Convert values to a dtype; round them to bytes."""
    if dtype == np.uint8:
        values = np.floor(values + 0.5).clip(0, 255)
    return values.astype(dtype)
