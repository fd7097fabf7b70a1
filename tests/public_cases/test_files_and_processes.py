"""Public cases about files, other processes, threads, global state and output."""

import contextlib
import io
import logging
import os
import pickle
import random
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from ffnb_sklearn import Bands, TorchFeatureExtractor, load, make_continual_pipeline, save
from ffnb_sklearn.saving._container import ModelFileError
from tests.public_cases.flowers import NAMES, X, Y, exact, heads, small
from tests.public_cases.test_backbones import rows_network

# ---- files


@pytest.fixture
def file_of_an_older_model(tmp_path):
    path = tmp_path / "model.ffnb"
    save(make_continual_pipeline(Normalizer(), small()).fit(X, Y), path)
    return path


def test_a_function_without_a_name_is_refused_and_the_old_file_stays(file_of_an_older_model):
    """scikit-learn #9467, PyTorch #187270."""
    pytest.importorskip("skops")
    before = file_of_an_older_model.read_bytes()
    unnamed = make_continual_pipeline(FunctionTransformer(lambda rows: 2 * rows), small())
    with pytest.raises(TypeError, match=r"steps\[0\]\[1\] cannot be saved: .*<lambda>"):
        save(unnamed.fit(X, Y), file_of_an_older_model)
    assert file_of_an_older_model.read_bytes() == before
    assert os.listdir(file_of_an_older_model.parent) == ["model.ffnb"]


def test_an_interrupted_save_leaves_the_old_file(file_of_an_older_model, monkeypatch):
    """Lightning #688, pylearn2 #1079."""
    before = file_of_an_older_model.read_bytes()

    def full_disk(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full_disk)
    with pytest.raises(OSError, match="No space left"):
        save(small().fit(X, NAMES), file_of_an_older_model)
    assert file_of_an_older_model.read_bytes() == before
    assert os.listdir(file_of_an_older_model.parent) == ["model.ffnb"]


def twice(rows):
    return 2 * rows


def test_a_function_of_the_caller_is_loaded_only_if_it_is_trusted(tmp_path):
    """scikit-learn #12904, skops #184."""
    pytest.importorskip("skops")
    model = make_continual_pipeline(FunctionTransformer(twice), small()).fit(X, Y)
    save(model, tmp_path / "model")
    name = f"{__name__}.twice"
    with pytest.raises(ModelFileError, match=rf"not trusted: {name}"):
        load(tmp_path / "model")
    loaded = load(tmp_path / "model", trusted=[name])
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_random_generators_of_steps_are_stored(tmp_path):
    """skops #331."""
    pytest.importorskip("skops")
    model = make_continual_pipeline(
        RBFSampler(n_components=20, random_state=np.random.RandomState(3)),
        small(random_state=np.random.RandomState(4)),
    )
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model").fit(X, Y)
    assert_array_equal(loaded.predict_proba(X), model.fit(X, Y).predict_proba(X))


def test_paths_of_any_script(tmp_path):
    """PyTorch #99453, vosk-api #1072."""
    model = small().fit(X, NAMES)
    for path in (str(tmp_path / "übung 模型.ffnb"), tmp_path / "мод ель.ffnb"):
        save(model, path)
        assert_array_equal(load(path).predict_proba(X), model.predict_proba(X))


# ---- other processes

FRESH = """
import sys
import numpy, torch

seed, n_threads = torch.initial_seed(), torch.get_num_threads()
state = numpy.random.get_state()[1].tolist()
import ffnb_sklearn

assert torch.initial_seed() == seed
assert torch.get_num_threads() == n_threads
assert numpy.random.get_state()[1].tolist() == state
rows = numpy.load(sys.argv[1])
numpy.save(sys.argv[3], ffnb_sklearn.load(sys.argv[2]).predict_proba(rows))
"""


def test_a_new_process_predicts_the_same_and_its_seeds_are_left_alone(tmp_path):
    """auto-sklearn #1280, flash-fft-conv #26."""
    model = make_continual_pipeline(StandardScaler(), small()).partial_fit(X, NAMES)
    rows, file, answers = (tmp_path / name for name in ("rows.npy", "model", "answers.npy"))
    np.save(rows, X)
    save(model, file)
    subprocess.run([sys.executable, "-c", FRESH, rows, file, answers], check=True)
    assert_array_equal(np.load(answers), model.predict_proba(X))


# ---- threads and global state


def run_together(calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@heads
def test_threads_that_predict_with_the_same_model(head):
    """scikit-learn #18530."""
    expected = small(head).fit(X, Y).predict_proba(X)
    # The first prediction after learning solves the classifier, here in eight threads at a time.
    model, answers = small(head).fit(X, Y), []
    run_together([lambda: answers.append(model.predict_proba(X))] * 8)
    assert len(answers) == 8
    for answer in answers:
        assert_array_equal(answer, expected)


def test_threads_that_learn_models_of_their_own():
    """scikit-learn #8410."""
    expected = [small(random_state=seed).fit(X, Y).predict_proba(X) for seed in range(4)]
    models = [small(random_state=seed) for seed in range(4)]
    run_together([lambda model=model: model.fit(X, Y) for model in models])
    for model, probabilities in zip(models, expected, strict=True):
        assert_array_equal(model.predict_proba(X), probabilities)


def test_global_generators_are_left_alone():
    """PyTorch #39716."""

    def states():
        numbers = np.random.get_state()[1].tolist()  # noqa: NPY002
        return random.getstate(), numbers, torch.get_rng_state().tolist()

    before = states()
    bands = Bands(init="random", max_epochs=2, weight_decay=0.1)
    small(band_size=2, bands=bands, classes_per_task=1).fit(X, Y).predict_proba(X)
    TorchFeatureExtractor(rows_network, epochs=1, random_state=0).fit(X, Y).transform(X)
    assert states() == before
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("verbose", [False, True])
def test_nothing_is_printed_or_logged_unless_asked_for(verbose, caplog):
    """scikit-learn #6487."""
    handlers = list(logging.getLogger().handlers)
    printed, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
        small(band_size=1, bands__max_epochs=1, verbose=verbose).fit(X, Y).predict(X)
    # The epoch has one line, and the task another.
    assert printed.getvalue().count("\n") == 2 * verbose
    assert errors.getvalue() == ""
    assert caplog.records == []
    assert logging.getLogger().handlers == handlers


# ---- several sites


@heads
def test_a_site_without_samples_of_a_class_adds_nothing(head):
    """Flower #7645."""
    everything = exact(head, scale=False).fit(X, Y).predict_proba(X)
    first = exact(head, scale=False).partial_fit(X[Y > 0], Y[Y > 0], classes=[0, 1, 2])
    second = exact(head, scale=False).partial_fit(X[Y == 0], Y[Y == 0], classes=[0, 1, 2])
    assert_allclose(first.merge(second).predict_proba(X), everything, rtol=1e-6, atol=1e-12)


def test_a_site_that_has_learned_nothing_is_refused():
    """Flower #7645."""
    model = exact().fit(X, Y)
    before = pickle.dumps(model)
    with pytest.raises((TypeError, ValueError), match=r"not fitted yet|must be a fitted"):
        model.merge(clone(model))
    assert pickle.dumps(model) == before
