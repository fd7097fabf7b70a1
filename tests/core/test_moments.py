"""Class moments against dense numpy, and what merging must satisfy."""

from fractions import Fraction
from operator import mul

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core import moments as moments_module
from ffnb_sklearn.core.device import as_array
from ffnb_sklearn.core.moments import (
    check_size,
    keep_axes,
    merge,
    merge_classes,
    moments_of,
    subtract,
    unite,
)
from tests.core.small_models import samples, second_moment

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def stored_in_double(monkeypatch):
    """Compare the arithmetic to all digits; the storage in single precision has a test."""

    def stored(factor, _):
        return as_array(factor), torch.zeros(factor.shape[1], dtype=torch.float64)

    monkeypatch.setattr(moments_module, "pack_factor", stored)


@pytest.mark.parametrize(("size", "dtype"), [(1.0, np.float32), (1e30, float), (1e-30, float)])
def test_truncated_factors_are_stored_in_single_precision_within_its_range(
    monkeypatch, size, dtype
):
    exact = moments(size * samples(40, 6)[0], max_rank=3)
    monkeypatch.undo()
    stored = moments(size * samples(40, 6)[0], max_rank=3)
    assert stored.factor.dtype == dtype
    assert moments(samples(40, 6)[0]).factor.dtype == float
    assert_allclose(stored.factor, exact.factor, rtol=1e-5, atol=1e-6 * size)
    assert_array_equal(stored.residual, exact.residual)


def moments(X, w=None, max_rank=None, n_chunks=1):
    w = np.ones(len(X)) if w is None else w
    parts = np.array_split(np.arange(len(X)), n_chunks)
    chunks = [(torch.as_tensor(X[part]), torch.as_tensor(w[part])) for part in parts]
    return moments_of(chunks, max_rank)


def dense(X, w):
    mean = np.average(X, axis=0, weights=w)
    return w.sum(), mean, (X - mean).T @ ((X - mean) * w[:, None])


def assert_same(first, second, rtol=1e-9):
    assert first.weight == pytest.approx(second.weight, rel=1e-12)
    assert_allclose(first.mean, second.mean, rtol=rtol)
    scale = np.abs(second.scatter()).max(initial=0.0)
    assert_allclose(first.scatter(), second.scatter(), atol=rtol * max(scale, 1e-300))


@pytest.mark.parametrize(("n", "d"), [(1, 4), (3, 8), (8, 8), (60, 5)])
@pytest.mark.parametrize("n_chunks", [1, 3])
def test_moments_are_those_of_dense_numpy(n, d, n_chunks):
    X, w = samples(n, d)

    result = moments(X, w, n_chunks=min(n, n_chunks))

    weight, mean, scatter = dense(X, w)
    assert result.weight == pytest.approx(weight)
    assert_allclose(result.mean, mean, rtol=1e-12)
    assert_allclose(result.scatter(), scatter, atol=1e-11 * np.abs(scatter).max() + 1e-13)
    assert_allclose(second_moment(result), X.T @ (X * w[:, None]), rtol=1e-10, atol=1e-9)
    assert_array_equal(result.residual, np.zeros(d))


def test_a_common_offset_costs_no_digits_of_the_scatter():
    X, w = samples(40, 3)
    far = moments(X + 1e6, w, n_chunks=4)

    assert_allclose(far.scatter(), dense(X, w)[2], rtol=1e-7)


def test_the_factor_is_orthogonal_and_no_longer_than_it_must_be():
    X, w = samples(7, 12)

    factor = moments(X, w).factor

    gram = factor @ factor.T
    assert len(factor) == 6  # centring takes one
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-10 * gram.max())
    assert (np.diff(np.diag(gram)) < 0).all()


