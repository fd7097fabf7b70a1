"""The files around the package: they exist, agree with each other, and tell the truth."""

import ast
import io
import os
import re
import runpy
import subprocess
import tokenize
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from ffnb_sklearn import __version__

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
CI = ROOT / ".ci" / "run"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def readme_command(name):
    """Return the block of the README behind a mark, which must be there once, with one line."""
    blocks = re.findall(rf"^<!-- ci: {name} -->\n```bash\n(.*?)^```", README, re.DOTALL | re.M)
    assert len(blocks) == 1
    assert blocks[0].count("\n") == 1
    return blocks[0].strip()


def constraints():
    """Return the pinned version of each package."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def requirements(*extras):
    """Return what the package and some of its extras require."""
    optional = PROJECT["optional-dependencies"]
    texts = PROJECT["dependencies"] + [text for extra in extras for text in optional[extra]]
    return [Requirement(text) for text in texts]


@cache
def tracked_files():
    """Return the text files under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout, so the project's own files cannot be told from others")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    binary = {".gif", ".png", ".ffnb", ".pt"}
    return [path for path in paths if path.is_file() and path.suffix not in binary]


@cache
def names_of_tracked_files():
    """Return the names of the text files under version control, without their folders."""
    return {path.name for path in tracked_files()}


def test_setup_line_installs_the_pinned_versions_and_runs_the_quickstart():
    command = readme_command("setup")
    assert "-m venv .venv" in command
    assert "-c constraints.txt" in command
    (script,) = re.findall(r"examples/\w+\.py", command)
    assert (ROOT / script).is_file()
    (extras,) = re.findall(r'-e "\.\[([\w,]+)\]"', command)
    assert {"test", "lint"} <= set(extras.split(","))


def test_test_line_runs_pytest_of_the_virtual_environment():
    assert readme_command("test").startswith(".venv/bin/python -m pytest")


