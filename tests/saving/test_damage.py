"""Damaged, foreign, newer and forged files raise ModelFileError, and nothing else."""

import io
import pickle
import zipfile
from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ffnb_sklearn import load
from ffnb_sklearn.core.settings import Descent, Settings
from ffnb_sklearn.exceptions import ModelFileError
from ffnb_sklearn.saving._container import write_container
from ffnb_sklearn.saving._models import _CONSTRAINTS
from tests.campaigns.attack.models import DAMAGES, count_forged, damaged, flipped
from tests.saving.model_files import (
    ESTIMATORS,
    closed,
    load_bytes,
    opened,
    places,
    put,
    saved,
    scores,
    signed,
)

# Three files, seven kinds of damage, and these seeds are more than 300 damaged files.
SEEDS = range(15)


@pytest.fixture(scope="module", params=ESTIMATORS)
def original(request, tmp_path_factory):
    """Return the bytes of a file."""
    folder = tmp_path_factory.mktemp("original")
    return saved(ESTIMATORS[request.param](), folder / "model.ffnb")


def check_refused(content, path):
    """Check that bytes raise the documented error, with a short message."""
    with pytest.raises(ModelFileError) as caught:
        load_bytes(content, path)
    assert len(str(caught.value)) < 700
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_refused(original, damage, tmp_path):
    for seed in SEEDS:
        check_refused(damaged(original, damage, seed), tmp_path / "model.ffnb")


def test_every_byte_outside_of_the_arrays_counts(original, tmp_path):
    # The ends hold the headers of the archive, its directory and the digest.
    for position in [*range(100), *range(len(original) - 400, len(original))]:
        content = bytearray(original)
        content[position] ^= 0x41
        check_refused(bytes(content), tmp_path / "model.ffnb")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        b"ffnb_sklearn model, sha256 " + b"0" * 64,
        pickle.dumps({"a": 1}),
        b"\0" * 10000,
    ],
    ids=["empty", "start", "end", "pickle", "zeros"],
)
def test_foreign_file_is_refused(content, tmp_path):
    check_refused(content, tmp_path / "model.ffnb")
    if len(content) > 80:
        check_refused(signed(content), tmp_path / "model.ffnb")


def test_archive_of_another_program_is_refused(tmp_path):
    np.savez(tmp_path / "arrays.npz", a=np.zeros(3))
    with pytest.raises(ModelFileError, match="was not written by ffnb_sklearn"):
        load(tmp_path / "arrays.npz")


def test_newer_file_is_named(original, tmp_path):
    content, arrays = opened(original)
    content["format"] = 99
    content["estimator"] = {"unknown": "layout"}
    content["written_by"]["ffnb_sklearn"] = "7.1"
    with pytest.raises(ModelFileError, match=r"format 99, which is newer than 1.*Version 7\.1"):
        load_bytes(closed(content, arrays), tmp_path / "model.ffnb")


def test_forged_archive_is_refused_or_holds_the_same(original, tmp_path):
    path = tmp_path / "model.ffnb"
    expected = scores(load_bytes(original, path))
    n_refused = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        try:
            # Some bytes of the headers, such as dates, have no meaning.
            loaded = load_bytes(signed(flipped(original, rng)), path)
        except ModelFileError:
            n_refused += 1
        else:
            assert_array_equal(scores(loaded), expected)
    assert n_refused > 50


def test_forged_text_is_refused(original, tmp_path):
    content, arrays = opened(original)
    everywhere = [("estimator", *path) for path in places(content["estimator"]) if path]
    rng = np.random.default_rng(0)
    strange = [{"unknown": 0}, {"estimator": 3}, {"array": 10**6}, [[[]]], {"class": "os.system"}]
    for number in range(100):
        path = everywhere[rng.integers(len(everywhere))]
        if path[-1] in ("patience", "standard_errors"):
            continue
        value = strange[number % len(strange)]
        check_refused(closed(put(content, path, value), arrays), tmp_path / "model.ffnb")


def test_keys_of_the_state_are_all_needed_and_no_other(original, tmp_path):
    content, arrays = opened(original)
    for path in places(content["estimator"]):
        # A parameter that is missing was added by a later version, and has its default.
        if not path or not isinstance(path[-1], str) or "parameters" in path:
            continue
        without = put(content, ("estimator", *path), None)
        check_refused(closed(without, arrays), tmp_path / "model.ffnb")
        more = put(content, ("estimator", *path[:-1], "another"), 1)
        check_refused(closed(more, arrays), tmp_path / "model.ffnb")


def test_forged_arrays_are_refused(original, tmp_path):
    content, arrays = opened(original)
    for index, array in enumerate(arrays):
        if array.dtype == np.uint8:
            # The bytes of skops: an archive may end in other bytes.
            continue
        forgeries = [array[None], np.array(array.tolist(), dtype="U9")]
        if array.ndim:
            forgeries.append(np.concatenate([array, array[..., :1]], axis=-1))
        if array.dtype.kind == "f" and array.size and array.ndim:
            forgeries += [array.astype(">f4" if array.ndim > 1 else "i8")]
        for forgery in forgeries:
            # A wider array of names, say, has room for the same labels.
            if forgery.shape == array.shape and array.dtype.kind == forgery.dtype.kind:
                continue
            changed = [*arrays[:index], forgery, *arrays[index + 1 :]]
            if _is_one_of_scaler(content, index) and forgery.shape == array.shape:
                continue
            check_refused(closed(content, changed), tmp_path / "model.ffnb")
    check_refused(closed(content, arrays[:-1]), tmp_path / "model.ffnb")
    check_refused(closed(content, [*arrays, arrays[0]]), tmp_path / "model.ffnb")


