"""The pages of the site: their code runs, and what they point at exists. Sphinx is not needed."""

import ast
import builtins
import doctest
import importlib
import os
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

import ffnb_sklearn
from ffnb_sklearn.core.bands.activations import ACTIVATIONS
from ffnb_sklearn.core.heads import HEADS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for folder in (".", "benchmarks", "contributing", "theory", "user_guide")
    for page in (DOCS / folder).glob("*.rst")
)
TEXTS = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
WITH_CODE = [name for name, text in TEXTS.items() if ">>> " in text]
ALL_TEXT = "\n".join(TEXTS.values())


def roles(text, kind):
    """Targets of all roles of a kind, such as ``:doc:`title <target>```."""
    inner = re.findall(rf":(?:{kind}):`([^`]+)`", text)
    return [re.sub(r"^.*<(.*)>$", r"\1", one, flags=re.DOTALL).lstrip("~") for one in inner]


def documented():
    """Full names of everything that the API page lists."""
    names, prefix = set(), ""
    for line in TEXTS["api.rst"].splitlines():
        if line.startswith(".. currentmodule:: "):
            prefix = line.split(":: ")[1]
        elif re.fullmatch(r" {3}[\w.]+", line):
            names.add(f"{prefix}.{line.strip()}")
    return names


def resolve(name):
    """Import what a dotted name stands for."""
    parts = name.split(".")
    for n_module in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n_module]))
        except ModuleNotFoundError:
            continue
        for part in parts[n_module:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def page_exists(page, target):
    """Whether a page that another one links to is there, or will be built from the examples."""
    path = Path(os.path.normpath((DOCS / page).parent / target))
    if path.parent == DOCS / "auto_examples":
        names = "plot_*.py" if path.name == "index" else f"{path.name}.py"
        return any((ROOT / "examples").glob(names))
    return path.with_suffix(".rst").is_file() or path.with_suffix(".md").is_file()


def image_exists(page, image):
    """Whether a picture is there, or will be drawn by an example."""
    drawn = re.fullmatch(r"\.\./auto_examples/images/sphx_glr_(plot_\w+)_\d{3}\.png", image)
    if drawn:
        return (ROOT / "examples" / f"{drawn[1]}.py").is_file()
    return ((DOCS / page).parent / image).is_file()


def toctree_entries(text):
    """Entries of the toctrees of a page, without patterns and titles."""
    blocks = re.findall(r"\.\. toctree::\n((?:(?: {3}.*)?\n)+)", text)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    entries = [line for line in lines if line and not line.startswith(":") and "*" not in line]
    return [re.sub(r"^.* <(.*)>$", r"\1", entry) for entry in entries]


@pytest.fixture
def default_dtype():
    """Give torch its default type back."""
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("default_dtype")
@pytest.mark.parametrize("page", WITH_CODE)
def test_code_on_page_runs(page):
    result = doctest.testfile(str(DOCS / page), module_relative=False, encoding="utf-8")
    assert result.attempted > 0
    assert result.failed == 0


def python_code(text):
    """Return the doctests and the blocks of Python on a page, in their order."""
    code = {}
    block = r"^\.\. code-block:: python\n\n((?: {3}.*\n|\n)+)"
    for match in re.finditer(block, text, flags=re.MULTILINE):
        code[text.count("\n", 0, match.start())] = textwrap.dedent(match[1])
    for example in doctest.DocTestParser().get_examples(text):
        code[example.lineno] = example.source
    return [code[line] for line in sorted(code)]


def names_of_code(tree):
    """Return the names that code reads, and the names that it defines or imports."""
    read, defined = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.add(node.id)
        elif isinstance(node, ast.Name):
            defined.add(node.id)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.alias):
            name = node.asname or node.name
            defined.add(name.partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler):
            defined.add(node.name)
    return read, defined


@pytest.mark.parametrize("page", sorted(TEXTS))
def test_code_on_page_imports_or_defines_what_it_uses(page):
    known = set(dir(builtins))
    for code in python_code(TEXTS[page]):
        read, defined = names_of_code(ast.parse(code))
        known |= defined
        assert read <= known


def test_pages_with_code_were_found():
    pages = {"index.rst", "theory/paper.rst", "theory/default.rst", "user_guide/privacy.rst"}
    assert pages <= set(WITH_CODE)


@pytest.mark.parametrize("name", sorted(ffnb_sklearn.__all__))
def test_public_name_is_on_api_page(name):
    if name == "__version__":
        assert "``ffnb_sklearn.__version__``" in TEXTS["api.rst"]
    else:
        assert f"ffnb_sklearn.{name}" in documented()


@pytest.mark.parametrize("room", ["baselines", "covariance", "datasets", "exceptions", "metrics"])
def test_public_names_of_a_module_are_on_api_page(room):
    names = importlib.import_module(f"ffnb_sklearn.{room}").__all__
    names = set(names) - set(ffnb_sklearn.__all__)
    assert {f"ffnb_sklearn.{room}.{name}" for name in names} <= documented()


@pytest.mark.parametrize("name", sorted(documented()))
def test_name_on_api_page_exists_and_is_described(name):
    assert resolve(name).__doc__


@pytest.mark.parametrize("page", sorted(TEXTS))
def test_names_cited_on_page_are_on_api_page(page):
    cited = set(roles(TEXTS[page], "func|class|meth|exc|attr|mod"))
    assert cited <= documented()


