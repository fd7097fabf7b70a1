"""Links from the HTML representation of an estimator to its documentation."""

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

__all__ = ["DocumentedMixin"]


@cache
def addresses():
    """Return the web addresses of the project by name, from the installed metadata."""
    try:
        lines = metadata("ffnb_sklearn").get_all("Project-URL") or []
    except PackageNotFoundError:
        return {}
    return dict(line.split(", ", 1) for line in lines)


class DocumentedMixin:
    """Let scikit-learn's HTML representation link to the page of the estimator.

    The link leads to the documentation, or to the paper as long as the documentation has no public
    address. If there is a link, scikit-learn shows the descriptions of parameters as tooltips.
    """

    _doc_link_module = "ffnb_sklearn"

    @property
    def _doc_link_template(self):
        found = addresses()
        if "Documentation" in found:
            site = found["Documentation"].rstrip("/")
            return f"{site}/generated/ffnb_sklearn.{{estimator_name}}.html"
        return found.get("Paper", "")