def _is_one_of_scaler(content, index):
    """Whether an array is that of a scaler, which may be float32, or a label."""
    paths = [path for path in places(content) if path and path[-1] in ("array", "scalar")]
    for path in paths:
        value = content
        for key in path:
            value = value[key]
        if value == index:
            names = {"mean_", "var_", "scale_", "n_samples_seen_", "classes"}
            return bool(names & set(path)) or "task_classes" in path
    return False


def test_numbers_that_no_model_has_are_refused(original, tmp_path):
    content, arrays = opened(original)
    labels = {"classes", "task_classes"}
    n_checked = 0
    for path in places(content):
        if path[-1:] != ("array",) or "model" not in path or labels & set(path[-3:]):
            continue
        index = content
        for key in path:
            index = index[key]
        for value in (np.nan, np.inf):
            if not arrays[index].size:
                continue
            forged = arrays[index].copy()
            forged.flat[-1] = value
            changed = [*arrays[:index], forged, *arrays[index + 1 :]]
            check_refused(closed(content, changed), tmp_path / "model.ffnb")
            n_checked += 1
    assert n_checked > 10


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 2305843009213693952)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<U999999999', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f8', 'fortran_order': 3, 'shape': (1,)}",
        f"{{'descr': '<f8', 'fortran_order': False, 'shape': {(1,) * 100}}}",
        "{'descr': '<f8', 'shape': (1,)}",
        "__import__('os').getpid()",
        "",
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_forged_header_of_an_array_is_refused(original, header, version, tmp_path):
    content, arrays = opened(original)
    array = b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2 * version, "little")
    array += header.encode() + b"\0" * 8
    for name in ("arrays/0.npy", f"arrays/{len(arrays) - 1}.npy"):
        forged = with_member(closed(content, arrays), name, array)
        check_refused(forged, tmp_path / "model.ffnb")


def with_member(content, name, data):
    """Return a file with another member of its archive, and the digest that belongs to it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {one: archive.read(one) for one in archive.namelist()} | {name: data}
        comment = archive.comment
    forged = io.BytesIO()
    with zipfile.ZipFile(forged, "w") as archive:
        for one, part in parts.items():
            archive.writestr(one, part)
        archive.comment = comment
    return signed(forged.getvalue())


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"format": NaN}',
        b'{"format": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b'{"format": 1, "format": 1}',
        b'{"format": true}',
        b'{"format": "1"}',
        b'{"format": 1, "estimator": {}}',
        b'{"format": 1, "written_by": {}, "generators": [], "estimator": {"tuple": []}}',
        b"[1]",
    ],
    ids=range(11),
)
def test_forged_json_is_refused(text, tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model.json", text)
        archive.comment = b"ffnb_sklearn model, sha256 " + b"0" * 64
    check_refused(signed(file.getvalue()), tmp_path / "model.ffnb")


def test_nested_estimators_are_refused(tmp_path):
    content = {"format": 1, "written_by": {}, "generators": []}
    nested = 0
    for _ in range(50_000):
        nested = [nested]
    deep = io.BytesIO()
    # The writer of the standard library has a limit of its own.
    with pytest.raises(RecursionError):
        write_container(deep, {**content, "estimator": nested}, [])
    nested = {"class": "Normalizer", "parameters": {}, "output": None, "fitted": None}
    for _ in range(150):
        value = {"estimator": nested}
        nested = {
            "class": "FrozenEstimator",
            "parameters": {"estimator": value},
            "output": None,
            "fitted": "wrong",
        }
    nested = {"estimator": nested}
    check_refused(closed({**content, "estimator": nested}, []), tmp_path / "model.ffnb")


def test_every_setting_has_a_check():
    names = {one.name for one in (*fields(Settings), *fields(Descent))}
    assert names - _CONSTRAINTS.keys() == {"descent"}


def test_forged_values_are_refused_or_are_those_of_a_model(tmp_path):
    # Any other error than ModelFileError ends the count.
    assert count_forged(100, tmp_path) < 20


def test_compressed_and_repeated_members_are_refused(original, tmp_path):
    with zipfile.ZipFile(io.BytesIO(original)) as archive:
        parts = [(name, archive.read(name)) for name in archive.namelist()]
        comment = archive.comment
    for how in ("compressed", "renamed", "missing", "more"):
        file = io.BytesIO()
        compression = zipfile.ZIP_DEFLATED if how == "compressed" else zipfile.ZIP_STORED
        chosen = parts[:-1] if how == "missing" else parts
        with zipfile.ZipFile(file, "w", compression) as archive:
            for name, data in chosen:
                archive.writestr("x" if how == "renamed" and data is parts[1][1] else name, data)
            if how == "more":
                archive.writestr("../more", b"")
            archive.comment = comment
        check_refused(signed(file.getvalue()), tmp_path / "model.ffnb")
