"""Figures of the page "How it works": docs/user_guide/how_it_works.rst shows one function each."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from sklearn.datasets import load_digits, load_iris

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis

COLORS = ["tab:blue", "tab:orange", "tab:green"]
# Standard deviations that an ellipse encloses, about nine rows in ten.
RADIUS = 2.0

iris = load_iris()
X = iris.data[:, 2:]
y = iris.target
names = [str(name) for name in iris.target_names]


def make_panels(n_panels):
    """Return a figure with panels that share the axes of the flowers."""
    figure, panels = plt.subplots(
        1, n_panels, figsize=(6.2, 3.1), layout="constrained", sharex=True, sharey=True
    )
    for panel in panels:
        panel.set(xlim=(0.4, 7.4), ylim=(-0.3, 3.0), xlabel="petal length (cm)")
    panels[0].set_ylabel("petal width (cm)")
    return figure, panels


def draw_samples(panel, labels, *, n_samples=50, **style):
    """Draw the first samples of some classes."""
    for label in labels:
        samples = X[y == label][:n_samples]
        panel.scatter(*samples.T, s=12, color=COLORS[label], **style)


def draw_ellipse(panel, mean, covariance, label, **style):
    """Draw the ellipse of a mean and a covariance."""
    variances, axes = np.linalg.eigh(covariance)
    angle = np.degrees(np.arctan2(axes[1, 1], axes[0, 1]))
    height, width = 2.0 * RADIUS * np.sqrt(variances)
    style = {"facecolor": "none", "edgecolor": COLORS[label], "linewidth": 2.0, **style}
    panel.add_patch(Ellipse(mean, width, height, angle=angle, **style))


def draw_rows():
    """Draw the samples of two tasks."""
    _, panels = make_panels(2)
    for task, panel in enumerate(panels, start=1):
        labels = [0, 1] if task == 1 else [2]
        draw_samples(panel, labels)
        for label in labels:
            position = X[y == label].mean(axis=0) + np.array([0.0, 0.75])
            panel.text(*position, names[label], ha="center", color=COLORS[label])
        panel.set_title(f"task {task}")


def draw_moments():
    """Draw the samples of all classes, and the moments that remain of them."""
    _, (samples, moments) = make_panels(2)
    draw_samples(samples, range(3))
    samples.set_title("rows: discarded")
    for label in range(3):
        rows = X[y == label]
        mean = rows.mean(axis=0)
        draw_ellipse(moments, mean, np.cov(rows.T), label)
        moments.plot(*mean, "+", color=COLORS[label], markersize=10)
        # The name of the smallest class stands above its ellipse.
        height = 0.5 if label == 0 else -0.9
        position = mean + np.array([0.3, height])
        moments.text(*position, f"{len(rows)} rows", ha="center", color=COLORS[label])
    moments.set_title("moments: stored")


def draw_neurons():
    """Draw three shared neurons as functions of the two columns."""
    clf = IncrementalDiscriminantAnalysis(random_state=0).fit(X, y)
    figure, panels = make_panels(3)
    plane = np.stack(np.meshgrid(np.linspace(0.4, 7.4, 120), np.linspace(-0.3, 3.0, 120)), axis=-1)
    features = clf.transform(plane.reshape(-1, 2))
    n_neurons = features.shape[1] - X.shape[1]
    for panel, neuron in zip(panels, (5, 2, 0), strict=True):
        response = features[:, X.shape[1] + neuron].reshape(plane.shape[:2])
        image = panel.imshow(
            response, origin="lower", extent=(0.4, 7.4, -0.3, 3.0), aspect="auto", cmap="Greys"
        )
        draw_samples(panel, range(3), edgecolor="white", linewidth=0.4)
        panel.set_title(f"neuron {neuron + 1} of {n_neurons}")
    figure.colorbar(image, ax=panels, label="response", ticks=[])


def draw_shrinkage():
    """Draw class covariances before and after shrinkage, for few and for many samples."""
    _, panels = make_panels(2)
    for panel, n_samples in zip(panels, (10, 50), strict=True):
        chosen = np.concatenate([np.flatnonzero(y == label)[:n_samples] for label in range(3)])
        clf = IncrementalDiscriminantAnalysis(shared_band_size=0, random_state=0).fit(
            X[chosen], y[chosen]
        )
        clf.predict(X)
        covariances = [np.cov(X[chosen][y[chosen] == label].T) for label in range(3)]
        pooled = np.mean(covariances, axis=0)
        draw_samples(panel, range(3), n_samples=n_samples, alpha=0.5)
        for label, covariance in enumerate(covariances):
            mean = X[chosen][y[chosen] == label].mean(axis=0)
            shrunk = (1.0 - clf.shrinkage_) * covariance + clf.shrinkage_ * pooled
            draw_ellipse(panel, mean, covariance, label, linestyle=":")
            draw_ellipse(panel, mean, shrunk, label)
        panel.set_title(f"{n_samples} rows a class: shrinkage {clf.shrinkage_:.2f}")


def draw_answers():
    """Draw the class regions after each task."""
    _, panels = make_panels(2)
    clf = IncrementalDiscriminantAnalysis(random_state=0)
    plane = np.stack(np.meshgrid(np.linspace(0.4, 7.4, 200), np.linspace(-0.3, 3.0, 200)), axis=-1)
    colors = np.array([plt.matplotlib.colors.to_rgb(color) for color in COLORS])
    tasks = ([0, 1], [2])
    for number, (labels, panel) in enumerate(zip(tasks, panels, strict=True), start=1):
        task = np.isin(y, labels)
        clf.partial_fit(X[task], y[task])
        probabilities = clf.predict_proba(plane.reshape(-1, 2))
        mixed = probabilities @ colors[clf.classes_]
        pale = 0.55 + 0.45 * mixed
        panel.imshow(
            pale.reshape(*plane.shape[:2], 3),
            origin="lower",
            extent=(0.4, 7.4, -0.3, 3.0),
            aspect="auto",
        )
        draw_samples(panel, clf.classes_, edgecolor="white", linewidth=0.4)
        panel.set_title(f"after task {number}")


def draw_bands():
    """Draw the response of a trained neuron to digits learned before, with and after it."""
    images, digits = load_digits(return_X_y=True)
    clf = FFNBClassifier(band_size=1, shared_band_size=0, classes_per_task=2, random_state=0)
    features = clf.fit(images, digits).transform(images)
    # The third task brings the digits 4 and 5, and one neuron for each.
    neuron = images.shape[1] + 4
    responses = [features[digits == digit, neuron] for digit in range(10)]
    _, axes = plt.subplots(figsize=(6.2, 3.1), layout="constrained")
    boxes = axes.boxplot(responses, tick_labels=range(10), showfliers=False, patch_artist=True)
    colors = ["lightgrey"] * 4 + ["tab:orange"] + ["navajowhite"] + ["white"] * 4
    for box, color in zip(boxes["boxes"], colors, strict=True):
        box.set_facecolor(color)
    for median in boxes["medians"]:
        median.set_color("black")
    axes.set(xlabel="digit", ylabel="response of the neuron of digit 4")
    heights = {"learned before": 2.5, "same task": 5.5, "learned later": 8.5}
    for text, position in heights.items():
        axes.text(position, 9.6, text, ha="center")
    axes.set_ylim(-0.5, 10.4)
    for border in (4.5, 6.5):
        axes.axvline(border, color="grey", linewidth=0.8, linestyle="--")
