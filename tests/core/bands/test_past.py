"""The past of a layer: the second moment of all samples so far, in both of its forms."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.bands.past import Past
from ffnb_sklearn.core.moments import ClassMoments
from tests.core.small_models import CPU, second_moment


def classes_of(n_columns, n_classes=4, residual=0.0):
    """Classes of two principal rows each."""
    rng = np.random.default_rng(0)
    classes = []
    for _ in range(n_classes):
        factor = rng.normal(size=(2, n_columns))
        mean = rng.normal(size=n_columns)
        classes.append(ClassMoments(5.0, 5.0**0.5, mean, factor, np.full(n_columns, residual)))
    return classes


@pytest.mark.parametrize(("n_columns", "has_basis"), [(20, True), (6, False)])
def test_principal_rows_have_the_second_moment_of_all_classes(n_columns, has_basis):
    classes = classes_of(n_columns)

    past = Past.empty(n_columns, CPU).extend(classes)

    rows = past.principal.rows()
    expected = sum(second_moment(one_class) for one_class in classes)
    assert (past.basis is not None) == has_basis
    assert past.principal.rank == len(rows) == min(n_columns, 12)
    assert past.principal.width == n_columns
    assert_allclose(rows.T @ rows, expected, atol=1e-12)


@pytest.mark.parametrize("n_columns", [20, 6])
def test_classes_are_added_one_by_one_however_they_are_divided(n_columns):
    classes = classes_of(n_columns, residual=0.5)
    start = Past.empty(n_columns, CPU)

    together = start.extend(classes)
    divided = start.extend(classes[:1]).extend(classes[1:])

    assert torch.equal(together.coordinates, divided.coordinates)
    assert_array_equal(together.residual, divided.residual)
    assert together.n_classes == len(classes)
    assert together.extend([]) is together


def test_rows_that_depend_on_one_another_leave_an_orthonormal_basis():
    (first, second) = classes_of(20, n_classes=2)
    # All but 1e-9 of the second class lies along the rows of the first.
    nearly_equal = ClassMoments(
        5.0, 5.0**0.5, first.mean, first.factor + 1e-9 * second.factor, first.residual
    )

    past = Past.empty(20, CPU).extend([first, nearly_equal])

    assert past.basis is not None
    gram = past.basis @ past.basis.T
    assert_allclose(gram, np.eye(len(gram)), atol=1e-13)


def test_a_past_that_overflows_is_an_error():
    huge = ClassMoments(1.0, 1.0, np.full(3, 1e200), np.empty((0, 3)), np.zeros(3))
    past = Past.empty(3, CPU).extend([huge])
    with pytest.raises(ValueError, match=r"moments .* must be finite numbers"):
        _ = past.principal
