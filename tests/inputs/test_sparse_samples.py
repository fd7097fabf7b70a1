"""Sparse samples: the dense ones' results, without a dense copy of all of them."""

import pickle
import warnings

import dask
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    load,
    partial_fit_shards,
    save,
)
from ffnb_sklearn._inputs import sparse_samples as _sparse
from ffnb_sklearn._inputs.sparse_samples import N_COLUMNS, RandomProjection, SparseSamples

RNG = np.random.default_rng(0)
N_WIDE = N_COLUMNS + 3000
CODES = np.repeat(np.arange(6), 15)


def documents(n_features):
    """Rows of ten words, half of them from the twenty words of their class."""
    own = 20 * CODES[:, None] + RNG.integers(20, size=(len(CODES), 5))
    words = np.hstack([own, RNG.integers(n_features, size=(len(CODES), 5))])
    rows = np.repeat(np.arange(len(CODES)), words.shape[1])
    shape = (len(CODES), n_features)
    return sparse.csr_array((np.ones(words.size), (rows, words.ravel())), shape=shape)


WIDE, NARROW = documents(N_WIDE), documents(150)

# Ways to give the same samples; the first task is sparse, so that wide ones are projected.
FORMATS = {
    "csr_matrix": sparse.csr_matrix,
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "int64 indices": lambda X: sparse.csr_array(
        (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape
    ),
    "integers": lambda X: X.astype(np.int64),
    "dense": lambda X: X.toarray(),
}
METHODS = ["predict", "predict_proba", "decision_function", "score_samples", "transform"]


def estimator(**parameters):
    return IncrementalDiscriminantAnalysis(**{"random_state": 0, **parameters})


def dense(result):
    """The result of a method as an array."""
    return result.toarray() if sparse.issparse(result) else result


def learned(model, X, tasks=([0, 1], [2, 3], [4, 5]), convert=lambda X: X):
    """The model after some tasks, of which all but the first are converted."""
    for number, task in enumerate(tasks):
        now = np.isin(CODES, task)
        model.partial_fit(convert(X[now]) if number else X[now], CODES[now])
    return model


@pytest.fixture(scope="module")
def reference():
    return learned(estimator(), WIDE)


# ---- wide samples are projected


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_results(reference, kind):
    model = learned(estimator(), WIDE, convert=FORMATS[kind])
    for method in METHODS:
        expected = dense(getattr(reference, method)(WIDE))
        assert_array_equal(dense(getattr(model, method)(FORMATS[kind](WIDE))), expected)
    assert model.n_features_in_ == N_WIDE
    assert model.score(WIDE, CODES) == 1.0


@pytest.mark.parametrize("most", [4000, 10**6])
def test_the_projection_is_the_feature_map(most, monkeypatch):
    monkeypatch.setattr(_sparse, "MOST_SPARSE_COLUMNS", most)
    model = estimator().fit(WIDE, CODES)
    n_columns = min(most, N_WIDE)
    matrix = RandomProjection(N_WIDE, model._state.projection.seed, n_columns).matrix
    assert_allclose(dense(model.transform(WIDE)), (WIDE @ matrix).toarray(), atol=1e-12)
    assert model.score(WIDE, CODES) == 1.0


def test_neurons_see_fewer_columns():
    projected = estimator(shared_band_size=30).fit(WIDE, CODES).transform(WIDE)
    matrix = RandomProjection(N_WIDE, estimator().fit(WIDE, CODES)._state.projection.seed).matrix
    assert projected.shape == (len(CODES), N_COLUMNS + 30)
    assert_allclose(projected[:, :N_COLUMNS], (WIDE @ matrix).toarray(), atol=1e-12)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"shared_band_size": 0}, {"shared_band_size": 10}, {"skip_connection": False}],
    ids=repr,
)
def test_bands_are_trained_in_a_dense_projection(parameters, tmp_path):
    model = learned(FFNBClassifier(band_size=1, random_state=0, **parameters), WIDE)
    assert len(model.null_space_dims_) == 3
    assert not model._state.projection.keeps_sparse
    projected = N_COLUMNS * parameters.get("skip_connection", True)
    # By default there are no random neurons beside a projection.
    n_features = projected + parameters.get("shared_band_size", 0) + 6
    assert dense(model.transform(WIDE)).shape == (len(CODES), n_features)
    assert model.score(WIDE, CODES) > 0.9
    save(model, tmp_path / "model.ffnb")
    expected = model.decision_function(WIDE)
    assert_array_equal(load(tmp_path / "model.ffnb").decision_function(WIDE), expected)


