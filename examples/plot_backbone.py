"""
Put a convolutional network before the classifier
=================================================

Pixels are poor features where objects move about. A convolutional network can be trained on the
classes of the first task and then frozen: the classes that come later are told apart by its
features, though it has never seen them.

Here digits lie anywhere in a frame of 14 x 14 pixels. A small network learns 0 to 4 and is frozen.
Behind it, in a :class:`~ffnb_sklearn.ContinualPipeline`, ``FFNBClassifier`` learns 0 to 4, and then
one more digit per task. A second ``FFNBClassifier`` gets the pixels.

A file name after the script's own saves the picture instead of showing it.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalAccuracyDisplay,
    TorchFeatureExtractor,
    evaluate_stream,
    make_continual_pipeline,
)
from ffnb_sklearn.backbones import FlipCrop

# %%
# Scattered digits
# ----------------

SIDE = 14


def scatter(digits, rng):
    """Lay each 8 x 8 digit at a random place of an empty frame; return the frames as rows."""
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
# A network to be trained on the first task
# -----------------------------------------
# The last pooling keeps the strongest answer of each filter, wherever it was. In the pipeline,
# ``TorchFeatureExtractor`` is fitted by the first task alone: it trains the network there for 15
# epochs, shifting the images by up to two pixels, and never again. So the features of a digit stay
# what they are.


def make_backbone():
    """Make the untrained network: 14 x 14 pixels in, 128 features out."""
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


extractor = TorchFeatureExtractor(
    make_backbone,
    input_shape=(1, SIDE, SIDE),
    epochs=15,
    train_batch_size=64,
    augment=FlipCrop(padding=2, flip=False),
    random_state=0,
)

# %%
# Stream
# ------

learners = {
    "network + FFNB": make_continual_pipeline(extractor, FFNBClassifier(random_state=0)),
    "pixels + FFNB": FFNBClassifier(random_state=0),
}
results = {
    name: evaluate_stream(learner, X, y, X_test, y_test, first_task_classes=5)
    for name, learner in learners.items()
}
print("accuracy on all digits met so far, in %")
print(f"{'new digits':<16}" + "".join(f"{name:>16}" for name in results))
for task, labels in enumerate(results["pixels + FFNB"].task_classes):
    row = [100 * result.accuracies[task] for result in results.values()]
    new = ", ".join(map(str, labels))
    print(f"{new:<16}" + "".join(f"{accuracy:>16.1f}" for accuracy in row))

# %%
# The picture
# -----------
# Digits that the network has never seen cost a few points behind the network, and many more
# without it.

figure = plt.figure(figsize=(10, 4.2), layout="constrained")
pictures, plot = figure.subfigures(1, 2, width_ratios=[1, 1.4])
halves = {"The network learned 0 to 4 ...": range(5), "... and never saw 5 to 9": range(5, 10)}
for panel, (title, labels) in zip(pictures.subfigures(2, 1), halves.items(), strict=True):
    panel.suptitle(title, fontsize="medium")
    for label, column in zip(labels, panel.subplots(2, 5).T, strict=True):
        for row, ax in zip(X[y == label], column, strict=False):
            ax.imshow(row.reshape(SIDE, SIDE), cmap="gray_r")
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_color("0.8")
curves = IncrementalAccuracyDisplay.from_stream(results, ax=plot.subplots()).ax_
curves.set_title("Scattered digits: five classes, then one per task", fontsize="medium")

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
