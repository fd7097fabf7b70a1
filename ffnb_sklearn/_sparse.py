"""Sparse samples: the projection of wide ones, and their inputs as dense tensors or in products."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy import sparse

from ._seeds import next_seed
from .core.device import as_array, as_tensor
from .core.sparse import SparseInputs

__all__ = [
    "MOST_SPARSE_COLUMNS",
    "N_COLUMNS",
    "N_TERMS",
    "RandomProjection",
    "SparseSamples",
    "projection_for",
    "samples_on",
]

# Columns of a projection that becomes dense, for a model with neurons: the time that a class of
# many samples takes grows with the square of their number. Narrower samples are not projected.
N_COLUMNS = 2000

# Most columns of a projection that stays sparse, for a model without neurons: what is
# kept of a class takes 5 MB with so many. 4000 columns lose up to 1.2 points of those that 50000
# columns reach, and 16384 columns none of note (docs/benchmarks/sparse.md).
MOST_SPARSE_COLUMNS = 65536

# Columns that each feature is added to. A single one mixes up the features that share it.
N_TERMS = 4


@dataclass(frozen=True)
class RandomProjection:
    """Random projection of wide sparse samples onto fewer columns; a seed determines it.

    With as many columns as features it is the identity. Else each feature has the entry 0.5 or -0.5
    in four columns, one in each quarter of them [1]_. So no feature is lost, and the mean square
    norm of a sample is its own.

    Attributes
    ----------
    n_features : int
        Width of the samples.
    seed : int
        Seed of the columns and the signs.
    n_columns : int, default=N_COLUMNS
        Number of columns, a multiple of four or the number of features.

    References
    ----------
    .. [1] D. M. Kane and J. Nelson. Sparser Johnson-Lindenstrauss transforms. Journal of the ACM
       61(1), 2014.
    """

    n_features: int
    seed: int
    n_columns: int = N_COLUMNS

    @property
    def keeps_sparse(self):
        """Whether the columns are so many that they are never dense."""
        return self.n_columns > N_COLUMNS

    def __call__(self, X):
        """Return the columns of sparse samples."""
        return X if self.n_columns == self.n_features else X @ self.matrix

    @cached_property
    def matrix(self):
        """Return the matrix, a sparse array of shape (n_features, n_columns)."""
        if self.n_columns == self.n_features:
            return sparse.eye_array(self.n_features, format="csr")
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


def projection_for(X, estimator):
    """Return the projection of a model whose first samples are X; None if it needs none.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_samples, n_features)
        Samples.
    estimator : estimator
        Its `random_state` gives the seed. The columns stay sparse if its parameters leave it no
        neurons.

    Returns
    -------
    RandomProjection or None
        None for dense samples, and for sparse ones of at most `N_COLUMNS` features.
    """
    if not sparse.issparse(X) or X.shape[1] <= N_COLUMNS:
        return None
    has_neurons = getattr(estimator, "band_size", 1) or (
        getattr(estimator, "shared_band_size", 1) not in (0, "auto")
    )
    most = N_COLUMNS if has_neurons else MOST_SPARSE_COLUMNS
    n_columns = min(X.shape[1], most)
    return RandomProjection(X.shape[1], next_seed(estimator.random_state), n_columns)


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
    Tensor, SparseSamples or WideSamples
        A tensor shares the memory of X where it can, and keeps float32.
    """
    if projection is not None and projection.keeps_sparse:
        return WideSamples(X, projection, device)
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
        wide = self._X.shape[1] if self._projection is None else self._projection.n_columns
        return len(self), wide

    def __len__(self):
        """Return the number of samples."""
        return self._X.shape[0]

    def __getitem__(self, rows):
        """Return the inputs of some samples as a float64 tensor."""
        # Dense samples become sparse, so that they have the same sums, in the same order.
        return as_tensor(self._inputs(rows).toarray(), device=self.device)

    def _inputs(self, rows):
        """Return the inputs of some samples as a sparse array."""
        X = sparse.csr_array(self._X[rows])
        return X if self._projection is None else self._projection(X)

    def double(self):
        """Return the inputs of all samples."""
        return self[:]


class WideSamples(SparseSamples, SparseInputs):
    """Samples whose inputs stay sparse; the parameters are those of `SparseSamples`."""

    def sparse(self, rows):
        """Return some samples, which are projected already."""
        return WideSamples(self._inputs(rows), None, self.device)

    @cached_property
    def matrix(self):
        """The inputs, a float64 array in CSR form without repeated entries."""
        inputs = self._inputs(slice(None)).astype(np.float64)
        if not inputs.has_canonical_format:
            inputs.sum_duplicates()
        return inputs

    def times(self, columns):
        """Return the product of the inputs with dense columns."""
        return _product(self.matrix, columns)

    def squares_times(self, columns):
        """Return the product of the squared inputs with dense columns."""
        return _product(self.matrix.power(2), columns)

    def transposed_times(self, columns):
        """Return the product of the transposed inputs with dense columns."""
        return torch.from_numpy(self.matrix.T @ np.ascontiguousarray(as_array(columns)))

    def energies(self, weights, centre):
        """Return the weighted sum of the squared deviations of each input from a centre."""
        X, weights, centre = self.matrix, as_array(weights), as_array(centre)
        of_entries = np.repeat(weights, np.diff(X.indptr))
        deviations = of_entries * (X.data - centre[X.indices]) ** 2
        # Weights of the zeros, which are not stored, but for rounding.
        rest = weights.sum() - np.bincount(X.indices, of_entries, X.shape[1])
        energies = np.bincount(X.indices, deviations, X.shape[1])
        return torch.from_numpy(energies + np.maximum(rest, 0.0) * centre**2)


def _product(X, columns):
    """Return the product of sparse rows with dense columns, of which few rows use few entries."""
    if X.nnz > X.shape[1]:
        return torch.from_numpy(X @ np.ascontiguousarray(as_array(columns)))
    used, places = np.unique(X.indices, return_inverse=True)
    narrow = sparse.csr_array((X.data, places, X.indptr), shape=(X.shape[0], len(used)))
    return torch.from_numpy(narrow @ np.ascontiguousarray(as_array(columns)[used]))
