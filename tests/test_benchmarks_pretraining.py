"""The benchmark of images per second: the loop that is the measure, its rows, and a short run."""

import numpy as np
import pytest
import torch

from ffnb_sklearn.backbones import _arithmetic


@pytest.fixture
def pretraining(bench):
    return bench("pretraining")


def test_the_bare_loop_computes_the_features_of_the_package(pretraining):
    images, labels = pretraining.draw_images(6)
    loop = pretraining.BareLoop("small", images, labels, mixed=False, channels_last=True)
    extractor = pretraining.make_extractor("small", epochs=0, mixed=False).fit(images)
    np.testing.assert_allclose(loop.extraction(), extractor.transform(images), atol=1e-6)


def test_the_bare_loop_learns_and_rounds_as_the_package(pretraining, monkeypatch):
    images, labels = pretraining.draw_images(40)
    seen = []
    forward = pretraining.ConvNet.forward

    def spy(network, batch):
        last = batch.is_contiguous(memory_format=torch.channels_last)
        seen.append((len(batch), last, torch.is_autocast_enabled("cpu")))
        return forward(network, batch)

    loop = pretraining.BareLoop("small", images, labels, mixed=True, channels_last=True)
    before = [one.detach().clone() for one in loop.model.parameters()]
    monkeypatch.setattr(pretraining.ConvNet, "forward", spy)
    loop.pretraining()
    assert seen == [(40, True, True)]
    changed = zip(before, loop.model.parameters(), strict=True)
    assert not any(torch.equal(old, new) for old, new in changed)


def test_ratio_is_the_share_of_the_loop_with_the_channels_last(pretraining, monkeypatch):
    seconds = {"package": 4.0, "channels last": 3.0, "channels first": 2.0}
    made = {name: lambda one=one: one for name, one in seconds.items()}
    monkeypatch.setattr(pretraining, "candidates", lambda *_, **__: made)
    options = pretraining.read_options(["--images", "12", "--repeats", "2"])
    trained = pretraining.measure_speed("small", "pretraining", options, mixed=False)
    assert (trained["ratio"], trained["package"], trained["channels last"]) == (0.75, 3.0, 4.0)
    *_, row = pretraining.speed_lines([trained])
    assert row == "| small | pretraining | float32 | 3 | 4 | 75 % | 75 %, 75 % | 6 |"


def test_report_has_a_row_per_measurement(pretraining, run_script, tmp_path, monkeypatch):
    images = tmp_path / "images.dat"
    pretraining.draw_images(50)[0].tofile(images)

    def in_this_process(_):
        return [pretraining.peak_megabytes(images, 50)]

    monkeypatch.setattr(_arithmetic, "has_bfloat16", lambda _: True)
    monkeypatch.setattr(pretraining, "measure_memory", in_this_process)
    options = ["--networks", "small", "--images", "20", "--repeats", "1"]
    printed, records = run_script("pretraining", *options)
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| small |")]
    assert [row[1:3] for row in rows] == [
        [work, arithmetic]
        for work in ("pretraining", "extraction")
        for arithmetic in ("float32", "bfloat16")
    ]
    assert sum(line.startswith("| 50 | 0 | 1 |") for line in printed.splitlines()) == 1
    assert len(records) == 4
