"""The benchmark that leaves out cosines of the shared band."""

import numpy as np
import pytest

from ffnb_sklearn.core.features.shared_band import draw_shared_band


def test_quick_run_leaves_out_all_cosines_on_wine(run_script):
    printed, records = run_script("cosines", "--quick")

    assert "# Cosines of the shared band" in printed
    assert "| all cosines |" in printed
    assert [one["rule"] for one in records] == ["none", "all cosines"] * 2


def test_cosines_of_single_inputs_are_drawn_like_the_others(bench):
    _, _, draw = bench("cosines").VARIANTS["cosines of single inputs"]
    now, other = (
        one(400, 4, mirrored=True, rng=np.random.default_rng(0)).rows[-200:, :-1]
        for one in (draw_shared_band, draw)
    )

    np.testing.assert_array_equal(other[::2], now[::2])
    assert (other[1::2] != 0.0).all()
    assert other[1::2].std() == pytest.approx(1.0, abs=0.1)


def test_cosines_of_single_inputs_learn_sums_of_functions_of_single_inputs(bench):
    module, data = bench("cosines"), bench("_data")
    X, y = module._functions("sum of single functions", np.random.default_rng(0), 900)
    split = data.Split("own", X[300:], y[300:], X[:300], y[:300])

    now, without, none = (
        module.measure(split, 0, variant)["log_loss"]
        for variant in ("none", "cosines of single inputs", "all cosines")
    )

    assert now < without - 0.02
    assert without != none
