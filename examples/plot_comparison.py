"""
Compare classifiers on sets of two columns
==========================================

Three sets of rows arrive one class at a time, and the rows of earlier classes are not available
afterwards. Each panel shows the regions that a classifier assigns to the classes after the last
class, and the accuracy on rows that were not learned.

``IncrementalDiscriminantAnalysis`` and ``GaussianNB`` store moments of each class, so neither
forgets. The moments of ``GaussianNB`` are those of the two columns, so its regions are bounded by
simple curves; ``IncrementalDiscriminantAnalysis`` adds random neurons. A neural network that is
trained with the new rows forgets most of the earlier classes. A support vector machine is fitted to
all rows at once, which the other classifiers do not store.

Two columns show the shape of regions. They say little about tables of many columns.

Pass a file name to save the picture instead of showing it::

    python examples/plot_comparison.py comparison.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from ffnb_sklearn import IncrementalDiscriminantAnalysis

# %%
# The sets
# --------
# Two pairs of moons are four classes. Three circles share a centre. Five blobs overlap.

n_rows = 150
upper, upper_labels = make_moons(2 * n_rows, noise=0.15, random_state=0)
lower, lower_labels = make_moons(2 * n_rows, noise=0.15, random_state=1)
moons = np.vstack([upper, lower + np.array([0.5, -2.0])])
moon_labels = np.concatenate([upper_labels, lower_labels + 2])

outer, circle_labels = make_circles(2 * n_rows, factor=0.6, noise=0.08, random_state=0)
centre = np.random.default_rng(0).normal(scale=0.12, size=(n_rows, 2))
circles = np.vstack([outer, centre])
circle_labels = np.concatenate([circle_labels, np.full(n_rows, 2)])

blobs, blob_labels = make_blobs(5 * n_rows, centers=5, cluster_std=1.4, random_state=3)

sets = {
    "moons": (moons, moon_labels),
    "circles": (circles, circle_labels),
    "blobs": (blobs, blob_labels),
}

# %%
# Learn one class at a time
# -------------------------
# The network sees the rows of a class in 40 epochs. It needs all labels at the first call.

classifiers = {
    "IncrementalDiscriminantAnalysis": IncrementalDiscriminantAnalysis(random_state=0),
    "GaussianNB": GaussianNB(),
    "MLPClassifier": MLPClassifier(learning_rate_init=0.005, random_state=0),
    "SVC, all rows": SVC(),
}


def learn(name, X, y):
    """Return a classifier that has learned one class after the other, or all rows at once."""
    classifier = clone(classifiers[name])
    if name == "SVC, all rows":
        return classifier.fit(X, y)
    labels = np.unique(y)
    n_epochs = 40 if name == "MLPClassifier" else 1
    for label in labels:
        new = y == label
        for _ in range(n_epochs):
            classifier.partial_fit(X[new], y[new], classes=labels)
    return classifier


# %%
# The regions after the last class
# --------------------------------

colors = ListedColormap(plt.get_cmap("tab10").colors[:5])
figure, panels = plt.subplots(3, 4, figsize=(9, 6.9), layout="constrained")
print(f"{'accuracy in %':<13}" + "".join(f"  {name}" for name in classifiers))
for row, (set_name, (X, y)) in zip(panels, sets.items(), strict=True):
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    limits = 1.1 * np.abs(X).max(axis=0)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    horizontal = np.linspace(-limits[0], limits[0], 120)
    vertical = np.linspace(-limits[1], limits[1], 120)
    plane = np.stack(np.meshgrid(horizontal, vertical), axis=-1)
    line = f"{set_name:<13}"
    for axes, name in zip(row, classifiers, strict=True):
        classifier = learn(name, X, y)
        accuracy = 100 * classifier.score(X_test, y_test)
        regions = classifier.predict(plane.reshape(-1, 2)).reshape(plane.shape[:2])
        axes.imshow(
            regions,
            cmap=colors,
            vmin=-0.5,
            vmax=4.5,
            alpha=0.35,
            origin="lower",
            extent=(-limits[0], limits[0], -limits[1], limits[1]),
            aspect="auto",
        )
        axes.scatter(*X_test.T, c=y_test, cmap=colors, vmin=-0.5, vmax=4.5, s=5)
        axes.set(xticks=[], yticks=[], xlabel=f"{accuracy:.0f} %")
        line += f"{accuracy:>{len(name) + 2}.1f}"
    row[0].set_ylabel(set_name)
    print(line)
for axes, name in zip(panels[0], classifiers, strict=True):
    axes.set_title(name, fontsize=9)

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
