"""Install packages that users combine with this one in a folder of their own, and test with them.

All other tests run without these packages, because pandas keeps strings in another way beside
pyarrow.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Requirements are listed too, because pip would install NumPy and SciPy a second time.
WITHOUT_REQUIREMENTS = [
    *["river", "skorch", "narwhals", "tabulate", "tqdm"],
    *["skrub", "requests", "urllib3", "idna", "certifi", "charset-normalizer"],
    *["rich", "markdown-it-py", "mdurl", "pygments"],
]
TESTS = [
    "tests/base/test_callbacks.py",
    "tests/inputs/test_arrays.py",
    "tests/inputs/test_arrays_arrow.py",
    "tests/inputs/test_labels.py",
    "tests/inputs/test_tables.py",
    "tests/pipeline/test_pipeline.py",
    "tests/project/test_recipes.py",
    "tests/public_cases/test_frames.py",
    "tests/public_cases/test_labels.py",
    "tests/streams/test_river.py",
]


def run(*arguments, **variables):
    """Run Python in the root of the project, and end with its status if it fails."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=False)
    if done.returncode:
        sys.exit(done.returncode)


project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
tables = project["optional-dependencies"]["tables"]
with tempfile.TemporaryDirectory() as folder:
    install = ["pip", "install", "-q", "--target", folder]
    run(*install, "-c", "constraints.txt", *tables)
    run(*install, "--no-deps", *WITHOUT_REQUIREMENTS)
    run("pytest", "-q", *TESTS, PYTHONPATH=folder)
