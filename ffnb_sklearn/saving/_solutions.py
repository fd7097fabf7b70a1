"""The solved classifier of a model: its stored parts, and the checks when they are read.

The moments determine the classifier, so a file may lack it. If the classifier is stored, the first
prediction after loading need not compute it.
"""

import math

import numpy as np

from ..core.classifier.densities import GaussianDistances
from ..core.classifier.fisher import PairwiseFisher
from ..core.classifier.one_vs_all import OneVsAllRidge
from ..core.classifier.choice import Choice
from ..core.classifier.solve import Solution
from ..core.features.feature_map import classifier_columns

__all__ = ["is_stored", "read_solution"]

# Largest size of a stored solution relative to that of the moments, in numbers; the planes of pairs
# grow with the square of the number of classes.
_MOST_NUMBERS = 2

# The class of a solution, and the shapes of its arrays for C classes, P pairs, R own axes of the
# classes and d features.
_CLASSIFIERS = {
    "gaussian": (
        GaussianDistances,
        {"centre": "d", "planes": "Cd", "offsets": "C", "rows": "Rd", "shifts": "R"},
    ),
    "ovo": (PairwiseFisher, {"planes": "Pd", "offsets": "P"}),
    "ova": (OneVsAllRidge, {"planes": "Cd", "offsets": "C", "gram": "CC"}),
}

# Readers of all other fields of a classifier and of a choice.
_READERS = {
    "lengths": lambda node: tuple(one.integer() for one in node.entries()),
    "n_classes": lambda node: node.integer(1),
    "temperature": lambda node: node.number(0.0, above=True),
    "power": lambda node: node.number(0.0, above=True),
    "own_temperature": lambda node: node.number(0.0),
    "input_energy": lambda node: node.optional(lambda one: one.number(0.0, above=True)),
    "shrinkage": lambda node: node.number(0.0, 1.0),
    "epsilon": lambda node: node.number(0.0, above=True),
    "linear_weight": lambda node: node.number(0.0, 1.0),
    "density_temperature": lambda node: node.optional(lambda one: one.number(0.0, above=True)),
}


def is_stored(model):
    """Return whether a file stores the solution of a model: it exists and is not too large."""
    if model.solved is None:
        return False
    numbers = vars(model.solved.classifier).values()
    n_numbers = sum(one.size for one in numbers if isinstance(one, np.ndarray))
    n_moments = sum((one.rank + 2) * len(one.mean) for one in model.moments)
    return n_numbers <= _MOST_NUMBERS * n_moments


def read_solution(node, model):
    """Return the solution of a model that has none, if it fits the classes and features.

    It is None for one-vs-all regression of an older file, which has to be solved again.
    """
    classifier, choice = node.fields("classifier", "choice")
    made, shapes = _CLASSIFIERS[model.settings.classifier]
    n_classes = len(model.moments)
    columns = classifier_columns(model.features, model.settings.skip_connection)
    sizes = {"C": n_classes, "P": math.comb(n_classes, 2), "d": len(columns), "R": None}
    names = made.__dataclass_fields__.keys()
    # Up to format 6 one-vs-all regression has the temperature of a softmax instead of a power.
    earlier = {"temperature" if name == "power" else name for name in names}
    parts = classifier.some_fields(names | earlier)
    is_known = parts.keys() == names
    classifier.require(is_known or parts.keys() == earlier, f"an object of {', '.join(names)}")
    values = {
        name: one.array(*(sizes[size] for size in shapes[name]))
        if name in shapes
        else _READERS[name](one)
        for name, one in parts.items()
    }
    if made is PairwiseFisher:
        parts["n_classes"].require(values["n_classes"] == n_classes, f"{n_classes} classes")
    if made is GaussianDistances:
        lengths, n_rows = values["lengths"], len(values["rows"])
        holds = len(lengths) == n_classes and sum(lengths) == n_rows == len(values["shifts"])
        parts["lengths"].require(holds, f"{n_classes} numbers of together {n_rows} rows")
    # In format 2 the choice repeats the temperature of the classifier, and no class is normal. No
    # linear scores are mixed in up to format 3.
    names, new = {*Choice._fields, "temperature"}, "density_temperature"
    chosen = choice.some_fields(names, set(Choice._fields) - {new, "linear_weight"})
    is_earlier = chosen.pop("temperature", None) is not None
    choice.require(is_earlier != (new in chosen), f"an object of {', '.join(Choice._fields)}")
    chosen = Choice(**{name: _READERS[name](one) for name, one in chosen.items()})
    return Solution(made(**values), chosen) if is_known else None
