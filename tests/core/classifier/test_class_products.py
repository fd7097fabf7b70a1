"""Inner products under an inverse, against dense inverses."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core.classifier.class_products import ClassProducts
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians

LENGTHS, MOST_ROWS, D = (4, 7, 0, 9), 6, 25


def gaussians(d, rng):
    n_classes = len(LENGTHS)
    kind = {"rows": (sum(LENGTHS), d), "means": (n_classes, d)}
    drawn = {name: torch.as_tensor(rng.standard_normal(size)) for name, size in kind.items()}
    return ClassGaussians(
        weights=torch.as_tensor([3.0, 8.0, 1.0, 10.0]).double(),
        lengths=LENGTHS,
        residuals=torch.zeros(n_classes, d).double(),
        penalties=torch.ones(d).double(),
        **drawn,
    )


def expected(known, t, r, diagonal, pooled):
    """Products of the vectors of two classes, without padding."""
    stops, share = np.cumsum(LENGTHS), known.weights / known.weights.sum()
    means = known.means - share @ known.means
    matrix = torch.diag(diagonal) + pooled * known.rows.T @ known.rows
    first, second = (
        torch.cat([known.rows[stops[k] - LENGTHS[k] : stops[k]][:MOST_ROWS], means[k : k + 1]])
        for k in (t, r)
    )
    return first @ torch.linalg.inv(matrix) @ second.T


def check(found, wanted):
    """Compare a padded block: rows first, then zeros, and last the mean."""
    n, m = (size - 1 for size in wanted.shape)
    kept = found[[*range(n), -1]][:, [*range(m), -1]]
    assert_allclose(kept, wanted, rtol=1e-9, atol=1e-12)
    assert found[n:-1].abs().sum() == found[:, m:-1].abs().sum() == 0.0


@pytest.mark.parametrize("d", [2 * D, sum(LENGTHS), 6], ids="d={}".format)
def test_products_are_those_under_the_dense_inverse(d):
    rng = np.random.default_rng(0)
    known = gaussians(d, rng)
    products = ClassProducts(known, MOST_ROWS)
    one, other = (torch.as_tensor(rng.uniform(0.5, 2.0, d)) for _ in range(2))

    # The second call takes over what it can from the first, and the third nothing.
    for diagonal, scale, pooled in [(one, 1.0, 0.3), (one, 0.1, 2.0), (other, 5.0, 0.3)]:
        under = products.under(diagonal, torch.tensor(scale, dtype=torch.float64), pooled)
        between = under.of([0, 2, 3])

        first, second = torch.tensor([3, 0, 2]), torch.tensor([3, 3, 0])
        blocks = between(first, second)
        assert blocks.shape == (3, MOST_ROWS + 1, MOST_ROWS + 1)
        for block, t, r in zip(blocks, first, second, strict=True):
            check(block, expected(known, int(t), int(r), diagonal * scale, pooled))
        assert_allclose(between(first[:1], second)[2], between(first[:1], second[2:])[0])
        means = [
            [expected(known, t, r, diagonal * scale, pooled)[-1, -1] for r in range(4)]
            for t in range(4)
        ]
        assert_allclose(under.of_means, means, rtol=1e-9, atol=1e-12)


def test_what_all_means_share_takes_no_digits_from_them():
    known = gaussians(2 * D, np.random.default_rng(1))
    far = ClassGaussians(**{**vars(known), "means": known.means + 1e6})
    ones, unit = torch.ones(2 * D).double(), torch.ones(()).double()

    near_by, far_off = (
        ClassProducts(one, MOST_ROWS).under(ones, unit, 0.5).of_means for one in (known, far)
    )

    assert_allclose(far_off, near_by, rtol=1e-7, atol=1e-7)
