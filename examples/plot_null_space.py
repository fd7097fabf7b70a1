"""
See the null-space of the past
==============================

The neurons of a new task may not use the axes along which earlier samples have most of their
energy. Earlier samples then hardly excite the new neurons, and the old neurons never change. The
digits 0 to 4 are the first task here, the digits 5 to 9 the second; each digit has one neuron.

Pass a file name to save the picture instead of showing it::

    python examples/plot_null_space.py null_space.png
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from ffnb_sklearn import FFNBClassifier

# %%
# Two tasks, with and without the null-space
# ------------------------------------------
# The classifier has trained neurons alone, so that `transform` returns their outputs.
# ``init="mono"`` fits new neurons to the new samples only, so nothing but the null-space spares the
# old samples. Without the null-space, `p` has no effect.

X, y = load_digits(return_X_y=True)
past = X[y < 5]
new = X[y >= 5]
p = 0.95


def learn(null_space):
    """Return the outputs of all samples after the first task, and the classifier after both."""
    clf = FFNBClassifier(band_size=1, shared_band_size=0, skip_connection=False, random_state=0)
    clf.set_params(bands__init="mono", bands__gamma=0.1, bands__null_space=null_space)
    if null_space:
        clf.set_params(p=p)
    clf.partial_fit(past, y[y < 5])
    before = clf.transform(X)
    return before, clf.partial_fit(new, y[y >= 5])


before, confined = learn(null_space=True)
_, free = learn(null_space=False)

# %%
# The axes by the energy of the past
# ----------------------------------
# The second moment of the past has the axes as eigenvectors, and their energies as eigenvalues.
# ``p=0.95`` keeps the fewest axes that hold 95 % of the energy.

energies, axes_of_past = np.linalg.eigh(past.T @ past)
energies = energies[::-1] / energies.sum()
axes_of_past = axes_of_past[:, ::-1]
shares = energies.cumsum()
_, (n_residual,) = confined.null_space_dims_
n_kept = X.shape[1] - n_residual
kept_share = 100 * shares[n_kept - 1]
print(f"p={p} keeps {n_kept} of {X.shape[1]} axes, with {kept_share:.1f} % of the energy")


def rows_of(clf):
    """Return the weights of all neurons; a ReLU without bias returns them for unit vectors."""
    unit_vectors = np.eye(X.shape[1])
    return (clf.transform(unit_vectors) - clf.transform(-unit_vectors)).T


rows = rows_of(confined)[5:]
weights = np.abs(rows @ axes_of_past)

# %%
# Old samples before and after the second task
# --------------------------------------------
# The drift is the squared change of the outputs of old samples, and Proposition 1 of the paper
# bounds it.

for name, clf in {"null-space": confined, "no null-space": free}.items():
    outputs = clf.transform(X)
    found = clf.forgetting_bound(past)
    unchanged = np.array_equal(outputs[:, :5], before)
    print(f"{name}: old neurons unchanged: {unchanged}")
    print(f"{name}, drift and bounds: {found.drift:.3g} {found.tight_bound:.3g} {found.bound:.3g}")


def means(outputs):
    """Return the mean output of each neuron for each digit."""
    return np.array([outputs[y == digit].mean(axis=0) for digit in range(10)])


# %%
# Top: what p keeps, and the new neurons, which use only the other axes. Bottom: the old digits,
# above the line, do not excite the new neurons, to the right of the line. Without the null-space
# they do.

figure, axes = plt.subplots(2, 3, figsize=(10.5, 6.4), layout="constrained")
energy_axes, share_axes, weight_axes = axes[0]
numbers = np.arange(1, X.shape[1] + 1)
is_kept = numbers <= n_kept
has_energy = energies > 1e-12
for some, color, label in [(is_kept, "C0", "kept for the past"), (~is_kept, "C1", "residual")]:
    some = some & has_energy
    energy_axes.bar(numbers[some], energies[some], color=color, label=label)
energy_axes.set(yscale="log", xlabel="axis", ylabel="share", title="Energy of the past")
energy_axes.legend(frameon=False)

share_axes.plot(numbers, shares, color="black")
for share, style in [(0.8, ":"), (p, "--"), (0.99, "-.")]:
    count = int(np.sum(shares < share)) + 1
    color = "C0" if share == p else "0.5"
    label = f"p={share}: {count} axes"
    share_axes.plot([0, count, count], [share, share, 0], style, color=color, label=label)
share_axes.legend(frameon=False, loc="lower right")
share_axes.set(xlabel="axis", ylabel="cumulated share", title="What p keeps", ylim=(0, 1.03))

weight_axes.imshow(weights, aspect="auto", cmap="Oranges")
weight_axes.axvline(n_kept - 0.5, color="C0", linestyle="--")
weight_axes.set(xlabel="axis", title="|weights| of the new neurons")
weight_axes.set_yticks(range(5), [f"neuron of {digit}" for digit in range(5, 10)])

panels = {
    "Before the task": before,
    "After it": confined.transform(X),
    "After it, without the null-space": free.transform(X),
}
for panel, (title, outputs) in zip(axes[1], panels.items(), strict=True):
    mean_outputs = means(outputs)
    shown = np.full((10, 10), np.nan)
    shown[:, : mean_outputs.shape[1]] = mean_outputs
    panel.imshow(shown, cmap="viridis", vmin=0, vmax=before.max() / 2)
    panel.axhline(4.5, color="white", linewidth=2)
    panel.axvline(4.5, color="white", linewidth=2)
    panel.set(xlabel="neuron of the digit", ylabel="mean output for the digit", title=title)
    panel.set_xticks(range(10))
    panel.set_yticks(range(10))

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
