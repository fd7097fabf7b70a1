"""Errors on small problems, against mpmath; python -m tests.campaigns.numerics records more."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis
from ffnb_sklearn.exceptions import EmptyNullSpaceWarning

pytest.importorskip("mpmath")
pytest.importorskip("dask")

from tests.campaigns.numerics.errors import (
    call_errors,
    constant_errors,
    deletion_errors,
    far_class_errors,
    merge_errors,
    model_errors,
    weight_errors,
)
from tests.campaigns.numerics.orders import order_errors
from tests.campaigns.numerics.programs import HEADS, program_error
from tests.campaigns.numerics.switches import SWITCHES, differences

EPS = np.finfo(float).eps


@pytest.mark.parametrize("scale", [1e-70, 1.0, 1e70])
def test_errors_do_not_depend_on_the_scale(scale):
    errors = model_errors(scale=scale)
    # The bound has a slack of 1e-13, which keeps it above the drift.
    assert errors.pop("bound") < 2e-13
    assert max(errors.values()) < 30 * EPS


@pytest.mark.parametrize("value", [1e-3, 1e14, 1.7e18])
def test_errors_do_not_depend_on_a_constant_column(value):
    assert max(constant_errors(value).values()) < 30 * EPS


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e9])
def test_errors_grow_with_the_distance_of_a_class_no_faster_than_the_digits_are_lost(distance):
    assert far_class_errors(distance)["lengths"] < 10 * EPS * distance


@pytest.mark.parametrize("ratio", [1e2, 1e6])
def test_samples_of_small_weights_are_left_by_samples_of_large_weights(ratio):
    errors = weight_errors(ratio)
    assert errors["means"] < 10 * EPS * ratio
    assert errors["scatters"] < 100 * EPS * ratio


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.filterwarnings(f"ignore::{EmptyNullSpaceWarning.__module__}.EmptyNullSpaceWarning")
@pytest.mark.parametrize("offset", [1e3, 1e7, 1e10])
def test_errors_grow_with_the_offset_no_faster_than_the_digits_are_lost(offset):
    errors = model_errors(offset)
    assert errors.pop("means") < 4 * EPS
    # The bound multiplies by the energy in the residual axes, which is a difference of squares.
    assert errors.pop("bound") < 1e-3
    assert max(errors.values()) < 10 * EPS * offset


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.parametrize(("offset", "error"), [(0.0, 1e-14), (1e10, 1e-5)])
@pytest.mark.parametrize("errors_of", [merge_errors, call_errors])
def test_many_small_pieces_add_up(errors_of, offset, error):
    errors = errors_of(60, offset)
    assert errors["means"] < 20 * EPS
    assert errors["scatters"] < error


@pytest.mark.parametrize("kind", ["normal", "one-hot"])
def test_many_deletions_leave_the_moments_of_what_is_left(kind):
    assert max(deletion_errors(200, 4, kind).values()) < 1e-11


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.filterwarnings(f"ignore::{EmptyNullSpaceWarning.__module__}.EmptyNullSpaceWarning")
@pytest.mark.parametrize("n_classes", [1, 2])
@pytest.mark.parametrize("band_size", [1, 3])
def test_bands_do_no_harm_at_a_large_offset(band_size, n_classes):
    X, y = make_blobs(400, n_features=2, centers=8, cluster_std=2.0, random_state=1)
    X, X_test, y, y_test = X[::2] + 1e10, X[1::2] + 1e10, y[::2], y[1::2]

    def predictions(band_size):
        model = IncrementalDiscriminantAnalysis(shared_band_size=0, random_state=0)
        if band_size > 0:
            model = FFNBClassifier(
                band_size=band_size, shared_band_size=0, scale=False, random_state=0
            )
        for first in range(0, 8, n_classes):
            task = (y >= first) & (y < first + n_classes)
            model.partial_fit(X[task], y[task])
        return model.predict(X_test)

    plain, banded = predictions(0), predictions(band_size)
    assert np.mean(plain == banded) > 0.97
    lda = LinearDiscriminantAnalysis().fit(X - X.mean(axis=0), y)
    assert np.mean(banded == y_test) > lda.score(X_test - X.mean(axis=0), y_test) - 0.01


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize("switch", SWITCHES)
def test_global_switches_of_torch_and_numpy_change_nothing(switch):
    assert differences(switch, "gaussian", "float32") == []


@pytest.mark.filterwarnings("ignore:Trained neurons keep a trace:UserWarning")
@pytest.mark.filterwarnings("ignore:Merging is not exact:UserWarning")
@pytest.mark.parametrize("estimator", ["tuned", "naive"])
def test_fine_tuning_needs_no_gradients_from_outside(estimator):
    assert differences("inference mode", estimator, "float64") == []


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.parametrize("name", ["breast cancer", "digits"])
def test_probabilities_do_not_depend_on_the_order_of_the_rows(name):
    # tests/test_exactness.py has double precision.
    assert max(order_errors(name, "gaussian", None, "float32")) < 1e-8
    # Calls truncate the classes each time, and axes of one length are mixed by rounding.
    by_order, _, by_shards = order_errors(name, "gaussian", "auto", "float32")
    assert max(by_order, by_shards) < 1e-5


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.parametrize("head", ["ovo", "ova"])
def test_no_head_depends_on_the_order_of_the_rows(head):
    assert max(order_errors("wine", head, None, "float64")) < 1e-8


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.parametrize("head", HEADS)
def test_random_programs_equal_one_fit_with_the_effective_weights(head):
    assert max(program_error(seed, head) for seed in range(6)) < 1e-8


@pytest.mark.parametrize("head", HEADS)
def test_samples_or_weights_that_double_precision_loses_never_spoil_a_prediction(head):
    X, y = make_blobs(60, n_features=3, centers=3, random_state=0)
    model = IncrementalDiscriminantAnalysis(classifier=head, shared_band_size=20, random_state=0)
    with pytest.raises(ValueError, match=r"samples must have values of at least"):
        model.fit(1e-160 * X, y)
    with pytest.raises(ValueError, match=r"sample weights of a class must add up to at least"):
        model.fit(X, y, sample_weight=np.where(y == 1, 1e-310, 1.0))

    model.fit(np.where(y[:, None] == 0, 1e-160, 1.0) * X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.forget([1, 2]).predict(1e-160 * X[:2]).tolist() == [0, 0]
    assert np.isfinite(model.score_samples(X)).all()
