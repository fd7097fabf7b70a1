"""Fixtures of the tests of backbones."""

import pytest

from ffnb_sklearn.backbones import _arithmetic


@pytest.fixture
def bfloat16_everywhere(monkeypatch):
    """Let the CPU compute in bfloat16 even where that is slow."""
    monkeypatch.setattr(_arithmetic, "has_bfloat16", lambda _: True)
