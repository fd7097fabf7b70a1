"""Choose what the paper does not print on held-out training rows, and score it on the test rows.

    python -m benchmarks.paper.fair --data FOLDER --results FOLDER --out fair.md
    python -m benchmarks.paper.fair --sets cifar --seeds 0 --data FOLDER --results FOLDER
    python -m benchmarks.paper.fair --quick

A stream over three quarters of the training rows of each class is scored on the other quarter, in
closed form, with each setting of a grid of p and both ridges. The setting with the highest mean
score over the seeds then learns all training rows, in closed form and by Algorithm 2, task after
task and all classes at once. Each fold of SBU chooses for itself. No test row takes part in the
choice, and only the chosen settings are scored on test rows. Scores on held-out rows stand in
``held_out.csv``, and all other runs in the files of `benchmarks.paper.paper`.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.lib.published import ABSOLUTE
from benchmarks.lib.report import environment_lines, limited, page, table
from benchmarks.paper.data_sets import CIFAR, FPHA, FPHA_BY_CLASS, HELD_OUT, SBU
from benchmarks.paper.paper import make_plan, notes, plan_options, runners
from benchmarks.paper.printed import ACCURACIES, CIFAR_ACCURACIES, SIZES
from benchmarks.paper.report import csv_line, spread
from benchmarks.paper.search import Grid, Search
from benchmarks.paper.tables import CLOSED, IDA, NO_LAYER, TRAINED, Row
from benchmarks.paper.verdicts import Judgement

# Absolute ridges, one decade apart, around those of `ABSOLUTE`.
GAMMAS = (0.01, 0.1, 1.0, 10.0, 100.0)
EPSILONS = (0.0001, 0.001, 0.01, 0.1, 1.0)

# Numbers of kept axes of the paper's tables, and two smaller ones. Without any kept axis, the model
# would have no null-space.
P_VALUES = {
    "sbu": (1, 5, 15, 25, 35, 45, 55),
    "fpha": (1, 5, 15, 30, 45, 75, 105),
}

# On CIFAR-100 the paper does not print p. Rows of images have more energy.
CIFAR_GRID = Grid(
    (0.001, 0.003, 0.01, 0.03, 0.1),
    {"bands__gamma": (1.0, 100.0, 1000.0, 10000.0), "p": (0.8, 0.9, 0.99)},
)

# Ten tasks on the rows of a small ResNet that was trained on the first 50 classes.
CIFAR_FEW = replace(
    CIFAR["S10"],
    title="CIFAR100-B50-S10, small ResNet, 200 rows per class",
    parameters={**CIFAR["S10"].parameters, "rank": None},
    file="cifar100_b50.npz",
    rows_per_class=200,
)
# The pairs without a layer need more rows of a class than the 256 columns.
CIFAR_ALL = replace(
    CIFAR_FEW,
    title="CIFAR100-B50-S10, small ResNet, 500 rows per class",
    rows_per_class=None,
)


@dataclass(frozen=True)
class Model:
    """A number of feature layers, and the row of the printed table that it stands beside."""

    label: str
    parameters: Mapping
    printed: str

    @property
    def has_layers(self):
        """Whether the model has neurons."""
        return self.parameters != NO_LAYER


NO_BLOCK = Model("no feature layer", NO_LAYER, "2 layers")
MODELS = (
    NO_BLOCK,
    Model("one feature layer", {"n_layers": 1}, "3 layers"),
    Model("two feature layers", {"n_layers": 2}, "4 layers"),
)


@dataclass(frozen=True)
class Part:
    """A section of the page: its title, and the streams whose scores are averaged."""

    title: str
    streams: tuple

    @property
    def data_set(self):
        """The first stream; all have the same classes."""
        return self.streams[0]

    @property
    def set_name(self):
        """Name of the set."""
        return self.data_set.name


FOLDS = tuple(replace(SBU, split=f"fold {k}") for k in range(5))
PARTS = (
    Part("SBU, fold 4", FOLDS[4:]),
    Part("SBU, five folds", FOLDS),
    Part(FPHA.title, (FPHA,)),
    Part(FPHA_BY_CLASS.title, (FPHA_BY_CLASS,)),
    Part(CIFAR_FEW.title, (CIFAR_FEW,)),
    Part(CIFAR_ALL.title, (CIFAR_ALL,)),
)
SETS = ("sbu", "fpha", "cifar")
# Tables of the paper on the number of layers, and on the network sizes.
PRINTED = {"sbu": ("tableaa", "table1"), "fpha": ("tablebb", "table12")}


@dataclass(frozen=True)
class Record:
    """Recorded runs: a runner for each set, and the search."""

    runners: Mapping
    search: Search

    def scores(self, streams, row_of_stream, mode):
        """Return the mean score over some streams in percent by seed, of seeds that have all."""
        by_stream = []
        for data_set in streams:
            row = row_of_stream(data_set)
            runs = self.runners[data_set.name].runs_by_seed(row, mode, [data_set.split])
            by_stream.append({seed: score(run, row) for seed, (run,) in runs.items()})
        seeds = [seed for seed in by_stream[0] if all(seed in one for one in by_stream)]
        return {seed: np.mean([one[seed] for one in by_stream]) for seed in seeds}

    def chosen(self, model, data_set):
        """Return the setting that held-out rows choose, and its score there; None without runs."""
        return self.search.best(search_row(model, data_set), grid(model, data_set))

    def chosen_row(self, model, data_set, name="paper"):
        """Return the row of a model with the setting that held-out rows choose.

        `name` is "paper" for a stream, or "paper joint" for all classes at once.
        """
        setting, _ = self.chosen(model, data_set)
        return Row(
            model.label,
            data_set,
            name,
            parameters={**model.parameters, **setting},
            modes=modes_of(model),
            only_printed=True,
        )

    def is_complete(self, model, part):
        """Return whether all streams of a part have chosen a setting of a model."""
        return all(self.chosen(model, data_set) is not None for data_set in part.streams)


def score(run, row):
    """Return the final accuracy in percent; on CIFAR-100 the average over the tasks."""
    is_average = row.data_set.name == "cifar" and not row.model.endswith("joint")
    return 100 * (run.accuracies.mean() if is_average else run.final)


def models(data_set):
    """Return the models of a data set; with all rows of CIFAR-100, those without bands."""
    if data_set is CIFAR_ALL:
        return (NO_BLOCK,)
    return MODELS


def modes_of(model):
    """Return the modes of a model: without a layer nothing is trained."""
    return (CLOSED, TRAINED) if model.has_layers else (CLOSED,)


def grid(model, data_set):
    """Return the settings that are compared, without those that a model has no use for."""
    if data_set.name == "cifar":
        whole = CIFAR_GRID
    else:
        whole = Grid(EPSILONS, {"bands__gamma": GAMMAS, "p": P_VALUES[data_set.name]})
    return whole if model.has_layers else Grid(whole.epsilons)


def search_row(model, data_set):
    """Return the row of a model whose settings are searched."""
    return Row(model.label, data_set, parameters=model.parameters, modes=(CLOSED,))


def ida_row(data_set, model=IDA):
    """Return the row of `IncrementalDiscriminantAnalysis`."""
    return Row("IDA", data_set, model=model, modes=(CLOSED,), only_printed=True)


def make(record, data_set):
    """Make the runs of a stream: the grid on held-out rows, then the chosen settings."""
    runner = record.runners[data_set.name]
    for model in models(data_set):
        record.search.run(search_row(model, data_set), grid(model, data_set))
        for name in ("paper", "paper joint"):
            runner.run([record.chosen_row(model, data_set, name)])
    runner.run([ida_row(data_set), ida_row(data_set, f"{IDA} joint")])


def lines_of(record, part):
    """Return the section of a part as lines of Markdown."""
    found = [model for model in models(part.data_set) if record.is_complete(model, part)]
    rows = [_line(record, model, part) for model in found]
    rows.append(_ida_line(record, part))
    columns = [
        "model",
        "printed",
        "held out",
        "closed form",
        "trained",
        "joint, closed form",
        "joint, trained",
        "closed form - no feature layer",
        "trained - no feature layer",
        "parameters",
    ]
    is_cifar = part.set_name == "cifar"
    measured = "average incremental accuracy" if is_cifar else "final accuracy"
    return [
        f"## {part.title}",
        "",
        f"- {_common(part.data_set)}",
        f"- {measured} in percent; joint: accuracy after all classes at once",
        f"- printed number of parameters: {_printed_size(part)}",
        *(f"- chosen, {model.label}: {_settings(record, model, part)}" for model in found),
        "",
        *table(columns, rows),
    ]


def _common(data_set):
    """Describe what all rows with a layer share."""
    varied = {"p", "epsilon", "bands__gamma", "n_layers"}
    given = {**ABSOLUTE, **data_set.parameters, "bands__max_epochs": data_set.epochs}
    listed = ", ".join(f"{name}={one!r}" for name, one in given.items() if name not in varied)
    return f"published values: as_published({listed}); closed form: bands__max_epochs=0"


def _settings(record, model, part):
    """Return the chosen settings as text, of each fold where there are several."""
    texts = {}
    for data_set in part.streams:
        setting, _ = record.chosen(model, data_set)
        named = (f"{name.removeprefix('bands__')}={value:g}" for name, value in setting.items())
        texts[data_set.split] = ", ".join(named)
    if len(texts) == 1:
        return texts[part.data_set.split]
    return "; ".join(f"{split} {text}" for split, text in texts.items())


def _line(record, model, part):
    """Return the cells of a model."""
    streams = part.streams

    def cell(mode, name="paper"):
        row_of = partial(record.chosen_row, model, name=name)
        return spread(list(record.scores(streams, row_of, mode).values()))

    return [
        model.label,
        printed_score(model, part),
        f"{100 * np.mean([record.chosen(model, one)[1] for one in streams]):.2f}",
        cell(CLOSED),
        cell(TRAINED),
        cell(CLOSED, "paper joint"),
        cell(TRAINED, "paper joint"),
        difference(record, model, part, CLOSED),
        difference(record, model, part, TRAINED),
        _size(record, part, partial(record.chosen_row, model)),
    ]


def _ida_line(record, part):
    """Return the cells of `IncrementalDiscriminantAnalysis`."""
    scores = record.scores(part.streams, ida_row, CLOSED)
    joint = record.scores(part.streams, partial(ida_row, model=f"{IDA} joint"), CLOSED)
    no_block = record.scores(part.streams, partial(record.chosen_row, NO_BLOCK), CLOSED)
    return [
        "IDA",
        "-",
        "-",
        spread(list(scores.values())),
        "-",
        spread(list(joint.values())),
        "-",
        _paired(scores, no_block),
        "-",
        _size(record, part, ida_row),
    ]


def difference(record, model, part, mode):
    """Return the difference to the model without a layer as text, with its verdict."""
    if not model.has_layers:
        return "-"
    scores = record.scores(part.streams, partial(record.chosen_row, model), mode)
    others = record.scores(part.streams, partial(record.chosen_row, NO_BLOCK), CLOSED)
    return _paired(scores, others)


def _paired(scores, others):
    """Return the mean difference of paired seeds as text; of a single seed without a verdict."""
    differences = np.array([scores[seed] - others[seed] for seed in scores if seed in others])
    if len(differences) > 1:
        return str(Judgement(differences))
    return f"{differences[0]:+.1f}" if len(differences) else "-"


def _size(record, part, row_of):
    """Return the mean number of stored parameters after the last task as text."""
    sizes = []
    for data_set in part.streams:
        runs = record.runners[part.set_name].runs(row_of(data_set), CLOSED, [data_set.split])
        sizes += [run.sizes[-1] for (run,) in runs]
    return f"{np.mean(sizes):.0f}" if sizes else "-"


def printed_score(model, part):
    """Return the printed score beside a model as text."""
    if part.set_name == "cifar":
        average = np.mean(CIFAR_ACCURACIES["S10"])
        return f"{average:.2f}" if model.label == "two feature layers" else "-"
    if len(part.streams) > 1:
        return "-"
    rows = ACCURACIES[PRINTED[part.set_name][0]]
    return f"{rows[model.printed][-1]:.2f}" if model.printed in rows else "-"


def _printed_size(part):
    """Return the printed number of parameters after the last task, with the backbone, as text."""
    if part.set_name == "cifar":
        return "5.8 M with an EfficientNet"
    *_, sizes = SIZES[PRINTED[part.set_name][1]]
    return f"{sizes[-1]}, with the backbone"


def summary(record):
    """Return the scores of all parts as comma-separated values, closed form / trained.

    Behind them stand the differences of the models with layers to the model without a layer.
    """
    rows = [["model"]]
    for part in PARTS:
        rows[0] += ["printed", part.title]
    for model in MODELS:
        cells = [model.label]
        for part in PARTS:
            text = "-"
            if model in models(part.data_set):
                row_of = partial(record.chosen_row, model)
                text = _closed_and_trained(record, part, row_of, modes_of(model))
            cells += [printed_score(model, part), text]
        rows.append(cells)
    cells = ["IDA"]
    for part in PARTS:
        cells += ["-", _closed_and_trained(record, part, ida_row, (CLOSED,))]
    rows.append(cells)
    for model, mode in product(MODELS[1:], (CLOSED, TRAINED)):
        cells = [f"{model.label} - none, {mode}"]
        for part in PARTS:
            is_there = model in models(part.data_set)
            cells += ["-", difference(record, model, part, mode) if is_there else "-"]
        rows.append(cells)
    return [csv_line(row) for row in rows]


def _closed_and_trained(record, part, row_of, modes):
    """Return the mean scores in some modes as text."""
    means = [np.mean(list(record.scores(part.streams, row_of, mode).values())) for mode in modes]
    return " / ".join(f"{mean:.1f}" for mean in means)


def open_record(options):
    """Return the recorded runs of the command line."""
    path = None if options.results is None else options.results / "held_out.csv"
    return Record(runners(options), Search(make_plan(options), path))


def parse(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--out", type=Path, help=".md of all tables")
    plan_options(parser)
    return parser.parse_args(arguments)


def main(arguments=None):
    """Choose the settings of all sets, and print what they give."""
    options = parse(arguments)
    parts = []
    with limited(options.threads):
        record = open_record(options)
        for part in PARTS:
            if part.set_name not in options.sets:
                continue
            if not options.recorded:
                for data_set in part.streams:
                    make(record, data_set)
            parts.append(lines_of(record, part))
            print("\n".join(parts[-1]), flush=True)
        environment = environment_lines(options.device)
    if set(options.sets) == set(SETS):
        print("\n".join(summary(record)))
    lines = [
        *notes(record.search.plan),
        f"held out: mean accuracy after the last task on {HELD_OUT:.0%} of the training rows of "
        "each class, of the setting for which it is highest; each fold of SBU chooses for itself",
        "differences: mean ± standard error over paired seeds; yes or no if the mean is at least "
        "two standard errors above or below zero, and open otherwise; one seed has no verdict",
        "IDA: `IncrementalDiscriminantAnalysis` with its defaults",
        "printed figures stand beside one reading of the layers: on skeletons 2, 3 and 4 printed "
        "layers are none, one and two feature layers, as the printed network sizes say; on "
        "CIFAR-100 the paper prints 2 layers in the feature map block",
    ]
    if options.out is not None:
        text = page("Settings chosen on held-out rows", environment, lines, *parts)
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