@pytest.mark.parametrize(("n", "d"), [(6, 10), (50, 10)])
def test_a_truncated_factor_keeps_the_principal_axes_and_the_diagonal(n, d):
    X, w = samples(n, d)

    result = moments(X, w, max_rank=3)

    scatter = dense(X, w)[2]
    values, vectors = np.linalg.eigh(scatter)
    best = vectors[:, -3:] * values[-3:] @ vectors[:, -3:].T
    assert result.factor.shape == (3, d)
    assert_allclose(result.factor.T @ result.factor, best, atol=1e-10 * values[-1])
    assert_allclose(np.diag(result.scatter()), np.diag(scatter), rtol=1e-10)
    assert (result.residual > 0).all()


@pytest.mark.parametrize("n", [40, 200])
def test_a_factor_found_nearly_depends_on_the_scatter_alone_and_keeps_the_diagonal(n):
    X, w = samples(n, 60)  # more than three times the rank

    result, backwards = moments(X, w, max_rank=5), moments(X[::-1].copy(), w[::-1].copy(), 5)

    scatter = dense(X, w)[2]
    left = scatter - result.factor.T @ result.factor
    assert result.factor.shape == (5, 60)
    assert_allclose(np.diag(result.scatter()), np.diag(scatter), rtol=1e-10)
    assert np.linalg.eigvalsh(left)[0] > -1e-10 * np.trace(scatter)
    assert_same(result, backwards)
    assert_same(result, moments(X, w, max_rank=5, n_chunks=3))


def test_merging_keeps_the_diagonal_under_a_limit_on_the_rank():
    X, w = samples(40, 9)
    parts = [moments(X[part], w[part], 3) for part in (slice(0, 25), slice(25, 40))]

    whole = merge(parts, 3, device=CPU)

    assert len(whole.factor) == 3
    assert_allclose(np.diag(whole.scatter()), np.diag(dense(X, w)[2]), rtol=1e-10)


