"""Measure the worth of each deviation from the published model, one at a time up to the default.

The ladder starts at `FFNBClassifier.as_published` on skeleton features of the printed widths, with
classes in the order of their labels. Each rung adds one improvement to the rungs before it. Rungs
in brackets are measured, but later rungs do not stand on them.

    python -m benchmarks.paper.ladder --threads 1 --out ladder.md ladder.csv
    python -m benchmarks.paper.ladder --threads 1 --epochs 30 --seeds 0 1 2 --from ladder.csv
    python -m benchmarks.paper.ladder --quick

With --epochs, the rungs on features of the printed widths are measured in closed form and
fine-tuned, without it all rungs in closed form. Runs of the files of --from are not made again.
"""

import sys
import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.lib.report import command_line, page, read_records, run_and_publish, table
from benchmarks.paper.data_sets import (
    CIFAR,
    DEEP_P,
    FPHA,
    SBU,
    Pretraining,
    load_splits,
    thin,
)
from benchmarks.paper.printed import ACCURACIES
from benchmarks.paper.runs import QUICK_EPOCHS, QUICK_SAMPLES
from ffnb_sklearn import Bands, FFNBClassifier, class_incremental_tasks
from ffnb_sklearn.exceptions import EmptyNullSpaceWarning

DATA_SETS = {one.name: one for one in (FPHA, SBU, CIFAR["S10"])}
DEFAULT = FFNBClassifier(bands=Bands()).get_params()

# Parameters of an estimator that are no part of the model.
NOT_OF_THE_MODEL = {"bands", "random_state", "device", "verbose", "classes_per_task"}


@dataclass(frozen=True)
class Rung:
    """A change of the model, on top of all kept rungs before it.

    `to_default` names parameters that get their default values, `changes` has other values, and
    `features` names new features of a sequence. Later rungs stand on this one if it is `kept`.
    """

    label: str
    to_default: tuple[str, ...] = ()
    changes: Mapping = field(default_factory=dict)
    features: str = ""
    kept: bool = True


START = Rung("as_published", features="gcn-narrow")
SEVERAL_LAYERS = Rung("three layers instead of one", changes={"n_layers": 3}, kept=False)
RUNGS = (
    Rung("printed bias, without the factor 1/2", changes={"bands__half_bias": False}, kept=False),
    START,
    Rung("epsilon of 0.1 instead of 0.01", changes={"epsilon": 0.1}, kept=False),
    Rung(
        "relative units, gamma and rate", ("bands__units", "bands__gamma", "bands__learning_rate")
    ),
    Rung("ridge from the moments", ("epsilon",)),
    Rung("shrinkage", ("shrinkage",)),
    Rung("Gaussian old classes instead of zeros", ("bands__old_statistics",)),
    Rung("left-out responses", ("bands__left_out",)),
    Rung("cross-fitted copies", ("bands__n_folds",)),
    Rung("draws of old classes", ("bands__draws",)),
    Rung("patience and two standard errors", ("bands__patience", "bands__standard_errors")),
    SEVERAL_LAYERS,
    Rung("wide features", features="gcn"),
    Rung("skip connection", ("skip_connection",)),
    Rung("shared band", ("shared_band_size",)),
    Rung("distances to Gaussians", ("classifier",)),
    Rung("all other defaults", tuple(n for n in DEFAULT if n not in NOT_OF_THE_MODEL)),
)

# Title, set and split (empty: all of them) of the columns, and the columns whose mean is a step.
COLUMNS = (
    ("FPHA", "fpha", ""),
    ("SBU, fold 4", "sbu", "fold 4"),
    ("SBU, five folds", "sbu", ""),
    ("CIFAR100-B50-S10", "cifar", ""),
)
STEPS = ("FPHA", "SBU, five folds", "CIFAR100-B50-S10")
CLOSED, TUNED = "closed form", "fine-tuned"
RUN = ("set", "rung", "seed", "max_epochs")


