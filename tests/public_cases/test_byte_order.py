"""Public cases about the byte order of arrays."""

import io

import joblib
import numpy as np
from joblib.numpy_pickle import NumpyPickler
from numpy.testing import assert_array_equal

from ffnb_sklearn import TorchFeatureExtractor
from tests.public_cases.flowers import NAMES, WEIGHTS, X, Y, small
from tests.public_cases.test_backbones import rows_network


def swapped(array):
    """Return the same values in the byte order of other machines."""
    return array.astype(array.dtype.newbyteorder("S"))


def test_arrays_in_another_byte_order():
    """XGBoost #12433."""
    model = small().fit(swapped(X), swapped(Y), sample_weight=swapped(WEIGHTS))
    expected = small().fit(X, Y, sample_weight=WEIGHTS)
    assert_array_equal(model.predict_proba(swapped(X)), expected.predict_proba(X))
    assert model.classes_.dtype.isnative
    names = small().fit(X, swapped(NAMES)).partial_fit(X, NAMES)
    assert_array_equal(names.classes_, np.unique(NAMES))


def test_a_network_reads_another_byte_order():
    """XGBoost #12433."""
    network = TorchFeatureExtractor(rows_network, random_state=0).fit(X)
    assert_array_equal(network.transform(swapped(X)), network.transform(X))


class OtherMachine(NumpyPickler):
    """Pickler that writes arrays as a machine of the other byte order does."""

    def save(self, obj):
        if isinstance(obj, np.ndarray) and obj.dtype.kind in "fiuU":
            obj = swapped(obj)
        super().save(obj)


def test_a_pickle_of_a_machine_of_another_byte_order():
    """scikit-learn #21237."""
    model, file = small().fit(X, NAMES), io.BytesIO()
    OtherMachine(file).dump(model)
    file.seek(0)
    copy = joblib.load(file)
    assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    # Further learning merges both byte orders.
    assert_array_equal(
        copy.partial_fit(X + 1, NAMES).predict_proba(X),
        model.partial_fit(X + 1, NAMES).predict_proba(X),
    )
