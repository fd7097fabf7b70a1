"""One-vs-all regression of files up to format 6, which stored the temperature of a softmax."""

import numpy as np
import pytest

from ffnb_sklearn import ModelFileError
from tests.saving.model_files import classifier, closed, load_bytes, opened, saved
from tests.separated_classes import X, learned


@pytest.fixture
def estimator():
    model = learned(classifier(classifier="ova"), [4, 1], [6])
    model.predict(X)
    return model


@pytest.fixture
def parts(estimator, tmp_path):
    """Return the JSON content of a file, its arrays, and the solved regression in the content."""
    content, arrays = opened(saved(estimator, tmp_path / "model.ffnb"))
    return content, arrays, solved_regression(content)


def solved_regression(value):
    if isinstance(value, dict) and "power" in value:
        return value
    inner = value.values() if isinstance(value, dict) else value
    found = (solved_regression(one) for one in inner if isinstance(one, dict | list))
    return next((one for one in found if one is not None), None)


def test_the_power_is_stored(estimator, parts, tmp_path):
    loaded = load_bytes(closed(*parts[:2]), tmp_path / "same.ffnb")
    assert (
        loaded._state.model.solved.classifier.power
        == estimator._state.model.solved.classifier.power
    )


def test_the_regression_of_an_older_file_is_solved_again(estimator, parts, tmp_path):
    content, arrays, regression = parts
    del regression["power"]
    content["format"], regression["temperature"] = 6, 0.05

    older = load_bytes(closed(content, arrays), tmp_path / "older.ffnb")

    assert older._state.model.solved is None
    np.testing.assert_allclose(older.predict_proba(X), estimator.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize("names", [(), ("power", "temperature")], ids=["neither", "both"])
def test_a_regression_without_or_with_both_numbers_is_refused(names, parts, tmp_path):
    content, arrays, regression = parts
    regression.pop("power")
    regression.update(dict.fromkeys(names, 0.05))
    with pytest.raises(ModelFileError, match="planes, offsets, gram, power"):
        load_bytes(closed(content, arrays), tmp_path / "forged.ffnb")
