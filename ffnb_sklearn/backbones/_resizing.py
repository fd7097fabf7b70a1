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
    weights = np.sinc(x) * window
    return np.where(np.abs(x) < 1.0, weights, 0.0)


def _cubic(x):
    """Return the weights of R. Keys (1981) for a = -0.5."""
    a = -0.5
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x**2 + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.select([x < 1.0, x < 2.0], [near, far], default=0.0)


def _lanczos(x):
    weights = np.sinc(x) * np.sinc(x / 3.0)
    return np.where(np.abs(x) < 3.0, weights, 0.0)


# Filters of Pillow by name: the weight of a pixel as a function of its distance, and the largest
# distance with a weight. The nearest pixel is not a weighted mean.
FILTERS = {
    "nearest": (None, 0.0),
    "box": (_box, 0.5),
    "bilinear": (_triangle, 1.0),
    "hamming": (_hamming, 1.0),
    "bicubic": (_cubic, 2.0),
    "lanczos": (_lanczos, 3.0),
}
CROP_MODES = ("center", "border", "squash")


def resize_images(images, resize, size, crop_mode="center", interpolation="bicubic", fill=0.0):
    """Scale images of shape (n, channels, height, width), and cut out or pad their centre.

    `resize` has the height and the width between scaling and cutting, `size` those of the result.
    `fill` holds the values of added borders, either one value or one per channel. Only pixels on
    which the result depends are scaled, so that no array is larger than necessary.
    """
    height, width = images.shape[2:]
    scaled_height, scaled_width = _scaled_size((height, width), resize, crop_mode)
    row_window = _window(scaled_height, size[0])
    column_window = _window(scaled_width, size[1])
    row_weights = _weights(height, scaled_height, row_window, interpolation)
    column_weights = _weights(width, scaled_width, column_window, interpolation)
    # Skip rows without weight before the columns are scaled.
    first_row = row_weights.indices.min()
    last_row = row_weights.indices.max()
    rows = slice(first_row, last_row + 1)
    centre = _scale_axis(images[:, :, rows], column_weights, axis=3)
    centre = _scale_axis(centre, row_weights[:, rows], axis=2)
    if centre.shape[2:] == tuple(size):
        return centre
    return _pad(centre, size, fill)


def _pad(images, size, fill):
    """Put images into the centre of larger images whose borders have the values `fill`."""
    n_images, n_channels, height, width = images.shape
    colour = np.broadcast_to(fill, n_channels)
    colour = _round_to(colour, images.dtype)
    canvas = np.empty((n_images, n_channels, *size), dtype=images.dtype)
    canvas[:] = colour[:, np.newaxis, np.newaxis]
    top = (size[0] - height) // 2
    left_border = (size[1] - width) // 2
    canvas[:, :, top : top + height, left_border : left_border + width] = images
    return canvas


def _scaled_size(size, resize, crop_mode):
    """Return the height and width of the scaled image."""
    if crop_mode == "squash":
        return tuple(resize)
    height, width = size
    if crop_mode == "center" and resize[0] == resize[1]:
        # The longer side is truncated, as by torchvision.
        shorter = min(height, width)
        return int(resize[0] * height / shorter), int(resize[0] * width / shorter)
    height_ratio = height / resize[0]
    width_ratio = width / resize[1]
    if crop_mode == "border":
        ratio = max(height_ratio, width_ratio)
    else:
        ratio = min(height_ratio, width_ratio)
    scaled_height = round(height / ratio)
    scaled_width = round(width / ratio)
    return max(scaled_height, 1), max(scaled_width, 1)


def _window(scaled_side, side):
    """Return the first position of the centre on an axis of the scaled image, and its end."""
    if scaled_side <= side:
        return 0, scaled_side
    first = round((scaled_side - side) / 2)
    return first, first + side


def _weights(side, scaled_side, window, interpolation):
    """Return the weights of the pixels of an axis for the pixels in a window of the scaled axis.

    The result is a sparse matrix of shape (n_pixels_in_window, side) whose rows sum up to 1.
    """
    scale = side / scaled_side
    weight_of_distance, support = FILTERS[interpolation]
    if weight_of_distance is None:
        positions = _nearest_positions(side, scale, window)
        weights = np.ones(positions.shape)
    else:
        positions = _positions_in_support(scale, window, support)
        weights = _filter_weights(positions, side, scale, window, weight_of_distance)
    n_scaled = len(positions)
    scaled_positions = np.arange(n_scaled)[:, np.newaxis]
    scaled_positions = np.broadcast_to(scaled_positions, positions.shape)
    has_weight = weights != 0.0
    coordinates = (scaled_positions[has_weight], positions[has_weight])
    return csr_array((weights[has_weight], coordinates), shape=(n_scaled, side))


def _nearest_positions(side, scale, window):
    """Return the pixel nearest to each pixel in the window, of shape (n_pixels_in_window, 1)."""
    first, end = window
    # Pillow adds up the centres, whose rounding decides between equally near pixels.
    steps = np.full(end, scale)
    steps[0] = 0.5 * scale
    centres = np.add.accumulate(steps)[first:]
    positions = np.minimum(centres.astype(int), side - 1)
    return positions[:, np.newaxis]


def _scaled_centres(scale, window):
    """Return the centres of the pixels in the window, in pixels of the original image."""
    return (np.arange(*window) + 0.5) * scale


def _positions_in_support(scale, window, support):
    """Return the positions of pixels within the support of the filter, some outside the image."""
    radius = support * max(scale, 1.0)
    n_pixels = 2 * ceil(radius) + 1
    first = np.floor(_scaled_centres(scale, window) - radius).astype(int)
    return first[:, np.newaxis] + np.arange(n_pixels)


def _filter_weights(positions, side, scale, window, weight_of_distance):
    """Return the weights of pixels, normalised to a sum of 1 per row.

    A pixel at distance d has the weight f(d / max(n, 1)) before the normalisation, where n is the
    number of pixels per scaled pixel.
    """
    centres = _scaled_centres(scale, window)
    distances = positions + 0.5 - centres[:, np.newaxis]
    weights = weight_of_distance(distances / max(scale, 1.0))
    is_outside = (positions < 0) | (positions >= side)
    weights[is_outside] = 0.0
    return weights / weights.sum(axis=1, keepdims=True)


def _scale_axis(images, weights, axis):
    """Multiply one axis of images by weights; bytes are rounded."""
    dtype = images.dtype
    if dtype == np.uint8:
        dtype = np.float32
    lines = np.moveaxis(images, axis, 0)
    scaled_shape = (-1, *lines.shape[1:])
    lines = lines.reshape(len(lines), -1)
    scaled_lines = weights.astype(dtype) @ lines.astype(dtype)
    scaled_lines = _round_to(scaled_lines, images.dtype)
    scaled_lines = scaled_lines.reshape(scaled_shape)
    return np.moveaxis(scaled_lines, 0, axis)


def _round_to(values, dtype):
    """Convert values to a dtype; round them if it is uint8."""
    if dtype == np.uint8:
        values = np.floor(values + 0.5).clip(0, 255)
    return values.astype(dtype)
