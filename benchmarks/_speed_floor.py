"""What learning, solving and predicting cost at least: the matrix products of their shapes.

A task has to add a Gram matrix of its features to what is known, and to factor one matrix of
their width. The classifier has to factor the pooled covariance, and to solve for the means and the
axes of all classes; a prediction is one product with these. A floor is this arithmetic on random
matrices, by the library that the method itself uses. The null-space of trained bands takes an
eigendecomposition as well: no part of the floor, but measured beside it.
"""

import torch
from _speed_clock import seconds_of

# Samples whose outputs lie in memory together.
_TOGETHER = 1024


class TaskFloor:
    """One Gram product n x d -> d x d and one Cholesky factorisation of that size.

    The classifier sees `n_features` columns, d. What is more than the inputs is the output of
    neurons: the product that projects the inputs on them belongs to the floor.
    """

    def __init__(self, n_samples, n_inputs, n_features, device="cpu"):
        drawn = _drawn_on(device)
        self.inputs = drawn(n_samples, n_inputs)
        self.neurons = drawn(max(0, n_features - n_inputs), n_inputs)
        self.features = drawn(n_samples, n_features)

    def run(self):
        """Do the arithmetic once, and return the Cholesky factor."""
        if len(self.neurons):
            self.inputs @ self.neurons.T
        gram = self.features.T @ self.features
        gram.diagonal().add_(float(len(self.features)))
        return torch.linalg.cholesky(gram)

    def __call__(self):
        """Seconds of one run."""
        return seconds_of(finished, self.run)


def _drawn_on(device):
    """Draw matrices of the same random numbers on any device."""
    generator = torch.Generator().manual_seed(0)

    def drawn(n_rows, n_columns):
        shape = (n_rows, n_columns)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(device)

    return drawn


def finished(run):
    """Do some arithmetic, and wait for it: a GPU returns before it is done."""
    result = run()
    if result.is_cuda:
        torch.cuda.synchronize(result.device)
    return result


class NullSpaceFloor:
    """The eigendecomposition of one second moment of the inputs."""

    def __init__(self, n_inputs):
        rows = _drawn_on("cpu")(2 * n_inputs, n_inputs)
        self.moment = rows.T @ rows

    def run(self):
        """Do the arithmetic once, and return the eigenvectors."""
        return torch.linalg.eigh(self.moment).eigenvectors

    def __call__(self):
        """Seconds of one run."""
        return seconds_of(finished, self.run)


class SolutionFloor:
    """The whitening of all means and axes by the pooled covariance of the axes.

    That is one Gram product, one Cholesky factorisation, and one triangular solution. With fewer
    axes than features the products are those of the axes with each other.
    """

    def __init__(self, n_axes, n_classes, n_features, device="cpu"):
        drawn = _drawn_on(device)
        self.axes = drawn(n_axes, n_features)
        self.vectors = drawn(n_axes + n_classes, n_features)

    def run(self):
        """Do the arithmetic once, and return the solution."""
        wide = len(self.axes) < self.axes.shape[1]
        gram = self.axes @ self.axes.T if wide else self.axes.T @ self.axes
        gram.diagonal().add_(1.0)
        right = self.axes @ self.vectors.T if wide else self.vectors.T
        return torch.linalg.solve_triangular(torch.linalg.cholesky(gram), right, upper=False)

    def __call__(self):
        """Seconds of one run."""
        return seconds_of(finished, self.run)


class PredictionFloor:
    """One product of the samples with the means and axes of all classes, and nothing behind it."""

    def __init__(self, n_samples, n_features, n_axes, n_classes, device="cpu"):
        drawn = _drawn_on(device)
        self.features = drawn(n_samples, n_features)
        self.rows = drawn(n_axes + n_classes, n_features)
        # Written in place again and again, in parts: neither fresh pages nor a slow memory are
        # arithmetic.
        self.outputs = self.features.new_empty((min(n_samples, _TOGETHER), len(self.rows)))

    def run(self):
        """Do the arithmetic once, and return the outputs of the last samples."""
        for part in torch.split(self.features, _TOGETHER):
            outputs = torch.mm(part, self.rows.T, out=self.outputs[: len(part)])
        return outputs

    def __call__(self):
        """Seconds of one run."""
        return seconds_of(finished, self.run)


def task_floor_step(floor):
    """The arithmetic of a floor, for the measurement of its memory."""
    floor.run()
