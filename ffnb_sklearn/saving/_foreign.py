"""Estimators of other packages, stored with skops, which compares types before it creates objects.

skops stores an estimator as JSON and arrays, and names the type of each object. Loading creates an
object only if skops trusts its type, it is in the list below, or the caller of `load` trusts it.
"""

import io
import zipfile

from sklearn.base import BaseEstimator

from ..backbones import TorchFeatureExtractor
from ..backbones._network import is_state
from ._checks import check_parameters, is_path
from ._container import ModelFileError
from ._parts import estimators_in

__all__ = ["read_foreign", "write_foreign"]

# Trusted types beyond those of skops.
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

# Arguments that no dictionary of arguments in a file may set: they open files or start processes.
_FORBIDDEN_ARGUMENTS = {"input", "memory", "n_jobs"}


def _skops(where, name):
    """Return skops; raise if it is not installed."""
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            f"{where} is an instance of {name:.80}, which is stored with skops. Install it: "
            "pip install skops"
        ) from error
    return skops.io


def write_foreign(estimator, where):
    """Return the bytes of an estimator of another package."""
    name = type(estimator).__name__
    skops = _skops(where, name)
    try:
        data = skops.dumps(estimator)
        # A function without a name, say, is only noticed when it is loaded.
        loaded = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    except Exception as error:
        raise TypeError(
            f"{where} cannot be saved: skops cannot store this {name}: {error}"
        ) from error
    _check_parts(loaded)
    return data


def read_foreign(data, where, name, trusted):
    """Return an estimator of another package from its bytes."""
    skops = _skops(where, name)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(one.compress_type != zipfile.ZIP_STORED for one in archive.infolist()):
            raise ValueError("the bytes of skops must be uncompressed")
    unknown = set(skops.get_untrusted_types(data=data)) - _TRUSTED - trusted
    if unknown:
        raise ModelFileError(
            f"{where} has types that are not trusted: {', '.join(sorted(unknown))[:500]}. Call "
            f"load(path, trusted={sorted(unknown)!r:.500}) if you trust these types and the "
            "author of the file."
        )
    estimator = skops.loads(data, trusted=sorted(_TRUSTED | trusted))
    if not isinstance(estimator, BaseEstimator):
        raise ValueError("skops must hold an estimator")
    _check_parts(estimator)
    return estimator


def _check_parts(estimator):
    """Raise `ValueError` unless a file may hold an estimator and all those in it."""
    for part in estimators_in(estimator):
        _check_names(part)
        check_parameters(part)
        _check_arguments(part)
        if isinstance(part, TorchFeatureExtractor):
            _check_extractor(part)


def _check_names(estimator):
    """Raise if an attribute hides a method, a property or a constant of the class.

    A file could replace the method that returns the names of the parameters, say. The parameters
    themselves may hide constants, as in `LassoLars`.
    """
    kind = type(estimator)
    of_class = set().union(*map(vars, kind.__mro__)) - {*kind._get_param_names()}
    hidden = of_class & vars(estimator).keys()
    if hidden:
        raise ValueError(
            f"attributes of {kind.__name__} must not hide those of its class in a file: "
            f"{', '.join(map(str, hidden))}"
        )


def _check_arguments(estimator):
    """Raise if a dictionary of arguments for another function or estimator names a rule's."""
    for name, value in vars(estimator).items():
        if not str(name).startswith("param_") and not str(name).endswith(("_params", "_args")):
            continue
        grids = value if isinstance(value, list | tuple) else [value]
        keys = {str(key) for grid in grids if isinstance(grid, dict) for key in grid}
        forbidden = {key for key in keys if key.rpartition("__")[2] in _FORBIDDEN_ARGUMENTS}
        if forbidden:
            raise ValueError(
                f"{name} of {type(estimator).__name__} must not set "
                f"{', '.join(sorted(forbidden))} in a file"
            )


def _check_extractor(extractor):
    """Raise if an extractor inside of a step of skops names a path or code."""
    for name, value in vars(extractor).items():
        if is_path(extractor, name, value):
            raise ValueError(f"{name} of TorchFeatureExtractor must not be a path in a file")
    if isinstance(vars(extractor).get("backbone"), str):
        raise ValueError(
            "backbone of TorchFeatureExtractor must be the factory itself, not its dotted name, in "
            "a step that is stored with skops"
        )
    if not is_state(vars(extractor).get("state_dict_", {})):
        raise ValueError("state_dict_ of TorchFeatureExtractor must map names to arrays of numbers")
