"""Public cases about faults that were found in November 2026 and are repaired."""

import pickle
import sys
from contextlib import suppress
from types import ModuleType

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from torch import nn

from ffnb_sklearn import TorchFeatureExtractor, load, save
from ffnb_sklearn.backbones import from_timm
from tests.public_cases.flowers import X, Y, heads, small

# ---- sparse rows


def rows_with_an_index(index, convert=sparse.csr_array):
    """Return sparse rows whose first entry has a wrong index, as SciPy allows."""
    rows = sparse.csr_array(X)
    rows.indices[0] = index
    return convert((rows.data, rows.indices, rows.indptr), shape=rows.shape)


@pytest.mark.parametrize("index", [4, 10**7, -1])
def test_indices_outside_of_the_columns_are_refused(index):
    """SciPy #8778, SciPy #9965, SciPy #21170."""
    model = small().fit(X, Y)
    before = model.predict_proba(X)
    for convert in (sparse.csr_array, sparse.csr_matrix):
        wrong = rows_with_an_index(index, convert)
        calls = (
            lambda wrong=wrong: clone(model).fit(wrong, Y),
            lambda wrong=wrong: model.partial_fit(wrong, Y),
            lambda wrong=wrong: model.predict(wrong),
            lambda wrong=wrong: model.transform(wrong),
        )
        for call in calls:
            with pytest.raises(ValueError, match=r"ind(ex|ices)"):
                call()
    assert_array_equal(model.predict_proba(X), before)


# ---- integer labels of 64 bits

IDS = np.array([1234567890123456789, 1234567890123456790, 7])


def test_signed_and_unsigned_labels_stay_apart():
    """pandas #34356."""
    expected = small().partial_fit(X, IDS[Y]).partial_fit(X + 1, IDS[Y])
    for later in (IDS.astype(np.uint64)[Y], IDS.astype(object)[Y]):
        model = small().partial_fit(X, IDS[Y]).partial_fit(X + 1, later)
        assert_array_equal(model.classes_, np.sort(IDS), strict=True)
        assert_array_equal(model.predict(X), expected.predict(X))
    # A column with gaps elsewhere holds the small label as 7.0.
    model = small().partial_fit(X, IDS[Y]).partial_fit(X[Y == 2], np.full(50, 7.0))
    assert_array_equal(model.classes_, np.sort(IDS), strict=True)


@pytest.mark.parametrize("labels", [[2**63 - 1, 2**63 - 2, 5], [-1, np.uint64(2**62 + 1), 2**62]])
def test_large_labels_of_a_list_are_exact(labels):
    """NumPy #18557."""
    own = [labels[k] for k in Y]
    model = small().fit(X, own)
    assert model.classes_.tolist() == sorted(map(int, labels))
    assert (model.predict(X) == np.array(list(map(int, own)))).mean() > 0.85


@pytest.mark.parametrize("labels", [[2**63 - 1, 2**63, 2**63 + 1], [2**63, 2**63 + 1, -1]])
def test_labels_that_no_signed_integer_holds_are_refused(labels):
    """NumPy #16287."""
    model = small()
    with pytest.raises(ValueError, match="y must hold integers of int64"):
        model.fit(X, [labels[k] for k in Y])
    assert not hasattr(model, "classes_")


# ---- numbers


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@heads
def test_the_order_of_raw_rows_does_not_matter(head):
    """lme4 #630."""
    rows, kinds = load_wine(return_X_y=True)
    model = small(head, scale=False)
    expected = model.fit(rows, kinds).predict_proba(rows)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(rows))
        shuffled = clone(model).fit(rows[order], kinds[order])
        assert_allclose(shuffled.predict_proba(rows), expected, atol=1e-6)


@heads
def test_a_class_of_almost_no_weight_breaks_no_prediction(head):
    """GATK #6425."""
    model = small(head).partial_fit(X[Y < 2], Y[Y < 2])
    # Refusing such weights is right too.
    with suppress(ValueError):
        model.partial_fit(X[Y == 2], Y[Y == 2], sample_weight=np.full(50, 1e-311))
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.score(X[Y == 0], Y[Y == 0]) > 0.9


