"""Install the extra `tables` apart from all other packages, and run tests of data frames beside it.

pandas keeps strings in another way beside pyarrow, so all other tests run without it.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = [
    "tests/inputs/test_arrays.py",
    "tests/inputs/test_arrays_arrow.py",
    "tests/inputs/test_labels.py",
    "tests/inputs/test_tables.py",
    "tests/pipeline/test_pipeline.py",
    "tests/public_cases/test_frames.py",
    "tests/public_cases/test_labels.py",
]


def run(*arguments, **variables):
    """Run Python in the root of the project, and end with its status if it fails."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=False)
    if done.returncode:
        sys.exit(done.returncode)


project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
with tempfile.TemporaryDirectory() as folder:
    requirements = project["optional-dependencies"]["tables"]
    run("pip", "install", "-q", "-c", "constraints.txt", "--target", folder, *requirements)
    run("pytest", "-q", *TESTS, PYTHONPATH=folder)