def spread_samples(lengths, n=600):
    """Samples whose scatter has principal axes of the given squared lengths."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(n, len(lengths)))
    scores = np.linalg.qr(scores - scores.mean(0))[0]
    return scores * np.sqrt(lengths) @ np.linalg.qr(rng.normal(size=(len(lengths),) * 2))[0]


def test_a_limit_on_the_rank_keeps_the_longest_axes_and_the_diagonal():
    X = spread_samples(1.0 + 1e-6 * np.arange(100))

    found = [moments(X, max_rank=count).rank for count in (96, 100, 400)]
    truncated = moments(X, max_rank=96)

    assert found == [96, 100, 100]
    assert_allclose(np.diag(truncated.scatter()), np.diag(dense(X, np.ones(len(X)))[2]), rtol=1e-9)


@pytest.mark.parametrize("cuts", [[], [20], [1, 2, 3], [3, 17, 30, 39], list(range(1, 40))])
@pytest.mark.parametrize("max_rank", [1, 3, 6, 50, None])
def test_exact_parts_merge_into_the_truncated_moments_of_all_samples(cuts, max_rank):
    X, w = samples(40, 6)
    parts = [moments(X[rows], w[rows]) for rows in np.split(np.arange(40), cuts)]

    whole = merge(parts, max_rank, device=CPU)
    steps = merge([merge(parts[::2], device=CPU), *parts[1::2]], max_rank, device=CPU)

    alone = moments(X, w, max_rank)
    for found in (whole, steps):
        assert_same(found, alone)
        assert found.factor.shape == alone.factor.shape
        assert_allclose(found.residual, alone.residual, atol=1e-9 * alone.scatter().max())


@pytest.mark.parametrize("n_first", [0, 1, 7])
def test_a_union_has_the_weight_the_mean_and_the_scatter_of_all_samples(n_first):
    X, _ = samples(20, 4)
    first, second = X[:n_first], X[n_first:]
    _, mean, scatter = dense(first, np.ones(n_first)) if n_first else (0.0, np.zeros(4), 0.0)
    _, added_mean, added_scatter = dense(second, np.ones(len(second)))
    union = unite(float(n_first), mean, float(len(second)), added_mean)
    weight, all_mean, all_scatter = dense(X, np.ones(20))
    assert union.weight == weight
    assert_allclose(union.mean, all_mean, rtol=1e-12, atol=1e-12)
    between = union.between * np.outer(union.gap, union.gap)
    assert_allclose(scatter + added_scatter + between, all_scatter, rtol=1e-9, atol=1e-12)


def test_unions_of_several_classes_broadcast():
    weights = np.array([[2.0], [0.0]])
    means = np.array([[1.0, 3.0], [0.0, 0.0]])
    union = unite(weights, means, np.array([[6.0], [1.0]]), np.array([[5.0, -1.0], [4.0, 2.0]]))
    assert_array_equal(union.weight, [[8.0], [1.0]])
    assert_array_equal(union.mean, [[4.0, 0.0], [4.0, 2.0]])
    assert_array_equal(union.between, [[1.5], [0.0]])


def test_a_weight_is_a_number_of_repetitions():
    X, _ = samples(6, 4)
    counts = np.array([1, 3, 2, 1, 4, 2])

    assert_same(moments(X, counts.astype(float)), moments(np.repeat(X, counts, axis=0)))


@pytest.mark.parametrize("n", [11, 49, 5000])
def test_equal_samples_have_no_scatter(n):
    X = np.repeat(np.random.default_rng(n).normal(size=(1, 7)) / 3.0, n, axis=0)
    centred = X - X.mean(0)
    assert np.any(centred)

    parts = [moments(X), moments(X, max_rank=2, n_chunks=3), moments(X, np.linspace(0.1, 2.0, n))]

    for one in [*parts, merge(parts[::2], device=CPU)]:
        assert one.rank == 0
        assert not one.residual.any()


def exact_scatter(X):
    """Return the scatter of samples of weight 1, computed in fractions."""
    rows = [[Fraction(x) for x in row] for row in X.tolist()]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    centred = [[x - mean for x, mean in zip(row, means, strict=True)] for row in rows]
    columns = list(zip(*centred, strict=True))
    products = [[sum(map(mul, one, other)) for other in columns] for one in columns]
    return np.array(products, dtype=float)


@pytest.mark.parametrize("n", [20, 100])
@pytest.mark.parametrize("max_rank", [None, 2, 96])
@pytest.mark.parametrize("value", [0.1, 1e14, 1.7e18, -1e30])
def test_a_constant_column_takes_nothing_from_other_columns_and_is_exact(value, max_rank, n):
    rng = np.random.default_rng(0)
    X = np.insert(rng.normal(size=(n, 3)), 1, value, axis=1)
    expected = exact_scatter(X)
    cuts = np.split(np.arange(n), [1, 4, 17])
    parts = [moments(X[rows], max_rank=max_rank) for rows in cuts]

    for found in (
        moments(X, max_rank=max_rank),
        moments(X, max_rank=max_rank, n_chunks=3),
        merge(parts, max_rank, device=CPU),
        merge([merge(parts[::-2], max_rank, device=CPU), *parts[::2]], max_rank, device=CPU),
    ):
        # The scatter is not only small: the mean is the value itself, in any division.
        assert found.mean[1] == value
        assert_allclose(np.diag(found.scatter()), np.diag(expected), rtol=1e-12)
        if max_rank != 2:
            assert_allclose(found.scatter(), expected, rtol=1e-11, atol=1e-11)


def test_a_small_scatter_far_from_the_origin_is_kept():
    X = 1e12 + np.arange(12.0).reshape(4, 3) % 5.0

    assert_allclose(moments(X).scatter(), dense(X, np.ones(4))[2], rtol=1e-4, atol=1e-4)


@given(
    d=st.integers(1, 6),
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=5),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_merging_in_any_order_and_grouping_gives_the_moments_of_all(d, sizes, seed, data):
    X, w = samples(sum(sizes), d, seed)
    parts = np.split(np.arange(len(X)), np.cumsum(sizes)[:-1])
    pool = [moments(X[part], w[part]) for part in parts]
    while len(pool) > 1:
        i = data.draw(st.integers(0, len(pool) - 1))
        first = pool.pop(i)
        j = data.draw(st.integers(0, len(pool) - 1))
        pool.append(merge([first, pool.pop(j)], device=CPU))

    assert_same(pool[0], moments(X, w), rtol=1e-8)


@pytest.mark.parametrize(("scale", "weight"), [(1e160, 1.0), (1e60, 1e200), (0.0, 1e308)])
def test_moments_that_overflow_are_an_error(scale, weight):
    rows = scale * torch.eye(3, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"moments .* must be finite numbers"):
        moments_of([(rows, torch.full((3,), weight, dtype=torch.float64))])


@pytest.mark.parametrize("n", [6, 30])
@pytest.mark.parametrize("max_rank", [None, 8])
def test_two_samples_that_are_equal_in_single_precision_add_no_axis(n, max_rank):
    rng = np.random.default_rng(0)
    # Three axes, and samples that differ outside of these axes.
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 12))
    X[1] = X[0] + 1e-9 * rng.normal(size=12)

    assert moments(X, max_rank=max_rank).rank == 3


@pytest.mark.parametrize("max_rank", [None, 40, 8, 96])
@pytest.mark.parametrize("n", [20, 400])
@pytest.mark.parametrize("ratio", [1e8, 1e12, 1e20])
def test_small_columns_keep_their_digits_beside_large_ones(ratio, n, max_rank):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(n, 30)) @ rng.normal(size=(30, 30)), np.ones(n)
    X /= ratio ** rng.permutation(np.linspace(0.0, 1.0, 30))

    found = moments(X, weights, max_rank=max_rank)
    parts = [moments(X[part], weights[part], max_rank=max_rank) for part in (slice(5), slice(5, n))]
    merged = merge(parts, max_rank, device=CPU)

    expected, spreads = dense(X, weights)[2], X.std(axis=0) * n**0.5
    for one in (found, merged):
        assert_allclose(np.diag(one.scatter()), np.diag(expected), rtol=1e-12)
        if max_rank is None or n == 20:
            correlations = (one.scatter() - expected) / np.outer(spreads, spreads)
            assert max_rank == 8 or np.abs(correlations).max() < 1e-12


@pytest.mark.parametrize("small", [1e-42, 1e-60, 1e-100])
@pytest.mark.parametrize("max_rank", [3, 96])
def test_what_single_precision_loses_of_small_columns_is_in_the_residual(
    monkeypatch, small, max_rank
):
    monkeypatch.undo()
    X = samples(40, 6)[0] * np.array([1.0, 1.0, 1.0, 1.0, small, small])

    found = [moments(X, max_rank=max_rank)]
    found.append(merge([moments(X[:9], max_rank=max_rank), *found], max_rank, device=CPU))

    expected = np.diag(dense(X, np.ones(40))[2])
    first = moments(X[:9]), moments(X)
    twice = np.diag(merge(first, device=CPU).scatter())
    assert found[0].factor.dtype == np.float32
    assert_allclose(np.diag(found[0].scatter()), expected, rtol=1e-6)
    assert_allclose(np.diag(found[1].scatter()), twice, rtol=1e-6)


def test_a_residual_of_zeros_is_not_stored():
    X, _ = samples(5, 12)
    few = moments(X, max_rank=8)
    assert few.truncated is None
    assert_array_equal(few.residual, np.zeros(12))
    assert merge([few, moments(X[:2])], 8, device=CPU).truncated is None
    assert few.scale_weights(0.5).truncated is None
    assert keep_axes(few, 8).truncated is None
    assert (moments(X, max_rank=3).truncated > 0).all()


@pytest.mark.parametrize("weight", [5e-324, 1e-310])
def test_weights_without_an_inverse_are_an_error(weight):
    rows = torch.eye(3, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"sample weights of a class must add up to at least"):
        moments_of([(rows, torch.full((3,), weight, dtype=torch.float64))])


def test_the_number_of_samples_is_the_weight_of_repetitions_and_that_of_kish_of_others():
    X, w = samples(30, 4)
    counts = np.arange(30) % 3 + 1.0

    assert moments(X, counts).n_samples == pytest.approx(counts.sum(), rel=1e-12)
    for factor in (0.1, 1e-9, 1e-250):
        kish = w.sum() ** 2 / np.square(w).sum()
        assert moments(X, factor * w / 3.0).n_samples == pytest.approx(kish, rel=1e-12)
        halves = [moments(X[part], factor * w[part] / 3.0) for part in (slice(9), slice(9, 30))]
        assert merge(halves, device=CPU).n_samples == pytest.approx(kish, rel=1e-12)
        assert moments(X, w / 3.0).scale_weights(factor).n_samples == pytest.approx(kish, rel=1e-12)


@pytest.mark.parametrize("n_gone", range(1, 8))
def test_samples_of_equal_weights_are_counted_without_rounding(n_gone):
    X, _ = samples(9, 4)
    equal = np.full(9, 1e-223 / 3.0)
    whole = moments(X, equal).scale_weights(0.7)
    assert whole.n_samples == 9.0
    gone = moments(X[:n_gone], equal[:n_gone]).scale_weights(0.7)
    assert subtract(whole, gone, device=CPU).n_samples == 9.0 - n_gone


@pytest.mark.parametrize("size", [1e-160, 1e-200])
def test_samples_whose_squares_are_lost_are_an_error_only_if_there_are_no_others(size):
    X = samples(40, 6)[0]

    check_size([moments(size * X), moments(X)])
    check_size([moments(0.0 * X)])
    check_size([moments(1e-149 * X)])
    with pytest.raises(ValueError, match=r"samples must have values of at least 1e-150"):
        check_size([moments(size * X)])


def test_a_constant_column_does_not_hide_that_squares_are_lost():
    X = samples(40, 6)[0]
    X[:, 2] = 1.0
    tiny = np.where(np.arange(6) == 2, 1.0, 1e-160) * X

    check_size([moments(X)])
    check_size([moments(X[:1]), moments(tiny)])
    # No column varies in equal samples.
    check_size([moments(X[:1])])
    for classes in ([moments(tiny)], [moments(tiny[:1]), moments(tiny[1:2])]):
        with pytest.raises(ValueError, match=r"samples must have values of at least 1e-150"):
            check_size(classes)


@pytest.mark.parametrize("size", [1e-290, 1e290])
def test_parts_of_tiny_or_huge_weight_add_up(size):
    X, w = samples(20, 4)
    whole = moments(X, w)
    found = merge([moments(X[:8], size * w[:8]), moments(X[8:], size * w[8:])], device=CPU)
    assert_allclose(found.scatter() / size, whole.scatter(), rtol=1e-12)
    assert_allclose(moments(X, size * w, n_chunks=3).scatter() / size, whole.scatter(), rtol=1e-12)


def test_spare_axes_let_a_class_grow_row_by_row():
    rng = np.random.default_rng(0)
    # The lengths of the axes differ by one percent each.
    X = rng.normal(size=(300, 40)) * 0.99 ** np.arange(40)
    whole = moments(X, max_rank=4)
    cut, (grown,) = moments(X[:1], max_rank=4), (moments(X[:1], max_rank=4),)
    for row in X[1:]:
        part = moments(row[None], max_rank=4)
        cut = merge([cut, part], 4, device=CPU)
        (grown,) = merge_classes([grown], [(0, part)], 4, device=CPU)

    assert (whole.rank, cut.rank, grown.rank) == (4, 4, 12)
    seen = keep_axes(grown, 4)
    assert seen.rank == 4
    assert_allclose(np.diag(seen.scatter()), np.diag(whole.scatter()))

    def share(found):
        """Return the share of the energy of the longest axes that the found axes hold."""
        basis = np.linalg.qr(found.factor.T)[0]
        return np.square(whole.factor @ basis).sum() / np.square(whole.factor).sum()

    assert share(seen) > share(cut) + 0.1
    assert keep_axes(whole, 4) is whole


# ---- samples that are subtracted in long sequences


def one_hot(n):
    """Return rows of two groups of one-hot columns, and a column of zeros."""
    rng = np.random.default_rng(0)
    groups = [np.eye(size)[rng.integers(size, size=n)] for size in (3, 7)]
    return np.hstack([*groups, np.zeros((n, 1))])


def pixels(n):
    """Return rows of whole numbers, most of them zero, with columns of unlike units."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(17, size=(n, 8)) * (rng.random((n, 8)) < 0.1)
    return drawn * 10.0 ** np.arange(-4, 4)


