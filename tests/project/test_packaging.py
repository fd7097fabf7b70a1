"""What an index page shows of the package, and the page that says how to install it."""

import email
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTALLING = (ROOT / "docs" / "user_guide" / "installing.rst").read_text()
PREPARE = "from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel('out')"


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    """Build the metadata of the wheel from a copy, so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "ffnb_sklearn").mkdir()
    (folder / "out").mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "ffnb_sklearn/_version.py"):
        shutil.copy(ROOT / name, folder / name)
    subprocess.run([sys.executable, "-c", PREPARE], cwd=folder, check=True, capture_output=True)
    (found,) = folder.glob("out/*.dist-info/METADATA")
    return email.message_from_string(found.read_text(encoding="utf-8"))


def test_metadata_has_addresses(metadata):
    addresses = [line.split(", ")[1] for line in metadata.get_all("Project-URL")]
    assert addresses == list(PROJECT["urls"].values())
    citation = (ROOT / "CITATION.cff").read_text()
    assert [address for address in addresses if address not in citation] == []


def test_description_has_no_link_that_an_index_page_would_break(metadata):
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    text = metadata.get_payload()
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
    assert "![" not in text


def test_description_names_the_files_that_the_readme_links_to(metadata):
    text = metadata.get_payload()
    readme = (ROOT / "README.md").read_text()
    files = re.findall(r"(?<!!)\[[^]]+\]\((?!https)([^)#]+)\)", readme)
    assert len(files) > 5
    assert [name for name in files if name not in re.sub(r"\]\([^)]+\)", "", text)] == []
    assert "page on privacy (`docs/user_guide/privacy.rst`)" in " ".join(text.split())
    for block in re.findall(r"^```.*?^```", readme, re.DOTALL | re.M):
        assert block in text


def test_page_on_installing_lists_the_extras():
    rows = re.findall(r"^   \* - (``.*)$", INSTALLING, re.M)
    assert {name for row in rows for name in re.findall(r"``(\w+)``", row)} == set(
        PROJECT["optional-dependencies"]
    )


def test_page_on_installing_names_the_oldest_versions():
    required = {one.name: one for one in map(Requirement, PROJECT["dependencies"])}
    oldest = [specifier.version for specifier in required["torch"].specifier]
    assert re.findall(r"torch alone if it is version ([\d.]+) or later", INSTALLING) == oldest
    (python,) = re.findall(r"Python ([\d.]+) or later", INSTALLING)
    assert PROJECT["requires-python"] == f">={python}"
    for name in required.keys() - {"torch"}:
        assert name in INSTALLING.lower()


def test_ci_runs_the_commands_of_the_page():
    script = (ROOT / ".ci" / "package.py").read_text()
    marked = re.findall(r"^\.\. ci: (\w+)\n\n\.\. code-block:: console\n\n   \$ ", INSTALLING, re.M)
    assert len(marked) == 5
    assert [name for name in marked if f'"{name}"' not in script] == []
    assert ".ci/package.py" in (ROOT / ".ci" / "run").read_text()
