"""Compare features of several layers and views of one network, on CIFAR-100.

The network was trained on the first fifty classes alone. Its features go to FFNB and to other
heads: fifty classes in the first task, then a few per task. Extracted features are cached, chunk by
chunk, so that an interrupted run goes on where it stopped.

    python -m benchmarks.features.layers --out layers.md layers.csv
    python -m benchmarks.features.layers --features all-mirror --classes-per-task 25 10 5 2 1
    python -m benchmarks.features.layers --features all-mirror --methods ffnb ffnb-ovo slda fecam
    python -m benchmarks.features.layers --weights wide.pt --network wide
    python -m benchmarks.features.layers --images-per-class 20 --features last all-mirror
    python -m benchmarks.features.layers --features last-mirror --methods --save rows.npz
"""

import hashlib
import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean

import joblib
import numpy as np

from benchmarks.heads.methods import METHODS, Context
from benchmarks.lib.data import first_of_each, read_arrays
from benchmarks.lib.report import (
    command_line,
    environment_lines,
    limited,
    page,
    publish,
    table,
    write,
)
from benchmarks.paper.printed import CIFAR_AVERAGES
from ffnb_sklearn import evaluate_stream
from ffnb_sklearn.backbones import ConvNet, MirrorShift, TorchFeatureExtractor

# Residual blocks of the network: the last of the second stage, both of the third and the fourth.
LAYERS = ("6", "7", "8", "9", "10")
BASE_CLASSES = 50
# Parameters of ConvNet. The wide one has nineteen twentieths of the parameters of a ResNet-18 and
# two thirds of its operations: its first stage, on whole images, is narrow.
SHAPES = {
    "narrow": {},
    "wide": {"stem_width": 32, "widths": (32, 96, 256, 512)},
    "full": {"stem_width": 64, "widths": (64, 128, 256, 512)},
}
# Scaling of the pixels that the network was trained with, per channel.
MEAN, STD = (129.3, 124.1, 112.4), (68.2, 65.4, 70.4)
CHUNK = 2500
# Random neurons of RanPAC and cosines of KLDA.
WIDTH = 5000

FIGURES = ("base", "final", "average", "fit_s", "score_s", "state_mb")
COLUMNS = ["features", "width", "head", "stream", "scored", "base %", "final %", "average %"]
COLUMNS += ["fit s", "predict s", "state MB"]

# Average incremental accuracy in percent with 2, 5, 10, and 20 or 25 tasks after the first, as the
# papers print it; "-": not known. Papers: arXiv:2111.11366 (FFNB); Zhu et al., CVPR 2021 (PASS);
# Zhu et al., CVPR 2022 (SSRE); arXiv:2211.13131 (FeTrIL); arXiv:2205.14922 (ACIL);
# arXiv:2309.14062 (FeCAM); Yan et al., CVPR 2021 (DER).
PUBLISHED = [
    ("FFNB, the paper", "EfficientNet, frozen", *CIFAR_AVERAGES.values(), "-"),
    ("PASS", "ResNet-18, trained on by every task", "-", 63.5, 61.8, 58.1),
    ("SSRE", "ResNet-18, grows with every task", "-", 65.9, 65.0, 61.7),
    ("FeTrIL", "ResNet-18, frozen", "-", 66.3, 65.2, 61.5),
    ("ACIL", "ResNet-32, frozen", "-", 66.30, 66.07, 65.95),
    ("FeCAM", "ResNet-18, frozen", "-", 70.9, 70.8, 69.4),
    ("CLOVER", "five networks, frozen", "-", 72.7, 72.3, 71.0),
    ("DER", "ResNet-18, one more per task; keeps images", 74.61, 73.21, 72.81, "-"),
]


@dataclass(frozen=True)
class Features:
    """A row of the table: the layers, and the views of each image.

    Layers are None for the output of the network, and empty for the pixels.
    """

    label: str
    layers: tuple | None
    views: str | MirrorShift | None = "mirror"


FEATURES = {
    "pixels": Features("pixels", (), None),
    "last": Features("last layer", None, None),
    "last-mirror": Features("last layer, mean with the mirrored image", None),
    "two-mirror": Features("blocks 8 and 10", ("8", "10")),
    "three-mirror": Features("blocks 8 to 10", ("8", "9", "10")),
    "all-mirror": Features("blocks 6 to 10", LAYERS),
    "all-shift": Features("blocks 6 to 10, also of shifted images", LAYERS, MirrorShift(shift=2)),
}


