"""
Watch the regions of a classifier grow
======================================

Digits arrive one class at a time, and the samples of earlier classes are not available afterwards.
The pictures show the region that each classifier assigns to each digit. The regions of
``IncrementalDiscriminantAnalysis`` make room for the new digit. A neural network that is trained
with the new samples assigns the whole plane to the new digit.

.. image:: /images/regions.gif
   :alt: Two animated maps of ten digits. On the left each digit keeps a region of its own; on the
         right the newest digit takes most of the plane.

The two coordinates are a t-SNE map of the images, because regions of more than two columns cannot
be drawn. The map is computed once from all images without their labels. It serves this picture:
a stream of real data has no such map.

Pass a file name to save the pictures as an animation instead of showing the last picture::

    python examples/plot_regions.py regions.gif
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.colors import ListedColormap
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE
from sklearn.neural_network import MLPClassifier

from ffnb_sklearn import IncrementalDiscriminantAnalysis

# %%
# The stream
# ----------
# The network sees the samples of a task in 40 epochs. It needs all labels at the first call.

X, y = load_digits(return_X_y=True)
# Half of the images fill the picture, and the map takes half the time.
X, y = X[::2], y[::2]
X = TSNE(max_iter=500, random_state=0).fit_transform(X)
X = X / X.std()
labels = np.unique(y)

margin = 0.3
columns = np.linspace(X[:, 0].min() - margin, X[:, 0].max() + margin, 150)
rows = np.linspace(X[:, 1].min() - margin, X[:, 1].max() + margin, 150)
plane = np.stack(np.meshgrid(columns, rows), axis=-1)

classifiers = {
    "IncrementalDiscriminantAnalysis": IncrementalDiscriminantAnalysis(random_state=0),
    "Neural network (MLPClassifier)": MLPClassifier(learning_rate_init=0.01, random_state=0),
}
n_epochs = {"IncrementalDiscriminantAnalysis": 1, "Neural network (MLPClassifier)": 40}
regions = {name: [] for name in classifiers}
accuracies = {name: [] for name in classifiers}
for label in labels:
    new = y == label
    learned = y <= label
    for name, classifier in classifiers.items():
        for _ in range(n_epochs[name]):
            classifier.partial_fit(X[new], y[new], classes=labels)
        regions[name].append(classifier.predict(plane.reshape(-1, 2)).reshape(plane.shape[:2]))
        accuracies[name].append(100 * classifier.score(X[learned], y[learned]))

# %%
# Accuracy on the digits learned so far
# -------------------------------------
# The classifiers are tested on the samples they learned, because the pictures show these samples.

print("accuracy on the digits learned so far, in %")
for name, values in accuracies.items():
    print(f"{name:<32}" + "".join(f"{value:6.1f}" for value in values))

# %%
# The regions after each digit
# ----------------------------

colors = ListedColormap(plt.get_cmap("tab10").colors)
figure, panels = plt.subplots(1, 2, figsize=(7.6, 4.1), layout="constrained")


def draw(step):
    """Draw the regions and the samples after a number of learned digits."""
    learned = y <= step
    for axes, name in zip(panels, classifiers, strict=True):
        axes.clear()
        axes.imshow(
            regions[name][step],
            cmap=colors,
            vmin=-0.5,
            vmax=9.5,
            alpha=0.35,
            origin="lower",
            extent=(columns[0], columns[-1], rows[0], rows[-1]),
            aspect="auto",
        )
        axes.scatter(*X[learned].T, c=y[learned], cmap=colors, vmin=-0.5, vmax=9.5, s=3)
        for label in labels[: step + 1]:
            position = np.median(X[y == label], axis=0)
            axes.text(*position, label, ha="center", va="center", fontsize=15, fontweight="bold")
        axes.set(xticks=[], yticks=[], title=name)
        axes.set_xlabel(f"accuracy on the digits so far: {accuracies[name][step]:.0f} %")


if len(sys.argv) > 1:
    animation = FuncAnimation(figure, draw, frames=len(labels))
    animation.save(sys.argv[1], writer=PillowWriter(fps=1), dpi=90)
else:
    draw(len(labels) - 1)
    plt.show()
