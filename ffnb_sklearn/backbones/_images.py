"""Read images from arrays, lists, files and data sets, batch by batch, as rows.

An `ImageSource` is sliced like an array of rows; no image is stored. Pillow is imported only for
paths and PIL images.
"""

import os
import sys
from contextlib import contextmanager, suppress
from math import prod
from numbers import Integral
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from ffnb_sklearn.backbones._network import check_regular, import_optional
from ffnb_sklearn.backbones._resizing import resize_images

# Formats of files that are opened, and their suffixes. Pillow recognises a format by the content of
# the file. It reads dozens of other formats, some of them by another program.
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}

# Modes of PIL images that are converted without loss, apart from transparency, and their new modes.
_OPAQUE = {
    **dict.fromkeys(("1", "L", "LA"), "L"),
    **dict.fromkeys(("P", "PA", "RGB", "RGBA"), "RGB"),
}

# Usual numbers of channels, from which the layout of an array is inferred.
_USUAL_CHANNELS = {1: "grey", 3: "colour", 4: "colour and transparency"}


def image_files(folder: str | os.PathLike[str]) -> list[Path]:
    """List the image files in a folder and its subfolders, sorted by path.

    Parameters
    ----------
    folder : path
        Folder, for example with one subfolder per class.

    Returns
    -------
    list of Path
        Files with the suffix of an image (.png, .jpg, .bmp, .gif, .tif, .webp, ...). Names that
        begin with a dot are skipped. ``[file.parent.name for file in files]`` gives their labels if
        each class has a folder.

    Raises
    ------
    NotADirectoryError
        If the folder does not exist.
    ValueError
        If the folder has no images.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from ffnb_sklearn.backbones import image_files
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("b.png", "a.png", "notes.txt"):
    ...         Path(folder, name).touch()
    ...     [file.name for file in image_files(folder)]
    ['a.png', 'b.png']
    """
    if not Path(folder).is_dir():
        raise NotADirectoryError(f"folder must be a folder of images; got {str(folder)!r}.")
    files = []
    for root, subfolders, names in os.walk(folder):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        for name in names:
            path = Path(root, name)
            if path.suffix.lower() in _SUFFIXES and not name.startswith("."):
                files.append(path)
    if not files:
        raise ValueError(
            f"folder must hold images, files that end in {', '.join(sorted(_SUFFIXES))}; "
            f"{str(folder)!r} has none."
        )
    return sorted(files)


def image_source(X, shape=None, resize=None, takes_texts=True, **resize_options):
    """Return images as an `ImageSource`, and None for an array-like of rows.

    `resize_options` holds `crop_mode`, `interpolation` and `fill` of `resize_images`.
    """
    if isinstance(X, str | os.PathLike):
        raise ValueError(
            f"X must hold samples; got the single path {str(X)!r}. Give a list of files, such as "
            "ffnb_sklearn.backbones.image_files(folder)."
        )
    if isinstance(X, DataLoader | IterableDataset):
        raise TypeError(
            "X must be a data set with a length and positions (map style), and no loader; got an "
            f"instance of {type(X).__name__}."
        )
    if getattr(X, "ndim", None) == 1 and hasattr(X, "to_numpy"):
        # A column of a table holds paths or images.
        X = X.to_numpy()
    if isinstance(X, Dataset) or _holds_images(X):
        return ImageSource(X, shape, resize, takes_texts, **resize_options)
    return None


def _holds_images(X):
    """Return whether an array or a sequence holds images rather than rows."""
    if isinstance(X, np.ndarray | torch.Tensor) and X.ndim != 1:
        return X.ndim > 2
    if not isinstance(X, np.ndarray | list | tuple) or not len(X):
        return False
    first = X[0]
    if isinstance(first, tuple) and first:
        # Indexing a data set gives a list of pairs of an image and a label.
        first = first[0]
    return _is_picture(first) or _is_array(first)


def _is_picture(item):
    """Return whether a value is a path or a PIL image."""
    if isinstance(item, str | os.PathLike):
        return True
    # A PIL image can exist only after an import of the module.
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(item, pillow.Image)


def _is_array(item):
    """Return whether a value is an array or a tensor with at least two axes."""
    return isinstance(item, np.ndarray | torch.Tensor) and item.ndim > 1


