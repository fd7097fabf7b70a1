"""Read an image from an array, a PIL image or a path. Pillow is imported only for files."""

import os
import sys

import numpy as np
import torch

# Modes of PIL images by number of channels; users must convert images of other modes.
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def element_kind(item):
    """Return what holds one image, such as "path" or "tensor"; None if it is not an image."""
    if isinstance(item, str | os.PathLike):
        return "path"
    if isinstance(item, torch.Tensor):
        return "tensor" if item.ndim > 1 else None
    if isinstance(item, np.ndarray):
        return "array" if item.ndim > 1 else None
    # A PIL image can exist only if the module has been imported before.
    pillow = sys.modules.get("PIL.Image")
    return "PIL image" if pillow is not None and isinstance(item, pillow.Image) else None


def as_array(image, name):
    """Convert an array, or a tensor on any device, to an array of uint8, float32 or float64.

    Other integers become float64. Raise `ValueError` for anything but real numbers.
    """
    if isinstance(image, torch.Tensor):
        image = image.detach().cpu()
        if image.dtype in (torch.bfloat16, torch.float16):
            image = image.float()
        image = image.numpy()
    if image.dtype == np.uint8 or image.dtype in (np.float32, np.float64):
        return image
    if image.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers; got dtype {image.dtype}.")
    return image.astype(np.float32 if image.dtype == np.float16 else np.float64)


def image_values(array):
    """Return the kind of values: bytes, which mostly reach 255, need another scaling."""
    return "uint8" if array.dtype == np.uint8 else "number"


def read_picture(image, name, n_channels=None):
    """Return a PIL image, or the image in a file, as an array of bytes.

    The shape is (height, width) or (height, width, channels). `n_channels` is the required number
    of channels, by default that of a grey, RGB or RGBA image; `name` is used in messages.
    """
    if isinstance(image, str | os.PathLike):
        return _read_file(image, name, n_channels)
    return _pixels(image, name, n_channels)


def _read_file(path, name, n_channels):
    """Return the pixels of the image in a file."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "X holds paths, and reading images from files needs Pillow; install it: python -m pip "
            "install pillow."
        ) from error
    if os.path.isdir(path):
        raise IsADirectoryError(
            f"{name} must be the path of an image; {os.fspath(path)!r} is a folder. List its files "
            "by ffnb_sklearn.backbones.image_files."
        )
    with open(path, "rb") as file:
        try:
            picture = Image.open(file)
            picture.load()
        except Exception as error:
            # A damaged file can raise an error of nearly any kind.
            raise ValueError(
                f"{name} must be an image; the file {os.fspath(path)!r} cannot be read as one: "
                f"{error}"
            ) from error
    return _pixels(picture, f"{name}, the file {os.fspath(path)!r},", n_channels)


def _pixels(picture, name, n_channels):
    """Return the pixels of a PIL image; raise if its mode does not fit."""
    if n_channels not in (None, *_MODES):
        raise ValueError(
            f"input_shape must have {', '.join(map(str, _MODES))} channels for PIL images and "
            f"files; got {n_channels} channels."
        )
    expected = list(_MODES.values()) if n_channels is None else [_MODES[n_channels]]
    if picture.mode not in expected:
        channels = "" if n_channels is None else f", for {n_channels} channels"
        raise ValueError(
            f"{name} must be an image of mode {' or '.join(expected)}{channels}; got mode "
            f"{picture.mode}. Convert all images alike, such as by image.convert('RGB')."
        )
    try:
        return np.asarray(picture)
    except OSError as error:
        raise ValueError(f"{name} must be an image; it cannot be read: {error}") from error
