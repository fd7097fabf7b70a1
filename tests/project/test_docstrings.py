"""Docstrings of all public names pass numpydoc's checks, and their examples run."""

import copy
import doctest
import inspect
import re

import pytest
from numpydoc.validate import validate
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions

import ffnb_sklearn

# scikit-learn leaves these out everywhere: text in the line of the quotes, short docstrings of
# properties, and names of returned values.
LEFT_OUT = {"GL01", "GL02", "RT02"}
# It asks for longer text, an example and related names in those of estimators and displays alone.
OF_ESTIMATORS = {"ES01", "EX01", "SA01"}
# Properties have no parameters.
OF_PROPERTIES = {"PR02"}
# Only the package makes these records, whose fields are their attributes.
WITHOUT_PARAMETERS = {
    "covariance.ShrinkageChoice",
    "metrics.ForgettingBound",
    "metrics.LayerBound",
    "metrics.TransferQuality",
    "streams.PrequentialResult",
    "streams.StreamResult",
}

ROOMS = ("covariance", "metrics", "datasets", "backbones", "baselines")
MODULES = {f"{name}.": getattr(ffnb_sklearn, name) for name in ROOMS}
MODULES |= {
    "": ffnb_sklearn,
    "exceptions.": ffnb_sklearn.exceptions,
    "streams.": ffnb_sklearn.streams,
}
PUBLIC = {
    prefix + name: getattr(module, name)
    for prefix, module in MODULES.items()
    for name in module.__all__
}
NAMES = [name for name, found in PUBLIC.items() if callable(found)]
CLASSES = {name: found for name, found in PUBLIC.items() if inspect.isclass(found)}


def described(found, name):
    """Whether the docstring of a class or of a base of it lists an attribute, maybe with others."""
    entry = rf"(?m)^(\w+, )*{name}(, \w+)* : "
    # Python strips the indentation since 3.13.
    return any(re.search(entry, inspect.cleandoc(base.__doc__ or "")) for base in found.__mro__)


def own_members(found):
    """Public methods, and properties that no class lists, which this package wrote."""
    for name, member in inspect.getmembers_static(found):
        is_property = isinstance(member, property)
        function = member.fget if is_property else getattr(member, "__func__", member)
        written_here = (getattr(function, "__module__", None) or "").startswith("ffnb_sklearn")
        attribute = is_property and described(found, name)
        if not name.startswith("_") and callable(function) and written_here and not attribute:
            yield name


# The first name of each, because `ffnb_sklearn` repeats names of its modules.
FIRST_NAMES = {id(found): name for name, found in reversed(PUBLIC.items()) if callable(found)}
EXAMPLES = {
    test.name: test
    for name in reversed(FIRST_NAMES.values())
    for test in doctest.DocTestFinder(exclude_empty=True).find(PUBLIC[name], name, globs={})
    if test.examples
}

MEMBERS = [f"{name}.{member}" for name, found in CLASSES.items() for member in own_members(found)]


def errors(name):
    """Return the codes and messages of all numpydoc's findings on a name of the package."""
    return [tuple(error) for error in validate(f"ffnb_sklearn.{name}")["errors"]]


@pytest.mark.parametrize("name", NAMES)
def test_docstring_of_public_name_is_valid(name):
    found = CLASSES.get(name, object)
    whole = issubclass(found, BaseEstimator) or name.endswith("Display")
    allowed = LEFT_OUT | (set() if whole else OF_ESTIMATORS)
    allowed |= {"PR01"} if name in WITHOUT_PARAMETERS else set()
    assert [error for error in errors(name) if error[0] not in allowed] == []


@pytest.mark.parametrize("name", MEMBERS)
def test_docstring_of_public_member_is_valid(name):
    allowed = LEFT_OUT | OF_ESTIMATORS
    owner, _, member = name.rpartition(".")
    if isinstance(inspect.getattr_static(CLASSES[owner], member), property):
        allowed |= OF_PROPERTIES
    assert [error for error in errors(name) if error[0] not in allowed] == []


def options_of(found):
    """Yield each parameter of a class with each of the words that it may be."""
    for parameter, constraints in getattr(found, "_parameter_constraints", {}).items():
        for constraint in constraints:
            if isinstance(constraint, StrOptions):
                yield from ((parameter, option) for option in sorted(constraint.options))


OPTIONS = [(name, *option) for name, found in CLASSES.items() for option in options_of(found)]


@pytest.mark.parametrize(("name", "parameter", "option"), OPTIONS)
def test_option_of_a_parameter_is_described(name, parameter, option):
    """So a head, for example, has an entry in the docstrings of both classifiers."""
    text = inspect.cleandoc(CLASSES[name].__doc__)
    # An entry begins at the margin, and ends before the next line at the margin.
    (entry,) = re.findall(rf"(?m)^(?:\w+, )*{parameter}(?:, \w+)* : (?:.*\n(?: .*|$))*", text)
    assert f'"{option}"' in entry


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_docstring_run(name):
    source = EXAMPLES[name].docstring
    for package in ("dask", "matplotlib", "timm"):
        if f"import {package}" in source or f"{package}." in source:
            pytest.importorskip(package)
    test = copy.copy(EXAMPLES[name])
    test.globs = {}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test).failed == 0


def test_members_were_found():
    found = {*MEMBERS, *NAMES}
    assert {"IncrementalDiscriminantAnalysis.forget_samples", "save"} <= found
    assert {"FFNBClassifier.fit", "FFNBClassifier.as_published"} <= found
    assert len(MEMBERS) > 40


@pytest.mark.parametrize("name", NAMES)
def test_related_names_are_links(name):
    # Sphinx looks for a name in the module of the page, then from the root.
    text = inspect.cleandoc(PUBLIC[name].__doc__)
    (related,) = re.findall(r"(?s)See Also\n-+\n(.*?)(?:\n\n|$)", text) or [""]
    for target in re.findall(r"(?m)^(\S+) :", related):
        module = name.rpartition(".")[0]
        in_module = f"{module}.{target}".removeprefix(".")
        from_root = target.removeprefix("ffnb_sklearn.")
        # The last word may be a method.
        candidates = {in_module, from_root, from_root.rpartition(".")[0]}
        assert candidates & PUBLIC.keys() or target.startswith("sklearn."), target


@pytest.mark.parametrize("name", NAMES)
def test_no_citation_of_a_docstring_becomes_a_list(name):
    # A citation of one line that starts with an initial, as in "A. Einstein", becomes item A.
    text = inspect.cleandoc(PUBLIC[name].__doc__)
    assert re.findall(r"(?m)^\.\. \[\w+\] [A-Z]\. .*\n(?! )", text + "\n") == []
