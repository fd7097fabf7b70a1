"""Read an image from an array, a PIL image or a path. Pillow is imported only for files."""

import os
import sys

import numpy as np
import torch

# Formats of the suffixes that `image_files` lists. Pillow recognises a format by the content of the
# file and knows dozens of others, some of which it hands to another program.
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")

# Modes of PIL images by number of channels.
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}

# Modes that are converted to a mode without loss; for "L" and "RGB", only if they are opaque.
_LOSSLESS = {
    "L": {"1", "LA"},
    "RGB": {"1", "L", "LA", "P", "PA", "RGBA"},
    "RGBA": {"1", "L", "LA", "P", "PA", "RGB"},
}


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

    The shape is (height, width) or (height, width, channels). The image is turned upright by its
    EXIF orientation, and converted to `n_channels` if this loses nothing; by default, to a grey,
    RGB or RGBA image. `name` is used in messages. Raise `ValueError` if the image cannot be read or
    converted, or has more pixels than `PIL.Image.MAX_IMAGE_PIXELS`.
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
            picture = Image.open(file, formats=_FORMATS)
            _check_size(picture, Image.MAX_IMAGE_PIXELS)
            picture.load()
        except Exception as error:
            # A damaged file can raise an error of nearly any kind.
            raise ValueError(
                f"{name} must be an image; the file {os.fspath(path)!r} cannot be read as one of "
                f"the formats {', '.join(_FORMATS)}: {error}"
            ) from error
    return _pixels(picture, f"{name}, the file {os.fspath(path)!r},", n_channels)


def _check_size(picture, most):
    """Raise if an image has too many pixels to be decoded: a small file can ask for any number."""
    n_pixels = picture.width * picture.height
    if most is not None and n_pixels > most:
        raise ValueError(f"it has {n_pixels} pixels, more than PIL.Image.MAX_IMAGE_PIXELS={most}")


def _pixels(picture, name, n_channels):
    """Return the pixels of a PIL image; raise if it cannot be converted without loss."""
    if n_channels not in (None, *_MODES):
        raise ValueError(
            f"input_shape must have {', '.join(map(str, _MODES))} channels for PIL images and "
            f"files; got {n_channels} channels."
        )
    try:
        picture.load()
    except Exception as error:
        raise ValueError(f"{name} must be an image; it cannot be read: {error}") from error
    picture = _upright(picture)
    mode = _natural_mode(picture) if n_channels is None else _MODES[n_channels]
    reason = _loss(picture, mode)
    if reason is None:
        return np.asarray(picture if picture.mode == mode else picture.convert(mode))
    channels = "" if n_channels is None else f", for {n_channels} channels"
    raise ValueError(
        f"{name} must be an image of mode {mode}{channels}, or of a mode that converts to it "
        f"without loss; got {reason}. Convert all images alike, such as by image.convert('RGB'), "
        "or give the input_shape of the network."
    )


def _upright(picture):
    """Return an image turned as its EXIF orientation asks, as programs show it."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(picture)
    except Exception:
        # EXIF data of any program may be malformed; viewers ignore it then.
        return picture


def _natural_mode(picture):
    """Return the mode of an image if it is grey, RGB or RGBA, else the mode to convert it to."""
    if picture.mode in _MODES.values():
        return picture.mode
    return "L" if picture.mode in _LOSSLESS["L"] else "RGB"


def _loss(picture, mode):
    """Return why an image cannot be converted to a mode without loss; None if it can be."""
    if picture.mode == mode:
        return None
    if picture.mode not in _LOSSLESS[mode]:
        return f"mode {picture.mode}"
    if mode != "RGBA" and picture.has_transparency_data:
        least, _ = picture.convert("RGBA").getchannel("A").getextrema()
        return None if least == 255 else f"mode {picture.mode} with transparent pixels"
    return None
