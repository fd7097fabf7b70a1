"""Estimators of other packages, stored with skops, which checks types before it creates objects.

skops stores an estimator as JSON and arrays, and names the type of each object. Loading only
creates objects of types that skops, `_trusted` or the caller of `load` trusts. Estimators of this
package inside such an estimator are stored beside these bytes, which have placeholders for them.
"""

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType

from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer, get_scorer_names

from ..backbones import TorchFeatureExtractor
from ..backbones._network import is_state
from ._checks import check_parameters, is_path, nested_estimators
from ._container import Budget, Json, ModelFileError, spend_on_text
from ._placeholders import PLACEHOLDER, placeholders_become, with_placeholders

__all__ = ["read_foreign", "spend_on_skops", "write_foreign"]

# Name of the JSON text in the bytes of skops.
_TEXT = "schema.json"

# First bytes by which NumPy recognizes an archive of arrays.
_ARCHIVE_MARK = b"PK"

# Trusted types beyond those of skops, and beyond the functions of scorers.
_TRUSTED = {
    PLACEHOLDER,
    "numpy.dtype",
    "numpy.number",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.impute._iterative.IterativeImputer",
    "sklearn.impute._iterative._ImputerTriplet",
    "sklearn.metrics._scorer._CurveScorer",
    "sklearn.metrics._scorer._MultimetricScorer",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.multiclass._ConstantPredictor",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
}

# Arguments that open files or start processes. No dictionary of arguments in a file may set them.
_FORBIDDEN_ARGUMENTS = {"input", "memory", "n_jobs"}


@cache
def _trusted() -> set[str]:
    """Return the trusted types beyond those of skops, with the functions of scorers."""
    names = set(_TRUSTED)
    for scorer_name in get_scorer_names():
        function = get_scorer(scorer_name)._score_func
        names.add(f"{function.__module__}.{function.__name__}")
    return names


def _import_skops(path: str, name: str) -> ModuleType:
    """Return the module `skops.io`; raise if skops is not installed."""
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            f"{path} is an instance of {name:.80}, which is stored with skops. Install it: "
            "pip install skops"
        ) from error
    module: ModuleType = skops.io
    return module


def write_foreign(estimator: BaseEstimator, path: str) -> tuple[bytes, list[BaseEstimator]]:
    """Return the bytes of an estimator of another package, and our estimators inside it.

    `path` leads to the estimator, for messages.
    """
    name = type(estimator).__name__
    skops = _import_skops(path, name)
    try:
        substitute, inside = with_placeholders(estimator)
        data = skops.dumps(substitute)
        # Some values, such as a function without a name, fail only when they are loaded.
        with placeholders_become(inside):
            loaded = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    except Exception as error:
        raise TypeError(
            f"{path} cannot be saved: skops cannot store this {name}: {error}"
        ) from error
    _check_nested_estimators(loaded, inside)
    return data, inside


def read_foreign(
    data: bytes,
    inside: Sequence[BaseEstimator],
    path: str,
    name: str,
    trusted: set[str],
    budget: Budget,
) -> BaseEstimator:
    """Return an estimator of another package from its bytes and our estimators inside it.

    `path` leads to the estimator, for messages.
    """
    spend_on_skops(budget, data)
    skops = _import_skops(path, name)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED:
                raise ValueError("the bytes of skops must be uncompressed")
    trusted = trusted | _trusted()
    untrusted = set(skops.get_untrusted_types(data=data)) - trusted
    if untrusted:
        names = sorted(untrusted)
        raise ModelFileError(
            f"{path} has types that are not trusted: {', '.join(names)[:500]}. Call "
            f"load(path, trusted={names!r:.500}) if you trust these types and the author of the "
            "file."
        )
    with placeholders_become(inside):
        estimator = skops.loads(data, trusted=sorted(trusted))
    if not isinstance(estimator, BaseEstimator):
        raise ValueError("skops must hold an estimator")
    _check_nested_estimators(estimator, inside)
    return estimator


def _check_nested_estimators(estimator: BaseEstimator, inside: Sequence[BaseEstimator]) -> None:
    """Raise `ValueError` unless a file may hold an estimator and all other estimators in it.

    Our estimators `inside` have other checks, when they are read.
    """
    for nested in nested_estimators(estimator, closed=inside):
        _check_names(nested)
        check_parameters(nested)
        _check_arguments(nested)
        if isinstance(nested, TorchFeatureExtractor):
            _check_extractor(nested)


