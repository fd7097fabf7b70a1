r"""The printed bound on forgetting, a sum over steps of Algorithm 2, beside that of the package.

The printed bound is :math:`\sum_{\tau=1}^{\eta} (B^\tau + B^{\tau-1})`, where :math:`B^\tau` is
`FFNBClassifier.forgetting_bound` after :math:`\tau` steps. A step is an epoch here. The script
learns the newest task anew with each number of epochs. The seed is the same, so that the models are
the states of a single descent. Rows are the printed dimensions p.

    python benchmarks/paper_bound.py --threads 1 --out paper_bound.md paper_bound.csv
    python benchmarks/paper_bound.py --quick
"""

import argparse
from copy import deepcopy
from pathlib import Path

import numpy as np
from _data import default_folder
from _paper_features import load_splits
from _paper_printed import BOUNDS
from _paper_settings import BACKBONES, FPHA, SBU, Pretraining
from _report import output_path, run_limited, write

from ffnb_sklearn import FFNBClassifier, class_incremental_tasks

FEATURES = "gcn-narrow"
SETS = {one.name: (one, BOUNDS[table]) for one, table in ((SBU, "tableiiii"), (FPHA, "tableiiiii"))}


def descent(model, X, y, epochs):
    """Return copies of a model that learned a task with 0, 1, ... epochs, up to its last epoch."""
    states = []
    for n in range(epochs + 1):
        states.append(deepcopy(model).set_params(max_epochs=n).partial_fit(X, y))
        if states[-1].n_iter_ < n:
            return states[:-1]
    return states


def bounds(states, X):
    """Return the bounds and measured changes of previous samples along a descent.

    Parameters
    ----------
    states : list of FFNBClassifier
        Models after each epoch of the newest task, the first one in closed form.
    X : ndarray of shape (n_samples, n_features)
        Samples of previous tasks.

    Returns
    -------
    record : dict
        `steps`; `printed`, the sum over steps; `moved`, the squared change of the features by these
        steps, which the printed sum is to bound; `bound` and `drift` of the package.
    """
    found = [state.forgetting_bound(X) for state in states]
    each = np.array([one.bound for one in found])
    moved = states[-1].transform(X) - states[0].transform(X)
    return {
        "steps": len(states) - 1,
        "printed": float((each[1:] + each[:-1]).sum()),
        "moved": float(np.square(moved).sum()),
        "bound": found[-1].bound,
        "drift": found[-1].drift,
    }


def measure(data_set, split, p, epsilon, seed, epochs):
    """Learn all tasks of a split, and return the record of the last one."""
    *earlier, newest = class_incremental_tasks(split.y, classes_per_task=data_set.classes_per_task)
    model = FFNBClassifier.as_published(
        p=p, epsilon=epsilon, max_epochs=epochs, random_state=seed, device="cpu"
    )
    for task in earlier:
        model.partial_fit(split.X[task], split.y[task])
    states = descent(model, split.X[newest], split.y[newest], epochs)
    return bounds(states, np.delete(split.X, newest, axis=0))


def run(options):
    """Measure all rows, and return the single runs."""
    records = []
    for name in options.sets:
        data_set, printed = SETS[name]
        for seed in options.seeds:
            (split,) = load_splits(
                data_set,
                options.data,
                features=FEATURES,
                pretraining=Pretraining(),
                seed=seed,
                only_printed=True,
            )
            for row, (paper, _) in list(printed.items())[: 1 if options.quick else None]:
                p = int(row.removeprefix("p="))
                for epsilon in options.epsilon:
                    key = {"set": data_set.title, "p": p, "epsilon": epsilon, "seed": seed}
                    found = measure(data_set, split, p, epsilon, seed, options.epochs)
                    records.append({**key, "paper": paper, **found})
    return records


def report(options, records, environment):
    """Return the table as Markdown."""
    widths = "; ".join(f"{SETS[one][0].title}: {BACKBONES[FEATURES][one]}" for one in options.sets)
    columns = ["paper, sum", "ours, sum", "moved by the steps", "one step", "drift", "steps"]
    lines = [
        "# The printed bound on forgetting, and that of the package",
        "",
        *environment,
        f"- `as_published`, at most {options.epochs} epochs per task; last task, all training "
        f"samples of previous tasks; seeds {', '.join(map(str, options.seeds))}, means",
        f"- untrained SkeletonGCN, {widths}",
        "",
        "| set, epsilon, p | " + " | ".join(columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    keys = ("set", "epsilon", "p")
    for row in sorted({tuple(one[key] for key in keys) for one in records}):
        chosen = [one for one in records if tuple(one[key] for key in keys) == row]
        names = ("paper", "printed", "moved", "bound", "drift", "steps")
        cells = [f"{np.mean([one[name] for one in chosen]):.3g}" for name in names]
        lines.append(f"| {row[0]}, {row[1]:g}, p={row[2]} | " + " | ".join(cells) + " |")
    exceeded = sum(one["moved"] > one["printed"] for one in records)
    return "\n".join([
        *lines,
        "",
        "Sum: the printed bound on the change that the steps of fine-tuning make (moved by the "
        "steps). One step: `forgetting_bound`, from silence to the end of training, on the drift. "
        "All are squared Frobenius norms in the units of our features; the paper does not say over "
        "which samples it sums.",
        "",
        f"Steps moved the features by more than the printed sum in {exceeded} of {len(records)} "
        "runs; the drift exceeded the bound of one step in "
        f"{sum(one['drift'] > one['bound'] for one in records)}.",
        "",
    ])  # fmt: skip


def main(arguments=None):
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--sets", nargs="+", choices=[*SETS], default=[*SETS])
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add("--epsilon", nargs="+", type=float, default=[0.01, 0.1])
    add("--epochs", type=int, default=10, help="of fine-tuning; the paper has 250")
    add("--data", type=Path, default=default_folder(), help="data files")
    add("--threads", type=int, help="threads of BLAS and torch; default: theirs")
    add("--quick", action="store_true", help="first p, one seed, two epochs; not a result")
    add("--out", nargs="+", type=output_path, default=[], help=".md: the report, .csv: single runs")
    options = parser.parse_args(arguments)
    if options.quick:
        options.seeds, options.epochs = options.seeds[:1], 2
    records, environment = run_limited(run, options)
    text = report(options, records, environment)
    print(text, end="")
    for path in options.out:
        write(path, text, records)


if __name__ == "__main__":
    main()
