"""Measure what trained bands add and cost beside shared bands of several sizes.

Every model learns the same tasks in two class orders. The bands are compared with no bands, and all
models with each other by accuracy and by megabytes of state. Models with a small shared band are
also solved with other energies of the bands, one of them chosen by left-out cross-entropy.

The rows that are scored are hold-outs of the training rows, or with ``--test`` the test rows.

    python benchmarks/compact.py --threads 1 --out compact.md compact.csv
    python benchmarks/compact.py --quick
"""

import copy
import sys
from dataclasses import replace
from itertools import product
from unittest import mock

import numpy as np
import torch
from _data import default_folder
from _report import command_line, page, run_and_publish, table
from _sets import study_sets
from _speed_clock import seconds_of, state_megabytes
from defaults import hold_outs

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier import penalties, selection
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.classifier.left_out import LeftOutSamples
from ffnb_sklearn.core.features.feature_map import classifier_blocks, classifier_columns
from ffnb_sklearn.streams import class_incremental_tasks

SETS = ["sbu", "fpha", "cifar-40", "digits", "equal", "unequal", "low-rank", "clusters"]
SHARED = [0, 100, 500, 2000]
BANDS = [0, 1, 3]

# Energies of the bands that are tried up to this size of the shared band; the first is the
# package's own.
ENERGIES = [0.001, 0.01, 0.1, 1.0]
MOST_SHARED = 100


def learn(split, order, study, seed, **parameters):
    """Learn the tasks of a split in a class order; return the estimator and the seconds of all."""
    estimator = FFNBClassifier(**parameters, random_state=seed, device="cpu")
    tasks = class_incremental_tasks(
        split.y,
        classes_per_task=study.classes_per_task,
        first_task_classes=study.first_task_classes,
        class_order=order,
    )
    rows = [(split.X[task], split.y[task]) for task in tasks]
    return estimator, sum(seconds_of(estimator.partial_fit, *task) for task in rows)


def energy_choices(estimator, X, y):
    """Accuracy with each energy of the bands, and with the one of least left-out cross-entropy.

    The cross-entropy is the one by which `ffnb_sklearn.core.classifier.selection` judges dominant
    inputs.
    """
    model = estimator._state.model
    columns = classifier_columns(model.features, model.settings.skip_connection)
    blocks = classifier_blocks(model.features, model.settings.skip_connection)
    gaussians = ClassGaussians.from_moments(model.moments, columns, device=torch.device("cpu"))
    accuracies, entropies = [], []
    for energy in ENERGIES:
        again = copy.copy(estimator)
        # A model of its own has not been solved.
        again._state = replace(estimator._state, model=replace(model))
        with mock.patch.object(penalties, "_BAND_ENERGY", energy):
            accuracies.append(100.0 * again.score(X, y))
            inputs = again._state.model.solution(torch.device("cpu")).choice.input_energy
            left_out = LeftOutSamples(gaussians)
            metric = selection._metric(left_out, gaussians, blocks, inputs)
            entropies.append(left_out.cross_entropy(metric.base, metric.planes)[0])
    return {
        **{f"energy {energy:g}": found for energy, found in zip(ENERGIES, accuracies, strict=True)},
        "energy chosen": accuracies[int(np.argmin(entropies))],
    }


def measure(split, study, seed, n_shared, n_neurons):
    """Accuracy, costs and dependence on the class order of one model on one split."""
    parameters = {"shared_band_size": n_shared, "band_size": n_neurons}
    order = study.class_order(split.y, seed)
    estimator, fit_s = learn(split, order, study, seed, **parameters)
    state_mb = state_megabytes(estimator)
    first_s = seconds_of(estimator.predict, split.X_test[:1])
    predicted = estimator.predict(split.X_test)
    other, _ = learn(split, order[::-1], study, seed, **parameters)
    record = {
        "accuracy": 100.0 * np.mean(predicted == split.y_test),
        "moved": 100.0 * np.mean(predicted != other.predict(split.X_test)),
        "fit_s": fit_s,
        "first_s": first_s,
        "state_mb": state_mb,
    }
    names = [*(f"energy {energy:g}" for energy in ENERGIES), "energy chosen"]
    record |= dict.fromkeys(names, record["accuracy"] if n_neurons == 0 else float("nan"))
    if n_neurons and n_shared <= MOST_SHARED:
        record |= energy_choices(estimator, split.X_test, split.y_test)
    return record


def run(options):
    """Records of all sets, splits and models."""
    known, records = study_sets(options.data), []
    for name in options.sets:
        study = known[name]
        whole = study.splits()[: options.repeats] if options.test else None
        splits = whole or hold_outs(study, options.repeats)
        for seed, split in enumerate(splits):
            for n_shared, n_neurons in product(options.shared, options.bands):
                key = {"set": name, "split": split.name, "shared": n_shared, "bands": n_neurons}
                records.append({**key, **measure(split, study, seed, n_shared, n_neurons)})
                print(*key.values(), f"{records[-1]['accuracy']:.2f}", sep=", ", file=sys.stderr)
    return records


