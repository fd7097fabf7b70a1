"""Estimators of other packages, stored with skops: every type is known before it is created.

skops stores an estimator as JSON and arrays, and names the type of each object. Loading creates an
object only if its type is in the list below, or the caller of `load` trusts it. skops compares
types, not their content, so the content is compared here with the rules of our own estimators.
"""

import io
import json
import zipfile
from contextlib import suppress
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_selector
from sklearn.preprocessing import OneHotEncoder

from ._container import ModelFileError, misfit
from ._parameters import check_parameter, check_size, rules_of

__all__ = ["is_own", "read_foreign", "write_foreign"]

# Packages of scikit-learn whose estimators compute with arrays alone. Trees, neighbours and support
# vectors are compiled code, which reads a forged index without a check.
_PACKAGES = {
    *("compose", "decomposition", "discriminant_analysis", "feature_extraction"),
    *("feature_selection", "frozen", "impute", "kernel_approximation", "linear_model"),
    *("naive_bayes", "pipeline", "preprocessing", "random_projection"),
}

# Trusted types beyond those of skops, which are checked below if their content matters.
_TRUSTED = {
    "numpy.dtype",
    "numpy.number",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.impute._iterative.IterativeImputer",
    "sklearn.impute._iterative._ImputerTriplet",
}

# Kinds of objects in a file of skops that hold data alone. skops compares their types.
_DATA = {
    f"{name}Node"
    for name in (
        *("Cached", "DType", "Dict", "Json", "List", "NdArray", "RandomState", "Set", "Slice"),
        *("SparseMatrix", "Tuple", "Type"),
    )
}

# Largest size of an unpacked file of skops, relative to its size: sparse matrices are compressed.
_MOST_UNPACKED = 100

_MT_WORDS = 624


def is_own(estimator):
    """Return whether an estimator, or one that it is derived from, belongs to this package."""
    return any(base.__module__.startswith("ffnb_sklearn.") for base in type(estimator).__mro__)


def _skops(where, name):
    """Return skops; raise if it is not installed."""
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            f"{where} is an instance of {name}, which is stored with skops. Install it: "
            "pip install skops"
        ) from error
    return skops.io


def write_foreign(writer, estimator, where):
    """Return the JSON of an estimator of another package."""
    name = type(estimator).__name__
    skops = _skops(where, name)
    try:
        _check_content(estimator)
        data = skops.dumps(estimator)
        # A function without a name, say, is only noticed when it is loaded.
        skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    except ValueError as error:
        raise ValueError(f"{where} cannot be saved: {error}.") from error
    except Exception as error:
        raise TypeError(
            f"{where} cannot be saved: skops cannot store this {name}: {error}"
        ) from error
    return [name, writer.plain(np.frombuffer(data, np.uint8), where)]


def read_foreign(node):
    """Return an estimator of another package."""
    name, stored = node.entries(2)
    skops = _skops(node.where, name.text()[:80])
    array = stored.plain()
    is_bytes = isinstance(array, np.ndarray) and (array.dtype, array.ndim) == (np.uint8, 1)
    stored.require(is_bytes, "bytes")
    data, trusted = array.tobytes(), _TRUSTED | node.reader.trusted
    try:
        unknown = _types_without_data(data)
        # The types are named although the rest of the file may be invalid.
        with suppress(Exception):
            unknown |= set(skops.get_untrusted_types(data=data))
        unknown -= trusted
        if unknown:
            raise ModelFileError(
                f"{node.where} has types that are not trusted: {', '.join(sorted(unknown))[:500]}. "
                f"Call load(path, trusted={sorted(unknown)!r:.500}) if you trust these types and "
                "the author of the file."
            )
        estimator = skops.loads(data, trusted=sorted(trusted))
        _check_content(estimator)
    except (ModelFileError, ImportError):
        raise
    except ValueError as error:
        raise ModelFileError(f"{node.where}: {str(error)[:300]}") from error
    except Exception as error:
        raise misfit(node.where, "an estimator that skops can load") from error
    node.require(isinstance(estimator, BaseEstimator), "an estimator")
    return estimator


