"""Save an estimator to a file, and load it."""

import io
import os
from collections.abc import Collection, Mapping
from typing import IO, BinaryIO, Protocol, Self

import numpy
import sklearn
import torch
from sklearn.base import BaseEstimator

from .._atomic import replaced_file
from .._version import __version__
from ._codec import Factory, Reader, Writer
from ._container import (
    Budget,
    Json,
    ModelFileError,
    read_container,
    reread_container,
    write_container,
)
from ._schema import FORMAT

__all__ = ["load", "save"]

# Types by which a file is given as a path rather than as an open file object.
_PATHS = (str, bytes, os.PathLike)


class Estimator(Protocol):
    """Methods that every estimator of scikit-learn has."""

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters."""

    def set_params(self, **params: object) -> Self:
        """Set parameters; return the estimator."""


def save(estimator: Estimator, path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Save an estimator to a file that can be loaded without running code.

    The file holds the parameters and the learned state, as JSON and arrays with a SHA-256 digest.
    At any time, a path is either the complete old file or the complete new file.

    Parameters
    ----------
    estimator : estimator
        `IncrementalDiscriminantAnalysis`, `FFNBClassifier`, `Bands`, the classifiers of
        `baselines`, `TorchFeatureExtractor`, `SkeletonDescriptor`; scikit-learn's
        `StandardScaler`, `MinMaxScaler`, `MaxAbsScaler`,
        `Normalizer`, `HashingVectorizer`, `FeatureHasher` and `FrozenEstimator`; or a `Pipeline` or
        `ContinualPipeline` of these. If skops is installed, any other estimator of scikit-learn
        too, such as a `GridSearchCV` around these. The estimator may be fitted or unfitted, and is
        not changed.
    path : str, path or binary file object
        File to write. An existing file is replaced. A file object needs the method `write`, and
        gets all bytes in one call.

    Raises
    ------
    ImportError
        If a step is stored with skops, and skops is not installed.
    TypeError
        If the estimator, a step, a parameter or `path` has another type.
    ValueError
        If a parameter is not valid, or a value cannot be stored: a cache of a pipeline, labels
        that are objects other than strings, estimators nested more than 8 levels deep, or parts
        that take more than the memory of a file. The file is read again before it replaces an old
        file, so `load` accepts every file that was saved.
    OSError
        If the file cannot be written.

    Notes
    -----
    The file holds the learned state, and nothing that can be computed from it: the first prediction
    after loading solves the classifier again. Metadata requests and paths are not saved: the
    `weights` of a fitted `TorchFeatureExtractor` are None after loading if they were a path. Steps
    that share a random generator have separate generators after loading.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import ffnb_sklearn
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = ffnb_sklearn.IncrementalDiscriminantAnalysis(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ffnb_sklearn.save(clf, Path(folder, "iris.ffnb"))
    ...     loaded = ffnb_sklearn.load(Path(folder, "iris.ffnb"))
    >>> bool((loaded.predict_proba(X) == clf.predict_proba(X)).all())
    True
    """
    if not isinstance(estimator, BaseEstimator):
        raise TypeError(f"estimator must be an estimator; got {type(estimator).__name__}.")
    _check_file(path, "write")
    writer = Writer()
    content: Json = {
        "format": FORMAT,
        "written_by": {
            "ffnb_sklearn": __version__,
            "numpy": numpy.__version__,
            "scikit-learn": sklearn.__version__,
            "torch": str(torch.__version__),
        },
        "estimator": writer.write(estimator),
    }
    if isinstance(path, _PATHS):
        with replaced_file(path) as file:
            _write_checked(file, content, writer)
        return
    buffer = io.BytesIO()
    _write_checked(buffer, content, writer)
    _write_bytes(path, buffer.getbuffer())


def _check_file(path: object, method: str) -> None:
    """Raise `TypeError` unless a file is a path or a binary file object with a method."""
    is_binary = callable(getattr(path, method, None)) and not isinstance(path, io.TextIOBase)
    if not isinstance(path, _PATHS) and not is_binary:
        raise TypeError(
            f"path must be a path or a binary file object with the method {method}; got "
            f"{type(path).__name__}."
        )


def _write_bytes(file: IO[bytes], data: memoryview) -> None:
    """Write bytes to a file object; raise `OSError` if it does not take all of them."""
    n_written = file.write(data)
    # The return value is optional: file objects that are not from `io` may return None.
    if isinstance(n_written, int) and n_written < len(data):
        raise OSError(f"the file object has written {n_written} of {len(data)} bytes.")


