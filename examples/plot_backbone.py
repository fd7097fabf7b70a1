"""
Which features: pixels, one layer, or several layers?
=====================================================

Pixels are poor features if the position of the objects varies. A convolutional network can instead
be trained on the classes of the first task and then frozen. Its features also separate later
classes, although the network was not trained on them.

The last layer keeps the information that
the first classes need; earlier layers still contain the information that later classes need. The
parameter ``layers`` concatenates the features of several layers.

In this example, digits lie anywhere in a frame of 14 x 14 pixels. A small network is trained on the
digits 0 to 2 and then frozen. A :class:`~ffnb_sklearn.ContinualPipeline` passes the features of the
network to an ``IncrementalDiscriminantAnalysis``, which learns the digits 0 to 2, and then one more
digit per task. The same classifier is evaluated with four kinds of features.

Pass a file name to save the picture instead of showing it.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from ffnb_sklearn import (
    IncrementalAccuracyDisplay,
    IncrementalDiscriminantAnalysis,
    TorchFeatureExtractor,
    evaluate_stream,
    make_continual_pipeline,
)
from ffnb_sklearn.backbones import FlipCrop, MirrorShift

# %%
# Scattered digits
# ----------------

SIDE = 14


def scatter(digits, rng):
    """Place each 8 x 8 digit at random in an empty frame, and return the frames as rows."""
    frames = np.zeros((len(digits), SIDE, SIDE))
    corners = rng.integers(0, SIDE - 7, size=(len(digits), 2))
    for frame, digit, (top, left) in zip(frames, digits, corners, strict=True):
        frame[top : top + 8, left : left + 8] = digit / 16
    return frames.reshape(len(digits), -1)


digits = load_digits()
X = scatter(digits.images, np.random.default_rng(0))
X, X_test, y, y_test = train_test_split(
    X, digits.target, test_size=0.3, stratify=digits.target, random_state=0
)

# %%
# A network trained on the first task
# -----------------------------------
# The network is trained on the digits 0 to 2 for 10 epochs, on images shifted by up to two pixels,
# and its weights are kept.


def make_backbone():
    """Return the untrained network, which maps 14 x 14 pixels to 128 features."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
    )


trained = TorchFeatureExtractor(
    make_backbone,
    input_shape=(1, SIDE, SIDE),
    epochs=10,
    train_batch_size=64,
    augment=FlipCrop(padding=2, flip=False),
    random_state=0,
).fit(X[y < 3], y[y < 3])

# %%
# Four kinds of features
# ----------------------
# With these weights and without epochs, ``TorchFeatureExtractor`` only transforms, so the features
# of an image never change. ``layers`` names the three ReLUs. ``pooling="max"`` takes the largest
# output of each filter over all positions. ``views`` averages the features of each image and of
# four copies of it, shifted by one pixel to each side.


def network(**options):
    """Return a pipeline of network and classifier; the options select the features."""
    extractor = TorchFeatureExtractor(
        make_backbone, weights=trained.state_dict_, input_shape=(1, SIDE, SIDE), **options
    )
    return make_continual_pipeline(extractor, IncrementalDiscriminantAnalysis(random_state=0))


layers = {"layers": ["1", "4", "6"], "pooling": "max"}
learners = {
    "pixels": IncrementalDiscriminantAnalysis(random_state=0),
    "last layer": network(),
    "three layers": network(**layers),
    "three layers, shifted": network(**layers, views=MirrorShift(shift=1, mirror=False)),
}
results = {
    name: evaluate_stream(learner, X, y, X_test, y_test, first_task_classes=3)
    for name, learner in learners.items()
}
print("accuracy on all digits met so far, in %")
print(f"{'new digits':<10}" + "".join(f"{name:>22}" for name in results))
for task, labels in enumerate(results["pixels"].task_classes):
    row = [100 * result.accuracies[task] for result in results.values()]
    new = ", ".join(map(str, labels))
    print(f"{new:<10}" + "".join(f"{accuracy:>22.1f}" for accuracy in row))

# %%
# The picture
# -----------
# With the last layer, accuracy drops by a few points as digits arrive that the network was not
# trained on; with three layers it hardly drops. The bars compare the accuracy at the end, the
# number of features of an image, and the size of the stored state, including the weights of the
# network.

extractors = [learner[0] for name, learner in learners.items() if name != "pixels"]
costs = {
    "final accuracy, %": [100 * result.final_accuracy for result in results.values()],
    "features": [SIDE**2, *(one.fit(X[:10]).n_features_out_ for one in extractors)],
    "state, MB": [result.state_bytes[-1] / 1e6 for result in results.values()],
}
figure = plt.figure(figsize=(10, 7), layout="constrained")
pictures, plots = figure.subfigures(1, 2, width_ratios=[1, 1.6])
halves = {"The network learned 0 to 2 ...": range(3), "... and never saw 3 to 9": range(3, 10)}
for panel, (title, labels) in zip(
    pictures.subfigures(2, 1, height_ratios=[3, 7]), halves.items(), strict=True
):
    panel.suptitle(title, fontsize="medium")
    for label, row in zip(labels, panel.subplots(len(labels), 5), strict=True):
        for image, ax in zip(X[y == label], row, strict=False):
            ax.imshow(image.reshape(SIDE, SIDE), cmap="gray_r")
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_color("0.8")
above, below = plots.subfigures(2, 1, height_ratios=[1.6, 1])
curves = above.subplots()
for name, result in results.items():
    IncrementalAccuracyDisplay.from_stream(result, name=name, ax=curves)
curves.set_ylim(0.4, 1.01)
curves.set_title("Scattered digits: three classes, then one per task", fontsize="medium")
colors = [line.get_color() for line in curves.lines[: len(results)]]
for ax, (title, values) in zip(below.subplots(1, 3, sharey=True), costs.items(), strict=True):
    bars = ax.barh(list(results), values, color=colors)
    ax.bar_label(bars, fmt="%.3g", padding=2, fontsize="small")
    ax.set_title(title, fontsize="medium")
    ax.margins(x=0.45)
    ax.set_xticks([])
    ax.spines[["top", "right", "bottom"]].set_visible(False)
ax.invert_yaxis()

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
