"""NearestClassMean against scikit-learn."""

from numpy.testing import assert_array_equal
from sklearn.neighbors import NearestCentroid

from ffnb_sklearn.baselines import NearestClassMean
from tests.baselines.small_problem import five_classes, stream


def test_nearest_class_mean_is_nearest_centroid():
    X, y, X_test, _ = five_classes()
    head = stream(NearestClassMean(), X, y, [4, 2, 0, 1, 3])
    expected = NearestCentroid().fit(X, y)
    assert_array_equal(head.predict(X_test), expected.predict(X_test))
