"""Recorded tables: long ones are folded, and the search leads to the explanations first.

The Markdown pages of the benchmarks are reports that scripts write. Their tables contain the words
of every method, so only their titles are in the index of the search.
"""

from pathlib import Path

from docutils import nodes

ROWS_SHOWN = 20


def fold(node, summary):
    """Put an element inside of a box that opens on a click."""
    parent = node.parent
    at = parent.index(node)
    opening = f'<details class="folded"><summary>{summary}</summary>'
    parent.insert(at + 1, nodes.raw("", "</details>", format="html"))
    parent.insert(at, nodes.raw("", opening, format="html"))


def treat_page(app, doctree):
    """Fold the conditions and the long tables of a report, and keep it out of the full text."""
    page = app.env.docname
    if not page.startswith("benchmarks/") or Path(app.env.doc2path(page)).suffix == ".rst":
        return
    app.env.metadata[page]["nosearch"] = True
    conditions = next(doctree.findall(nodes.bullet_list), None)
    if conditions is not None:
        fold(conditions, "Command, versions, and the meaning of the columns")
    for table in list(doctree.findall(nodes.table)):
        (body,) = table.findall(nodes.tbody)
        if len(body) > ROWS_SHOWN:
            fold(table, f"Table of {len(body)} rows")


def setup(app):
    """Register the event."""
    app.connect("doctree-read", treat_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
