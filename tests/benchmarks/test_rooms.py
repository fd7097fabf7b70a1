"""The house of the benchmarks: rooms, and results outside of the documentation."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "benchmarks").glob("**/*.py"))
PAGES = sorted((ROOT / "docs" / "benchmarks").iterdir())

# Rooms that a room may import from, besides itself.
BELOW = {
    "lib": set(),
    "heads": {"lib"},
    "settings": {"lib", "heads"},
    "paper": {"lib", "heads"},
    "features": {"lib", "heads", "paper"},
    "speed": {"lib", "heads"},
}

# Ablations that the package does not offer are built from its parts.
INSIDE = {
    "benchmarks/heads/novelty.py": "ffnb_sklearn.core.prediction",
    "benchmarks/paper/softmax.py": "ffnb_sklearn.",
    "benchmarks/paper/end_to_end.py": "ffnb_sklearn.",
    "benchmarks/paper/runs.py": "ffnb_sklearn._base.forgetting_bound.descent_bound",
}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def test_scripts_stand_in_their_rooms():
    assert {path.relative_to(ROOT / "benchmarks").parts[0] for path in SCRIPTS} == set(BELOW)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_imports_point_down_and_leave_private_names_alone(path):
    room = path.parent.name
    inside = INSIDE.get(path.relative_to(ROOT).as_posix())
    for name in imports(path):
        parts = name.split(".")
        if inside is not None and name.startswith(inside):
            continue
        if parts[0] == "benchmarks":
            assert parts[1] in BELOW[room] | {room}
        assert not (parts[0] == "ffnb_sklearn" and any(p.startswith("_") for p in parts[1:]))
        assert not name.startswith("ffnb_sklearn.core")


def test_results_stand_elsewhere_than_pages():
    assert {path.suffix for path in PAGES} <= {".md", ".rst"}
    results = (ROOT / "benchmarks" / "results").glob("*/*")
    assert {(path.parent.name in BELOW, path.suffix) for path in results} == {(True, ".csv")}


def test_modules_that_the_texts_name_exist():
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("**/*.rst")]
    named = {
        name
        for path in [*texts, *PAGES]
        if "generated" not in path.parts and "auto_examples" not in path.parts
        for name in re.findall(r"python -m (benchmarks\.[a-z]+\.\w+)", path.read_text("utf-8"))
    }
    known = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in SCRIPTS}
    assert named
    assert named <= known
