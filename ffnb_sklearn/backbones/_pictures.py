"""Read an image from an array, a PIL image or a path. Pillow is imported only for files."""

import os
import sys

import numpy as np
import torch

# Formats of the suffixes that `image_files` lists. Pillow recognises a format by the content of the
# file and knows dozens of others, some of which it hands to another program.
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")

# Modes of PIL images that are converted without loss, apart from transparency, and their new modes.
_OPAQUE = {
    **dict.fromkeys(("1", "L", "LA"), "L"),
    **dict.fromkeys(("P", "PA", "RGB", "RGBA"), "RGB"),
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


def read_picture(image, name):
    """Return a PIL image, or the image in a file, as an array of bytes.

    The shape is (height, width) for grey images, else (height, width, 3), or 4 if any pixel is
    transparent. The image is turned upright by its EXIF orientation. `name` is used in messages.
    Raise `ValueError` if the image cannot be read, has other values than bytes, or has more pixels
    than `PIL.Image.MAX_IMAGE_PIXELS`.
    """
    if not isinstance(image, str | os.PathLike):
        return _pixels(image, name)
    path = image
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
    return _pixels(picture, f"{name}, the file {os.fspath(path)!r},")


def _check_size(picture, most):
    """Raise if an image has too many pixels to be decoded: a small file can ask for any number."""
    n_pixels = picture.width * picture.height
    if most is not None and n_pixels > most:
        raise ValueError(f"it has {n_pixels} pixels, more than PIL.Image.MAX_IMAGE_PIXELS={most}")


def _pixels(picture, name):
    """Return the pixels of a PIL image; raise if it cannot be converted without loss."""
    try:
        picture.load()
    except Exception as error:
        raise ValueError(f"{name} must be an image; it cannot be read: {error}") from error
    picture = _upright(picture)
    if picture.mode not in _OPAQUE:
        raise ValueError(
            f"{name} must be a grey or colour image of bytes; got mode {picture.mode}. Convert all "
            "images alike, such as by image.convert('RGB')."
        )
    mode = _OPAQUE[picture.mode]
    if picture.has_transparency_data:
        clear = picture.convert("RGBA")
        if clear.getchannel("A").getextrema()[0] < 255:
            picture, mode = clear, "RGBA"
    return np.asarray(picture if picture.mode == mode else picture.convert(mode))


def _upright(picture):
    """Return an image turned as its EXIF orientation asks, as programs show it."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(picture)
    except Exception:
        # EXIF data of any program may be malformed; viewers ignore it then.
        return picture
