"""
Merge sites that share no rows
==============================

Four sites classify digits. Each site has images of its own, and of some digits only, and may not
send images to the other sites. Each site learns alone and sends its model. ``merge`` adds the
moments of the models: the merged classifier equals a classifier that learned all images in one
place.

Pass a file name to save the picture instead of showing it::

    python examples/plot_sites.py sites.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from ffnb_sklearn import IncrementalDiscriminantAnalysis

# %%
# The sites
# ---------
# Four digits each. The shared neurons are drawn from ``random_state``, so all sites use one seed.
# ``rank=None`` stores covariances exactly; the default stores their largest axes.

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
digits_of_sites = {
    "north": [0, 1, 2, 3],
    "east": [2, 3, 4, 5],
    "south": [4, 5, 6, 7],
    "west": [0, 7, 8, 9],
}
owners = np.random.default_rng(0).choice(len(digits_of_sites), len(X))
unfitted = IncrementalDiscriminantAnalysis(rank=None, random_state=0)

sites = {}
is_owned = np.zeros(len(X), dtype=bool)
for number, (site, digits) in enumerate(digits_of_sites.items()):
    own = np.isin(y, digits) & (owners == number)
    sites[site] = clone(unfitted).fit(X[own], y[own])
    is_owned |= own

# %%
# Merge
# -----
# The models arrive one after another.

names = list(sites)
accuracies = {}
for site, clf in sites.items():
    accuracies[f"{site} alone"] = 100 * clf.score(X_test, y_test)
merged = sites[names[0]]
for site in names[1:]:
    merged.merge(sites[site])
    accuracies[f"with {site}"] = 100 * merged.score(X_test, y_test)
in_one_place = clone(unfitted).fit(X[is_owned], y[is_owned])
accuracies["all images in one place"] = 100 * in_one_place.score(X_test, y_test)

print("accuracy on all ten digits, in %")
for name, accuracy in accuracies.items():
    print(f"{name:<26}{accuracy:6.1f}")
difference = merged.predict_proba(X_test) - in_one_place.predict_proba(X_test)
print(f"largest difference of probabilities: {np.abs(difference).max():.0e}")

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
colors = ["lightgrey"] * 4 + ["tab:blue"] * 3 + ["tab:orange"]
bars = axes.barh(list(accuracies), list(accuracies.values()), color=colors)
axes.bar_label(bars, fmt="%.1f", padding=3)
axes.invert_yaxis()
axes.set_title("Four sites alone, and merged one after the other")
axes.set(xlabel="accuracy on all ten digits, %", xlim=(0, 108))

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
