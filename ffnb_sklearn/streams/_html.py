"""Small pictures and tables for notebooks: HTML without scripts, in the colours of the page."""

from html import escape

import numpy as np

__all__ = ["MOST_ROWS", "cells_of", "curve_of", "figure_of", "heading", "table_of", "text_cells"]

# Most tasks or classes that a notebook shows as a table.
MOST_ROWS = 20

# Size of the picture of a curve in pixels, and its margin for the labels of the axis.
_WIDTH = 320
_HEIGHT = 120
_MARGIN = 36

_CELL = "padding:2px 6px;text-align:right"


def heading(text):
    """Return a line of text."""
    return f"<div>{escape(text)}</div>"


def figure_of(*parts):
    """Return parts one below the other."""
    return f'<div style="overflow-x:auto">{"".join(parts)}</div>'


def curve_of(shares, name="accuracy after each task"):
    """Return a picture of shares at even steps, from 0 to 100 %."""
    n_steps = len(shares)
    steps = np.arange(n_steps) / max(n_steps - 1, 1)
    x = _MARGIN + steps * (_WIDTH - _MARGIN - 8)
    y = 8 + (1.0 - np.asarray(shares)) * (_HEIGHT - 16)
    points = [f"{left:.1f},{top:.1f}" for left, top in zip(x, y, strict=True)]
    marks = [
        f'<circle cx="{left:.1f}" cy="{top:.1f}" r="2.5"/>' for left, top in zip(x, y, strict=True)
    ]
    bottom = _HEIGHT - 8
    lines = [
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" style="display:block"'
        f' aria-label="{name}" fill="currentColor">',
        f'<path d="M{_MARGIN} 8V{bottom}H{_WIDTH}" fill="none" stroke="currentColor"/>',
        '<g font-size="10" text-anchor="end">',
        f'<text x="{_MARGIN - 4}" y="12">100 %</text>',
        f'<text x="{_MARGIN - 4}" y="{bottom}">0 %</text>',
        "</g>",
        f'<polyline points="{" ".join(points)}" fill="none" stroke="#1f77b4" stroke-width="2"/>',
        f'<g fill="#1f77b4">{"".join(marks)}</g>',
        "</svg>",
    ]
    return "".join(lines)


def cells_of(accuracies):
    """Return a cell for each accuracy, the darker the nearer to the highest; NaN is empty."""
    lowest = np.nanmin(accuracies)
    spread = np.nanmax(accuracies) - lowest
    cells = []
    for accuracy in np.ravel(accuracies):
        if np.isnan(accuracy):
            cells.append(f'<td style="{_CELL}"></td>')
            continue
        share = 1.0
        if spread > 0.0:
            share = (accuracy - lowest) / spread
        colour = f"background:rgba(31,119,180,{0.05 + 0.45 * share:.2f})"
        cells.append(f'<td style="{_CELL};{colour}">{100.0 * accuracy:.1f}</td>')
    return np.reshape(cells, np.shape(accuracies))


def text_cells(texts):
    """Return a cell for each text."""
    return [f'<td style="{_CELL}">{escape(text)}</td>' for text in texts]


def table_of(headings, rows):
    """Return a table of cells."""
    head = "".join(f'<th style="{_CELL}">{escape(text)}</th>' for text in headings)
    lines = [f"<table><thead><tr>{head}</tr></thead><tbody>"]
    for cells in rows:
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody></table>")
    return "".join(lines)
