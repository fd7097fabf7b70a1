"""The benchmark of layers: its cache, its columns and its table, with few images."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.backbones import ConvNet, TorchFeatureExtractor


def encoded(images):
    """Code images of shape (n, height, width, 3) as the file of the training images does."""
    red, green, blue = np.moveaxis(images, -1, 0)
    planes = np.stack([green, red - green, blue - green], axis=1)
    return np.diff(planes, axis=3, prepend=np.uint8(0))


def test_the_coding_is_undone(bench):
    images = np.random.default_rng(0).integers(0, 256, size=(3, 4, 5, 3), dtype=np.uint8)
    assert_array_equal(
        bench("_layer_features").decode(encoded(images)), images.transpose(0, 3, 1, 2)
    )


@pytest.fixture(scope="module")
def few(bench, shared_data):
    images = bench("_layer_features").load_images(shared_data, per_class=2)
    return bench("_layer_features").Images(
        images.train, images.y_train, images.test[:150], images.y_test[:150]
    )


def test_images_are_those_of_the_file_and_labels_count_the_arrival(few, shared_data):
    with np.load(shared_data / "cifar100_b50.npz") as data:
        recorded, labels, order = data["x_test"], data["y_test"], data["order"]
    assert sorted(order) == list(range(100))
    assert few.train.shape == (200, 3, 32, 32)
    assert sorted(set(few.y_train)) == list(range(100))
    assert_array_equal(few.y_test, labels[: len(few.y_test)])
    assert len(recorded) == 10_000


def test_extraction_goes_on_where_it_stopped(bench, few, shared_data, tmp_path, monkeypatch):
    layers = bench("_layer_features")
    monkeypatch.setattr(layers, "CHUNK", 60)
    weights = shared_data / "cifar100_backbone.pt"
    X, X_test, _ = layers.extract(few, weights, "mirror", tmp_path, "cpu")
    files = sorted(one.name for one in tmp_path.rglob("*") if one.is_file())
    assert files == [
        "fitted.joblib",
        "later_0.npy",
        "later_60.npy",
        "test_0.npy",
        "test_120.npy",
        "test_60.npy",
    ]
    next(tmp_path.rglob("later_60.npy")).unlink()
    again = layers.extract(few, weights, "mirror", tmp_path, "cpu")
    assert_array_equal(again[0], X)
    assert_array_equal(again[1], X_test)
    base = X[few.y_train < 50]
    assert_allclose(np.square(base).sum(axis=1).mean(), 5, rtol=1e-5)

    options = {"weights": weights, "views": "mirror", "input_shape": (3, 32, 32)}
    options |= {"mean": (129.3, 124.1, 112.4), "std": (68.2, 65.4, 70.4)}
    one = TorchFeatureExtractor(ConvNet, layers=["8", "10"], **options).fit(
        few.train[few.y_train < 50]
    )
    _, found = layers.columns(layers.FEATURES["two-mirror"], few, {(layers.GIVEN, "mirror"): again})
    assert_allclose(found, one.transform(few.test), atol=1e-6)
    last = TorchFeatureExtractor(ConvNet, **options).fit_transform(few.test)
    _, found = layers.columns(
        layers.FEATURES["last-mirror"], few, {(layers.GIVEN, "mirror"): again}
    )
    assert_allclose(found, last, atol=1e-5)
    three = layers.FEATURES["three"]
    doubled = {(layers.GIVEN, "mirror"): again, (layers.FURTHER, "mirror"): again}
    both = dict.fromkeys(three.extractions, (2 * again[0], 2 * again[1], again[2])) | doubled
    _, found = layers.columns(three, few, both)
    assert_allclose(found, np.hstack([again[1], again[1], 2 * again[1]]))


def test_pixels_are_rows_with_channels_first(bench, few):
    layers = bench("_layer_features")
    X, X_test = layers.columns(layers.FEATURES["pixels"], few, {})
    assert X.shape == (200, 3 * 32 * 32)
    assert_array_equal(X[3].reshape(3, 32, 32) * 255, few.train[3])
    assert_array_equal(X_test[3].reshape(3, 32, 32)[2] * 255, few.test[3, :, :, 2])


def test_report_has_a_row_per_run(bench, tmp_path, shared_data, capsys):
    paths = [tmp_path / "layers.md", tmp_path / "layers.csv"]
    command = ["--features", "last", "--methods", "ncm", "--classes-per-task", "25"]
    command += ["--images-per-class", "1", "--cache", str(tmp_path), "--out", *map(str, paths)]
    command += ["--title", "a few", "--scored-per-class", "2", "--matrices"]
    layers = bench("layers")
    load = layers.load_images

    def thinned(folder, per_class):
        images = load(folder, per_class)
        return bench("_layer_features").Images(
            images.train, images.y_train, images.test[:600], images.y_test[:600]
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "load_images", thinned)
        layers.main([*command, "--data", str(shared_data)])
    printed = capsys.readouterr().out
    assert paths[0].read_text(encoding="utf-8") == printed
    assert "1 training images per class (of 500, so figures are lower)" in printed
    (row,) = [line for line in printed.splitlines() if line.startswith("| last layer |")]
    assert row.startswith("| last layer | 256 | nearest class mean | S2, 25 per task | 2 |")
    assert "# Features of several layers: a few" in printed
    assert "| FFNB, the paper | EfficientNet, frozen | 72.34 | 70.70 | 68.05 | - |" in printed
    assert len(paths[1].read_text(encoding="utf-8").splitlines()) == 2
    start = printed.index("## Groups of classes, nearest class mean, last layer, S2, ours (paper)")
    groups = [line.split(" | ") for line in printed[start:].splitlines()[2:7]]
    assert groups[0] == ["| test classes", "T0", "T1", "T2 |"]
    assert [cells[0] for cells in groups[2:]] == ["| 0-49", "| 50-74", "| 75-99"]
    assert all("(" in cells[3] for cells in groups[2:])
    assert [cells[2] == "" for cells in groups[2:]] == [False, False, True]
    # A resumed run keeps the earlier rows and measures none of them again.
    layers.main([*command, "--data", str(shared_data), "--resume", str(paths[1])])
    assert capsys.readouterr().out.partition("\n| ")[2] == printed.partition("\n| ")[2]


def test_the_first_images_of_each_class_are_scored(bench):
    y = np.array([1, 0, 1, 1, 0, 2])
    assert_array_equal(bench("layers").first_of_each(y, 2), [0, 1, 2, 4, 5])
    assert_array_equal(bench("layers").first_of_each(y, None), np.arange(6))
