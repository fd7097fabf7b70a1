"""Every script runs: its --help, and those that are quick on few rows."""

import csv
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from benchmarks.lib.data import Split
from ffnb_sklearn.backbones import ConvNet, TorchFeatureExtractor

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in ROOT.glob("benchmarks/*/*.py")
    if "__main__" in path.read_text(encoding="utf-8")
)
QUICK = {
    "paper.scales": ("standardised", ["--quick", "--seeds", "0", "--hold-out"]),
    "heads.novelty": ("score_samples", ["--quick"]),
    "heads.rows_per_class": ("cosine to the mean", ["--quick"]),
    "heads.drawn_rows": (
        "drawn rows %",
        ["--sets", "digits", "--rows", "5", "--seeds", "0"],
    ),
    "settings.bands": ("FFNB, bands__gamma=1.0", ["--quick", "--gammas", "1", "--hold-out"]),
    "settings.scaling": (
        "known constants",
        ["--groups", "scikit-learn", "--seeds", "0", "--methods", "slda", "--settings"],
    ),
    "settings.what_matters": ("band_size", ["--quick", "--settings", "p", "band_size"]),
    "speed.first_prediction": (
        "busy processes",
        ["--quick", "--settings", "shared_band_size=0", "--busy", "0", "1"],
    ),
    "speed.one_row": (
        "IDA, shared_band_size=5",
        [
            *("--streams", "arriving blobs", "--classifiers", "IDA", "--rows", "15"),
            *("--seeds", "0", "--settings", "", "shared_band_size=5"),
        ],
    ),
    "speed.service": (
        "times GaussianNB",
        ["--cases", "digits", "--rows", "2", "--seeds", "0", "--settings", "shared_band_size=0"],
    ),
    "speed.many_classes": ("a single row", ["--quick", "--shared", "0"]),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_shows_the_first_line(name, capsys):
    module = importlib.import_module(name)
    with pytest.raises(SystemExit) as end:
        module.main(["--help"])
    assert end.value.code == 0
    words = " ".join(capsys.readouterr().out.split())
    assert module.__doc__.splitlines()[0].rstrip(".") in words
    command = f"python -m {name}"
    assert command in module.__doc__


@pytest.mark.parametrize("name", QUICK)
def test_quick_run_prints_its_report_and_writes_both_files(name, tmp_path, capsys):
    word, arguments = QUICK[name]
    report, records = tmp_path / "page.md", tmp_path / "runs.csv"
    module = importlib.import_module(f"benchmarks.{name}")
    module.main([*arguments, "--out", str(report), str(records)])
    printed = capsys.readouterr().out
    assert report.read_text(encoding="utf-8") == printed
    assert word in printed
    assert "scikit-learn" in printed
    with open(records, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert all(None not in row.values() for row in rows)


def test_curves_of_the_sizes_are_drawn_from_their_records(tmp_path, capsys):
    size = importlib.import_module("benchmarks.settings.size")
    runs, picture = tmp_path / "size.csv", tmp_path / "size.png"
    quick = ["--sets", "iris", "--seeds", "0", "--sizes", "20", "0", "--out", str(runs)]
    size.main(quick)
    assert "| iris | IDA, shared_band_size=20 |" in capsys.readouterr().out
    size.main(["--from", str(runs), "--plot", str(picture)])
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_layers_of_the_given_network_are_columns_of_the_images():
    layers = importlib.import_module("benchmarks.features.layers")
    widths = dict.fromkeys(layers.LAYERS, (2, 0.5))
    X = np.arange(20.0).reshape(2, 10)
    images = layers.Images(np.zeros((2, 3, 2, 2)), None, np.zeros((2, 2, 2, 3)), None)
    for name, expected in {
        "all-mirror": X,
        "two-mirror": X[:, [4, 5, 8, 9]],
        "last": X[:, 8:] / 0.5,
    }.items():
        found = layers.columns(layers.FEATURES[name], images, (X, X[:1], widths))
        assert np.array_equal(found[0], expected)
        assert np.array_equal(found[1], expected[:1])
    assert layers.columns(layers.FEATURES["pixels"], images, None)[0].shape == (2, 12)


def test_coded_training_images_are_decoded():
    layers = importlib.import_module("benchmarks.features.layers")
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 4)).astype(np.uint8)
    green = images[:, 1]
    planes = np.stack([green, images[:, 0] - green, images[:, 2] - green], axis=1)
    coded = np.diff(planes, axis=3, prepend=np.uint8(0))
    assert np.array_equal(layers.decode(coded), images)


