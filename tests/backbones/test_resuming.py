"""Pretraining that was interrupted: it goes on where it stopped, and only there."""

import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from ffnb_sklearn.backbones import ConvNet, FlipCrop, Jitter, _pretraining
from ffnb_sklearn.backbones._checkpoint import read_checkpoint
from ffnb_sklearn.exceptions import NonFiniteLossError
from tests.backbones.small_networks import UNSTEADY, X, Y, assert_same_state, network, small


def fit_interrupted(extractor, method, calls):
    """Fit, but stop as a user does, when a part of the training is begun once too often."""
    original, begun = getattr(_pretraining._Run, method), []

    def counted(run, *arguments):
        begun.append(arguments)
        if len(begun) > calls:
            raise KeyboardInterrupt
        return original(run, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pretraining._Run, method, counted)
        extractor.fit(X, Y)


RUNS = {
    "adamw": {"validation_fraction": 0.2, "augment": Jitter()},
    "sgd": {"optimizer": "sgd", "learning_rate": 0.05, "schedule": "cosine"},
    "float64": {"dtype": "float64", "mean": 1.0, "input_shape": (64,)},
    "bfloat16": {"mixed_precision": True, "optimizer": "sgd", "validation_fraction": 0.2},
    "bfloat16 images": {
        "mixed_precision": True,
        "backbone": ConvNet,
        "backbone_params": {"in_channels": 1, "stem_width": 4, "widths": (4, 8), "blocks": (1, 1)},
        "input_shape": (1, 8, 8),
        "augment": FlipCrop(padding=1),
        "validation_fraction": 0.2,
    },
}

pytestmark = pytest.mark.usefixtures("bfloat16_everywhere")


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("method", "calls"), [("_step", 11), ("validate", 2), ("train", 3)])
def test_a_resumed_training_gives_the_same_weights_bit_by_bit(tmp_path, run, method, calls):
    parameters = {**RUNS[run], "epochs": 4}
    whole = small().set_params(**parameters).fit(X, Y)
    path = tmp_path / "run.pt"
    extractor = clone(whole).set_params(checkpoint=path)
    with pytest.raises(KeyboardInterrupt):
        fit_interrupted(extractor, method, calls)
    assert not hasattr(extractor, "n_features_in_")
    assert not hasattr(extractor, "state_dict_")
    done = len(read_checkpoint(path)["state"]["history"]["train_loss"])
    assert 1 <= done < 4
    extractor.fit(X, Y)
    assert_same_state(extractor, whole)
    assert extractor.history_ == whole.history_
    assert ("validation_loss" in whole.history_) == ("validation_fraction" in parameters)
    assert extractor.n_epochs_ == whole.n_epochs_
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


def test_the_best_epoch_may_lie_before_the_interruption(tmp_path):
    whole = small(**UNSTEADY).fit(X, Y)
    extractor = small(**UNSTEADY, checkpoint=tmp_path / "run.pt")
    with pytest.raises(KeyboardInterrupt):
        fit_interrupted(extractor, "train", 5)
    assert extractor.fit(X, Y).n_epochs_ == whole.n_epochs_ <= 5
    assert_same_state(extractor, whole)


def test_a_finished_training_is_read_and_not_repeated(tmp_path):
    path = tmp_path / "run.pt"
    first = small(checkpoint=str(path), validation_fraction=0.2).fit(X, Y)
    written = path.read_bytes()
    again = clone(first)
    fit_interrupted(again, "train", 0)
    assert_same_state(again, first)
    assert (again.history_, again.n_epochs_) == (first.history_, first.n_epochs_)
    assert path.read_bytes() == written


def test_without_a_seed_the_file_has_it(tmp_path):
    path = tmp_path / "run.pt"
    extractor = small(checkpoint=path, random_state=None)
    with pytest.raises(KeyboardInterrupt):
        fit_interrupted(extractor, "train", 1)
    seed = read_checkpoint(path)["settings"]["random_state"]
    extractor.fit(X, Y)
    assert read_checkpoint(path)["settings"]["random_state"] == seed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 4}, "epochs is 3 there and 4 here"),
        ({"learning_rate": 0.5}, "learning_rate is 0.003 there and 0.5 here"),
        ({"optimizer": "sgd"}, "optimizer is 'adamw' there and 'sgd' here"),
        ({"train_batch_size": 8}, "train_batch_size is 16 there and 8 here"),
        ({"augment": Jitter()}, "augment differs"),
        ({"std": 4.0}, r"std is \[8.0\] there and \[4.0\] here"),
        ({"random_state": 1}, "random_state is .* there and .* here"),
        ({"backbone_params": {"width": 5}}, "the network .* differs"),
        ({"dtype": "float64"}, "the network .* differs"),
        ({"mixed_precision": True}, "mixed_precision is 'auto' there and True here"),
        ({"weights": network().state_dict()}, "the network .* differs"),
    ],
)
def test_the_checkpoint_of_other_parameters_is_refused(tmp_path, change, message):
    path = tmp_path / "run.pt"
    extractor = small(checkpoint=path).fit(X, Y)
    before = extractor.transform(X)
    written = path.read_bytes()
    with pytest.raises(ValueError, match=f"belongs to another training: .*{message}"):
        extractor.set_params(**change).fit(X, Y)
    assert path.read_bytes() == written
    extractor.set_params(dtype="float32", std=8.0, backbone_params=None, mixed_precision=False)
    assert_array_equal(extractor.transform(X), before)


@pytest.mark.parametrize("data", [(X + 1, Y), (X, Y[::-1]), (X[:-1], Y[:-1])])
def test_the_checkpoint_of_other_data_is_refused(tmp_path, data):
    extractor = small(checkpoint=tmp_path / "run.pt").fit(X, Y)
    with pytest.raises(ValueError, match=r"belongs to another training: .*X or y differs"):
        extractor.fit(*data)


def test_batches_of_transform_and_the_device_may_differ(tmp_path):
    first = small(checkpoint=tmp_path / "run.pt").fit(X, Y)
    parameters = {"batch_size": 7, "device": "cpu", "verbose": True}
    assert_same_state(clone(first).set_params(**parameters).fit(X, Y), first)


def test_a_loss_that_is_not_finite_has_an_error_of_its_own(tmp_path):
    path = tmp_path / "run.pt"
    bad = small(learning_rate=1e30, std=None, checkpoint=path)
    with pytest.raises(NonFiniteLossError, match=r"the loss is (nan|inf) in epoch 1 of 3"):
        bad.fit(X, Y)
    assert not path.exists()