def _check_names(estimator: BaseEstimator) -> None:
    """Raise if an attribute hides a method, a property or a constant of the class.

    For example, a file could replace the method that returns the names of the parameters. The
    parameters themselves may hide constants, as in `LassoLars`.
    """
    estimator_class = type(estimator)
    class_names: set[str] = set()
    for base in estimator_class.__mro__:
        class_names |= vars(base).keys()
    class_names -= set(estimator_class._get_param_names())
    hidden = class_names & vars(estimator).keys()
    if hidden:
        raise ValueError(
            f"attributes of {estimator_class.__name__} must not hide those of its class in a file: "
            f"{', '.join(map(str, hidden))}"
        )


def _check_arguments(estimator: BaseEstimator) -> None:
    """Raise if arguments for another function or estimator include a forbidden argument."""
    for name, value in vars(estimator).items():
        if not str(name).startswith("param_") and not str(name).endswith(("_params", "_args")):
            continue
        forbidden = _forbidden_keys(value)
        if forbidden:
            raise ValueError(
                f"{name} of {type(estimator).__name__} must not set "
                f"{', '.join(sorted(forbidden))} in a file"
            )


def _forbidden_keys(arguments: object) -> set[str]:
    """Return the keys that set a forbidden argument in a dictionary, or in a list of them."""
    if not isinstance(arguments, list | tuple):
        arguments = [arguments]
    forbidden = set()
    for dictionary in arguments:
        if not isinstance(dictionary, dict):
            continue
        for key in map(str, dictionary):
            # The names of estimators come before the name of a nested argument.
            argument = key.rpartition("__")[2]
            if argument in _FORBIDDEN_ARGUMENTS:
                forbidden.add(key)
    return forbidden


def _check_extractor(extractor: TorchFeatureExtractor) -> None:
    """Raise if an extractor inside a step of skops names a path or code."""
    attributes = vars(extractor)
    for name, value in attributes.items():
        if is_path(extractor, name, value):
            raise ValueError(f"{name} of TorchFeatureExtractor must not be a path in a file")
    if isinstance(attributes.get("backbone"), str):
        raise ValueError(
            "backbone of TorchFeatureExtractor must be the factory itself, not its dotted name, in "
            "a step that is stored with skops"
        )
    if not is_state(attributes.get("state_dict_", {})):
        raise ValueError("state_dict_ of TorchFeatureExtractor must map names to arrays of numbers")


def spend_on_skops(budget: Budget, data: bytes) -> None:
    """Take the memory of an estimator in the bytes of skops, before it is read."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        text_size = archive.getinfo(_TEXT).file_size
        budget.spend(text_size, "the JSON text of skops")
        text = archive.read(_TEXT)
        spend_on_text(budget, text)
        _spend_on_arrays(budget, archive, json.loads(text))


def _spend_on_arrays(budget: Budget, archive: zipfile.ZipFile, content: Json) -> None:
    """Take the memory of the arrays to which the JSON of skops refers.

    skops reads the bytes of an array once per reference, unless references have the same number.
    """
    sizes: dict[str, int] = {}
    read_numbers = set()
    for number, name in _references(content):
        if name not in sizes:
            sizes[name] = _size_in_memory(archive, name)
        if number not in read_numbers:
            budget.spend(sizes[name], "the arrays of skops")
        if number:
            read_numbers.add(number)


def _references(content: Json) -> Iterator[tuple[Json, str]]:
    """Yield the number and the file name of each reference to an array in the JSON of skops."""
    open_values = [content]
    while open_values:
        value = open_values.pop()
        if isinstance(value, dict):
            name = value.get("file")
            if isinstance(name, str):
                yield value.get("__id__"), name
            open_values.extend(value.values())
        elif isinstance(value, list):
            open_values.extend(value)


def _size_in_memory(archive: zipfile.ZipFile, name: str) -> int:
    """Return the size of a member of an archive, with its arrays if it is an archive itself.

    skops stores a sparse array as an archive of dense arrays.
    """
    size = archive.getinfo(name).file_size
    with archive.open(name) as member:
        first_bytes = member.read(len(_ARCHIVE_MARK))
    if first_bytes != _ARCHIVE_MARK:
        return size
    data = archive.read(name)
    with zipfile.ZipFile(io.BytesIO(data)) as inner_archive:
        for info in inner_archive.infolist():
            size += info.file_size
    return size