def test_a_network_is_adapted_to_the_first_classes_but_for_its_normalisations(
    tmp_path, monkeypatch
):
    layers = importlib.import_module("benchmarks.features.layers")
    small = {"stem_width": 2, "widths": (2, 3), "blocks": (1, 1)}
    network = TorchFeatureExtractor(ConvNet, backbone_params=small, layers=["4"], random_state=0)
    monkeypatch.setattr(layers, "network", lambda views, options: clone(network))
    images = np.random.default_rng(0).integers(256, size=(24, 3, 8, 8), dtype=np.uint8)
    images = layers.Images(images, np.arange(24) % 3, images[:4], np.arange(4) % 3)
    options = SimpleNamespace(streams=["2+1"], network="lite", mixed_precision=False)
    options.cache = tmp_path
    before, after = (layers.extract(images, None, epochs, options)[0] for epochs in (0, 2))
    assert before.shape == after.shape == (24, 3)
    assert not np.allclose(before, after)
    weights = joblib.load(tmp_path / "lite_24_None_adapted2_2" / "fitted.joblib").state_dict_
    start = clone(network).fit(images.train).state_dict_
    changed = {key for key in start if not np.array_equal(start[key], weights[key])}
    assert changed == {key for key in start if start[key].ndim == 4}


def test_deleted_rows_are_told_by_the_axes_unless_the_rank_is_none():
    deletion = importlib.import_module("benchmarks.settings.deletion")
    X, y = load_digits(return_X_y=True)
    found = deletion.membership(Split("digits", X, y, X[:1], y[:1]), 0)
    assert found["axes: forgot"] > 95.0
    assert found["scores: forgot"] > found["scores: never learned"] + 5.0
    exact = [found["axes: forgot, rank=None"], found["scores: forgot, rank=None"]]
    never = [found["axes: never learned"], found["scores: never learned"]]
    np.testing.assert_allclose(exact, never, atol=5.0)


@pytest.mark.parametrize("name", ["arriving blobs", "arriving clusters"])
def test_classes_of_a_generated_stream_arrive_one_after_another(name):
    one_row = importlib.import_module("benchmarks.speed.one_row")
    X, y = one_row.STREAMS[name](400, 0)
    n_classes = len(np.unique(y))
    first_rows = np.sort(np.unique(y, return_index=True)[1])
    assert X.shape == (400, 20)
    assert n_classes == {"arriving blobs": 20, "arriving clusters": 10}[name]
    # The last class arrives after four fifths, and its first row is drawn a little later.
    assert first_rows[0] == 0
    assert 300 < first_rows[-1] < 380
    assert len(np.unique(X, axis=0)) == 400


def test_a_stream_without_river_says_how_to_install_it(monkeypatch):
    one_row = importlib.import_module("benchmarks.speed.one_row")
    monkeypatch.setitem(sys.modules, "river.datasets", None)
    with pytest.raises(ImportError, match="python -m pip install river"):
        one_row.segments(10, 0)


def test_river_learns_the_rows_of_arrays():
    pytest.importorskip("river")
    one_row = importlib.import_module("benchmarks.speed.one_row")
    X, y = one_row.segments(60, 0)
    for make in one_row.RIVER.values():
        model = one_row.RiverClassifier(make, 0).partial_fit(X, y)
        assert set(model.predict(X)) <= set(y)


def test_characters_that_all_fonts_have_are_learned_and_told_apart(monkeypatch, capsys):
    pytest.importorskip("PIL")
    matplotlib = pytest.importorskip("matplotlib")
    glyphs = importlib.import_module("benchmarks.speed.glyphs")
    many_classes = importlib.import_module("benchmarks.speed.many_classes")
    # The quick run starts a process for each stream.
    monkeypatch.setattr(many_classes, "apart", lambda measure, *given: measure(*given))
    # The fonts lack the ideograph.
    monkeypatch.setattr(glyphs, "CHARACTERS", [*map(ord, "ABEGHKMRSTWXYZ"), 0x4E2D])
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    learned = glyphs.open_fonts(fonts, "DejaVuSans-*.ttf")
    rows = glyphs.drawn_rows(learned.values(), 15)
    assert rows.shape == (14, len(learned), 256)
    np.testing.assert_allclose(np.square(rows).sum(axis=2), 1.0, rtol=1e-6)
    streams = ["--streams", "4x5x32", "--tasks", "2", "--test-rows", "8", "--characters", "14"]
    names = ["--learn", "DejaVuSans-*.ttf", "--test", "DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf"]
    many_classes.main([*streams, "--shared", "0", "--fonts", str(fonts), *names])
    printed = capsys.readouterr().out
    assert "accuracy, DejaVuSerif-Bold" in printed
    (row,) = (line for line in printed.splitlines() if line.startswith("| 14 | IDA |"))
    accuracies = [float(cell) for cell in row.split("|")[6:8]]
    assert min(accuracies) > 80.0


def test_a_folder_without_the_font_is_named(tmp_path):
    glyphs = importlib.import_module("benchmarks.speed.glyphs")
    pytest.importorskip("PIL")
    with pytest.raises(FileNotFoundError, match=r"no font Noto\*.ttc in"):
        glyphs.open_fonts(tmp_path, "Noto*.ttc")
