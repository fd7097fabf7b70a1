"""Link pictures to their files, which a phone can enlarge, and give plots of docstrings a text."""

import re

PICTURE = r'<img [^>]*src="([^"]*_images/[^"]+)"[^>]*>'


def link_picture(match):
    """Return a picture inside a link to its file; thumbnails of the gallery have a link already."""
    picture, target = match.group(0, 1)
    if "_thumb." in target:
        return picture
    # Sphinx takes the name of the file if a plot has no text.
    picture = re.sub('alt="[^"]*_images/[^"]*"', 'alt="The plot of the example"', picture)
    return f'<a class="picture" href="{target}">{picture}</a>'


def link_pictures(app, page, template, context, doctree):
    """Link the pictures on a page."""
    if "body" in context:
        context["body"] = re.sub(PICTURE, link_picture, context["body"])


def setup(app):
    """Register the event."""
    app.connect("html-page-context", link_pictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
