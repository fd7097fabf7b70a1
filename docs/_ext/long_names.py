"""Long names in the text break after a dot, a slash or an underscore; options never break."""

import re


def with_breaks(match):
    """Return a word of code with the places where a line may end."""
    start, word, end = match.groups()
    if word.startswith("--"):
        start = '<span class="pre option">'
    elif len(word) > 20:
        word = re.sub(r"(?<=[^\W_])([./:]|_+)(?=[^\W_])", r"\1<wbr>", word)
    return start + word + end


def break_names(app, page, template, context, doctree):
    """Treat each word of code on a page."""
    if "body" in context:
        pattern = '(<span class="pre">)([^<]+)(</span>)'
        context["body"] = re.sub(pattern, with_breaks, context["body"])


def setup(app):
    """Register the event."""
    app.connect("html-page-context", break_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
