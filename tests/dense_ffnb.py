"""The paper's equations on dense matrices, as they are printed; NumPy alone, nothing is shared.

Samples are rows here, so a printed W psi is ``psi @ W.T``. Numbers in brackets are the paper's. Two
readings are not printed: the codes of the neurons of a class, which stand for its parts along the
first principal axis, and pooling over all opponents of a class.
"""

import numpy as np

ACTIVATIONS = {
    "relu": (lambda z: np.maximum(z, 0.0), lambda z: np.where(z > 0.0, 1.0, 0.0)),
    "tanh": (np.tanh, lambda z: 1.0 - np.tanh(z) ** 2),
}


def codes_of(X, y, new, n_parts):
    """Coding matrix: each new class, cut into parts of equal size along its principal axis."""
    codes = np.zeros((len(y), len(new) * n_parts))
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


def pair_outputs(psi, planes, offsets):
    """Outputs of all ordered pairs of classes, of shape (n, C, C)."""
    return np.tanh(np.einsum("trd,nd->ntr", planes, psi) + offsets)


class DenseFFNB:
    """One layer of bands, Fisher discriminants of all pairs, and Algorithm 2."""

    def __init__(self, *, p, gamma, epsilon, **options):
        self.p, self.gamma, self.epsilon = p, gamma, epsilon
        self.band_size, self.init = options.get("band_size", 3), options.get("init", "multi")
        self.null_space = options.get("null_space", True)
        self.identity = options.get("covariance", "class") == "identity"
        self.factor = 0.5 if options.get("half_bias", True) else 1.0
        self.g, self.slope = ACTIVATIONS[options.get("activation", "relu")]
        self.past, self.bands, self.means, self.covariances = 0.0, [], [], []
        self.losses, self.trace = [], []

    def learn(self, X, y, epochs=0, **descent):
        """Learn the classes of a task, numbered in order of arrival."""
        new, moment, phi = np.unique(y), X.T @ X, self.residual_axes(X.shape[1])
        system = moment + self.past if self.init == "multi" else moment
        ridge, codes = self.gamma * np.eye(phi.shape[1]), codes_of(X, y, new, self.band_size)
        alpha = np.linalg.solve(ridge + phi.T @ system @ phi, phi.T @ X.T @ codes)  # [Eq. 6, 7]
        if epochs and new[-1] > 0:
            alpha = self.tuned(X, y, phi, alpha, epochs, **descent)
        rows = (phi @ alpha).T  # [Eq. 1]
        self.means, self.covariances = self.statistics(X, y, rows)
        self.bands, self.past = [*self.bands, rows], self.past + moment

    def residual_axes(self, d):
        """Axes beyond the first p of the past [Eq. 1]; axes of no energy need not be kept."""
        if not self.bands or not self.null_space:
            return np.eye(d)
        values, axes = np.linalg.eigh(self.past)
        values, axes = values[::-1], axes[:, ::-1]
        rank = np.count_nonzero(values > 1e-13 * values[0])
        held = np.cumsum(values) / values.sum()
        n_kept = self.p if isinstance(self.p, int) else np.count_nonzero(held < self.p) + 1
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
        C, d = np.shape(means)
        planes, offsets, eye = np.zeros((C, C, d)), np.zeros((C, C)), np.eye(d)
        for t, r in np.ndindex(C, C):
            within = 2.0 * eye if self.identity else covariances[t] + covariances[r]
            planes[t, r] = np.linalg.solve(within + self.epsilon * eye, means[t] - means[r])
            offsets[t, r] = -self.factor * planes[t, r] @ (means[t] + means[r])
        return planes, offsets

    def scores(self, X):
        """Sum of the pair outputs of each class."""
        planes, offsets = self.hyperplanes(self.means, self.covariances)
        return pair_outputs(self.features(X), planes, offsets).sum(axis=2)

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
        pairs = pair_outputs(psi, planes, offsets)
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
