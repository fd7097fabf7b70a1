"""The formulas of the package in the arithmetic of mpmath, with 80 digits."""

import mpmath as mp
from scipy.optimize import brentq

mp.mp.dps = 80


def exact(array):
    """Return a matrix with the values of an array; a vector becomes a column."""
    return mp.matrix(array.tolist())


def moments(X, weights):
    """Return the mean, as a row, and the scatter of weighted samples."""
    masses, columns = exact(weights), [[mp.mpf(x) for x in column] for column in X.T.tolist()]
    means = [mp.fdot(masses, column) / mp.fsum(masses) for column in columns]
    centred = [[x - mean for x in column] for column, mean in zip(columns, means, strict=True)]
    weighted = [[w * x for w, x in zip(masses, column, strict=True)] for column in centred]
    scatter = [[mp.fdot(one, other) for other in centred] for one in weighted]
    return mp.matrix([means]), mp.matrix(scatter)


def ridge_shape(variances):
    """Return the ridge of epsilon 1 of inputs alone: their variances plus the lower median.

    The median is that of the columns that vary.
    """
    positive = sorted(one for one in variances if one > 0)
    median = positive[(len(positive) - 1) // 2]
    penalties = [variance + median for variance in variances]
    scaled = mp.fsum(v / one for v, one in zip(variances, penalties, strict=True))
    return mp.diag([one * scaled / len(variances) for one in penalties])


class Classes:
    """Regularised covariances of classes that are given by their samples.

    Parameters
    ----------
    samples : list of (X, weights)
        Samples of each class.
    shrinkage, epsilon : float
        Parameters of the classifier.
    """

    def __init__(self, samples, shrinkage, epsilon):
        both = [moments(*one) for one in samples]
        self.means = [mean for mean, _ in both]
        scatters = [scatter for _, scatter in both]
        self.weights = [mp.fsum(exact(weights)) for _, weights in samples]
        total, d = mp.fsum(self.weights), samples[0][0].shape[1]
        pooled = sum(scatters[1:], scatters[0]) / total
        rho = mp.mpf(shrinkage)
        self.pooled = pooled
        self.ridge = mp.mpf(epsilon) * ridge_shape([pooled[i, i] for i in range(d)])
        self.shared = rho * pooled + self.ridge
        self.covariances = [
            (1 - rho) * scatter / weight + self.shared
            for scatter, weight in zip(scatters, self.weights, strict=True)
        ]

    def total_lengths(self, X):
        """Return the squared lengths of rows in the covariance of all samples, with the ridge."""
        shares = [weight / mp.fsum(self.weights) for weight in self.weights]
        weighted = [share * mean for share, mean in zip(shares, self.means, strict=True)]
        centre = sum(weighted[1:], weighted[0])
        total = self.pooled + self.ridge
        for share, mean in zip(shares, self.means, strict=True):
            total += share * (mean - centre).T * (mean - centre)
        rows = [(row - centre).T for row in (exact(X)[i, :] for i in range(len(X)))]
        return mp.matrix([[(row.T * mp.lu_solve(total, row))[0]] for row in rows])

    def planes(self):
        """Return w and b of all pairs, r < t, as rows of d + 1 numbers."""
        rows = []
        for t, mean in enumerate(self.means):
            for r, other in enumerate(self.means[:t]):
                system = self.covariances[t] + self.covariances[r]
                w = mp.lu_solve(system, (mean - other).T)
                rows.append([*w, -(w.T * (mean + other).T)[0] / 2])
        return mp.matrix(rows)

    def pair_scores(self, X):
        """Return the sums of the outputs of the pairs."""
        scores = mp.zeros(len(X), len(self.means))
        homogeneous = mp.matrix([[*row, 1] for row in X.tolist()])
        outputs = self.planes() * homogeneous.T
        for i in range(len(X)):
            pairs = iter(outputs[:, i])
            for t in range(len(self.means)):
                for r in range(t):
                    one = mp.tanh(next(pairs))
                    scores[i, t] += one
                    scores[i, r] -= one
        return scores

    def log_ratios(self, X):
        """Return the scores of the distances to the classes at temperature 1."""
        total = mp.fsum(self.weights)
        weighted = [w * mean for w, mean in zip(self.weights, self.means, strict=True)]
        centre, rows = sum(weighted[1:], weighted[0]) / total, exact(X)

        def half_distance(row, mean, covariance):
            gap = (row - mean).T
            return (gap.T * mp.lu_solve(covariance, gap))[0] / 2

        pairs = list(zip(self.means, self.covariances, strict=True))
        return mp.matrix(
            [
                [
                    half_distance(row, centre, self.shared) - half_distance(row, *pair)
                    for pair in pairs
                ]
                for row in (rows[i, :] for i in range(len(X)))
            ]
        )


def bound(weights, kept, X):
    """Return the bound of Proposition 1 for a first layer with these rows and kept axes."""
    rows, axes, Z = exact(weights), exact(kept), exact(X)
    # The kept axes are orthonormal up to rounding alone.
    gram = axes * axes.T
    residual = Z - Z * axes.T * mp.inverse(gram) * axes
    return energy(rows) * energy(residual)


def likeliest_share(ratios):
    """Return the share s of the second class that maximises the likelihood of rows.

    The density of a row is (1 - s) p + s q, and its ratio is q / p. The derivative of the
    log-likelihood decreases in s.
    """

    def slope(share):
        return float(((ratios - 1.0) / (1.0 + share * (ratios - 1.0))).sum())

    if slope(0.0) <= 0.0:
        return 0.0
    if slope(1.0) >= 0.0:
        return 1.0
    return float(brentq(slope, 0.0, 1.0))


def energy(matrix):
    """Return the sum of the squares."""
    return mp.fsum(one**2 for one in matrix)


def relative_error(found, expected):
    """Return the norm of the error of an array, relative to the norm of what it should be."""
    error = exact(found) - expected
    return float(mp.sqrt(energy(error) / energy(expected)))
