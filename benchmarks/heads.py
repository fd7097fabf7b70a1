"""Compare classifiers on frozen features: FFNB, its peers' heads, and joint training.

Tasks of new classes are streamed through every incremental head; the joint methods see all data at
once and show what is lost by learning one task after the other. Run from anywhere:

    python benchmarks/heads.py --sets digits
    python benchmarks/heads.py --data FOLDER --seeds 0 1 2 --out heads.md heads.csv
    python benchmarks/heads.py --features mine.npz --classes-per-task 10
"""

import csv
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from _data import Problem, default_folder, known_problems, read_features
from _report import command_line, environment_lines, limited, page, publish, set_table
from _speed_clock import state_megabytes, timed
from analytic_projection import AnaCP
from joint import JointSVM
from lifted_peers import KernelLDA, RanPAC
from peers import (
    FeCAM,
    IncrementalRidge,
    NearestClassMean,
    RegularizedGaussians,
    StreamingLDA,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.streams import evaluate_stream

# Settings without a published value, the same for all sets: benchmarks/choose_settings.py prints
# the hold-out accuracies, on training data only, that they were chosen by.
SLDA_ALPHA = 100.0
RIDGE_ALPHA = 30.0
RANPAC_ALPHA = 100.0
KLDA_BANDWIDTH, KLDA_ALPHA = 1.0, 1000.0
ANACP_ALPHA = 3.0

# The paper's network: trained bands are all that the classifier sees.
BANDS_ONLY = {
    "classifier": "ovo",
    "skip_connection": False,
    "shared_band_size": 0,
    "p": 0.8,
    "gamma": 0.1,
    "shrinkage": 0.5,
    "epsilon": 0.3,
}

# What a run measures, in fractions, seconds and megabytes.
MEASURED = ["final", "average", "fit_s", "predict_s", "state_mb"]

# Names of the sets for people; a set that is not here keeps its own.
TITLES = {
    "sbu": "SBU, skeleton features",
    "sbu-sequences": "SBU, raw sequences",
    "fpha": "FPHA, skeleton features",
    "fpha-sequences": "FPHA, raw sequences",
    "cifar": "CIFAR-100",
}

QUICK_WIDTH = 256


@dataclass(frozen=True)
class Context:
    """What a method may depend on besides its rows."""

    seed: int
    width: int
    device: str


@dataclass(frozen=True)
class Method:
    """A row of the tables: label, estimator factory, what its settings are."""

    label: str
    build: Callable
    note: str
    joint: bool = False


METHODS = {
    "ffnb": Method(
        "FFNB",
        lambda c: FFNBClassifier(random_state=c.seed, device=c.device),
        "default parameters",
    ),
    "ffnb-0": Method(
        "FFNB, band_size=0",
        lambda c: FFNBClassifier(band_size=0, random_state=c.seed, device=c.device),
        "no trained band, other parameters default: exactly order-invariant",
    ),
    "ffnb-bands": Method(
        "FFNB, bands only",
        lambda c: FFNBClassifier(**BANDS_ONLY, random_state=c.seed, device=c.device),
        "as in the paper no skip connection and no shared band; "
        + ", ".join(f"{name}={value}" for name, value in BANDS_ONLY.items()),
    ),
    "ncm": Method("nearest class mean", lambda c: NearestClassMean(), "no setting"),
    "slda": Method("SLDA", lambda c: StreamingLDA(), "published shrinkage 1e-4 to the identity"),
    "slda-scaled": Method(
        "SLDA, scaled ridge",
        lambda c: StreamingLDA(alpha=SLDA_ALPHA),
        f"ridge worth {SLDA_ALPHA:g} samples of mean variance, chosen by hold-out",
    ),
    "fecam": Method(
        "FeCAM",
        lambda c: FeCAM(),
        "published alpha1 = alpha2 = 1, applied twice, and Tukey power 0.5 where the first task is "
        "non-negative",
    ),
    "rgda": Method(
        "RGDA",
        lambda c: RegularizedGaussians(),
        "weights 0.2, 2, 0.5 of class covariance, mean class covariance and identity, as published "
        "for LR-RGDA; the identity times the mean variance; all axes kept",
    ),
    "ranpac": Method(
        "RanPAC",
        lambda c: RanPAC(width=c.width, random_state=c.seed),
        "ridge by the published hold-out of every task; the published 10,000 neurons only with "
        "--width 10000",
    ),
    "ranpac-fixed": Method(
        "RanPAC, fixed ridge",
        lambda c: RanPAC(width=c.width, alpha=RANPAC_ALPHA, random_state=c.seed),
        f"ridge worth {RANPAC_ALPHA:g} samples of mean square, chosen by hold-out",
    ),
    "klda": Method(
        "KLDA",
        lambda c: KernelLDA(
            width=c.width,
            bandwidth=KLDA_BANDWIDTH,
            alpha=KLDA_ALPHA,
            random_state=c.seed,
        ),
        f"gamma = {KLDA_BANDWIDTH:g} / median squared distance of the first task, ridge worth "
        f"{KLDA_ALPHA:g} samples of mean variance, both factors chosen by hold-out",
    ),
    "anacp": Method(
        "AnaCP",
        lambda c: AnaCP(width=c.width, random_state=c.seed),
        "three heads, 100 draws per class and the ridge of 100, as published; the published 5,000 "
        "neurons only with --width 5000",
    ),
    "anacp-fixed": Method(
        "AnaCP, smaller ridge",
        lambda c: AnaCP(width=c.width, alpha=ANACP_ALPHA, random_state=c.seed),
        f"the same with a ridge of {ANACP_ALPHA:g}, chosen by hold-out",
    ),
    "ridge": Method(
        "ridge",
        lambda c: IncrementalRidge(alpha=RIDGE_ALPHA),
        f"ridge worth {RIDGE_ALPHA:g} samples of mean variance, chosen by hold-out; with intercept",
    ),
    "lda-joint": Method(
        "LDA, joint",
        lambda c: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        "all data at once, Ledoit-Wolf shrinkage",
        joint=True,
    ),
    "svm-joint": Method(
        "SVM-RBF, joint",
        lambda c: JointSVM(random_state=c.seed),
        "all data at once, gamma='scale'; rows raw or standardised and C in 1, 10, 100 chosen by "
        "3-fold cross-validation of the training rows (of 5,000 of them where there are more), "
        "which is part of fit s",
        joint=True,
    ),
}


def run_stream(method, problem, split, context):
    """Stream the tasks through a method's estimator and return what was measured."""
    result = evaluate_stream(
        method.build(context),
        split.X,
        split.y,
        split.X_test,
        split.y_test,
        classes_per_task=problem.classes_per_task,
        first_task_classes=problem.first_task_classes,
        class_order=problem.class_order(split.y, context.seed),
    )
    return {
        "final": result.final_accuracy,
        "average": result.average_incremental_accuracy,
        "fit_s": result.fit_seconds.sum(),
        "predict_s": result.score_seconds[-1],
        "state_mb": result.state_bytes[-1] / 1e6,
    }


def run_joint(method, split, context):
    """Fit on all classes at once; there is no incremental accuracy."""
    estimator = method.build(context)
    fit_s, _ = timed(estimator.fit, split.X, split.y)
    state_mb = state_megabytes(estimator)
    predict_s, accuracy = timed(estimator.score, split.X_test, split.y_test)
    return {
        "final": accuracy,
        "average": float("nan"),
        "fit_s": fit_s,
        "predict_s": predict_s,
        "state_mb": state_mb,
    }


def run_problem(problem, method_names, seeds, device):
    """Run every method on every seed and fold of one set, and return a record per run."""
    records = []
    for seed in seeds:
        context = Context(seed, problem.width, device)
        for split in problem.splits():
            for name in method_names:
                method = METHODS[name]
                if method.joint and seed != seeds[0]:
                    continue  # the same rows in another order
                if method.joint:
                    measured = run_joint(method, split, context)
                else:
                    measured = run_stream(method, problem, split, context)
                key = {"set": problem.name, "split": split.name, "seed": seed, "method": name}
                extra = {"joint": method.joint, "n_test": len(split.y_test)}
                records.append({**key, **measured, **extra})
                print(
                    f"{problem.name}, {split.name}, seed {seed}, {name}: {measured['final']:.4f}",
                    file=sys.stderr,
                )
    return records


def earlier_records(paths, problems, method_names):
    """Return the rows of earlier .csv files for the sets at hand and the methods not run."""
    names = {problem.name for problem in problems}
    found = []
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if row["set"] in names and row["method"] not in method_names:
                    numbers = {key: float(row[key]) for key in MEASURED}
                    kinds = {"joint": row["joint"] == "True", "n_test": int(row["n_test"])}
                    found.append({**row, **numbers, **kinds})
    return found


def report(records, problems, method_names, seeds, device):
    """Return the whole report as Markdown; `method_names` are those of this run."""
    names = ", ".join(TITLES.get(problem.name, problem.name) for problem in problems)
    notes = [
        f"seeds: {', '.join(map(str, seeds))}; a seed sets the class order (0: sorted labels) "
        "and the random features",
        "rows go in as they are; ± is the standard deviation over seeds, after folds are "
        "averaged; fit s: sum over tasks; predict s: the whole test set after the last task, and "
        "what has to be solved for it; state: the pickled estimator; bold: best of the "
        "incremental methods",
        "joint methods see every class at once, so they run for one seed",
    ]
    found = {record["method"] for record in records}
    earlier = [METHODS[name].label for name in METHODS if name in found - set(method_names)]
    if earlier:
        notes.append(f"rows of an earlier run, perhaps on another machine: {'; '.join(earlier)}")
    labels = {name: METHODS[name].label for name in METHODS}
    parts = []
    for problem in problems:
        about = f"{problem.source}; {problem.protocol}; width of the lifted peers {problem.width}."
        chosen = [record for record in records if record["set"] == problem.name]
        parts += [[f"## {problem.name}", "", about], set_table(chosen, labels)]
    settings = [f"- {one.label}: {one.note}." for name, one in METHODS.items() if name in found]
    environment = environment_lines(device=device)
    title = f"Beside other heads: {names}"
    return page(title, environment, notes, *parts, ["Settings:", "", *settings])


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, quick=f"one seed, digits, width {QUICK_WIDTH}", data=True)
    add = parser.add_argument
    known = list(known_problems(default_folder()))
    add("--sets", nargs="+", choices=known, help="default: all; with --quick: digits")
    add("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    add("--from", dest="given", nargs="+", type=Path, default=[], help="rows of other methods")
    add("--seeds", nargs="+", type=int, help="default: 0 1 2 3 4; with --quick: 0")
    add("--features", type=Path, help="an own .npz file with X, y and train, split or fold")
    add("--classes-per-task", type=int, default=1, help="only for --features")
    add("--first-task-classes", type=int, help="only for --features")
    add("--width", type=int, help="random neurons of RanPAC and KLDA, instead of the set's")
    add("--device", default="cpu", help="device for FFNB")
    return parser.parse_args(arguments)


def choose_problems(options):
    """Return the problems the command line asks for."""
    if options.features is not None:
        own = Problem(
            options.features.stem,
            f"rows of {options.features.name}",
            partial(read_features, options.features),
            options.classes_per_task,
            options.first_task_classes,
        )
        problems = [own]
    else:
        known = known_problems(options.data)
        names = options.sets or (["digits"] if options.quick else list(known))
        problems = [known[name] for name in names]
    width = options.width or (QUICK_WIDTH if options.quick else None)
    return [replace(p, width=width) if width else p for p in problems]


def main(arguments=None):
    """Run the comparison and print its report."""
    options = parse(arguments)
    seeds = options.seeds or ([0] if options.quick else [0, 1, 2, 3, 4])
    problems = choose_problems(options)
    with limited(options.threads):
        records = []
        for problem in problems:
            records += run_problem(problem, options.methods, seeds, options.device)
        records += earlier_records(options.given, problems, options.methods)
        order = list(METHODS)
        records.sort(key=lambda one: order.index(one["method"]))
        text = report(records, problems, options.methods, seeds, options.device)
    publish(text, records, options.out)


if __name__ == "__main__":
    main()
