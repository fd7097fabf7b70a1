"""Settings of the Sphinx site. Nothing is fetched, neither by the build nor by the pages.

README.md has the command that builds the site.
"""

import sys
from importlib.metadata import metadata
from pathlib import Path

import ffnb_sklearn

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "ffnb_sklearn"
author = "The ffnb_sklearn developers"
copyright = author
version = release = ffnb_sklearn.__version__

extensions = [
    "api_groups",
    "line_ends",
    "mathml",
    "pictures",
    "table_pages",
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinx_llms_txt",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
# As scikit-learn has it: single backticks in docstrings are code.
default_role = "literal"

autosummary_generate = True
autodoc_typehints = "none"
# The contents at the right have room for the name of a method, not for its class as well.
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
# Examples that import matplotlib show their picture.
numpydoc_use_plots = True
plot_formats = [("png", 110)]
plot_include_source = True
plot_html_show_formats = False
plot_html_show_source_link = False
plot_rcparams = {"figure.figsize": (5.6, 3.6), "figure.constrained_layout.use": True}
# numpydoc links the attributes of scikit-learn's Pipeline, which autodoc skips, to any namesakes.
suppress_warnings = ["ref.python"]
myst_heading_anchors = 3
# Values in quotes and options with two dashes are code: they stay as they are typed.
smartquotes = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "within_subsection_order": "gallery_order.QuickstartFirst",
    "doc_module": ("ffnb_sklearn",),
    "backreferences_dir": None,
    # Pages show what a script prints, and no values of expressions.
    "capture_repr": (),
    "show_memory": False,
    # The seconds of one build say little about the reader's machine.
    "min_reported_time": 3600,
    "show_signature": False,
    # That page would load its table script from the network.
    "write_computation_times": False,
    "abort_on_example_error": True,
    "thumbnail_size": (560, 360),
}

# A copied example has neither prompts nor output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "ffnb_sklearn"
# Address of the site, for canonical links: pyproject.toml has it as soon as there is one.
project_urls = [entry.split(", ") for entry in metadata("ffnb_sklearn").get_all("Project-URL")]
html_baseurl = dict(project_urls).get("Documentation", "")
html_favicon = "_static/logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
# llms.txt links to the sources of the pages.
html_copy_source = True
html_theme_options = {
    "logo": {
        "text": "ffnb_sklearn",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}
# Pages without parts of their own would otherwise show an empty column, and pages that list their
# parts would list them twice.
html_sidebars = {"index": [], "api": [], "changelog": [], "metrics": []}
html_sidebars |= {f"{part}/index": [] for part in ("user_guide", "auto_examples", "benchmarks")}
html_sidebars["reliability"] = []
html_sidebars["contributing/architecture"] = []
html_sidebars["roadmap"] = []
html_sidebars["generated/*"] = ["api_groups.html"]


def skip_foreign(app, what, name, obj, skip, options):
    """Leave out what scikit-learn's classes bring along: that text links to pages of its own."""
    # The docstring of a named tuple describes its fields; other members are those of any tuple.
    if hasattr(tuple, name) or str(obj.__doc__).startswith("Alias for field number"):
        return True
    module = getattr(getattr(obj, "fget", obj), "__module__", None)
    return True if module and not module.startswith("ffnb_sklearn") else None


def setup(app):
    """Register what cannot be a setting."""
    app.connect("autodoc-skip-member", skip_foreign)
