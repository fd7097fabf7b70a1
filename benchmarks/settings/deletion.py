"""Compare a classifier that forgot samples with one that never saw them, for truncated moments.

With the default rank a class stores its longest axes and a diagonal, so `forget_samples` is not
exact. A share of the training rows is learned and forgotten.

The second table is a membership test: a tenth of the training rows is learned and forgotten,
another tenth is never learned, and the rows of both tenths are ranked by what the classifier gives
away: by `score_samples`, and by the distance of a row from the axes of its class, which are in the
file.

    python -m benchmarks.settings.deletion --threads 1 --out deletion.md deletion.csv
"""

from pathlib import Path
from statistics import mean

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.lib.report import command_line, page, run_and_publish, table
from benchmarks.lib.sets import load_group
from ffnb_sklearn import IncrementalDiscriminantAnalysis

COLUMNS = ["set", "share", "labels %", "probabilities", "labels, kept %", "probabilities, kept"]
COLUMNS += ["accuracy %", "never learned %"]
FIGURES = ["labels", "probabilities", "labels_kept", "probabilities_kept", "accuracy", "never"]
# Ways to rank rows, and the classifiers that are asked.
RANKINGS = ["scores", "axes"]
ASKED = ["forgot", "forgot, rank=None", "never learned"]
MEMBERSHIP_COLUMNS = ["set", *(f"{ranking}: {asked}" for ranking in RANKINGS for asked in ASKED)]
# Share of the training rows that is forgotten, and share that is never learned.
MEMBERSHIP_SHARE = 0.1
# Energy along an axis, relative to the longest axis, up to which it counts as rounding.
AXIS_ROUNDING = 1e-6


def new_classifier(seed, rank="auto"):
    """Return a classifier; its rank is the default."""
    return IncrementalDiscriminantAnalysis(rank=rank, random_state=seed)


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


def closeness_to_axes(clf, X, y):
    """Return minus the share of the squared distance to the class mean that no axis explains."""
    features = clf.transform(X)
    closeness = np.empty(len(X))
    for label, moments in zip(clf._state.arrived, clf._state.model.moments, strict=True):
        deviations = features[y == label] - moments.mean
        _, lengths, axes = np.linalg.svd(moments.factor.astype(float), full_matrices=False)
        axes = axes[lengths**2 > AXIS_ROUNDING * lengths.max(initial=0.0) ** 2]
        outside = deviations - deviations @ axes.T @ axes
        squared_distances = np.square(deviations).sum(axis=1)
        closeness[y == label] = -np.square(outside).sum(axis=1) / squared_distances
    return closeness


def area_under_curve(is_gone, values, y):
    """Return the mean over the classes of the area under the ROC curve, in percent."""
    areas = []
    for label in np.unique(y):
        rows = y == label
        if 0 < is_gone[rows].sum() < rows.sum():
            areas.append(roc_auc_score(is_gone[rows], values[rows]))
    return 100.0 * mean(areas) if areas else np.nan


def membership(split, seed):
    """Return how well forgotten rows are told from rows that were never learned."""
    order = np.random.default_rng(seed).permutation(len(split.y))
    n_gone = int(MEMBERSHIP_SHARE * len(order))
    gone, fresh, stay = np.split(order, [n_gone, 2 * n_gone])
    learned = np.concatenate([gone, stay])
    asked = {}
    for name, rank in [("forgot", "auto"), ("forgot, rank=None", None)]:
        clf = new_classifier(seed, rank).fit(split.X[learned], split.y[learned])
        asked[name] = clf.forget_samples(split.X[gone], split.y[gone])
    never = new_classifier(seed).fit(split.X[stay], split.y[stay])
    asked["never learned"] = never
    # Rows of classes that are gone cannot be ranked.
    ranked = np.concatenate([gone, fresh])
    is_gone = np.arange(len(ranked)) < n_gone
    known = np.isin(split.y[ranked], never.classes_)
    ranked = ranked[known]
    is_gone = is_gone[known]
    X = split.X[ranked]
    y = split.y[ranked]
    found = {}
    for name, clf in asked.items():
        found[f"scores: {name}"] = area_under_curve(is_gone, clf.score_samples(X), y)
        found[f"axes: {name}"] = area_under_curve(is_gone, closeness_to_axes(clf, X, y), y)
    return found


def run(options):
    """Return the records of all sets, shares and seeds; the first split of each set counts."""
    records = []
    for group in options.sets:
        for problem in load_group(group, options.data, options.tables).values():
            for seed in options.seeds:
                split = problem.splits(seed)[0]
                told_apart = membership(split, seed)
                for share in options.shares:
                    keys = {"set": problem.name, "share": share, "seed": seed}
                    records.append(keys | compare(split, share, seed) | told_apart)
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
        f"second table: {MEMBERSHIP_SHARE:.0%} of the training rows were learned and forgotten, as "
        "many were never learned; area under the ROC curve in percent, mean over the classes, of "
        "telling the former from the latter; 50: they cannot be told apart, and the column of the "
        "classifier that never learned either shows how far a set deviates by chance",
        "scores: by `score_samples`; axes: by the share of the squared distance from the class "
        "mean that the stored axes of the class do not explain",
    ]
    told_apart = table(MEMBERSHIP_COLUMNS, membership_lines(records))
    parts = [table(COLUMNS, lines), told_apart]
    return page("Deletion from truncated moments", environment, notes, *parts)


def membership_lines(records):
    """Return the lines of the second table, means over the seeds."""
    runs_of_set = {}
    for record in records:
        runs_of_set.setdefault(record["set"], []).append(record)
    lines = []
    for name, runs in runs_of_set.items():
        cells = [f"{mean(one[column] for one in runs):.1f}" for column in MEMBERSHIP_COLUMNS[1:]]
        lines.append([name, *cells])
    return lines


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
