"""The benchmark of the printed bound: a sum along one descent, and a quick run."""

import csv
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn import FFNBClassifier

# With this ridge and rate the start has a loss, and each epoch moves the bands.
published = partial(
    FFNBClassifier.as_published, p=8, epsilon=10.0, learning_rate=0.1, random_state=0
)


@pytest.fixture(scope="module")
def tasks():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 30)
    X = rng.normal(size=(4, 20))[y] + rng.normal(size=(120, 20))
    return [(X[y // 2 == k], y[y // 2 == k]) for k in range(2)]


@pytest.fixture(scope="module")
def states(bench, tasks):
    model = published(max_epochs=3).partial_fit(*tasks[0])
    return bench("paper_bound").descent(model, *tasks[1], 3)


def test_the_states_are_those_of_one_descent(states, tasks):
    whole = published(max_epochs=3).partial_fit(*tasks[0]).partial_fit(*tasks[1])

    assert [state.n_iter_ for state in states] == [0, 1, 2, 3]
    assert_array_equal(states[-1].transform(tasks[0][0]), whole.transform(tasks[0][0]))
    assert_array_equal(states[2].loss_curve_, whole.loss_curve_[:2])


def test_a_descent_that_ends_early_has_no_more_states(bench, tasks):
    # Shifts of 100 beside deviations of 1: every sample leads by 1 from the start.
    apart = [(X + 100.0 * np.eye(4, 20)[y], y) for X, y in tasks]
    model = published(epsilon=0.01, max_epochs=3).partial_fit(*apart[0])

    assert [one.n_iter_ for one in bench("paper_bound").descent(model, *apart[1], 3)] == [0]


def test_the_sum_has_both_ends_of_each_step(bench, states, tasks):
    X = tasks[0][0]
    found = bench("paper_bound").bounds(states, X)

    rows = [state.forgetting_bound(X).layers[0] for state in states]
    energies = [one.alpha * rows[0].beta for one in rows]
    printed = sum(now + before for before, now in pairwise(energies))
    assert found["steps"] == 3
    assert_allclose(found["printed"], printed, rtol=1e-6)
    assert_allclose(found["bound"], energies[-1], rtol=1e-6)
    moved = np.square(states[-1].transform(X) - states[0].transform(X)).sum()
    assert found["moved"] == moved > 0.0


def test_quick_run_prints_a_row_per_epsilon_and_writes_both_files(
    bench, shared_data, capsys, tmp_path
):
    paths = [tmp_path / "bound.md", tmp_path / "bound.csv"]
    bench("paper_bound").main(
        ["--quick", "--sets", "sbu", "--data", str(shared_data), "--out", *map(str, paths)]
    )

    printed = capsys.readouterr().out
    assert paths[0].read_text(encoding="utf-8") == printed
    rows = [line for line in printed.splitlines() if line.startswith("| SBU, ")]
    assert len(rows) == 2
    with paths[1].open(encoding="utf-8") as file:
        runs = list(csv.DictReader(file))
    assert [float(one["paper"]) for one in runs] == [0.00256183] * 2
    assert all(float(one["drift"]) <= float(one["bound"]) for one in runs)
