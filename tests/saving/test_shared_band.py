"""Shared bands of files up to format 5, whose cosines do not depend on the norm of a sample."""

import numpy as np
import pytest

from ffnb_sklearn import ModelFileError
from tests.saving.model_files import classifier, closed, load_bytes, opened, saved
from tests.separated_classes import X, learned

N_NEURONS, N_COSINES = 100, 50


@pytest.fixture
def estimator():
    return learned(classifier(shared_band_size=N_NEURONS), [4, 1], [6])


@pytest.fixture
def parts(estimator, tmp_path):
    """Return the JSON content of a file, its arrays, and the shared band in the content."""
    content, arrays = opened(saved(estimator, tmp_path / "model.ffnb"))
    (band,) = (one for one in objects(content) if "mirrored" in one)
    return content, arrays, band


def objects(value):
    """Yield all objects in JSON content."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value:
        if isinstance(one, dict | list):
            yield from objects(one)


def as_in_format_5(content, arrays, band):
    """Store the number of cosines instead of their frequencies."""
    number = band.pop("frequencies")["array"]
    band["n_cosines"] = len(arrays.pop(number))
    content["format"] = 5
    for one in objects(content):
        if one.keys() == {"array"} and one["array"] > number:
            one["array"] -= 1


def shared_band(estimator):
    return estimator._state.model.features.shared


def test_cosines_of_an_older_file_keep_their_meaning(estimator, parts, tmp_path):
    as_in_format_5(*parts)
    older = load_bytes(closed(*parts[:2]), tmp_path / "older.ffnb")

    np.testing.assert_array_equal(shared_band(older).rows, shared_band(estimator).rows)
    np.testing.assert_array_equal(shared_band(older).frequencies, np.zeros(N_COSINES))
    np.testing.assert_allclose(older.transform(3.0 * X), 3.0 * older.transform(X), rtol=1e-9)
    assert not np.allclose(estimator.transform(3.0 * X), 3.0 * estimator.transform(X))


def test_an_older_band_is_not_merged_with_a_newer_one(estimator, parts, tmp_path):
    as_in_format_5(*parts)
    older = load_bytes(closed(*parts[:2]), tmp_path / "older.ffnb")
    newer = learned(classifier(shared_band_size=N_NEURONS), [2, 3])

    for one, other in ((older, newer), (newer, older)):
        with pytest.raises(ValueError, match="other must have the same shared band"):
            one.merge(other)
    assert estimator.merge(newer).classes_.size == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda band, arrays: band.pop("frequencies"), "either frequencies or n_cosines"),
        (lambda band, arrays: band.update(n_cosines=N_COSINES), "either frequencies or n_cosines"),
        (lambda band, arrays: resize(band, arrays, 101), "of at most 100"),
    ],
    ids=["none", "both", "too many"],
)
def test_forged_frequencies_are_refused(change, message, parts, tmp_path):
    content, arrays, band = parts
    change(band, arrays)
    with pytest.raises(ModelFileError, match=message):
        load_bytes(closed(content, arrays), tmp_path / "forged.ffnb")


def resize(band, arrays, n_cosines):
    arrays[band["frequencies"]["array"]] = np.ones(n_cosines)
