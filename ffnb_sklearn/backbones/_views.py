"""Fixed views of a batch of images, over which the features are averaged.

A view replaces the input of the network: it is the image itself, its mirror image, or a shifted
image. In contrast to an augmentation, nothing is drawn at random.
"""

from dataclasses import dataclass
from numbers import Integral

import torch
from torch import nn

__all__ = ["MirrorShift"]

_IMAGE_AXES = 4


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
        if not isinstance(self.shift, Integral) or self.shift < 0:
            raise ValueError(f"shift must be an integer, at least 0; got {self.shift!r}.")

    def __call__(self, batch):
        """Yield the views of a batch, the batch itself first.

        Parameters
        ----------
        batch : torch.Tensor of shape (n, channels, height, width)
            Scaled images.

        Yields
        ------
        torch.Tensor of shape (n, channels, height, width)
            A view of each image.

        Raises
        ------
        ValueError
            If the inputs are not images.
        """
        if batch.ndim != _IMAGE_AXES:
            raise ValueError(
                "views need images, input_shape=(channels, height, width); got inputs of shape "
                f"{tuple(batch.shape[1:])}."
            )
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


def view_batches(views, batch):
    """Yield the views of one batch of inputs; None gives the batch itself.

    Raise `TypeError` or `ValueError` if a callable does not return batches of the same length, or
    returns none.
    """
    if views is None:
        yield batch
        return
    if isinstance(views, type) and issubclass(views, MirrorShift):
        raise TypeError(
            f"views must be an instance, such as MirrorShift(); got the class {views.__name__}."
        )
    made = (MirrorShift() if views == "mirror" else views)(batch)
    if isinstance(made, torch.Tensor):
        raise TypeError(
            "views must return several batches, such as a list of tensors; got one tensor of "
            f"shape {tuple(made.shape)}."
        )
    n_views = 0
    for view in made:
        if not isinstance(view, torch.Tensor) or len(view) != len(batch):
            shape = tuple(getattr(view, "shape", ()))
            raise ValueError(
                f"views must return batches of {len(batch)} inputs each; got an instance of "
                f"{type(view).__name__} of shape {shape}."
            )
        n_views += 1
        # The network may write to its input, from which the next view may be made.
        yield view.clone()
    if not n_views:
        raise ValueError("views must return at least one batch; got none.")
