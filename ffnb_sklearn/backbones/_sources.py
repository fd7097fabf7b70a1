"""Read images from common containers, batch by batch, as rows with the channels first.

An `ImageSource` wraps an array, a tensor, a list of images or of files, or a torch data set. It is
sliced like an array of rows; apart from the first image, images are read only when they are sliced.
No image is stored.
"""

import os
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import interpolate
from torch.utils.data import DataLoader, Dataset, IterableDataset

from ffnb_sklearn.backbones._pictures import as_array, element_kind, image_values, read_picture

__all__ = ["image_files"]

# Usual numbers of channels, from which the layout of an array is inferred.
_USUAL_CHANNELS = {1: "grey", 3: "colour", 4: "colour and transparency"}

# Beginnings of the names of files and folders that are no images of the user.
_HIDDEN = (".", "__MACOSX")

# Suffixes of the formats that `_pictures` reads.
_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}


def image_files(folder):
    """List the image files in a folder and its subfolders, sorted by path.

    Parameters
    ----------
    folder : path
        Folder, for example with one subfolder per class.

    Returns
    -------
    list of Path
        Files with the suffix of an image (.png, .jpg, .bmp, .gif, .tif, .webp, ...), also in linked
        folders. Names that begin with a dot or ``__MACOSX`` and folders that cannot be read are
        skipped.
        ``[file.parent.name for file in files]`` gives their labels if each class has a folder.

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
    path = Path(folder)
    if not path.is_dir():
        raise NotADirectoryError(f"folder must be a folder of images; got {str(folder)!r}.")
    files = list(_images_below(path))
    if not files:
        raise ValueError(
            f"folder must hold images, files that end in {', '.join(sorted(_SUFFIXES))}; "
            f"{str(folder)!r} has none."
        )
    return sorted(files)


def _images_below(root):
    """Yield the images in a folder and its subfolders, also linked ones; skip hidden names."""
    folders, links, seen = [root], [], set()
    while folders or links:
        # Real folders come first, so that their images have the real names.
        folder = (folders or links).pop(0)
        real = folder.resolve()
        if real in seen:
            continue
        seen.add(real)
        try:
            entries = [one for one in folder.iterdir() if not one.name.startswith(_HIDDEN)]
        except PermissionError:
            if folder == root:
                raise
            continue
        for one in entries:
            if one.is_dir():
                (links if one.is_symlink() else folders).append(one)
            elif one.suffix.lower() in _SUFFIXES and one.is_file():
                yield one


class ImageSource:
    """Images that are read as rows when they are sliced.

    The items are an array, a tensor, a sequence or a data set. `input_shape` is the shape of one
    image, channels first, by default that of the first image, or a square of side `resize`;
    `values` is the kind of values, "uint8" or "number". Raise `TypeError` or `ValueError` if there
    are no images, or the first image cannot be used.
    """

    def __init__(self, items, shape=None, resize=None):
        self._items, self._resize = items, resize
        if len(items) == 0:
            raise ValueError(
                f"X must hold at least one image; got an empty {type(items).__name__}."
            )
        self._whole = isinstance(items, np.ndarray | torch.Tensor) and items.ndim > 1
        self.input_shape = None if shape is None else tuple(shape)
        first, is_picture = self._array(0)
        if shape is None:
            self.input_shape = tuple(_layout(first, is_picture))
            if resize is not None:
                self.input_shape = (self.input_shape[0], resize, resize)
        self.values = image_values(first)
        self.shape = (len(items), prod(self.input_shape))

    def __len__(self):
        return len(self._items)

    def __getitem__(self, index):
        """Read the images of a slice or of an array of positions, as rows of uint8 or floats."""
        positions = np.arange(len(self))[index]
        if self._whole:
            rows = self._block(index)
        else:
            rows = np.stack([self._row(int(position)) for position in positions])
        if rows.dtype.kind == "f" and not (finite := np.isfinite(rows).all(axis=1)).all():
            position = positions[np.flatnonzero(~finite)[0]]
            raise ValueError(f"X must hold finite values; X[{position}] has NaN or infinity.")
        return rows

    def check(self, values):
        """Raise if the images and those of `fit` do not hold the same kind of values."""
        if values is not None and self.values != values:
            raise ValueError(
                f"X must hold images of {values} values, as in fit, because mean and std are in "
                f"their units; got {self.values} values."
            )

    def _block(self, index):
        """Return the rows of several images of one array."""
        block = as_array(self._items[index], "X")
        return self._conform(block, "X", is_picture=False).reshape(len(block), -1)

    def _row(self, position):
        """Return the row of one image of a list or data set, checked against the first image."""
        name = f"X[{position}]"
        array, is_picture = self._array(position)
        if image_values(array) != self.values:
            raise ValueError(
                f"X must hold images of one kind; {name} has {array.dtype} values, "
                f"X[0] has {self.values} values."
            )
        return self._conform(array[None], name, is_picture=is_picture).reshape(-1)

    def _array(self, position):
        """Return one image as an array, and whether its channels are known to be last."""
        name = f"X[{position}]"
        item = self._items[position]
        if self._whole:
            return as_array(item, name), False
        if isinstance(item, tuple) or (isinstance(self._items, Dataset) and isinstance(item, list)):
            # Data sets return pairs of an image and a label; the labels are passed as y.
            if any(element_kind(one) not in (None, "path") for one in item[1:]):
                raise TypeError(f"X must hold one image per sample; {name} holds several arrays.")
            item = item[0] if item else None
        kind = element_kind(item)
        if kind is None:
            raise TypeError(
                f"X must hold images: paths, PIL images, arrays or tensors; {name} is an instance "
                f"of {type(item).__name__}."
            )
        if kind in ("path", "PIL image"):
            return read_picture(item, name), True
        return as_array(item, name), False

    def _conform(self, block, name, *, is_picture):
        """Return a batch of images as inputs of the network: channels, size and layout."""
        expected, found = self.input_shape, block.shape[1:]
        if len(expected) != 3:
            if found != expected:
                raise ValueError(
                    f"{name} must hold images of input_shape={expected}; got shape {found}."
                )
            return block
        block = _with_channels(self._channels_first(block, name, is_picture), expected[0], name)
        return block if self._resize is None else resized(block, self._resize, expected[1:])

    def _channels_first(self, block, name, is_picture):
        """Move the channels of a batch of images to axis 1; raise if sizes do not fit."""
        n_channels, *size = self.input_shape
        if block.ndim == 3 and self._is_size(block.shape[1:]):
            return block[:, None]
        # The number of channels of the network comes before those that are converted to it.
        for allowed in ({n_channels}, _USUAL_CHANNELS):
            for axis in (-1,) if is_picture else (1, -1):
                moved = np.moveaxis(block, axis, 1)
                if block.ndim == 4 and moved.shape[1] in allowed and self._is_size(moved.shape[2:]):
                    return moved
        shape, advice = self.input_shape, "; resize= scales images of other sizes"
        raise ValueError(
            f"{name} must hold images of input_shape={shape}, or {(*size, n_channels)}, channels "
            f"last; got shape {block.shape[1:]}{advice if self._resize is None else ''}."
        )

    def _is_size(self, sides):
        """Return whether an image may have these sides; an axis of channels is no side."""
        if self._resize is None:
            return tuple(sides) == self.input_shape[1:]
        return min(sides) > max(_USUAL_CHANNELS)


def _with_channels(images, n_channels, name):
    """Convert images, channels first, to a number of channels if this loses nothing."""
    found, opaque = images.shape[1], 255 if images.dtype == np.uint8 else 1
    if found == 1 and n_channels in (3, 4):
        images = np.repeat(images, 3, axis=1)
    if found in (1, 3) and n_channels == 4:
        images = np.concatenate([images, np.full_like(images[:, :1], opaque)], axis=1)
    elif found == 4 and n_channels == 3 and (images[:, 3] == opaque).all():
        images = images[:, :3]
    if images.shape[1] == n_channels:
        return images
    wanted, got = (f"{n} ({_USUAL_CHANNELS.get(n, 'unusual')})" for n in (n_channels, found))
    raise ValueError(
        f"{name} must hold images whose channels are those of the network, {wanted}; got {got}, "
        "which cannot be converted without loss. Convert the images before."
    )


def resized(images, side, size):
    """Scale images, of shape (n, channels, height, width), and cut out the centre.

    The shorter side of an image becomes `side` pixels long, at least as long as both sides of
    `size`. The centre is cut out before it is scaled, by antialiased bicubic interpolation, so
    that the memory is bounded by that of the images and of the result.
    """
    shorter = min(images.shape[2:])
    window = [min(max(round(n * shorter / side), 1), shorter) for n in size]
    top, left = ((n - m) // 2 for n, m in zip(images.shape[2:], window, strict=True))
    images = images[:, :, top : top + window[0], left : left + window[1]]
    tensor = torch.from_numpy(np.ascontiguousarray(images))
    return interpolate(tensor, tuple(size), mode="bicubic", antialias=True).numpy()


def as_source(X, shape=None, resize=None):
    """Return images as an `ImageSource`, and None for an array-like of rows.

    Raise `TypeError` or `ValueError` if X is an empty list, a single file or folder, a data set
    without positions, or holds images that cannot be used.
    """
    if isinstance(X, str | os.PathLike):
        raise ValueError(
            f"X must hold samples; got the single path {str(X)!r}. Give a list of files, such as "
            "ffnb_sklearn.backbones.image_files(folder)."
        )
    if isinstance(X, list | tuple) and not X:
        raise ValueError(f"X must hold at least one sample; got an empty {type(X).__name__}.")
    if isinstance(X, DataLoader):
        raise TypeError("X must be a data set, not its loader; got a DataLoader: pass its dataset.")
    if getattr(X, "ndim", None) == 1 and hasattr(X, "to_numpy"):
        # A column of a table holds paths or images.
        X = X.to_numpy()
    if isinstance(X, Dataset):
        if isinstance(X, IterableDataset) or not hasattr(X, "__len__"):
            raise TypeError(
                "X must be a data set with a length and positions (map style); got an instance of "
                f"{type(X).__name__}."
            )
        return ImageSource(X, shape, resize)
    return ImageSource(X, shape, resize) if _holds_images(X) else None


def _holds_images(X):
    """Return whether an array or a sequence holds images rather than rows."""
    if isinstance(X, np.ndarray | torch.Tensor) and X.ndim != 1:
        return X.ndim > 2
    if isinstance(X, np.ndarray) and X.dtype.kind not in "OU":
        return False
    if not isinstance(X, np.ndarray | list | tuple) or not len(X):
        return False
    first = X[0]
    # Indexing a data set leaves a list of pairs of an image and a label.
    return element_kind(first[0] if isinstance(first, tuple) and first else first) is not None


def _layout(first, is_picture):
    """Return the shape of an image with the channels first, inferred from the first image."""
    if first.ndim == 2 and is_picture:
        return (1, *first.shape)
    if first.ndim == 3:
        *size, n_last = first.shape
        is_first, is_last = first.shape[0] in _USUAL_CHANNELS, n_last in _USUAL_CHANNELS
        if is_picture or (is_last and not is_first):
            return (n_last, *size)
        if is_first and not is_last:
            return first.shape
    raise ValueError(
        "input_shape must be given, such as (3, 32, 32), because the shape of the images does not "
        f"show where their channels are; got images of shape {first.shape}."
    )
