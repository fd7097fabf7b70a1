"""Features of several layers, of views and of images, through the extractor."""

import pickle
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from torch import nn
from torch.utils.data import Dataset

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.backbones import (
    ConvNet,
    MirrorShift,
    TorchFeatureExtractor,
    _feature_extractor,
)
from ffnb_sklearn.exceptions import RandomFeaturesWarning
from ffnb_sklearn.pipeline import make_continual_pipeline

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, size=(40, 8, 8, 3), dtype=np.uint8)
ROWS = IMAGES.transpose(0, 3, 1, 2).reshape(40, -1)
Y = np.arange(40) % 4
SMALL = {"stem_width": 4, "widths": (4, 6), "blocks": (1, 1)}
STATE = {
    name: RNG.normal(size=tuple(v.shape)) ** 2 / 10
    for name, v in ConvNet(**SMALL).state_dict().items()
}
LAYERS = ["2", "3", "4"]


def small(**parameters):
    values = {"backbone_params": SMALL, "weights": STATE, "mean": 127.5, "std": 64.0}
    return TorchFeatureExtractor(ConvNet, **{**values, **parameters})


def layered(**parameters):
    return small(**{"layers": LAYERS, "dtype": "float64", **parameters})


def maps_of(images, layers=LAYERS):
    """Outputs of layers, computed without hooks."""
    network = ConvNet(**SMALL).double().eval()
    network.load_state_dict({name: torch.tensor(value) for name, value in STATE.items()})
    values = (torch.tensor(images.transpose(0, 3, 1, 2).astype(float)) - 127.5) / 64.0
    found = []
    with torch.no_grad():
        for name, layer in network.named_children():
            values = layer(values)
            if name in layers:
                found.append(values.numpy())
    return found


# ---- the features