@pytest.mark.parametrize(
    "page",
    ["contributing/architecture.rst", "theory/index.rst", "theory/paper.rst", "theory/default.rst"],
)
def test_functions_of_the_core_on_page_exist_and_are_described(page):
    names = re.findall(r"``(core\.[\w.]+)``", TEXTS[page])
    assert names
    assert [name for name in names if not resolve(f"ffnb_sklearn.{name}").__doc__] == []


def test_files_on_the_page_on_the_architecture_exist():
    files = re.findall(r"``([\w/]+\.py)``", TEXTS["contributing/architecture.rst"])
    assert files
    folders = (ROOT, ROOT / "ffnb_sklearn")
    for name in files:
        assert any((folder / name).is_file() for folder in folders), name


@pytest.mark.parametrize("page", sorted(TEXTS))
def test_links_of_page_lead_somewhere(page):
    text = TEXTS[page]
    targets = roles(text, "doc") + toctree_entries(text)
    assert [target for target in targets if not page_exists(page, target)] == []
    labels = set(re.findall(r"^\.\. _([\w-]+):$", ALL_TEXT, flags=re.MULTILINE))
    assert set(roles(text, "ref")) <= labels
    equations = set(re.findall(r"^ +:label: (\w+)$", ALL_TEXT, flags=re.MULTILINE))
    assert set(roles(text, "eq")) <= equations
    images = re.findall(r"^\.\. (?:image|figure):: (\S+)$", text, flags=re.MULTILINE)
    assert [image for image in images if not image_exists(page, image)] == []


@pytest.mark.parametrize("page", sorted(TEXTS))
def test_works_cited_on_page_are_listed_there(page):
    cited = set(re.findall(r"\[(\w+)\]_", TEXTS[page]))
    listed = set(re.findall(r"^\.\. \[(\w+)\] ", TEXTS[page], flags=re.MULTILINE))
    assert cited == listed


def test_no_citation_becomes_a_list():
    # A citation of one line that starts with an initial, as in "A. Einstein", becomes item A.
    citations = re.findall(r"^\.\. \[\w+\] [A-Z]\. .*\n(?! )", ALL_TEXT, re.MULTILINE)
    assert citations == []


def test_every_page_is_in_a_toctree():
    entries = {
        ((DOCS / page).parent / entry).relative_to(DOCS).as_posix()
        for page, text in TEXTS.items()
        for entry in toctree_entries(text)
    }
    tables = {path.relative_to(DOCS).as_posix() for path in DOCS.glob("benchmarks/*.md")}
    pages = {name.rpartition(".")[0] for name in TEXTS.keys() | tables}
    assert pages - entries == {"index"}


def test_page_on_parameters_describes_each_parameter_once():
    page = TEXTS["user_guide/parameters.rst"]
    terms = re.findall(r"^(`.*`)\n   ", page, flags=re.MULTILINE)
    names = [name for term in terms for name in re.findall(r"`(\w+)`", term)]
    # The published model has all parameters: those of both classifiers, and two of its own.
    published = set(ffnb_sklearn.FFNBClassifier.as_published().get_params())
    both = set(ffnb_sklearn.FFNBClassifier().get_params())
    both |= set(ffnb_sklearn.IncrementalDiscriminantAnalysis().get_params())
    assert published - both == {"units", "half_bias"}
    assert sorted(names) == sorted(published | both)
    (options,) = re.findall(r"The options of `Bands`:\n(.*?)\n[A-Z]", page, flags=re.DOTALL)
    names = re.findall(r"``(\w+)``", options)
    assert sorted(names) == sorted(ffnb_sklearn.Bands().get_params())


@pytest.mark.parametrize("name", sorted(HEADS))
def test_head_is_on_the_page_on_parameters_and_on_a_page_of_theory(name):
    assert f'"{name}"' in TEXTS["user_guide/parameters.rst"]
    module = HEADS[name].__module__.removeprefix("ffnb_sklearn.")
    theory = [text for page, text in TEXTS.items() if page.startswith("theory/")]
    assert any(f"``{module}." in text for text in theory)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activation_is_in_the_docstrings(activation):
    for public in (ffnb_sklearn.Bands, ffnb_sklearn.NaiveIncrementalClassifier):
        assert f'"{activation}"' in public.__doc__


def test_site_fetches_nothing():
    sources = [DOCS / "conf.py", *DOCS.glob("_*/**/*.*")]
    remote = [
        path.name
        for path in sources
        if path.suffix in {".py", ".css", ".js", ".rst", ".html"}
        and "_build" not in path.parts
        and re.search(r"https?://|intersphinx", path.read_text(encoding="utf-8"))
    ]
    assert remote == []


PLOTS = re.findall(r"^\.\. plot:: figures/(\w+)\.py (\w+)$", ALL_TEXT, flags=re.MULTILINE)


def test_pages_show_all_figures():
    defined = [
        (path.stem, name)
        for path in (DOCS / "figures").glob("*.py")
        for name in re.findall(r"^def (draw_\w+)\(\):", path.read_text(), flags=re.MULTILINE)
    ]
    assert sorted(PLOTS) == sorted((stem, name) for stem, name in defined)


@pytest.mark.parametrize(("stem", "name"), PLOTS)
def test_figure_is_drawn(stem, name, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = importlib.import_module("matplotlib.pyplot")
    # As Sphinx does it: in the folder of the file, and without __file__.
    monkeypatch.chdir(DOCS / "figures")
    functions = {}
    exec(Path(f"{stem}.py").read_text(encoding="utf-8"), functions)
    try:
        functions[name]()
        figure = plt.gcf()
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())
    finally:
        plt.close("all")
    assert len(np.unique(pixels.reshape(-1, 4), axis=0)) > 50
