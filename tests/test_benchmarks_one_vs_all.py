"""The benchmark of the probabilities of one-vs-all regression."""


def test_all_variants_see_the_same_values_and_differ(run_script):
    printed, records = run_script("one_vs_all", "--quick")

    assert "| equal, 60 |" in printed
    assert "| largest |" in printed
    for one in records:
        losses = [float(value) for key, value in one.items() if key.startswith("log_loss ")]
        assert len(set(losses)) == len(losses) == 5
