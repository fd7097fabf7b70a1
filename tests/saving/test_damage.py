"""Damaged, foreign and newer files raise ModelFileError; forged files raise no other error."""

import io
import pickle
import zipfile
from dataclasses import replace
from functools import reduce
from operator import getitem

import numpy as np
import pytest

from ffnb_sklearn import load, save
from ffnb_sklearn.core.novelty.likeness import LeftOutLikeness
from ffnb_sklearn.exceptions import ModelFileError
from ffnb_sklearn.saving._codec import Writer
from ffnb_sklearn.saving._schema import FORMAT
from tests.campaigns.attack.models import DAMAGES, damaged, flipped
from tests.saving.model_files import (
    ESTIMATORS,
    check_refused,
    classifier,
    closed,
    discriminant,
    file_of,
    load_bytes,
    opened,
    places,
    put,
    signed,
)
from tests.separated_classes import X, learned

# The files, seven kinds of damage, and these seeds are more than 300 damaged files.
SEEDS = range(8)


@pytest.fixture(params=ESTIMATORS)
def original(request):
    """Return the bytes of a file."""
    return file_of(request.param)


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


def test_forged_archive_raises_no_other_error(original, tmp_path):
    n_refused = 0
    for seed in range(40):
        try:
            load_bytes(signed(flipped(original, np.random.default_rng(seed))), tmp_path / "model")
        except ModelFileError:
            n_refused += 1
    assert 0 < n_refused < 40


def last_arrays_of_each_kind(content):
    """Return the paths to the arrays of the last class, layer and band, one for each field."""
    last = {}
    for path in places(content):
        if path[-1:] == ("array",) and {"moments", "weights", "left_out"} & set(path):
            kind = tuple(step for step in path if isinstance(step, str))
            last[kind] = path
    return last.values()


def test_model_of_arrays_that_do_not_belong_together_is_refused(original, tmp_path):
    content, arrays = opened(original)
    n_checked = 0
    for path in last_arrays_of_each_kind(content):
        index = reduce(getitem, path, content)
        array = arrays[index]
        forgeries = [array[None], array.astype("U9"), array.astype(int)]
        if "moments" in path:
            forgeries += [np.concatenate([array, array[..., :1]], axis=-1)]
        if array.size:
            forgeries += [np.where(array == array.flat[-1], bad, array) for bad in (np.nan, np.inf)]
        if "residual" in path:
            forgeries += [array - array.max() - 1.0]
        for forged in forgeries:
            changed = [*arrays[:index], forged, *arrays[index + 1 :]]
            check_refused(closed(content, changed), tmp_path / "model.ffnb")
            n_checked += 1
    assert n_checked > 40 or "NaiveNetwork" in str(content)


# Names of arrays of the bands, changes of them, and what the error names.
CHANGED_ARRAYS = {
    "owners of later classes": ("owners", lambda owners: owners + 1, "owners"),
    "owners that are negative": ("owners", lambda owners: owners - 2, "owners"),
    "more owners": ("owners", lambda owners: np.append(owners, 0), "owners"),
    "owners in a row": ("owners", lambda owners: owners[None], "owners"),
    "weights of more inputs": ("weights", lambda rows: np.pad(rows, ((0, 0), (0, 1))), None),
    "weights of more neurons": ("weights", lambda rows: np.pad(rows, ((0, 1), (0, 0))), None),
    "mean of fewer neurons": ("mean", lambda mean: mean[1:], "moments of bands"),
    "mean in a column": ("mean", lambda mean: mean[:, None], "moments of bands"),
    "residual of more neurons": ("residual", lambda one: np.append(one, 0.0), "moments of bands"),
    "negative residual": ("residual", lambda residual: residual - 1.0, "moments of bands"),
}


@pytest.mark.parametrize("change", CHANGED_ARRAYS)
def test_bands_that_do_not_belong_together_are_refused(change, tmp_path):
    name, changed, part = CHANGED_ARRAYS[change]
    content, arrays = opened(file_of("deep"))
    record = "BandMoments" if part == "moments of bands" else "trained"
    path = next(path for path in places(content) if path[-2:] == (name, "array") and record in path)
    index = reduce(getitem, path, content)
    arrays[index] = changed(arrays[index])
    with pytest.raises(ModelFileError, match=part):
        load_bytes(closed(content, arrays), tmp_path / "model.ffnb")


