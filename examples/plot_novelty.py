"""
Detect a new class, ask for its label, learn it
===============================================

A classifier has learned the digits 0 to 5. Then images arrive week by week, and sometimes they
include a new digit that was not announced.
:meth:`~ffnb_sklearn.IncrementalDiscriminantAnalysis.score_samples` returns higher scores for images
that are more similar to the learned classes. Images with lower scores than almost all images of
known digits are put aside. Once enough images are put aside, a person labels them and the
classifier learns them.

Pass a file name to save the picture instead of showing it::

    python examples/plot_novelty.py novelty.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from ffnb_sklearn import IncrementalDiscriminantAnalysis

# %%
# A threshold from left-out samples
# ---------------------------------
# Learned samples have higher scores than new samples of the same classes. With ``novelty=True`` the
# classifier also scores samples that it leaves out of learning, and keeps quantiles of their
# scores. One in ten images of known digits should fall below the threshold.

FALSE_ALARMS, MOST_ASIDE = 0.1, 25

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
first = np.flatnonzero(y <= 5)
first = rng.permutation(first)[:700]
clf = IncrementalDiscriminantAnalysis(novelty=True, random_state=0)
clf.fit(X[first], y[first])

# %%
# The weeks
# ---------
# Each week brings 60 images of the digits from 0 to the largest digit of that week, listed here. A
# person is asked for labels once at least 25 images are put aside. All these images are learned,
# including unusual images of known digits. At first only a few images of a new digit are learned,
# so more of its images are put aside in the next weeks.

largest_digit = [5, 6, 6, 6, 7, 7, 7, 7, 9, 9, 9, 9, 9]
later = np.setdiff1d(np.arange(len(y)), first)
weeks, aside = [], []
for week, largest in enumerate(largest_digit):
    here = rng.permutation(later[y[later] <= largest])[:60]
    later = np.setdiff1d(later, here)
    new = ~np.isin(y[here], clf.classes_)
    odd = clf.score_samples(X[here]) < clf.novelty_threshold(FALSE_ALARMS)
    weeks.append({"noticed": np.sum(odd & new), "new": new.sum(), "alarms": np.sum(odd & ~new)})
    weeks[-1]["accuracy"] = np.mean(clf.predict(X[here]) == y[here])
    aside = [*aside, *here[odd]]
    if len(aside) >= MOST_ASIDE:
        labels = y[aside]  # A person provides the labels.
        unknown = np.setdiff1d(labels, clf.classes_)
        clf.partial_fit(X[aside], labels)
        print(f"week {week}: asked for {len(aside)} labels; new classes: {unknown.tolist()}")
        weeks[-1]["learned"], aside = unknown.tolist(), []

known = sum(60 - one["new"] for one in weeks)
unseen = sum(one["new"] for one in weeks)
print(f"images of unknown classes put aside: {sum(o['noticed'] for o in weeks) / unseen:.0%}")
print(f"images of known classes put aside: {sum(o['alarms'] for o in weeks) / known:.0%}")
print(f"accuracy on the images left: {clf.score(X[later], y[later]):.1%}")

# %%
# Images put aside
# ----------------
# The bars show the images put aside, and the line above them the accuracy on all images of the
# week, before any of them was learned. It drops when a new digit arrives, and recovers when the
# digit is learned.

figure, (above, below) = plt.subplots(
    2, 1, figsize=(7.5, 5), sharex=True, height_ratios=[1, 2], layout="constrained"
)
numbers = np.arange(len(weeks))
above.plot(numbers, [100 * one["accuracy"] for one in weeks], "o-", color="#0072B2")
above.set(ylabel="Accuracy, in %", ylim=(0, 105), title="New digits noticed, labelled and learned")
noticed, alarms = (np.array([one[key] for one in weeks]) for key in ("noticed", "alarms"))
below.bar(numbers, noticed, color="#D55E00", label="unknown digit, put aside")
below.bar(numbers, alarms, bottom=noticed, color="#E6AB7E", label="known digit, put aside")
for week, one in enumerate(weeks):
    if one.get("learned"):
        text = f"learns {', '.join(map(str, one['learned']))}"
        below.annotate(
            text, (week, noticed[week] + alarms[week] + 1), ha="center", fontsize="small"
        )
below.set(xlabel="Week", ylabel="Images of 60", ylim=(0, 50), xticks=numbers)
for axes in (above, below):
    axes.spines[["top", "right"]].set_visible(False)
below.legend(loc="upper left", frameon=False)

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
