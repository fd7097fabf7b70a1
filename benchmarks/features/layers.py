"""Compare features of several layers and views of one network, on CIFAR-100.

The network was trained on the first fifty classes alone, or on ImageNet. Its features go to IDA
and to other heads: the first classes in one task, then a few per task (``50+5``). A network of
ImageNet can be adapted to the classes that all streams have first. Extracted features are cached,
chunk by chunk, and rows of the table that a .csv of ``--out`` holds are not measured again, so that
an interrupted run goes on where it stopped.

    python -m benchmarks.features.layers --out layers.md layers.csv
    python -m benchmarks.features.layers --features all-mirror --streams 50+25 50+10 50+5
    python -m benchmarks.features.layers --network lite --mixed-precision --streams 10+10 50+5
    python -m benchmarks.features.layers --network lite --mixed-precision --adapt 0 3
    python -m benchmarks.features.layers --images-per-class 20 --features last all-mirror
    python -m benchmarks.features.layers --features last-mirror --methods --save rows.npz
"""

import hashlib
import pickle
import sys
import time
from dataclasses import dataclass
from itertools import product
from math import nan
from pathlib import Path
from statistics import mean

import joblib
import numpy as np
from sklearn.base import clone

from benchmarks.heads.methods import METHODS, Context
from benchmarks.lib.data import first_of_each, read_arrays
from benchmarks.lib.report import (
    command_line,
    environment_lines,
    limited,
    page,
    publish,
    read_records,
    table,
    write,
)
from benchmarks.paper.printed import CIFAR_AVERAGES
from ffnb_sklearn import evaluate_stream
from ffnb_sklearn.backbones import ConvNet, TorchFeatureExtractor, from_efficientnet_lite

# Residual blocks of a ConvNet: the last of the second stage, both of the third and the fourth.
LAYERS = ("6", "7", "8", "9", "10")
# EfficientNet-Lite0: inputs of the projections of three blocks, and the output.
LITE_LAYERS = ("_blocks.10._swish", "_blocks.13._swish", "_blocks.15._swish", "_avg_pooling")
# Training of EfficientNet-Lite0 on the first task, chosen on held-out training images of the first
# fifty classes. Its normalisations stay as they are, so that statistics of a few classes do not
# replace those of many, and all weights end halfway between those before and after the training
# (Wortsman et al., Robust fine-tuning of zero-shot models, CVPR 2022).
ADAPTATION = {"learning_rate": 1e-4, "train_batch_size": 64, "augment": "flip-crop"}
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

KEY = ("adapt", "features", "method", "stream")
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
    ("ACIL, its repository", "ResNet-32, frozen, more augmentation", "-", "-", "-", 71.05),
    ("FeCAM", "ResNet-18, frozen", "-", 70.9, 70.8, 69.4),
    ("CLOVER", "five networks, frozen", "-", 72.7, 72.3, 71.0),
    ("DER", "ResNet-18, one more per task; keeps images", 74.61, 73.21, 72.81, "-"),
]
# Final and average accuracy in percent after ten tasks of ten classes, on networks of ImageNet.
# Papers: McDonnell et al., NeurIPS 2023 (RanPAC); arXiv:2511.13880 (AnaCP; a re-run of Fly-CL).
PUBLISHED_PRETRAINED = [
    ("RanPAC", "ResNet-50, frozen", 75.5, "-"),
    ("RanPAC", "ResNet-152, frozen", 79.7, "-"),
    ("Fly-CL, re-run", "ResNet-50, frozen", 76.8, "-"),
    ("AnaCP", "ResNet-50, frozen", 76.9, 84.2),
    ("AnaCP", "ResNet-50, two layers", 78.8, "-"),
    ("AnaCP", "ResNet-50, adapted to the first task", 80.9, "-"),
]


@dataclass(frozen=True)
class Features:
    """A row of the table: the layers, and the views of each image.

    Layers are None for the output of the network, and empty for the pixels.
    """

    label: str
    layers: tuple | None
    views: str | None = "mirror"


