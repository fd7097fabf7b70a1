"""The tables of the paper: printed figures, what the rows vary, and a run on invented data."""

import csv
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn import FFNBClassifier

# Test sequences of SBU's fold 4 after each task.
SBU_TESTED = np.cumsum([10, 10, 8, 10, 5, 5, 10, 7])


@pytest.fixture(scope="module")
def tables(bench):
    return bench("_paper_tables").paper_tables()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Invented data in the form of the real files."""
    path = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    _write_sequences(path / "sbu.npz", rng, 8, (2, 15, 3), fold=np.tile(np.arange(5), 16))
    _write_sequences(path / "fpha.npz", rng, 6, (21, 3), split=np.tile([0, 1], 24))
    rows = rng.normal(size=(80, 50)), np.repeat(np.arange(8), 10), np.tile(np.arange(5), 16)
    np.savez(path / "sbu_features.npz", **dict(zip(("X", "y", "fold"), rows, strict=True)))
    centres = rng.normal(size=(100, 20))
    y, y_test = np.repeat(np.arange(100), 4), np.repeat(np.arange(100), 2)
    x_train = centres[y] + 0.3 * rng.normal(size=(400, 20))
    x_test = centres[y_test] + 0.3 * rng.normal(size=(200, 20))
    np.savez(path / "cifar100_b50.npz", x_train=x_train, y_train=y, x_test=x_test, y_test=y_test)
    return path


def _write_sequences(path, rng, n_classes, shape, **split):
    (masks,) = split.values()
    label = np.repeat(np.arange(n_classes), len(masks) // n_classes)
    lengths = rng.integers(9, 14, len(label))
    offsets = np.cumsum([0, *lengths])
    poses = rng.normal(size=(n_classes, *shape))
    joints = poses[np.repeat(label, lengths)] + 3.0 * rng.normal(size=(offsets[-1], *shape))
    people = {"pair" if "fold" in split else "subject": np.arange(len(label)) % 6}
    np.savez(path, joints=joints, offsets=offsets, label=label, **split, **people)


def run(bench, capsys, *arguments):
    bench("paper").main([*map(str, arguments)])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "table", "n_inputs", "first", "more"),
    [("sbu", "table1", 60, 1, 1), ("fpha", "table12", 168, 1, 5)],
)
def test_network_sizes_are_all_the_printed_ones(bench, name, table, n_inputs, first, more):
    sizes, rng = bench("_paper_sizes"), np.random.default_rng(0)
    model = FFNBClassifier.as_published(p=10, max_epochs=0)
    counted = []
    for task in range(len(printed := bench("_paper_printed").COSTS[table]["parameters"])):
        # The size of a task counts the first of its classes: 1, 6, 11, ... of FPHA.
        n_new = more if task else first
        start = first + more * (task - 1) if task else 0
        y = np.repeat(np.arange(start, start + n_new), 4)
        model.partial_fit(rng.normal(size=(len(y), n_inputs)), y)
        counted.append(sizes.published_size(model, sizes.BACKBONE_WEIGHTS[name]))

    assert tuple(counted) == printed


def test_every_printed_table_is_there_and_complete(bench, tables):
    printed = bench("_paper_printed")
    sources = {table.source for table in tables.values()}
    assert set(printed.ACCURACIES) | set(printed.BOUNDS) <= sources
    assert len(printed.ACCURACIES) == 15
    assert len(printed.BOUNDS) == 6
    for table in tables.values():
        figures = {**printed.ACCURACIES, **printed.BOUNDS}.get(table.source, {})
        shown = {row.label for row in table.rows}
        assert set(figures) <= shown
        for row in table.rows:
            assert len(row.accuracies) in (0, row.data_set.n_tasks)
            assert all(math.isnan(cell) or 0 <= cell <= 100 for cell in row.accuracies)
            assert row.label not in figures or not math.isnan(row.final)
    for source, costs in printed.COSTS.items():
        n_tasks = len(printed.ACCURACIES[source]["joint"])
        assert [len(cells) for cells in costs.values()] == [n_tasks, n_tasks]
        assert (np.diff(costs["parameters"]) > 0).all()


def _is_share(percent, total):
    """Whether a printed accuracy, cut off after two decimals, is a share of so many samples."""
    right = round(percent * total / 100)
    return abs(100 * right / total - percent) < 0.011


def test_printed_accuracies_are_shares_of_the_test_sequences(bench):
    printed = bench("_paper_printed")
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
    for rows in printed.BOUNDS.values():
        for bound, final in rows.values():
            assert bound > 0
            assert _is_share(final, 65) or _is_share(final, 575)


@pytest.mark.parametrize(("scenario", "n_tasks"), [("S2", 3), ("S5", 6), ("S10", 11)])
def test_printed_cifar_matrices_agree_with_their_averages(bench, scenario, n_tasks):
    printed, sections = bench("_paper_printed"), bench("_paper_sections")
    matrix = sections.printed_matrix(bench("_paper_settings").CIFAR[scenario])
    assert_array_equal(np.isnan(matrix), np.triu(np.ones((n_tasks, n_tasks)), 1) > 0)
    sizes = np.array([50] + [50 // (n_tasks - 1)] * (n_tasks - 1))
    accuracies = np.nansum(matrix * sizes, axis=1) / np.cumsum(sizes)
    averages = np.nanmean(matrix, axis=0)
    if scenario == "S5":  # its two slips
        accuracies[1], averages[3] = 78.55, 60.73
    assert_allclose(accuracies, printed.CIFAR_ACCURACIES[scenario], atol=0.006)
    assert_allclose(averages, printed.CIFAR_GROUP_AVERAGES[scenario], atol=0.006)
    assert all(scenario in figures for figures in printed.CIFAR_METHODS.values())


def test_every_row_builds_a_valid_estimator(bench, tables):
    models = bench("_paper_models")
    for table in tables.values():
        for row in table.rows:
            model, joint = models.build_model(row, 2000, seed=3, device="cpu", max_epochs=7)
            if "random_state" in model.get_params():
                assert model.get_params()["random_state"] == 3
            if hasattr(model, "_parameter_constraints"):
                model._validate_params()
            assert joint == ("joint" in row.model)
            for name, value in row.parameters.items():
                built = model.get_params()[name]
                assert built == value or (name == "p" and built[0] == value)
            if row.model == "paper":
                assert model.max_epochs == (0 if row.parameters.get("max_epochs") == 0 else 7)
                assert not isinstance(model.p, tuple) or len(model.p) == model.n_layers


def test_tables_vary_what_they_say(tables):
    def parameters(name):
        return [dict(row.parameters) for row in tables[name].rows]

    assert parameters("sbu-p")[:3] == [{"p": 15}, {"p": 25}, {"p": 35}]
    # Rows that are not printed stand behind those that are.
    assert parameters("fpha-layers") == [{"n_layers": one} for one in (3, 4, 1, 2)]
    assert parameters("sbu-decay")[0] == {"weight_decay": 1e-8}
    first = {"null_space": False, "covariance": "identity", "init": "random"}
    assert parameters("sbu-ablation")[0] == parameters("fpha-ablation")[0] == first
    assert [len(tables[f"{name}-ablation"].rows) for name in ("sbu", "fpha")] == [12, 12]
    assert parameters("fpha-batch-norm")[2] == {"batch_norm": True, "covariance": "identity"}
    for row in (*tables["sbu-p"].rows, *tables["fpha-p"].rows):
        if row.model == "paper" and row.settings == row.data_set.parameters:
            assert row.final in (84.61, 67.47)


def test_the_published_network_of_cifar_has_a_fixed_rate(bench, tables):
    settings, paper = bench("_paper_settings"), bench("paper")
    options = SimpleNamespace(features="gcn-narrow", published=True, hold_out=True, epochs=5)
    table = paper.varied(tables["cifar-s10"], options)
    assert table.name == "cifar-s10_published"
    assert [row.model for row in table.rows] == ["paper", "paper"]
    tuned, closed = (row.settings for row in table.rows)
    assert (tuned["max_epochs"], closed["max_epochs"]) == (5, 0)
    assert not tuned["training"].adaptive_rate
    printed = settings.CIFAR["S10"].parameters
    for name in ("p", "band_size", "batch_size", "momentum", "learning_rate"):
        assert tuned[name] == printed[name]
    assert (tuned["n_layers"], tuned["units"], tuned["shrinkage"]) == (1, "absolute", 0.0)


@pytest.mark.parametrize("name", ["SBU", "FPHA"])
def test_the_published_network_is_that_of_as_published(bench, tables, name):
    settings, models = bench("_paper_settings"), bench("_paper_models")
    data_set = getattr(settings, name)
    row = next(
        row for row in tables[f"{name.lower()}-p"].rows if row.settings == data_set.parameters
    )
    row = replace(row, data_set=settings.as_published(data_set, 7), parameters={})

    model, joint = models.build_model(row, 168, seed=3, device="cpu")

    expected = FFNBClassifier.as_published(
        p=data_set.parameters["p"], weight_decay=1e-8, max_epochs=7, random_state=3, device="cpu"
    )
    p = model.get_params()["p"]
    assert p == data_set.parameters["p"] or p == (data_set.parameters["p"],)
    model.set_params(p=expected.p)
    assert repr(model.get_params()) == repr(expected.get_params())
    assert not joint


def test_protocols_of_pretraining_keep_people_apart(bench):
    settings, features = bench("_paper_settings"), bench("_paper_features")
    labels, people = np.repeat(np.arange(45), 6), np.tile(np.arange(6), 45)
    skeletons = {"labels": labels, "people": people}
    train = np.arange(270) % 7 > 0

    def deal(protocol, share=1.0):
        pretraining = settings.Pretraining(protocol, share)
        return features._deal(settings.FPHA, skeletons, train, pretraining, 0)

    everyone = np.flatnonzero(train)
    pretrain, stream = deal("none")
    assert len(pretrain) == 0
    assert_array_equal(stream, everyone)
    pretrain, stream = deal("base")
    assert set(labels[pretrain]) == set(range(5))
    assert_array_equal(stream, everyone)
    pretrain, stream = deal("all")
    assert set(people[pretrain]) == {0, 1}
    assert set(people[stream]) == {2, 3, 4, 5}
    assert_array_equal(np.union1d(pretrain, stream), everyone)
    half, same_stream = deal("all", 0.5)
    assert len(half) == round(len(pretrain) / 2)
    assert set(half) < set(pretrain)
    assert_array_equal(same_stream, stream)
    assert len(deal("all", 0.0)[0]) == 0


# So few samples have nothing left beside 45 axes.
@pytest.mark.filterwarnings("ignore::ffnb_sklearn.EmptyNullSpaceWarning")
@pytest.mark.parametrize(
    ("table", "features", "suffix"),
    [
        ("sbu-p", "gcn", ""),
        ("sbu-p", "gcn-narrow", "_gcn-narrow"),
        ("sbu-layers", "gcn-narrow", "_gcn-narrow_published"),
        ("sbu-activation", "chunk-means", "_chunk-means"),
        ("cifar-s2", "gcn-narrow", ""),
    ],
)
def test_quick_run_prints_a_report_and_writes_three_files(
    bench, tables, folder, capsys, tmp_path, table, features, suffix
):
    flags = ["--table", table, "--data", folder, "--features", features, "--quick", "--epochs", 1]
    flags += ["--published"] if suffix.endswith("published") else []
    printed = run(bench, capsys, *flags, "--out", tmp_path / "new")
    report = (tmp_path / "new" / f"paper_{table}{suffix}.md").read_text(encoding="utf-8")
    assert printed == report + "\n"
    assert "quick run" in report
    assert "scikit-learn" in report
    assert "missing" not in report
    with open(tmp_path / "new" / f"paper_{table}{suffix}.csv", encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    chosen = [row for row in tables[table].rows if f"\n- {row.label}: " in report]
    assert len(records) == sum(row.data_set.n_tasks for row in chosen)
    dropped = [row.label for row in tables[table].rows if row not in chosen]
    named = f"- rows left out by --quick: {', '.join(dropped)}\n"
    assert (named in report) == bool(dropped)
    for row in chosen:
        assert f"| {row.label} | " in report or "matrices" in tables[table].sections
    assert f"](paper_{table}{suffix}.png)" in report
    assert (tmp_path / "new" / f"paper_{table}{suffix}.png").read_bytes()[:4] == b"\x89PNG"
    assert len(list((tmp_path / "new").iterdir())) == 3


def test_runs_repeat_by_seed(bench, tables, folder, monkeypatch):
    runs_module = bench("_paper_runs")
    monkeypatch.setitem(bench("_paper_settings").PRETRAINING, "epochs", 2)
    table = tables["sbu-pretraining"]
    table = replace(table, rows=table.rows[1:4:2])

    def matrices(seed):
        plan = runs_module.Plan(folder, (seed,), "gcn", "cpu", 2, quick=True)
        runs, missing = runs_module.Runner(plan).run_table(table)
        assert missing == {}
        return np.array([[run.matrix for run in row] for row in runs.values()])

    first = matrices(0)
    assert_array_equal(first, matrices(0))
    assert not np.array_equal(first, matrices(1), equal_nan=True)
    assert not np.array_equal(first[0], first[1], equal_nan=True)


def test_rows_that_cannot_run_say_why(bench, folder, capsys, monkeypatch):
    narrowest = {"n_filters": 1}
    monkeypatch.setitem(bench("_paper_settings").BACKBONES["gcn-narrow"], "sbu", narrowest)
    flags = ["--table", "sbu-p", "--data", folder, "--quick", "--epochs", 1]
    report = run(bench, capsys, *flags, "--features", "gcn-narrow")
    assert "- missing: p=45: p=45 leaves none of 30 axes" in report
    assert "| p=45 | - | 84.61 | - | - |" in report
    assert "Costs: the row with the common settings is missing." in report


@pytest.mark.parametrize(("name", "n_splits", "width"), [("SBU", 5, 60), ("FPHA", 1, 168)])
def test_narrow_backbones_have_the_printed_widths(bench, folder, name, n_splits, width):
    settings = bench("_paper_settings")
    choice = {"features": "gcn-narrow", "pretraining": settings.Pretraining(), "seed": 0}
    load = bench("_paper_features").load_splits
    splits = load(getattr(settings, name), folder, **choice)
    assert len(splits) == n_splits
    for split in splits:
        assert split.X.shape[1] == split.X_test.shape[1] == width
        assert_array_equal(np.unique(split.y), np.unique(split.y_test))
    (printed,) = load(getattr(settings, name), folder, **choice, only_printed=True)
    assert printed.name == getattr(settings, name).split


@pytest.mark.parametrize(("name", "n_splits"), [("SBU", 4), ("FPHA", 4)])
def test_held_out_rows_are_training_rows_of_the_printed_split(bench, folder, name, n_splits):
    settings, load = bench("_paper_settings"), bench("_paper_features").load_splits
    choice = {"features": "gcn-narrow", "pretraining": settings.Pretraining(), "seed": 0}
    data_set = getattr(settings, name)
    (printed,) = load(data_set, folder, **choice, only_printed=True)
    splits = load(data_set, folder, **choice, hold_out=True)

    everyone = {row.tobytes() for row in printed.X}
    assert len(splits) == n_splits
    for split in splits:
        assert len(split.X) + len(split.X_test) == len(printed.X)
        assert everyone == {row.tobytes() for row in (*split.X, *split.X_test)}
    held_out = [row.tobytes() for split in splits for row in split.X_test]
    assert len(held_out) == len(set(held_out)) == len(printed.X)


def test_a_held_out_run_has_no_printed_figures(bench, folder, capsys):
    flags = ["--table", "fpha-ridges", "--data", folder, "--features", "gcn-narrow", "--quick"]
    report = run(bench, capsys, *flags, "--published", "--hold-out", "--epochs", 1)
    assert "(gcn-narrow, published, held-out)" in report
    assert "paper |" not in report
    assert "## Hinge loss after the first and the last epoch" in report


def test_fixed_descriptors_are_not_pretrained(bench, folder):
    settings, features = bench("_paper_settings"), bench("_paper_features")
    with pytest.raises(settings.UnavailableError, match="cannot be pretrained"):
        features.load_splits(
            settings.SBU,
            folder,
            features="chunk-means",
            pretraining=settings.Pretraining("base"),
            seed=0,
        )


def test_sections_compare_ours_with_the_paper(bench, tables):
    runs_module, sections = bench("_paper_runs"), bench("_paper_sections").SECTIONS
    table = tables["sbu-classifier"]
    row = table.rows[0]

    def one(seed, split, final):
        accuracies = np.array([1.0] * 7 + [final])
        steps = np.full(8, 2.0)
        n_test = np.diff([0, *SBU_TESTED])
        return runs_module.Run(
            row.label,
            split,
            seed,
            ("0-0",) * 8,
            np.eye(8),
            n_test,
            accuracies,
            steps,
            steps,
            steps,
            np.zeros((8, 2)),
        )

    finals = {(0, "fold 3"): 0.8, (0, "fold 4"): 0.6, (1, "fold 3"): 0.9, (1, "fold 4"): 0.7}
    runs = {row.label: [one(*key, final) for key, final in finals.items()]}
    line = sections["finals"](table, [row], runs)[-1]
    expected = "65.00 ± 5.00 | 55.38 | +9.62 | 42.2 / 65 | 75.00 ± 5.00"
    assert line == f"| one-vs-all | {expected} |"
    assert sections["tasks"](table, [row], runs)[-1].endswith("100.00 (60.34) | 65.00 (55.38) |")


def test_wrong_command_lines_are_refused_before_any_run(bench, capsys, tmp_path):
    for arguments, message in [
        ([], "--list names them"),
        (["--table", "table1"], "no table table1"),
        (["--table", "sbu-p", "--rows", "p=1"], "--rows takes rows of sbu-p: p=15"),
        (["--table", "sbu-p", "--epochs", "0"], "positive number; got 0"),
        (["--table", "sbu-p", "--data", str(tmp_path / "none")], "no folder at"),
        (["--table", "sbu-p", "--features", "pixels"], "invalid choice"),
    ]:
        with pytest.raises(SystemExit):
            bench("paper").main(arguments)
        assert message in capsys.readouterr().err


def test_a_missing_file_is_named(bench, capsys, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"sbu\.npz"):
        bench("paper").main(["--table", "sbu-p", "--quick", "--data", str(tmp_path)])


def test_list_names_every_table(bench, tables, capsys):
    printed = run(bench, capsys, "--list")
    assert [line.split(":")[0] for line in printed.splitlines()] == list(tables)


def test_the_joint_row_is_the_network_of_its_table(bench, tables):
    settings, models = bench("_paper_settings"), bench("_paper_models")
    row = next(row for row in tables["fpha-p"].rows if row.label == "joint")
    assert row.final == 84.17
    row = replace(row, data_set=settings.as_published(settings.FPHA))

    model, joint = models.build_model(row, 168, seed=3, device="cpu")

    published = FFNBClassifier.as_published(p=(75,), max_epochs=0, weight_decay=1e-8)
    expected = published.set_params(device="cpu", random_state=3).get_params()
    assert joint
    for name, value in model.get_params().items():
        assert name == "training" or value == expected[name]


def test_algorithm_1_without_an_epoch_says_so(bench, tables):
    settings, models = bench("_paper_settings"), bench("_paper_models")
    row = next(row for row in tables["sbu-p"].rows if row.model == "algorithm 1")
    row = replace(row, data_set=settings.as_published(settings.SBU))

    with pytest.raises(settings.UnavailableError, match="no closed form; --epochs trains it"):
        models.build_model(row, 60, seed=0, device="cpu")
