"""Run the tests with the lowest or with the newest releases of the dependencies.

    .venv/bin/python .ci/versions.py lowest
    .venv/bin/python .ci/versions.py newest tests/test_common.py  # these tests alone

The lowest are those that pyproject.toml names. Torch has the version of constraints.txt, the only
one in its small CPU build. If the newest are those of constraints.txt, there is nothing to test.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PINNED = "torch"
# Unknown to the lowest releases: matplotlib 3.10.0 calls names that pyparsing 3.3 warns of.
THEN = ("pyparsing<3.3",)


def bounds():
    """Return the lower bounds of the package and its tests, by the name with its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    return dict(one.split(">=") for one in stated)


def tested():
    """Return the versions of constraints.txt, by name."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def run(*command, **options):
    """Print a command and run it; end the script if it fails."""
    print("==", *command, flush=True)
    return subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, **options)


def requirements(which):
    """Return what pip is asked for."""
    pinned = f"{PINNED}=={tested()[PINNED]}"
    if which == "newest":
        return [pinned, *(name for name in bounds() if name != PINNED)]
    return [pinned, *(f"{name}=={low}" for name, low in bounds().items() if name != PINNED), *THEN]


def installed(python):
    """Return the versions in an environment, by name."""
    listed = run(python, "-m", "pip", "freeze", "--all", capture_output=True, text=True).stdout
    pairs = (line.split("==") for line in listed.splitlines() if "==" in line)
    # Without the local part of a version, such as +cpu.
    return {name: version.split("+")[0] for name, version in pairs}


def main():
    """Make the environment, and test the checkout in it."""
    which, *tests = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", folder)
        python = f"{folder}/bin/python"
        run(python, "-m", "pip", "install", "-q", *requirements(which))
        found = installed(python)
        names = {re.sub(r"\[.*", "", name) for name in bounds()}
        known = {name: version for name, version in tested().items() if name in names}
        others = {name: found[name] for name in sorted(known) if found[name] != known[name]}
        print(which, *(f"{name}=={version}" for name, version in others.items()), flush=True)
        if others:
            environment = {**os.environ, "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}"}
            run(python, "-m", "pytest", "-q", "-n", "2", *tests, env=environment)


if __name__ == "__main__":
    main()
