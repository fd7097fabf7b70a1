"""Compare features of several layers and views of one network, on CIFAR-100.

The network was trained on the first fifty classes alone. Its features go to FFNB and to other
heads: fifty classes in the first task, then a few per task. Extracted features are cached, chunk by
chunk, so that an interrupted run goes on where it stopped. Run from anywhere:

    python benchmarks/layers.py --out layers.md layers.csv
    python benchmarks/layers.py --methods ffnb-ovo --out layers_pairs.md layers_pairs.csv
    python benchmarks/layers.py --features all-mirror --methods ffnb slda fecam
    python benchmarks/layers.py --images-per-class 20 --features last all-mirror
"""

import argparse
import csv
import hashlib
import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean

import joblib
import numpy as np
import torch
from _data import default_folder, read_arrays
from _report import environment_lines, output_path, write
from heads import METHODS, Context, Method
from threadpoolctl import threadpool_limits

import ffnb_sklearn
from ffnb_sklearn import FFNBClassifier, evaluate_stream
from ffnb_sklearn.backbones import ConvNet, TorchFeatureExtractor

# Residual blocks of the network: the last of the second stage, both of the third and the fourth.
LAYERS = ("6", "7", "8", "9", "10")
BASE_CLASSES = 50
WIDTH = 5000
CHUNK = 2500

# Columns of a record: what was measured, and what came out.
KEYS = ("features", "method", "per_task")
FIGURES = ("base", "final", "average", "fit_s", "score_s")


@dataclass(frozen=True)
class Features:
    """A row of the table: which layers, seen how."""

    label: str
    layers: tuple | None
    views: str | None


FEATURES = {
    "last": Features("last layer", None, None),
    "last-mirror": Features("last layer, mean with the mirrored image", None, "mirror"),
    "two-mirror": Features("blocks 8 and 10", ("8", "10"), "mirror"),
    "three-mirror": Features("blocks 8 to 10", ("8", "9", "10"), "mirror"),
    "stages-mirror": Features("blocks 7 to 10", LAYERS[1:], "mirror"),
    "all-mirror": Features("blocks 6 to 10", LAYERS, "mirror"),
    "all": Features("blocks 6 to 10, without the mirrored image", LAYERS, None),
}

