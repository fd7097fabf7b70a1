"""Compare a classifier that forgot samples with one that never saw them, for truncated moments.

With the default rank a class stores its longest axes and a diagonal, so `forget_samples` is not
exact. A share of the training rows is learned and forgotten.

    python -m benchmarks.settings.deletion --threads 1 --out deletion.md deletion.csv
"""

from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks.lib.report import command_line, page, run_and_publish, table
from benchmarks.lib.sets import load_group
from ffnb_sklearn import IncrementalDiscriminantAnalysis

COLUMNS = ["set", "share", "labels %", "probabilities", "labels, kept %", "probabilities, kept"]
COLUMNS += ["accuracy %", "never learned %"]
FIGURES = ["labels", "probabilities", "labels_kept", "probabilities_kept", "accuracy", "never"]


def new_classifier(seed):
    """Return a classifier with the default rank."""
    return IncrementalDiscriminantAnalysis(random_state=seed)


def difference(probabilities, others):
    """Return the mean over the rows of the largest difference of a probability."""
    return np.abs(probabilities - others).max(axis=1).mean()


def compare(split, share, seed):
    """Return the figures of one split, for a share of the training rows."""
    order = np.random.default_rng(seed).permutation(len(split.y))
    n_gone = int(share * len(order))
    gone, stay = order[:n_gone], order[n_gone:]
    kept = new_classifier(seed).fit(split.X, split.y)
    never = new_classifier(seed).fit(split.X[stay], split.y[stay])
    labels_kept = kept.predict(split.X_test)
    probabilities_kept = kept.predict_proba(split.X_test)
    forgot = kept.forget_samples(split.X[gone], split.y[gone])
    labels = never.predict(split.X_test)
    columns = np.searchsorted(kept.classes_, never.classes_)
    probabilities = never.predict_proba(split.X_test)

    # Classes without remaining samples are gone.
    forgotten = forgot.predict_proba(split.X_test)
    return {
        "labels": 100.0 * np.mean(forgot.predict(split.X_test) != labels),
        "probabilities": difference(forgotten, probabilities),
        "labels_kept": 100.0 * np.mean(labels_kept != labels),
        "probabilities_kept": difference(probabilities_kept[:, columns], probabilities),
        "accuracy": 100.0 * forgot.score(split.X_test, split.y_test),
        "never": 100.0 * never.score(split.X_test, split.y_test),
    }


def run(options):
    """Return the records of all sets, shares and seeds; the first split of each set counts."""
    records = []
    for group in options.sets:
        for problem in load_group(group, options.data, options.tables).values():
            for share in options.shares:
                for seed in options.seeds:
                    split = problem.splits(seed)[0]
                    keys = {"set": problem.name, "share": share, "seed": seed}
                    records.append(keys | compare(split, share, seed))
    return records


def report(records, options, environment):
    """Return the page as Markdown: a row for each set and share, then means over the sets."""
    groups = {}
    for record in records:
        groups.setdefault((record["set"], record["share"]), []).append(record)
    for share in options.shares:
        of_share = [record for record in records if record["share"] == share]
        groups["mean over the sets", share] = of_share
    lines = []
    for (name, share), runs in groups.items():
        means = {figure: mean(one[figure] for one in runs) for figure in FIGURES}
        cells = [f"{means['labels']:.2f}", f"{means['probabilities']:.4f}"]
        cells += [f"{means['labels_kept']:.2f}", f"{means['probabilities_kept']:.4f}"]
        cells += [f"{means['accuracy']:.2f}", f"{means['never']:.2f}"]
        lines.append([name, share, *cells])
    notes = [
        f"seeds: {', '.join(map(str, options.seeds))}, of the forgotten rows and of the neurons",
        "share: of the training rows, which are learned and then forgotten",
        "labels, probabilities: differences from a classifier that never saw the rows, of test "
        "rows; the mean of the largest difference of a probability; kept: nothing is forgotten",
    ]
    return page("Deletion from truncated moments", environment, notes, table(COLUMNS, lines))


def main(arguments=None):
    """Run the comparison, and print its table."""
    parser = command_line(__doc__, data=True)
    add = parser.add_argument
    add("--sets", nargs="+", default=["study", "features"], help="groups of sets")
    add("--tables", type=Path, help="folder of the files of public tables")
    add("--shares", nargs="+", type=float, default=[0.05, 0.3])
    add("--seeds", nargs="+", type=int, default=[0])
    run_and_publish(run, report, parser.parse_args(arguments))


if __name__ == "__main__":
    main()
