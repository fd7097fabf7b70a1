"""Describe the package for an index page; everything else about it is in pyproject.toml.

A link of the README that leads to a file works in a checkout, and breaks on an index page. There
it becomes the name of the file, and pictures are left out: the project has no public address yet.
"""

import re
from pathlib import Path

from setuptools import setup

README = Path(__file__).with_name("README.md")
LOCAL = r"\((?!\w+://)([^)\s#]+)[^)\s]*\)"


def named(link):
    """Return the text of a link to a file, and the file's name where the text has not got it."""
    text, target = link.groups()
    return text if target in text.replace("`", "") else f"{text} (`{target}`)"


def description(text):
    """Return a text in Markdown without pictures and links that lead to files."""
    without_pictures = re.sub(rf"!\[[^]]*\]{LOCAL}\n*", "", text)
    return re.sub(rf"\[([^]]+)\]{LOCAL}", named, without_pictures)


setup(
    long_description=description(README.read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
