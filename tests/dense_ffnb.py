"""The paper's equations on dense matrices, as they are printed; NumPy alone, nothing is shared.

Samples are rows here, so a printed W psi is ``psi @ W.T``. Numbers in brackets are the paper's. By
default the implementation has the readings of the package; `READINGS` are others. With FPHA's
features,

    python -m tests.dense_ffnb --data FOLDER

prints the final accuracy of each.
"""

import argparse
from pathlib import Path

import numpy as np

ACTIVATIONS = {
    "relu": (lambda z: np.maximum(z, 0.0), lambda z: np.where(z > 0.0, 1.0, 0.0)),
    "tanh": (np.tanh, lambda z: 1.0 - np.tanh(z) ** 2),
}

# Readings of the printed text that the package does not follow, as options of `DenseFFNB`.
READINGS = {
    "as the package": {},
    "no factor 1/2 in the bias": {"half_bias": False},
    "tanh(w psi) + b, the bias outside": {"bias_outside": True},
    "tanh(w psi), no bias": {"bias_outside": None},
    "a class pools over earlier classes alone": {"one_sided": True},
    "one code per task": {"codes": "task"},
    "one code per class": {"codes": "class"},
    "centred PCA of the past": {"centred": True},
    "p axes dropped beyond the rank": {"beyond_rank": True},
}


def codes_of(X, y, new, n_parts, kind="part"):
    """Coding matrix: each new class, cut into parts of equal size along its principal axis."""
    codes = np.zeros((len(y), len(new) * n_parts))
    if kind == "task":
        return codes + 1.0
    if kind == "class":
        return (y[:, None] == np.repeat(new, n_parts)).astype(float)
    for k, label in enumerate(new):
        members = np.flatnonzero(y == label)
        centred = X[members] - X[members].mean(axis=0)
        axis = np.linalg.svd(centred)[2][0]
        order = np.argsort(centred @ axis * np.sign(axis[np.abs(axis).argmax()]))
        edges = np.linspace(0.0, len(members), n_parts + 1)
        for place, member in enumerate(members[order]):
            overlap = np.minimum(place + 1, edges[1:]) - np.maximum(place, edges[:-1])
            codes[member, k * n_parts : (k + 1) * n_parts] = overlap.clip(0.0)
    return codes


