"""Many generated classes that overlap, drawn one at a time."""

import numpy as np

N_SHARED_AXES = 96
N_CLASS_AXES = 8


class GaussianStream:
    """Draws the rows of a class, the same ones at every call.

    `spread` is the standard deviation of the class means along the axes that they share, in units
    of the noise along each of these.
    """

    def __init__(self, n_features, spread, seed=0):
        self.n_features, self.spread, self.seed = n_features, spread, seed
        random = np.random.default_rng([seed, 0])
        n_axes = min(N_SHARED_AXES, n_features // 2)
        self.axes = np.linalg.qr(random.standard_normal((n_features, n_axes)))[0].T

    def rows(self, label, n_rows, *, test=False):
        """Rows of one class, of shape (n_rows, n_features)."""
        shape = np.random.default_rng([self.seed, 1, label])
        n_axes = len(self.axes)
        centre = self.spread * shape.standard_normal(n_axes)
        own = shape.standard_normal((N_CLASS_AXES, n_axes)) / np.sqrt(n_axes) * 3.0
        random = np.random.default_rng([self.seed, 3 if test else 2, label])
        inside = centre + random.standard_normal((n_rows, n_axes))
        inside += random.standard_normal((n_rows, N_CLASS_AXES)) @ own
        return inside @ self.axes + 0.5 * random.standard_normal((n_rows, self.n_features))

    def task(self, labels, n_rows, *, test=False):
        """Rows of some classes, and their labels."""
        X = np.concatenate([self.rows(label, n_rows, test=test) for label in labels])
        return X, np.repeat(labels, n_rows)
