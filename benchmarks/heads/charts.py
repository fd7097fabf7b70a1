"""Draw the accuracy of classifiers against their megabytes and seconds."""

from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

# Label of the axis of each cost, and the columns of the results that add up to it.
CHARTS = {
    "megabytes": ("megabytes stored", ["state_mb"]),
    "seconds": ("seconds to learn and to predict first", ["learning_s", "first_s"]),
}
# Places of a name: points from its mark, and alignment.
PLACES = [
    ((6, 0), "left", "center"),
    ((-6, 0), "right", "center"),
    ((0, 6), "center", "bottom"),
    ((0, -6), "center", "top"),
    ((4, 4), "left", "bottom"),
    ((-4, 4), "right", "bottom"),
    ((4, -4), "left", "top"),
    ((-4, -4), "right", "top"),
]


def points_of(means, cost):
    """Return the cost and the accuracy of each method, from its mean figures."""
    _, columns = CHARTS[cost]
    points = {}
    for method, figures in means.items():
        total = sum(figures[column] for column in columns)
        points[method] = (total, figures["balanced"])
    return points


def describe_chart(points, cost, labels):
    """Return the alternative text of a picture, for readers who cannot see it."""
    axis_label, _ = CHARTS[cost]
    texts = []
    for method, (total, accuracy) in points.items():
        texts.append(f"{labels[method]} {accuracy:.1f} at {total:.3g}")
    return f"Balanced accuracy in percent against {axis_label}: {'; '.join(texts)}."


def draw_chart(points, cost, labels, joint, title):
    """Return the picture of the accuracies against a cost.

    The first method is blue. Methods in `joint`, which are fitted to all rows, are grey squares.
    """
    axis_label, _ = CHARTS[cost]
    figure = Figure(figsize=(5.8, 3.8), layout="constrained")
    axes = figure.subplots()
    marks = {}
    for method, point in points.items():
        marker = "o"
        color = "tab:orange"
        if method in joint:
            marker = "s"
            color = "dimgray"
        if not marks:
            color = "tab:blue"
        (marks[method],) = axes.plot(*point, marker, color=color)
    axes.set(xscale="log", xlabel=axis_label, ylabel="balanced accuracy, %", title=title)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(x=0.2, y=0.1)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.draw_without_rendering()
    add_names(axes, marks, labels)
    return figure


def add_names(axes, marks, labels):
    """Write the name of each method at the place beside its mark where it covers least."""
    boxes = []
    for mark in marks.values():
        center = axes.transData.transform(mark.get_xydata()[0])
        boxes.append(Bbox([center - 5, center + 5]))
    for method, mark in marks.items():
        names = []
        for offset, horizontal, vertical in PLACES:
            name = axes.annotate(
                labels[method],
                mark.get_xydata()[0],
                offset,
                textcoords="offset points",
                ha=horizontal,
                va=vertical,
                fontsize=9,
                color=mark.get_color(),
            )
            names.append(name)
        covered = []
        for name in names:
            box = name.get_window_extent()
            covered.append(covered_area(box, boxes, axes.bbox))
        best = covered.index(min(covered))
        boxes.append(names.pop(best).get_window_extent())
        for name in names:
            name.remove()


def covered_area(box, boxes, frame):
    """Return the area of a box outside the frame, plus its overlaps with other boxes."""
    inside = Bbox.intersection(box, frame)
    area = box.width * box.height
    if inside is not None:
        area -= inside.width * inside.height
    for other in boxes:
        overlap = Bbox.intersection(box, other)
        if overlap is not None:
            area += overlap.width * overlap.height
    return area
