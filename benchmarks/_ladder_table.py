"""The table of the ladder: accuracies of each rung, its steps, and the rungs that do not pay."""

from collections import defaultdict

import numpy as np
from _ladder_rungs import RUNGS
from _paper_printed import ACCURACIES

CLOSED, TUNED = "closed form", "fine-tuned"

# Title, set and split (empty: all of them).
COLUMNS = (
    ("FPHA", "fpha", ""),
    ("SBU, fold 4", "sbu", "fold 4"),
    ("SBU, five folds", "sbu", ""),
    ("CIFAR100-B50-S10", "cifar", ""),
)
# Printed accuracies after the last task, of backbones that are pretrained, or not.
PRINTED = {
    f"the paper, backbone {trained}": {
        (title, kind): ACCURACIES[table][f"{switch} / {tuned}"][-1]
        for title, table in (("FPHA", "table62"), ("SBU, fold 4", "table6"))
        for kind, tuned in ((CLOSED, "off"), (TUNED, "on"))
    }
    for trained, switch in (("not pretrained", "off"), ("pretrained", "on"))
}
# Columns whose mean is the step of a rung: each set once.
STEPS = ("FPHA", "SBU, five folds", "CIFAR100-B50-S10")


def table_lines(records):
    """Markdown table with a row per rung, and what it shows.

    Parameters
    ----------
    records : list of dict
        Of single runs.

    Returns
    -------
    lines : list of str
        The table; below it the rungs that do not pay, and the spread over folds.
    """
    values = _by_cell(records)
    labels = {rung.label: rung for rung in RUNGS if any(key[0] == rung.label for key in values)}
    columns = [
        (title, kind)
        for title, _, _ in COLUMNS
        for kind in (CLOSED, TUNED)
        if any(key[1:] == (title, kind) for key in values)
    ]
    kinds = [kind for kind in (CLOSED, TUNED) if any(kind == one for _, one in columns)]
    steps = {kind: _steps(values, labels, kind) for kind in kinds}
    head = [f"{title}, {kind}" for title, kind in columns]
    head += [f"step, {kind}" for kind in steps]
    lines = [f"| rung | {' | '.join(head)} |", "|---" * (len(head) + 1) + "|"]
    for label, printed in PRINTED.items():
        cells = [f"{printed[column]:.2f}" if column in printed else "-" for column in columns]
        lines.append(f"| {label} | {' | '.join([*cells, *['-'] * len(steps)])} |")
    for label, rung in labels.items():
        cells = [_spread(values.get((label, *column))) for column in columns]
        cells += [f"{one[label]:+.2f}" if label in one else "-" for one in steps.values()]
        lines.append(f"| {label if rung.kept else f'[{label}]'} | {' | '.join(cells)} |")
    return [*lines, "", *_notes(records, labels, steps)]


def _by_cell(records):
    """Accuracies in percent of each seed, the mean over its folds, by rung, column and kind."""
    cells = defaultdict(lambda: defaultdict(list))
    for one in records:
        kind = TUNED if one["max_epochs"] else CLOSED
        for title, name, split in COLUMNS:
            if one["set"] == name and split in ("", one["split"]):
                cells[one["rung"], title, kind][one["seed"]].append(100.0 * one["final"])
    return {
        key: np.array([np.mean(folds) for folds in seeds.values()]) for key, seeds in cells.items()
    }


def _steps(values, labels, kind):
    """Mean over the sets of the change against the kept rung below, or above for the first.

    A set that has no row of the rung below is compared with the last one that it has.
    """
    order = list(labels)
    first = next(label for label in order if labels[label].kept)
    steps = {}
    for k, label in enumerate(order):
        changes = []
        for title in STEPS:
            measured = [one for one in order if (one, title, kind) in values]
            below = [one for one in order[:k] if labels[one].kept and one in measured]
            # Below the first kept rung there is the printed slip, which is compared with it.
            base = below[-1] if below else first
            if label in measured and base in measured:
                means = [values[one, title, kind].mean() for one in (base, label)]
                changes.append(means[1] - means[0])
        if changes and label != first:
            steps[label] = np.mean(changes)
    return steps


def _notes(records, labels, steps):
    """Sentences below the table."""
    yield (
        "Accuracy after the last task in percent; ± is the standard deviation over seeds, each the "
        "mean over its folds. A step is the change against the last kept rung before, the mean of "
        "FPHA, five folds of SBU and, where measured, CIFAR-100. Rungs in brackets are left again."
    )
    for kind, found in steps.items():
        losing = [f"{one} ({step:+.2f})" for one, step in found.items() if step < 0]
        yield ""
        yield f"Rungs that do not pay, {kind}: {', '.join(losing) or 'none'}."
    spreads = []
    for label in labels:
        finals = [
            100.0 * one["final"]
            for one in records
            if one["rung"] == label and one["set"] == "sbu" and not one["max_epochs"]
        ]
        spreads += [f"{label} {np.std(finals):.1f}"] if finals else []
    if spreads:
        yield ""
        found = ", ".join(spreads)
        yield f"Standard deviation over all folds and seeds of SBU, closed form: {found}."


def _spread(values):
    if values is None:
        return "-"
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{values.mean():.2f} ± {values.std():.2f}"
