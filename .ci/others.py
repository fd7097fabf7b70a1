"""Install river, skorch, skrub and rich apart from all others, and run the tests that use them."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = [
    "tests/project/test_recipes.py",
    "tests/streams/test_river.py",
    "tests/base/test_callbacks.py",
]


def run(*arguments, **variables):
    """Run Python in the root of the project, and end with its status if it fails."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=False)
    if done.returncode:
        sys.exit(done.returncode)


with tempfile.TemporaryDirectory() as folder:
    # Without their requirements, because pip would install NumPy and SciPy a second time.
    requirements = ["river", "skorch", "narwhals", "tabulate", "tqdm"]
    requirements += ["skrub", "requests", "urllib3", "idna", "certifi", "charset-normalizer"]
    requirements += ["rich", "markdown-it-py", "mdurl", "pygments"]
    run("pip", "install", "-q", "--no-deps", "--target", folder, *requirements)
    run("pytest", "-q", *TESTS, PYTHONPATH=folder)