def means(records, key):
    """Means over splits: ``{(shared, bands): {set: value}}``."""
    found = {}
    for one in records:
        values = found.setdefault((one["shared"], one["bands"]), {})
        values.setdefault(one["set"], []).append(one[key])
    return {
        model: {name: float(np.mean(values)) for name, values in sets.items()}
        for model, sets in found.items()
    }


def gain_lines(records, options):
    """Table of what bands add and cost, a row per shared band and set."""
    keys = ["accuracy", "fit_s", "first_s", "state_mb", "moved"]
    tables = {key: means(records, key) for key in keys}

    def cells(n_shared, name):
        shown = []
        for key, digits in zip(keys, [".1f", ".2f", ".2f", ".3g", ".1f"], strict=True):
            models = [tables[key][n_shared, bands] for bands in options.bands]
            values = [one[name] if name else np.mean(list(one.values())) for one in models]
            shown.append(" / ".join(f"{value:{digits}}" for value in values))
        return shown

    columns = ["shared band", "set", "accuracy %", "learning, s", "first prediction, s"]
    columns += ["state, MB", "predictions moved by the class order, %"]
    rows = [
        [n_shared, name or "**mean**", *cells(n_shared, name)]
        for n_shared in options.shared
        for name in (*options.sets, None)
    ]
    return table(columns, rows)


def frontier(models):
    """Return the models that no other beats by both mean accuracy and mean state, smallest first.

    `models` holds megabytes and accuracy by model.
    """
    best, found = -np.inf, []
    for model, (_, accuracy) in sorted(models.items(), key=lambda one: (one[1][0], -one[1][1])):
        if accuracy > best:
            best = accuracy
            found.append(model)
    return found


def size_lines(records, options):
    """Table of accuracy against state, the smallest model first."""
    accuracy, state = means(records, "accuracy"), means(records, "state_mb")
    overall = {
        model: (np.mean(list(state[model].values())), np.mean(list(accuracy[model].values())))
        for model in accuracy
    }
    best = frontier(overall)
    columns = ["shared_band_size", "band_size", "mean state, MB", "mean accuracy %", *options.sets]
    rows = []
    for model in sorted(overall, key=overall.get):
        size, mean = overall[model]
        shown = f"**{mean:.1f}**" if model in best else f"{mean:.1f}"
        sets = [f"{accuracy[model][name]:.1f} ({state[model][name]:.2g})" for name in options.sets]
        rows.append([*model, f"{size:.2g}", shown, *sets])
    return table(columns, rows)


def energy_lines(records, options):
    """Table of what each energy of the bands adds to no bands, a row per model."""
    names = [*(f"energy {energy:g}" for energy in ENERGIES), "energy chosen"]
    tables = {name: means(records, name) for name in names}
    columns = ["shared band", "neurons per class", *(f"{energy:g}" for energy in ENERGIES)]
    rows = []
    for n_shared, bands in product(options.shared, options.bands):
        if bands == 0 or n_shared > MOST_SHARED or 0 not in options.bands:
            continue
        cells = []
        for name in names:
            with_bands, without = tables[name][n_shared, bands], tables[name][n_shared, 0]
            gaps = [with_bands[one] - without[one] for one in options.sets]
            cells.append(f"{np.mean(gaps):+.2f} ({min(gaps):+.1f} to {max(gaps):+.1f})")
        rows.append([n_shared, bands, *cells])
    return table([*columns, "chosen"], rows)


def report(records, options, environment):
    """The three tables as Markdown."""
    rows = "test rows" if options.test else "hold-outs of a quarter of the training rows"
    order = ", ".join(map(str, options.bands))
    notes = [
        f"scored: {rows}; means over at most {options.repeats} splits per set; random_state and "
        "the class order follow from the number of the split, other parameters are defaults",
        "seconds of one process: all tasks, then the first prediction; state: the pickled model",
    ]
    gain_note = (
        f"Values are for band_size = {order}. The last column compares the class order with its "
        "reverse."
    )
    size_note = (
        "Accuracy in percent, state in MB in brackets. Bold: no smaller model is as accurate."
    )
    energy_note = (
        "Gain over band_size=0 in points, mean over the sets (least to most). The energy is "
        f"relative to all other features and {ENERGIES[0]:g} in the package; chosen: by the "
        "left-out cross-entropy of each model."
    )
    return page(
        f"Compact models: trained bands beside small shared bands, {rows}",
        environment,
        notes,
        ["## What trained bands add and cost", "", gain_note],
        gain_lines(records, options),
        ["## Accuracy against state", "", size_note],
        size_lines(records, options),
        ["## Energy of the bands", "", energy_note],
        energy_lines(records, options),
    )


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, quick="wine, two small models, one split", data=True)
    add = parser.add_argument
    add("--sets", nargs="+", choices=list(study_sets(default_folder())), default=SETS)
    add("--shared", nargs="+", type=int, default=SHARED, help="sizes of the shared band")
    add("--bands", nargs="+", type=int, default=BANDS, help="trained neurons per class")
    add("--repeats", type=int, default=2, help="splits per set")
    add("--test", action="store_true", help="score the test rows instead of hold-outs")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sets, options.repeats = ["wine"], 1
        options.shared, options.bands = [0, 20], [0, 1]
    return options


def main(arguments=None):
    """Run the models, and print their report."""
    run_and_publish(run, report, parse(arguments))


if __name__ == "__main__":
    main()
