"""Damaged files of weights."""

import io

import numpy as np
import torch
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor
from tests.campaigns.attack.models import DAMAGES, damaged

ROWS = np.random.default_rng(0).normal(size=(12, 3))


def network(n_inputs=3):
    """Return a small network of two layers."""
    return nn.Sequential(nn.Linear(n_inputs, 2), nn.Tanh(), nn.Linear(2, 2))


def with_weights(path):
    """Fit an extractor to a file of weights."""
    return TorchFeatureExtractor(network, weights=path, device="cpu").fit(ROWS)


def archive_of(content):
    """Return the bytes that torch writes."""
    torch.save(content, file := io.BytesIO())
    return file.getvalue()


def is_refused(content, path, expected):
    """Whether the documented error is raised, with a short message; other errors are not caught.

    A file that gives the expected weights, such as one with other padding, counts as refused.
    """
    path.write_bytes(content)
    try:
        found = with_weights(path).state_dict_
    except ValueError as error:
        return len(str(error)) < 1000 + 2 * len(str(path))
    return all(np.array_equal(found[name], one) for name, one in expected.items())


def count_damaged(n_files, folder):
    """Return how many damaged files of weights are accepted."""
    weights, n_accepted = network().state_dict(), 0
    original = archive_of(weights)
    for number in range(n_files):
        damage = list(DAMAGES)[number % len(DAMAGES)]
        content = damaged(original, damage, number)
        n_accepted += not is_refused(content, folder / "damaged.pt", weights)
    return n_accepted
