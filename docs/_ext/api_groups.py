"""A short sidebar of the pages of single names: the groups of the API page, not all names."""

from docutils import nodes


def add_groups(app, page, template, context, doctree):
    """Give the sidebar's template the headings of the API page with their anchors."""
    (page_item,) = app.env.tocs["api"]
    references = [next(item.findall(nodes.reference)) for item in page_item[1]]
    context["api_groups"] = [(one.astext(), one["anchorname"]) for one in references]


def setup(app):
    """Register the event."""
    app.connect("html-page-context", add_groups)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
