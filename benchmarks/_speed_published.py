"""Algorithms as they were published, before anything in them was done once instead of often.

Each keeps what its paper keeps and computes it where the paper does. ``peers.py`` and
``lifted_peers.py`` hold the same heads with the repetition taken out; their predictions agree.
"""

import numpy as np
from lifted_peers import RanPAC
from peers import FeCAM, unit_rows
from scipy import linalg


class PerSampleSLDA:
    """Deep streaming LDA: mean and covariance move with every single sample.

    With t samples seen, of which c are of class y,

        Sigma <- (t Sigma + t / (t + 1) (x - mu_y)(x - mu_y)') / (t + 1),
        mu_y <- (c mu_y + x) / (c + 1).

    Parameters
    ----------
    n_features : int
        Width of the rows.
    shrinkage : float, default=1e-4
        Weight of the identity in the inverse that a prediction takes.
    class_counts : bool, default=False
        Whether c / (c + 1) takes the place of t / (t + 1) before the outer product: only with
        it is Sigma the covariance within classes of the samples seen. It costs the same.

    References
    ----------
    T. L. Hayes and C. Kanan, "Lifelong machine learning with deep streaming linear discriminant
    analysis", CVPR Workshops 2020.
    """

    def __init__(self, n_features, *, shrinkage=1e-4, class_counts=False):
        self.shrinkage = shrinkage
        self.class_counts = class_counts
        self.covariance_ = np.zeros((n_features, n_features))
        self.means_ = {}
        self.counts_ = {}
        self.n_seen_ = 0

    def partial_fit(self, X, y):
        """Take in rows one after another."""
        for row, label in zip(X, y.tolist(), strict=True):
            self._take_in(row, label)
        return self

    def _take_in(self, row, label):
        t, c = self.n_seen_, self.counts_.get(label, 0)
        mean = self.means_.get(label, np.zeros(len(row)))
        gap, count = row - mean, c if self.class_counts else t
        step = (count / (count + 1)) * np.outer(gap, gap)
        self.covariance_ = (t * self.covariance_ + step) / (t + 1)
        self.means_[label] = (c * mean + row) / (c + 1)
        self.counts_[label], self.n_seen_ = c + 1, t + 1

    def predict(self, X):
        """Label of the largest score, by an inverse computed here."""
        labels = np.array(sorted(self.means_))
        means = np.stack([self.means_[label] for label in labels])
        d = len(self.covariance_)
        precision = np.linalg.pinv(
            (1.0 - self.shrinkage) * self.covariance_ + self.shrinkage * np.eye(d), hermitian=True
        )
        weights = means @ precision
        return labels[np.argmax(X @ weights.T - 0.5 * np.sum(weights * means, axis=1), axis=1)]


class RankOneSLDA(PerSampleSLDA):
    """The same recursion as one in-place BLAS rank-1 update of a triangle per sample.

    It keeps t Sigma, of which the division by t is left to the reader.
    """

    def __init__(self, n_features, **options):
        super().__init__(n_features, **options)
        self._sum = np.zeros((n_features, n_features), order="F")

    def partial_fit(self, X, y):
        """Take in rows one after another."""
        super().partial_fit(X, y)
        # Only the upper triangle was written.
        upper = np.triu(self._sum)
        self.covariance_ = (upper + np.triu(upper, 1).T) / self.n_seen_
        return self

    def _take_in(self, row, label):
        t, c = self.n_seen_, self.counts_.get(label, 0)
        mean = self.means_.get(label, np.zeros(len(row)))
        gap, count = row - mean, c if self.class_counts else t
        linalg.blas.dsyr(count / (count + 1), gap, a=self._sum, overwrite_a=True)
        self.means_[label] = mean + gap / (c + 1)
        self.counts_[label], self.n_seen_ = c + 1, t + 1


class PerBatchFeCAM(FeCAM):
    """FeCAM whose class covariances are inverted at every batch of a prediction.

    The published code takes a pseudo-inverse there, by a singular value decomposition; this one
    takes the inverse, which is several times cheaper and the same for a matrix of full rank.

    References
    ----------
    D. Goswami, Y. Liu, B. Twardowski and J. van de Weijer, "FeCAM: Exploiting the heterogeneity
    of class distributions in exemplar-free continual learning", NeurIPS 2023.
    """

    def _solve(self):
        means = self.raw_sums_ / self.counts_[:, None]
        self._correlations = [self._correlation(column) for column in range(len(means))]
        return unit_rows(means if self.power_ == 1.0 else means**self.power_)

    def _correlation(self, column):
        covariance = self.scatter_[column] / max(self.counts_[column] - 1, 1)
        for _ in range(self.n_shrinkages):
            covariance = self._add_mean_covariance(covariance)
        deviation = np.sqrt(np.diag(covariance))
        return covariance / np.outer(deviation, deviation)

    def _scores(self, Z):
        Z = unit_rows(Z)
        scores = np.empty((len(Z), len(self.classes_)))
        for column, correlation in enumerate(self._correlations):
            gap = Z - self._solution[column]
            scores[:, column] = -np.sum((gap @ np.linalg.inv(correlation)) * gap, axis=1)
        return scores


class PerRidgeRanPAC(RanPAC):
    """RanPAC that solves one system of its whole width for each of the 17 ridges.

    References
    ----------
    M. D. McDonnell, D. Gong, A. Parvaneh, E. Abbasnejad and A. van den Hengel, "RanPAC: Random
    projections and pre-trained models for continual learning", NeurIPS 2023.
    """

    def _inspect(self, Z, y):
        n_fit = int(0.8 * len(Z))
        order = self._random.permutation(len(Z))
        fit, held_out = order[:n_fit], order[n_fit:]
        targets = (y[:, None] == np.unique(y)).astype(np.float64)
        gram, cross = Z[fit].T @ Z[fit], Z[fit].T @ targets[fit]
        ridges, errors = 10.0 ** np.arange(-8, 9), []
        for ridge in ridges:
            weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), cross)
            errors.append(np.mean((Z[held_out] @ weights - targets[held_out]) ** 2))
        self.ridge_ = ridges[np.argmin(errors)]
