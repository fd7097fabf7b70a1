"""Measure the probabilities of one-vs-all regression against simpler ways to compute them.

The default turns values into probabilities by the inverse hyperbolic sine, with the power of least
cross-entropy on left-out samples whose deviations are drawn from a Laplace distribution. The others
are a softmax of the values, other scales of the sine, and a normal distribution. All see the same
values, on hold-outs of the training rows of real sets and on generated classes.

    python benchmarks/one_vs_all.py --data FOLDER --tables public.npz --rows 10 30 --out ova.md
    python benchmarks/one_vs_all.py --quick
"""

from contextlib import ExitStack
from unittest import mock

import numpy as np
import torch
from _report import page, run_and_publish
from calibration import expected_calibration_error
from linear_scores import parse
from sklearn.metrics import log_loss
from unforeseen import records_of, table_of_changes

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier import left_out, one_vs_all


def _normal_draws(root):
    """As many draws from a normal distribution."""
    generator = torch.Generator().manual_seed(0)
    shape = (one_vs_all._N_DRAWS, len(root))
    draws = torch.randn(shape, generator=generator, dtype=root.dtype) @ root
    return torch.cat([draws, -draws])


# Scale of the inverse hyperbolic sine; 100 is nearly a softmax.
VARIANTS = {
    "default": {},
    "softmax": {"_LINEAR": 100.0},
    "scale 8": {"_LINEAR": 8.0},
    "scale 2": {"_LINEAR": 2.0},
    "normal draws": {"_draws": _normal_draws},
}


def measure(split, seed):
    """Log-loss and calibration error of all variants."""
    clf = FFNBClassifier(band_size=0, random_state=seed, classifier="ova").fit(split.X, split.y)
    numbers = np.searchsorted(clf.classes_, split.y_test)
    found = {}
    for name, changes in VARIANTS.items():
        # Else the solution of another variant would answer.
        clf._state.model._solved.clear()
        with ExitStack() as stack:
            # A scale of 100 makes all logits small.
            stack.enter_context(mock.patch.object(left_out, "_LEAST_MARGIN", 1e-6))
            for key, value in changes.items():
                stack.enter_context(mock.patch.object(one_vs_all, key, value))
            logs = clf.predict_log_proba(split.X_test)
        found[f"log_loss {name}"] = log_loss(numbers, np.exp(logs), labels=range(len(clf.classes_)))
        found[f"ece {name}"] = expected_calibration_error(logs, numbers)
    return found


def run(options):
    """Records of all sets and draws."""
    return records_of(measure, options)


def report(records, options, environment):
    """The means over the draws as Markdown."""
    notes = [
        f"means over {options.draws} draws or hold-outs; seeds: the number of the draw; "
        'classifier="ova", band_size=0, other parameters are defaults',
        "a name ends in the samples per class, if they are not all",
        "softmax: of the values at a temperature; scale: in place of 4; normal draws: in place of "
        "the Laplace distribution",
    ]
    changes = table_of_changes(records, list(VARIANTS))
    return page("Probabilities of one-vs-all regression", environment, notes, changes)


def main(arguments=None):
    """Run the comparison and print its table."""
    run_and_publish(run, report, parse(arguments, __doc__))


if __name__ == "__main__":
    main()
