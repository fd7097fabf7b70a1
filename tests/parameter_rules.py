"""Rules of parameters that change after learning, as the user guide lists them."""

import re
from pathlib import Path

__all__ = ["FIXED", "NEXT_LEARNING", "NEXT_PREDICTION", "RULES"]

NEXT_PREDICTION, NEXT_LEARNING, FIXED = "next prediction", "next call that learns", "refused"

GUIDE = Path(__file__).parents[1] / "docs/user_guide/parameters.rst"


def _rules():
    text = GUIDE.read_text(encoding="utf-8").partition("Changes after learning\n")[2]
    rows = re.findall(r"^   \* - (\w.*)\n     - (``.*(?:\n       .*)*)", text, flags=re.MULTILINE)
    pairs = [
        (name, rule.lower()) for rule, names in rows for name in re.findall(r"``(\w+)``", names)
    ]
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


RULES = _rules()
