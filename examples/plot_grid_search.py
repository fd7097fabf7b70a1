"""
Choose ``p`` and ``band_size`` of trained bands
===============================================

``FFNBClassifier().fit`` learns the classes one after the other, each as a task of its own.
:class:`~sklearn.model_selection.GridSearchCV` therefore scores the accuracy after the last task,
and needs no special support for tasks.

The search covers two parameters:

- ``p``, the share of the energy of previous tasks that is out of reach of new neurons: a high
  share protects old classes, a low share leaves new neurons more room;
- ``band_size``, the number of trained neurons per new class.

Here each class consists of four clusters, which the inputs alone do not separate well. With
``shared_band_size=0`` the classifier has trained neurons and no random neurons. Beside the random
neurons of the default, trained neurons would add little. ``IncrementalDiscriminantAnalysis`` has
random neurons and no trained neurons. It needs no search, and does not depend on the order of the
classes.

Pass a file name to save the picture instead of showing it.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, train_test_split

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis

# %%
# Search
# ------
# The search uses 800 rows of eight classes in three folds. Each of the nine candidates learns eight
# tasks per fold.

X, y = make_classification(
    2400,
    16,
    n_informative=16,
    n_redundant=0,
    n_classes=8,
    n_clusters_per_class=4,
    class_sep=2.0,
    flip_y=0.0,
    random_state=0,
)
X, X_test, y, y_test = train_test_split(X, y, train_size=800, stratify=y, random_state=0)

grid = {"p": [0.5, 0.9, 0.99], "band_size": [1, 3, 8]}
bands = FFNBClassifier(shared_band_size=0, random_state=0)
search = GridSearchCV(bands, grid, cv=3).fit(X, y)
scores = 100 * search.cv_results_["mean_test_score"]
without_bands = IncrementalDiscriminantAnalysis(random_state=0).fit(X, y)

print(f"scores of the grid     {scores.min():.1f} to {scores.max():.1f} %")
print(f"best parameters        {search.best_params_}")
print(f"test, best parameters  {100 * search.score(X_test, y_test):.1f} %")
print(f"test, no trained band  {100 * without_bands.score(X_test, y_test):.1f} %")

# %%
# Accuracy on the grid
# --------------------
# Differences of a point or two may be chance: a fold has 267 rows.

scores = scores.reshape(len(grid["band_size"]), len(grid["p"]))
figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
image = axes.imshow(scores, cmap="YlGnBu", aspect="auto", origin="lower")
for (row, column), score in np.ndenumerate(scores):
    color = "white" if image.norm(score) > 0.6 else "0.15"
    axes.text(column, row, f"{score:.1f}", ha="center", va="center", color=color)
axes.set_xticks(range(len(grid["p"])), grid["p"])
axes.set_yticks(range(len(grid["band_size"])), grid["band_size"])
axes.set_xlabel("p: share of previous energy out of reach")
axes.set_ylabel("band_size: neurons per class")
axes.set_title("Trained bands, one class per task")
axes.tick_params(length=0)
axes.spines[:].set_visible(False)
bar = figure.colorbar(image, label="Cross-validated accuracy (%)")
bar.outline.set_visible(False)

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
