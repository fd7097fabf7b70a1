"""The paper's printed figures, and the tables that stand beside them."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.paper import ladder, paper, printed, report
from benchmarks.paper.data_sets import CIFAR, FPHA, SBU
from benchmarks.paper.runs import UnavailableError, build_model
from benchmarks.paper.tables import Row, paper_tables
from ffnb_sklearn import FFNBClassifier

TABLES = paper_tables()

# Test sequences of fold 4 after each task.
SBU_TESTED = np.cumsum([10, 10, 8, 10, 5, 5, 10, 7])

# Weights of the backbone: 33 and 30 for each of its 60 and 168 outputs.
BACKBONE_WEIGHTS = {"table1": 1980, "table12": 5040}


def printed_size(model, backbone):
    """Count parameters as the paper does: all ordered pairs, and a class's pair with itself.

    A pair has a hyperplane, an offset and a weight in the aggregated score. The package stores each
    pair once, since both orders have the same hyperplane up to its sign.
    """
    n_classes, width = len(model.classes_), len(model.get_feature_names_out())
    in_pairs = n_classes * (n_classes - 1) // 2 * (width + 1)
    return backbone + model.n_parameters_ - in_pairs + n_classes**2 * (width + 2)


@pytest.mark.parametrize(
    ("source", "width", "reported"), [("table1", 60, range(8)), ("table12", 168, range(0, 41, 5))]
)
def test_printed_sizes_are_those_of_as_published_with_one_layer(source, width, reported):
    rng, counted = np.random.default_rng(0), []
    model = FFNBClassifier.as_published(p=10, bands__max_epochs=0)
    for last in reported:
        seen = len(model.classes_) if counted else 0
        y = np.repeat(np.arange(seen, last + 1), 4)
        model.partial_fit(rng.normal(size=(len(y), width)), y)
        counted.append(printed_size(model, BACKBONE_WEIGHTS[source]))
    assert tuple(counted) == printed.COSTS[source]["parameters"]


def test_every_printed_table_is_there_and_complete():
    sources = {table.source for table in TABLES.values()}
    assert set(printed.ACCURACIES) | set(printed.BOUNDS) <= sources
    assert (len(printed.ACCURACIES), len(printed.BOUNDS)) == (15, 6)
    for table in TABLES.values():
        figures = {**printed.ACCURACIES, **printed.BOUNDS}.get(table.source, {})
        assert set(figures) <= {row.label for row in table.rows}
        for row in table.rows:
            assert len(row.accuracies) in (0, row.data_set.n_tasks)
            assert all(math.isnan(cell) or 0 <= cell <= 100 for cell in row.accuracies)
            assert row.label not in figures or not math.isnan(row.final)


def _is_share(percent, total):
    """Whether a printed accuracy, cut off after two decimals, is a share of so many samples."""
    right = round(percent * total / 100)
    return abs(100 * right / total - percent) < 0.011


def test_printed_accuracies_are_shares_of_the_test_sequences():
    misfits = {
        (source, label)
        for source, rows in printed.ACCURACIES.items()
        for label, cells in rows.items()
        if not math.isnan(cells[0])
        and not all(map(_is_share, cells, SBU_TESTED if len(cells) == 8 else [1e4] * 8 + [575]))
    }
    # The slips of the paper that the reports mention.
    shifted = {("table6", "off / off"), ("table6", "off / on"), ("tablebbb", "one-vs-one")}
    assert misfits == shifted | {("tableii", "9")}


@pytest.mark.parametrize(("scenario", "n_tasks"), [("S2", 3), ("S5", 6), ("S10", 11)])
def test_printed_cifar_matrices_agree_with_their_averages(scenario, n_tasks):
    matrix = report.printed_matrix(CIFAR[scenario])
    assert_array_equal(np.isnan(matrix), np.triu(np.ones((n_tasks, n_tasks)), 1) > 0)
    sizes = np.array([50] + [50 // (n_tasks - 1)] * (n_tasks - 1))
    accuracies = np.nansum(matrix * sizes, axis=1) / np.cumsum(sizes)
    averages = np.nanmean(matrix, axis=0)
    if scenario == "S5":  # its two slips
        accuracies[1], averages[3] = 78.55, 60.73
    assert_allclose(accuracies, printed.CIFAR_ACCURACIES[scenario], atol=0.006)
    assert_allclose(averages, printed.CIFAR_GROUP_AVERAGES[scenario], atol=0.006)


def test_every_row_builds_its_model_from_as_published():
    for table in TABLES.values():
        for row in table.rows:
            if row.model == "algorithm 1":
                with pytest.raises(UnavailableError, match="--epochs"):
                    build_model(row, 200, seed=0, device="cpu")
            model, joint = build_model(row, 200, seed=0, device="cpu", max_epochs=3)
            assert joint == row.model.endswith("joint")
            if row.model == "paper":
                expected = FFNBClassifier.as_published(**row.data_set.parameters, device="cpu")
                options = expected.bands.get_params()
                for name, value in {"max_epochs": 3, **row.parameters}.items():
                    expected.set_params(**{f"bands__{name}" if name in options else name: value})
                expected.set_params(random_state=0)
                expected.set_params(p=model.p)
                assert str(model.get_params()) == str(expected.get_params())


def test_a_row_that_leaves_no_axis_says_so():
    with pytest.raises(UnavailableError, match="leaves none of 40 axes"):
        build_model(Row("p", SBU), 40, seed=0, device="cpu")


def test_quick_run_prints_a_table_and_writes_page_and_runs(shared_data, tmp_path, capsys):
    out, results = tmp_path / "page.md", tmp_path / "results"
    arguments = ["--quick", "--data", str(shared_data), "--out", str(out)]
    paper.main([*arguments, "--table", "sbu-classifier", "--results", str(results)])
    page = out.read_text(encoding="utf-8")
    assert "### Final accuracy\n\n| classifier | ours | paper | difference | right |" in page
    assert "| one-vs-all | " in capsys.readouterr().out
    assert (results / "paper_sbu-classifier.csv").read_text(encoding="utf-8").startswith("row,")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "--list names them"), (["--table", "none"], "no table none")],
)
def test_wrong_command_lines_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        paper.main(arguments)
    assert message in capsys.readouterr().err


def test_the_ladder_starts_at_the_published_model_and_ends_at_the_default():
    parameters, features = ladder.settings_of(ladder.START, "fpha")
    published = FFNBClassifier.as_published(**FPHA.parameters).get_params()
    assert features == "gcn-narrow"
    assert all(str(published[name]) == str(value) for name, value in parameters.items())
    parameters, features = ladder.settings_of(ladder.RUNGS[-1], "fpha")
    assert features == "gcn"
    assert all(ladder.DEFAULT[name] == value for name, value in parameters.items())


def test_steps_of_the_ladder_compare_with_the_last_kept_rung():
    finals = {"as_published": 0.5, "ridge from the moments": 0.7, "skip connection": 0.6}
    finals["epsilon of 0.1 instead of 0.01"] = 0.9
    records = [
        {
            "set": "fpha",
            "split": "official",
            "rung": rung,
            "seed": 0,
            "max_epochs": 0,
            "final": one,
        }
        for rung, one in finals.items()
    ]
    rungs = [rung for rung in ladder.RUNGS if rung.label in finals]
    steps = ladder.steps_of(ladder.by_cell(records), rungs, ladder.CLOSED)
    found = [steps[label] for label in list(finals)[1:]]
    assert_allclose(found, [20.0, -10.0, 40.0])