def test_layers_stand_side_by_side_each_of_unit_mean_square_length():
    extractor = layered()
    features = extractor.fit_transform(IMAGES)
    parts = [part.mean(axis=(2, 3)) for part in maps_of(IMAGES)]
    scales = [1 / np.sqrt(np.square(part).sum(axis=1).mean()) for part in parts]
    expected = np.hstack([part * scale for part, scale in zip(parts, scales, strict=True)])
    assert_allclose(features, expected, rtol=1e-10)
    assert extractor.layer_widths_ == {"2": 4, "3": 4, "4": 6}
    assert_allclose(list(extractor.layer_scales_.values()), scales, rtol=1e-10)
    assert extractor.n_features_out_ == 14
    names = extractor.get_feature_names_out()
    assert [*names[:5], names[-1]] == ["2_0", "2_1", "2_2", "2_3", "3_0", "4_5"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch_size", [7, 256])
def test_both_ways_to_the_features_are_one(dtype, batch_size):
    options = {"dtype": dtype, "batch_size": batch_size, "views": "mirror"}
    both = layered(**options)
    features = both.fit_transform(IMAGES)
    assert features.dtype == dtype
    one = layered(**options).fit(IMAGES)
    assert_array_equal(one.transform(IMAGES), features)
    assert one.layer_scales_ == both.layer_scales_


def test_scales_are_those_of_fit():
    extractor = layered().fit(IMAGES[:20])
    scales = dict(extractor.layer_scales_)
    features = extractor.transform(IMAGES[20:])
    assert extractor.layer_scales_ == scales
    assert_allclose(layered().fit(IMAGES).transform(IMAGES[20:]) / features, 1, rtol=0.3)
    assert layered().fit(IMAGES).layer_scales_ != scales
    pipe = make_continual_pipeline(layered(), GaussianNB())
    pipe.partial_fit(IMAGES[:20], Y[:20], classes=range(4)).partial_fit(IMAGES[20:], Y[20:])
    assert pipe[0].layer_scales_ == scales


def test_a_layer_of_zeros_stays_zero():
    state = {**STATE, "1.weight": 0 * STATE["1.weight"], "1.bias": 0 * STATE["1.bias"]}
    extractor = layered(weights=state, layers=["2", "4"])
    features = extractor.fit_transform(IMAGES)
    assert extractor.layer_scales_["2"] == 1.0
    assert not features[:, :4].any()
    assert features[:, 4:].any()


def test_pooling_by_the_maximum():
    features = layered(pooling="max").fit_transform(IMAGES)
    parts = [part.max(axis=(2, 3)) for part in maps_of(IMAGES)]
    expected = [part / np.sqrt(np.square(part).sum(axis=1).mean()) for part in parts]
    assert_allclose(features, np.hstack(expected), rtol=1e-10)


def test_the_default_is_the_output_of_the_network_and_ignores_pooling():
    for options in ({}, {"pooling": "max"}):
        extractor = small(dtype="float64", **options)
        (maps,) = maps_of(IMAGES, ["6"])
        assert_allclose(extractor.fit_transform(IMAGES), maps, rtol=1e-10)
        assert not hasattr(extractor, "layer_scales_")
    assert extractor.get_feature_names_out()[0] == "torchfeatureextractor0"


def test_views_are_averaged():
    mirrored = IMAGES[:, :, ::-1]
    for options in ({}, {"layers": ["3"]}):
        plain = small(dtype="float64", **options).fit(IMAGES)
        both = (plain.transform(IMAGES) + plain.transform(mirrored)) / 2
        scale = plain.layer_scales_["3"] if options else 1.0
        extractor = small(dtype="float64", views="mirror", **options).fit(IMAGES)
        factor = extractor.layer_scales_["3"] if options else 1.0
        assert_allclose(extractor.transform(IMAGES) / factor, both / scale, rtol=1e-10)
    shifted = small(views=MirrorShift(shift=1, mirror=False)).fit(IMAGES)
    assert shifted.transform(IMAGES).shape == (40, 6)


def test_a_second_fit_forgets_the_layers():
    extractor = layered().fit(IMAGES)
    extractor.set_params(layers=None).fit(IMAGES)
    assert not hasattr(extractor, "layer_widths_")
    assert extractor.n_features_out_ == 6


def test_layers_of_a_network_that_is_pretrained_first():
    extractor = layered(weights=None, epochs=1, random_state=0, views="mirror", train_batch_size=16)
    features = extractor.fit_transform(IMAGES, Y)
    assert features.shape == (40, 14)
    assert extractor.classes_.tolist() == [0, 1, 2, 3]
    rows = clone(extractor).set_params(input_shape=(3, 8, 8)).fit(ROWS, Y)
    assert rows.layer_scales_ == extractor.layer_scales_
    assert rows.loss_curve_ == extractor.loss_curve_


def test_an_unknown_layer_is_found_before_the_training():
    def unreachable(batch, generator):
        raise AssertionError

    extractor = layered(weights=None, layers=["head"], epochs=1, augment=unreachable)
    with pytest.raises(ValueError, match=r"got \['head'\]. Valid names are \['0', '1', '2'"):
        extractor.fit(IMAGES, Y)


# ---- state


def test_copies_and_pickles():
    extractor = layered(views=MirrorShift(shift=1)).fit(IMAGES)
    features = extractor.transform(IMAGES)
    copy = pickle.loads(pickle.dumps(extractor))
    assert "_built" not in extractor.__getstate__()
    assert_array_equal(copy.transform(IMAGES), features)
    assert copy.layer_scales_ == extractor.layer_scales_
    assert_array_equal(clone(extractor).fit_transform(IMAGES), features)


@pytest.mark.parametrize(
    ("change", "images"),
    [
        ({"layers": ["2", "nowhere"]}, IMAGES),
        ({"views": lambda batch: [batch]}, IMAGES),
        ({"pooling": 2}, IMAGES),
        ({"layers": "2"}, IMAGES),
        ({}, [IMAGES[0], IMAGES[1, :5]]),
        ({}, []),
        ({"input_shape": (3, 9, 9)}, IMAGES),
    ],
)
def test_a_fit_that_fails_loses_nothing(change, images):
    extractor = layered().fit(IMAGES)
    before, state = extractor.transform(IMAGES), extractor.__getstate__()
    parameters = {name: getattr(extractor, name) for name in extractor.get_params()}
    with pytest.raises(ValueError):
        extractor.set_params(**change).fit(images)
    extractor.set_params(**parameters)
    assert {name: id(value) for name, value in extractor.__getstate__().items()} == {
        name: id(value) for name, value in state.items()
    }
    assert_array_equal(extractor.transform(IMAGES), before)
    fresh = layered(**change)
    with pytest.raises(ValueError):
        fresh.fit(images)
    assert not hasattr(fresh, "n_features_in_")


def test_threads_do_not_see_each_others_layers():
    barrier = threading.Barrier(4)
    extractor = layered(batch_size=2).fit(IMAGES)
    expected = extractor.transform(IMAGES)

    def work(k):
        barrier.wait()
        return [extractor.transform(IMAGES[k:]) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        for k, found in enumerate(pool.map(work, range(4))):
            for features in found:
                assert_allclose(features, expected[k:], rtol=1e-10)
    module = extractor._built[-1]
    assert not any(one._forward_hooks for one in module.modules())


def test_a_fit_during_transform_leaves_no_old_network_behind(monkeypatch):
    extractor = layered().fit(IMAGES)
    other = {name: 2 * value for name, value in STATE.items()}
    expected = layered(weights=other).fit_transform(IMAGES)
    assert np.abs(expected - extractor.transform(IMAGES)).max() > 0.01
    del extractor._built
    build = _feature_extractor.build_network

    def build_and_fit(*args):
        monkeypatch.undo()
        module = build(*args)
        extractor.set_params(weights=other).fit(IMAGES)
        return module

    # The network of the first weights is there only after the other thread's fit.
    monkeypatch.setattr(_feature_extractor, "build_network", build_and_fit)
    extractor.transform(IMAGES)
    assert_array_equal(extractor.transform(IMAGES), expected)


# ---- images


class Corner(nn.Module):
    """The corner of each image, behind a layer that does nothing."""

    def __init__(self):
        super().__init__()
        self.add_module("0", nn.Identity())

    def forward(self, images):
        return self.get_submodule("0")(images[:, :, 0, 0])


def test_the_form_of_the_images_may_change_after_fit():
    extractor = layered().fit(IMAGES)
    assert (extractor.input_shape_, extractor.image_values_) == ((3, 8, 8), "uint8")
    expected = extractor.transform(IMAGES)
    for form in (torch.from_numpy(IMAGES), list(IMAGES), ROWS, torch.from_numpy(ROWS)):
        assert_array_equal(extractor.transform(form), expected)


def test_images_are_streamed():
    class Counted(Dataset):
        def __len__(self):
            return len(IMAGES)

        def __getitem__(self, index):
            return IMAGES[index], "label"

    largest = []

    class Spy(nn.Module):
        def forward(self, batch):
            largest.append(len(batch))
            return batch

    extractor = TorchFeatureExtractor(Spy, batch_size=6, layers=None)
    features = extractor.fit(Counted()).transform(Counted())
    assert_array_equal(features, ROWS)
    assert max(largest) == 6


@pytest.mark.parametrize("layers", [None, ["0"]])
def test_memory_does_not_grow_with_the_number_of_images(layers):
    class Drawn(Dataset):
        def __init__(self, n_images):
            self.n_images = n_images

        def __len__(self):
            return self.n_images

        def __getitem__(self, index):
            return np.full((64, 64, 3), index % 251, dtype=np.uint8)

    extractor = TorchFeatureExtractor(Corner, batch_size=20, layers=layers).fit(Drawn(20))

    def peak(n_images):
        tracemalloc.start()
        extractor.transform(Drawn(n_images))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    few, many = peak(40), peak(800)
    # All images are 10 MB as bytes, and 39 MB in float32; a batch is 0.25 MB.
    assert many < few + 100_000


def test_fitted_by_rows_and_by_images():
    extractor = small(input_shape=(3, 8, 8)).fit(ROWS)
    assert extractor.image_values_ is None
    assert_array_equal(extractor.transform(IMAGES), extractor.transform(ROWS))
    rows_only = TorchFeatureExtractor(nn.Flatten).fit(ROWS)
    with pytest.raises(
        ValueError, match=r"X must hold rows of 192 values.*got images of shape \(3"
    ):
        rows_only.transform(IMAGES)


def test_images_of_another_kind_or_size_are_refused():
    extractor = layered().fit(IMAGES)
    with pytest.raises(
        ValueError, match=r"X must hold images of uint8 values, as in fit.*got numb"
    ):
        extractor.transform(IMAGES / 255)
    with pytest.raises(ValueError, match=r"input_shape=\(3, 8, 8\).*got shape \(8, 7, 3\)"):
        extractor.transform(IMAGES[:, :, 1:])


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
def test_before_a_classifier_in_a_search():
    pipe = make_continual_pipeline(layered(), IncrementalDiscriminantAnalysis(random_state=0))
    pipe.partial_fit(list(IMAGES[:20]), Y[:20]).partial_fit(IMAGES[20:], Y[20:])
    assert pipe.predict(list(IMAGES)).shape == (40,)
    grid = {"torchfeatureextractor__layers": [None, ["2", "4"]]}
    search = GridSearchCV(make_pipeline(layered(), GaussianNB()), grid, cv=2, error_score="raise")
    assert search.fit(IMAGES, Y).best_score_ > 0


def test_pandas_columns_bear_the_names_of_layers():
    pytest.importorskip("pandas")
    frame = layered().set_output(transform="pandas").fit_transform(IMAGES)
    assert list(frame.columns[:2]) == ["2_0", "2_1"]


# ---- print, and warnings


def test_random_features_are_announced():
    with pytest.warns(RandomFeaturesWarning, match=r"random: the weights of backbone=<class .*C"):
        small(weights=None).fit(IMAGES)


def loaded():
    network = ConvNet(**SMALL)
    network.load_state_dict({name: torch.tensor(value) for name, value in STATE.items()})
    return network


@pytest.mark.parametrize("network", [ConvNet(**SMALL), nn.Linear(192, 4)])
def test_a_network_with_initial_weights_is_announced(network):
    with pytest.warns(RandomFeaturesWarning, match=r"random: the weights of .* torch initialises"):
        TorchFeatureExtractor(network, input_shape=None).fit(
            IMAGES if isinstance(network, ConvNet) else ROWS
        )


def trained_but_for_its_head():
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 2), nn.Linear(2, 2))
    nn.init.constant_(network[1].weight, 0.1)
    nn.init.zeros_(network[1].bias)
    return network


