"""
Follow classes that change
==========================

A camera sees digits and turns slowly, by half a turn in all. So the digits drift, and at the end a
6 looks as a 9 did at the beginning. Every batch is predicted first and learned afterwards.

Without decay, all images count alike, also those that look like no image of today.
``decay(0.4)`` before each batch multiplies the weight of all earlier images by 0.4, so that the
last two batches have five sixths of the weight. With ``decay(0.1)`` a class is known from about
five images, too few in the end: a change can be followed as fast as new images arrive.

Pass a file name to save the picture instead of showing it::

    python examples/plot_drift.py drift.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import rotate
from sklearn.datasets import load_digits

from ffnb_sklearn import IncrementalDiscriminantAnalysis

# %%
# The stream
# ----------
# The images arrive in random order, in batches of 50, each turned a little further. Every batch is
# predicted by a new solution, which is computed faster with 100 neurons than with the default.

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
X = X[order]
y = y[order]
angles = np.linspace(0, 180, len(X))
for sample, angle in enumerate(angles):
    image = X[sample].reshape(8, 8)
    X[sample] = rotate(image, angle, reshape=False, order=1).ravel()

batch_size = 50
batches = [slice(start, start + batch_size) for start in range(0, len(X), batch_size)]
factors = {"no decay": 1.0, "decay(0.4)": 0.4, "decay(0.1)": 0.1}
accuracies = {name: [] for name in factors}
for name, factor in factors.items():
    clf = IncrementalDiscriminantAnalysis(shared_band_size=100, random_state=0)
    clf.partial_fit(X[batches[0]], y[batches[0]])
    for batch in batches[1:]:
        accuracies[name].append(100 * clf.score(X[batch], y[batch]))
        if factor < 1:
            clf.decay(factor)
        clf.partial_fit(X[batch], y[batch])

# %%
# Accuracy of the batches
# -----------------------
# ``decay(0.4)`` gains more the further the camera has turned.

print(f"{'accuracy in %':<16}" + "".join(f"{name:>12}" for name in factors))
thirds = {"first third": slice(0, 12), "last third": slice(-12, None), "all": slice(None)}
for third, span in thirds.items():
    means = [np.mean(values[span]) for values in accuracies.values()]
    print(f"{third:<16}" + "".join(f"{mean:12.1f}" for mean in means))

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
window = np.full(5, 1 / 5)
for name, values in accuracies.items():
    smooth = np.convolve(values, window, mode="valid")
    last_batches = np.arange(len(smooth)) + len(window)
    axes.plot(angles[batch_size * last_batches], smooth, label=name)
axes.set(xlabel="turned by, degrees", ylabel="accuracy of five batches, %", ylim=(60, 100))
axes.set_title("Accuracy on turning digits, with and without decay")
axes.legend(loc="lower left", frameon=False)

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
