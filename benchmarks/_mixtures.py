"""Generated classes whose distribution is known: Gaussians, and mixtures of them."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Population:
    """Classes of known distribution.

    Attributes
    ----------
    means : ndarray of shape (n_classes, n_clusters, d)
        Centres of each class's Gaussian clusters, which weigh the same.
    roots : ndarray of shape (n_classes, d, d)
        Roots of the covariances that a class's clusters have: ``root @ root.T``.
    """

    means: np.ndarray
    roots: np.ndarray

    def draw(self, n_per_class, random):
        """Return ``n_per_class`` rows of every class, and their labels."""
        n_classes, n_clusters, d = self.means.shape
        y = np.repeat(np.arange(n_classes), n_per_class)
        clusters = random.integers(n_clusters, size=len(y))
        noise = random.standard_normal((n_classes, n_per_class, d))
        spread = noise @ self.roots.transpose(0, 2, 1)
        return self.means[y, clusters] + spread.reshape(-1, d), y


def decaying_root(d, smallest, random):
    """Root of a covariance in a random basis, its variances falling evenly from 1 in the log."""
    basis = np.linalg.qr(random.standard_normal((d, d)))[0]
    return basis * np.logspace(0.0, np.log10(smallest) / 2.0, d)


def equal_covariances(random, *, n_classes, d, distance, smallest=0.01):
    """Gaussians of one covariance; means are spread by it times the square of ``distance``."""
    root = decaying_root(d, smallest, random)
    means = distance * random.standard_normal((n_classes, d)) @ root.T
    return Population(means[:, None], np.broadcast_to(root, (n_classes, d, d)))


def unequal_covariances(random, *, n_classes, d, distance, smallest=0.03):
    """Gaussians each of whose covariances has a basis of its own."""
    roots = np.stack([decaying_root(d, smallest, random) for _ in range(n_classes)])
    return Population(distance * random.standard_normal((n_classes, 1, d)), roots)


def low_rank_covariances(random, *, n_classes, d, distance, rank=5, noise=0.05):
    """Gaussians of variance 1 along ``rank`` axes of their own and ``noise`` across all."""
    roots = []
    for _ in range(n_classes):
        axes = np.linalg.qr(random.standard_normal((d, rank)))[0]
        # A square root of noise I + axes axes': both have the eigenvectors of axes.
        gain = np.sqrt(1.0 + noise) - np.sqrt(noise)
        roots.append(np.sqrt(noise) * np.eye(d) + gain * axes @ axes.T)
    return Population(distance * random.standard_normal((n_classes, 1, d)), np.stack(roots))


def clustered_classes(random, *, n_classes, d, distance, n_clusters=4):
    """Classes of several round clusters, which lie anywhere among those of the other classes."""
    means = distance * random.standard_normal((n_classes, n_clusters, d))
    return Population(means, np.broadcast_to(np.eye(d), (n_classes, d, d)))
