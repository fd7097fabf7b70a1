import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.skeletons import SkeletonDescriptor
from ffnb_sklearn.skeletons._blocks import BLOCK_SCALES
from tests.recording_callback import Recorder, needs_callbacks

ALL_BLOCKS = tuple(BLOCK_SCALES)


def hands(lengths=(1, 2, 7, 8, 9, 30), seed=0, frame=(5, 3)):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, *frame)).cumsum(axis=0) for n in lengths]


# ---- one sequence, one row -----------------------------------------------------------------


def test_a_row_depends_on_its_sequence_alone():
    sequences = hands((1, 3, 1000, 8, 40, 41, 2), frame=(3, 3))
    descriptor = SkeletonDescriptor(blocks=ALL_BLOCKS).fit(sequences[:1])
    rows = descriptor.transform(sequences)
    assert rows.shape == (7, len(descriptor.get_feature_names_out()))
    assert np.isfinite(rows).all()
    for frames, row in zip(sequences, rows, strict=True):
        np.testing.assert_array_equal(descriptor.transform([frames])[0], row)


def test_input_is_not_changed_and_its_kind_does_not_matter():
    sequences = hands((4, 4))
    kept = [frames.copy() for frames in sequences]
    descriptor = SkeletonDescriptor().fit(sequences)
    rows = descriptor.transform(sequences)
    np.testing.assert_array_equal(sequences, kept)
    for other in (
        np.stack(sequences),
        tuple(sequences),
        [frames.tolist() for frames in sequences],
        [frames[:, None] for frames in sequences],
        [np.asfortranarray(frames) for frames in sequences],
    ):
        np.testing.assert_array_equal(descriptor.transform(other), rows)
    ragged = np.empty(2, dtype=object)
    ragged[:] = sequences
    np.testing.assert_array_equal(descriptor.transform(ragged), rows)
    single = [frames.astype(np.float32) for frames in sequences]
    assert descriptor.transform(single).dtype == np.float64


def test_rows_of_a_table_equal_those_of_the_list():
    sequences = hands((6, 6), frame=(2, 4, 3))
    table = np.stack(sequences).reshape(2, -1)
    expected = SkeletonDescriptor(root=1).fit_transform(sequences)
    descriptor = SkeletonDescriptor(root=1, frame_shape=(2, 4, 3))
    np.testing.assert_array_equal(descriptor.fit_transform(table), expected)
    assert descriptor.n_features_in_ == table.shape[1]
    assert descriptor.frame_shape_ == (2, 4, 3)


# ---- names of the columns ------------------------------------------------------------------


@pytest.mark.parametrize("frame", [(4, 3), (2, 4, 3), (3, 2, 2), (4, 5)])
@pytest.mark.parametrize("name", ALL_BLOCKS)
def test_names_are_unique_and_as_many_as_columns(name, frame):
    descriptor = SkeletonDescriptor(blocks=(name,), root=1, n_chunks=3)
    rows = descriptor.fit_transform(hands((4, 9), frame=frame))
    names = descriptor.get_feature_names_out()
    assert len(set(names)) == rows.shape[1] > 0
    assert names[0] == f"{name}0"


def test_names_stand_in_the_order_of_the_columns():
    sequence = np.zeros((8, 2, 3, 3))
    sequence[4:, 1, 2, 1] = 7.0
    descriptor = SkeletonDescriptor(blocks=("duration", "joints"), n_chunks=2, persons="ordered")
    rows = descriptor.set_output(transform="pandas").fit_transform([sequence])
    assert isinstance(rows, pd.DataFrame)
    # The second chunk, the second person, the second joint but the root, y.
    assert rows.columns[rows.iloc[0] != 0].tolist() == ["duration0", "joints22"]


# ---- as a scikit-learn estimator -----------------------------------------------------------


@pytest.mark.parametrize("blocks", [("trajectory",), SkeletonDescriptor().blocks])
def test_check_estimator_on_rows(blocks):
    # One joint with one coordinate: any table is a set of flattened sequences.
    descriptor = SkeletonDescriptor(frame_shape=(1, 1), blocks=blocks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)  # array API input, not supported
        results = check_estimator(descriptor)
    assert len(results) == 47
    # Which checks are skipped depends on the release.
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}


