"""Sparse samples: projection of wide samples, conversion to dense tensors, and products."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from scipy.sparse import csr_array

from ..core.device import as_array, as_tensor, resolve_device
from ..core.model import Samples
from ..core.sparse import SparseInputs
from .arrays import Matrix
from .columns import ColumnScaling
from .seeds import RandomState, next_seed

__all__ = ["N_TERMS", "RandomProjection", "WideSamples", "place_samples", "projection_for"]

# Columns of a projection that becomes dense, for a model with neurons; learning takes a time that
# grows with its square. Narrower samples are not projected.
N_COLUMNS = 2000

# Most columns of a projection that stays sparse, for a model without neurons. A class with eight
# axes then takes 3 MB.
MOST_SPARSE_COLUMNS = 65536

# Columns that each feature is added to. With a single column, features that share it are confused.
N_TERMS = 4

# Numbers of some samples.
Rows: TypeAlias = slice | npt.NDArray[np.intp]


@dataclass(frozen=True)
class RandomProjection:
    """Random projection of wide sparse samples onto fewer columns, determined by a seed.

    With as many columns as features, the projection is the identity. Otherwise the number of
    columns is a multiple of four, and each feature has the entry 0.5 or -0.5 in four columns, one
    in each quarter. So no feature is lost, and the expected squared norm of a projected sample
    equals that of the sample (D. M. Kane and J. Nelson. Sparser Johnson-Lindenstrauss transforms.
    Journal of the ACM 61(1), 2014).
    """

    n_features: int
    seed: int
    n_columns: int = N_COLUMNS

    @property
    def keeps_sparse(self) -> bool:
        """Whether there are too many columns to make them dense."""
        return self.n_columns > N_COLUMNS

    def __call__(self, X: csr_array) -> csr_array:
        """Project sparse samples."""
        return X if self.n_columns == self.n_features else X @ self.matrix

    @cached_property
    def matrix(self) -> csr_array:
        """Matrix of the projection, a sparse array of shape (n_features, n_columns)."""
        if self.n_columns == self.n_features:
            return sparse.eye_array(self.n_features, format="csr")
        width = self.n_columns // N_TERMS
        shape = (self.n_features, N_TERMS)
        # NumPy guarantees this stream of numbers, so the file of a model need not store the draws.
        generator = np.random.RandomState(self.seed)
        draws = generator.randint(2 * width, size=shape, dtype=np.int32)
        starts = width * np.arange(N_TERMS, dtype=np.int32)
        columns = starts + draws // 2
        # Zero or one becomes minus or plus the entry.
        signs = draws % 2 - 0.5
        values = signs * (2.0 / N_TERMS**0.5)
        index_type = sparse.get_index_dtype(maxval=draws.size)
        ends = np.arange(0, draws.size + 1, N_TERMS, dtype=index_type)
        entries = (values.ravel(), columns.ravel(), ends)
        return csr_array(entries, shape=(self.n_features, self.n_columns))

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the matrix, which is drawn again when it is needed."""
        state = dict(vars(self))
        state.pop("matrix", None)
        return state


def projection_for(
    X: Matrix, random_state: RandomState, *, needs_dense_inputs: bool
) -> RandomProjection | None:
    """Return the projection of a model whose first samples are X; None if it needs none.

    Dense samples, and sparse samples with at most `N_COLUMNS` features, need none. The columns stay
    sparse unless the model needs dense inputs.
    """
    n_features = X.shape[1]
    if not sparse.issparse(X) or n_features <= N_COLUMNS:
        return None
    most_columns = MOST_SPARSE_COLUMNS
    if needs_dense_inputs:
        most_columns = N_COLUMNS
    n_columns = min(n_features, most_columns)
    return RandomProjection(n_features, next_seed(random_state), n_columns)


def place_samples(
    device: str,
    X: Matrix,
    projection: RandomProjection | None,
    scaling: ColumnScaling | None,
) -> Samples:
    """Place validated samples on a device, given by its name, in the form that the core takes.

    A tensor shares the memory of X if possible, and keeps float32.
    """
    torch_device = resolve_device(device)
    if projection is not None and projection.keeps_sparse:
        return WideSamples(X, projection, torch_device, scaling)
    if projection is not None or sparse.issparse(X):
        return SparseSamples(X, projection, torch_device, scaling)
    dtype = torch.float64
    if X.dtype in (np.float32, torch.float32):
        dtype = torch.float32
    samples = as_tensor(X, device=torch_device, dtype=dtype)
    if scaling is None:
        return samples
    return ScaledSamples(samples, scaling)


