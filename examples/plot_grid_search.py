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

Both matter if the inputs do not separate the classes and there are no random neurons. Here each
class consists of four clusters. By default the classifier has 500 random neurons as well, which
need no search but store more. ``IncrementalDiscriminantAnalysis`` trains no neurons.

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
# The search uses 800 rows of eight classes in three folds. Each of the 12 candidates learns eight
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

bands = FFNBClassifier(shared_band_size=0, random_state=0)
grid = {"p": [0.5, 0.8, 0.95, 0.99], "band_size": [1, 3, 8]}
search = GridSearchCV(bands, grid, cv=3, n_jobs=2).fit(X, y)
inputs = IncrementalDiscriminantAnalysis(shared_band_size=0, random_state=0).fit(X, y)
default = FFNBClassifier(random_state=0).fit(X, y)
no_bands = IncrementalDiscriminantAnalysis(random_state=0).fit(X, y)

print(f"test, inputs alone     {100 * inputs.score(X_test, y_test):.1f} %")
print(f"best parameters        {search.best_params_}")
print(f"test, searched         {100 * search.score(X_test, y_test):.1f} %")
print(f"test, the default      {100 * default.score(X_test, y_test):.1f} %")
print(f"test, no bands         {100 * no_bands.score(X_test, y_test):.1f} %")

# %%
# Accuracy on the grid
# --------------------
# Several neurons per class are better than a single neuron, most with a small share ``p``.

scores = 100 * search.cv_results_["mean_test_score"]
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
axes.set_title("Trained bands without random neurons, one class per task")
axes.tick_params(length=0)
axes.spines[:].set_visible(False)
bar = figure.colorbar(image, label="Cross-validated accuracy (%)")
bar.outline.set_visible(False)

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
