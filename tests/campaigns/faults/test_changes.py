"""A few parameters changed after learning: a sample of python -m tests.campaigns.faults changes."""

from tests.campaigns.faults.changes import VALUES, count_wrong_changes
from tests.parameter_rules import RULES


def test_every_parameter_takes_effect_by_its_rule_or_is_refused():
    assert set(VALUES) == set(RULES)
    count = count_wrong_changes(60)
    assert count.wrong == []
    assert count.n_refused > 0
    assert count.n_effects > 5
