"""The paper's equations on dense matrices, as they are printed, without code of the package.

Samples are rows here, so a printed W psi is ``psi @ W.T``. Numbers in brackets are the paper's. By
default the implementation has the readings of the package; `READINGS` are others. With FPHA's
features,

    python -m tests.dense_ffnb --data FOLDER

prints the final accuracy of each.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import expit

ACTIVATIONS = {
    "relu": (lambda z: np.maximum(z, 0.0), lambda z: np.where(z > 0.0, 1.0, 0.0)),
    "tanh": (np.tanh, lambda z: 1.0 - np.tanh(z) ** 2),
    "sigmoid": (expit, lambda z: expit(z) * (1.0 - expit(z))),
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


@dataclass
class DenseBand:
    """Rows of one layer, with the mean and variance of a batch normalisation, if there is one."""

    rows: np.ndarray
    mean: np.ndarray | None = None
    variance: np.ndarray | None = None

    def factors(self):
        """Return the factors of the responses before the activation."""
        if self.variance is None:
            return np.ones(len(self.rows))
        return 1.0 / np.sqrt(self.variance + 1e-5)

    def normalised(self, responses):
        """Return the arguments of the activation."""
        if self.mean is None:
            return responses
        return (responses - self.mean) * self.factors()

    def arguments(self, below):
        """Return the arguments of the activation, from the features of the layer below."""
        return self.normalised(below[:, : self.rows.shape[1]] @ self.rows.T)


class DenseFFNB:
    """Layers of bands, Fisher discriminants of all pairs, and Algorithm 2."""

    def __init__(self, *, p, gamma, epsilon, **options):
        self.p = p
        self.gamma = gamma
        self.epsilon = epsilon
        self.n_layers = options.get("n_layers", 1)
        self.band_size = options.get("band_size", 3)
        self.init = options.get("init", "multi")
        self.null_space = options.get("null_space", True)
        self.batch_norm = options.get("batch_norm", False)
        self.identity = options.get("covariance", "class") == "identity"
        self.factor = 0.5 if options.get("half_bias", True) else 1.0
        self.g, self.slope = ACTIVATIONS[options.get("activation", "relu")]
        self.codes = options.get("codes", "part")
        self.one_sided = options.get("one_sided", False)
        self.bias_outside = options.get("bias_outside", False)
        self.centred = options.get("centred", False)
        self.beyond = options.get("beyond_rank", False)
        self.rng = np.random.default_rng(options.get("seed", 0))
        # Bands of each layer; sums and second moments of the past below each layer.
        self.bands = [[] for _ in range(self.n_layers)]
        self.sums = None
        self.moments = None
        self.n_past = 0
        self.means = []
        self.covariances = []
        self.losses = []
        self.trace = []

    def learn(self, X, y, epochs=0, **descent):
        """Learn the classes of a task, numbered in order of arrival."""
        if self.sums is None:
            widths = [X.shape[1]] + [0] * (self.n_layers - 1)
            self.sums = [np.zeros(width) for width in widths]
            self.moments = [np.zeros((width, width)) for width in widths]
        if self.batch_norm:
            batch = descent.get("batch", 50)
            n_batches = -(-len(X) // batch)
            self.move_norms(X, n_batches * max(1, epochs))
        new = np.unique(y)
        codes = codes_of(X, y, new, self.band_size, self.codes)
        newest, axes = self.closed_form(X, codes)
        if epochs and new[-1] > 0:
            newest = self.tune(X, y, newest, axes, epochs, **descent)
        self.means, self.covariances = self.statistics(X, y, newest)
        layers = self.layers(X, newest)
        for below in range(self.n_layers):
            old_sum, old_moment = self.past(below, newest)
            self.sums[below] = old_sum + layers[below].sum(axis=0)
            self.moments[below] = old_moment + layers[below].T @ layers[below]
        self.n_past += len(X)
        for bands, band in zip(self.bands, newest, strict=True):
            bands.append(band)

    def closed_form(self, X, codes):
        """Return the newest band of each layer by Eq. 6 or 7, and the residual axes."""
        newest = []
        all_axes = []
        for below in range(self.n_layers):
            psi = self.layers(X, newest)[below]
            old_sum, old_moment = self.past(below, newest)
            phi = self.residual_axes(old_sum, old_moment, below)
            system = psi.T @ psi
            if self.init == "multi":
                system = system + old_moment
            ridge = self.gamma * np.eye(phi.shape[1])
            alpha = np.linalg.solve(ridge + phi.T @ system @ phi, phi.T @ psi.T @ codes)
            newest.append(self.band((phi @ alpha).T, psi))  # [Eq. 1]
            all_axes.append(phi)
        return newest, all_axes

    def band(self, rows, below):
        """Return a band of some rows, normalised by its responses if there is a normalisation."""
        if not self.batch_norm:
            return DenseBand(rows)
        responses = below @ rows.T
        return DenseBand(rows, responses.mean(axis=0), responses.var(axis=0))

    def move_norms(self, X, n_steps):
        """Move the running statistics by 0.1 of the way in each step."""
        kept = 0.9**n_steps
        for below, bands in enumerate(self.bands):
            psi = self.layers(X)[below]
            for band in bands:
                responses = psi[:, : band.rows.shape[1]] @ band.rows.T
                band.mean = kept * band.mean + (1.0 - kept) * responses.mean(axis=0)
                band.variance = kept * band.variance + (1.0 - kept) * responses.var(axis=0)

    def silent(self, band):
        """Return the outputs of a band on the past, whose responses are zero [Sec. 3.2.3]."""
        return self.g(band.normalised(np.zeros(len(band.rows))))

    def past(self, below, newest):
        """Return the sum and the second moment of the past below a layer, with a newest band."""
        old_sum = self.sums[below]
        old_moment = self.moments[below]
        if below == 0:
            return old_sum, old_moment
        constant = self.silent(newest[below - 1])
        mixed = np.outer(old_sum, constant)
        square = self.n_past * np.outer(constant, constant)
        moment = np.block([[old_moment, mixed], [mixed.T, square]])
        return np.append(old_sum, self.n_past * constant), moment

    def residual_axes(self, old_sum, old_moment, below):
        """Axes beyond the first p of the past [Eq. 1]; axes of no energy need not be kept."""
        d = len(old_sum)
        if not self.n_past or not self.null_space:
            return np.eye(d)
        p = self.p[below] if isinstance(self.p, tuple) else self.p
        if self.centred:
            old_moment = old_moment - np.outer(old_sum, old_sum) / self.n_past
        values, axes = np.linalg.eigh(old_moment)
        values = values[::-1]
        axes = axes[:, ::-1]
        rank = np.count_nonzero(values > 1e-13 * values[0])
        n_kept = p
        if not isinstance(p, int):
            shares = np.cumsum(values) / values.sum()
            n_kept = np.count_nonzero(shares < p) + 1
        if self.beyond:
            # Any basis of the axes of no energy is one of eigenvectors.
            turn = np.linalg.qr(self.rng.normal(size=(d - rank, d - rank)))[0]
            turned = axes[:, rank:] @ turn
            return np.hstack([axes[:, :rank], turned])[:, n_kept:]
        return axes[:, min(n_kept, rank) :]

    def layers(self, X, newest=()):
        """Return psi_0 to psi_L, with newest bands in the first layers."""
        layers = [X]
        for number, bands in enumerate(self.bands):
            newest_of_layer = newest[number : number + 1]
            outputs = [X[:, :0]]
            for band in (*bands, *newest_of_layer):
                outputs.append(self.g(band.arguments(layers[-1])))
            layers.append(np.hstack(outputs))
        return layers

    def statistics(self, X, y, newest):
        """Means and covariances of all classes; new neurons are silent on old classes."""
        constant = self.silent(newest[-1])
        means = [np.append(mean, constant) for mean in self.means]
        covariances = [np.pad(covariance, (0, len(constant))) for covariance in self.covariances]
        for label in np.unique(y):
            psi = self.layers(X[y == label], newest)[-1]
            means.append(psi.mean(axis=0))
            covariances.append(np.atleast_2d(np.cov(psi.T, bias=True)))
        return means, covariances

    def hyperplanes(self, means, covariances):
        """Hyperplanes of all ordered pairs (t, r) [Eq. 9], of shape (C, C, d) and (C, C)."""
        means = np.array(means)
        covariances = np.array(covariances)
        eye = np.eye(means.shape[1])
        planes = np.zeros((len(means), *means.shape))
        for t in range(1, len(means)):
            within = covariances[t] + covariances[:t]
            if self.identity:
                within = 2.0 * eye
            gaps = (means[t] - means[:t])[:, :, None]
            planes[t, :t] = np.linalg.solve(within + self.epsilon * eye, gaps)[:, :, 0]
            planes[:t, t] = -planes[t, :t]
        sums_of_means = means[:, None] + means
        return planes, -self.factor * (planes * sums_of_means).sum(axis=2)

    def scores(self, X):
        """Sum of the pair outputs of each class."""
        planes, offsets = self.hyperplanes(self.means, self.covariances)
        psi = self.layers(X)[-1]
        if self.bias_outside is False:
            outputs = self.pair_outputs(psi, planes, offsets)
        else:
            outputs = self.pair_outputs(psi, planes, 0.0 * offsets)
            if self.bias_outside:
                outputs += offsets
        if self.one_sided:
            outputs = np.tril(outputs)
        return outputs.sum(axis=2)

    @staticmethod
    def pair_outputs(psi, planes, offsets):
        """Outputs of all ordered pairs of classes, of shape (n, C, C)."""
        return np.tanh(np.einsum("trd,nd->ntr", planes, psi, optimize=True) + offsets)

    def tune(self, X, y, newest, axes, epochs, *, rng, rate, momentum, decay, batch):
        """Return the newest bands after Algorithm 2, with the rate rule of Sec. 4.1."""
        alphas = [phi.T @ band.rows.T for phi, band in zip(axes, newest, strict=True)]
        velocities = [np.zeros_like(alpha) for alpha in alphas]
        losses = []
        for epoch in range(epochs + 1):
            newest = self.bands_of(X, alphas, axes)
            planes, offsets = self.hyperplanes(*self.statistics(X, y, newest))
            losses.append(self.hinge(X, y, newest, planes, offsets)[0])
            if epoch == epochs:
                break
            if epoch:
                rate *= rate_factor(losses)
            order = rng.permutation(len(X))
            for now in np.split(order, range(batch, len(order), batch)):
                gradients = self.hinge(X[now], y[now], newest, planes, offsets)[1]
                for layer, phi in enumerate(axes):
                    velocity = momentum * velocities[layer] + decay * alphas[layer]
                    velocities[layer] = velocity + phi.T @ gradients[layer].T
                    alphas[layer] = alphas[layer] - rate * velocities[layer]
                    # The normalisation stays until the end of the epoch.
                    newest[layer] = replace(newest[layer], rows=(phi @ alphas[layer]).T)
                self.trace.append([band.rows for band in newest])
        self.losses = losses[1:]
        return newest

    def bands_of(self, X, alphas, axes):
        """Return the bands of some coordinates, with normalisations of their own."""
        newest = []
        for below, (phi, alpha) in enumerate(zip(axes, alphas, strict=True)):
            psi = self.layers(X, newest)[below]
            newest.append(self.band((phi @ alpha).T, psi))
        return newest

    def hinge(self, X, y, newest, planes, offsets):
        """Mean multi-class hinge, and its gradients by the rows at fixed hyperplanes."""
        layers = self.layers(X, newest)
        each = np.arange(len(X))
        pairs = self.pair_outputs(layers[-1], planes, offsets)
        scores = pairs.sum(axis=2)
        lacking = 1.0 + scores - scores[each, y][:, None]
        lacking[each, y] = 0.0
        worst = lacking.argmax(axis=1)
        loss = lacking.max(axis=1)
        by_score = np.zeros_like(scores)
        by_score[each, worst] += loss > 0.0
        by_score[each, y] -= loss > 0.0
        by_pair = by_score[:, :, None] * (1.0 - pairs**2) / len(X)
        n_newest = len(newest[-1].rows)
        by_output = np.einsum("ntr,trd->nd", by_pair, planes[:, :, -n_newest:])
        gradients = []
        for band, below in zip(reversed(newest), reversed(layers[:-1]), strict=True):
            by_response = by_output * self.slope(band.arguments(below)) * band.factors()
            gradients.append(by_response.T @ below)
            # Old rows have zero weight on the newest neurons below.
            by_output = by_response @ band.rows[:, -n_newest:]
        return loss.mean(), gradients[::-1]


def rate_factor(losses):
    """Return the factor of the rate: 0.99 if the loss changes faster than before, or 1 / 0.99."""
    speeds = np.abs(np.diff(losses[-3:]))
    if len(speeds) == 2 and speeds[1] > speeds[0]:
        return 0.99
    return 1.0 / 0.99


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
