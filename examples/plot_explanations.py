"""
Which columns speak for which class?
====================================

Both classifiers work with the tools of :mod:`sklearn.inspection`, which need predictions alone:

- *Permutation importance* shows which columns each class needs: a column is shuffled, and the share
  of a class that is still recognised falls.
- *Partial dependence* shows for which values of a column a class is likely.

For a single sample, the difference between the scores of two classes can be divided among the
columns, so that the parts add up to the difference.

Pass a file name to save the picture instead of showing it::

    python examples/plot_explanations.py explanations.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import train_test_split

from ffnb_sklearn import IncrementalDiscriminantAnalysis

# %%
# Three growers, one after the other
# ----------------------------------
# The wines of three growers are described by 13 measurements of unlike units, so ``scale="auto"``
# standardises them. The growers arrive one by one.

X, y = load_wine(return_X_y=True, as_frame=True)
X = X.rename(columns={"od280/od315_of_diluted_wines": "od280/od315"})
y = y.map({0: "first", 1: "second", 2: "third"})
X, X_test, y, y_test = train_test_split(X, y, train_size=0.5, stratify=y, random_state=0)
clf = IncrementalDiscriminantAnalysis(scale="auto", random_state=0)
for grower in ("first", "second", "third"):
    clf.partial_fit(X[y == grower], y[y == grower])
print(f"accuracy on wines not learned  {clf.score(X_test, y_test):.1%}")

# %%
# Permutation importance
# ----------------------
# `permutation_importance` takes a function that returns a score for each class. Importances are
# measured on wines that were not learned. Columns that repeat each other share their importance, so
# a low bar alone does not make a column useless.


def recognised(clf, X, y):
    """Return the share of each grower's wines that is recognised."""
    is_correct = clf.predict(X) == y
    return {grower: is_correct[y == grower].mean() for grower in clf.classes_}


results = permutation_importance(
    clf, X_test, y_test, scoring=recognised, n_repeats=10, random_state=0
)
importances = 100 * np.array([results[grower].importances_mean for grower in clf.classes_])
for grower, losses in zip(clf.classes_, importances, strict=True):
    print(f"most important for the {grower:<8}{X.columns[losses.argmax()]}")

# %%
# The score of one wine
# ---------------------
# Why is this wine the second grower's, and not the first's? Its columns replace those of the
# average wine, one after the other. Each replacement changes the difference of the two scores, and
# these changes add up to the whole difference, for any classifier. They depend on the order of the
# columns, so they are averaged over random orders and their reverses [1]_. The averages are
# estimates of Shapley values. An order and its reverse give the exact values for a sum of terms of
# one or two columns each, such as the linear scores of ``shrinkage=1.0, shared_band_size=0``.


def contributions(difference, sample, reference, n_orders, rng):
    """Return what each column adds to the difference of the scores of two classes."""
    n_columns = len(sample)
    sums = np.zeros(n_columns)
    for _ in range(n_orders):
        order = rng.permutation(n_columns)
        for columns in (order, order[::-1]):
            rows = np.tile(reference, (n_columns + 1, 1))
            for n_replaced, column in enumerate(columns, start=1):
                rows[n_replaced:, column] = sample[column]
            sums[columns] += np.diff(difference(rows))
    return sums / (2 * n_orders)


def second_minus_first(rows):
    """Return the score of the second grower minus that of the first."""
    scores = clf.decision_function(pd.DataFrame(rows, columns=X.columns))
    return scores[:, 1] - scores[:, 0]


average = X.mean().to_numpy()
wine = X_test[y_test == "second"].iloc[0].to_numpy()
rng = np.random.default_rng(0)
parts = contributions(second_minus_first, wine, average, n_orders=50, rng=rng)
difference_of_average, difference = second_minus_first(np.stack([average, wine]))
print(f"average wine, second - first   {difference_of_average:+.2f}")
print(f"all columns together           {parts.sum():+.2f}")
print(f"this wine, second - first      {difference:+.2f}")

# %%
# The picture
# -----------
# On the right, the partial dependence of the most important column of the third grower: the mean
# probability of each grower if all wines had this value of the column.
# `PartialDependenceDisplay` draws it for a single class.

figure, axes = plt.subplot_mosaic(
    [["importances", "dependence"], ["importances", "wine"]],
    figsize=(9, 7.5),
    layout="constrained",
)
rank = importances.sum(axis=0).argsort()
positions = np.arange(len(rank))
for number, (grower, losses) in enumerate(zip(clf.classes_, importances, strict=True)):
    shift = 0.27 * (1 - number)
    axes["importances"].barh(positions + shift, losses[rank], height=0.25, label=grower)
axes["importances"].set_yticks(positions, X.columns[rank])
axes["importances"].set_xlabel("Fewer wines recognised (%)")
axes["importances"].set_title("A column is shuffled")
axes["importances"].legend(title="grower", loc="lower right", frameon=False)

column = X.columns[importances[-1].argmax()]
dependence = partial_dependence(clf, X, [column], grid_resolution=25)
for grower, probabilities in zip(clf.classes_, dependence["average"], strict=True):
    axes["dependence"].plot(dependence["grid_values"][0], 100 * probabilities, label=grower)
axes["dependence"].set(xlabel=column, ylabel="Mean probability (%)", ylim=(0, 100))
axes["dependence"].set_title("A column is set to a value")

order = np.abs(parts).argsort()[-8:]
axes["wine"].barh(X.columns[order], parts[order], color=np.where(parts[order] > 0, "C1", "C0"))
axes["wine"].axvline(0, color="0.6", linewidth=0.8)
axes["wine"].set_xlabel("Score of the second grower minus that of the first")
axes["wine"].set_title("What the columns of one wine add")
for each in axes.values():
    each.spines[["top", "right"]].set_visible(False)

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()

# %%
# References
# ----------
# .. [1] \E. Strumbelj and I. Kononenko. An efficient explanation of individual classifications
#    using game theory. Journal of Machine Learning Research 11, 2010.