FEATURES = {
    "pixels": Features("pixels", (), None),
    "last": Features("last layer", None, None),
    "last-mirror": Features("last layer, mean with the mirrored image", None),
    "two-mirror": Features("blocks 8 and 10", ("8", "10")),
    "three-mirror": Features("blocks 8 to 10", ("8", "9", "10")),
    "all-mirror": Features("blocks 6 to 10", LAYERS),
}
LITE_FEATURES = {
    "last": FEATURES["last"],
    "last-mirror": FEATURES["last-mirror"],
    "several": Features("blocks 13 and 15, last layer", LITE_LAYERS[1:], None),
    "all": Features("blocks 10, 13 and 15, last layer", LITE_LAYERS, None),
    "all-mirror": Features("blocks 10, 13 and 15, last layer", LITE_LAYERS),
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


def network(views, options):
    """Return an extractor of all layers of the network as it is."""
    shared = {"views": views, "device": options.device, "mixed_precision": options.mixed_precision}
    if options.network == "lite":
        # The whole image: photographs have a margin, these images have none.
        shared |= {"resize": 224, "batch_size": 50, "random_state": 0}
        return from_efficientnet_lite(layers=list(LITE_LAYERS), **shared)
    return TorchFeatureExtractor(
        ConvNet,
        backbone_params=SHAPES[options.network],
        weights=options.weights,
        layers=LAYERS,
        input_shape=(3, 32, 32),
        mean=MEAN,
        std=STD,
        **shared,
    )


def adapted(extractor, epochs, X, y):
    """Return an extractor with weights halfway to those after some epochs of training."""
    before = clone(extractor).fit(X[:2]).state_dict_
    norms = [key.removesuffix(".running_mean") for key in before if key.endswith(".running_mean")]
    training = ADAPTATION | {"epochs": epochs, "frozen": norms}
    after = clone(extractor).set_params(**training).fit(X, y).state_dict_
    return extractor.set_params(weights={key: (before[key] + after[key]) / 2 for key in before})


def extract(images, views, adapt, options):
    """Compute the features of all layers, or read those that are cached."""
    # The classes of the first task of every stream.
    n_first = min(first_classes(stream) for stream in options.streams)
    name = "lite" if options.network == "lite" else _digest(options.weights)
    precision = "_mixed" if options.mixed_precision else ""
    change = f"_adapted{adapt}_{n_first}" if adapt else ""
    cache = options.cache / f"{name}_{len(images.y_train)}_{views}{precision}{change}"
    cache.mkdir(parents=True, exist_ok=True)
    fitted = cache / "fitted.joblib"
    if not fitted.is_file():
        is_first = images.y_train < n_first
        X, extractor = images.train[is_first], network(views, options)
        if adapt:
            extractor = adapted(extractor, adapt, X, images.y_train[is_first])
        # A few images of each class tell the scales of the layers.
        extractor.fit(X[::10])
        partial = fitted.with_suffix(".partial")
        joblib.dump(extractor, partial)
        partial.replace(fitted)
    extractor = joblib.load(fitted)
    widths, scales = extractor.layer_widths_, extractor.layer_scales_
    layers = {name: (widths[name], scales[name]) for name in widths}
    train, test = (
        _chunks(extractor, getattr(images, one), cache / one) for one in ("train", "test")
    )
    return train, test, layers


def _digest(path):
    """Return the beginning of the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:8]


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
        last = list(layers)[-1]
        return parts[last].astype(np.float64) / layers[last][1]
    return np.hstack([parts[name] for name in features.layers]).astype(np.float64)


def run(options):
    """Measure all rows of the table that are not recorded yet."""
    images, extracted = load_images(options.data, options.images_per_class), {}
    records, csv_files = [], [path for path in options.out if path.suffix == ".csv"]
    done = _recorded(csv_files)
    for adapt, name in product(options.adapt, options.features):
        features, keys = options.known[name], _keys(adapt, name, options)
        if keys and all(key in done for key in keys) and options.save is None:
            records += [done[key] for key in keys]
            continue
        source = adapt, features.views
        if features.layers != () and source not in extracted:
            # Features of other views would fill the memory.
            extracted = {source: extract(images, features.views, adapt, options)}
        X, X_test = columns(features, images, extracted.get(source))
        if options.save is not None:
            # In half the size; the last of several rows of the table stays.
            half = {"x_train": X.astype(np.float32), "x_test": X_test.astype(np.float32)}
            np.savez(options.save, **half, y_train=images.y_train, y_test=images.y_test)
        for key in keys:
            if key not in done:
                figures = measure(*key[2:], X, X_test, images, options)
                done[key] = dict(zip(KEY, key, strict=True)) | {"width": X.shape[1]} | figures
                print(done[key], file=sys.stderr, flush=True)
                for path in csv_files:
                    write(path, "", list(done.values()))
            records.append(done[key])
    return records


def _keys(adapt, name, options):
    """Return the values of `KEY` for some features; joint methods have a single stream."""
    streams = {True: options.streams[:1], False: options.streams}
    pairs = [(one, stream) for one in options.methods for stream in streams[METHODS[one].joint]]
    return [(adapt, name, *pair) for pair in pairs]


def _recorded(files):
    """Return the rows of an interrupted run, by `KEY`."""
    rows = read_records(one for one in files if one.is_file())
    whole, found = ("adapt", "width", "scored"), {}
    for row in rows:
        row |= {key: int(row[key]) for key in whole} | {key: float(row[key]) for key in FIGURES}
        found[tuple(row[key] for key in KEY)] = row
    return found


def first_classes(stream):
    """Return the number of classes of the first task of a stream."""
    return int(stream.split("+")[0])


def measure(method, stream, X, X_test, images, options):
    """Stream the tasks through one head, for each seed, and average the figures."""
    scored = first_of_each(images.y_test, options.scored_per_class)
    learn = _learn_jointly if METHODS[method].joint else _learn_tasks
    runs = []
    for seed in options.seeds:
        head = METHODS[method].build(Context(seed, WIDTH, options.device))
        head, run = learn(head, X, images.y_train, X_test[scored], images.y_test[scored], stream)
        start = time.perf_counter()
        run["final"] = 100 * head.score(X_test, images.y_test)
        runs.append(run | {"score_s": time.perf_counter() - start})
    measured = {name: mean(run[name] for run in runs) for name in FIGURES}
    return {"scored": int(np.bincount(images.y_test[scored]).max()), **measured}


def _learn_tasks(head, X, y, X_test, y_test, stream):
    """Return a head that has learned task after task, and its figures."""
    result = evaluate_stream(
        head,
        X,
        y,
        X_test,
        y_test,
        classes_per_task=int(stream.split("+")[1]),
        first_task_classes=first_classes(stream),
    )
    return result.estimator, {
        "base": 100 * result.accuracies[0],
        "average": 100 * result.average_incremental_accuracy,
        "fit_s": result.fit_seconds.sum(),
        "state_mb": result.state_bytes[-1] / 1e6,
    }


def _learn_jointly(head, X, y, X_test, y_test, stream):
    """Return a head that has learned all classes at once, and its figures."""
    start = time.perf_counter()
    head.fit(X, y)
    seconds = time.perf_counter() - start
    size = len(pickle.dumps(head)) / 1e6
    return head, {"base": nan, "average": nan, "fit_s": seconds, "state_mb": size}


def report(records, options):
    """Return the page as Markdown: the table, published figures, settings of the heads."""
    n = options.images_per_class or 500
    notes = [
        f"data: CIFAR-100, all test images, {n} training images per class; {_network(options)}",
        f"seeds: {', '.join(map(str, options.seeds))}, of the head's random numbers; means over "
        f"seeds; random neurons of RanPAC, cosines of KLDA: {WIDTH}",
        "features: outputs of residual blocks (6: end of the second stage, 7 and 8: third, 9 and "
        "10: fourth; of EfficientNet: the inputs of the projections), each pooled by the mean over "
        "the image and scaled by one number learned on the first task; last layer: the output of "
        "the network, unscaled; -mirror: mean with the mirrored image; pixels: divided by 255",
        "class order: that of the data file, which is the random order of the seed 1993",
        "stream: classes of the first task + those of each later one; base %: after the first "
        "task; average %: mean over all tasks of the accuracy on all classes met so far, both on "
        "the first scored test images of each class; final %: on all 100 of each class",
        "fit s: sum over tasks, without extraction; predict s: the whole test set after the last "
        "task; state: the pickled head after the last task",
    ]
    published = (
        "In percent, as the papers print them. Each method has a network of its own with a recipe "
        "of its own, so these rows say how much is reached, and not which head is better. Papers "
        "with 20 tasks mostly start from 40 classes."
    )
    if options.network == "lite":
        others = table(["method", "network", "final", "average"], PUBLISHED_PRETRAINED)
    else:
        others = table(["method", "network", "S2", "S5", "S10", "S20 or S25"], PUBLISHED)
    return page(
        "Features of several layers",
        environment_lines(options.device),
        notes,
        table(COLUMNS, [_cells(one, options) for one in records]),
        ["## Published figures", "", published],
        others,
        ["Heads:", "", *(f"- {METHODS[m].label}: {METHODS[m].note}" for m in options.methods)],
    )


def _network(options):
    """Describe the network and its training."""
    if options.network != "lite":
        return f"the {options.network} network of {options.weights.name}, trained on 50 classes"
    n_first = min(first_classes(stream) for stream in options.streams)
    training = f"; adapted: halfway to the weights after a training on the first {n_first} classes"
    return f"EfficientNet-Lite0 of ImageNet, images of 224 pixels{training * any(options.adapt)}"


def _cells(one, options):
    accuracies = (f"{one[name]:.2f}".replace("nan", "-") for name in ("base", "final", "average"))
    costs = (f"{one[name]:.3g}" for name in ("fit_s", "score_s", "state_mb"))
    method, label = METHODS[one["method"]], options.known[one["features"]].label
    adapted = f", adapted for {one['adapt']} epochs" if one["adapt"] else ""
    stream = "all at once" if method.joint else one["stream"]
    return label + adapted, one["width"], method.label, stream, one["scored"], *accuracies, *costs


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, data=True)
    add = parser.add_argument
    add("--network", choices=[*SHAPES, "lite"], default="narrow", help="lite: EfficientNet-Lite0")
    add("--features", nargs="+", help="default: all of the network")
    add("--methods", nargs="*", choices=METHODS, default=["ida"], help="none: extract only")
    add("--streams", nargs="+", default=["50+5"], help="classes of the first and of later tasks")
    add("--seeds", nargs="+", type=int, default=[0])
    add("--weights", type=Path, help="of a ConvNet; default: cifar100_backbone.pt of --data")
    add("--adapt", nargs="+", type=int, default=[0], help="epochs of training of lite; 0: frozen")
    add("--images-per-class", type=int, help="training images; default: all 500")
    add("--scored-per-class", type=int, help="test images until the last task; default: all 100")
    add("--cache", type=Path, default=Path("out") / "layers")
    add("--save", type=Path, help=".npz for the features, which benchmarks.paper.paper reads")
    add("--device", default="cpu", help="device for the network, IDA and FFNB")
    add("--mixed-precision", action="store_true", help="extract partly in bfloat16")
    options = parser.parse_args(arguments)
    options.weights = options.weights or options.data / "cifar100_backbone.pt"
    options.known = LITE_FEATURES if options.network == "lite" else FEATURES
    options.features = options.features or list(options.known)
    if unknown := set(options.features) - set(options.known):
        parser.error(f"--features must be of {', '.join(options.known)}; got {unknown}")
    return options


def main(arguments=None):
    """Run the comparison and print its report."""
    options = parse(arguments)
    with limited(options.threads):
        records = run(options)
        text = report(records, options)
    publish(text, records, [path for path in options.out if path.suffix != ".csv"])


if __name__ == "__main__":
    main()
