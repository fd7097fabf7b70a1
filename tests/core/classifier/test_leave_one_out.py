"""The leave-one-out error, against discriminants that are refitted without each sample."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.classifier.fisher import fit_pairwise
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.classifier.leave_one_out import LeaveOneOut
from ffnb_sklearn.core.statistics import moments_of

CPU = torch.device("cpu")
D = 30


def samples(seed=0, n=20, d=D, gap=0.35, n_classes=2):
    rng = np.random.default_rng(seed)
    scale = np.linspace(0.3, 1.5, d)
    return [
        rng.standard_normal((n, d)) * scale + gap * rng.standard_normal(d) for _ in range(n_classes)
    ]


def gaussians(classes, max_rank=None):
    moments = [
        moments_of([(torch.as_tensor(X), torch.ones(len(X)).double())], max_rank) for X in classes
    ]
    columns = np.arange(classes[0].shape[1])
    return ClassGaussians.from_moments(moments, columns, np.ones(len(columns)), device=CPU)


def error(classes, shrinkage, epsilon):
    known = gaussians(classes)
    judge = LeaveOneOut(known)
    return float(judge.errors(known.penalties, shrinkage, epsilon).mean())


def error_by_refitting(classes, shrinkage, epsilon):
    """Mean chance of the other classes, by doubled ratios, over samples that are left out."""
    chances = []
    for t, own in enumerate(classes):
        for i, sample in enumerate(own):
            left = [np.delete(X, i, axis=0) if k == t else X for k, X in enumerate(classes)]
            pairs = fit_pairwise(
                gaussians(left), covariance="class", shrinkage=shrinkage, epsilon=epsilon
            )
            outputs = pairs.planes @ sample + pairs.offsets
            later, earlier = np.tril_indices(len(classes), -1)
            for_t = np.concatenate([outputs[later == t], -outputs[earlier == t]])
            chances.append(1.0 - 1.0 / (1.0 + np.exp(-4.0 * for_t).sum()))
    return np.mean(chances)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(("shrinkage", "epsilon"), [(1.0, 0.1), (0.3, 0.1), (0.3, 1.0)])
def test_error_is_that_of_refitting_without_each_sample(n_classes, shrinkage, epsilon):
    drawn = [samples(seed, n_classes=n_classes) for seed in range(4)]
    expected = np.mean([error_by_refitting(classes, shrinkage, epsilon) for classes in drawn])
    closed = np.mean([error(classes, shrinkage, epsilon) for classes in drawn])
    assert 0.05 < expected < 0.5
    assert_allclose(closed, expected, atol=0.03)


def test_wide_features_do_not_look_separated_by_being_fitted():
    errors = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        classes = [rng.standard_normal((12, 200)) for _ in range(2)]
        errors.append(error(classes, 0.3, 0.01))
    assert_allclose(np.mean(errors), 0.5, atol=0.1)


def test_neither_order_of_the_classes_nor_rotation_matters():
    classes = samples(n_classes=4)
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((D, D)))[0]
    again = [X @ basis for X in classes[::-1]]
    assert_allclose(error(again, 0.4, 0.3), error(classes, 0.4, 0.3), rtol=1e-8)


def test_penalties_are_those_of_scaled_features():
    classes, scale = samples(n_classes=3), np.linspace(0.5, 2.0, D)
    known = gaussians(classes)
    by_penalties = LeaveOneOut(known).errors(torch.as_tensor(scale**-2.0), 0.4, 0.3)
    assert_allclose(by_penalties.mean(), error([X * scale for X in classes], 0.4, 0.3), rtol=1e-8)


def test_cut_and_single_classes_are_not_judged():
    classes = [*samples(n=8, n_classes=2), *samples(1, n=40, n_classes=1), samples(2)[0][:1]]
    judge = LeaveOneOut(gaussians(classes, max_rank=10))
    assert_array_equal(judge.weights, [8.0, 8.0])
    assert_allclose(judge.share, 16.0 / 57.0)
    assert judge.errors(torch.ones(D).double(), 0.5, 0.1).shape == (2,)


def test_some_of_many_classes_are_judged_whatever_their_order():
    classes = samples(n=3, n_classes=600)
    known, turned = gaussians(classes), gaussians(classes[::-1])
    one, other = LeaveOneOut(known), LeaveOneOut(turned)
    assert len(one.weights) < 600
    assert one.share == 1.0
    errors = [judge.errors(known.penalties, 0.5, 0.3).sort().values for judge in (one, other)]
    assert_allclose(*errors, rtol=1e-6, atol=1e-9)


def test_an_offset_that_all_share_leaves_the_classes_that_are_judged():
    known = gaussians(samples(n=40, n_classes=60))
    far = replace(known, means=known.means + 1e7)
    sums = [LeaveOneOut(one).errors(one.penalties, 0.5, 0.3).sum() for one in (known, far)]
    assert len(LeaveOneOut(known).weights) < 60
    assert_allclose(*sums, rtol=1e-6)


def test_three_samples_are_three_by_whichever_sum_of_weights():
    for weight in (3.0, np.nextafter(3.0, 0.0)):
        known = gaussians(samples(n=8))
        light = replace(known, weights=known.weights.new_tensor([weight, 8.0]))
        assert len(LeaveOneOut(light).weights) == 2


def test_without_a_class_of_three_samples_or_a_second_class_nobody_is_judged():
    for classes in ([X[:2] for X in samples()], samples(n_classes=1)):
        assert len(LeaveOneOut(gaussians(classes)).weights) == 0


def test_opponents_of_many_rows_lose_only_directions():
    classes = [samples(n=20, d=200)[0], samples(1, n=180, d=200)[0]]
    judge = LeaveOneOut(gaussians(classes))
    assert_array_equal(judge.weights, [20.0])
    whole = LeaveOneOut(gaussians([X[:100] for X in classes]))
    ones = torch.ones(200).double()
    errors = [float(one.errors(ones, 0.5, 0.3)[0]) for one in (judge, whole)]
    assert_allclose(*errors, atol=0.1)
