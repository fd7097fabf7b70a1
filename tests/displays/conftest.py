"""Fixtures of the tests of the displays."""

import matplotlib
import matplotlib.pyplot as plt
import pytest
from sklearn.datasets import load_digits

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1200], y[:1200], X[1200:], y[1200:]
