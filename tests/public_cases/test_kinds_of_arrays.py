"""Public cases about the precision, the byte order and the memory of arrays, and kinds of text."""

import io

import joblib
import numpy as np
import pytest
import torch
from joblib.numpy_pickle import NumpyPickler
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn import TorchFeatureExtractor, class_incremental_tasks, evaluate_stream
from tests.public_cases.flowers import NAMES, WEIGHTS, X, Y, heads, plain, small
from tests.public_cases.test_backbones import rows_network


def swapped(array):
    """Return the same values in the byte order of other machines."""
    return array.astype(array.dtype.newbyteorder("S"))


@heads
def test_arrays_in_another_byte_order(head):
    """XGBoost #12433."""
    model = small(head).fit(swapped(X), swapped(Y), sample_weight=swapped(WEIGHTS))
    expected = small(head).fit(X, Y, sample_weight=WEIGHTS)
    assert_array_equal(model.predict_proba(swapped(X)), expected.predict_proba(X))
    assert model.classes_.dtype.isnative
    names = small(head).fit(X, swapped(NAMES)).partial_fit(X, NAMES)
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


@heads
def test_a_pickle_of_a_machine_of_another_byte_order(head):
    """scikit-learn #21237."""
    model, file = small(head).fit(X, NAMES), io.BytesIO()
    OtherMachine(file).dump(model)
    file.seek(0)
    copy = joblib.load(file)
    assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    # Further learning merges both byte orders.
    assert_array_equal(
        copy.partial_fit(X + 1, NAMES).predict_proba(X),
        model.partial_fit(X + 1, NAMES).predict_proba(X),
    )


@heads
def test_a_pickle_that_is_mapped_into_memory(head, tmp_path):
    """scikit-learn #25584."""
    model = small(head).fit(X, Y)
    joblib.dump(model, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    assert_array_equal(mapped.predict_proba(X), model.predict_proba(X))
    mapped.partial_fit(X + 9, Y + 3)
    assert_array_equal(mapped.predict_proba(X), model.partial_fit(X + 9, Y + 3).predict_proba(X))


@heads
def test_sums_of_half_precision_do_not_overflow(head):
    """scikit-learn #13007."""
    # A column of 15,000 values of 1e4 is far beyond the largest number of half precision.
    rows = np.repeat(1e3 * X, 100, axis=0).astype(np.float16)
    labels = np.repeat(Y, 100)
    half = small(head).fit(rows, labels)
    single = small(head).fit(rows.astype(np.float32), labels)
    assert_array_equal(half.predict_proba(rows[::100]), single.predict_proba(rows[::100]))
    assert half.score(rows, labels) > 0.85


@heads
def test_probabilities_of_many_features_do_not_overflow(head):
    """scikit-lego #506, PyMVPA #581."""
    rng = np.random.default_rng(0)
    labels = np.arange(100) % 2
    # The likelihoods of 300 narrow features lie beyond the range of floating-point numbers.
    rows = rng.normal(size=(2, 300))[labels] + 0.01 * rng.normal(size=(100, 300))
    model = small(head).fit(rows, labels)
    asked = np.vstack([rows, 1e3 * rows])
    assert np.isfinite(model.predict_log_proba(asked)).all()
    assert np.abs(model.predict_proba(asked).sum(axis=1) - 1.0).max() < 1e-12
    assert_array_equal(model.predict(rows), labels)


def test_labels_in_the_string_dtype_of_numpy():
    """scikit-learn #34946."""
    names = NAMES.astype(np.dtypes.StringDType())
    model = plain().partial_fit(X[Y < 2], names[Y < 2], classes=np.unique(names))
    model.partial_fit(X, names).partial_fit(X, NAMES)
    assert_array_equal(model.classes_, np.unique(NAMES), strict=True)
    assert (model.predict(X) == names).mean() > 0.9
    assert model.forget(np.array(["setosa"], names.dtype)).classes_.tolist() == [
        "versicolor",
        "virginica",
    ]
    tasks = class_incremental_tasks(names)
    assert [NAMES[task][0] for task in tasks] == np.unique(NAMES).tolist()
    assert evaluate_stream(small(), X, names, X, names).final_accuracy > 0.9


@heads
@pytest.mark.parametrize("labels", [["ä", "версия", "虹膜 🌸"], ["e\u0301", "\u00e9", "e"]])
def test_labels_of_any_script_are_kept_character_by_character(head, labels):
    """scikit-learn #2462."""
    own = np.array(labels)[Y]
    model = small(head).fit(X, own)
    # Composed and decomposed accents are different strings of Python, and remain so.
    assert model.classes_.tolist() == sorted(labels)
    assert (model.predict(X) == own).mean() > 0.85


@heads
def test_predicted_names_have_the_type_of_the_classes(head):
    """MLflow #4993."""
    pd = pytest.importorskip("pandas")
    frame, names = pd.DataFrame(X, columns=list("abcd")), pd.Series(NAMES, dtype=object)
    model = small(head).fit(frame, names)
    assert model.predict(frame).dtype == model.classes_.dtype == NAMES.dtype


@heads
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble])
def test_probabilities_are_double_precision_for_rows_of_any_precision(head, kind):
    """xplainable #125."""
    kept = Y < 2
    model = small(head).fit(X[kept].astype(kind), NAMES[kept])
    row = model.predict_proba(X[:1].astype(kind))
    # Two labels have two columns, also for a single row.
    assert row.shape == (1, 2)
    assert row.dtype == np.float64
    assert model.decision_function(X[:1]).shape == (1,)


def test_explanations_ask_for_any_number_of_rows():
    """SHAP #1087."""
    model = small().fit(X, NAMES)
    rng = np.random.default_rng(0)
    # Explainers mix features of a row with those of others, and average the outputs.
    mixed = np.where(rng.random((2000, 4)) < 0.5, X[0], X[rng.integers(150, size=2000)])
    together = model.predict_proba(mixed)
    alone = np.vstack([model.predict_proba(part) for part in np.array_split(mixed, 7)])
    # The last bits of a product with few neurons may depend on the place of a row.
    assert_allclose(alone, together, rtol=0.0, atol=1e-12)
    assert np.isfinite(together.mean(axis=0)).all()
    tensor = torch.tensor(mixed)
    assert_array_equal(model.predict_proba(tensor), together)


@heads
def test_labels_in_chunks_of_arrow(head):
    """scikit-learn #33993."""
    arrow = pytest.importorskip("pyarrow")
    labels = arrow.chunked_array([NAMES[:70], NAMES[70:]])
    model = small(head).fit(X, labels)
    assert_array_equal(model.predict_proba(X), small(head).fit(X, NAMES).predict_proba(X))


@heads
def test_frames_of_polars(head):
    """Polars #7467."""
    pl = pytest.importorskip("polars")
    frame, labels = pl.DataFrame(X, schema=list("abcd")), pl.Series(NAMES)
    model = small(head).fit(frame, labels)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.score(frame, labels) > 0.85
    out = model.set_output(transform="polars").transform(frame)
    assert out.columns == model.get_feature_names_out().tolist()