def test_tags_say_which_input_is_expected():
    assert not SkeletonDescriptor().__sklearn_tags__().input_tags.two_d_array
    assert SkeletonDescriptor().__sklearn_tags__().input_tags.three_d_array
    assert SkeletonDescriptor(frame_shape=(5, 3)).__sklearn_tags__().input_tags.two_d_array


def test_clone_pickle_and_refit():
    sequences = hands()
    descriptor = SkeletonDescriptor(n_chunks=3).fit(sequences)
    rows = descriptor.transform(sequences)
    copy = pickle.loads(pickle.dumps(descriptor))
    np.testing.assert_array_equal(copy.transform(sequences), rows)
    assert joblib.hash(clone(descriptor)) == joblib.hash(clone(copy))
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(descriptor))
    descriptor.fit(hands(frame=(2, 3, 3)))
    assert descriptor.frame_shape_ == (2, 3, 3)
    assert SkeletonDescriptor(frame_shape=(1, 3)).fit(np.ones((2, 3))).n_features_in_ == 3


@needs_callbacks
def test_pipeline_passes_its_callbacks_on():
    recorder = Recorder()
    pipe = make_pipeline(SkeletonDescriptor(), IncrementalDiscriminantAnalysis(random_state=0))
    pipe.set_callbacks(recorder).fit(hands(), [0, 0, 0, 1, 1, 1])
    assert recorder.begun == ["fit 0", "fit 0/fit 0", "fit 0/fit 1", "fit 0/fit 1/task 0"]
    assert recorder.open == 0


def test_pipeline_and_grid_search_over_lists():
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    sequences = [
        rng.normal(scale=0.05, size=(rng.integers(3, 12), 4, 3)) + np.eye(4, 3) * (1 + label)
        for label in y
    ]
    for frames, label in zip(sequences, y, strict=True):
        frames[:, 3] += 2.0 * label
    model = make_pipeline(SkeletonDescriptor(), NearestCentroid())
    search = GridSearchCV(
        model, {"skeletondescriptor__blocks": [("speed",), ("joints", "distances")]}, cv=3
    )
    search.fit(sequences, y)
    assert search.best_score_ == 1.0
    assert search.best_params_ == {"skeletondescriptor__blocks": ("joints", "distances")}


def test_real_interactions_are_told_apart(shared_data):
    released = dict(np.load(shared_data / "sbu.npz"))
    # Lengths with one unit on all axes, as load_sbu(coordinates="original") gives them.
    joints = released["joints"] * np.array([-2560.0, -1920.0, 1280.0])
    sequences = np.split(joints, released["offsets"][1:-1])
    rows = SkeletonDescriptor(root=2).fit_transform(sequences)
    test, y = released["fold"] == 4, released["label"]
    model = SVC(kernel="linear").fit(rows[~test], y[~test])
    assert model.score(rows[test], y[test]) >= 0.9


