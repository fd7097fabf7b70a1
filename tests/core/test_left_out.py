"""Left-out samples: equal rows together, and as many of each class as there are."""

from functools import partial

import numpy as np
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core import left_out as module
from ffnb_sklearn.core.learning import task_features
from ffnb_sklearn.core.left_out import left_out_likeness
from ffnb_sklearn.core.model import Task
from tests.core.small_models import SETTINGS, learnt, task


def test_equal_rows_of_a_class_are_one_sample_with_their_total_weight():
    rows = torch.tensor([[1.0, 0.0], [2.0, 0.0], [1.0, -0.0], [1.0, 0.0]])
    weights = torch.tensor([0.5, 1.0, 2.0, 4.0])

    numbers, totals = module._distinct_samples(Task(rows, torch.tensor([0, 0, 0, 1]), weights), 2)

    assert_array_equal(numbers, [0, 1, 3])
    assert_array_equal(totals, [2.5, 1.0, 4.0])


def test_small_classes_are_chosen_entirely(monkeypatch):
    monkeypatch.setattr(module, "_ENOUGH", 10)
    classes = np.repeat([0, 1, 2], [50, 2, 30])

    chosen = module._fair_choice(classes, np.random.default_rng(0))

    assert_array_equal(np.bincount(classes[chosen]), [4, 2, 4])
    assert len(np.unique(chosen)) == 10


def test_classes_without_new_samples_keep_their_likeness():
    before = learnt([task(0, 1)], SETTINGS, novelty=True, band_size=0)
    new = task(1, 2, seed=4)
    learned = learnt([task(0, 1), new], SETTINGS, band_size=0)
    features_of = partial(task_features, learned.features, new)

    first, second, third = left_out_likeness(before, new, learned, features_of)

    assert first is before.left_out[0]
    assert [len(second.values), len(third.values)] == [16, 8]
    weights = np.array([moments.weight for moments in learned.moments])
    assert_allclose(third.learned_weights, weights.sum())
    assert_allclose(third.weights.sum(), weights[2])
    earlier_weight = before.left_out[1].learned_weights[0]
    is_earlier = np.isclose(second.learned_weights, earlier_weight)
    assert_array_equal(second.values[is_earlier], before.left_out[1].values)
    assert_allclose(second.learned_weights[~is_earlier], weights.sum())
    assert_allclose(second.weights[is_earlier].sum(), before.moments[1].weight)
    assert_allclose(second.weights.sum(), weights[1])
