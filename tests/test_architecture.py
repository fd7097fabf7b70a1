"""Imports point downwards only, and linear algebra stays in the core."""

import ast
from pathlib import Path

import pytest

import ffnb_sklearn

PACKAGE = Path(ffnb_sklearn.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
CORE = [path for path in MODULES if path.is_relative_to(PACKAGE / "core")]
OUTSIDE = [path for path in MODULES if path not in CORE]


def imported(path):
    """Absolute names of all that a module imports, wherever in it."""
    parents = ("ffnb_sklearn", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = parents[: len(parents) - node.level + 1] if node.level else ()
            module = [*base, *([node.module] if node.module else [])]
            yield from (".".join([*module, one.name]) for one in node.names)


def attributes(path):
    """Dotted names that a module uses, as ``torch.linalg``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


def ids(path):
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", CORE, ids=ids)
def test_core_imports_neither_scikit_learn_nor_the_rest_of_the_package(path):
    for name in imported(path):
        assert name.split(".")[0] != "sklearn"
        assert name.split(".")[0] != "scipy" or path.name == "eigen.py"
        assert not name.startswith("ffnb_sklearn") or name.startswith("ffnb_sklearn.core.")


@pytest.mark.parametrize("path", OUTSIDE, ids=ids)
def test_only_core_calls_the_linear_algebra_of_torch(path):
    assert "torch.linalg" not in attributes(path)
    assert not any(name.startswith("torch.linalg") for name in imported(path))


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_nothing_imports_tests_examples_or_benchmarks(path):
    roots = {name.split(".")[0] for name in imported(path)}
    assert not roots & {"tests", "examples", "benchmarks"}


def test_there_is_something_to_check():
    assert len(CORE) > 10
    assert "ffnb_sklearn.core.device.resolve_device" in set(imported(PACKAGE / "classifier.py"))
    assert "torch.linalg" in set(attributes(PACKAGE / "core" / "linalg.py"))
