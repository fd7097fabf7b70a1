"""Reports of the paper's tables: a header with the settings, the sections, the single runs."""

import csv

from _paper_sections import SECTIONS
from _paper_settings import BACKBONES, DEEP_P, PRETRAINING
from _report import environment_lines
from heads import METHODS

import ffnb_sklearn


def report(table, runs, missing, plan, seconds):
    """Return the report of a table as Markdown.

    Parameters
    ----------
    table : Table
        What was made.
    runs : dict of str to list of Run
        By row.
    missing : dict of str to str
        Why rows without runs have none.
    plan : Plan
        What the rows share.
    seconds : float
        How long it took.

    Returns
    -------
    text : str
        Header, sections, settings of the rows.
    """
    rows = [row for row in table.rows if row.label in runs]
    printed = f", `{table.source}` of the paper" if table.source else ""
    lines = [f"# {table.title}{printed}", ""]
    lines += environment_lines(ffnb_sklearn.__version__, plan.device)
    lines += [f"- {line}" for line in _run_lines(rows, plan, seconds)]
    lines += [f"- {note}" for note in table.notes]
    lines += [f"- missing: {label}: {reason}" for label, reason in missing.items()]
    dropped = [row.label for row in table.rows if row.label not in runs]
    lines += [f"- rows left out by --quick: {', '.join(dropped)}"] if dropped else []
    for section in table.sections:
        lines += ["", *SECTIONS[section](table, rows, runs)]
    lines += ["", f"![Figure of this table](paper_{table.name}.png)"]
    lines += ["", "Rows:", "", *(f"- {_changes(row)}" for row in rows)]
    return "\n".join(lines) + "\n"


def write_csv(path, runs):
    """Write every task of every single run.

    Parameters
    ----------
    path : Path
        Where to.
    runs : dict of str to list of Run
        By row.
    """
    records = [record for row in runs.values() for run in row for record in run.records()]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]) if records else ["row"])
        writer.writeheader()
        writer.writerows(records)


def _run_lines(rows, plan, seconds):
    """What is to be said of the runs as a whole."""
    if plan.quick:
        yield "**quick run**: few rows, epochs and samples, to see that it works; not a result"
    seeds = ", ".join(map(str, plan.seeds))
    yield f"seeds: {seeds}; ± is the standard deviation over seeds; {seconds:.0f} s in all"
    if plan.max_epochs is not None:
        yield f"at most {plan.max_epochs} epochs of fine-tuning per task, whatever the settings say"
    for data_set in {row.data_set.title: row.data_set for row in rows}.values():
        yield f"settings on {data_set.title}: {_listed(data_set.parameters)}"
        yield f"features of {data_set.title}: {_features(data_set, plan)}"
    if any(row.pretrained.protocol != "none" for row in rows):
        n_base = rows[0].data_set.base_classes
        yield f"pretraining: {_listed(PRETRAINING)}; the base classes are the first {n_base}"
    yield f"an integer p is that of the first layer; layers above it have p={DEEP_P}"
    yield "accuracies: percent of the test samples of all classes seen so far"


def _features(data_set, plan):
    """What describes a sample."""
    if data_set.name == "cifar":
        return "rows of the data file"
    backbone = BACKBONES.get(plan.features)
    if backbone is None:
        return plan.features
    return f"SkeletonGCN, {_listed(backbone[data_set.name])}; {data_set.pretraining}"


def _changes(row):
    """What a row changes, in words."""
    if row.model in METHODS:
        return f"{row.label}: {METHODS[row.model].note}"
    changes = [] if row.model == "paper" else [f"model {row.model!r}"]
    changes += [_listed(row.parameters)] if row.parameters else []
    changes += [] if row.pretraining is None else [str(row.pretraining)]
    return f"{row.label}: {'; '.join(changes) or 'the settings above'}"


def _listed(parameters):
    # Long estimators break the lines of their names.
    return ", ".join(f"{name}={' '.join(repr(one).split())}" for name, one in parameters.items())