LEARNERS = {
    **METHODS,
    "ffnb-64": Method(
        "FFNB, rank 64",
        lambda c: FFNBClassifier(rank=64, random_state=c.seed, device=c.device),
        "rank=64, other parameters default: less time and state",
    ),
    "ffnb-ovo": Method(
        "FFNB, pairs",
        lambda c: FFNBClassifier(classifier="ovo", random_state=c.seed, device=c.device),
        "classifier='ovo', other parameters default",
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


def make_extractor(weights, views, device):
    """Return the extractor of all layers; each row of the table takes some of its columns."""
    return TorchFeatureExtractor(
        ConvNet,
        weights=weights,
        layers=LAYERS,
        views=views,
        input_shape=(3, 32, 32),
        mean=(129.3, 124.1, 112.4),
        std=(68.2, 65.4, 70.4),
        device=device,
    )


def extract(images, weights, views, cache, device):
    """Compute the features of all layers, or read those that are cached.

    Parameters
    ----------
    images : Images
        What to extract from.
    weights : Path
        File of the network.
    views : {"mirror"} or None
        What the network sees of each image.
    cache : Path
        Folder of the cached chunks.
    device : str
        Where the network runs.

    Returns
    -------
    X, X_test : ndarray of shape (n, 832)
        Scaled features, in the order of the images.
    scales : dict of str -> float
        Factor of each layer, learned from the images of the first fifty classes.
    """
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()[:8]
    cache = cache / f"{digest}_{len(images.y_train)}_{views}"
    cache.mkdir(parents=True, exist_ok=True)
    is_base = images.y_train < BASE_CLASSES
    fitted = cache / "fitted.joblib"
    if not fitted.is_file():
        extractor = make_extractor(weights, views, device)
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
    return X, _chunks(extractor, images.test, cache / "test"), extractor.layer_scales_


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


def columns(X, features, scales):
    """Columns of a row of the table, of all layers' features.

    Parameters
    ----------
    X : ndarray of shape (n, 832)
        Scaled features of all layers.
    features : Features
        The row.
    scales : dict of str -> float
        Factor of each layer.

    Returns
    -------
    ndarray of shape (n, width)
        Float64. Without layers, it is the last block as the network puts it out: its mean over
        the image, unscaled.
    """
    widths = [64, 128, 128, 256, 256]
    parts = dict(zip(LAYERS, np.split(X, np.cumsum(widths)[:-1], axis=1), strict=True))
    if features.layers is None:
        return parts[LAYERS[-1]].astype(np.float64) / scales[LAYERS[-1]]
    return np.hstack([parts[name] for name in features.layers]).astype(np.float64)


def run(options):
    """Measure all rows of the table."""
    images = load_images(options.data, options.images_per_class)
    weights = options.data / "cifar100_backbone.pt"
    chosen = {name: FEATURES[name] for name in options.features}
    extracted = {
        views: extract(images, weights, views, options.cache, options.device)
        for views in dict.fromkeys(one.views for one in chosen.values())
    }
    known = measured_before(options.resume)
    records = []
    for name, features in chosen.items():
        X, X_test, scales = extracted[features.views]
        X, X_test = columns(X, features, scales), columns(X_test, features, scales)
        for key in product([name], options.methods, options.classes_per_task):
            if key not in known:
                named = dict(zip(KEYS, key, strict=True))
                measured = stream(key[1], X, X_test, images, key[2], options)
                known[key] = {**named, "width": X.shape[1], **measured}
                for path in options.out:
                    if path.suffix == ".csv":
                        write(path, "", [*records, known[key]])
                print(known[key], file=sys.stderr, flush=True)
            records.append(known[key])
    return records


def measured_before(paths):
    """Rows of earlier runs, by features, method and classes per task."""
    rows = [row for path in paths for row in csv.DictReader(path.open(encoding="utf-8"))]
    for row in rows:
        row |= {name: int(row[name]) for name in ("per_task", "width")}
        row |= {name: float(row[name]) for name in FIGURES}
    return {tuple(row[name] for name in KEYS): row for row in rows}


def stream(method, X, X_test, images, per_task, options):
    """Stream the tasks through one head, for each seed."""
    results = [
        evaluate_stream(
            LEARNERS[method].build(Context(seed, WIDTH, options.device)),
            X,
            images.y_train,
            X_test,
            images.y_test,
            classes_per_task=per_task,
            first_task_classes=BASE_CLASSES,
        )
        for seed in options.seeds
    ]
    return {
        "base": 100 * mean(one.accuracies[0] for one in results),
        "final": 100 * mean(one.final_accuracy for one in results),
        "average": 100 * mean(one.average_incremental_accuracy for one in results),
        "fit_s": mean(one.fit_seconds.sum() for one in results),
        "score_s": mean(one.score_seconds[-1] for one in results),
    }


def report(records, options):
    """The table as Markdown."""
    n = options.images_per_class or 500
    lines = [
        "# Features of several layers of one network",
        "",
        *environment_lines(ffnb_sklearn.__version__, options.device),
        "- data: CIFAR-100, all test images, "
        f"{n} training images per class{'' if n == 500 else ' (of 500, so figures are lower)'}; a "
        "ResNet trained on the first 50 classes, whose weights come with the data",
        f"- seeds: {', '.join(map(str, options.seeds))}, of what the head draws at random; means "
        "over seeds",
        "- features: outputs of residual blocks (6: end of the second stage, 7 and 8: third, 9 and "
        "10: fourth), each pooled by the mean over the image and scaled by one number learned on "
        "the first 50 classes; last layer: the output of the network, unscaled; mean with the "
        "mirrored image unless stated",
        "- base %: after the first task of 50 classes; average %: mean over all tasks of the "
        "accuracy on all classes met so far; fit s: sum over tasks, without extraction; predict s: "
        "the whole test set after the last task",
        "",
        "| features | width | head | classes per task | base % | final % | average % | fit s | "
        "predict s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in records:
        lines.append(
            f"| {FEATURES[one['features']].label} | {one['width']} | "
            f"{LEARNERS[one['method']].label} | {one['per_task']} | {one['base']:.2f} | "
            f"{one['final']:.2f} | {one['average']:.2f} | {one['fit_s']:.0f} | "
            f"{one['score_s']:.0f} |"
        )
    lines += ["", "Settings:", ""]
    lines += [f"- {LEARNERS[name].label}: {LEARNERS[name].note}." for name in options.methods]
    return "\n".join(lines) + "\n"


def parse(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    incremental = [name for name, method in LEARNERS.items() if not method.joint]
    add("--features", nargs="+", choices=list(FEATURES), default=list(FEATURES))
    add("--methods", nargs="*", choices=incremental, default=["ffnb"], help="none: extract only")
    add("--classes-per-task", nargs="+", type=int, default=[5], help="after the first fifty")
    add("--seeds", nargs="+", type=int, default=[0])
    add("--images-per-class", type=int, help="training images; default: all 500")
    add("--data", type=Path, default=default_folder(), help="folder of images and weights")
    add("--resume", nargs="+", type=Path, default=[], help=".csv of runs with the same package")
    add("--cache", type=Path, default=Path(__file__).parents[1] / "out" / "layers")
    add("--threads", type=int, help="threads of BLAS and torch; default: theirs")
    add("--device", default="cpu", help="device for the network and FFNB")
    add("--out", nargs="+", type=output_path, default=[], help=".md: the report, .csv: the rows")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Run the comparison and print its report."""
    options = parse(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    with threadpool_limits(limits=options.threads):
        records = run(options)
        text = report(records, options)
    print(text, end="")
    for path in options.out:
        write(path, text, records)


if __name__ == "__main__":
    main()
