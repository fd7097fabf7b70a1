"""The page of public cases and the tests name the same threads."""

import re
from pathlib import Path

HERE = Path(__file__).parent
# A thread is named by its project and number.
THREAD = re.compile(r"[\w-]+ #\d+")


def test_the_page_lists_the_threads_of_each_file():
    rows = re.findall(r"^\| (.+?) \|.*\| `(\w+\.py)` \|$", (HERE / "README.md").read_text(), re.M)
    tested = {
        (thread, path.name)
        for path in HERE.glob("test_*.py")
        for thread in THREAD.findall(path.read_text())
    }
    assert len(rows) == len(set(rows))
    assert set(rows) == tested
    assert len(rows) >= 40
