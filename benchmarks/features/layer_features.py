"""Features of the layers of one network on CIFAR-100: which there are, and their cache.

The network was trained on the first fifty classes alone. Features are extracted once and kept in
files, chunk by chunk, so that an interrupted run goes on where it stopped.
"""

import hashlib
import sys
import time
from dataclasses import dataclass

import joblib
import numpy as np
from _data import read_arrays

from ffnb_sklearn.backbones import ConvNet, MirrorShift, TorchFeatureExtractor

# Residual blocks of the network: the last of the second stage, both of the third and the fourth.
LAYERS = ("6", "7", "8", "9", "10")
BASE_CLASSES = 50
# Shapes of networks: parameters of ConvNet. The wide one has nineteen twentieths of the parameters
# of a ResNet-18 and two thirds of its operations: its first stage, on whole images, is narrow.
SHAPES = {
    "narrow": {},
    "wide": {"stem_width": 32, "widths": (32, 96, 256, 512)},
}
# Scaling of the pixels that the network was trained with, per channel.
MEAN, STD = (129.3, 124.1, 112.4), (68.2, 65.4, 70.4)
CHUNK = 2500


# Files of weights: of the network that comes with the data, of the same trained further by
# `backbone.py` (docs/benchmarks/backbone.md, backbone_cutout.md), and of a wide network trained
# from random weights (backbone_wide.md). Weights of the last two are not kept here.
GIVEN, FURTHER, CUTOUT = "cifar100_backbone", "cifar100_first50", "cifar100_first50_cutout"
WIDE = "cifar100_wide"


@dataclass(frozen=True)
class Features:
    """A row of the table: the layers, the views of each image, and the networks.

    Layers are None for the output of the network, and empty for the pixels. The features of several
    networks stand side by side.
    """

    label: str
    layers: tuple | None
    views: str | MirrorShift | None
    networks: tuple = (GIVEN,)

    @property
    def extractions(self):
        """Network and views of each pass through a network."""
        return [] if self.layers == () else [(one, self.views) for one in self.networks]


FEATURES = {
    "pixels": Features("pixels", (), None),
    "last": Features("last layer", None, None),
    "last-mirror": Features("last layer, mean with the mirrored image", None, "mirror"),
    "two-mirror": Features("blocks 8 and 10", ("8", "10"), "mirror"),
    "three-mirror": Features("blocks 8 to 10", ("8", "9", "10"), "mirror"),
    "stages-mirror": Features("blocks 7 to 10", LAYERS[1:], "mirror"),
    "all-mirror": Features("blocks 6 to 10", LAYERS, "mirror"),
    "all-shift": Features("blocks 6 to 10, also of shifted images", LAYERS, MirrorShift(shift=2)),
    "all": Features("blocks 6 to 10, without the mirrored image", LAYERS, None),
    "further": Features("blocks 6 to 10, trained further", LAYERS, "mirror", (FURTHER,)),
    "cutout": Features("blocks 6 to 10, then with cutout", LAYERS, "mirror", (CUTOUT,)),
    "wide": Features("blocks 6 to 10 of the wide network", LAYERS, "mirror", (WIDE,)),
    "wide-given": Features(
        "blocks 6 to 10 of the wide network and of the given one", LAYERS, "mirror", (GIVEN, WIDE)
    ),
    "three": Features(
        "blocks 6 to 10 of all three networks", LAYERS, "mirror", (GIVEN, FURTHER, CUTOUT)
    ),
}


@dataclass(frozen=True)
class Images:
    """Training and test images as bytes, with labels in the order in which classes arrive."""

    train: np.ndarray
    y_train: np.ndarray
    test: np.ndarray
    y_test: np.ndarray


def load_images(folder, per_class=None):
    """Read the images.

    Parameters
    ----------
    folder : Path
        Folder of the data files.
    per_class : int, default=None
        Training images per class, the first ones; None: all 500.

    Returns
    -------
    images : Images
        Training images of shape (n, 3, 32, 32), test images of shape (n, 32, 32, 3).
    """
    position = np.argsort(read_arrays(folder / "cifar100_b50.npz")["order"])
    coded, y = (read_arrays(folder / "cifar100_train_images.npz")[key] for key in ("coded", "y"))
    if per_class is not None:
        kept = np.concatenate([np.flatnonzero(y == label)[:per_class] for label in np.unique(y)])
        coded, y = coded[kept], y[kept]
    test = read_arrays(folder / "cifar100_images.npz")
    return Images(decode(coded), position[y], test["x_test"], position[test["y_test"]])


