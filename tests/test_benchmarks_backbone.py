"""The benchmark that trains a network further, with few images."""

import numpy as np
import torch

from ffnb_sklearn.backbones import ConvNet, TorchFeatureExtractor


def test_a_training_is_recorded_and_its_weights_can_be_used(bench, shared_data, tmp_path, capsys):
    arguments = ["--threads", "1", "--start", "random", "--epochs", "2", "--images-per-class", "2"]
    arguments += ["--data", str(shared_data), "--checkpoint", str(tmp_path / "checkpoint")]
    arguments += ["--weights", str(tmp_path / "weights.pt"), "--out", str(tmp_path / "page.md")]
    bench("backbone").main(arguments)

    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows] == ["| epoch", "| 1", "| 2"]
    weights = torch.load(tmp_path / "weights.pt", weights_only=True)
    assert {one.dtype for one in weights.values()} == {torch.float16, torch.int64}
    assert (tmp_path / "weights.pt").stat().st_size < 8e6
    images = np.zeros((3, 3, 32, 32), dtype=np.uint8)
    extractor = TorchFeatureExtractor(ConvNet, weights=str(tmp_path / "weights.pt"))
    assert extractor.fit_transform(images).shape == (3, 256)

    # The checkpoint of a finished training gives the same weights again.
    bench("backbone").main(arguments)
    for name, again in torch.load(tmp_path / "weights.pt", weights_only=True).items():
        assert torch.equal(again, weights[name])


def test_a_wide_network_gives_wider_rows(bench, shared_data, tmp_path, capsys):
    layers = bench("_layer_features")
    weights = tmp_path / f"{layers.WIDE}.pt"
    arguments = ["--threads", "1", "--start", "random", "--epochs", "1", "--images-per-class", "2"]
    arguments += ["--network", "wide", "--data", str(shared_data), "--weights", str(weights)]
    bench("backbone").main([*arguments, "--checkpoint", str(tmp_path / "checkpoint")])

    assert "- network: wide, ConvNet(stem_width=32, widths=(32, 96, 256, 512))" in (
        capsys.readouterr().out
    )
    images = layers.load_images(shared_data, per_class=1)
    few = layers.Images(images.train, images.y_train, images.test[:5], images.y_test[:5])
    extracted = layers.extract(few, weights, None, tmp_path, "cpu")
    _, _, widths = extracted
    assert [width for width, _ in widths.values()] == [96, 256, 256, 512, 512]
    features = layers.Features("wide", ("6", "10"), None, (layers.WIDE,))
    X, X_test = layers.columns(features, few, {(layers.WIDE, None): extracted})
    assert X.shape == (100, 96 + 512)
    np.testing.assert_allclose(X_test[:, :96], extracted[1][:, :96])
