"""Baselines through the convolutions: filters move with every task, old bands and outputs stay."""

import numpy as np
import torch
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.paper.end_to_end import EndToEndClassifier

# Three classes of sequences of five joints in two parts, around a mean each.
Y = np.repeat([0, 1, 2], 12)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 30))[Y] + 0.3 * RNG.normal(size=(36, 30))
BACKBONE = {"n_nodes": 5, "n_node_features": 6, "n_filters": 4}


def model(**parameters):
    return EndToEndClassifier(BACKBONE, **{"max_epochs": 40, **parameters})


def test_joint_training_learns_all_classes():
    joint = model().fit(X, Y)

    assert joint.score(X, Y) > 0.95
    assert joint.n_iter_ == 40
    # Filters of 6 weights; nine neurons of 20 weights; an output of nine weights and an offset.
    assert joint.n_parameters_ == 4 * 6 + 9 * 20 + 3 * 10
    assert not torch.equal(joint.backbone_.filters, model(max_epochs=1).fit(X, Y).backbone_.filters)


def test_a_stream_keeps_old_bands_and_moves_the_filters():
    stream = model().partial_fit(X[Y < 2], Y[Y < 2])
    bands = stream.network_.hidden.bands
    outputs = stream.network_.outputs
    filters = stream.backbone_.filters.detach().clone()

    stream.partial_fit(X[Y == 2], Y[Y == 2])

    assert stream.network_.hidden.bands[:1] == bands
    assert stream.network_.outputs[0] is outputs[0]
    assert not torch.equal(stream.backbone_.filters, filters)
    assert_array_equal(stream.predict(X[Y == 2]), np.full(12, 2))


def test_a_single_class_has_no_loss_and_the_seed_decides():
    first, second = (model().partial_fit(X[Y == 0], Y[Y == 0]) for _ in range(2))

    assert first.n_iter_ == 0
    assert_allclose(first.decision_function(X), second.decision_function(X))