def decode(coded):
    """Undo the coding of the training images: differences to the left, and to green."""
    green, red, blue = np.moveaxis(np.cumsum(coded, axis=3, dtype=np.uint8), 1, 0)
    return np.stack([red + green, green, blue + green], axis=1)


def make_extractor(weights, views, device, *, mixed_precision=False):
    """Return the extractor of all layers; each row of the table takes some of its columns."""
    return TorchFeatureExtractor(
        ConvNet,
        backbone_params=SHAPES["wide" if weights.stem == WIDE else "narrow"],
        weights=weights,
        layers=LAYERS,
        views=views,
        input_shape=(3, 32, 32),
        mean=MEAN,
        std=STD,
        device=device,
        mixed_precision=mixed_precision,
    )


def extract(images, weights, views, cache, device, *, mixed_precision=False):
    """Compute the features of all layers, or read those that are cached.

    Parameters
    ----------
    images : Images
        What to extract from.
    weights : Path
        File of the network.
    views : {"mirror"}, MirrorShift or None
        What the network sees of each image.
    cache : Path
        Folder of the cached chunks.
    device : str
        Where the network runs.
    mixed_precision : bool, default=False
        Whether the network computes partly in bfloat16.

    Returns
    -------
    X, X_test : ndarray of shape (n, width)
        Scaled features, in the order of the images.
    layers : dict of str -> (int, float)
        Width of each layer, and its factor, learned from the images of the first fifty classes.
    """
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()[:8]
    precision = "_mixed" if mixed_precision else ""
    cache = cache / f"{digest}_{len(images.y_train)}_{views}{precision}"
    cache.mkdir(parents=True, exist_ok=True)
    is_base = images.y_train < BASE_CLASSES
    fitted = cache / "fitted.joblib"
    if not fitted.is_file():
        extractor = make_extractor(weights, views, device, mixed_precision=mixed_precision)
        start = time.perf_counter()
        base = extractor.fit_transform(images.train[is_base])
        rate = len(base) / (time.perf_counter() - start)
        print(f"{views}: {rate:.0f} images per second", file=sys.stderr, flush=True)
        partial = fitted.with_suffix(".partial")
        joblib.dump((extractor, base), partial)
        partial.replace(fitted)
    extractor, base = joblib.load(fitted)
    X = np.empty((len(is_base), base.shape[1]), dtype=np.float32)
    X[is_base] = base
    X[~is_base] = _chunks(extractor, images.train[~is_base], cache / "later")
    widths, scales = extractor.layer_widths_, extractor.layer_scales_
    layers = {name: (widths[name], scales[name]) for name in LAYERS}
    return X, _chunks(extractor, images.test, cache / "test"), layers


def _chunks(extractor, images, path):
    """Features of some images, each chunk of which is computed once."""
    parts = []
    for start in range(0, len(images), CHUNK):
        file = path.with_name(f"{path.name}_{start}.npy")
        if not file.is_file():
            # A file that is there is whole.
            partial = path.with_name("partial.npy")
            np.save(partial, extractor.transform(images[start : start + CHUNK]))
            partial.replace(file)
            print(f"{file.parent.name}/{file.name}", file=sys.stderr, flush=True)
        parts.append(np.load(file))
    return np.concatenate(parts)


def columns(features, images, extracted):
    """Return the training and test rows of a row of the table.

    Parameters
    ----------
    features : Features
        The row.
    images : Images
        The images, for the pixels.
    extracted : dict of tuple -> tuple
        What `extract` returns, by network and views.

    Returns
    -------
    X, X_test : ndarray of shape (n, width)
        Float64.
    """
    if features.layers == ():
        test = images.test.transpose(0, 3, 1, 2)
        return tuple(one.reshape(len(one), -1) / 255.0 for one in (images.train, test))
    parts = [
        (_layers_of(X, features, layers), _layers_of(X_test, features, layers))
        for X, X_test, layers in (extracted[one] for one in features.extractions)
    ]
    return tuple(np.hstack(one) for one in zip(*parts, strict=True))


def _layers_of(X, features, layers):
    """Select the columns of some layers.

    The output of the network is its last block: the mean over the image, unscaled.
    """
    stops = np.cumsum([width for width, _ in layers.values()])
    parts = dict(zip(layers, np.split(X, stops[:-1], axis=1), strict=True))
    if features.layers is None:
        _, scale = layers[LAYERS[-1]]
        return parts[LAYERS[-1]].astype(np.float64) / scale
    return np.hstack([parts[name] for name in features.layers]).astype(np.float64)
