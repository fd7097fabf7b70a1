"""Sparse samples: the random projection of wide ones, and their inputs as tensors."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy import sparse

from ._seeds import next_seed
from .core.device import as_tensor

__all__ = [
    "N_COLUMNS",
    "N_TERMS",
    "RandomProjection",
    "SparseSamples",
    "projection_for",
    "samples_on",
]

# Columns of a projection. More columns give a higher accuracy (docs/benchmarks/sparse.md), and the
# time that a class of many samples takes grows with the square of their number.
N_COLUMNS = 2000

# Columns that each feature is added to. A single one mixes up the features that share it.
N_TERMS = 4


@dataclass(frozen=True)
class RandomProjection:
    """Random projection of wide sparse samples onto fewer columns; a seed determines it.

    Each feature has the entry 0.5 or -0.5 in four columns, one in each quarter of them [1]_. So no
    feature is lost, and the mean square norm of a sample is its own.

    Attributes
    ----------
    n_features : int
        Width of the samples.
    seed : int
        Seed of the columns and the signs.
    n_columns : int, default=N_COLUMNS
        Number of columns, a multiple of four.

    References
    ----------
    .. [1] D. M. Kane and J. Nelson. Sparser Johnson-Lindenstrauss transforms. Journal of the ACM
       61(1), 2014.
    """

    n_features: int
    seed: int
    n_columns: int = N_COLUMNS

    @cached_property
    def matrix(self):
        """Return the matrix, a sparse array of shape (n_features, n_columns)."""
        width, shape = self.n_columns // N_TERMS, (self.n_features, N_TERMS)
        # NumPy will never change this stream, so that a file of a model need not hold the draws.
        draws = np.random.RandomState(self.seed).randint(2 * width, size=shape, dtype=np.int32)
        columns = draws // 2 + width * np.arange(N_TERMS, dtype=np.int32)
        values = (draws % 2 - 0.5) * (2.0 / N_TERMS**0.5)
        index_type = sparse.get_index_dtype(maxval=draws.size)
        ends = np.arange(0, draws.size + 1, N_TERMS, dtype=index_type)
        entries = values.ravel(), columns.ravel(), ends
        return sparse.csr_array(entries, shape=(self.n_features, self.n_columns))

    def __getstate__(self):
        """Return the state without the matrix, which is drawn again."""
        return {name: value for name, value in vars(self).items() if name != "matrix"}


def projection_for(X, random_state):
    """Return the projection of a model whose first samples are X; None if it needs none.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_samples, n_features)
        Samples.
    random_state : int, RandomState instance or None
        Source of the seed.

    Returns
    -------
    RandomProjection or None
        None for dense samples, and for sparse ones of at most `N_COLUMNS` features.
    """
    if not sparse.issparse(X) or X.shape[1] <= N_COLUMNS:
        return None
    return RandomProjection(X.shape[1], next_seed(random_state))


def samples_on(device, X, projection):
    """Return samples as the core takes them.

    Parameters
    ----------
    device : torch.device
        Device of the tensors.
    X : ndarray or sparse matrix of shape (n_samples, n_features)
        Samples that are valid.
    projection : RandomProjection or None
        Projection of the model.

    Returns
    -------
    Tensor or SparseSamples
        A tensor shares the memory of X where it can, and keeps float32.
    """
    if projection is not None or sparse.issparse(X):
        return SparseSamples(X, projection, device)
    dtype = torch.float32 if X.dtype == np.float32 else torch.float64
    return as_tensor(X, device=device, dtype=dtype)


class SparseSamples:
    """Sparse or projected samples in the form that the core takes: inputs of some at a time.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_samples, n_features)
        Samples; a sparse matrix is in CSR form.
    projection : RandomProjection or None
        Projection of the model.
    device : torch.device
        Device of the tensors.
    """

    def __init__(self, X, projection, device):
        self._X, self._projection, self.device = X, projection, device

    @property
    def shape(self):
        """Number of samples and number of inputs."""
        matrix = self._X if self._projection is None else self._projection.matrix
        return len(self), matrix.shape[1]

    def __len__(self):
        """Return the number of samples."""
        return self._X.shape[0]

    def __getitem__(self, rows):
        """Return the inputs of some samples as a float64 tensor."""
        # Dense samples become sparse, so that they have the same sums, in the same order.
        X = sparse.csr_array(self._X[rows])
        if self._projection is not None:
            X = X @ self._projection.matrix
        return as_tensor(X.toarray(), device=self.device)

    def double(self):
        """Return the inputs of all samples."""
        return self[:]