@pytest.mark.skipif(os.name != "posix", reason="the script is for bash")
@pytest.mark.parametrize("name", ["setup", "test"])
def test_ci_reads_its_commands_from_the_readme(name):
    (function,) = re.findall(r"^readme_command\(\) \{.*?^\}$", CI.read_text(), re.DOTALL | re.M)
    done = subprocess.run(
        ["bash", "-euc", f"{function}\nreadme_command {name}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == readme_command(name)


@pytest.mark.skipif(os.name != "posix", reason="the script is for bash")
def test_ci_stops_where_the_readme_has_no_command():
    (function,) = re.findall(r"^readme_command\(\) \{.*?^\}$", CI.read_text(), re.DOTALL | re.M)
    done = subprocess.run(
        ["bash", "-euc", f"{function}\nreadme_command absent"], cwd=ROOT, capture_output=True
    )
    assert done.returncode == 1
    assert b"<!-- ci: absent -->" in done.stderr


def test_ci_is_executable_and_has_no_command_of_its_own():
    text = CI.read_text()
    assert os.access(CI, os.X_OK)
    assert "set -euo pipefail" in text
    assert "rm -rf .venv\n" in text
    assert "pytest" not in text
    assert "pip install" not in text
    for tool in ("ruff check", "ruff format --check", "mypy"):
        assert f".venv/bin/{tool}" in text


def hosted_commands():
    """Return all commands of the hosted continuous integration."""
    commands = []
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        for job in workflow["jobs"].values():
            commands += [step["run"] for step in job.get("steps", ()) if "run" in step]
    return commands


def test_hosted_ci_runs_files_and_commands_that_exist():
    commands = hosted_commands()
    scripts = {name for command in commands for name in re.findall(r"(?<!\S)\.ci/\S+", command)}
    assert scripts == {".ci/run", ".ci/readme.py", ".ci/versions.py"}
    assert [name for name in scripts if not (ROOT / name).is_file()] == []
    names = set()
    for command in commands:
        _, found, arguments = command.partition(".ci/readme.py ")
        if found:
            names.update(arguments.split())
    assert names == {"setup", "test", "docs"}
    for command in commands:
        assert "pytest" not in command
        assert "pip install" not in command


def test_hosted_ci_reads_the_commands_of_the_readme():
    script = runpy.run_path(str(ROOT / ".ci" / "readme.py"))
    for name in ("setup", "test", "smoke", "docs"):
        assert script["readme_command"](name) == readme_command(name)
    with pytest.raises(SystemExit, match="<!-- ci: absent -->"):
        script["readme_command"]("absent")


def test_hosted_ci_runs_commands_without_a_shell(monkeypatch):
    done = []

    def record(command, **options):
        done.append((Path(command[0]).name, command[1:]))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("subprocess.run", record)
    monkeypatch.setattr("sys.argv", ["readme.py", "smoke", "docs"])
    runpy.run_path(str(ROOT / ".ci" / "readme.py"), run_name="__main__")
    suffix = ".exe" if os.name == "nt" else ""
    assert [program for program, _ in done] == [
        f"python{suffix}",
        f"python{suffix}",
        f"sphinx-build{suffix}",
    ]
    assert done[0][1] == ["-m", "pytest", "-q", "-n", "2", "-m", "smoke"]
    assert done[1][1][-1] == ".[docs]"


def test_files_of_the_hosting_service_are_yaml():
    paths = sorted((ROOT / ".github").rglob("*.yml"))
    contents = {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}
    assert contents["dependabot.yml"]["version"] == 2
    for form in ("bug.yml", "feature.yml"):
        assert {"name", "description", "body"} <= contents[form].keys()


def test_hosted_ci_covers_the_versions_of_python_in_the_metadata():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    versions = set(re.findall(r'python(?:-version)?: "(3\.\d+)"', text))
    stem = "Programming Language :: Python :: "
    named = {name.removeprefix(stem) for name in PROJECT["classifiers"] if stem in name}
    assert versions == named - {"3", "3 :: Only"}


def test_a_release_is_published_after_all_tests():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["tests"] == {"uses": "./.github/workflows/tests.yml"}
    assert jobs["build"]["needs"] == "tests"
    assert jobs["publish"]["needs"] == "build"


def test_smoke_selection_covers_each_room():
    files = runpy.run_path(str(ROOT / "tests" / "conftest.py"))["SMOKE"]
    assert [name for name in files if not (ROOT / name).is_file()] == []
    rooms = {path.parent.name.lstrip("_") for path in (ROOT / "ffnb_sklearn").glob("*/__init__.py")}
    assert rooms <= {name.split("/")[1] for name in files}


def test_pinned_versions_satisfy_the_lower_bounds():
    pinned = constraints()
    for requirement in requirements("plot", "test", "lint"):
        assert requirement.specifier.contains(pinned[requirement.name]), requirement
    for requirement in requirements("docs"):
        version = pinned.get(requirement.name)
        assert version is None or requirement.specifier.contains(version), requirement


def test_dependencies_have_lower_bounds_only():
    for requirement in requirements(*PROJECT["optional-dependencies"]):
        operators = [specifier.operator for specifier in requirement.specifier]
        assert operators == [">="], requirement


def test_torch_reads_checkpoints_safely():
    # weights_only=True: CVE-2025-32434 up to 2.5.1, CVE-2026-24747 before 2.10.
    (torch,) = (one for one in requirements() if one.name == "torch")
    assert not any(torch.specifier.contains(version) for version in ("2.5.1", "2.9.1"))


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.+)$", citation, re.M) == [__version__]
    entries = {}
    for page in ("README.md", "docs/citing.rst"):
        text = (ROOT / page).read_text()
        assert re.findall(r"version = \{(.+)\}", text) == [__version__]
        # The same lines, apart from their indentation.
        entries[page] = re.findall(r"^ *(?:@|\w+ +=)(.+)$", text[text.index("@misc") :], re.M)
    assert entries["README.md"] == entries["docs/citing.rst"]
    release = __version__.partition(".dev")[0]
    assert release in (ROOT / "CHANGELOG.md").read_text()
    assert PROJECT["dynamic"] == ["readme", "version"]


def test_licences_agree():
    name = PROJECT["license"]
    assert f"license: {name}\n" in (ROOT / "CITATION.cff").read_text()
    licence = (ROOT / "LICENSE").read_text()
    assert licence.startswith("BSD 3-Clause License\n")
    assert PROJECT["authors"][0]["name"] in licence


@pytest.mark.parametrize(
    ("name", "tolerance"), [("FFNBClassifier", 0.001), ("IncrementalDiscriminantAnalysis", 0.005)]
)
def test_example_of_the_readme(name, tolerance, capsys):
    (code,) = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.M)
    (shown,) = re.findall(r"^```text\n(.*?)^```", README, re.DOTALL | re.M)
    code = code.replace("FFNBClassifier", name)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 5
    for line, shown_line in zip(printed, shown.splitlines(), strict=True):
        labels, accuracy = line.rsplit(maxsplit=1)
        shown_labels, shown_accuracy = shown_line.rsplit(maxsplit=1)
        assert labels == shown_labels
        # A single sample of the 450 changes the accuracy by 0.002.
        difference = float(accuracy) - float(shown_accuracy)
        assert difference == pytest.approx(0.0, abs=tolerance)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md"])
def test_links_lead_to_files(name):
    targets = re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text())
    local = [target for target in targets if "://" not in target]
    assert local
    assert [target for target in local if not (ROOT / target.split("#")[0]).exists()] == []


def joined_lines(text):
    """Return a text without breaks; a citation may be broken before a sign of a comment."""
    return re.sub(r"\s+(?:#\s+)?", " ", text)