class SparseSamples:
    """Samples, sparse or to be projected; an index returns some inputs as a dense tensor."""

    def __init__(
        self,
        X: Matrix,
        projection: RandomProjection | None,
        device: torch.device,
        scaling: ColumnScaling | None = None,
    ) -> None:
        self._X = X
        self._projection = projection
        self._scaling = scaling
        self.device = device

    def __len__(self) -> int:
        """Return the number of samples."""
        n_samples: int = self._X.shape[0]
        return n_samples

    def __getitem__(self, rows: Rows) -> torch.Tensor:
        """Return the inputs of some samples as a float64 tensor."""
        # Dense samples are converted to sparse, so that their sums have the same terms and order.
        inputs = self._inputs(rows).toarray()
        inputs = as_tensor(inputs, device=self.device)
        if self._projection is None and self._scaling is not None:
            return self._scaling.apply(inputs)
        return inputs

    def _inputs(self, rows: Rows) -> csr_array:
        """Return the inputs of some samples as a sparse array, scaled if they are projected."""
        X = csr_array(self._X[rows])
        if self._projection is None:
            return X
        if self._scaling is not None:
            X = self._scaling.apply_sparse(X)
        return self._projection(X)

    def double(self) -> torch.Tensor:
        """Return the inputs of all samples."""
        return self[:]


class ScaledSamples:
    """Dense samples, scaled as they are read, so that no second array is as large."""

    def __init__(self, samples: torch.Tensor, scaling: ColumnScaling) -> None:
        self._samples = samples
        self._scaling = scaling
        self.device = samples.device

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, rows: Rows) -> torch.Tensor:
        return self._scaling.apply(self._samples[rows])

    def double(self) -> torch.Tensor:
        """Return all samples."""
        return self[:]


class WideSamples(SparseSamples, SparseInputs):
    """Samples whose inputs stay sparse; the parameters are those of `SparseSamples`."""

    def sparse(self, rows: Rows) -> "WideSamples":
        """Return some samples, already projected."""
        return WideSamples(self._inputs(rows), None, self.device)

    @cached_property
    def matrix(self) -> csr_array:
        """The inputs, a float64 array in CSR form without repeated entries."""
        inputs = self._inputs(slice(None)).astype(np.float64)
        if not inputs.has_canonical_format:
            inputs.sum_duplicates()
        return inputs

    def row_bytes(self) -> Iterator[bytes]:
        """Yield the nonzero inputs of each sample, with their columns, as bytes."""
        X = self.matrix.copy()
        X.eliminate_zeros()
        X.sort_indices()
        for start, stop in pairwise(X.indptr):
            columns = X.indices[start:stop].astype(np.int64)
            values = X.data[start:stop]
            yield columns.tobytes() + values.tobytes()

    def times(self, columns: torch.Tensor) -> torch.Tensor:
        """Return the product of the inputs with dense columns."""
        return _product(self.matrix, columns)

    def squares_times(self, columns: torch.Tensor) -> torch.Tensor:
        """Return the product of the squared inputs with dense columns."""
        squares = self.matrix.power(2)
        return _product(squares, columns)

    def transposed_times(self, columns: torch.Tensor) -> torch.Tensor:
        """Return the product of the transposed inputs with dense columns."""
        array = np.ascontiguousarray(as_array(columns))
        return torch.from_numpy(self.matrix.T @ array)

    def energies(self, weights: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum of the squared deviations of each input from a centre.

        Zeros are not stored; with the total weight w0 of the zeros of an input, their sum is
        w0 * centre**2.
        """
        X = self.matrix
        n_inputs = X.shape[1]
        row_weights = as_array(weights)
        centres = as_array(centre)
        entry_weights = np.repeat(row_weights, np.diff(X.indptr))
        deviations = X.data - centres[X.indices]
        entry_energies = entry_weights * deviations**2
        energies_of_entries = np.bincount(X.indices, entry_energies, n_inputs)
        weights_of_entries = np.bincount(X.indices, entry_weights, n_inputs)
        # Rounding may make the weight of the zeros negative.
        weights_of_zeros = np.maximum(row_weights.sum() - weights_of_entries, 0.0)
        energies = energies_of_entries + weights_of_zeros * centres**2
        return torch.from_numpy(energies)


def _product(X: csr_array, columns: torch.Tensor) -> torch.Tensor:
    """Return the product of sparse rows with dense columns; few rows use few of their entries."""
    array = as_array(columns)
    n_inputs = X.shape[1]
    if n_inputs < X.nnz:
        return torch.from_numpy(X @ np.ascontiguousarray(array))
    inputs, places = np.unique(X.indices, return_inverse=True)
    shape = (X.shape[0], len(inputs))
    narrow = csr_array((X.data, places, X.indptr), shape=shape)
    return torch.from_numpy(narrow @ np.ascontiguousarray(array[inputs]))