def _read_bytes(file: IO[bytes]) -> io.BytesIO:
    """Return a buffer with the bytes of a file object from its position to its end."""
    data = file.read()
    if not isinstance(data, bytes | bytearray):
        raise TypeError(
            f"path must be a binary file object, whose read returns bytes; got "
            f"{type(data).__name__} from it."
        )
    return io.BytesIO(data)


def _write_checked(file: BinaryIO, content: Json, writer: Writer) -> None:
    """Write a container to an empty file; raise `ValueError` unless `load` accepts it."""
    write_container(file, content, writer.arrays)
    try:
        budget = Budget(file.tell())
        written_content = reread_container(file, budget)
        # The check sums have compared the arrays in the file with these arrays in memory.
        reader = Reader(writer.arrays, writer.factories, writer.types, budget)
        reader.read_file(written_content)
    except ModelFileError as error:
        raise ValueError(
            f"the estimator cannot be saved, because load would refuse its file: {error}"
        ) from error


def load(
    path: str | os.PathLike[str] | IO[bytes],
    *,
    factories: Mapping[str, Factory] | None = None,
    trusted: Collection[str | type] = (),
) -> Estimator:
    """Load an estimator that `save` has written, without running code from the file.

    The digest is verified first. Then every part is checked before an object is created from it.

    Parameters
    ----------
    path : str, path or binary file object
        File to read. A file object needs the method `read`, and is read from its position to its
        end.
    factories : dict of str to callable or str, default=None
        Values of `backbone` for `TorchFeatureExtractor`, by the dotted name in the file. A factory
        is code, and the file holds no code. `ConvNet` and `SkeletonGCN` need no entry.
    trusted : list of str or type, default=()
        Types and functions that steps stored with skops may have, beyond those that skops trusts
        and a few of scikit-learn. Only pass the names in the error for a file, and only if you
        trust its author: loading imports these types and gives them the file's content.

    Returns
    -------
    estimator
        Estimator with the same parameters and learned state, including random states. On the same
        machine with the same versions, it predicts and continues to learn like the saved estimator,
        bit for bit. There are two differences: `n_jobs` of its steps is None, and a
        `TorchFeatureExtractor` accepts paths of images as `pathlib.Path` objects, but not as texts.
        A type checker needs ``isinstance(estimator, FFNBClassifier)`` before ``predict``.

    Raises
    ------
    ModelFileError
        If the file is damaged, truncated, not a model file, has a newer format, or does not hold a
        valid model; or if a factory is missing in `factories`, or a type in `trusted`.
    ImportError
        If the file has a step that is stored with skops, and skops is not installed.
    TypeError
        If `path` is neither a path nor a binary file object, `factories` is not a dictionary, or
        `trusted` not a list of names and types.
    OSError
        If the file is missing or cannot be read.
    """
    if factories is not None and not isinstance(factories, Mapping):
        raise TypeError(
            "factories must be a dictionary of factories by their names in the file; got "
            f"{factories!r}."
        )
    if not isinstance(trusted, list | tuple | set):
        raise TypeError(f"trusted must be a list of types or of their names; got {trusted!r}.")
    trusted_names = {_dotted_name(trusted_type) for trusted_type in trusted}
    _check_file(path, "read")
    if not isinstance(path, _PATHS):
        buffer = _read_bytes(path)
        return _read_file(buffer, "the file object", factories, trusted_names)
    with open(path, "rb") as file:
        return _read_file(file, repr(str(path)), factories, trusted_names)


def _read_file(
    file: BinaryIO,
    name: str,
    factories: Mapping[str, Factory] | None,
    trusted_names: set[str],
) -> Estimator:
    """Return the estimator in an open file, whose name appears in errors."""
    try:
        file_size = file.seek(0, 2)
        budget = Budget(file_size)
        content, arrays = read_container(file, budget)
        reader = Reader(arrays, dict(factories or {}), trusted_names, budget)
        estimator: Estimator = reader.read_file(content)
        return estimator
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from error


def _dotted_name(trusted_type: str | type) -> str:
    """Return the name of a type with its module."""
    if isinstance(trusted_type, str):
        return trusted_type
    return f"{trusted_type.__module__}.{trusted_type.__name__}"
