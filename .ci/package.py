"""Build the source distribution and the wheel, and use them outside the checkout.

The commands are those of the page "Installing", behind the comments ``.. ci: NAME``. They run in
the unpacked source distribution, with the versions of constraints.txt, in a new environment.

    python3 .ci/package.py
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Tests of the estimators, and of the rooms that read data files, which a wheel may lack.
TESTS = [
    "tests/base/test_state.py",
    "tests/baselines/test_base.py",
    "tests/datasets/test_base.py",
    "tests/saving/test_golden.py",
    "tests/skeletons/test_descriptor.py",
    "tests/streams/test_evaluation.py",
    "tests/test_metrics.py",
    "tests/test_exactness.py",
]
README_EXAMPLE = r"^```python\n(.*?)^```"
RUN_PAGE = "import doctest, sys; sys.exit(doctest.testfile(sys.argv[1], False).failed)"


def commands(page, name):
    """Return the shell commands of the code block behind a mark of a page."""
    mark = rf"^\.\. ci: {name}\n\n\.\. code-block:: console\n\n((?: {{3}}.*\n)+)"
    (block,) = re.findall(mark, page.read_text(encoding="utf-8"), re.MULTILINE)
    return re.findall(r"^ {3}\$ (.+)$", block, re.MULTILINE)


def run(*command, cwd, env=None):
    """Print a command and run it; end the script if it fails."""
    print("==", *command, flush=True)
    subprocess.run(command, cwd=cwd, env=env, check=True, stdin=subprocess.DEVNULL)


def build(folder, env):
    """Build both distributions, the wheel from the source distribution, and unpack the latter.

    They are built from a copy, because another installation may use the checkout at the same time.
    """
    copy = folder / "checkout"
    ignored = shutil.ignore_patterns(".git", ".venv", ".*_cache", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=ignored)
    run("python", "-m", "pip", "install", "-q", "build", "setuptools", cwd=folder, env=env)
    run("python", "-m", "build", "-n", f"--outdir={folder}", copy, cwd=folder, env=env)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def environment(folder):
    """Return the variables of a new virtual environment, into which no checkout reaches."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    own["PATH"] = f"{folder / 'bin'}{os.pathsep}{own['PATH']}"
    own["PIP_CONSTRAINT"] = str(ROOT / "constraints.txt")
    return own


def first_steps(source, elsewhere, env):
    """Run what a newcomer reads first, in an empty folder, without matplotlib."""
    (example,) = re.findall(README_EXAMPLE, (source / "README.md").read_text(), re.DOTALL | re.M)
    run("python", "-c", example, cwd=elsewhere, env=env)
    for page in ("index", "user_guide/tasks", "user_guide/saving"):
        run("python", "-c", RUN_PAGE, source / "docs" / f"{page}.rst", cwd=elsewhere, env=env)


def main():
    """Go the newcomer's path from the sources to the first picture, then test what is installed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = environment(folder / "environment")
        source = build(folder, env)
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        # The installed package must do without its sources.
        pages = source / "docs" / "user_guide" / "installing.rst"
        for block in ("wheel", "install", "check"):
            for command in commands(pages, block):
                run("bash", "-euc", command, cwd=source, env=env)
        shutil.rmtree(source / "ffnb_sklearn")
        first_steps(source, elsewhere, env)
        for command in [*commands(pages, "plot"), *commands(pages, "test")]:
            run("bash", "-euc", command, cwd=source, env=env)
        script = source / "examples" / "plot_quickstart.py"
        run("python", script, "quickstart.png", cwd=elsewhere, env=env)
        run("python", "-m", "pytest", "-q", *TESTS, cwd=source, env=env)


if __name__ == "__main__":
    main()
