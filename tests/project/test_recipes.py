"""The scripts of the page "Other libraries", where their libraries are."""

import re
import textwrap
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "user_guide" / "recipes.rst"

# Modules that a script needs; the scripts in PRINTED need no download, so they run.
MODULES = ["skorch", "skrub", "river", "capymoa", "avalanche", "resemblyzer"]
PRINTED = {
    "skorch": r"0\.98\d\n",
    "skrub": r"0\.7\d, trees 0\.7\d\n",
    "river": r"0\.9\d\d right, before they were learned\n",
}


def script(module):
    """Return the only script on the page that imports from a module."""
    blocks = re.findall(
        r"^\.\. code-block:: python\n\n((?:(?: {3}.*)?\n)+)", PAGE.read_text("utf-8"), re.MULTILINE
    )
    scripts = []
    for block in blocks:
        if re.search(rf"^   (import|from) {module}\b", block, re.MULTILINE):
            scripts.append(textwrap.dedent(block))
    assert len(scripts) == 1
    return scripts[0]


@pytest.mark.parametrize("module", MODULES)
def test_script_is_python(module):
    compile(script(module), PAGE.name, "exec")


@pytest.mark.parametrize("module", PRINTED)
def test_script_prints_the_accuracy(module, capsys):
    pytest.importorskip(module, reason=f"{module} is not installed")
    exec(script(module), {})
    assert re.fullmatch(PRINTED[module], capsys.readouterr().out)
