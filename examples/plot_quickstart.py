"""
Learn digits, two classes at a time
===================================

The digits data set of scikit-learn arrives as five tasks: first the zeros and ones, then the twos
and threes, and so on. The images of a task are not available afterwards. After each task, every
classifier is tested on all digits learned so far.

Three classifiers learn the stream without storing an image:

- ``IncrementalDiscriminantAnalysis``, which accepts new labels at any call;
- ``SGDClassifier``, a linear classifier trained by gradient steps;
- ``GaussianNB``, which stores a mean and a variance per class and pixel.

The last two classifiers require all labels at the first call.
:func:`~ffnb_sklearn.evaluate_stream` detects this and passes the labels.

Two further classifiers store all images, and are fitted to all images again after each task: the
nearest neighbour (kNN) and a support vector machine. If you may keep the data, and there is as
little as here, use them: they lose nothing.

Pass a file name to save the first picture instead of showing both::

    python examples/plot_quickstart.py quickstart.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from ffnb_sklearn import (
    AccuracyMatrixDisplay,
    IncrementalAccuracyDisplay,
    IncrementalDiscriminantAnalysis,
    evaluate_stream,
)

# %%
# The stream
# ----------
# The data is split 70 / 30, stratified, and the pixels are not scaled. ``GaussianNB`` gets uniform
# priors, because it would otherwise take the logarithm of a zero frequency for unseen digits.

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)


class StoreAll(ClassifierMixin, BaseEstimator):
    """Store all samples, and fit a classifier to them again at each call."""

    def __init__(self, classifier):
        self.classifier = classifier

    def partial_fit(self, X, y):
        """Append the samples of a task, and fit a new classifier."""
        known = hasattr(self, "classes_")
        self.X_ = np.concatenate([self.X_, X]) if known else X
        self.y_ = np.concatenate([self.y_, y]) if known else y
        self.fitted_ = clone(self.classifier).fit(self.X_, self.y_)
        self.classes_ = self.fitted_.classes_
        return self

    def predict(self, X):
        """Return the label of each sample."""
        return self.fitted_.predict(X)


classifiers = {
    "IncrementalDiscriminantAnalysis": IncrementalDiscriminantAnalysis(random_state=0),
    "GaussianNB": GaussianNB(priors=np.full(10, 0.1), var_smoothing=0.01),
    "SGDClassifier": SGDClassifier(random_state=0),
    "1-NN, stores all": StoreAll(KNeighborsClassifier(1)),
    "SVC, stores all": StoreAll(SVC()),
}
results = {
    name: evaluate_stream(classifier, X, y, X_test, y_test, classes_per_task=2)
    for name, classifier in classifiers.items()
}

# %%
# Accuracy after each task
# ------------------------
# Each row shows the accuracy after one task, on the test images of all digits learned so far.

digits = [
    ", ".join(map(str, labels))
    for labels in results["IncrementalDiscriminantAnalysis"].task_classes
]
print("accuracy on all digits met so far, in %")
widths = [len(name) + 2 for name in results]


def print_row(title, accuracies):
    """Print the accuracies of all classifiers in percent."""
    cells = [f"{100 * a:>{width}.1f}" for a, width in zip(accuracies, widths, strict=True)]
    print(f"{title:<10}" + "".join(cells))


print(f"{'new digits':<10}" + "".join(f"  {name}" for name in results))
for task, name_of_task in enumerate(digits):
    print_row(name_of_task, [result.accuracies[task] for result in results.values()])

print_row("final", [result.final_accuracy for result in results.values()])
print_row("average", [result.average_incremental_accuracy for result in results.values()])

# %%
# The curves show the same numbers. Dashed lines belong to classifiers that store all images.

figure, curves = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for name, result in results.items():
    IncrementalAccuracyDisplay.from_stream(result, name=name, ax=curves)
for line in curves.get_lines()[3:]:
    line.set(linestyle="--", marker="", zorder=1)
curves.set_ylim(0, 1.02)
curves.legend(loc="center right", bbox_to_anchor=(1, 0.71), fontsize="small", frameon=False)
curves.set_title("Digits, two new classes per task")

# %%
# Accuracy on each task
# ---------------------
# The heat maps show which tasks were forgotten: a column that fades downwards belongs to a task
# that was learned and then forgotten.

_, (forgetful, faithful) = plt.subplots(1, 2, figsize=(7.6, 4), layout="constrained")
for axes, name in ((forgetful, "SGDClassifier"), (faithful, "IncrementalDiscriminantAnalysis")):
    AccuracyMatrixDisplay.from_stream(results[name], task_labels=digits, ax=axes, colorbar=False)
    axes.set_title(name)
faithful.set_ylabel("")

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
