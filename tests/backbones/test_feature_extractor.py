import pickle
from copy import deepcopy

import joblib
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor
from ffnb_sklearn.exceptions import NonFiniteFeaturesError, RandomFeaturesWarning
from ffnb_sklearn.pipeline import make_continual_pipeline
from tests.backbones.damaged_files import DAMAGED

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(23, 12))
LINEAR = {"weight": RNG.normal(size=(4, 12)), "bias": RNG.normal(size=4)}
IMAGES = RNG.integers(0, 256, size=(9, 3 * 4 * 4)).astype(np.uint8)


def small_cnn(n_filters=6):
    """Small network for images, with layers that behave otherwise in training."""
    layers = [nn.Conv2d(3, n_filters, 3), nn.BatchNorm2d(n_filters), nn.ReLU(), nn.Dropout(0.5)]
    return nn.Sequential(*layers)


class Returning(nn.Module):
    """Puts out whatever a function makes of the input."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, inputs):
        return self.function(inputs)


def linear(**parameters):
    values = {"backbone_params": {"in_features": 12, "out_features": 4}, "weights": LINEAR}
    return TorchFeatureExtractor(nn.Linear, **{**values, **parameters})


def cnn(**parameters):
    return TorchFeatureExtractor(small_cnn, input_shape=(3, 4, 4), **parameters)


# ---- the features


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_features_are_those_of_the_network(dtype):
    features = linear(dtype=dtype).fit_transform(ROWS)
    assert features.dtype == dtype
    rtol = 1e-12 if dtype == "float64" else 1e-4
    assert_allclose(features, ROWS @ LINEAR["weight"].T + LINEAR["bias"], rtol=rtol)


@pytest.mark.parametrize(
    "backbone", ["torch.nn:Linear", "torch.nn.Linear", "torch:nn.Linear", nn.Linear(12, 4)], ids=str
)
def test_ways_to_name_a_backbone(backbone):
    parameters = {"backbone_params": None} if isinstance(backbone, nn.Module) else {}
    extractor = linear(**parameters).set_params(backbone=backbone)
    features = extractor.fit_transform(ROWS)
    assert_array_equal(features, linear().fit_transform(ROWS))


def test_a_network_that_is_passed_is_copied_and_left_as_it_was():
    network = small_cnn().double()
    before = deepcopy(network.state_dict())
    extractor = cnn().set_params(backbone=network)
    features = extractor.fit(IMAGES).transform(IMAGES)
    assert network.training
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
    assert_array_equal(clone(extractor).fit_transform(IMAGES), features)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["path", "string", "tensors", "arrays"])
def test_weights_of_any_kind_and_dtype(tmp_path, kind, dtype):
    if kind == "arrays" and dtype == "bfloat16":
        pytest.skip("NumPy has no bfloat16")
    tensors = {key: torch.tensor(v).to(getattr(torch, dtype)) for key, v in LINEAR.items()}
    path = tmp_path / "weights.pt"
    torch.save(tensors, path)
    arrays = {key: tensor.double().numpy() for key, tensor in tensors.items()}
    weights = {"path": path, "string": str(path), "tensors": tensors, "arrays": arrays}[kind]
    extractor = linear(weights=weights, dtype="float64").fit(ROWS)
    assert_allclose(
        extractor.transform(ROWS), ROWS @ arrays["weight"].T + arrays["bias"], rtol=1e-12
    )
    path.unlink()
    assert extractor.transform(ROWS[:2]).shape == (2, 4)


@pytest.mark.parametrize("batch_size", [1, 7, 23, 1000])
def test_the_batch_size_changes_nothing(batch_size):
    expected = linear(dtype="float64").fit_transform(ROWS)
    features = linear(dtype="float64", batch_size=batch_size).fit_transform(ROWS)
    assert_allclose(features, expected, rtol=1e-12, atol=1e-12)


def test_bytes_become_floats_one_batch_at_a_time():
    seen = []

    def spy(inputs):
        seen.append((tuple(inputs.shape), inputs.dtype, inputs.is_inference()))
        return inputs

    extractor = TorchFeatureExtractor(lambda: Returning(spy), batch_size=4, input_shape=(3, 4, 4))
    extractor.fit(IMAGES)
    seen.clear()
    assert_array_equal(extractor.transform(IMAGES), IMAGES)
    assert seen == [((n, 3, 4, 4), torch.float32, True) for n in (4, 4, 1)]


@pytest.mark.parametrize("container", [np.asarray, np.asfortranarray, lambda X: X[::-1][::-1]])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int64])
def test_images_are_scaled_per_channel(container, dtype):
    mean, std = np.array([120.0, 110.0, 100.0]), [60.0, 61.0, 62.0]
    features = cnn(mean=mean, std=std).fit_transform(container(IMAGES.astype(dtype)))
    scaled = IMAGES.reshape(-1, 3, 4, 4) - mean[:, None, None]
    scaled = (scaled / np.reshape(std, (3, 1, 1))).reshape(len(IMAGES), -1)
    assert_allclose(features, cnn().fit_transform(scaled), atol=1e-5)
    assert features.shape == (9, 6 * 2 * 2)


def test_rows_are_scaled_by_numbers_and_by_column():
    expected = linear(dtype="float64").fit_transform((ROWS - 2.0) / 3.0)
    for mean, std in [(2.0, 3), (np.full(12, 2.0), [3.0] * 12)]:
        features = linear(dtype="float64", mean=mean, std=std).fit_transform(ROWS)
        assert_allclose(features, expected, rtol=1e-12)


def test_a_backbone_that_is_not_trained_is_drawn_alike_and_apart_from_the_global_generator():
    with torch.random.fork_rng(devices=[]):
        first = cnn().fit_transform(IMAGES)
        torch.rand(3)
        state = torch.get_rng_state()
        second = cnn().fit_transform(IMAGES)
        assert torch.equal(torch.get_rng_state(), state)
    assert_array_equal(first, second)


# ---- state


def test_state_is_arrays_and_survives_every_copy(tmp_path):
    extractor = cnn(dtype="float64").fit(IMAGES)
    digest = joblib.hash(extractor)
    features = extractor.transform(IMAGES)
    assert joblib.hash(extractor) == digest
    assert all(type(value) is np.ndarray for value in extractor.state_dict_.values())
    assert set(vars(extractor)) - set(extractor.__getstate__()) == {"_built"}
    joblib.dump(extractor, tmp_path / "extractor.joblib")
    copies = [
        deepcopy(extractor),
        pickle.loads(pickle.dumps(extractor)),
        joblib.load(tmp_path / "extractor.joblib", mmap_mode="r"),
    ]
    for copy in copies:
        assert_array_equal(copy.transform(IMAGES), features)
    assert [joblib.hash(copy) for copy in copies[:2]] == [digest, digest]


def test_weights_are_those_of_fit_not_of_the_factory(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({key: torch.tensor(value) for key, value in LINEAR.items()}, path)
    extractor = linear(weights=str(path)).fit(ROWS)
    path.unlink()
    copy = pickle.loads(pickle.dumps(extractor))
    assert_array_equal(copy.transform(ROWS), extractor.transform(ROWS))


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        ({"weights": {"weight": LINEAR["weight"]}}, ROWS),
        ({"backbone_params": {"in_features": 5, "out_features": 4}, "weights": None}, ROWS[:, :6]),
        ({"input_shape": (3, 5)}, ROWS),
    ],
)
def test_a_fit_that_fails_changes_nothing(change, rows):
    fresh = linear(**change)
    with pytest.raises((ValueError, RuntimeError)):
        fresh.fit(rows)
    assert not hasattr(fresh, "n_features_in_")
    with pytest.raises(NotFittedError):
        fresh.transform(ROWS)

    fitted = linear().fit(ROWS)
    before = fitted.transform(ROWS)
    parameters = fitted.get_params()
    with pytest.raises((ValueError, RuntimeError)):
        fitted.set_params(**change).fit(rows)
    assert_array_equal(fitted.set_params(**parameters).transform(ROWS), before)


def test_a_second_fit_starts_anew():
    extractor = linear().fit(ROWS)
    extractor.set_params(backbone=nn.Flatten, backbone_params=None, weights=None)
    extractor.fit(ROWS[:, :3])
    assert extractor.n_features_in_ == extractor.n_features_out_ == 3
    assert extractor.state_dict_ == {}
    assert_array_equal(extractor.transform(ROWS[:, :3]), ROWS[:, :3].astype(np.float32))


def test_dtype_and_batch_size_may_change_between_calls():
    extractor = linear(dtype="float64").fit(ROWS)
    features = extractor.transform(ROWS)
    single = extractor.set_params(dtype="float32", batch_size=5).transform(ROWS)
    assert single.dtype == np.float32
    assert_allclose(single, features, rtol=1e-4)
    # Back in float64 no digit is lost.
    assert_array_equal(
        extractor.set_params(dtype="float64", batch_size=256).transform(ROWS), features
    )


def test_the_device_is_chosen_at_call_time(monkeypatch):
    extractor = linear(device="auto").fit(ROWS)
    assert not any(isinstance(v, torch.device) for v in extractor.__getstate__().values())
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ValueError, match="got 'cuda', which is not available"):
        extractor.set_params(device="cuda").transform(ROWS)


@pytest.mark.cuda
def test_cuda_and_cpu_agree_and_the_state_moves_between_them():
    extractor = cnn(dtype="float64", device="cuda").fit(IMAGES)
    features = extractor.transform(IMAGES)
    copy = pickle.loads(pickle.dumps(extractor)).set_params(device="cpu")
    assert_allclose(copy.transform(IMAGES), features, atol=1e-10)
    assert_allclose(extractor.set_params(device="cpu").transform(IMAGES), features, atol=1e-10)


def test_in_a_continual_pipeline():
    y = np.arange(len(ROWS)) % 2
    X = ROWS + 9 * y[:, None]
    extractor = linear().set_params(backbone="torch.nn:Linear")
    pipe = make_continual_pipeline(extractor, GaussianNB())
    pipe.partial_fit(X[y == 0], y[y == 0], classes=[0, 1]).partial_fit(X, y)
    assert pipe.score(X, y) == 1.0
    assert list(pipe[0].get_feature_names_out()[:1]) == ["torchfeatureextractor0"]


def test_a_column_of_paths_in_a_column_transformer(tmp_path):
    pandas = pytest.importorskip("pandas")
    image = pytest.importorskip("PIL.Image")
    for k, one in enumerate(IMAGES[:3]):
        image.fromarray(one.reshape(4, 4, 3)).save(tmp_path / f"{k}.png")
    frame = pandas.DataFrame({"path": [str(tmp_path / f"{k}.png") for k in range(3)]})
    for extractor in (cnn(), cnn(layers=["0"])):
        columns = ColumnTransformer([("i", extractor, "path")]).set_output(transform="pandas")
        features = columns.fit_transform(frame)
        assert list(features.columns) == list(columns.get_feature_names_out())
        assert_array_equal(features, extractor.fit_transform(frame["path"]))


# ---- parameters changed after fit


# ---- errors


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("network", [nn.Linear(64, 4), nn.Sequential(nn.Conv1d(64, 8, 1))])
def test_a_network_with_random_weights_warns_where_it_is_fitted(network):
    extractor = TorchFeatureExtractor(network)
    if isinstance(network, nn.Sequential):
        extractor.set_params(input_shape=(64, 1))
    rows = RNG.normal(size=(4, 64))
    with pytest.warns(RandomFeaturesWarning, match="are as torch initialises them") as caught:
        extractor.fit(rows)
    assert caught[0].filename == __file__
    extractor.set_params(weights=network.state_dict()).fit(rows)


@pytest.mark.parametrize("channels", [1, 4])
def test_images_with_other_channels_than_the_network_are_named(channels):
    images = np.zeros((4, 6, 6, channels), dtype=np.uint8)
    message = rf"inputs of shape \({channels}, 6, 6\), .* to have 3 channels, but got {channels}"
    with pytest.raises(ValueError, match=message):
        cnn().set_params(input_shape=None).fit(images)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"input_shape": (3, 5)}, ValueError, r"X has 12 features, but input_shape=\(3, 5\) needs"),
        ({"input_shape": (-3, -4)}, ValueError, r"input_shape must hold positive integers; got"),
        ({"input_shape": (3.0, 4)}, ValueError, r"input_shape must hold positive integers; got"),
        ({"mean": [1.0, 2.0]}, ValueError, r"mean must be .* each of the 12 channels.*\(2,\)"),
        ({"std": 0.0}, ValueError, r"std must be positive; got 0.0"),
        ({"mean": np.nan}, ValueError, r"mean must be finite; got nan"),
        ({"device": "gpu"}, ValueError, r"device must be 'auto'.*'gpu'"),
        ({"weights": {}}, ValueError, r'do not fit .*Missing key.* "weight", "bias"'),
        ({"weights": {**LINEAR, "k": [1.0]}}, ValueError, r'do not fit .*Unexpected key.* "k"'),
        ({"weights": {**LINEAR, "bias": np.ones(3)}}, ValueError, r"do not fit .*size mismatch"),
        ({"weights": {**LINEAR, "bias": "one"}}, ValueError, r"'bias' maps to an instance of str"),
        ({"backbone": "linear"}, ValueError, r"dotted name .* got 'linear'"),
        ({"backbone": "torch.nn:"}, ValueError, r"dotted name .* got 'torch.nn:'"),
        ({"backbone": "no_such_package:f"}, ValueError, r"cannot be imported: No module named"),
        ({"backbone": "torch.nn:NoSuch"}, ValueError, r"cannot be imported: .*'NoSuch'"),
        ({"backbone": "math:pi"}, ValueError, r"backbone='math:pi' is not callable"),
        ({"backbone": dict}, TypeError, r"must return a torch.nn.Module; .* instance of dict"),
        ({"backbone": nn.Linear(12, 4)}, ValueError, r"backbone_params must be None"),
    ],
)
def test_parameters_that_do_not_fit(parameters, error, message):
    extractor = linear().set_params(**parameters)
    with pytest.raises(error, match=message):
        extractor.fit(ROWS)


def test_a_file_that_holds_no_state_dict(tmp_path):
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(ValueError, match=r"list.pt' must hold a state dict; .* instance of list"):
        linear(weights=tmp_path / "list.pt").fit(ROWS)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pt"):
        linear(weights=tmp_path / "nowhere.pt").fit(ROWS)


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_of_weights_is_named(tmp_path, damage):
    path = tmp_path / "weights.pt"
    torch.save({key: torch.tensor(value) for key, value in LINEAR.items()}, path)
    path.write_bytes(DAMAGED[damage](path.read_bytes()))
    with pytest.raises(ValueError, match=r"weights='.*weights.pt' must be .* it is damaged"):
        linear(weights=path).fit(ROWS)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: (x, x), TypeError, "must return a tensor .* got tuple"),
        (lambda x: x.sum(), ValueError, r"one row per input; got shape \(\) for 2 inputs"),
        (lambda x: x.T, ValueError, r"one row per input; got shape \(12, 2\) for 2 inputs"),
        (lambda x: x - x.mean(0), ValueError, "must treat each row by itself"),
        (lambda x: x @ x.T, ValueError, "must treat each row by itself"),
        (torch.log, NonFiniteFeaturesError, "NaN or infinite features for 2 of 2 rows"),
    ],
)
def test_outputs_that_are_no_features(function, error, message):
    with pytest.raises(error, match=message):
        TorchFeatureExtractor(lambda: Returning(function)).fit(ROWS)


def test_non_finite_features_name_the_row():
    rows = np.ones((10, 2))
    extractor = TorchFeatureExtractor(lambda: Returning(torch.log), batch_size=4).fit(rows)
    rows[7] = -1.0
    with pytest.raises(NonFiniteFeaturesError, match=r"1 of 4 rows .* row 7 of X"):
        extractor.transform(rows)


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match="X has 11 features, but TorchFeatureExtractor is expect"):
        linear().fit(ROWS).transform(ROWS[:, 1:])
