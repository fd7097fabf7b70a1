"""Each head offers what the model and the estimator ask of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import softmax

from ffnb_sklearn._inputs.sparse_samples import WideSamples
from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.heads import HEADS, Head
from ffnb_sklearn.core.solution import n_classifier_weights
from ffnb_sklearn.core.sparse import SparseRows
from tests.core.small_models import CPU, D, learnt, task


@pytest.fixture(params=HEADS)
def solved(request):
    """A model, its head and samples in its features."""
    # With other seeds a class has fewer axes than the shapes allow.
    samples = task(0, 1, 2, n=20, seed=9)
    model = learnt([samples], classifier=request.param, skip_connection=True, band_size=0)
    model = replace(model, settings=replace(model.settings, shrinkage=0.4, epsilon=0.2))
    x = prediction.classifier_features(
        model, torch.as_tensor(np.random.default_rng(0).normal(size=(70, D)))
    )
    return model, prediction.solve_once(model, CPU).head, x


def test_a_name_of_the_parameter_is_a_head(solved):
    model, head, _ = solved
    assert type(head) is HEADS[model.settings.classifier]
    assert isinstance(head, Head)
    assert HEADS[head.tuned_as].tuned_as == head.tuned_as
    with pytest.raises(KeyError):
        HEADS["knn"]


def test_scores_have_a_column_per_class_and_decide(solved):
    _, head, x = solved
    scores = head.scores(x)
    assert scores.shape == (70, 3)
    order = torch.tensor([2, 0, 1])
    assert_array_equal(head.most_likely(x, order), scores.argmax(1))
    assert_array_equal(head.most_likely(x[:0], order), torch.empty(0))


def test_logits_keep_the_order_of_the_scores(solved):
    _, head, x = solved
    scores = head.scores(x).numpy()
    probabilities = softmax(head.logits(scores), axis=1)
    assert np.isfinite(probabilities).all()
    assert_array_equal(probabilities.argsort(axis=1), scores.argsort(axis=1))


def test_priors_move_the_scores_and_equal_priors_do_not(solved):
    _, head, x = solved
    scores = head.scores(x).numpy()
    assert_allclose(head.apply_priors(scores, np.full(3, 1.0 / 3.0)), scores, atol=1e-10)
    rare = head.apply_priors(scores, np.array([0.01, 0.495, 0.495]))
    gap, moved = (softmax(head.logits(one), axis=1)[:, 0] for one in (scores, rare))
    assert (moved < gap).all()


def test_weights_are_counted_from_shapes(solved):
    model, head, _ = solved
    names = ("centre", "planes", "offsets", "rows", "shifts")
    parts = [getattr(head, name) for name in names if hasattr(head, name)]
    assert n_classifier_weights(len(model.columns), model.moments, model.settings) == sum(
        part.size for part in parts
    )


def test_wide_sparse_rows_have_the_scores_of_dense_rows(solved):
    _, head, x = solved
    rows = SparseRows(WideSamples(sparse.csr_array(x.numpy()), None, CPU))
    assert_allclose(head.scores(rows), head.scores(x), rtol=1e-9, atol=1e-12)
    order = torch.arange(3)
    assert_array_equal(head.most_likely(rows, order), head.most_likely(x, order))


@pytest.mark.parametrize("solved", ["ovo", "ova"], indirect=True)
def test_a_linear_head_pools_the_responses_of_its_planes(solved):
    _, head, x = solved
    assert HEADS[head.tuned_as] is type(head)
    responses = x @ torch.as_tensor(head.planes).T + torch.as_tensor(head.offsets)
    pooling = head.pooling()
    scores = responses if pooling is None else responses.tanh() @ torch.as_tensor(pooling)
    assert_allclose(scores, head.scores(x), rtol=1e-9, atol=1e-12)