def test_rows_that_occur_five_times_raise_no_false_alarms():
    """scikit-learn #27839."""
    digits, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    learned, new = order[:600], np.sort(order[600:])
    model = small(novelty=True)
    model.fit(np.repeat(digits[learned], 5, axis=0), np.repeat(labels[learned], 5))
    alarms = model.score_samples(digits[new]) < model.novelty_threshold(0.05)
    assert alarms.mean() < 0.1


# ---- shapes


def test_a_row_without_its_second_dimension_is_told_how_to_be_reshaped():
    """rdkit_ipynb_tools #1."""
    model = small().fit(X, Y)
    for call in (lambda: model.partial_fit(X[0], [0]), lambda: model.predict(X[0])):
        with pytest.raises(ValueError, match="Reshape your data"):
            call()


# ---- networks


class Tied(nn.Module):
    """Network whose two layers have the same weights."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(4, 4, bias=False)
        self.leave = nn.Linear(4, 4, bias=False)
        self.leave.weight = self.enter.weight

    def forward(self, rows):
        return self.leave(torch.tanh(self.enter(rows)))


def test_tied_weights_that_a_file_stores_once(tmp_path):
    """Transformers #38870, accelerate #2875."""
    safetensors = pytest.importorskip("safetensors.torch")
    network = Tied()
    with torch.no_grad():
        network.enter.weight.copy_(torch.arange(16.0).reshape(4, 4) / 16)
        expected = network(torch.tensor(X, dtype=torch.float32)).numpy()
    safetensors.save_model(network, str(tmp_path / "tied.safetensors"))
    extractor = TorchFeatureExtractor(Tied, weights=tmp_path / "tied.safetensors")
    assert_allclose(extractor.fit_transform(X), expected, rtol=1e-5)


def linear(bias=True):
    return nn.Linear(4, 3, bias=bias)


def test_parameters_of_a_network_wait_for_the_next_fit_in_copies_and_files_too(tmp_path):
    """cuML #4089."""
    extractor = TorchFeatureExtractor(linear, random_state=0).fit(X)
    before = extractor.transform(X)
    extractor.set_params(backbone_params={"bias": False})
    assert_array_equal(extractor.transform(X), before)
    assert_array_equal(pickle.loads(pickle.dumps(extractor)).transform(X), before)
    save(extractor, tmp_path / "model")
    loaded = load(tmp_path / "model", factories={f"{__name__}:linear": linear})
    assert_array_equal(loaded.transform(X), before)
    # The next fit follows the parameter.
    expected = TorchFeatureExtractor(linear, backbone_params={"bias": False}, random_state=0)
    assert_array_equal(extractor.fit(X).transform(X), expected.fit(X).transform(X))


class Squashed(nn.Module):
    """Network of timm whose features are the means of each channel."""

    pretrained_cfg = {  # noqa: RUF012
        "input_size": (3, 8, 8),
        "mean": (0.0, 0.0, 0.0),
        "std": (1.0, 1.0, 1.0),
        "crop_pct": 1.0,
        "crop_mode": "squash",
        "interpolation": "bicubic",
        "classifier": "head",
    }
    feature_info = ()

    def __init__(self):
        super().__init__()
        self.head = nn.Identity()

    def forward(self, images):
        return self.head(images.mean(dim=(2, 3)))


def create_squashed(model_name, pretrained=False, num_classes=1000):
    return Squashed()


def test_a_network_of_timm_that_squashes_images_sees_all_of_them(monkeypatch):
    """timm #1383."""
    timm = ModuleType("timm")
    timm.create_model = create_squashed
    monkeypatch.setitem(sys.modules, "timm", timm)
    # Images twice as wide as high; a crop of the centre loses the left and the right.
    image = np.full((16, 32, 3), 100, dtype=np.uint8)
    other = image.copy()
    other[:, :4] = 255
    features = from_timm("squashed").fit([image]).transform([image, other])
    assert np.abs(features[0] - features[1]).max() > 1e-3