@dataclass(frozen=True)
class Images:
    """Training and test images as bytes, with labels in the order in which classes arrive."""

    train: np.ndarray
    y_train: np.ndarray
    test: np.ndarray
    y_test: np.ndarray


def load_images(folder, per_class=None):
    """Read the images."""
    position = np.argsort(read_arrays(folder / "cifar100_b50.npz")["order"])
    coded, y = (read_arrays(folder / "cifar100_train_images.npz")[key] for key in ("coded", "y"))
    if per_class is not None:
        kept = first_of_each(y, per_class)
        coded, y = coded[kept], y[kept]
    test = read_arrays(folder / "cifar100_images.npz")
    return Images(decode(coded), position[y], test["x_test"], position[test["y_test"]])


def decode(coded):
    """Undo the coding of the training images: differences to the left, and to green."""
    green, red, blue = np.moveaxis(np.cumsum(coded, axis=3, dtype=np.uint8), 1, 0)
    return np.stack([red + green, green, blue + green], axis=1)


def extract(images, views, options):
    """Compute the features of all layers, or read those that are cached."""
    digest = hashlib.sha256(options.weights.read_bytes()).hexdigest()[:8]
    precision = "_mixed" if options.mixed_precision else ""
    cache = options.cache / f"{digest}_{len(images.y_train)}_{views}{precision}"
    cache.mkdir(parents=True, exist_ok=True)
    is_base = images.y_train < BASE_CLASSES
    fitted = cache / "fitted.joblib"
    if not fitted.is_file():
        extractor = TorchFeatureExtractor(
            ConvNet,
            backbone_params=SHAPES[options.network],
            weights=options.weights,
            layers=LAYERS,
            views=views,
            input_shape=(3, 32, 32),
            mean=MEAN,
            std=STD,
            device=options.device,
            mixed_precision=options.mixed_precision,
        )
        base = extractor.fit_transform(images.train[is_base])
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
    """Return the features of some images, each chunk of which is computed once."""
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
    """Return the training and test rows of a row of the table, in float64."""
    if features.layers == ():
        test = images.test.transpose(0, 3, 1, 2)
        return tuple(one.reshape(len(one), -1) / 255.0 for one in (images.train, test))
    *rows, layers = extracted
    return tuple(_layers_of(X, features, layers) for X in rows)


def _layers_of(X, features, layers):
    """Select the columns of some layers.

    The output of the network is its last block: the mean over the image, unscaled.
    """
    stops = np.cumsum([width for width, _ in layers.values()])
    parts = dict(zip(layers, np.split(X, stops[:-1], axis=1), strict=True))
    if features.layers is None:
        return parts[LAYERS[-1]].astype(np.float64) / layers[LAYERS[-1]][1]
    return np.hstack([parts[name] for name in features.layers]).astype(np.float64)


def run(options):
    """Measure all rows of the table."""
    images, extracted, records = load_images(options.data, options.images_per_class), {}, []
    for name in options.features:
        features = FEATURES[name]
        if features.layers != () and features.views not in extracted:
            extracted[features.views] = extract(images, features.views, options)
        X, X_test = columns(features, images, extracted.get(features.views))
        if options.save is not None:
            # In half the size; the last of several rows of the table stays.
            half = {"x_train": X.astype(np.float32), "x_test": X_test.astype(np.float32)}
            np.savez(options.save, **half, y_train=images.y_train, y_test=images.y_test)
        for method, per_task in product(options.methods, options.classes_per_task):
            record = {"features": name, "method": method, "per_task": per_task, "width": X.shape[1]}
            records.append(record | stream(method, X, X_test, images, per_task, options))
            print(records[-1], file=sys.stderr, flush=True)
            for path in options.out:
                if path.suffix == ".csv":
                    write(path, "", records)
    return records


