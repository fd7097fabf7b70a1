"""The benchmark that leaves out each rule of the choice."""

import numpy as np


def test_quick_run_leaves_out_two_rules_on_wine(run_script):
    printed, records = run_script("choice_rules", "--quick")

    assert "| linear scores |" in printed
    rules = ["none", "linear scores", "factor of overlap"]
    assert [one["rule"] for one in records] == rules * 2
    assert all(float(one["balanced"]) > 85.0 for one in records)


def test_a_rule_acts_on_what_is_solved_and_leaves_the_learned_state(bench):
    module, data = bench("choice_rules"), bench("_data")
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 200)
    X = np.einsum("ni,nij->nj", rng.standard_normal((800, 6)), rng.standard_normal((4, 6, 6))[y])
    split = data.Split("own", X[::2], y[::2], X[1::2], y[1::2])
    clf = module.learn(split, 0)

    before, without, after = (
        module.measure(clf, split, rule) for rule in (module.ALL, "Gaussian classes", module.ALL)
    )

    assert before == after
    assert before["log_loss"] < without["log_loss"] - 0.02


def test_every_rule_names_an_existing_part(bench):
    for place, name, other in bench("choice_rules").RULES.values():
        assert getattr(place, name) is not other
