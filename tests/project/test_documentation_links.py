"""The HTML representation links to the documentation, and describes parameters in tooltips."""

from email.message import Message
from importlib.metadata import PackageNotFoundError

import pytest
from sklearn.preprocessing import Normalizer

from ffnb_sklearn import (
    Bands,
    FFNBClassifier,
    SkeletonDescriptor,
    TorchFeatureExtractor,
    make_continual_pipeline,
)
from ffnb_sklearn._estimators import documentation as _documentation

ESTIMATORS = [
    Bands(),
    FFNBClassifier(),
    SkeletonDescriptor(),
    TorchFeatureExtractor("ffnb_sklearn.backbones.ConvNet"),
    make_continual_pipeline(Normalizer(), FFNBClassifier()),
]


@pytest.fixture
def addressed(monkeypatch):
    """Have the metadata hold an address of the documentation."""
    found = {"Documentation": "https://docs.example/ffnb/", "Paper": "https://paper.example"}
    monkeypatch.setattr(_documentation, "addresses", lambda: found)
    return found


def link(estimator):
    name = type(estimator).__name__
    return f"https://docs.example/ffnb/generated/ffnb_sklearn.{name}.html"


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_representation_links_to_the_page_of_the_estimator(estimator, addressed):
    assert f'href="{link(estimator)}"' in estimator._repr_html_()


def test_parameters_have_tooltips(addressed):
    html = FFNBClassifier()._repr_html_()
    if "param-doc" not in html:
        pytest.skip("this version of scikit-learn has no tooltips")
    assert "Trained neurons per new class and layer." in html


def test_paper_stands_in_for_a_site_without_address(addressed):
    del addressed["Documentation"]
    assert 'href="https://paper.example"' in FFNBClassifier()._repr_html_()


def test_no_link_without_metadata(monkeypatch):
    monkeypatch.setattr(_documentation, "addresses", dict)
    assert FFNBClassifier()._get_doc_link() == ""


def test_addresses_are_read_from_the_metadata(monkeypatch):
    found = Message()
    found["Project-URL"] = "Paper, https://paper.example"
    found["Project-URL"] = "Documentation, https://docs.example"
    monkeypatch.setattr(_documentation, "metadata", lambda name: found)
    expected = {"Paper": "https://paper.example", "Documentation": "https://docs.example"}
    assert _documentation.addresses.__wrapped__() == expected


def test_sources_that_are_not_installed_have_no_address(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(_documentation, "metadata", absent)
    assert _documentation.addresses.__wrapped__() == {}