def settings_of(rung, data_set):
    """Return the parameters of a rung, nested ones included, and the name of its features."""
    below = RUNGS[: RUNGS.index(rung)]
    parameters = FFNBClassifier.as_published(**DATA_SETS[data_set].parameters).get_params()
    features = START.features
    for one in (*(one for one in below if one.kept), rung):
        parameters |= {name: DEFAULT[name] for name in one.to_default}
        parameters |= one.changes
        features = one.features or features
    if rung == SEVERAL_LAYERS:
        # An integer p does not fit the narrow layers above the first.
        parameters["p"] = (parameters["p"], *[DEEP_P] * (parameters["n_layers"] - 1))
    return {k: v for k, v in parameters.items() if k not in NOT_OF_THE_MODEL}, features


def runs_of(options):
    """Yield set, rung, seed and epochs of each run."""
    for name in options.sets:
        for rung in (rung for rung in RUNGS if rung.label in options.rungs):
            wide = settings_of(rung, name)[1] != START.features
            # CIFAR-100 has features of its own, of one width.
            if wide and (options.epochs or (name == "cifar" and rung.features)):
                continue
            for seed in options.seeds:
                yield name, rung, seed, 0
                if options.epochs and rung != SEVERAL_LAYERS:
                    yield name, rung, seed, options.epochs


def measure(options, name, rung, seed, epochs):
    """Return the records of a rung on all splits of a set with one seed."""
    parameters, features = settings_of(rung, name)
    splits = load_splits(
        DATA_SETS[name],
        options.data,
        features=features,
        pretraining=Pretraining(),
        seed=seed,
        only_printed=options.quick,
    )
    records = []
    for split in splits:
        rows = thin(split, *QUICK_SAMPLES) if options.quick else split
        estimator = FFNBClassifier(device="cpu", random_state=seed, bands=Bands())
        estimator.set_params(**parameters | {"bands__max_epochs": epochs})
        keys = {"set": name, "split": split.name, "rung": rung.label, "seed": seed}
        final = streamed(estimator, rows, DATA_SETS[name])
        records.append({**keys, "max_epochs": epochs, "final": final})
    print(name, rung.label, seed, epochs, file=sys.stderr, flush=True)
    return records


def streamed(estimator, split, data_set):
    """Stream the classes of a split, and score the last model."""
    tasks = class_incremental_tasks(
        split.y,
        classes_per_task=data_set.classes_per_task,
        first_task_classes=data_set.first_task_classes,
    )
    with warnings.catch_warnings():
        # Few samples, of --quick, have nothing left beside the axes that are kept.
        warnings.simplefilter("ignore", EmptyNullSpaceWarning)
        for task in tasks:
            estimator.partial_fit(split.X[task], split.y[task])
        return estimator.score(split.X_test, split.y_test)


def run(options):
    """Return the records of all rungs, with those of earlier files."""
    records = [
        {key: one[key] for key in ("set", "split", "rung")}
        | {key: int(one[key]) for key in ("seed", "max_epochs")}
        | {"final": float(one["final"])}
        for one in read_records(options.given)
    ]
    known = {tuple(one[key] for key in RUN) for one in records}
    for name, rung, seed, epochs in runs_of(options):
        if (name, rung.label, seed, epochs) not in known:
            records += measure(options, name, rung, seed, epochs)
    return records


def by_cell(records):
    """Return the accuracies of each seed, means over folds in percent, by rung, column and kind."""
    cells = defaultdict(lambda: defaultdict(list))
    for one in records:
        kind = TUNED if one["max_epochs"] else CLOSED
        for title, name, split in COLUMNS:
            if one["set"] == name and split in ("", one["split"]):
                cells[one["rung"], title, kind][one["seed"]].append(100.0 * one["final"])
    return {
        key: np.array([np.mean(folds) for folds in seeds.values()]) for key, seeds in cells.items()
    }


