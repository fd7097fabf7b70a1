"""A small residual network for small images."""

from collections.abc import Sequence
from numbers import Integral

import numpy as np
import torch
from torch import nn


class ConvNet(nn.Module):
    """Residual network for small images, such as 32 x 32 pixels.

    A 3 x 3 convolution is followed by stages of residual blocks. Each block has two 3 x 3
    convolutions with batch normalisation [1]_, and every stage but the first halves the image. The
    output is the mean over the remaining pixels. The default is a ResNet-18 of half the usual
    width, which has 2.8 million parameters.

    Parameters
    ----------
    in_channels : int, default=3
        Channels of the image.
    stem_width : int, default=32
        Channels after the first convolution.
    widths : sequence of int, default=(32, 64, 128, 256)
        Channels of each stage.
    blocks : sequence of int, default=(2, 2, 2, 2)
        Number of residual blocks of each stage.

    Attributes
    ----------
    n_features : int
        Width of the output, which is the last entry of `widths`.

    References
    ----------
    .. [1] K. He, X. Zhang, S. Ren, J. Sun. Deep Residual Learning for Image Recognition.
       CVPR 2016.

    Examples
    --------
    >>> import torch
    >>> from ffnb_sklearn.backbones import ConvNet
    >>> network = ConvNet(in_channels=1, stem_width=4, widths=(4, 8), blocks=(1, 1))
    >>> network(torch.zeros(5, 1, 14, 14)).shape
    torch.Size([5, 8])
    """

    def __init__(
        self,
        *,
        in_channels: int = 3,
        stem_width: int = 32,
        widths: Sequence[int] = (32, 64, 128, 256),
        blocks: Sequence[int] = (2, 2, 2, 2),
    ) -> None:
        super().__init__()
        _check_counts("in_channels", [in_channels])
        _check_counts("stem_width", [stem_width])
        _check_counts("widths", widths)
        _check_counts("blocks", blocks)
        if len(widths) != len(blocks):
            raise ValueError(
                f"widths and blocks must have one entry per stage; got {len(widths)} and "
                f"{len(blocks)} entries."
            )
        layers = [
            nn.Conv2d(in_channels, stem_width, 3, padding=1, bias=False),
            nn.BatchNorm2d(stem_width),
            nn.ReLU(),
        ]
        n_in = stem_width
        for stage, width in enumerate(widths):
            for block in range(blocks[stage]):
                # The first block of each stage but the first halves the image.
                stride = 1
                if stage > 0 and block == 0:
                    stride = 2
                layers.append(_Block(n_in, width, stride))
                n_in = width
        layers.append(nn.AdaptiveAvgPool2d(1))
        layers.append(nn.Flatten())
        # The layers are numbered as in a Sequential, so that its weights fit. A subclass of
        # Sequential could not be sliced, because slicing calls the constructor with layers.
        for number, layer in enumerate(layers):
            self.add_module(str(number), layer)
        self.n_features = n_in

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Compute features of images.

        Parameters
        ----------
        images : torch.Tensor of shape (n, in_channels, height, width)
            Scaled images.

        Returns
        -------
        torch.Tensor of shape (n, n_features)
            Features.
        """
        outputs = images
        for layer in self.children():
            outputs = layer(outputs)
        return outputs


class _Block(nn.Module):
    """Two 3 x 3 convolutions in parallel with a shortcut."""

    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.c1 = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(n_out)
        self.c2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(n_out)
        self.sc = nn.Identity()
        if stride != 1 or n_in != n_out:
            convolution = nn.Conv2d(n_in, n_out, 1, stride, bias=False)
            self.sc = nn.Sequential(convolution, nn.BatchNorm2d(n_out))

    def forward(self, inputs):
        """Return the rectified sum of both paths."""
        hidden = self.b1(self.c1(inputs))
        hidden = nn.functional.relu(hidden)
        residual = self.b2(self.c2(hidden))
        shortcut = self.sc(inputs)
        return nn.functional.relu(residual + shortcut)


def _check_counts(name, values):
    """Raise unless the values are a non-empty sequence of positive integers."""
    counts = []
    if np.iterable(values):
        counts = list(values)
    are_positive = [isinstance(count, Integral) and count > 0 for count in counts]
    if not counts or not all(are_positive):
        raise ValueError(f"{name} must hold positive integers; got {values!r}.")