class ImageSource:
    """Images that are read as rows, channels first, when they are sliced.

    `input_shape` is the shape of one image, by default that of the first image, or that of
    `resize`; `values` is the kind of values, "uint8" or "number". Texts are paths if `takes_texts`.
    `resize_options` holds further arguments of `resize_images`.
    """

    def __init__(self, items, shape=None, resize=None, takes_texts=True, **resize_options):
        self._items = items
        self._resize = resize
        if isinstance(resize, Integral):
            self._resize = (resize, resize)
        self._takes_texts = takes_texts
        self._resize_options = resize_options
        if len(items) == 0:
            raise ValueError(
                f"X must hold at least one image; got an empty {type(items).__name__}."
            )
        first = self._read(0)
        self.values = _kind_of_values(first)
        if shape is None:
            shape = _infer_input_shape(first, self._resize)
        self.input_shape = tuple(shape)
        self.shape = (len(items), prod(self.input_shape))

    def __len__(self):
        return len(self._items)

    def __getitem__(self, index):
        """Read the images of a slice or of an array of positions, as rows of uint8 or floats."""
        positions = np.arange(len(self))[index]
        if _is_array(self._items):
            images = as_array(self._items[index], "X")
            rows = self._to_rows(images, "X")
        else:
            rows = np.concatenate([self._row(int(position)) for position in positions])
        if rows.dtype.kind == "f":
            _check_finite(rows, positions)
        return rows

    def check(self, values):
        """Raise unless the images hold the kind of values of `fit`."""
        if values not in (None, self.values):
            raise ValueError(
                f"X must hold images of {values} values, as in fit, because mean and std are in "
                f"their units; got {self.values} values."
            )

    def _row(self, position):
        """Return one image of a list or data set as a row, of shape (1, n_values)."""
        name = f"X[{position}]"
        image = self._read(position)
        if _kind_of_values(image) != self.values:
            raise ValueError(
                f"X must hold images of one kind; {name} has {image.dtype} values, "
                f"X[0] has {self.values} values."
            )
        return self._to_rows(image[np.newaxis], name)

    def _read(self, position):
        """Return one image as an array; pictures have their channels first."""
        name = f"X[{position}]"
        item = self._items[position]
        if isinstance(item, tuple | list) and len(item):
            # Data sets return pairs of an image and a label; the labels are passed as y.
            item = item[0]
        if isinstance(item, str) and not self._takes_texts:
            raise ValueError(
                f"{name} is a text. An extractor that was loaded from a file opens no texts as "
                "paths, because a forged file could make a service open the texts that it "
                "receives. Pass paths of images as pathlib.Path objects."
            )
        if isinstance(item, str | os.PathLike):
            return _read_file(item, name)
        if _is_picture(item):
            return _read_picture(item, name)
        if _is_array(item):
            return as_array(item, name)
        raise TypeError(
            f"X must hold images: paths, PIL images, arrays or tensors; {name} is an instance of "
            f"{type(item).__name__}."
        )

    def _to_rows(self, images, name):
        """Convert a batch of images to the channels and the size of inputs, and to rows."""
        if len(self.input_shape) == 3:
            n_channels, *size = self.input_shape
            images = self._move_channels(images, name)
            images = _convert_channels(images, n_channels, name)
            if self._resize is not None:
                images = resize_images(images, self._resize, size, **self._resize_options)
        elif images.shape[1:] != self.input_shape:
            raise ValueError(
                f"{name} must have input_shape={self.input_shape}; got {images.shape[1:]}."
            )
        return images.reshape(len(images), -1)

    def _move_channels(self, images, name):
        """Move the channels of a batch of images to axis 1; raise if sizes do not fit."""
        if images.ndim == 3 and self._is_size(images.shape[1:]):
            return images[:, np.newaxis]
        n_channels, *size = self.input_shape
        if images.ndim == 4:
            first = images
            last = np.moveaxis(images, -1, 1)
            # The network's number of channels is tried before numbers that are converted to it.
            for allowed in ({n_channels}, _USUAL_CHANNELS):
                for candidate in (first, last):
                    if candidate.shape[1] in allowed and self._is_size(candidate.shape[2:]):
                        return candidate
        advice = ""
        if self._resize is None:
            advice = "; resize= scales images of other sizes"
        raise ValueError(
            f"{name} must hold images of input_shape={self.input_shape}, or {(*size, n_channels)}, "
            f"channels last; got shape {images.shape[1:]}{advice}."
        )

    def _is_size(self, sides):
        """Return whether an image may have this height and width."""
        if self._resize is None:
            return tuple(sides) == self.input_shape[1:]
        return min(sides) > max(_USUAL_CHANNELS)