def collinear(n):
    """Return rows of columns that are nearly sums of two others."""
    X = np.random.default_rng(0).normal(size=(n, 6))
    X[:, 3:] = X[:, :3] @ np.ones((3, 3)) + 1e-6 * X[:, 3:]
    return X


def far(n):
    """Return rows around values that are not representable, one of them constant."""
    X = 0.1 + 1e-3 * np.random.default_rng(0).normal(size=(n, 4))
    X[:, 1] = 0.1
    return X


ROWS = {"one-hot": one_hot, "pixels": pixels, "collinear": collinear, "far": far}


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("kind", ROWS)
def test_samples_are_subtracted_down_to_nothing_and_learned_again(kind, size):
    X = ROWS[kind](40)
    scales = np.sqrt(np.diag(exact_scatter(X)))
    scales[scales == 0.0] = 1.0
    order = np.random.default_rng(1).permutation(40)
    found = moments(X)
    for first in range(0, 40, size):
        gone, left = order[first : first + size], order[first + size :]
        found = subtract(found, moments(X[gone]), device=CPU)
        if not len(left):
            assert found is None
            break
        errors = (found.scatter() - exact_scatter(X[left])) / np.outer(scales, scales)
        assert np.abs(errors).max() < 1e-11
        means = [float(sum(map(Fraction, column.tolist())) / len(left)) for column in X[left].T]
        assert (np.abs(found.mean - means) <= 1e-12 * np.abs(X).max(axis=0)).all()


