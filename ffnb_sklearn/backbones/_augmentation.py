"""Random augmentations of a batch for training, and fixed views of a batch for its features.

An augmentation draws only from the generator that it is given, which is on the CPU, so that the
draws are the same on every run and every device.
"""

from dataclasses import dataclass, fields
from math import inf
from numbers import Integral, Real
from typing import Any

import torch
from torch import nn

from ffnb_sklearn.backbones._seeding import seeded_torch


@dataclass(frozen=True)
class FlipCrop:
    """Shift images by a few pixels, mirror half of them, and optionally cut out a square.

    Parameters
    ----------
    padding : int, default=4
        Largest shift along each axis, in pixels. Pixels that enter from outside are zero after
        scaling.
    flip : bool, default=True
        Whether to mirror each image left to right with probability 0.5. Unsuitable for digits,
        letters and other images in which left and right matter.
    cutout : int, default=0
        Side length, in pixels, of a square of zeros centred at a random pixel [1]_; 0 cuts out
        nothing.

    References
    ----------
    .. [1] T. DeVries and G. W. Taylor. Improved Regularization of Convolutional Neural Networks
       with Cutout. arXiv:1708.04552, 2017.

    Examples
    --------
    >>> import torch
    >>> from ffnb_sklearn.backbones import FlipCrop
    >>> images = torch.arange(12.0).reshape(1, 1, 3, 4)
    >>> FlipCrop(padding=1)(images, torch.Generator().manual_seed(1)).shape
    torch.Size([1, 1, 3, 4])
    """

    padding: int = 4
    flip: bool = True
    cutout: int = 0

    def __post_init__(self):
        _check_pixels(self, "padding", "cutout")
        _make_plain(self)

    def __call__(self, batch, generator):
        """Return the randomly shifted, mirrored and cut images of a batch."""
        _check_images(batch, "FlipCrop")
        n, _, height, width = batch.shape
        padded = nn.functional.pad(batch, (self.padding,) * 4)
        # A view of all possible crops; indexing copies one crop per image.
        crops = padded.unfold(2, height, 1).unfold(3, width, 1)
        drawn = {"generator": generator, "device": generator.device}
        top, left = torch.randint(2 * self.padding + 1, (2, n), **drawn).to(batch.device)
        batch = crops[torch.arange(n, device=batch.device), :, top, left]
        if self.flip:
            mirrored = (torch.rand(n, **drawn) < 0.5).to(batch.device)
            batch = torch.where(mirrored[:, None, None, None], batch.flip(3), batch)
        if self.cutout:
            rows, columns = (
                self._is_cut(size, torch.randint(size, (n,), **drawn)).to(batch.device)
                for size in (height, width)
            )
            batch = batch.masked_fill(rows[:, None, :, None] & columns[:, None, None, :], 0.0)
        return batch

    def _is_cut(self, size, centres):
        """Return whether each pixel of an axis lies in the square around each centre."""
        first = centres[:, None] - self.cutout // 2
        pixels = torch.arange(size, device=centres.device)
        return (pixels >= first) & (pixels < first + self.cutout)


@dataclass(frozen=True)
class Jitter:
    """Scale each row of coordinates by its own random factor, and add noise to every value.

    Parameters
    ----------
    noise : float, default=0.01
        Standard deviation of the Gaussian noise, in units of the scaled input.
    scale : float, default=0.1
        Standard deviation of the factor, whose mean is 1. The factor makes a whole skeleton larger
        or smaller.

    Examples
    --------
    >>> import torch
    >>> from ffnb_sklearn.backbones import Jitter
    >>> rows = torch.ones(2, 3)
    >>> Jitter(noise=0.0, scale=0.5)(rows, torch.Generator().manual_seed(0)).unique().numel()
    2
    """

    noise: float = 0.01
    scale: float = 0.1

    def __post_init__(self):
        for name, value in vars(self).items():
            if not isinstance(value, Real) or not 0 <= value < inf:
                raise ValueError(f"{name} must be a finite number, at least 0; got {value!r}.")
        _make_plain(self)

    def __call__(self, batch, generator):
        """Return the scaled batch with noise."""
        shapes = (len(batch), *(1,) * (batch.ndim - 1)), batch.shape
        factors, noise = (
            torch.randn(shape, generator=generator, device=generator.device).to(batch)
            for shape in shapes
        )
        return batch * (1.0 + self.scale * factors) + self.noise * noise


