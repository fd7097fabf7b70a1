"""Weights that print as a summary."""

import numpy as np


class Weights(dict):
    """A state dict that prints as a summary, also inside of a printed estimator."""

    def __repr__(self):
        count = sum(int(np.prod(np.shape(value))) for value in self.values())
        return f"<{len(self)} arrays of {count} numbers in all>"


def summarised(weights):
    """Return a dictionary as `Weights`, which share its arrays; return other values as they are."""
    is_plain = isinstance(weights, dict) and not isinstance(weights, Weights)
    return Weights(weights) if is_plain else weights
