"""Imports point downwards only; linear algebra stays in the core; each module has its tests."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import ffnb_sklearn

PACKAGE = Path(ffnb_sklearn.__file__).parent
TESTS = Path(__file__).parents[1]
MODULES = sorted(PACKAGE.rglob("*.py"))
CORE = [path for path in MODULES if path.is_relative_to(PACKAGE / "core")]
OUTSIDE = [path for path in MODULES if path not in CORE]

# The rooms of the core, a module or a package each, from the lowest floor up.
FLOORS = [
    ["messages"],
    ["settings", "device", "linalg"],
    ["moments"],
    ["features", "sparse", "transfer"],
    ["gaussians"],
    ["choice"],
    ["heads"],
    ["solution"],
    ["novelty"],
    ["model"],
    ["prediction"],
    ["left_out"],
    ["learning"],
    ["merge_and_forget"],
    ["bands"],
]


def rooms_in(folder):
    """Names of the modules and packages in a folder of the package, but for itself."""
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


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


def rooms_of_the_core():
    """Modules of each room; ``__init__`` of the core itself is in none."""
    rooms = {}
    for path in CORE:
        name = path.relative_to(PACKAGE / "core").parts[0].removesuffix(".py")
        rooms.setdefault(name, []).append(path)
    assert rooms.pop("__init__") == [PACKAGE / "core" / "__init__.py"]
    return rooms


def ids(path):
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", CORE, ids=ids)
def test_core_imports_neither_scikit_learn_nor_the_rest_of_the_package(path):
    for name in imported(path):
        assert name.split(".")[0] != "sklearn"
        assert name.split(".")[0] != "scipy"
        assert not name.startswith("ffnb_sklearn") or name.startswith("ffnb_sklearn.core.")


def test_each_room_of_the_core_is_on_one_floor():
    floors = sorted(room for floor in FLOORS for room in floor)

    assert floors == sorted(rooms_of_the_core()), (
        "A module or package of ffnb_sklearn/core is new or gone: put its name into FLOORS, above "
        "all that it imports and below all that import it."
    )


def test_page_on_the_architecture_names_the_floors():
    page = PACKAGE.parent / "docs" / "contributing" / "architecture.rst"
    if not page.is_file():
        pytest.skip("the package is installed without its documentation")
    rows = re.findall(r"^``([a-z_ ]+)``$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [sorted(row.split()) for row in rows] == [sorted(floor) for floor in FLOORS[::-1]]


def test_rooms_of_the_core_import_from_lower_floors():
    core = "ffnb_sklearn.core."
    rooms = rooms_of_the_core()
    below = set()
    for floor in FLOORS:
        for room in floor:
            names = {name for path in rooms[room] for name in imported(path)}
            others = {name.removeprefix(core).split(".")[0] for name in names if core in name}
            upward = others - below - {room}
            assert not upward, (
                f"core/{room} imports {sorted(upward)}, which are not below it: pass the value as "
                "an argument, or move the function to the room that it belongs to."
            )
        below.update(floor)


@pytest.mark.parametrize("path", OUTSIDE, ids=ids)
def test_only_core_calls_the_linear_algebra_of_torch(path):
    assert "torch.linalg" not in attributes(path)
    assert not any(name.startswith("torch.linalg") for name in imported(path))


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_nothing_imports_tests_examples_or_benchmarks(path):
    roots = {name.split(".")[0] for name in imported(path)}
    assert not roots & {"tests", "examples", "benchmarks"}


def test_the_rooms_of_the_package_import_in_no_circle():
    rooms = rooms_in(PACKAGE)
    arrows = {room: set() for room in rooms}
    for path in MODULES:
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        names = {name.split(".")[1] for name in imported(path) if name.startswith("ffnb_sklearn.")}
        if room != "__init__":
            arrows[room] |= names & rooms - {room}
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(
            f"These modules import one another: {error.args[1]}. Move what both need to a module "
            "below both."
        )


# Modules without functions.
WITHOUT_TEST = ["_version.py", "core/settings.py"]


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_a_module_has_a_file_of_tests_of_its_name(path):
    module = path.relative_to(PACKAGE)
    if path.name == "__init__.py" or module.as_posix() in WITHOUT_TEST:
        return
    folders = [folder.removeprefix("_") for folder in module.parent.parts]
    file = TESTS.joinpath(*folders, f"test_{path.name.removeprefix('_')}")
    assert file.is_file(), f"The tests of ffnb_sklearn/{module} belong in {file}."


def test_there_is_something_to_check():
    assert len(CORE) > 10
    names = set(imported(PACKAGE / "classifiers" / "ffnb.py"))
    assert "ffnb_sklearn.core.device.resolve_device" in names
    assert "torch.linalg" in set(attributes(PACKAGE / "core" / "linalg.py"))
