"""Choose the peers' unpublished settings on training data only.

A quarter of the training rows of every set is held out, three times, and the tasks of the other
three quarters are streamed. One setting is used for all sets, the one with the best mean, which the
constants at the top of ``heads.py`` record. FFNB's own defaults are studied by ``defaults.py``.

    python benchmarks/choose_settings.py --data FOLDER
    python benchmarks/choose_settings.py --heads klda --sets digits sbu fpha
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
from _data import default_folder, known_problems
from _report import environment_lines
from analytic_projection import AnaCP
from lifted_peers import KernelLDA, RanPAC
from peers import IncrementalRidge, StreamingLDA
from sklearn.base import clone
from sklearn.model_selection import StratifiedShuffleSplit

from ffnb_sklearn import class_incremental_tasks

ALPHAS = [3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0]
CANDIDATES = {
    "slda-scaled": [StreamingLDA(alpha=a) for a in ALPHAS],
    "ridge": [IncrementalRidge(alpha=a) for a in ALPHAS],
    "ranpac-fixed": [RanPAC(alpha=a, random_state=0) for a in ALPHAS],
    "klda": [
        KernelLDA(bandwidth=b, alpha=a, random_state=0) for b, a in product([0.3, 1.0, 3.0], ALPHAS)
    ],
    "anacp-fixed": [AnaCP(alpha=a, random_state=0) for a in [1.0, *ALPHAS[:5]]],
}
MAX_ROWS_PER_CLASS = 100


def hold_outs(problem, n_repeats=3):
    """Yield rows to learn and rows to score, both from the training rows of the first split."""
    split = problem.splits()[0]
    random = np.random.default_rng(0)
    kept = np.concatenate(
        [
            random.permutation(np.flatnonzero(split.y == label))[:MAX_ROWS_PER_CLASS]
            for label in np.unique(split.y)
        ]
    )
    X, y = split.X[kept], split.y[kept]
    cutter = StratifiedShuffleSplit(n_repeats, test_size=0.25, random_state=0)
    for learned, scored in cutter.split(X, y):
        yield X[learned], y[learned], X[scored], y[scored]


def held_out_accuracy(head, problem):
    """Mean accuracy on the held-out rows, with another class order in each repeat."""
    accuracies = []
    for seed, (X, y, X_test, y_test) in enumerate(hold_outs(problem)):
        learner = clone(head)
        tasks = class_incremental_tasks(
            y,
            classes_per_task=problem.classes_per_task,
            first_task_classes=problem.first_task_classes,
            class_order=problem.class_order(y, seed),
        )
        for task in tasks:
            learner.partial_fit(X[task], y[task])
        accuracies.append(np.mean(learner.predict(X_test) == y_test))
    return np.mean(accuracies)


def main(arguments=None):
    """Print a table per head and the best setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default_folder())
    parser.add_argument("--heads", nargs="+", choices=list(CANDIDATES), default=list(CANDIDATES))
    parser.add_argument("--width", type=int, default=5000, help="of the lifted heads")
    parser.add_argument("--sets", nargs="+", default=["digits", "sbu", "fpha", "cifar"])
    options = parser.parse_args(arguments)
    known = known_problems(options.data)
    problems = {name: known[name] for name in options.sets}
    print("# Settings by hold-out of training rows\n")
    print("\n".join(environment_lines()))
    print("- seeds: 0 of the hold-outs' rows; a hold-out's number, from 0, of its class order")
    print(f"- lifted heads {options.width} wide")
    for name in options.heads:
        print(f"\n## {name}\n\n| setting | " + " | ".join(problems) + " | mean |")
        print("|---" * (len(problems) + 2) + "|")
        means = {}
        for head in CANDIDATES[name]:
            if "width" in head.get_params():
                head.set_params(width=options.width)
            scores = [held_out_accuracy(head, problem) for problem in problems.values()]
            means[str(head)] = np.mean(scores)
            cells = " | ".join(f"{100 * score:.2f}" for score in [*scores, np.mean(scores)])
            print(f"| {head} | {cells} |", flush=True)
        print(f"\nbest: {max(means, key=means.get)}")


if __name__ == "__main__":
    main()
