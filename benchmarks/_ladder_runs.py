"""Runs of the ladder: a rung on the splits of a set; processes import them from here."""

import sys
import time
import warnings
from functools import lru_cache

import numpy as np
import torch
from _ladder_rungs import build, settings_of
from _paper_features import load_splits, thin
from _paper_runs import QUICK_SAMPLES
from _paper_settings import CIFAR, FPHA, SBU, Pretraining
from threadpoolctl import threadpool_limits

from ffnb_sklearn import EmptyNullSpaceWarning, class_incremental_tasks

DATA_SETS = {one.name: one for one in (FPHA, SBU, CIFAR["S10"])}


def measure(options, name, rung, seed, epochs):
    """Records of a rung on all splits of a set with one seed."""
    with threadpool_limits(limits=options.threads):
        if options.threads:
            torch.set_num_threads(options.threads)
        parameters, features = settings_of(rung, name)
        splits = _splits(name, options.data, features, seed, options.quick)
        records = [
            {
                "set": name,
                "split": split.name,
                "rung": rung.label,
                "seed": seed,
                "max_epochs": epochs,
                **_streamed(build(parameters, seed, epochs), split, DATA_SETS[name]),
            }
            for split in splits
        ]
    mean = np.mean([one["final"] for one in records])
    print(f"{name}, {rung.label}, {seed}, {epochs}: {mean:.4f}", file=sys.stderr, flush=True)
    return records


@lru_cache(maxsize=16)
def _splits(name, folder, features, seed, quick):
    """Rows of a set, kept for the next rungs."""
    splits = load_splits(
        DATA_SETS[name],
        folder,
        features=features,
        pretraining=Pretraining(),
        seed=seed,
        only_printed=quick,
    )
    return [thin(split, *QUICK_SAMPLES) for split in splits] if quick else splits


def _streamed(estimator, split, data_set):
    """Stream the classes of a split, and score the last model.

    Scores of earlier models would need discriminants of their own, which take most of the time.
    """
    start = time.perf_counter()
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
        final = estimator.score(split.X_test, split.y_test)
    return {
        "final": final,
        "n_test": len(split.y_test),
        "seconds": time.perf_counter() - start,
    }
