"""The classifiers of the comparison that no package offers as they are."""

import pytest
from numpy.testing import assert_array_equal
from sklearn.svm import SVC

from benchmarks.heads import methods
from tests.baselines.small_problem import five_classes


@pytest.mark.parametrize("n_search", [120, 5000])
def test_joint_svm_searches_few_rows_and_fits_all(n_search):
    X, y, X_test, _ = five_classes()
    model = methods.JointSVM(n_search=n_search, random_state=0).fit(X, y)
    scaler = model.best_params_["scale"]
    rows = (X, X_test)
    if scaler != "passthrough":
        rows = [(part - X.mean(axis=0)) / X.std(axis=0) for part in rows]
    svm = SVC(gamma="scale", C=model.best_params_["svm__C"]).fit(rows[0], y)
    assert_array_equal(model.predict(X_test), svm.predict(rows[1]))
