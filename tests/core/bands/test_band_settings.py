"""Settings of trained bands tell whether a band depends on earlier samples."""

from dataclasses import replace

import pytest

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn._base.band_parameters import band_settings_of


@pytest.mark.parametrize(
    ("changes", "sees_past"),
    [
        ({"null_space": True, "init": "pairs"}, True),
        ({"null_space": False, "init": "multi"}, True),
        ({"null_space": False, "init": "random"}, False),
    ],
)
def test_bands_depend_on_earlier_samples_by_the_null_space_or_the_initial_weights(
    changes, sees_past
):
    settings = band_settings_of(FFNBClassifier())
    assert replace(settings, **changes).sees_past is sees_past