def prose_of(code):
    """Return the comments and docstrings of a module as one text."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    texts = [token.string for token in tokens if token.type == tokenize.COMMENT]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, documented)]
    texts += [ast.get_docstring(node, clean=False) or "" for node in nodes]
    return joined_lines("\n".join(texts))


def dead_citations(prose):
    """Return the files, modules, pages and headings that a text names and that do not exist."""
    rooms = "docs|benchmarks|tests|examples|ffnb_sklearn"
    dead = []
    for path in re.findall(rf"(?<![\w./-])(?:{rooms})/[\w./-]*\w", prose):
        if not (ROOT / path).exists():
            dead.append(path)
    for path in re.findall(r"(?<![\w./-])[A-Z]{4,}\.md\b", prose):
        if not (ROOT / path).is_file():
            dead.append(path)
    for name in re.findall(r"`(\w+\.py)`", prose):
        if name not in names_of_tracked_files():
            dead.append(name)
    for name in re.findall(r"python -m ((?:benchmarks|tests)(?:\.\w+)+)", prose):
        module = ROOT / name.replace(".", "/")
        if not module.with_suffix(".py").is_file() and not (module / "__main__.py").is_file():
            dead.append(name)
    for page in re.findall(r":doc:`(?:[^`]*<)?/([^`>]+)>?`", prose):
        if not (ROOT / "docs" / f"{page}.rst").is_file():
            dead.append(page)
    for path, title in re.findall(r"\b(docs/[\w/]+\.rst)[ ,(]+\"([^\"]+)\"", prose):
        if f"\n{title}\n" not in (ROOT / path).read_text(encoding="utf-8"):
            dead.append(f"{path}, {title}")
    return dead


def test_dead_citations_are_found():
    prose = prose_of(
        '"""Run python -m benchmarks.gone (docs/gone.md), as in `gone.py`."""\n'
        "# See docs/theory/default.rst\n"
        '# ("Gone"), GONE.md and :doc:`a page </user_guide/gone>`.\n'
        "# docs/user_guide/privacy.rst, CONTRIBUTING.md and benchmarks/lib are there.\n"
        'text = "docs/no/comment.md"\n'
    )
    assert dead_citations(prose) == [
        "docs/gone.md",
        "GONE.md",
        "gone.py",
        "benchmarks.gone",
        "user_guide/gone",
        "docs/theory/default.rst, Gone",
    ]


def test_comments_and_docstrings_name_files_that_exist():
    rooms = {"ffnb_sklearn", "benchmarks", "tests", "examples"}
    files = [
        path
        for path in tracked_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in rooms
    ]
    assert len(files) > 100
    dead = {}
    for path in files:
        code = path.read_text(encoding="utf-8")
        # Few files have anything like a dead citation, and separating the prose takes time.
        if dead_citations(joined_lines(code)):
            dead[str(path)] = dead_citations(prose_of(code))
    assert {path: names for path, names in dead.items() if names} == {}


def test_promises_of_security_name_test_files():
    rows = [line for line in (ROOT / "SECURITY.md").read_text().splitlines() if line[:2] == "| "]
    named = [re.findall(r"`(tests/[\w/]+\.py)`", row.rsplit("|", 2)[1]) for row in rows]
    # Rows without a test promise nothing, or are headings.
    promises = [files for row, files in zip(rows, named, strict=True) if "Nothing" not in row]
    assert [files for files in promises if not files] == [[], []]
    assert [file for files in named for file in files if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize(
    ("name", "most_bytes"), [("quickstart.png", 150_000), ("regions.gif", 1_000_000)]
)
def test_picture_is_small(name, most_bytes):
    size = (ROOT / "docs" / "images" / name).stat().st_size
    assert 10_000 < size < most_bytes


def manifest(command):
    """Return what the lines of MANIFEST.in with a command name."""
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines()]
    return {name for first, *names in lines if first == command for name in names}


def test_a_source_distribution_holds_what_the_tests_need():
    # What setuptools adds of itself, and what is of use in a checkout alone.
    given = {"pyproject.toml", "setup.cfg", "setup.py", "README.md", "LICENSE", "MANIFEST.in"}
    given |= {".gitignore", ".pre-commit-config.yaml"} | manifest("include")
    names = {path.relative_to(ROOT) for path in tracked_files()}
    folders = manifest("graft") | {"ffnb_sklearn"}
    assert {str(n) for n in names if n.parts[0] not in folders} - given == set()
    ignored = set((ROOT / ".gitignore").read_text().splitlines())
    made = {name.rstrip("/") for name in ignored if name.startswith("docs/")}
    assert manifest("prune") | manifest("exclude") == made


def test_no_file_names_a_registry_or_a_place_on_one_machine():
    # Written in pieces, so that this file does not name them either.
    registries = ("pypi", "pythonhosted", "npmjs", "anaconda")
    folders = ("root", "work", "home")
    hosts = [rf"\b{name}\.org\b" for name in registries]
    places = [rf"(?<![\w.>)-])/{folder}/" for folder in folders]
    forbidden = re.compile("|".join(hosts + places))
    assert forbidden.search("https://files.pythonhosted" + ".org/x")
    assert forbidden.search("in '" + "/work" + "/data'")
    # A plain search first, because the expression is slow in files of records.
    words = [f"{name}.org" for name in registries] + [f"/{folder}/" for folder in folders]
    found = {}
    for path in tracked_files():
        text = path.read_text()
        if any(word in text for word in words):
            found[path] = forbidden.search(text)
    assert {str(path): match[0] for path, match in found.items() if match} == {}
