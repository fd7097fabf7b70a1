"""Estimators of other packages, stored with skops, which compares types before it creates objects.

skops stores an estimator as JSON and arrays, and names the type of each object. Loading creates an
object only if skops trusts its type, it is in the list below, or the caller of `load` trusts it.
"""

import io
import zipfile

from sklearn.base import BaseEstimator

from ._checks import check_parameters
from ._container import ModelFileError

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
    check_parameters(estimator, deep=True)
    try:
        data = skops.dumps(estimator)
        # A function without a name, say, is only noticed when it is loaded.
        skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    except Exception as error:
        raise TypeError(
            f"{where} cannot be saved: skops cannot store this {name}: {error}"
        ) from error
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
    check_parameters(estimator, deep=True)
    return estimator