class DenseFFNB:
    """One layer of bands, Fisher discriminants of all pairs, and Algorithm 2."""

    def __init__(self, *, p, gamma, epsilon, **options):
        self.p, self.gamma, self.epsilon = p, gamma, epsilon
        self.band_size, self.init = options.get("band_size", 3), options.get("init", "multi")
        self.null_space = options.get("null_space", True)
        self.identity = options.get("covariance", "class") == "identity"
        self.factor = 0.5 if options.get("half_bias", True) else 1.0
        self.g, self.slope = ACTIVATIONS[options.get("activation", "relu")]
        self.codes, self.one_sided = options.get("codes", "part"), options.get("one_sided", False)
        self.bias_outside = options.get("bias_outside", False)
        self.centred, self.beyond = options.get("centred", False), options.get("beyond_rank", False)
        self.rng = np.random.default_rng(options.get("seed", 0))
        self.past, self.sum, self.n, self.bands = 0.0, 0.0, 0, []
        self.means, self.covariances = [], []
        self.losses, self.trace = [], []

    def learn(self, X, y, epochs=0, **descent):
        """Learn the classes of a task, numbered in order of arrival."""
        new, moment, phi = np.unique(y), X.T @ X, self.residual_axes(X.shape[1])
        system = moment + self.past if self.init == "multi" else moment
        ridge = self.gamma * np.eye(phi.shape[1])
        codes = codes_of(X, y, new, self.band_size, self.codes)
        alpha = np.linalg.solve(ridge + phi.T @ system @ phi, phi.T @ X.T @ codes)  # [Eq. 6, 7]
        if epochs and new[-1] > 0:
            alpha = self.tuned(X, y, phi, alpha, epochs, **descent)
        rows = (phi @ alpha).T  # [Eq. 1]
        self.means, self.covariances = self.statistics(X, y, rows)
        self.bands, self.past = [*self.bands, rows], self.past + moment
        self.sum, self.n = self.sum + X.sum(axis=0), self.n + len(X)

    def residual_axes(self, d):
        """Axes beyond the first p of the past [Eq. 1]; axes of no energy need not be kept."""
        if not self.bands or not self.null_space:
            return np.eye(d)
        mean_part = np.outer(self.sum, self.sum) / self.n if self.centred else 0.0
        values, axes = np.linalg.eigh(self.past - mean_part)
        values, axes = values[::-1], axes[:, ::-1]
        rank = np.count_nonzero(values > 1e-13 * values[0])
        held = np.cumsum(values) / values.sum()
        n_kept = self.p if isinstance(self.p, int) else np.count_nonzero(held < self.p) + 1
        if self.beyond:
            # Any basis of the axes of no energy is one of eigenvectors.
            turn = np.linalg.qr(self.rng.normal(size=(d - rank, d - rank)))[0]
            return np.hstack([axes[:, :rank], axes[:, rank:] @ turn])[:, n_kept:]
        return axes[:, min(n_kept, rank) :]

    def features(self, X, *newest):
        """Outputs of all bands."""
        return np.hstack([self.g(X @ rows.T) for rows in [*self.bands, *newest]])

    def statistics(self, X, y, rows):
        """Means and covariances of all classes; new neurons are zero on old ones [Sec. 3.2.3]."""
        means = [np.append(one, np.zeros(len(rows))) for one in self.means]
        covariances = [np.pad(one, (0, len(rows))) for one in self.covariances]
        for label in np.unique(y):
            own = self.features(X[y == label], rows)
            means.append(own.mean(axis=0))
            covariances.append(np.atleast_2d(np.cov(own.T, bias=True)))
        return means, covariances

    def hyperplanes(self, means, covariances):
        """Hyperplanes of all ordered pairs (t, r) [Eq. 9], of shape (C, C, d) and (C, C)."""
        means, covariances = np.array(means), np.array(covariances)
        planes, eye = np.zeros((len(means), *means.shape)), np.eye(means.shape[1])
        for t in range(1, len(means)):
            within = 2.0 * eye if self.identity else covariances[t] + covariances[:t]
            gaps = (means[t] - means[:t])[:, :, None]
            planes[t, :t] = np.linalg.solve(within + self.epsilon * eye, gaps)[:, :, 0]
            planes[:t, t] = -planes[t, :t]
        return planes, -self.factor * (planes * (means[:, None] + means)).sum(axis=2)

    def scores(self, X):
        """Sum of the pair outputs of each class."""
        planes, offsets = self.hyperplanes(self.means, self.covariances)
        if self.bias_outside is False:
            outputs = self.pair_outputs(self.features(X), planes, offsets)
        else:
            outputs = self.pair_outputs(self.features(X), planes, 0.0 * offsets)
            outputs += offsets if self.bias_outside else 0.0
        return (np.tril(outputs) if self.one_sided else outputs).sum(axis=2)

    @staticmethod
    def pair_outputs(psi, planes, offsets):
        """Outputs of all ordered pairs of classes, of shape (n, C, C)."""
        return np.tanh(np.einsum("trd,nd->ntr", planes, psi, optimize=True) + offsets)

    def tuned(self, X, y, phi, alpha, epochs, *, rng, rate, momentum, decay, batch):
        """Coordinates after the epochs of Algorithm 2, with the rate rule of Sec. 4.1."""
        velocity, losses = np.zeros_like(alpha), []
        for epoch in range(epochs + 1):
            rows = (phi @ alpha).T
            planes, offsets = self.hyperplanes(*self.statistics(X, y, rows))
            losses.append(self.hinge(X, y, rows, planes, offsets)[0])
            if epoch == epochs:
                break
            if epoch:
                speeds = np.abs(np.diff(losses[-3:]))
                rate *= 0.99 if len(speeds) == 2 and speeds[1] > speeds[0] else 1.0 / 0.99
            for now in np.split(order := rng.permutation(len(X)), range(batch, len(order), batch)):
                gradient = self.hinge(X[now], y[now], (phi @ alpha).T, planes, offsets)[1]
                velocity = momentum * velocity + phi.T @ gradient.T + decay * alpha
                alpha = alpha - rate * velocity
                self.trace.append((phi @ alpha).T)
        self.losses = losses[1:]
        return alpha

    def hinge(self, X, y, rows, planes, offsets):
        """Mean multi-class hinge, and its gradient by the rows at fixed hyperplanes."""
        psi, each = self.features(X, rows), np.arange(len(X))
        pairs = self.pair_outputs(psi, planes, offsets)
        scores = pairs.sum(axis=2)
        lacking = 1.0 + scores - scores[each, y][:, None]
        lacking[each, y] = 0.0
        worst, loss = lacking.argmax(axis=1), lacking.max(axis=1)
        by_score = np.zeros_like(scores)
        by_score[each, worst] += loss > 0.0
        by_score[each, y] -= loss > 0.0
        by_pair = by_score[:, :, None] * (1.0 - pairs**2) / len(X)
        by_response = np.einsum("ntr,trd->nd", by_pair, planes[:, :, -len(rows) :])
        return loss.mean(), (by_response * self.slope(X @ rows.T)).T @ X


def accuracy(split, reading, size):
    """Final accuracy of a reading in a stream of tasks of so many classes, with FPHA's p."""
    model = DenseFFNB(p=75, gamma=1.0, epsilon=0.01, **reading)
    labels, y = np.unique(split.y, return_inverse=True)
    for task in np.split(np.arange(len(labels)), len(labels) // size):
        now = np.isin(y, task)
        model.learn(split.X[now], y[now])
    return 100.0 * np.mean(labels[model.scores(split.X_test).argmax(axis=1)] == split.y_test)


def main():
    """Print the table of readings."""
    from benchmarks.lib.data import default_folder
    from benchmarks.paper.data_sets import FPHA, Pretraining, load_splits

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=default_folder())
    folder = parser.parse_args().data
    print("| reading | tasks of five | class by class |\n|---|---|---|")
    splits = [
        load_splits(FPHA, folder, features="gcn-narrow", pretraining=Pretraining(), seed=seed)[0]
        for seed in range(5)
    ]
    for name, reading in READINGS.items():
        found = [[accuracy(one, reading, size) for one in splits] for size in (5, 1)]
        cells = [f"{np.mean(one):.1f} ± {np.std(one):.1f}" for one in found]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    options = [{"beyond_rank": True, "seed": seed} for seed in range(10)]
    found = [accuracy(splits[0], one, 1) for one in options]
    print(f"Ten bases of the axes of no energy: {min(found):.1f} to {max(found):.1f}.")


if __name__ == "__main__":
    main()
