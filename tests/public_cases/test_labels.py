"""Public cases about labels, their kinds and order."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from ffnb_sklearn import class_incremental_tasks, evaluate_stream
from tests.public_cases.flowers import X, Y, plain, small


def test_unique_values_of_a_nullable_column_may_be_declared_ordered_and_forgotten():
    """scikit-learn #25637."""
    pd = pytest.importorskip("pandas")
    labels = pd.Series(Y, dtype="Int64")
    unique = labels.unique()  # An array of pandas, without `iloc`.
    kept = Y < 2
    model = plain().partial_fit(X[kept], labels[kept], classes=unique)
    assert_array_equal(model.classes_, [0, 1, 2], strict=True)
    tasks = class_incremental_tasks(labels, class_order=unique[::-1])
    assert [int(Y[task][0]) for task in tasks] == unique[::-1].tolist()
    assert model.forget(unique[unique > 0]).classes_.tolist() == [0]


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int64, torch.bool])
def test_labels_in_tensors_of_any_dtype(dtype):
    """skorch #803, Avalanche #1588."""
    labels = torch.tensor(Y).to(dtype)
    expected = labels.numpy()
    tasks = class_incremental_tasks(labels)
    assert [np.unique(expected[task]).tolist() for task in tasks] == [
        [label] for label in np.unique(expected)
    ]
    result = evaluate_stream(small(), torch.tensor(X), labels, torch.tensor(X), labels)
    kind = bool if dtype == torch.bool else int
    assert_array_equal(result.estimator.classes_, np.unique(expected).astype(kind), strict=True)
    assert result.estimator.score(torch.tensor(X), labels) == result.final_accuracy