def test_the_projection_keeps_every_feature_and_angles():
    matrix = RandomProjection(N_WIDE, 7).matrix.toarray()
    assert_array_equal((matrix != 0).sum(axis=1), 4)
    assert_allclose(np.square(matrix).sum(axis=1), 1.0)
    products = matrix[:300] @ matrix[:300].T - np.eye(300)
    assert abs(products.mean()) < 1e-3
    assert np.square(products).mean() == pytest.approx(1 / N_COLUMNS, rel=0.1)


def test_the_draw_never_changes():
    # Files of models hold the seed alone.
    matrix = RandomProjection(3, 1, 12).matrix
    assert matrix.indices.tolist() == [2, 4, 8, 9, 0, 4, 8, 9, 0, 3, 8, 11]
    assert (2 * matrix.data).tolist() == [1, 1, -1, -1, 1, 1, 1, -1, -1, 1, -1, 1]


@pytest.mark.parametrize(
    "model",
    [
        FFNBClassifier(band_size=1, classes_per_task=None, shared_band_size=5, random_state=0),
        estimator(classifier="ova", shared_band_size=10),
        NaiveIncrementalClassifier(random_state=0, max_epochs=40),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_models_see_the_same_projection(model):
    model.fit(WIDE, CODES)
    assert model.score(WIDE, CODES) > 0.9
    assert_array_equal(model.predict_proba(WIDE.toarray()), model.predict_proba(WIDE))


def test_no_dense_row_of_wide_samples_is_made(monkeypatch):
    # A class of few samples is decomposed as it is.
    many = sparse.csr_array(sparse.vstack([WIDE, 2.0 * WIDE, 3.0 * WIDE]))
    monkeypatch.setattr(SparseSamples, "__getitem__", None)
    monkeypatch.setattr(SparseSamples, "double", None)
    model = estimator(chunk_size=20).fit(many, np.tile(CODES, 3))
    assert_array_equal(model.predict(WIDE), CODES)
    assert model.score_samples(WIDE).mean() > model.score_samples(WIDE[:, ::-1]).mean()


def test_a_few_wide_samples_become_dense_at_a_time_for_their_left_out_scores(monkeypatch):
    sizes, compute = [], SparseSamples.__getitem__

    def watched(self, rows):
        inputs = compute(self, rows)
        sizes.append(len(inputs))
        return inputs

    monkeypatch.setattr(SparseSamples, "__getitem__", watched)
    monkeypatch.setattr(SparseSamples, "double", None)
    # A class of few samples is decomposed as it is.
    many = sparse.csr_array(sparse.vstack([WIDE, 2.0 * WIDE, 3.0 * WIDE]))
    model = estimator(chunk_size=20, novelty=True).fit(many, np.tile(CODES, 3))
    assert sum(sizes) == many.shape[0]
    assert max(sizes) == 20
    # Classes of which axes were cut off have cautious thresholds.
    assert np.mean(model.score_samples(WIDE) < model.novelty_threshold(0.2)) < 0.3


def test_wide_samples_of_no_class_are_noticed():
    many = sparse.csr_array(sparse.vstack([WIDE, 2.0 * WIDE]))
    model = estimator(novelty=True, rank=None).fit(many, np.tile(CODES, 2))
    assert np.mean(model.score_samples(WIDE) < model.novelty_threshold(0.2)) < 0.3
    assert np.mean(model.score_samples(WIDE[:, ::-1]) < model.novelty_threshold(0.2)) > 0.9


def test_no_dense_copy_of_all_samples_is_made(monkeypatch):
    sizes, compute = [], SparseSamples.__getitem__

    def watched(self, rows):
        inputs = compute(self, rows)
        sizes.append(tuple(inputs.shape))
        return inputs

    monkeypatch.setattr(SparseSamples, "__getitem__", watched)
    monkeypatch.setattr(SparseSamples, "double", None)
    model = estimator(chunk_size=20, shared_band_size=30).fit(WIDE, CODES)
    model.predict(WIDE)
    model.score_samples(WIDE)
    # Learning reads class by class, and predictions read sample by sample.
    assert max(n for n, _ in sizes) == 20
    assert sizes[-10:] == 2 * [*4 * [(20, N_COLUMNS)], (10, N_COLUMNS)]


# ---- samples that are not projected


@pytest.mark.parametrize("first", ["sparse", "dense"])
def test_narrow_samples_have_the_results_of_dense_ones(first):
    X = NARROW if first == "sparse" else NARROW.toarray()
    model = learned(estimator(shared_band_size=20), X, convert=sparse.csr_array)
    dense = learned(estimator(shared_band_size=20), NARROW.toarray())
    assert_array_equal(model.decision_function(NARROW), dense.decision_function(NARROW.toarray()))


def test_a_model_of_wide_dense_samples_takes_sparse_ones():
    model = estimator(shared_band_size=5, chunk_size=30).fit(WIDE.toarray(), CODES)
    assert model.transform(WIDE).shape == (len(CODES), N_WIDE + 5)
    assert_array_equal(model.predict_proba(WIDE), model.predict_proba(WIDE.toarray()))


def test_frames_of_sparse_columns():
    pandas = pytest.importorskip("pandas")
    names = [f"word {number}" for number in range(N_WIDE)]
    frame = pandas.DataFrame.sparse.from_spmatrix(WIDE, columns=names)
    with warnings.catch_warnings():
        # pandas is slow with so many columns, and says so.
        warnings.simplefilter("ignore", pandas.errors.PerformanceWarning)
        model = estimator().fit(frame, CODES)
        assert_array_equal(
            model.predict_proba(frame), estimator().fit(WIDE, CODES).predict_proba(WIDE)
        )
    assert_array_equal(model.feature_names_in_, names)


# ---- what is learned from sparse samples is kept and combined as ever


def test_order_of_tasks_plays_no_part(reference):
    model = learned(estimator(), WIDE, tasks=([5, 2], [0], [4, 3, 1]))
    assert_allclose(model.predict_proba(WIDE), reference.predict_proba(WIDE), rtol=1e-6)


def test_merge(reference):
    left, right = (learned(estimator(), WIDE, tasks=[task]) for task in ([0, 1, 2], [3, 4, 5]))
    assert_allclose(left.merge(right).predict_proba(WIDE), reference.predict_proba(WIDE), rtol=1e-6)


@pytest.mark.parametrize("other", ["dense", "another seed"])
def test_merge_refuses_another_projection(other):
    model = learned(estimator(), WIDE, tasks=[[0, 1]])
    X, seed = (WIDE.toarray(), 0) if other == "dense" else (WIDE, 1)
    another = estimator(random_state=seed, shared_band_size=0).fit(X[CODES > 3], CODES[CODES > 3])
    before = model.predict_proba(WIDE)
    with pytest.raises(ValueError, match="differs in the projection of sparse samples"):
        model.merge(another)
    assert_array_equal(model.predict_proba(WIDE), before)


def test_shards(reference):
    pieces = [(WIDE[start::4], CODES[start::4]) for start in range(4)]
    shards = [dask.delayed(piece, pure=False, traverse=False) for piece in pieces]
    with dask.config.set(scheduler="synchronous"):
        model = partial_fit_shards(estimator(), shards)
    assert_allclose(model.predict_proba(WIDE), reference.predict_proba(WIDE), rtol=1e-6)


def test_pickles_and_files_hold_no_projection(reference, tmp_path):
    save(reference, tmp_path / "model.ffnb")
    for copy in (load(tmp_path / "model.ffnb"), pickle.loads(pickle.dumps(reference))):
        assert "matrix" not in vars(copy._state.projection)
        assert_array_equal(copy.predict_proba(WIDE), reference.predict_proba(WIDE))
