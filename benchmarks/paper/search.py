"""Score settings of the published model on held-out training rows, and record every score.

Scores are accuracies after the last task of a stream over the other training rows, in closed form.
The ridge of the pairs takes no part in learning, so one model is scored with all its values.
"""

import csv
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from joblib import Parallel, delayed

from benchmarks.lib.report import read_records
from benchmarks.paper.data_sets import held_out
from benchmarks.paper.runs import IDLE, build_model, rows_of
from benchmarks.paper.tables import CLOSED, Row
from ffnb_sklearn import class_incremental_tasks

# Decimal places of a recorded accuracy.
DIGITS = 6

# A score is told apart by these columns of its record.
KEY = ("stream", "model", "split", "seed", "bands__gamma", "p", "epsilon")


@dataclass(frozen=True)
class Grid:
    """Settings that are compared: parameters of the bands by name, and ridges of the pairs."""

    epsilons: tuple[float, ...]
    bands: Mapping[str, tuple] = field(default_factory=dict)

    @property
    def settings_of_bands(self):
        """All combinations of the parameters of the bands."""
        return [
            dict(zip(self.bands, values, strict=True)) for values in product(*self.bands.values())
        ]

    @property
    def settings(self):
        """All combinations of parameters."""
        return [
            {**of_bands, "epsilon": epsilon}
            for of_bands in self.settings_of_bands
            for epsilon in self.epsilons
        ]


class Search:
    """Scores of settings, written to a file at once; an interrupted command goes on from there.

    Without a file the scores are kept in memory.
    """

    def __init__(self, plan, path=None):
        self.plan, self._path = plan, path
        records = read_records([path] if path is not None and path.is_file() else [])
        self._scores = {_key_of(one): float(one["accuracy"]) for one in records}

    def run(self, row, grid):
        """Score the settings of a row that are not there yet, on the split of its data set."""
        missing = []
        for of_bands, seed in product(grid.settings_of_bands, self.plan.seeds):
            keys = [self._key(row, of_bands, epsilon, seed) for epsilon in grid.epsilons]
            if not self._scores.keys() >= set(keys):
                missing.append((of_bands, seed, keys))
        calls = (
            delayed(scores)(self.plan, row, of_bands, grid.epsilons, seed)
            for of_bands, seed, _ in missing
        )
        found = Parallel(self.plan.jobs, return_as="generator")(calls)
        for number, (cell, accuracies) in enumerate(zip(missing, found, strict=True), start=1):
            *_, keys = cell
            # As they stand in the file, so that a later command chooses the same settings.
            accuracies = [round(accuracy, DIGITS) for accuracy in accuracies]
            self._scores |= dict(zip(keys, accuracies, strict=True))
            self._write(keys, accuracies)
            print(f"{number} / {len(missing)}", *keys[0][:-1], accuracies, file=sys.stderr)

    def means(self, row, grid):
        """Return the mean score of each setting over the seeds, nan where a seed is missing.

        Seeds without any score of the row are left out.
        """
        by_seed = []
        for seed in self.plan.seeds:
            keys = [self._key(row, one, one["epsilon"], seed) for one in grid.settings]
            of_seed = [self._scores.get(key, np.nan) for key in keys]
            if not np.isnan(of_seed).all():
                by_seed.append(of_seed)
        if not by_seed:
            return np.full(len(grid.settings), np.nan)
        return np.mean(by_seed, axis=0)

    def best(self, row, grid):
        """Return the setting of the highest mean score and this score; None without scores.

        Of equal settings, the first has the smallest gamma, p and epsilon.
        """
        means = self.means(row, grid)
        if np.isnan(means).any():
            return None
        # Rounding does not decide between equal numbers of correct rows.
        means = means.round(DIGITS - 1)
        return grid.settings[means.argmax()], means.max()

    def _key(self, row, of_bands, epsilon, seed):
        """Return the values of `KEY`."""
        stream = row.data_set.title + (", few samples" if self.plan.quick else "")
        numbers = {"bands__gamma": None, "p": None, **of_bands, "epsilon": epsilon}
        texts = [("" if one is None else f"{one:g}") for one in numbers.values()]
        return stream, row.label, row.data_set.split, str(seed), *texts

    def _write(self, keys, accuracies):
        """Append scores to the file, if there is one."""
        if self._path is None:
            return
        is_new = not self._path.is_file()
        with open(self._path, "a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if is_new:
                writer.writerow([*KEY, "accuracy"])
            for key, accuracy in zip(keys, accuracies, strict=True):
                writer.writerow([*key, f"{accuracy:.{DIGITS}f}"])


def scores(plan, row, of_bands, epsilons, seed):
    """Return the accuracy on held-out training rows with each ridge of the pairs."""
    split = held_out(rows_of(plan, row, row.data_set.split, seed), seed)
    chosen = Row(row.label, row.data_set, parameters={**row.parameters, **of_bands})
    model = build_model(chosen, CLOSED, seed=seed, device=plan.device, quick=plan.quick)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", IDLE)
        for task in class_incremental_tasks(split.y, **row.data_set.stream):
            model.partial_fit(split.X[task], split.y[task])
    accuracies = []
    for epsilon in epsilons:
        model.set_params(epsilon=epsilon)
        accuracies.append(model.score(split.X_test, split.y_test))
    return accuracies


def _key_of(record):
    """Return the values of `KEY` of a record."""
    return tuple(record[name] for name in KEY)
