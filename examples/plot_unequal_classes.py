"""
Rare classes: which accuracy counts?
====================================

In imbalanced data a classifier that always predicts the common class is often correct. *Accuracy*
is the share of correct predictions; *balanced accuracy* is the mean of this share over the classes.
No classifier has the largest value of both, so decide which measure counts: a missed tumour costs
more than a second examination, but missed spam costs less than a lost message.

The parameter `priors` of ``IncrementalDiscriminantAnalysis`` sets this choice: the frequencies that
it assumes for the classes of future samples. By default all classes are equally frequent, and the
balanced accuracy is high. ``priors="empirical"`` assumes the frequencies of the learned samples,
and the accuracy is high. A mapping gives any other frequencies. `priors` may be changed after
learning, and needs neither the samples nor a new fit.

Pass a file name to save the picture instead of showing it::

    python examples/plot_unequal_classes.py unequal.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold

from ffnb_sklearn import IncrementalDiscriminantAnalysis

# %%
# A rare class
# ------------
# The data are the benign and malignant tumours of scikit-learn, with a random fifth of the
# malignant tumours, so that about one tumour in ten is malignant. Texture and smoothness alone do
# not separate them. Their units differ, so ``scale="auto"`` standardises them.

X, y = load_breast_cancer(return_X_y=True)
kept = (y == 1) | (np.random.default_rng(0).random(len(y)) < 0.2)
X, y = X[kept][:, [1, 4]], np.where(y[kept] == 1, "benign", "malignant")
print(f"{np.mean(y == 'malignant'):.1%} of {len(y)} tumours are malignant")

# %%
# Priors may change after learning
# --------------------------------
# In each of five folds a model learns first the benign and then the malignant tumours. The priors
# change afterwards.

shares = np.linspace(0.02, 0.9, 23)
named = {"uniform": "uniform", "empirical": "empirical", "nine in ten": {"malignant": 9}}
named["nine in ten"]["benign"] = 1
settings = [*named.values(), *({"malignant": share, "benign": 1 - share} for share in shares)]
predicted = np.empty((len(settings), len(y)), dtype=object)
learner = IncrementalDiscriminantAnalysis(scale="auto", random_state=0)
for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
    clf = clone(learner)
    for label in ("benign", "malignant"):
        now = train[y[train] == label]
        clf.partial_fit(X[now], y[now])
    for row, priors in zip(predicted, settings, strict=True):
        row[test] = clf.set_params(priors=priors).predict(X[test])

rows = [row.astype(str) for row in predicted]
accuracy = 100 * np.array([accuracy_score(y, row) for row in rows])
balanced = 100 * np.array([balanced_accuracy_score(y, row) for row in rows])
found = 100 * np.array([np.mean(row[y == "malignant"] == "malignant") for row in rows])
print(f"{'priors':<14}{'accuracy':>10}{'balanced':>10}{'malignant found':>18}")
for name, *figures in zip(named, accuracy, balanced, found, strict=False):
    print(f"{name:<14}{figures[0]:>10.1f}{figures[1]:>10.1f}{figures[2]:>18.1f}")

# %%
# The picture
# -----------

figure, axes = plt.subplots(figsize=(6.6, 4), layout="constrained")
start = len(named)
for name, values in {"accuracy": accuracy, "balanced accuracy": balanced}.items():
    axes.plot(shares, values[start:], label=name)
axes.plot(shares, found[start:], "--", color="0.5", label="malignant tumours found")
for share, name in ((np.mean(y == "malignant"), "empirical"), (0.5, "uniform")):
    axes.axvline(share, color="0.8", zorder=0)
    axes.text(share, 25, f" {name}", color="0.4")
axes.set(ylim=(0, 100), ylabel="%", xlabel="Assumed share of malignant tumours")
axes.xaxis.set_major_formatter("{x:.0%}")
axes.set_title("One model, priors changed after learning")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(loc="lower right", frameon=False)

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
