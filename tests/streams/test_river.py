"""The snippet of the page "One row at a time" that uses river, where river is installed."""

import re
import textwrap
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "user_guide" / "one_row.rst"


def snippet(word):
    """Return the only block of Python on the page that contains a word."""
    blocks = re.findall(
        r"^\.\. code-block:: python\n\n((?:(?: {3}.*)?\n)+)", PAGE.read_text("utf-8"), re.MULTILINE
    )
    (found,) = [textwrap.dedent(block) for block in blocks if word in block]
    return found


def test_snippet_with_river_runs(capsys):
    pytest.importorskip("river")
    names = {}
    exec(snippet("convert_sklearn_to_river"), names)
    assert names["metric"].get() > 0.6
    assert capsys.readouterr().out.startswith("Accuracy: ")


def test_snippet_with_capymoa_is_python():
    compile(snippet("SKClassifier"), "one_row.rst", "exec")
