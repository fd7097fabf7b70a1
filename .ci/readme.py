"""Run commands of the README, on any system: the lines behind the comments ``<!-- ci: NAME -->``.

    python .ci/readme.py setup test

They run without a shell, with the Python of this script in place of ``python3``.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def readme_command(name):
    """Return the only line of the code block behind a mark of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(rf"^<!-- ci: {name} -->\n```bash\n(.+)\n```$", text, re.MULTILINE)
    if len(blocks) != 1:
        sys.exit(f"README.md must have one code block of one line behind <!-- ci: {name} -->")
    return blocks[0]


def program_path(program):
    """Return the path of a program of a command on this system."""
    if program == "python3":
        return sys.executable
    path = ROOT / program
    if os.name == "nt":
        path = path.parents[1] / "Scripts" / f"{path.name}.exe"
    return str(path)


def main():
    """Run the commands in turn; end with the status of the first that fails."""
    for name in sys.argv[1:]:
        for command in readme_command(name).split(" && "):
            print("==", command, flush=True)
            program, *arguments = shlex.split(command)
            done = subprocess.run([program_path(program), *arguments], cwd=ROOT, check=False)
            if done.returncode:
                sys.exit(done.returncode)


if __name__ == "__main__":
    main()
