"""Parameters turned into settings, and which settings go together."""

from dataclasses import replace

import pytest

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
)
from ffnb_sklearn._base.parameters import check_continuation, derived_once, settings_of
from ffnb_sklearn.baselines import StreamingLDA


@pytest.mark.parametrize(("shared_band_size", "expected"), [("auto", 500), (0, 0), (5, 5)])
def test_width_of_the_shared_band(shared_band_size, expected):
    model = IncrementalDiscriminantAnalysis(shared_band_size=shared_band_size)
    assert settings_of(model, 4, None).shared_band_size == expected


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"shared_band_size": 9}, "shared_band_size"),
        ({"skip_connection": False}, "skip_connection"),
        ({"scale": True}, "scale"),
        ({"epsilon": 9.0, "shrinkage": 0.0, "rank": None, "classifier": "ova"}, None),
    ],
)
def test_what_may_change_between_tasks(change, name):
    before = settings_of(FFNBClassifier(), 4, None)
    if name is None:
        check_continuation(before, replace(before, **change))
        return
    for first, second in [(before, replace(before, **change)), (replace(before, **change), before)]:
        with pytest.raises(ValueError, match=f"{name} cannot change between tasks: it was"):
            check_continuation(first, second)


def test_settings_of_the_head_that_a_classifier_lacks_are_the_defaults():
    discriminant = settings_of(IncrementalDiscriminantAnalysis(), 4, None)
    assert discriminant == settings_of(FFNBClassifier(scale=False), 4, None)
    assert (discriminant.units, discriminant.half_bias) == ("relative", True)
    changed = FFNBClassifier.as_published(units="absolute", half_bias=False)
    published = settings_of(changed, 4, None)
    assert (published.units, published.half_bias) == ("absolute", False)


def test_what_follows_from_parameters_is_derived_once_while_they_are_the_same():
    model = StreamingLDA(shrinkage=0.5)
    cache = {}
    calls = []

    def derive():
        calls.append(model.shrinkage)
        return 2.0 * model.shrinkage

    def derived():
        return derived_once(model, model.get_params(), cache, derive)

    assert [derived(), derived()] == [1.0, 1.0]
    model.set_params(shrinkage=0.25)
    assert [derived(), derived()] == [0.5, 0.5]
    assert calls == [0.5, 0.25]
    model.set_params(shrinkage=2.0)
    with pytest.raises(ValueError, match="The 'shrinkage' parameter of StreamingLDA"):
        derived()
    assert calls == [0.5, 0.25]