def steps_of(values, rungs, kind):
    """Return the mean over the sets of the change against the last kept rung below, by label."""
    steps = {}
    for k, rung in enumerate(rungs):
        changes = []
        for title in STEPS:
            below = [one.label for one in rungs[:k] if one.kept]
            below = [one for one in below if (one, title, kind) in values]
            # The first rung is compared with the published model above it.
            base = below[-1] if below else START.label
            if {(rung.label, title, kind), (base, title, kind)} <= values.keys():
                pair = [values[one, title, kind].mean() for one in (base, rung.label)]
                changes.append(pair[1] - pair[0])
        if changes and rung != START:
            steps[rung.label] = np.mean(changes)
    return steps


def report(records, options, environment):
    """Return the table as Markdown, a row per rung."""
    values = by_cell(records)
    rungs = [rung for rung in RUNGS if any(key[0] == rung.label for key in values)]
    columns = [
        (title, kind)
        for title, _, _ in COLUMNS
        for kind in (CLOSED, TUNED)
        if any(key[1:] == (title, kind) for key in values)
    ]
    steps = {kind: steps_of(values, rungs, kind) for kind in dict.fromkeys(k for _, k in columns)}
    rows = []
    for trained, switch in (("not pretrained", "off"), ("pretrained", "on")):
        printed = {
            (title, kind): ACCURACIES[source][f"{switch} / {tuned}"][-1]
            for title, source in (("FPHA", "table62"), ("SBU, fold 4", "table6"))
            for kind, tuned in ((CLOSED, "off"), (TUNED, "on"))
        }
        cells = [f"{printed[one]:.2f}" if one in printed else "-" for one in columns]
        rows.append([f"the paper, backbone {trained}", *cells, *["-"] * len(steps)])
    for rung in rungs:
        cells = [_spread(values.get((rung.label, *column))) for column in columns]
        cells += [f"{s[rung.label]:+.2f}" if rung.label in s else "-" for s in steps.values()]
        rows.append([rung.label if rung.kept else f"[{rung.label}]", *cells])
    head = ["rung", *map(", ".join, columns), *(f"step, {kind}" for kind in steps)]
    notes = [
        *(["**quick run**: few rungs and samples; not a result"] if options.quick else []),
        "accuracy after the last task in percent; ± is the standard deviation over seeds, each the "
        "mean over its folds; a step is the change against the last kept rung before, the mean of "
        "FPHA, five folds of SBU and, where measured, CIFAR-100",
        "untrained SkeletonGCN on the skeletons; "
        + "; ".join(
            f"{DATA_SETS[name].title}: as_published with {DATA_SETS[name].parameters}, "
            f"seeds {', '.join(map(str, sorted({r['seed'] for r in records if r['set'] == name})))}"
            for name in dict.fromkeys(one["set"] for one in records)
        ),
    ]
    title = "Worth of each deviation from the published model"
    return page(title, environment, notes, table(head, rows))


def _spread(values):
    if values is None:
        return "-"
    spread = f" ± {values.std():.2f}" if len(values) > 1 else ""
    return f"{values.mean():.2f}{spread}"


def main(arguments=None):
    """Measure all rungs, and print their table."""
    parser = command_line(__doc__, quick="three rungs, one seed, few epochs and samples", data=True)
    add = parser.add_argument
    add("--sets", nargs="+", choices=[*DATA_SETS], default=["fpha", "sbu"])
    labels = [rung.label for rung in RUNGS]
    add("--rungs", nargs="+", choices=labels, metavar="RUNG", help="only these; default: all")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    add("--epochs", type=int, default=0, help="of fine-tuning; the paper has 250")
    add("--from", dest="given", nargs="+", type=Path, default=[], help=".csv of earlier runs")
    options = parser.parse_args(arguments)
    options.rungs = options.rungs or (labels[:2] + labels[-1:] if options.quick else labels)
    if options.quick:
        options.seeds, options.epochs = options.seeds[:1], min(options.epochs, QUICK_EPOCHS)
    run_and_publish(run, report, options)


if __name__ == "__main__":
    main()
