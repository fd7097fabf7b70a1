"""Compare features of several layers and views of one network, on CIFAR-100.

The network was trained on the first fifty classes alone. Its features go to FFNB and to other
heads: fifty classes in the first task, then a few per task. Extracted features are cached, chunk by
chunk, so that an interrupted run goes on where it stopped. Run from anywhere:

    python benchmarks/layers.py --out layers.md layers.csv
    python benchmarks/layers.py --features all-mirror --classes-per-task 25 10 5 2 1
    python benchmarks/layers.py --features all-mirror --methods ffnb ffnb-ovo slda fecam
    python benchmarks/layers.py --images-per-class 20 --features last all-mirror
"""

import csv
import json
import sys
import time
from itertools import product
from pathlib import Path
from statistics import mean

import numpy as np
from _layer_features import BASE_CLASSES, FEATURES, GIVEN, columns, extract, load_images
from _layers_report import WIDTH, report
from _report import command_line, limited, publish, write
from heads import METHODS, Context, Method

from ffnb_sklearn import FFNBClassifier, evaluate_stream

# Columns of a record: what was measured, and what came out.
KEYS = ("features", "method", "per_task")
FIGURES = ("base", "final", "average", "fit_s", "score_s", "state_mb")

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
    "published": Method(
        "published model, closed form",
        lambda c: FFNBClassifier.as_published(
            p=0.95, band_size=1, max_epochs=0, random_state=c.seed, device=c.device
        ),
        "as_published(p=0.95, band_size=1, max_epochs=0)",
    ),
}


def run(options):
    """Measure all rows of the table."""
    images = load_images(options.data, options.images_per_class)
    chosen = {name: FEATURES[name] for name in options.features}
    known = measured_before(options.resume)
    extracted = {}
    records = []
    for name, features in chosen.items():
        keys = list(product([name], options.methods, options.classes_per_task))
        if not options.methods or any(key not in known for key in keys):
            for network, views in features.extractions:
                if (network, views) not in extracted:
                    folder = options.data if network == GIVEN else options.weights
                    extracted[network, views] = extract(
                        images,
                        folder / f"{network}.pt",
                        views,
                        options.cache,
                        options.device,
                        mixed_precision=options.mixed_precision,
                    )
            X, X_test = columns(features, images, extracted)
        for key in keys:
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
    rows = [
        row
        for path in paths
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    ]
    for row in rows:
        row |= {name: int(row[name]) for name in ("per_task", "width", "scored")}
        row |= {name: float(row[name]) for name in FIGURES}
    return {tuple(row[name] for name in KEYS): row for row in rows}


def stream(method, X, X_test, images, per_task, options):
    """Stream the tasks through one head, for each seed, and average what was measured."""
    scored = first_of_each(images.y_test, options.scored_per_class)
    runs, matrices = [], []
    for seed in options.seeds:
        result = evaluate_stream(
            LEARNERS[method].build(Context(seed, WIDTH, options.device)),
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
        matrices.append(100 * result.accuracy_matrix)
    measured = {name: mean(run[name] for run in runs) for name in FIGURES}
    if options.matrices:
        # Not a number where a group of classes has not been learned yet.
        measured["matrix"] = json.dumps(np.mean(matrices, axis=0).round(2).tolist())
    return {"scored": int(np.bincount(images.y_test[scored]).max()), **measured}


def first_of_each(y, count):
    """Return the positions of the first samples of each class; None counts all."""
    return np.sort(np.concatenate([np.flatnonzero(y == label)[:count] for label in np.unique(y)]))


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, data=True)
    add = parser.add_argument
    incremental = [name for name, method in LEARNERS.items() if not method.joint]
    of_one = [name for name, one in FEATURES.items() if one.networks == (GIVEN,)]
    add("--features", nargs="+", choices=list(FEATURES), default=of_one)
    add("--methods", nargs="*", choices=incremental, default=["ffnb"], help="none: extract only")
    add("--classes-per-task", nargs="+", type=int, default=[5], help="after the first fifty")
    add("--seeds", nargs="+", type=int, default=[0])
    own = Path(__file__).parent / "weights"
    add("--weights", type=Path, default=own, help="folder of the weights that backbone.py makes")
    add("--images-per-class", type=int, help="training images; default: all 500")
    add("--scored-per-class", type=int, help="test images until the last task; default: all 100")
    add("--resume", nargs="+", type=Path, default=[], help=".csv of runs with the same package")
    add("--matrices", action="store_true", help="also the accuracies by groups of classes")
    add("--cache", type=Path, default=Path(__file__).parents[1] / "out" / "layers")
    add("--device", default="cpu", help="device for the network and FFNB")
    add("--mixed-precision", action="store_true", help="extract partly in bfloat16")
    add("--title", default="all layers", help="what the page compares, for its heading")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Run the comparison and print its report."""
    options = parse(arguments)
    with limited(options.threads):
        records = run(options)
        text = report(records, options, LEARNERS)
    publish(text, records, options.out)


if __name__ == "__main__":
    main()
