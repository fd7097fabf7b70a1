"""Random augmentations of a batch for training, and fixed views of a batch for its features.

An augmentation draws only from the generator of its call, which is on the CPU, so that the draws
are the same on every run and every device.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from math import inf
from numbers import Integral, Real

import torch
from torch import nn

from ffnb_sklearn.backbones._seeding import seed_torch


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
        _check_pixels("padding", self.padding)
        _check_pixels("cutout", self.cutout)
        _convert_fields(self)

    def __call__(self, batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return the randomly shifted, mirrored and cut images of a batch."""
        _check_images(batch, "FlipCrop")
        images = self._shift(batch, generator)
        if self.flip:
            images = _mirror_half(images, generator)
        if self.cutout:
            images = self._cut(images, generator)
        return images

    def _shift(self, images, generator):
        """Shift each image by its own random numbers of pixels."""
        n_images, _, height, width = images.shape
        padded = nn.functional.pad(images, (self.padding,) * 4)
        # A view of all possible crops; indexing copies one crop per image.
        crops = padded.unfold(2, height, 1).unfold(3, width, 1)
        n_shifts = 2 * self.padding + 1
        corners = _draw_integers(n_shifts, (2, n_images), generator)
        tops, first_columns = corners.to(images.device)
        numbers = torch.arange(n_images, device=images.device)
        return crops[numbers, :, tops, first_columns]

    def _cut(self, images, generator):
        """Set the pixels of a square around a random pixel of each image to zero."""
        n_images, _, height, width = images.shape
        centre_rows = _draw_integers(height, (n_images,), generator)
        centre_columns = _draw_integers(width, (n_images,), generator)
        is_cut_row = self._is_cut(height, centre_rows).to(images.device)
        is_cut_column = self._is_cut(width, centre_columns).to(images.device)
        is_cut = is_cut_row[:, None, :, None] & is_cut_column[:, None, None, :]
        return images.masked_fill(is_cut, 0.0)

    def _is_cut(self, side, centres):
        """Return whether each pixel of an axis lies in the square around each centre."""
        first = centres[:, None] - self.cutout // 2
        pixels = torch.arange(side, device=centres.device)
        return (pixels >= first) & (pixels < first + self.cutout)


def _mirror_half(images, generator):
    """Mirror each image left to right with probability 0.5."""
    numbers = torch.rand(len(images), generator=generator, device=generator.device)
    is_mirrored = (numbers < 0.5).to(images.device)
    return torch.where(is_mirrored[:, None, None, None], images.flip(3), images)


def _draw_integers(end, shape, generator):
    """Draw integers from 0 to ``end - 1``, on the device of the generator."""
    return torch.randint(end, shape, generator=generator, device=generator.device)


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
        _convert_fields(self)

    def __call__(self, batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return the scaled batch with noise."""
        one_per_row = (len(batch), *(1,) * (batch.ndim - 1))
        deviations = _draw_normal(one_per_row, generator).to(batch)
        noise = _draw_normal(batch.shape, generator).to(batch)
        factors = 1.0 + self.scale * deviations
        return batch * factors + self.noise * noise


def _draw_normal(shape, generator):
    """Draw from the standard normal distribution, on the device of the generator."""
    return torch.randn(shape, generator=generator, device=generator.device)


@dataclass(frozen=True)
class ImageTransform:
    """Apply a transform of another library, such as those of ``torchvision.transforms.v2``.

    The transform gets the images before `mean` and `std` are applied, as uint8 if they are bytes.
    It may draw from the global generators of torch, which are seeded meanwhile.

    Parameters
    ----------
    transform : callable
        Takes one image, shaped (1, channels, height, width), and returns an image of the same
        shape. Each image gets its own random draws.

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

    transform: Callable[[torch.Tensor], torch.Tensor]

    def __post_init__(self):
        if not callable(self.transform) or isinstance(self.transform, type):
            raise TypeError(
                "transform must be a function or an instance, such as v2.RandomRotation(10); got "
                f"{self.transform!r}."
            )

    def __call__(self, batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return the transformed images of a batch that is not scaled."""
        seed = int(_draw_integers(2**31, (), generator))
        with seed_torch(seed, batch.device):
            images = [self.transform(image) for image in batch.split(1)]
            return torch.cat(images)


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
        _check_pixels("shift", self.shift)
        _convert_fields(self)

    def __call__(self, batch: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield the views of a batch, the batch itself first."""
        _check_images(batch, "MirrorShift")
        for view in self._shifts(batch):
            yield view
            if self.mirror:
                yield view.flip(3)

    def _shifts(self, batch):
        """Yield the batch, and the batch shifted in each direction."""
        yield batch
        shift = self.shift
        if not shift:
            return
        height, width = batch.shape[2:]
        padded = nn.functional.pad(batch, (shift,) * 4)
        corners = [(0, shift), (2 * shift, shift), (shift, 0), (shift, 2 * shift)]
        for row, column in corners:
            yield padded[:, :, row : row + height, column : column + width]


def augment_batch(augment, batch, generator):
    """Apply the value of the parameter `augment` to a batch; raise if that changes its shape."""
    if augment is None:
        return batch
    if augment == "flip-crop":
        augment = FlipCrop()
    augmented = augment(batch, generator)
    if not isinstance(augmented, torch.Tensor) or augmented.shape != batch.shape:
        shape = tuple(getattr(augmented, "shape", ()))
        raise ValueError(
            f"augment must return a tensor of the shape it was given, {tuple(batch.shape)}; got an "
            f"instance of {type(augmented).__name__} of shape {shape}."
        )
    return augmented


def _check_pixels(name, value):
    """Raise unless a value is a number of pixels."""
    if not isinstance(value, Integral) or value < 0:
        raise ValueError(f"{name} must be an integer, at least 0; got {value!r}.")


def _convert_fields(instance):
    """Convert the checked fields of an instance to their types; True becomes a number of pixels."""
    for field in fields(instance):
        value = getattr(instance, field.name)
        # A frozen dataclass refuses a plain assignment.
        object.__setattr__(instance, field.name, field.type(value))


def _check_images(batch, name):
    """Raise unless a batch has the axes of images."""
    if batch.ndim != 4:
        raise ValueError(
            f"{name} needs images, input_shape=(channels, height, width); got inputs of shape "
            f"{tuple(batch.shape[1:])}."
        )