@pytest.mark.parametrize(
    "extractor",
    [
        small(),
        small(backbone_params=None).set_params(backbone=ConvNet(**SMALL)),
        small(backbone_params=None, weights=None).set_params(backbone=loaded()),
        small(weights=None, epochs=1, random_state=0),
        TorchFeatureExtractor(trained_but_for_its_head, head="2"),
    ],
    ids=["weights", "network and weights", "network", "pretrained", "loaded by the factory"],
)
def test_features_that_are_not_random(extractor, recwarn):
    extractor.fit(IMAGES, Y)
    assert not [one for one in recwarn if issubclass(one.category, RandomFeaturesWarning)]


class Overwriting(nn.Module):
    """A network that writes to its input."""

    def forward(self, x):
        return x.sub_(100.0).flatten(1)


class Leaving(nn.Module):
    """The same values, but the input stays as it is."""

    def forward(self, x):
        return (x - 100.0).flatten(1)


@pytest.mark.parametrize("views", ["mirror", MirrorShift(shift=1)])
def test_views_of_a_network_that_writes_to_its_input(views):
    written, left = (
        TorchFeatureExtractor(kind, views=views).fit_transform(IMAGES)
        for kind in (Overwriting, Leaving)
    )
    assert_array_equal(written, left)


class Projected(nn.Module):
    """A fixed random projection that is no part of the state dict, before trained weights."""

    def __init__(self):
        super().__init__()
        self.register_buffer("fixed", torch.randn(192, 5), persistent=False)
        self.trained = nn.Linear(5, 4)

    def forward(self, x):
        return self.trained(x.flatten(1) @ self.fixed)


