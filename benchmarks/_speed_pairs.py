"""The hyperplanes of all pairs of classes: low-rank factors against a factorisation per pair."""

import numpy as np
import torch
from _speed_cases import gaussian_classes
from _speed_clock import alternate, comparison, seconds_of

from ffnb_sklearn.core.classifier.fisher import fit_pairwise
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.statistics import moments_of

SETTINGS = {"shrinkage": 0.25, "epsilon": 0.3}


def class_gaussians(n_classes, n_features, per_class, rank):
    """Gaussians of generated classes, as the classifier hands them to `fit_pairwise`."""
    moments = []
    for label in range(n_classes):
        X, _ = gaussian_classes(1, n_features, per_class, first=label)
        rows = torch.as_tensor(X)
        moments.append(moments_of([(rows, rows.new_ones(len(rows)))], rank))
    columns, penalties = np.arange(n_features), np.ones(n_features)
    return ClassGaussians.from_moments(moments, columns, penalties, device=torch.device("cpu"))


class CholeskyPerPair:
    """Hyperplanes of some pairs, each from a factorisation of its own d x d matrix.

    Class covariances are formed before the clock starts, from exact scatters (``rank=None``).
    """

    def __init__(self, gaussians, *, shrinkage, epsilon):
        blocks = torch.split(gaussians.rows, gaussians.lengths)
        scatters = torch.stack([block.T @ block for block in blocks])
        scatters += torch.diag_embed(gaussians.residuals)
        pooled = scatters.sum(0) / gaussians.weights.sum()
        ridge = epsilon * gaussians.pooled_variance() * torch.diag(gaussians.penalties)
        self.covariances = (1.0 - shrinkage) * scatters / gaussians.weights[:, None, None]
        self.covariances += shrinkage * pooled + ridge
        self.means = gaussians.means

    def planes(self, pairs):
        """Hyperplanes of the pairs (t, r) in an integer array of shape (n, 2)."""
        planes = []
        for t, r in pairs.tolist():
            factor = torch.linalg.cholesky(self.covariances[t] + self.covariances[r])
            gap = self.means[t] - self.means[r]
            planes.append(torch.cholesky_solve(gap[:, None], factor)[:, 0])
        return torch.stack(planes)


def pair_index(pairs):
    """Position of pairs (t, r), r < t, in the order of `PairwiseFisher`."""
    return pairs[:, 0] * (pairs[:, 0] - 1) // 2 + pairs[:, 1]


def compare_pairs(n_classes=100, per_class=500, n_features=512, rank=32, n_pairs=50, repeats=5):
    """Measure all pairs with truncated factors against a Cholesky factorisation per pair.

    The factorisations are run on `n_pairs` random pairs, and their seconds scaled to all. Return
    seconds, ratio, and how well the hyperplanes of the measured pairs agree.
    """
    truncated = class_gaussians(n_classes, n_features, per_class, rank)
    naive = CholeskyPerPair(class_gaussians(n_classes, n_features, per_class, None), **SETTINGS)
    t, r = np.tril_indices(n_classes, -1)
    all_pairs = np.stack([t, r], axis=1)
    chosen = np.random.default_rng(0).choice(
        len(all_pairs), min(n_pairs, len(all_pairs)), replace=False
    )
    pairs = all_pairs[chosen]

    def fast():
        return np.asarray(fit_pairwise(truncated, covariance="class", **SETTINGS).planes)

    seconds = alternate(
        {
            "pairwise": lambda: seconds_of(fast),
            "cholesky": lambda: seconds_of(naive.planes, pairs),
        },
        repeats,
    )
    scaled = seconds["cholesky"] * (len(all_pairs) / len(pairs))
    planes, exact = fast()[pair_index(pairs)], naive.planes(pairs).numpy()
    cosines = np.sum(planes * exact, axis=1) / np.sqrt(
        np.sum(planes**2, axis=1) * np.sum(exact**2, axis=1)
    )
    return {
        "case": f"C={n_classes} n/C={per_class} d={n_features} rank={rank}",
        "measured_pairs": len(pairs),
        "all_pairs": len(all_pairs),
        "cosine": float(cosines.mean()),
        **comparison(seconds["pairwise"], scaled),
    }