def test_factor_in_bands_of_another_rank_is_refused(tmp_path):
    content, arrays = opened(file_of("deep"))
    path = next(path for path in places(content) if path[-2:] == ("BandMoments", "factor"))
    for forged in ({"tuple": []}, 3, {"tuple": [{"array": 10**6}]}):
        check_refused(closed(put(content, path, forged), arrays), tmp_path / "model.ffnb")
    index = reduce(getitem, (*path, "tuple", 0, "array"), content)
    arrays[index] = arrays[index][1:]
    check_refused(closed(content, arrays), tmp_path / "model.ffnb")


def with_former_moments(make):
    """Return a model that keeps the former moments of its first class for its choice."""
    model = learned(make(refresh=1.0), [4, 1])
    return model.partial_fit(X[:2], [1, 1])


# Changes of the former moments of all classes, None for those that have not changed.
FORGED_CHOICES = {
    "of fewer classes": lambda former: former[:1],
    "of no class": lambda former: (None,) * 5,
    "wider": lambda former: (replace(former[0], mean=np.append(former[0].mean, 0.0)), None),
    "narrower axes": lambda former: (replace(former[0], factor=former[0].factor[:, 1:]), None),
    "weightless": lambda former: (replace(former[0], weight=0.0), None),
    "of infinite weight": lambda former: (replace(former[0], weight=np.inf), None),
    "infinite": lambda former: (replace(former[0], mean=former[0].mean + np.inf), None),
    "negative": lambda former: (replace(former[0], truncated=former[0].mean * 0.0 - 1.0), None),
    "another record": lambda former: (LeftOutLikeness(), None),
}


@pytest.mark.parametrize("make", [classifier, discriminant])
@pytest.mark.parametrize("change", FORGED_CHOICES)
def test_forged_moments_of_the_choice_are_refused(make, change, tmp_path):
    model = with_former_moments(make)
    former = model._state.model.chosen_from
    assert [each is None for each in former] == [False, True]
    forged = replace(model._state.model, chosen_from=FORGED_CHOICES[change](former))
    model._state = replace(model._state, model=forged)
    # `save` would refuse the model.
    writer = Writer()
    content = {"format": FORMAT, "estimator": writer.write(model)}
    check_refused(closed(content, writer.arrays), tmp_path / "model.ffnb")


def test_bands_belong_to_the_classifier_with_bands_alone(tmp_path):
    with_bands = learned(classifier(), [4, 1])
    without_bands = learned(discriminant(), [4, 1])
    trained = with_bands._state.model.trained
    for model, changed in ((with_bands, None), (without_bands, trained)):
        forged = replace(model._state.model, trained=changed)
        model._state = replace(model._state, model=forged)
        with pytest.raises(ValueError, match=f"trained must be that of {type(model).__name__}"):
            save(model, tmp_path / "model.ffnb")


def test_a_naive_network_belongs_to_the_naive_classifier_alone(tmp_path):
    naive = ESTIMATORS["naive"]()
    for model in (learned(classifier(), [4, 1]), learned(discriminant(), [4, 1])):
        model._state = naive._state
        with pytest.raises(ValueError, match=f"model must be that of {type(model).__name__}"):
            save(model, tmp_path / "model.ffnb")


def test_error_names_the_part(tmp_path):
    content, arrays = opened(file_of("pipeline"))
    path = next(path for path in places(content) if path[-1:] == ("residual",))
    forged = put(content, path, [3])
    with pytest.raises(
        ModelFileError, match=r"steps\[1\]\[1\].*moments\[0\].ClassMoments .*residual"
    ):
        load_bytes(closed(forged, arrays), tmp_path / "model.ffnb")


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
def test_forged_header_of_an_array_is_refused(header, version, tmp_path):
    content, arrays = opened(file_of("pipeline"))
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


def test_compressed_and_missing_members_are_refused(original, tmp_path):
    with zipfile.ZipFile(io.BytesIO(original)) as archive:
        parts = [(name, archive.read(name)) for name in archive.namelist()]
        comment = archive.comment
    for how in ("compressed", "renamed", "missing"):
        file = io.BytesIO()
        compression = zipfile.ZIP_DEFLATED if how == "compressed" else zipfile.ZIP_STORED
        chosen = parts[:-1] if how == "missing" else parts
        with zipfile.ZipFile(file, "w", compression) as archive:
            for name, data in chosen:
                archive.writestr("x" if how == "renamed" and data is parts[1][1] else name, data)
            archive.comment = comment
        check_refused(signed(file.getvalue()), tmp_path / "model.ffnb")
