"""Measure the worth of each deviation from the published model, one at a time up to the default.

The ladder starts at `FFNBClassifier.as_published` in absolute units, on skeleton features of the
printed widths, with classes in the order of their labels. Each rung adds one improvement to the
rungs before it, in closed form and trained by Algorithm 2. Rungs in brackets are measured, but
later rungs do not stand on them.

    python -m benchmarks.paper.ladder --seeds 0 1 2 --data FOLDER --results FOLDER --out ladder.md
    python -m benchmarks.paper.ladder --quick

The runs stand in the files of `benchmarks.paper.paper`, which are used and completed alike.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.lib.report import environment_lines, limited, page, table
from benchmarks.paper.data_sets import CIFAR, FPHA, SBU
from benchmarks.paper.paper import notes, plan_options, runners
from benchmarks.paper.printed import ACCURACIES
from benchmarks.paper.report import MODES, finals, settings, spread
from benchmarks.paper.tables import CLOSED, TRAINED, Row
from ffnb_sklearn import Bands, FFNBClassifier

DEFAULT = {
    **FFNBClassifier(bands=Bands()).get_params(),
    # The default has these values and no such parameters.
    "units": "relative",
    "half_bias": True,
}

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


START = Rung("published values", features="gcn-narrow")
RUNGS = (
    Rung("printed bias, without the factor 1/2", changes={"half_bias": False}, kept=False),
    START,
    Rung(
        "relative units, gamma and rate",
        ("units", "bands__learning_rate"),
        changes={"bands__gamma": 0.1},
    ),
    Rung("ridge from the moments", ("epsilon",)),
    Rung("shrinkage", ("shrinkage",)),
    Rung("Gaussian old classes instead of zeros", ("bands__old_statistics",)),
    Rung("left-out responses", ("bands__left_out",)),
    Rung("wide features", features="gcn"),
    Rung("skip connection", ("skip_connection",)),
    Rung("shared band", ("shared_band_size",)),
    Rung("distances to Gaussians", ("classifier",)),
    Rung("all other defaults", tuple(n for n in DEFAULT if n not in NOT_OF_THE_MODEL)),
)
LABELS = [rung.label for rung in RUNGS]

# Title and data set of each column, and whether it is the mean over the folds.
COLUMNS = (
    ("FPHA", FPHA, False),
    ("SBU, fold 4", SBU, False),
    ("SBU, five folds", SBU, True),
    ("CIFAR100-B50-S10", CIFAR["S10"], False),
)
STEPS = ("FPHA", "SBU, five folds", "CIFAR100-B50-S10")
# The table of the paper with fine-tuning off and on, without pretraining.
PRINTED = {"FPHA": "table62", "SBU, fold 4": "table6"}


def row_of(rung, data_set):
    """Return the row of a rung for a data set."""
    below = RUNGS[: RUNGS.index(rung)]
    parameters, features = dict(data_set.parameters), START.features
    for one in (*(one for one in below if one.kept), rung):
        parameters |= {name: DEFAULT[name] for name in one.to_default}
        parameters |= one.changes
        features = one.features or features
    # The default is not fine-tuned, and CIFAR-100 takes hours.
    trained = features == START.features and data_set.name != "cifar"
    return Row(
        rung.label,
        data_set,
        parameters=parameters,
        features=features,
        modes=MODES if trained else (CLOSED,),
    )


def measured(rungs, by_set):
    """Return the final accuracies of the seeds by rung, column and mode, where there are any."""
    cells = {}
    for rung in rungs:
        for title, data_set, folds in COLUMNS:
            row = row_of(rung, data_set)
            for mode in MODES:
                found = finals(by_set[data_set.name], row, mode, folds=folds)
                # CIFAR-100 has features of its own, of one width.
                if found and not (data_set.name == "cifar" and rung.features == "gcn"):
                    cells[rung.label, title, mode] = np.array(found)
    return cells


def steps_of(values, rungs, mode):
    """Return the mean over the sets of the change against the last kept rung below, by label."""
    steps = {}
    for k, rung in enumerate(rungs):
        changes = []
        for title in STEPS:
            below = [one.label for one in rungs[:k] if one.kept]
            below = [one for one in below if (one, title, mode) in values]
            # The first rung is compared with the published model above it.
            base = below[-1] if below else START.label
            if {(rung.label, title, mode), (base, title, mode)} <= values.keys():
                pair = [values[one, title, mode].mean() for one in (base, rung.label)]
                changes.append(pair[1] - pair[0])
        if changes and rung != START:
            steps[rung.label] = np.mean(changes)
    return steps


def report(rungs, values):
    """Return the table as lines of Markdown, a row per rung."""
    columns = [(title, mode) for title, *_ in COLUMNS for mode in MODES]
    columns = [one for one in columns if any(key[1:] == one for key in values)]
    steps = {mode: steps_of(values, rungs, mode) for mode in MODES}
    printed = {
        (title, mode): ACCURACIES[source][f"off / {tuned}"][-1]
        for title, source in PRINTED.items()
        for mode, tuned in ((CLOSED, "off"), (TRAINED, "on"))
    }
    cells = [f"{printed[one]:.2f}" if one in printed else "-" for one in columns]
    rows = [["the paper, backbone not pretrained", *cells, *["-"] * len(steps)]]
    for rung in rungs:
        cells = [spread(values.get((rung.label, *column), ())) for column in columns]
        cells += [f"{s[rung.label]:+.2f}" if rung.label in s else "-" for s in steps.values()]
        rows.append([rung.label if rung.kept else f"[{rung.label}]", *cells])
    head = ["rung", *map(", ".join, columns), *(f"step, {mode}" for mode in steps)]
    return table(head, rows)


def main(arguments=None):
    """Measure all rungs, and print their table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=["fpha", "sbu", "cifar"])
    parser.add_argument("--rungs", nargs="+", choices=LABELS, metavar="RUNG", default=LABELS)
    parser.add_argument("--out", type=Path, help=".md of the table")
    plan_options(parser)
    options = parser.parse_args(arguments)
    rungs = [rung for rung in RUNGS if rung.label in options.rungs]
    rungs = [RUNGS[0], START, RUNGS[-1]] if options.quick else rungs
    data_sets = [one for one in (FPHA, SBU, CIFAR["S10"]) if one.name in (options.sets or one.name)]
    with limited(options.threads):
        by_set = runners(options)
        for data_set in data_sets:
            if not options.recorded:
                by_set[data_set.name].run([row_of(rung, data_set) for rung in rungs])
        environment = environment_lines(options.device)
    lines = [
        *notes(by_set["sbu"].plan),
        "accuracy after the last task, the mean over folds where there are several; a step is the "
        "change against the last kept rung before, the mean of FPHA, five folds of SBU and, where "
        "measured, CIFAR-100",
        *(f"{one.title}: {settings(one)}" for one in data_sets),
    ]
    title = "Worth of each deviation from the published model"
    text = page(title, environment, lines, report(rungs, measured(rungs, by_set)))
    print(text, end="")
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