def test_what_a_factory_draws_beside_the_weights_is_the_same_after_pickling():
    extractor = TorchFeatureExtractor(Projected, mean=127.5, std=64.0, epochs=1, random_state=1)
    features = extractor.fit(IMAGES, Y).transform(IMAGES)
    assert_array_equal(pickle.loads(pickle.dumps(extractor)).transform(IMAGES), features)


class Spectrum(nn.Module):
    """A network of complex outputs."""

    def forward(self, x):
        return torch.fft.fft(x.flatten(1))


def test_complex_outputs_are_refused():
    with pytest.raises(TypeError, match=r"real numbers, .* got torch\.complex64"):
        TorchFeatureExtractor(Spectrum).fit(IMAGES)


def test_rows_of_half_precision():
    rows = torch.as_tensor(ROWS[:4], dtype=torch.bfloat16)
    assert_array_equal(TorchFeatureExtractor(nn.Identity).fit_transform(rows), rows.float())


class Undefined(nn.Module):
    """A network with a buffer that is not a number."""

    def __init__(self):
        super().__init__()
        self.register_buffer("gap", torch.full((2,), torch.nan))

    def forward(self, x):
        return x.flatten(1)


def test_a_buffer_that_is_not_a_number_is_not_random(recwarn):
    TorchFeatureExtractor(Undefined).fit(IMAGES)
    assert not recwarn.list
