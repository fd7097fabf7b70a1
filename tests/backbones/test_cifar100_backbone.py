"""A trained backbone on real images: the features are those recorded with the data."""

import numpy as np
from numpy.testing import assert_allclose
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor

WIDTHS = [(32, 32), (32, 32), (32, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256)]


class Block(nn.Module):
    """Residual block of two 3x3 convolutions."""

    def __init__(self, n_in, n_out):
        super().__init__()
        stride = 1 if n_in == n_out else 2
        self.c1 = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(n_out)
        self.c2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(n_out)
        self.sc = nn.Identity()
        if stride != 1:
            shortcut = nn.Conv2d(n_in, n_out, 1, stride, bias=False)
            self.sc = nn.Sequential(shortcut, nn.BatchNorm2d(n_out))

    def forward(self, inputs):
        inner = nn.functional.relu(self.b1(self.c1(inputs)))
        return nn.functional.relu(self.b2(self.c2(inner)) + self.sc(inputs))


def narrow_resnet():
    """ResNet-18 of 32 to 256 channels for 32x32 images."""
    stem = [nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    blocks = [Block(n_in, n_out) for n_in, n_out in WIDTHS]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def test_features_of_real_images_are_the_recorded_ones(shared_data):
    with np.load(shared_data / "cifar100_images.npz") as data:
        images = data["x_test"][:200]
    with np.load(shared_data / "cifar100_b50.npz") as data:
        recorded = data["x_test"][:200].astype(np.float64)
    extractor = TorchFeatureExtractor(
        narrow_resnet,
        weights=shared_data / "cifar100_backbone.pt",
        input_shape=(3, 32, 32),
        mean=(129.3, 124.1, 112.4),
        std=(68.2, 65.4, 70.4),
        batch_size=64,
    )
    rows = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    features = extractor.fit_transform(rows)
    assert extractor.n_features_out_ == 256
    # The recorded features were computed in float32 on one device and rounded to float16.
    assert_allclose(features, recorded, atol=1e-2)
    assert np.abs(recorded).max() > 1.0
