"""Check a GPU within four minutes: agreement with the CPU, seconds, memory, images per second.

Each line is printed as soon as it is measured; a step that would begin after the time is up is
named as not measured. The tests marked ``cuda`` run last, and print a failure when it happens.

    python -m benchmarks.speed.gpu_check
    python -m benchmarks.speed.gpu_check --device cpu --quick
"""

import sys
import time
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.lib.clock import seconds_of, timed
from benchmarks.lib.data import read_arrays
from benchmarks.lib.report import command_line, environment_lines, limited
from benchmarks.speed.many_classes import GaussianStream
from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis
from ffnb_sklearn.backbones import ConvNet, TorchFeatureExtractor

ROOT = Path(__file__).resolve().parents[2]
WIDTHS = {"stem_width": 64, "widths": (64, 128, 256, 512)}
NARROW = {"stem_width": 4, "widths": (4, 8), "blocks": (1, 1)}
# Rows per class of the generated stream in place of CIFAR-100, classes of the large stream,
# images, predictions of a single row, and epochs of Algorithm 2.
FULL = {
    "rows": 500,
    "classes": 1000,
    "images": 20_000,
    "singles": 50,
    "epochs": 10,
    "network": WIDTHS,
}
QUICK = {"rows": 12, "classes": 20, "images": 64, "singles": 3, "epochs": 1, "network": NARROW}


def cifar_stream(folder, sizes):
    """Return training rows, labels and 10,000 test rows: features of CIFAR-100, or generated."""
    path = folder / "cifar100_b50.npz"
    if path.is_file() and sizes is FULL:
        data = read_arrays(path)
        position = np.argsort(data["order"])
        return data["x_train"], position[data["y_train"]], data["x_test"]
    drawn = GaussianStream(256, 1.5)
    X, y = drawn.task(np.arange(100), sizes["rows"])
    return X, y, drawn.task(np.arange(100), 100 if sizes is FULL else 2, test=True)[0]


def learn(estimator, X, y, tasks):
    """Learn the tasks, each given by its labels."""
    for labels in tasks:
        now = np.isin(y, labels)
        estimator.partial_fit(X[now], y[now])


def measure_stream(X, y, test, tasks, device, sizes, make, **parameters):
    """Return the seconds of each step on one device, and the predicted labels."""
    estimator = make(random_state=0, device=device, **parameters)
    is_cuda = device.startswith("cuda")
    if is_cuda:
        torch.cuda.reset_peak_memory_stats()
    seconds = {"all tasks": seconds_of(learn, estimator, X, y, tasks)}
    seconds["first prediction"] = seconds_of(estimator.predict, test[:1])
    seconds[f"{len(test):,} rows"], labels = timed(estimator.predict, test)
    singles = [seconds_of(estimator.predict, row[None]) for row in test[: sizes["singles"]]]
    seconds["one row"] = float(np.median(singles))
    memory = f"; peak {torch.cuda.max_memory_allocated() / 1e9:.2f} GB" if is_cuda else ""
    return seconds, memory, labels


def compare(
    name, stream, tasks, options, sizes, make=IncrementalDiscriminantAnalysis, **parameters
):
    """Print the seconds of a stream on the device and on the CPU, and whether labels agree."""
    X, y, test = stream
    expected = None
    for device in dict.fromkeys(["cpu", options.device]):
        seconds, memory, labels = measure_stream(
            X, y, test, tasks, device, sizes, make, **parameters
        )
        steps = ", ".join(f"{step} {value:.4f} s" for step, value in seconds.items())
        print(f"- {name}, {device}: {steps}{memory}", flush=True)
        if expected is not None:
            print(f"- {name}: {np.mean(labels == expected):.4%} of the labels agree", flush=True)
        expected = labels


def epochs_of_algorithm_2(stream, tasks, options, sizes):
    """Print the seconds per epoch of Algorithm 2 in the second task, on the device and the CPU."""
    X, y, _ = stream
    n_epochs = sizes["epochs"]
    for device in dict.fromkeys(["cpu", options.device]):
        known = FFNBClassifier.as_published(random_state=0, device=device, bands__max_epochs=0)
        learn(known, X, y, tasks[:1])
        seconds = []
        for max_epochs in (0, n_epochs):
            tuned = deepcopy(known).set_params(bands__max_epochs=max_epochs)
            seconds.append(seconds_of(learn, tuned, X, y, tasks[1:2]))
        closed, trained = seconds
        per_epoch = (trained - closed) / n_epochs
        print(f"- Algorithm 2, {device}: {per_epoch:.4f} s per epoch", flush=True)


def images_per_second(options, sizes):
    """Print the images per second of two epochs of pretraining, and of extraction."""
    random = np.random.default_rng(0)
    images = random.integers(256, size=(sizes["images"], 3, 32, 32), dtype=np.uint8)
    y = np.arange(len(images)) % 10
    for batch_size in (128, 512):
        extractor = TorchFeatureExtractor(
            ConvNet,
            backbone_params=sizes["network"],
            epochs=2,
            batch_size=batch_size,
            mean=127.5,
            std=63.75,
            device=options.device,
            random_state=0,
        )
        rate = 2 * len(images) / seconds_of(extractor.fit, images, y)
        print(f"- pretraining, batches of {batch_size}: {rate:,.0f} images/s", flush=True)
    rate = len(images) / seconds_of(extractor.transform, images)
    print(f"- extraction: {rate:,.0f} images/s", flush=True)


class Failures:
    """Plugin of pytest that prints a failure when it happens."""

    def pytest_runtest_logreport(self, report):
        """Print the traceback of a failed test."""
        if report.failed:
            print(f"\n{report.nodeid}\n{report.longreprtext}", flush=True)


def main(arguments=None):
    """Run the steps until the time is up, then the tests."""
    parser = command_line(__doc__, quick="few rows, to check the script", data=True)
    parser.add_argument("--device", default="cuda", help="device beside the CPU")
    parser.add_argument("--seconds", type=float, default=150, help="begin no step after them")
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else FULL
    end = time.monotonic() + options.seconds
    base = [np.arange(50), *np.arange(50, 100).reshape(10, 5)]

    def large():
        drawn = GaussianStream(768, 1.5)
        labels = np.arange(sizes["classes"])
        stream = (*drawn.task(labels, 20), drawn.task(labels, 10, test=True)[0])
        tasks = labels.reshape(-1, 10)
        compare("1000 classes", stream, tasks, options, sizes, shared_band_size=0)

    stream = cifar_stream(options.data, sizes)
    steps = {
        "CIFAR-100": lambda: compare("CIFAR-100", stream, base, options, sizes),
        "pairs": lambda: compare("pairs", stream, base, options, sizes, classifier="ovo"),
        "bands": lambda: compare("bands", stream, base, options, sizes, make=FFNBClassifier),
        "Algorithm 2": lambda: epochs_of_algorithm_2(stream, base, options, sizes),
        "images": lambda: images_per_second(options, sizes),
        "1000 classes": large,
    }
    with limited(options.threads):
        print("\n".join(environment_lines(options.device)), flush=True)
        for name, step in steps.items():
            if time.monotonic() < end:
                step()
            else:
                print(f"- {name}: not measured, the time is up", flush=True)
    # Other files need packages that a machine with a GPU may lack.
    files = [one for one in (ROOT / "tests").rglob("test_*.py") if "mark.cuda" in one.read_text()]
    tests = ["-m", "cuda", "-q", "-p", "no:cacheprovider", *map(str, files)]
    return pytest.main(tests, plugins=[Failures()])


if __name__ == "__main__":
    sys.exit(main())
