"""What a task and a prediction cost at least: the matrix products of their shapes, and no more.

A task has to add a Gram matrix of its features to what is known, and to factor one matrix of
their width; a prediction by all pairs of classes is one product with their hyperplanes. A floor is
these products on random matrices, by the library that the method itself uses. The null-space of
trained bands takes an eigendecomposition as well: no part of the floor, but measured beside it.
"""

import torch
from _speed_clock import seconds_of


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


class PredictionFloor:
    """One product n x d by d x C (C - 1) / 2, and nothing for its tanh and its sums."""

    def __init__(self, n_samples, n_features, n_classes, device="cpu"):
        drawn = _drawn_on(device)
        n_pairs = n_classes * (n_classes - 1) // 2
        self.features = drawn(n_samples, n_features)
        self.planes = drawn(n_pairs, n_features)
        # Written in place again and again: fresh pages are not arithmetic.
        self.outputs = self.features.new_empty((n_samples, n_pairs))

    def run(self):
        """Do the arithmetic once, and return the outputs."""
        return torch.mm(self.features, self.planes.T, out=self.outputs)

    def __call__(self):
        """Seconds of one run."""
        return seconds_of(finished, self.run)


def task_floor_step(floor):
    """The arithmetic of a floor, for the measurement of its memory."""
    floor.run()
