"""The charts of accuracy against costs."""

import itertools

import numpy as np
import pytest
from matplotlib.text import Annotation
from numpy.testing import assert_allclose

from benchmarks.heads.charts import describe_chart, draw_chart, points_of

MEANS = {
    "a": {"balanced": 90.0, "state_mb": 2.0, "learning_s": 0.5, "first_s": 0.25},
    "b": {"balanced": 80.0, "state_mb": 100.0, "learning_s": 2.0, "first_s": 0.0},
}
LABELS = {"a": "first", "b": "second"}


def test_points_add_the_seconds_to_learn_and_to_predict():
    assert points_of(MEANS, "megabytes") == {"a": (2.0, 90.0), "b": (100.0, 80.0)}
    assert points_of(MEANS, "seconds") == {"a": (0.75, 90.0), "b": (2.0, 80.0)}


def test_description_has_all_points():
    text = describe_chart(points_of(MEANS, "megabytes"), "megabytes", LABELS)
    assert text.endswith("against megabytes stored: first 90.0 at 2; second 80.0 at 100.")


@pytest.mark.parametrize("seed", range(5))
def test_names_of_crowded_points_cover_no_other_name(seed):
    rng = np.random.default_rng(seed)
    points = {str(n): (10.0 ** rng.uniform(0, 1), rng.uniform(80, 90)) for n in range(6)}
    labels = {name: f"method {name}, joint" for name in points}
    figure = draw_chart(points, "seconds", labels, {"3"}, "six methods")
    (axes,) = figure.axes
    assert_allclose([line.get_xydata()[0] for line in axes.lines], list(points.values()))
    markers = [line.get_marker() for line in axes.lines]
    assert markers == ["o", "o", "o", "s", "o", "o"]
    names = [child for child in axes.get_children() if isinstance(child, Annotation)]
    assert [name.get_text() for name in names] == list(labels.values())
    boxes = [name.get_window_extent() for name in names]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