def stream(method, X, X_test, images, per_task, options):
    """Stream the tasks through one head, for each seed, and average the figures."""
    scored = first_of_each(images.y_test, options.scored_per_class)
    runs = []
    for seed in options.seeds:
        result = evaluate_stream(
            METHODS[method].build(Context(seed, WIDTH, options.device)),
            X,
            images.y_train,
            X_test[scored],
            images.y_test[scored],
            classes_per_task=per_task,
            first_task_classes=BASE_CLASSES,
        )
        start = time.perf_counter()
        final = result.estimator.score(X_test, images.y_test)
        runs.append(
            {
                "base": 100 * result.accuracies[0],
                "final": 100 * final,
                "average": 100 * result.average_incremental_accuracy,
                "fit_s": result.fit_seconds.sum(),
                "score_s": time.perf_counter() - start,
                "state_mb": result.state_bytes[-1] / 1e6,
            }
        )
    measured = {name: mean(run[name] for run in runs) for name in FIGURES}
    return {"scored": int(np.bincount(images.y_test[scored]).max()), **measured}


def report(records, options):
    """Return the page as Markdown: the table, published figures, settings of the heads."""
    n = options.images_per_class or 500
    notes = [
        f"data: CIFAR-100, all test images, {n} training images per class; the {options.network} "
        f"network of {options.weights.name}, trained on the first 50 classes",
        f"seeds: {', '.join(map(str, options.seeds))}, of the head's random numbers; means over "
        f"seeds; random neurons of RanPAC, cosines of KLDA: {WIDTH}",
        "features: outputs of residual blocks (6: end of the second stage, 7 and 8: third, 9 and "
        "10: fourth), each pooled by the mean over the image and scaled by one number learned on "
        "the first 50 classes; last layer: the output of the network, unscaled; mean with the "
        "mirrored image unless stated; shifted images: by two pixels to four sides, each with its "
        "mirror image; pixels: divided by 255",
        "stream: tasks after the first one, which has 50 classes; base %: after the first task; "
        "average %: mean over all tasks of the accuracy on all classes met so far, both on the "
        "first scored test images of each class; final %: on all 100 of each class",
        "fit s: sum over tasks, without extraction; predict s: the whole test set after the last "
        "task; state: the pickled head after the last task",
    ]
    published = (
        "Average incremental accuracy in percent on the same split and streams, as the papers "
        "print it. Each method has a network of its own with a recipe of its own, so these rows "
        "say how much is reached, and not which head is better. Papers with 20 tasks mostly start "
        "from 40 classes."
    )
    return page(
        "Features of several layers",
        environment_lines(options.device),
        notes,
        table(COLUMNS, [_cells(one) for one in records]),
        ["## Published figures", "", published],
        table(["method", "network", "S2", "S5", "S10", "S20 or S25"], PUBLISHED),
        ["Heads:", "", *(f"- {METHODS[m].label}: {METHODS[m].note}" for m in options.methods)],
    )


def _cells(one):
    accuracies = (f"{one[name]:.2f}" for name in ("base", "final", "average"))
    costs = (f"{one[name]:.3g}" for name in ("fit_s", "score_s", "state_mb"))
    row = FEATURES[one["features"]].label, one["width"], METHODS[one["method"]].label
    per_task = one["per_task"]
    return *row, f"S{50 // per_task}, {per_task} per task", one["scored"], *accuracies, *costs


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, data=True)
    add = parser.add_argument
    incremental = [name for name, method in METHODS.items() if not method.joint]
    add("--features", nargs="+", choices=list(FEATURES), default=list(FEATURES))
    add("--methods", nargs="*", choices=incremental, default=["ffnb"], help="none: extract only")
    add("--classes-per-task", nargs="+", type=int, default=[5], help="after the first fifty")
    add("--seeds", nargs="+", type=int, default=[0])
    add("--weights", type=Path, help="of the network; default: cifar100_backbone.pt of --data")
    add("--network", choices=list(SHAPES), default="narrow")
    add("--images-per-class", type=int, help="training images; default: all 500")
    add("--scored-per-class", type=int, help="test images until the last task; default: all 100")
    add("--cache", type=Path, default=Path("out") / "layers")
    add("--save", type=Path, help=".npz for the features, which benchmarks.paper.paper reads")
    add("--device", default="cpu", help="device for the network and FFNB")
    add("--mixed-precision", action="store_true", help="extract partly in bfloat16")
    options = parser.parse_args(arguments)
    options.weights = options.weights or options.data / "cifar100_backbone.pt"
    return options


def main(arguments=None):
    """Run the comparison and print its report."""
    options = parse(arguments)
    with limited(options.threads):
        records = run(options)
        text = report(records, options)
    publish(text, records, options.out)


if __name__ == "__main__":
    main()
