"""The errors and warnings of the package have one public module, and reach other processes."""

import pickle

import pytest

from ffnb_sklearn import exceptions


@pytest.mark.parametrize("name", exceptions.__all__)
def test_an_error_or_warning_is_an_exception_that_keeps_its_message_in_a_pickle(name):
    kind = getattr(exceptions, name)
    assert name.endswith("Warning") == issubclass(kind, Warning)
    copied = pickle.loads(pickle.dumps(kind("what is wrong")))
    assert type(copied) is kind
    assert "what is wrong" in str(copied)
