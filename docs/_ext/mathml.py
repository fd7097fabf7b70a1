"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network.

Docutils translates the LaTeX. What it cannot translate becomes a warning of the build.
"""

import re
from html import escape

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)


def spell_out(formula):
    r"""Write what docutils misreads so that it does not: ``\dots``, ``\frac12``, ``\hat r_i``."""
    formula = re.sub(r"\\dots\b", r"\\ldots", formula)
    formula = re.sub(r"(\\[dt]?frac)\s*(\w)\s*(\w)", r"\1{\2}{\3}", formula)
    # An empty group keeps the index of a letter with an accent from getting under the letter.
    return re.sub(r"(\\(?:bar|hat|tilde)(?:\s*\\?[A-Za-z]+|\s*\{[^{}]*\}))_", r"\1{}_", formula)


def translate(node, *, as_block):
    """Return a formula as MathML, or as code where that fails."""
    formula = spell_out(node.astext())
    try:
        return tex2mathml(formula, as_block=as_block)
    except MathError as error:
        logger.warning("formula %r: %s", formula, error, location=node)
        return f"<code>{escape(formula)}</code>"


def visit_inline(translator, node):
    """Write a formula inside a line."""
    translator.body.append(translate(node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator, node):
    """Write a displayed formula, with its number where it has one."""
    translator.body.append(translator.starttag(node, "div", CLASS="math notranslate"))
    translator.body.append(translate(node, as_block=True))
    if node["number"]:
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