def _check_finite(rows, positions):
    """Raise unless rows are finite; name the first position in X that is not."""
    is_finite = np.isfinite(rows).all(axis=1)
    if not is_finite.all():
        position = positions[~is_finite][0]
        raise ValueError(f"X must hold finite values; X[{position}] has NaN or infinity.")


def as_array(image, name):
    """Convert an array, or a tensor on any device, to an array of uint8, float32 or float64."""
    if isinstance(image, torch.Tensor):
        image = image.detach().cpu()
        if image.dtype in (torch.bfloat16, torch.float16):
            image = image.float()
        image = image.numpy()
    if image.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers; got dtype {image.dtype}.")
    if image.dtype in (np.uint8, np.float32, np.float64):
        return image
    if image.dtype == np.float16:
        return image.astype(np.float32)
    return image.astype(np.float64)


def _kind_of_values(array):
    """Return the kind of values; bytes and other numbers need different scalings."""
    if array.dtype == np.uint8:
        return "uint8"
    return "number"


def _infer_input_shape(image, resize):
    """Return the shape of inputs, channels first, for the first image."""
    shape = image.shape
    has_channels_first = shape[0] in _USUAL_CHANNELS
    has_channels_last = shape[-1] in _USUAL_CHANNELS
    if len(shape) != 3 or has_channels_first == has_channels_last:
        raise ValueError(
            "input_shape must be given, such as (3, 32, 32), because the shape of the images does "
            f"not show where their channels are; got images of shape {shape}."
        )
    if has_channels_first:
        n_channels, *size = shape
    else:
        *size, n_channels = shape
    if resize is not None:
        size = resize
    return (n_channels, *size)


def _convert_channels(images, n_channels, name):
    """Convert images, channels first, to a number of channels if this loses nothing."""
    n_old_channels = images.shape[1]
    opaque = 1
    if images.dtype == np.uint8:
        opaque = 255
    converted = images
    if n_old_channels == 1 and n_channels in (3, 4):
        converted = np.repeat(converted, 3, axis=1)
    if n_old_channels in (1, 3) and n_channels == 4:
        transparency = np.full_like(images[:, :1], opaque)
        converted = np.concatenate([converted, transparency], axis=1)
    if n_old_channels == 4 and n_channels == 3 and (images[:, 3] == opaque).all():
        converted = images[:, :3]
    if converted.shape[1] == n_channels:
        return converted
    raise ValueError(
        f"{name} must hold images whose channels are those of the network, "
        f"{_describe_channels(n_channels)}; got {_describe_channels(n_old_channels)}, "
        "which cannot be converted without loss. Convert the images before."
    )


def _describe_channels(n_channels):
    """Return a number of channels with its usual meaning, for a message."""
    meaning = _USUAL_CHANNELS.get(n_channels, "unusual")
    return f"{n_channels} ({meaning})"


def _read_file(path, name):
    """Return the image in a file as bytes, channels first."""
    import_optional("PIL", "pillow")
    from PIL import Image

    name = f"{name}, the file {os.fspath(path)!r},"
    if not os.path.isdir(path):
        check_regular(path, name)
    with open(path, "rb") as file, _explain_errors(name):
        return _pixels(Image.open(file, formats=_FORMATS))


def _read_picture(picture, name):
    """Return a PIL image as bytes, channels first."""
    with _explain_errors(name):
        return _pixels(picture)


@contextmanager
def _explain_errors(name):
    """Raise errors of the block as `ValueError` with the name of the image."""
    try:
        yield
    except Exception as error:
        # A damaged file can raise an error of nearly any kind.
        raise ValueError(
            f"{name} must be a grey or colour image of bytes, a file in one of the formats "
            f"{', '.join(_FORMATS)}: {error}"
        ) from error


def _pixels(picture):
    """Return the pixels of a PIL image, upright and converted without loss, channels first."""
    from PIL import ImageOps

    picture.load()
    # EXIF data may be malformed; viewers then ignore it.
    with suppress(Exception):
        picture = ImageOps.exif_transpose(picture)
    if picture.mode not in _OPAQUE:
        raise ValueError(f"got mode {picture.mode}; convert it, such as by image.convert('RGB')")
    mode = _OPAQUE[picture.mode]
    if picture.has_transparency_data:
        with_transparency = picture.convert("RGBA")
        lowest, _ = with_transparency.getchannel("A").getextrema()
        if lowest < 255:
            picture = with_transparency
            mode = "RGBA"
    if picture.mode != mode:
        picture = picture.convert(mode)
    pixels = np.asarray(picture)
    if pixels.ndim == 2:
        return pixels[np.newaxis]
    return np.moveaxis(pixels, -1, 0)
