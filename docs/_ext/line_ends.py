"""Lines end inside long names, but neither inside options nor beside a plus-minus."""

import re


def with_breaks(match):
    """Return a word of code with the places where a line may end."""
    start, word, end = match.groups()
    if word.startswith("--"):
        start = '<span class="pre option">'
    elif len(word) > 20:
        word = re.sub(r"(?<=[^\W_])([./:]|_+)(?=[^\W_])", r"\1<wbr>", word)
        word = re.sub(r"(?<=[a-z])(?=[A-Z])", "<wbr>", word)
    return start + word + end


def set_line_ends(app, page, template, context, doctree):
    """Treat the words of code and the deviations on a page."""
    if "body" in context:
        body = context["body"].replace(" ± ", "&nbsp;±&nbsp;")
        context["body"] = re.sub('(<span class="pre">)([^<]+)(</span>)', with_breaks, body)


def setup(app):
    """Register the event."""
    app.connect("html-page-context", set_line_ends)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
