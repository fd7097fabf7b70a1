"""The warning of transformers that the first task alone has fitted."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from torch import nn

from ffnb_sklearn import (
    IncrementalDiscriminantAnalysis,
    SkeletonDescriptor,
    TorchFeatureExtractor,
    make_continual_pipeline,
)
from ffnb_sklearn.exceptions import FrozenTransformerWarning
from tests.separated_classes import CODES, N_FEATURES, X

WORDS = [f"word{code} of {code}" for code in CODES]


class Centred(TransformerMixin, BaseEstimator):
    """Transformer of a user: learns a mean."""

    def fit(self, X, y=None):
        self.mean_ = np.mean(X, axis=0)
        return self

    def transform(self, X):
        return X - self.mean_


class CentredOnPurpose(Centred):
    frozen_on_purpose = True


class Untouched(Centred):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


# Categories of each feature.
GRID = [np.arange(3.0)] * N_FEATURES


def width(n):
    return GaussianRandomProjection(n, random_state=0)


LEARN = {
    "PCA": PCA(2),
    "TruncatedSVD": TruncatedSVD(2),
    "StandardScaler": StandardScaler(),
    "IncrementalPCA": IncrementalPCA(2),
    "Nystroem": Nystroem(n_components=2),
    "RBFSampler": RBFSampler(gamma="scale"),
    "Centred": Centred(),
    "TfidfVectorizer": TfidfVectorizer(),
    "in a pipeline: PCA": make_pipeline(Normalizer(), PCA(2)),
    "in a union: PCA": make_union(width(2), PCA(2)),
    "without categories: OneHotEncoder": OneHotEncoder(handle_unknown="ignore"),
    "mean: SimpleImputer": SimpleImputer(),
    "vocabulary: TfidfVectorizer": TfidfVectorizer(vocabulary=["of", "word0"]),
    "counts: CountVectorizer": CountVectorizer(),
    "remainder: StandardScaler": make_column_transformer(
        ("passthrough", [0]), remainder=StandardScaler()
    ),
    "in columns: StandardScaler": make_column_transformer((StandardScaler(), [0]), ("drop", [1])),
}
DO_NOT = {
    "nothing": "passthrough",
    "Normalizer": Normalizer(),
    "FunctionTransformer": FunctionTransformer(),
    "HashingVectorizer": HashingVectorizer(n_features=8),
    "SparseRandomProjection": SparseRandomProjection(3, random_state=0),
    "GaussianRandomProjection": width(3),
    "RBFSampler": RBFSampler(random_state=0),
    "PolynomialFeatures": PolynomialFeatures(),
    "frozen": FrozenEstimator(PCA(2).fit(X)),
    "frozen, in a union": make_union(width(2), FrozenEstimator(PCA(2).fit(X))),
    "network": TorchFeatureExtractor(lambda: nn.Linear(N_FEATURES, 4)),
    "pretrained network": TorchFeatureExtractor(lambda: nn.Linear(N_FEATURES, 4), epochs=1),
    "skeletons": SkeletonDescriptor(blocks=("joints",), n_chunks=1, frame_shape=(2, 3)),
    "categories": OneHotEncoder(categories=GRID, handle_unknown="ignore"),
    "ordered categories": OrdinalEncoder(
        categories=GRID, handle_unknown="use_encoded_value", unknown_value=-1
    ),
    "categories, in columns": make_column_transformer(
        (OneHotEncoder(categories=GRID[:1], handle_unknown="ignore"), [0]), remainder="passthrough"
    ),
    "constant": SimpleImputer(strategy="constant"),
    "vocabulary": CountVectorizer(vocabulary=["of", "word0"]),
    "vocabulary without frequencies": TfidfVectorizer(vocabulary=["of", "word0"], use_idf=False),
    "user's, declared": CentredOnPurpose(),
    "user's, stateless": Untouched(),
}


def samples_for(transformer):
    """Texts for vectorizers, rows for all others."""
    texts = isinstance(transformer, (HashingVectorizer, CountVectorizer))
    return np.array(WORDS, dtype=object) if texts else X


def pipeline(transformer):
    return make_continual_pipeline(
        transformer, IncrementalDiscriminantAnalysis(shared_band_size=5, random_state=0)
    )


@pytest.mark.parametrize("name", LEARN)
def test_a_transformer_that_learns_draws_one_warning(name):
    pipe, data = pipeline(LEARN[name]), samples_for(LEARN[name])
    with pytest.warns(FrozenTransformerWarning, match="FrozenEstimator") as caught:
        pipe.partial_fit(data[CODES < 2], CODES[CODES < 2])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert f"({name.split()[-1]})" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe.partial_fit(data[CODES == 2], CODES[CODES == 2])


@pytest.mark.filterwarnings("error::ffnb_sklearn.exceptions.FrozenTransformerWarning")
@pytest.mark.parametrize("name", DO_NOT)
def test_others_draw_none(name):
    pipe, data = pipeline(DO_NOT[name]), samples_for(DO_NOT[name])
    for task in ([0, 1], [2]):
        now = np.isin(CODES, task)
        pipe.partial_fit(data[now], CODES[now])
    assert_array_equal(pipe.classes_, [0, 1, 2])


def test_one_warning_names_all_steps():
    pipe = make_continual_pipeline(StandardScaler(), Normalizer(), PCA(2), GaussianNB())
    with pytest.warns(FrozenTransformerWarning) as caught:
        pipe.partial_fit(X, CODES, classes=np.arange(8))
    (one,) = caught
    assert "them: 'standardscaler' (StandardScaler), 'pca' (PCA). " in str(one.message)


@pytest.mark.filterwarnings("error::ffnb_sklearn.exceptions.FrozenTransformerWarning")
def test_to_fit_all_at_once_draws_none():
    pipe = pipeline(PCA(2)).fit(X, CODES)
    assert pipe.score(X, CODES) > 0.5


@pytest.mark.filterwarnings("error::ffnb_sklearn.exceptions.FrozenTransformerWarning")
def test_as_an_error_it_leaves_the_pipeline_as_it_was():
    pipe = pipeline(PCA(2))
    with pytest.raises(FrozenTransformerWarning):
        pipe.partial_fit(X, CODES)
    with pytest.raises(NotFittedError):
        pipe.predict(X)
    assert not hasattr(pipe[0], "components_")