def _types_without_data(data):
    """Return the names of types in a file of skops that are neither data nor in our packages."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        _check_sizes(archive, _MOST_UNPACKED * len(data))
        waiting = [json.loads(archive.read("schema.json"))]
    found = set()
    while waiting:
        value = waiting.pop()
        parts = value.values() if isinstance(value, dict) else value
        waiting += [one for one in parts if isinstance(one, dict | list)]
        kind = value.get("__loader__") if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind in _DATA:
            continue
        package, *path = module = str(value["__module__"]).split(".")
        if kind != "ObjectNode" or package != "sklearn" or not _PACKAGES.intersection(path[:1]):
            found.add(".".join([*module, str(value["__class__"])]))
    return found


def _check_sizes(archive, most):
    """Raise unless an archive and the archives in it are small when they are unpacked."""
    members = archive.infolist()
    unpacked = sum(one.file_size for one in members)
    if unpacked <= most:
        for content in map(archive.read, members):
            if content.startswith(b"PK"):
                with zipfile.ZipFile(io.BytesIO(content)) as inner:
                    unpacked += sum(one.file_size for one in inner.infolist())
    if unpacked > most:
        raise ValueError(f"unpacked data must take at most {most} bytes")


def _check_content(estimator):
    """Raise `ValueError` unless a file may hold all parts of an estimator."""
    waiting, seen = [estimator], {}
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, BaseEstimator):
            _check_estimator(value)
            waiting += vars(value).values()
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set):
            waiting += value
        elif isinstance(value, np.ndarray) and value.dtype == object:
            waiting += value.ravel().tolist()
        elif isinstance(value, make_column_selector):
            _require(value.pattern is None, "make_column_selector", "pattern", "None in a file")
        elif sparse.issparse(value):
            _require(value.format in ("csr", "csc"), "a sparse matrix", "format", "csr or csc")
            value.check_format(full_check=True)
        elif isinstance(value, np.random.RandomState):
            # The generator reads the word at this position without a check.
            position = value.get_state(legacy=False)["state"].get("pos", -1)
            _require(0 <= position <= _MT_WORDS, "RandomState", "pos", f"at most {_MT_WORDS}")


def _require(holds, owner, name, expected):
    """Raise `ValueError` unless a condition on an attribute holds."""
    if not holds:
        raise ValueError(f"{name} of {owner} must be {expected}")


def _check_estimator(estimator):
    """Raise `ValueError` unless a file may hold the attributes of one estimator."""
    made = type(estimator)
    if is_own(estimator):
        raise ValueError(f"{made.__name__} must be a step of its own in a pipeline")
    rules = rules_of(made)
    for name, value in vars(estimator).items():
        # A function is in the file by its name, which the caller of `load` trusts.
        check = partial(check_parameter, made) if name in rules else check_size
        try:
            if not callable(value):
                check(name, value)
        except ValueError as error:
            raise ValueError(f"{name} of {made.__name__} must be {error}") from None
    if isinstance(estimator, OneHotEncoder) and hasattr(estimator, "categories_"):
        _check_encoder(estimator)


def _check_encoder(encoder):
    """Raise `ValueError` if an encoder writes outside of its columns, which nothing else checks."""
    mappings = getattr(encoder, "_default_to_infrequent_mappings", None)
    dropped = encoder._drop_idx_after_grouping
    widths = encoder._n_features_outs
    for i, (categories, width) in enumerate(zip(encoder.categories_, widths, strict=True)):
        codes = np.arange(len(categories))
        if encoder._infrequent_enabled and mappings[i] is not None:
            codes = np.take(mappings[i], codes)
        if dropped is not None and dropped[i] is not None:
            codes = codes[codes != dropped[i]]
            codes = codes - (codes > dropped[i])
        # A binary search in numbers that are not sorted ends anywhere.
        has_order = categories.dtype.kind in "OUS" or np.array_equal(
            categories, np.sort(categories), equal_nan=categories.dtype.kind == "f"
        )
        holds = has_order and codes.min(initial=0) == 0 and codes.max(initial=-1) + 1 == width
        _require(holds, "OneHotEncoder", "categories_", "as many as its columns")
