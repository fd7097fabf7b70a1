"""Pretraining through the estimator: what it learns, what it repeats, what it refuses."""

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from torch import nn

from ffnb_sklearn.backbones import (
    ConvNet,
    FlipCrop,
    ImageTransform,
    Jitter,
    TorchFeatureExtractor,
    _pretraining,
)
from ffnb_sklearn.pipeline import make_continual_pipeline
from tests.backbones.small_networks import X, Y, assert_same_state, network, small
from tests.recording_callback import PlainRecorder, Recorder, needs_callbacks

# ---- what is learned


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"optimizer": "sgd", "learning_rate": 0.05, "weight_decay": 5e-4},
        {"dtype": "float64", "augment": Jitter(noise=0.1)},
        {"mixed_precision": True},
    ],
    ids=str,
)
def test_features_tell_classes_apart(parameters):
    # One feature: without training, it tells no four classes apart.
    extractor = small(epochs=12, backbone_params={"width": 1}, **parameters)
    untrained = extractor.fit_transform(X, Y)
    trained_score = GaussianNB().fit(untrained, Y).score(untrained, Y)
    features = clone(extractor).set_params(epochs=0).fit_transform(X)
    assert trained_score > GaussianNB().fit(features, Y).score(features, Y) + 0.2
    assert extractor.loss_curve_[-1] < 0.7 * extractor.loss_curve_[0]
    assert extractor.transform(X).dtype == extractor.dtype


def test_steps_of_sgd_are_those_of_the_formula():
    decay, peak = 0.1, 0.05
    extractor = TorchFeatureExtractor(
        nn.Linear,
        backbone_params={"in_features": 64, "out_features": 3, "bias": False},
        weights={"weight": np.random.default_rng(0).normal(size=(3, 64)) / 64},
        dtype="float64",
        epochs=3,
        train_batch_size=len(X),
        optimizer="sgd",
        learning_rate=peak,
        weight_decay=decay,
        random_state=0,
    )
    heads, classifier = [], _pretraining._Classifier

    def spy(*arguments):
        model = classifier(*arguments)
        heads.append([one.detach().numpy().copy() for one in model.head.parameters()])
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pretraining, "_Classifier", spy)
        extractor.fit(X, Y)
    values = [extractor.weights["weight"], *heads[0]]
    velocity = [np.zeros_like(one) for one in values]
    # Each epoch has a step: the first rises, two follow half a cosine from 0.9 of 3 steps on.
    angles = [np.pi * (step - 0.9) / 2.1 for step in (1, 2)]
    for rate in peak * np.array([0.04, *(0.5 + 0.5 * np.cos(angles))]):
        first, head, bias = values
        scores = X @ first.T @ head.T + bias
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        error = (shares / shares.sum(axis=1, keepdims=True) - np.eye(4)[Y]) / len(X)
        slopes = [(error @ head).T @ X, error.T @ (X @ first.T), error.sum(axis=0)]
        pairs = zip(velocity, slopes, values, strict=True)
        velocity = [0.9 * v + slope + decay * value for v, slope, value in pairs]
        values = [value - rate * v for value, v in zip(values, velocity, strict=True)]
    assert_allclose(extractor.state_dict_["weight"], values[0], rtol=1e-10)


@pytest.mark.parametrize(
    "change",
    [
        {"weight_decay": 0.5},
        {"mixed_precision": True},
        {"train_batch_size": 20},
        {"augment": Jitter()},
        {"optimizer": "sgd"},
    ],
    ids=str,
)
def test_every_parameter_counts(change):
    first = small(epochs=1).fit(X, Y).state_dict_["0.weight"]
    other = small(epochs=1, **change).fit(X, Y).state_dict_["0.weight"]
    assert np.abs(first - other).max() > 1e-6


def test_images_with_flip_crop():
    extractor = TorchFeatureExtractor(
        ConvNet,
        backbone_params={"in_channels": 1, "stem_width": 4, "widths": (4, 8), "blocks": (1, 1)},
        input_shape=(1, 8, 8),
        mean=8.0,
        std=8.0,
        epochs=8,
        train_batch_size=16,
        learning_rate=0.02,
        augment="flip-crop",
        random_state=0,
    ).fit(X.astype(np.uint8), Y)
    assert extractor.loss_curve_[-1] < 0.9 * extractor.loss_curve_[0]
    assert extractor.n_features_out_ == 8


def test_fitted_attributes(capsys):
    extractor = small(epochs=4).fit(X, np.array(list("abcd"))[Y])
    assert [type(one) for one in extractor.loss_curve_] == [float] * 4
    assert extractor.classes_.tolist() == list("abcd")
    assert set(extractor.state_dict_) == set(network().state_dict())
    assert all(type(value) is np.ndarray for value in extractor.state_dict_.values())
    assert capsys.readouterr().out == ""
    # Nothing of it is left behind by a fit that trains nothing.
    extractor.set_params(epochs=0).fit(X)
    assert not {"loss_curve_", "classes_"} & set(vars(extractor))


