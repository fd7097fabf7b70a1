"""How many false alarms the thresholds for new samples give, for classes at once and in tasks.

`FFNBClassifier(novelty=True)` learns the training rows. The share of test rows that score below
`novelty_threshold(rate)`, averaged over the classes, should equal the rate.

    python benchmarks/novelty_threshold.py --out thresholds.md thresholds.csv
    python benchmarks/novelty_threshold.py --tables tables.npz
    python benchmarks/novelty_threshold.py --quick
"""

from pathlib import Path
from time import perf_counter

import numpy as np
from _data import known_problems
from _report import command_line, page, run_and_publish, table
from _sets import study_sets, table_sets

from ffnb_sklearn import FFNBClassifier, class_incremental_tasks

RATES = [0.01, 0.05, 0.1]

# Rates of false alarms that are as good as 5 %.
_LEAST, _MOST = 3.0, 8.0


def measured(problem, n_splits):
    """Yield a record of each split, with all classes at once and in tasks."""
    for seed, split in enumerate(problem.splits()[:n_splits]):
        stream = class_incremental_tasks(
            split.y,
            classes_per_task=problem.classes_per_task,
            first_task_classes=problem.first_task_classes,
            class_order=problem.class_order(split.y, seed),
        )
        for way, tasks in (("at once", [slice(None)]), ("in tasks", stream)):
            clf, seconds = learned(split, tasks, novelty=True, random_state=seed)
            _, without = learned(split, tasks, random_state=seed)
            scores = clf.score_samples(split.X_test)
            record = {"set": problem.name, "split": split.name, "way": way}
            for rate in RATES:
                alarms = scores < clf.novelty_threshold(rate)
                shares = [alarms[split.y_test == label].mean() for label in clf.classes_]
                record[f"alarms {rate:.0%}"] = 100.0 * float(np.mean(shares))
            yield record | {"seconds": seconds, "seconds without": without}


def learned(split, tasks, **parameters):
    """Return an estimator that has learned the tasks, and the seconds that it took."""
    clf = FFNBClassifier(**parameters)
    start = perf_counter()
    for task in tasks:
        clf.partial_fit(split.X[task], split.y[task])
    return clf, perf_counter() - start


def run(options):
    """Records of all sets."""
    known = study_sets(options.data) | known_problems(options.data)
    problems = {name: known[name] for name in options.sets}
    for path in options.tables:
        problems |= table_sets(path)
    return [one for problem in problems.values() for one in measured(problem, options.splits)]


def report(records, options, environment):
    """The mean rates as Markdown, one row per set."""
    columns = ["set"]
    for way in ("at once", "in tasks"):
        columns += [f"{way}, {rate:.0%}" for rate in RATES] + [f"{way}, s", "s without"]
    rows, good = [], {"at once": 0, "in tasks": 0}
    for name in dict.fromkeys(one["set"] for one in records):
        cells = [name]
        for way in good:
            here = [one for one in records if one["set"] == name and one["way"] == way]
            rates = [np.mean([one[f"alarms {rate:.0%}"] for one in here]) for rate in RATES]
            good[way] += _LEAST <= rates[1] <= _MOST
            seconds = (
                np.mean([one[key] for one in here]) for key in ("seconds", "seconds without")
            )
            cells += [*(f"{rate:.1f}" for rate in rates), *(f"{one:.2f}" for one in seconds)]
        rows.append(cells)
    notes = [
        f"up to {options.splits} splits per set; rates of false alarms on test rows, in percent; "
        "columns name the rates asked for",
        "random_state is the number of the split, other parameters are defaults; s: seconds of "
        "learning",
        f"for 5 %, from {_LEAST:.0f} to {_MOST:.0f} % on {good['at once']} of {len(rows)} sets at "
        f"once, and on {good['in tasks']} in tasks",
    ]
    return page("False alarms of novelty thresholds", environment, notes, table(columns, rows))


SETS = ["digits", "sbu", "fpha", "cifar-40", "breast-cancer", "wine", "iris", "pendigits"]
SETS += ["satimage", "segment", "equal", "unequal", "low-rank", "clusters"]


def main(arguments=None):
    """Measure, and print the table."""
    parser = command_line(__doc__, quick="iris, one split", data=True)
    parser.add_argument("--tables", nargs="*", type=Path, default=[], help=".npz files of tables")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args(arguments)
    if options.quick:
        options.sets, options.splits, options.tables = ["iris"], 1, []
    run_and_publish(run, report, options)


if __name__ == "__main__":
    main()
