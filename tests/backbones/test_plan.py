import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from ffnb_sklearn.backbones._inputs import Inputs
from ffnb_sklearn.backbones._plan import batches, hold_out, labelled_samples

CODES = np.repeat([0, 1, 2, 3], [20, 7, 2, 1])


@pytest.mark.parametrize(
    ("fraction", "counts"), [(0.1, [2, 1, 1, 0]), (0.5, [10, 4, 1, 0]), (0.99, [19, 6, 1, 0])]
)
def test_each_class_is_held_out_by_its_share(fraction, counts):
    kept, held_out = hold_out(CODES, fraction, seed=0)
    assert_array_equal(np.bincount(CODES[held_out], minlength=4), counts)
    assert_array_equal(np.sort(np.concatenate([kept, held_out])), np.arange(30))


def test_the_seed_decides_who_is_held_out():
    first, again, other = (hold_out(CODES, 0.5, seed)[1] for seed in (0, 0, 1))
    assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_nothing_to_hold_out():
    kept, held_out = hold_out(CODES, 0.0, seed=0)
    assert (len(kept), len(held_out)) == (30, 0)
    with pytest.raises(ValueError, match=r"validation_fraction=0.5 needs a class of two samples"):
        hold_out(np.arange(4), 0.5, seed=0)


@pytest.mark.parametrize(
    ("n", "size", "lengths"),
    [
        (10, 4, [4, 4, 2]),
        (8, 4, [4, 4]),
        (9, 4, [4, 5]),
        (3, 8, [3]),
        (3, 2, [3]),
        (1, 4, [1]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_lengths_of_batches(n, size, lengths):
    positions = np.arange(100, 100 + n)
    parts = batches(positions, size)
    assert [len(part) for part in parts] == lengths
    assert_array_equal(np.concatenate(parts), positions)
    mixed = batches(positions, size, torch.Generator().manual_seed(0))
    assert [len(part) for part in mixed] == lengths
    assert_array_equal(np.sort(np.concatenate(mixed)), positions)


def test_the_data_have_a_digest():
    rows = np.arange(8.0).reshape(4, 2)

    def digest(rows, y):
        return labelled_samples(rows, y, Inputs()).settings()["X or y"]

    expected = digest(rows, ["a", "b", "a", "b"])
    assert expected == digest(np.asfortranarray(rows), np.array(["a", "b", "a", "b"], dtype=object))
    others = [
        digest(rows + 1, ["a", "b", "a", "b"]),
        digest(rows.astype(np.float32), ["a", "b", "a", "b"]),
        digest(rows, ["a", "c", "a", "c"]),
        digest(rows, ["a", "b", "b", "a"]),
        digest(rows[:, :1], ["a", "b", "a", "b"]),
    ]
    assert len({expected, *others}) == 6


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        ([3, 3, 3, 3], r"at least two classes .*; got one class, \[3\]"),
        (["u"] * 4, r"got one class, \['u'\]"),
        ([0, 1, 0], "inconsistent numbers of samples"),
        ([0.5, 1.5, 0.5, 1.5], "Unknown label type: continuous"),
        ([0, "a", 0, "a"], "y must hold .*, all of one kind"),
    ],
)
def test_labels_that_cannot_be_learned(y, message):
    with pytest.raises(ValueError, match=message):
        labelled_samples(np.zeros((4, 2)), y, Inputs())