def test_weights_are_the_start():
    weights = {key: value.numpy() for key, value in network().state_dict().items()}
    slow = small(epochs=1, learning_rate=1e-12, weights=weights).fit(X, Y)
    assert np.abs(slow.state_dict_["0.weight"] - weights["0.weight"]).max() < 1e-6
    assert (
        np.abs(small(epochs=1).fit(X, Y).state_dict_["0.weight"] - weights["0.weight"]).max() > 0.1
    )


def test_parameters_without_gradient_stay():
    def half_frozen():
        made = network()
        made[0].requires_grad_(False)
        return made

    extractor = small(learning_rate=1e-2).set_params(backbone=half_frozen)
    start = clone(extractor).set_params(learning_rate=1e-12).fit(X, Y).state_dict_
    state = extractor.fit(X, Y).state_dict_
    assert_array_equal(state["0.weight"], start["0.weight"])
    assert np.abs(state["4.weight"] - start["4.weight"]).max() > 1e-3


def test_frozen_parts_keep_parameters_and_statistics():
    weights = network().state_dict()
    extractor = small(weights=weights, frozen=["0", "1"]).fit(X, Y)
    same = [np.array_equal(extractor.state_dict_[key], one) for key, one in weights.items()]
    assert [key for key, one in zip(weights, same, strict=True) if not one] == [
        "4.weight",
        "4.bias",
    ]
    for wrong in ("", "7", "0.weight"):
        with pytest.raises(ValueError, match=f"frozen must name a submodule .* got '{wrong}'"):
            small(frozen=[wrong]).fit(X, Y)


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_transforms_see_images_before_they_are_scaled(dtype):
    seen = []

    def transform(images):
        seen.append((images.dtype, images.shape, images.max().item()))
        return images

    images = np.full((20, 1, 6, 6), 200, dtype=dtype)
    labels = np.arange(20) % 2
    extractor = TorchFeatureExtractor(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 2)),
        mean=100.0,
        std=50.0,
        epochs=1,
        augment=ImageTransform(transform),
        random_state=0,
    ).fit(images, labels)
    expected = torch.uint8 if dtype == np.uint8 else torch.float32
    assert seen == [(expected, (1, 1, 6, 6), 200)] * 20
    plain = clone(extractor).set_params(augment=None).fit(images, labels)
    assert_same_state(plain, extractor)


def test_a_network_that_is_passed_is_copied():
    passed = network()
    before = {key: value.clone() for key, value in passed.state_dict().items()}
    small().set_params(backbone=passed).fit(X, Y)
    assert all(torch.equal(before[key], value) for key, value in passed.state_dict().items())


class Caching(nn.Module):
    """Makes a constant at its first call and keeps it."""

    def __init__(self):
        super().__init__()
        self.linear, self.constant = nn.Linear(64, 3), None

    def forward(self, inputs):
        if self.constant is None:
            self.constant = torch.full_like(inputs[:1], 0.1)
        return self.linear(inputs) * self.linear(self.constant)


def test_a_network_may_keep_constants():
    assert small(epochs=1).set_params(backbone=Caching).fit(X, Y).n_features_out_ == 3


def test_a_last_batch_of_one_sample_does_no_harm():
    assert len(X) % 17 == 1
    assert small(train_batch_size=17).fit(X, Y).n_features_out_ == 8
    assert small(train_batch_size=1000).fit(X, Y).n_features_out_ == 8


def test_frozen_afterwards_and_kept_by_copies():
    extractor = small(dtype="float64").fit(X, Y)
    features = extractor.transform(X)
    module = extractor._built[-1]
    assert not module.training
    assert not any(one.requires_grad for one in module.parameters())
    copy = pickle.loads(pickle.dumps(extractor))
    assert_array_equal(copy.transform(X), features)
    assert copy.loss_curve_ == extractor.loss_curve_
    assert joblib.hash(copy) == joblib.hash(extractor)


def test_one_line_per_epoch(capsys):
    small(verbose=True).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"epoch {n} of 3" for n in (1, 2, 3)]
    assert all("train loss" in line for line in lines)


@needs_callbacks
def test_callbacks_follow_the_epochs_and_may_end_them():
    recorder = Recorder()
    pipe = make_pipeline(small()).set_callbacks(recorder)
    assert len(pipe.fit(X, Y)[-1].loss_curve_) == 3
    epochs = [f"fit 0/fit 0/epoch {number}" for number in range(3)]
    assert recorder.begun == ["fit 0", "fit 0/fit 0", *epochs]
    extractor = small().set_callbacks(PlainRecorder(stops_at="epoch")).fit(X, Y)
    assert len(extractor.loss_curve_) == 1
    attributes = vars(extractor).copy()
    extractor.set_callbacks(PlainRecorder(fails_at=("end", "fit")))
    with pytest.raises(RuntimeError, match="told to fail"):
        extractor.fit(X, Y)
    assert all(vars(extractor)[name] is attributes[name] for name in ("loss_curve_", "state_dict_"))


# ---- repeating it