@dataclass(frozen=True)
class ImageTransform:
    """Apply a transform of another library, such as those of ``torchvision.transforms.v2``.

    The transform gets the images before `mean` and `std` are applied, as uint8 if they are bytes.
    It may draw from the global generators of torch, which are seeded meanwhile.

    Parameters
    ----------
    transform : callable
        Takes one image, shaped (1, channels, height, width), and returns an image of the same
        shape. Every image is changed by a draw of its own.

    Examples
    --------
    >>> import torch
    >>> from ffnb_sklearn.backbones import ImageTransform
    >>> def brighter(images):
    ...     return images + torch.randint(9, (1,))
    >>> images = torch.zeros(4, 3, 8, 8)
    >>> changed = ImageTransform(brighter)(images, torch.Generator().manual_seed(0))
    >>> len(changed[:, 0, 0, 0].unique()) > 1
    True
    """

    transform: Any

    def __post_init__(self):
        if not callable(self.transform) or isinstance(self.transform, type):
            raise TypeError(
                "transform must be a function or an instance, such as v2.RandomRotation(10); got "
                f"{self.transform!r}."
            )

    def __call__(self, batch, generator):
        """Return the transformed images of a batch that is not scaled."""
        seed = torch.randint(2**31, (), generator=generator, device=generator.device).item()
        with seeded_torch(seed, batch.device):
            return torch.cat([self.transform(image) for image in batch.split(1)])


@dataclass(frozen=True)
class MirrorShift:
    """Yield each image unchanged, mirrored, and shifted by a few pixels in four directions.

    Parameters
    ----------
    shift : int, default=0
        Number of pixels of a shift up, down, left and right; 0 adds no shifts. Pixels that enter
        from outside are zero after scaling.
    mirror : bool, default=True
        Whether to add the mirror image (left and right swapped) of each view. Unsuitable for
        digits, letters and other images in which left and right matter.

    Examples
    --------
    >>> import torch
    >>> from ffnb_sklearn.backbones import MirrorShift
    >>> images = torch.arange(4.0).reshape(1, 1, 2, 2)
    >>> [view.flatten().tolist() for view in MirrorShift()(images)]
    [[0.0, 1.0, 2.0, 3.0], [1.0, 0.0, 3.0, 2.0]]
    >>> len(list(MirrorShift(shift=1)(images)))
    10
    """

    shift: int = 0
    mirror: bool = True

    def __post_init__(self):
        _check_pixels(self, "shift")
        _make_plain(self)

    def __call__(self, batch):
        """Yield the views of a batch, the batch itself first."""
        _check_images(batch, "MirrorShift")
        for view in self._shifted(batch):
            yield view
            if self.mirror:
                yield view.flip(3)

    def _shifted(self, batch):
        """Yield the batch, and the batch shifted in each direction."""
        yield batch
        if not self.shift:
            return
        height, width = batch.shape[2:]
        padded = nn.functional.pad(batch, (self.shift,) * 4)
        ends = 0, 2 * self.shift
        corners = [(end, self.shift) for end in ends] + [(self.shift, end) for end in ends]
        for top, left in corners:
            yield padded[:, :, top : top + height, left : left + width]


def augmented(augment, batch, generator):
    """Apply the value of the parameter `augment` to a batch; raise if that changes its shape."""
    if augment is None:
        return batch
    changed = (FlipCrop() if augment == "flip-crop" else augment)(batch, generator)
    if not isinstance(changed, torch.Tensor) or changed.shape != batch.shape:
        shape = tuple(getattr(changed, "shape", ()))
        raise ValueError(
            f"augment must return a tensor of the shape it was given, {tuple(batch.shape)}; got an "
            f"instance of {type(changed).__name__} of shape {shape}."
        )
    return changed


def _check_pixels(owner, *names):
    """Raise unless attributes of an object are numbers of pixels."""
    for name in names:
        value = getattr(owner, name)
        if not isinstance(value, Integral) or value < 0:
            raise ValueError(f"{name} must be an integer, at least 0; got {value!r}.")


def _make_plain(owner):
    """Convert checked fields to their types: True is accepted as a number of pixels."""
    for field in fields(owner):
        object.__setattr__(owner, field.name, field.type(getattr(owner, field.name)))


def _check_images(batch, name):
    """Raise unless a batch has the axes of images."""
    if batch.ndim != 4:
        raise ValueError(
            f"{name} needs images, input_shape=(channels, height, width); got inputs of shape "
            f"{tuple(batch.shape[1:])}."
        )