# ---- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"blocks": ("joints", "pose")}, "blocks must be different names among .*'pose'"),
        ({"blocks": ("joints", "joints")}, "blocks must be different names"),
        ({"blocks": (["joints"],)}, "blocks must be different names"),
        ({"blocks": ()}, "have no columns"),
        ({"blocks": "joints"}, "'blocks' parameter"),
        ({"n_chunks": 0}, "'n_chunks' parameter"),
        ({"n_chunks": 2.5}, "'n_chunks' parameter"),
        ({"root": -1}, "'root' parameter"),
        ({"root": 5}, "root must be the index of one of 5 joints, got 5"),
        ({"persons": "unordered"}, "'persons' parameter"),
        ({"frame_shape": 15}, "'frame_shape' parameter"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        SkeletonDescriptor(**parameters).fit(hands())


def test_blocks_without_columns():
    with pytest.raises(ValueError, match=r"blocks \('joints',\) have no columns"):
        SkeletonDescriptor(blocks=("joints",)).fit([np.ones((4, 1, 3))])


def changed(index, value):
    sequences = hands()
    sequences[index] = value
    return sequences


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([], ValueError, "at least one sequence"),
        (5, TypeError, "has no len"),
        (np.ones((4, 30)), ValueError, r"Sequence 0 must have the axes .* shape \(30,\)"),
        (np.ones((4, 5, 3)), ValueError, r"Sequence 0 must have the axes .* shape \(5, 3\)"),
        # Axes in the order of graph networks, or with the joints last.
        (np.ones((1, 3, 300, 25, 2)), ValueError, r"0 must .* 12 persons .*\(3, 300, 25, 2\)"),
        (np.ones((1, 3, 300, 25)), ValueError, r"7 coordinates; got the shape \(3, 300, 25\)"),
        (np.ones((1, 30, 25, 3, 2)), ValueError, r"shape \(30, 25, 3, 2\)"),
        (changed(1, np.ones((0, 5, 3))), ValueError, r"Sequence 1 .* shape \(0, 5, 3\)"),
        (changed(2, np.ones((4, 6, 3))), ValueError, r"Sequence 2 has frames of shape \(1, 6, 3\)"),
        (changed(2, np.full((4, 5, 3), np.nan)), ValueError, "Sequence 2 contains NaN"),
        (changed(2, np.full((4, 5, 3), np.inf)), ValueError, "Sequence 2 contains infinity"),
        (changed(3, [[["a"] * 3] * 5]), ValueError, "could not convert string"),
        (changed(3, np.ones((4, 5, 3)) * 1j), ValueError, "Complex data not supported"),
    ],
)
def test_wrong_sequences(X, error, message):
    with pytest.raises(error, match=message):
        SkeletonDescriptor().fit(X)
    fitted = SkeletonDescriptor().fit(hands())
    with pytest.raises(error, match=message):
        fitted.transform(X)


def test_wrong_tables_and_wrong_order_of_calls():
    with pytest.raises(NotFittedError):
        SkeletonDescriptor().transform(hands())
    with pytest.raises(NotFittedError):
        SkeletonDescriptor().get_feature_names_out()
    descriptor = SkeletonDescriptor(frame_shape=(5, 3))
    with pytest.raises(ValueError, match=r"multiple of prod\(frame_shape\) = 15, got 16"):
        descriptor.fit(np.ones((2, 16)))
    descriptor.fit(np.ones((2, 30)))
    with pytest.raises(ValueError, match="X has 45 features"):
        descriptor.transform(np.ones((2, 45)))


def test_a_failed_fit_leaves_nothing_behind():
    descriptor = SkeletonDescriptor(root=9)
    with pytest.raises(ValueError, match="root"):
        descriptor.fit(hands())
    assert not hasattr(descriptor, "frame_shape_")


@pytest.mark.parametrize(
    ("change", "table"),
    [
        ({"root": 9}, np.ones((2, 30))),
        ({"blocks": ("joints",), "frame_shape": (1, 3)}, np.ones((2, 9))),
        ({}, np.ones((2, 16))),
        ({}, np.full((2, 15), np.nan)),
        ({"frame_shape": None}, np.ones((2, 30))),
    ],
)
def test_a_failed_refit_of_tables_changes_nothing(change, table):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(2, 45)))
    descriptor = SkeletonDescriptor(frame_shape=(5, 3)).fit(frame.add_prefix("c"))
    before = dict(vars(descriptor))
    with pytest.raises(ValueError):
        descriptor.set_params(**change).fit(table)
    assert vars(descriptor) == before | change


def test_a_list_has_no_columns():
    descriptor = SkeletonDescriptor(frame_shape=(5, 3)).fit(np.ones((2, 45)))
    descriptor.set_params(frame_shape=None).fit(hands())
    assert not hasattr(descriptor, "n_features_in_")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"root": 9}, "root must be the index"),
        ({"blocks": ("zz",)}, "blocks must be different names"),
    ],
)
def test_parameters_changed_after_fit_are_checked_by_transform(changes, message):
    sequences = [np.random.default_rng(0).normal(size=(4, 5, 3))]
    descriptor = SkeletonDescriptor().fit(sequences).set_params(**changes)

    with pytest.raises(ValueError, match=message):
        descriptor.transform(sequences)
