"""Values that the command lines of the benchmarks read."""

from benchmarks.lib.report import read_settings


def test_settings_are_values():
    assert read_settings("") == {}
    settings = read_settings("refresh=.1,rank=None,covariance=full")
    assert settings == {"refresh": 0.1, "rank": None, "covariance": "full"}
