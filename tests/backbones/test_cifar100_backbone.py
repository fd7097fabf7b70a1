"""A trained backbone on real images: the features are those recorded with the data."""

import numpy as np
from numpy.testing import assert_allclose

from ffnb_sklearn.backbones import ConvNet, TorchFeatureExtractor


def test_features_of_real_images_are_the_recorded_ones(shared_data):
    with np.load(shared_data / "cifar100_images.npz") as data:
        images = data["x_test"][:200]
    with np.load(shared_data / "cifar100_b50.npz") as data:
        recorded = data["x_test"][:200].astype(np.float64)
    extractor = TorchFeatureExtractor(
        ConvNet,
        weights=shared_data / "cifar100_backbone.pt",
        input_shape=(3, 32, 32),
        mean=(129.3, 124.1, 112.4),
        std=(68.2, 65.4, 70.4),
        batch_size=64,
    )
    rows = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    features = extractor.fit_transform(rows)
    assert extractor.n_features_out_ == ConvNet().n_features == 256
    # The recorded features were computed in float32 on one device and rounded to float16.
    assert_allclose(features, recorded, atol=1e-2)
    assert np.abs(recorded).max() > 1.0


def test_layers_and_the_mirrored_image_of_a_trained_network(shared_data):
    with np.load(shared_data / "cifar100_images.npz") as data:
        images = data["x_test"][:60]
    with np.load(shared_data / "cifar100_b50.npz") as data:
        recorded = data["x_test"][:60].astype(np.float64)
    extractor = TorchFeatureExtractor(
        ConvNet,
        weights=shared_data / "cifar100_backbone.pt",
        layers=["6", "7", "8", "9", "10"],
        mean=(129.3, 124.1, 112.4),
        std=(68.2, 65.4, 70.4),
    )
    features = extractor.fit_transform(images)
    assert extractor.layer_widths_ == {"6": 64, "7": 128, "8": 128, "9": 256, "10": 256}
    assert_allclose(features[:, -256:] / extractor.layer_scales_["10"], recorded, atol=1e-2)
    mirrored = extractor.set_params(views="mirror").fit_transform(images)
    assert_allclose(extractor.transform(images[:, :, ::-1]), mirrored, atol=1e-5)
    assert np.abs(mirrored - features).max() > 1e-3
