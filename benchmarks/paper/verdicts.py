"""Judge the claims of the paper by paired seeds of the recorded runs.

    python -m benchmarks.paper.verdicts --results benchmarks/results/paper

A claim compares two rows of a table. Each seed gives one difference, because both rows have the
same random filters and mini-batches. A claim is confirmed if the mean of the differences is at
least two standard errors above zero, refuted if it is as far below, and open otherwise. Seeds with
a failed run of a row are left out. A trained run collapses if it has less than half of the accuracy
of its closed form. The table stands on the page of the paper's tables, docs/benchmarks/paper.rst.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.paper.report import csv_line
from benchmarks.paper.runs import Plan, Runner
from benchmarks.paper.tables import CLOSED, TRAINED, paper_tables

SEEDS = (0, 1, 2, 3, 4)
# Share of the accuracy of its closed form below which a trained run has collapsed.
COLLAPSED = 0.5
RESULTS = Path(__file__).resolve().parents[1] / "results" / "paper"
FOLDS = ("fold 0", "fold 1", "fold 2", "fold 3", "fold 4")

# Rows of ours that stand for a printed row with another label.
PRINTED_LABELS = {
    "off, same stream / on": "off / on",
    "joint through the convolution": "joint",
}


@dataclass(frozen=True)
class Stream:
    """A column of verdicts: the prefix of the tables, the file of runs, and the splits."""

    title: str
    prefix: str
    data_set: str
    splits: tuple[str, ...]


STREAMS = (
    Stream("SBU, fold 4", "sbu", "sbu", ("fold 4",)),
    Stream("SBU, five folds", "sbu", "sbu", FOLDS),
    Stream("FPHA, tasks of five", "fpha", "fpha", ("official",)),
    Stream("FPHA, class by class", "fpha1", "fpha", ("official",)),
)


@dataclass(frozen=True)
class Claim:
    """A comparison of two rows of a table.

    `rows` maps the prefix of a table to the label of the row that is to be better and that of the
    other row; "" stands for all other prefixes. A lower `bound` is better, a higher accuracy.
    `modes` are those of both rows: trained or in closed form.
    """

    text: str
    table: str
    rows: Mapping[str, tuple[str, str]]
    bound: bool = False
    modes: tuple[str, str] = (TRAINED, TRAINED)


def _claim(text, table, better, worse, **options):
    """Return a claim on the same two rows of all streams."""
    return Claim(text, table, {"": (better, worse)}, **options)


def _axes(text, table, sbu, fpha, **options):
    """Return a claim on two numbers of kept axes, which differ between the data sets."""
    rows = {"sbu": sbu, "": fpha}
    return Claim(text, table, rows, **options)


# The descent may collapse, or add to a difference; the closed form shows what the row alone does.
IN_CLOSED_FORM = (CLOSED, CLOSED)
# A row against itself without the descent.
DESCENT = (TRAINED, CLOSED)

CLAIMS = (
    _claim("null-space over none", "ablation", "on / on / multi", "off / on / multi"),
    _claim(
        "null-space over none, closed form",
        "ablation",
        "on / on / multi",
        "off / on / multi",
        modes=IN_CLOSED_FORM,
    ),
    _axes("printed best p over the smallest", "p", ("p=45", "p=15"), ("p=75", "p=15")),
    _axes("printed best p over the largest", "p", ("p=45", "p=55"), ("p=75", "p=120")),
    _axes("second smallest p over the smallest", "p", ("p=25", "p=15"), ("p=30", "p=15")),
    _claim("ReLU over tanh", "activation", "relu", "tanh"),
    _claim("ReLU over sigmoid", "activation", "relu", "sigmoid"),
    _claim("bound of ReLU below tanh", "activation", "relu", "tanh", bound=True),
    _claim("bound of ReLU below sigmoid", "activation", "relu", "sigmoid", bound=True),
    _axes(
        "bound at the largest p below the smallest",
        "p-bound",
        ("p=55", "p=15"),
        ("p=120", "p=15"),
        bound=True,
    ),
    _claim("bound at weight decay 1e-2 below 1e-8", "decay", "1e-2", "1e-8", bound=True),
    _claim("bound at weight decay 1e-3 below 1e-8", "decay", "1e-3", "1e-8", bound=True),
    _claim("accuracy at weight decay 1e-8 over 1e-2", "decay", "1e-8", "1e-2"),
    _claim("accuracy at weight decay 1e-8 over 1e-3", "decay", "1e-8", "1e-3"),
    _claim(
        "class covariances over the identity", "ablation", "on / on / multi", "on / off / multi"
    ),
    _claim(
        "class covariances over the identity, closed form",
        "ablation",
        "on / on / multi",
        "on / off / multi",
        modes=IN_CLOSED_FORM,
    ),
    _claim(
        "class covariances over a pooled one", "ablation", "on / on / multi", "on / pooled / multi"
    ),
    _claim("multi-task over mono-task start", "ablation", "on / on / multi", "on / on / mono"),
    _claim("multi-task over random start", "ablation", "on / on / multi", "on / on / random"),
    _claim("one-vs-one over softmax one-vs-all", "classifier", "one-vs-one", "one-vs-all"),
    _claim("one-vs-one over ridge one-vs-all", "classifier", "one-vs-one", "one-vs-all ridge"),
    _claim("no batch normalisation over some", "batch-norm", "off / on", "on / on"),
    _claim(
        "no batch normalisation over some, closed form",
        "batch-norm",
        "off / on",
        "on / on",
        modes=IN_CLOSED_FORM,
    ),
    _claim("3 printed layers over 2", "layers", "3 layers", "2 layers"),
    _claim("3 printed layers over 4", "layers", "3 layers", "4 layers"),
    _claim(
        "3 printed layers over 4, closed form",
        "layers",
        "3 layers",
        "4 layers",
        modes=IN_CLOSED_FORM,
    ),
    _claim("three neurons over one", "band", "3", "1"),
    _claim("three neurons over five", "band", "3", "5"),
    _claim("three neurons over nine", "band", "3", "9"),
    _claim("three neurons over nine, closed form", "band", "3", "9", modes=IN_CLOSED_FORM),
    _claim("pretraining over none", "pretraining", "on / on", "off, same stream / on"),
    _claim(
        "fine-tuning over none, pretrained on people who leave the stream",
        "pretraining",
        "on / on",
        "on / off",
        modes=DESCENT,
    ),
    _axes(
        "fine-tuning over none, not pretrained",
        "p",
        ("p=45", "p=45"),
        ("p=75", "p=75"),
        modes=DESCENT,
    ),
    _axes("the model over Algorithm 1", "p", ("p=45", "Algorithm 1"), ("p=75", "Algorithm 1")),
    _axes("joint training over the model", "p", ("joint", "p=45"), ("joint", "p=75")),
    _axes(
        "joint training through the convolution over the model",
        "p",
        ("joint through the convolution", "p=45"),
        ("joint through the convolution", "p=75"),
    ),
)


@dataclass(frozen=True)
class Judgement:
    """Paired differences of a claim on a stream, in points of accuracy or decades of the bound.

    `n_collapsed` of `n_trained` runs have collapsed.
    """

    differences: np.ndarray
    bound: bool = False
    n_collapsed: int = 0
    n_trained: int = 0

    @property
    def mean(self):
        """Mean over the seeds."""
        return self.differences.mean()

    @property
    def standard_error(self):
        """Standard error of the mean."""
        return self.differences.std(ddof=1) / np.sqrt(len(self.differences))

    @property
    def verdict(self):
        """Verdict by two standard errors."""
        if abs(self.mean) < 2 * self.standard_error or self.mean == 0:
            return "open"
        return "yes" if self.mean > 0 else "no"

    def __str__(self):
        digits = 3 if self.bound else 1
        text = f"{self.mean:+.{digits}f} ± {self.standard_error:.{digits}f} {self.verdict}"
        if self.n_collapsed:
            text += f" ({self.n_collapsed} of {self.n_trained} runs collapse)"
        return text


def figure(runs, *, bound):
    """Return the figure of one seed over the splits: accuracy in percent, or minus log10 bound.

    The bound is the printed one, over all steps; nan if it is not recorded.
    """
    if bound:
        return -np.mean([np.log10(run.printed_bound) for run in runs])
    return 100 * np.mean([run.final for run in runs])


def judgement(claim, stream, tables, runners):
    """Return the judgement of a claim on a stream; None without two seeds of both rows."""
    name = f"{stream.prefix}-{claim.table}"
    if name not in tables:
        return None
    rows = {row.label: row for row in tables[name].rows}
    better, worse = claim.rows.get(stream.prefix, claim.rows.get(""))
    if better not in rows or worse not in rows:
        return None
    runner = runners[stream.data_set]
    figures = []
    n_collapsed = 0
    n_trained = 0
    for label, wanted in zip((better, worse), claim.modes, strict=True):
        row = rows[label]
        # A row without trained bands has its closed form alone.
        mode = wanted if wanted in row.modes else row.modes[0]
        runs = runner.runs_by_seed(row, mode, stream.splits)
        figures.append({seed: figure(one, bound=claim.bound) for seed, one in runs.items()})
        if mode == TRAINED and CLOSED in row.modes and not claim.bound:
            closed = runner.runs_by_seed(row, CLOSED, stream.splits)
            collapsed = collapsed_runs(runs, closed)
            n_collapsed = max(n_collapsed, sum(collapsed))
            n_trained = len(collapsed)
    seeds = sorted(figures[0].keys() & figures[1].keys())
    differences = np.array([figures[0][seed] - figures[1][seed] for seed in seeds])
    differences = differences[~np.isnan(differences)]
    if len(differences) < 2:
        return None
    return Judgement(differences, claim.bound, n_collapsed, n_trained)


def collapsed_runs(trained, closed):
    """Return whether each trained run has collapsed, of the seeds that also have a closed form."""
    return [
        run.final < COLLAPSED * reference.final
        for seed in trained.keys() & closed.keys()
        for run, reference in zip(trained[seed], closed[seed], strict=True)
    ]


def printed_difference(claim, prefix, tables):
    """Return the difference of the printed figures as text."""
    name = f"{prefix}-{claim.table}"
    # The printed networks are trained.
    if name not in tables or claim.modes == IN_CLOSED_FORM:
        return "-"
    rows = {row.label: row for row in tables[name].rows}
    better_label, worse_label = claim.rows.get(prefix, claim.rows.get(""))
    better = rows.get(PRINTED_LABELS.get(better_label, better_label))
    worse = rows.get(PRINTED_LABELS.get(worse_label, worse_label))
    if better is None or worse is None or better is worse:
        return "-"
    difference = better.final - worse.final
    if claim.bound:
        difference = np.log10(worse.bound) - np.log10(better.bound)
    return "-" if np.isnan(difference) else f"{difference:+.1f}"


def lines(results):
    """Return the rows of the table, as comma-separated values."""
    tables = paper_tables()
    plan = Plan(folder=Path(), seeds=SEEDS)
    runners = {name: Runner(plan, results / f"{name}.csv") for name in ("sbu", "fpha")}
    head = ["claim", "printed SBU", "printed FPHA", *(stream.title for stream in STREAMS)]
    rows = [head]
    for claim in CLAIMS:
        printed = [printed_difference(claim, prefix, tables) for prefix in ("sbu", "fpha")]
        judgements = [judgement(claim, stream, tables, runners) for stream in STREAMS]
        cells = ["-" if one is None else str(one) for one in judgements]
        rows.append([claim.text, *printed, *cells])
    return [csv_line(row) for row in rows]


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the runs")
    print("\n".join(lines(parser.parse_args(arguments).results)))


if __name__ == "__main__":
    main()