@pytest.mark.parametrize("kind", ROWS)
def test_a_window_slides_over_many_samples(kind):
    X = ROWS[kind](130)
    found = moments(X[:30])
    for start in range(100):
        found = merge([found, moments(X[[start + 30]])], device=CPU)
        found = subtract(found, moments(X[[start]]), device=CPU)
    expected = exact_scatter(X[100:])
    scales = np.sqrt(np.diag(exact_scatter(X)))
    scales[scales == 0.0] = 1.0
    assert np.abs((found.scatter() - expected) / np.outer(scales, scales)).max() < 1e-11
    # A column that became zero is zero, with its mean.
    dead = ~X[100:].any(axis=0)
    assert not found.mean[dead].any()


def test_the_bound_on_the_errors_follows_the_moments():
    X = pixels(40)
    found = subtract(moments(X), moments(X[:10]), device=CPU)
    energies = np.diag(exact_scatter(X))
    assert_allclose(found.errors, 1e-10 * energies, rtol=1e-9)
    again = subtract(found, moments(X[10:12]), device=CPU)
    assert (again.errors[energies > 0.0] > found.errors[energies > 0.0]).all()
    assert_array_equal(merge([found, moments(X[:5])], device=CPU).errors, found.errors)
    assert_array_equal(merge([found, found], device=CPU).errors, 2.0 * found.errors)
    assert_array_equal(found.scale_weights(0.5).errors, 0.5 * found.errors)
    assert moments(X).errors is None


def test_samples_that_were_never_learned_are_refused_after_many_subtractions():
    X = collinear(60)
    found = moments(X)
    for row in range(40):
        found = subtract(found, moments(X[[row]]), device=CPU)
    with pytest.raises(ValueError, match=r"negative variance|outside"):
        subtract(found, moments(X[[45]] + 10.0), device=CPU)