@pytest.mark.parametrize("augment", [None, FlipCrop(padding=1)])
def test_the_seed_decides_everything_and_global_generators_nothing(augment):
    extractor = TorchFeatureExtractor(
        lambda: nn.Sequential(nn.Flatten(), *network()),
        input_shape=(1, 8, 8),
        epochs=2,
        augment=augment,
        random_state=3,
    )
    first = clone(extractor).fit(X, Y)
    torch_state = torch.get_rng_state()
    numpy_state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.rand(5)
        second = clone(extractor).fit(X, Y)
    clone(extractor).fit(X, Y)
    assert torch.equal(torch.get_rng_state(), torch_state)
    after = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    assert after["pos"] == numpy_state["pos"]
    assert_array_equal(after["key"], numpy_state["key"])
    assert_same_state(first, second)
    assert first.loss_curve_ == second.loss_curve_
    other = clone(extractor).set_params(random_state=4).fit(X, Y)
    assert first.loss_curve_ != other.loss_curve_


def test_trainings_in_several_threads_equal_those_alone():
    alone = [small(epochs=2, random_state=seed).fit(X, Y) for seed in range(4)]
    state = torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda one: clone(one).fit(X, Y), alone))
    assert torch.equal(torch.get_rng_state(), state)
    for one, other in zip(alone, together, strict=True):
        assert_same_state(one, other)


def test_without_pretraining_the_seed_means_nothing():
    assert_same_state(small(epochs=0).fit(X), small(epochs=0, random_state=9).fit(X, Y))


# ---- errors


@pytest.mark.parametrize(
    ("change", "data", "message"),
    [
        ({}, (X, None), "requires y to be passed, but the target y is None"),
        ({}, (X, np.zeros(len(X))), r"at least two classes .*; got one class, \[0\]"),
        ({"train_batch_size": 1}, (X, Y), "train_batch_size must be at least 2 .* got 1"),
        ({"backbone": nn.Flatten}, (X, Y), "epochs=3 needs a backbone with parameters"),
        ({"augment": lambda batch, _: batch[:1]}, (X, Y), "augment must return a tensor of"),
        ({"augment": "flip-crop"}, (X, Y), "FlipCrop needs images"),
        ({}, (X[:3], [0, 1]), "inconsistent numbers of samples"),
        ({}, (X, X[:, 20] + 0.5), "Unknown label type: continuous"),
        ({"optimizer": "adam"}, (X, Y), "'optimizer' parameter .* must be a str among"),
        ({"learning_rate": 0.0}, (X, Y), "'learning_rate' parameter .* must be a float in"),
        ({"augment": "mixup"}, (X, Y), "'augment' parameter"),
        ({"std": None, "learning_rate": 1e30}, (X, Y), r"in epoch 1 of 3. A smaller learning_rate"),
    ],
)
def test_a_pretraining_that_fails_changes_nothing(change, data, message):
    fresh = small(**{"backbone_params": None}).set_params(**change)
    with pytest.raises(ValueError, match=message):
        fresh.fit(*data)
    assert not [name for name in vars(fresh) if name.endswith("_")]

    fitted = small().fit(X, Y)
    before, losses = fitted.transform(X), fitted.loss_curve_
    parameters = fitted.get_params()
    with pytest.raises(ValueError, match=message):
        fitted.set_params(**change).fit(*data)
    assert_array_equal(fitted.set_params(**parameters).transform(X), before)
    assert fitted.loss_curve_ == losses


def test_targets_are_required_where_there_is_pretraining():
    assert get_tags(small()).target_tags.required
    assert not get_tags(small(epochs=0)).target_tags.required


# ---- the two protocols


def test_in_a_pipeline_the_first_task_is_all_that_pretraining_sees():
    base = Y < 2
    pipe = make_continual_pipeline(small(), GaussianNB())
    pipe.partial_fit(X[base], Y[base], classes=[0, 1, 2, 3])
    extractor = pipe[0]
    assert_same_state(extractor, small().fit(X[base], Y[base]))
    state = {key: value.copy() for key, value in extractor.state_dict_.items()}
    pipe.partial_fit(X[~base], Y[~base])
    assert extractor.classes_.tolist() == [0, 1]
    for key, value in extractor.state_dict_.items():
        assert_array_equal(value, state[key])
    assert pipe.score(X, Y) > 0.6


def test_no_warning_of_torch_escapes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X.setflags(write=False)
        try:
            small(epochs=1).fit(X, Y)
        finally:
            X.setflags(write=True)


@pytest.mark.cuda
@pytest.mark.parametrize("mixed_precision", ["auto", False])
def test_on_cuda_and_back(mixed_precision):
    state = torch.cuda.get_rng_state()
    extractor = small(epochs=8, device="cuda", mixed_precision=mixed_precision).fit(X, Y)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert extractor.loss_curve_[-1] < 0.7 * extractor.loss_curve_[0]
    features = extractor.transform(X)
    assert_allclose(extractor.set_params(device="cpu").transform(X), features, atol=1e-3)
