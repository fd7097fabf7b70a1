"""Files that no pickler would write: `load_cifar100` refuses them, or reads what they hold."""

import pickle
import struct

import numpy as np
import pytest

from ffnb_sklearn.datasets import load_cifar100
from tests.datasets.pickle_streams import (
    BUILD,
    FALSE,
    NONE,
    OBJECT,
    REDUCE,
    SETITEMS,
    STOP,
    TRUE,
    UINT8,
    array,
    dictionary,
    dtype,
    get,
    integer,
    long,
    named,
    put,
    sequence,
    set_item,
    several,
    structure,
    text,
    unbuilt_array,
    unicode,
)

SIZE = 3072
PIXELS = bytes(i % 251 for i in range(SIZE))
IMAGE = array((1, SIZE), PIXELS)
FINE, COARSE = integer(7), integer(3)
META = dictionary(
    {
        b"fine_label_names": sequence(*[text(b"class")] * 100),
        b"coarse_label_names": sequence(*[text(b"group")] * 20),
    }
)


def part(data=IMAGE, fine=FINE, coarse=COARSE, n_images=1):
    """Write a file of images, without its end."""
    return dictionary(
        {
            b"data": data,
            b"fine_labels": sequence(*[fine] * n_images),
            b"coarse_labels": sequence(*[coarse] * n_images),
        }
    )


@pytest.fixture
def folder(tmp_path):
    for name, content in {"train": part(), "test": part(), "meta": META}.items():
        (tmp_path / name).write_bytes(content + STOP)
    return tmp_path


def refusal(folder, stream):
    """Return why a file of images is refused; the message must be short and name the file."""
    path = folder / "test"
    path.write_bytes(stream)
    with pytest.raises(ValueError) as error:
        load_cifar100(folder)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    reason = message.removeprefix(f"{path}: ")
    assert len(reason) < 1000
    assert error.value.__cause__ is None
    return reason


def read(folder, stream):
    """Return the images of a file."""
    (folder / "test").write_bytes(stream)
    bunch = load_cifar100(folder)
    assert bunch.data.dtype == np.uint8
    assert bunch.data.flags.writeable
    return bunch.data[~bunch.train]


# ---- what is read


def test_the_assembled_files_are_valid(folder):
    bunch = load_cifar100(folder)
    assert bunch.data.tobytes() == 2 * PIXELS
    assert bunch.target.tolist() == [7, 7]
    assert bunch.superclass.tolist() == [3, 3]


@pytest.mark.parametrize(("order", "name"), [(FALSE, "C"), (TRUE, "F"), (integer(1), "F")])
def test_the_order_of_an_array_is_honoured(folder, order, name):
    images = np.arange(2 * SIZE).astype(np.uint8).reshape(2, SIZE)
    data = array((2, SIZE), images.tobytes(order=name), order=order)
    np.testing.assert_array_equal(read(folder, part(data, n_images=2) + STOP), images)


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("order", "CF")
def test_pickles_of_today_are_read(folder, protocol, step, order):
    # Protocol 5 rebuilds an array with gaps by another function.
    images = np.arange(step * SIZE).astype(np.uint8).reshape(1, -1)[:, ::step]
    images = np.asarray(images, order=order)
    content = {b"data": images, b"fine_labels": [99], b"coarse_labels": [19]}
    stream = pickle.dumps(content, protocol=protocol)
    np.testing.assert_array_equal(read(folder, stream), images)


def test_no_images_are_read(folder):
    assert read(folder, part(array((0, SIZE), b""), n_images=0) + STOP).shape == (0, SIZE)


def test_a_huge_position_in_the_memo_takes_no_memory(folder):
    # The unpickler of the standard library allocates every position below: 64 GB.
    stream = part() + pickle.LONG_BINPUT + b"\xff" * 4 + STOP
    assert "the memo has no place 4294967295" in refusal(folder, stream)


# ---- attacks on memory

ATTACKS = {
    "a field beyond the bytes is copied into the image": set_item(
        IMAGE, integer(0), array((SIZE,), PIXELS, kind=structure(1, UINT8, 100))
    ),
    "a field far away is copied into the image": set_item(
        IMAGE, integer(0), array((SIZE,), PIXELS, kind=structure(1, UINT8, 2**30))
    ),
    "a field far away is written": set_item(
        array((1,), b"\0", kind=structure(1, UINT8, 10**8)), unicode("f"), integer(65)
    ),
    "a forged pointer is released": set_item(
        array((1,), b"A" * 8, kind=structure(8, OBJECT, 0)), unicode("f"), NONE
    ),
    "forged pointers are the images": array((1, SIZE), b"A" * 8 * SIZE, kind=OBJECT),
    "the image grows after its bytes were set": IMAGE
    + several(integer(1), several(integer(9), integer(SIZE)), UINT8, FALSE, text(PIXELS))
    + BUILD,
    "the image has no bytes": unbuilt_array(),
    "the dtype is described twice": array(
        (1, SIZE), PIXELS, kind=UINT8 + several(integer(3), *[NONE] * 7) + BUILD
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_memory_is_not_touched(folder, attack):
    refusal(folder, part(ATTACKS[attack]) + STOP)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (array((2, SIZE), PIXELS), "got (2, 3072) and 3072 bytes"),
        (array((1, SIZE), PIXELS[:-1]), "got (1, 3072) and 3071 bytes"),
        (array((-1, -SIZE), PIXELS), "got (-1, -3072)"),
        (array(several(*[long(2**62)] * 64, integer(0)), b""), "(4611686018427387904, "),
        (array(several(long(2**9999), integer(0)), b""), "got (an integer of 10000 bits, 0)"),
        (array(several(text(b"1"), integer(SIZE)), PIXELS), "got ('1', 3072)"),
        (array(sequence(integer(1), integer(SIZE)), PIXELS), "must be an array of uint8"),
        (array((1, SIZE), PIXELS, kind=text(b"u1")), "must be an array of uint8"),
        (array((1, SIZE), PIXELS, kind=dtype(b"i1")), "must be an array of uint8"),
        (array((1, SIZE), PIXELS, kind=unbuilt_array()), "must be an array of uint8"),
        (named("numpy", "ndarray"), "must be an array of uint8"),
        (named("numpy", "ndarray") + several() + REDUCE, "must be an array of uint8"),
    ],
)
def test_every_entry_of_an_array_is_checked(folder, data, reason):
    assert reason in refusal(folder, part(data) + STOP)


# ---- attacks by instructions

DEEP = 200_000
TOO_MANY, CUT = "describes too many objects", "not a CIFAR-100 pickle, or cut short"
STREAMS = {
    "a call of text": (text(b"os.system") + several() + REDUCE, "not callable"),
    "a call of a dtype": (UINT8 + several() + REDUCE, "called that is no function"),
    "a state of a function": (
        named("numpy.core.multiarray", "_reconstruct") + dictionary({}) + BUILD,
        "a state is given to an object that takes none",
    ),
    "attributes of a class": (
        named("numpy", "ndarray") + several(NONE, dictionary({b"f": NONE})) + BUILD,
        "a state is given to an object that takes none",
    ),
    "a state of a list": (sequence() + dictionary({}) + BUILD, CUT),
    "items of an array": (set_item(IMAGE, integer(0), integer(0)), "item assignment"),
    "items appended to text": (text(b"") + NONE + pickle.APPEND, CUT),
    "a key without a value": (pickle.EMPTY_DICT + pickle.MARK + text(b"a") + SETITEMS, CUT),
    "a list as key": (set_item(pickle.EMPTY_DICT, sequence(), NONE), "unhashable"),
    "deep tuples as key": (
        set_item(pickle.EMPTY_DICT, pickle.EMPTY_TUPLE + pickle.TUPLE1 * DEEP, NONE),
        TOO_MANY,
    ),
    "another class": (named("builtins", "list"), "builtins.list is not allowed in this file"),
    "a slow codec": (
        named("_codecs", "encode") + several(unicode("é" * 9999), unicode("punycode")) + REDUCE,
        "_codecs.encode is not allowed",
    ),
    "an attribute of a class": (named("numpy", "ndarray.dump"), "ndarray.dump is not allowed"),
    "a long name": (named("x" * 10**6, "y"), "of length 1000002 is not allowed"),
    "a name that is no text": (several() * 2 + pickle.STACK_GLOBAL, CUT),
    "invalid text": (pickle.BINUNICODE + struct.pack("<I", 1) + b"\xff", "can't decode byte"),
    "a new object": (named("numpy", "ndarray") + several() + pickle.NEWOBJ, "NEWOBJ is not"),
    "an instance": (pickle.INST + b"os\nsystem\n", "INST is not allowed"),
    "an extension": (pickle.EXT1 + b"\x01", "EXT1 is not allowed"),
    "a persistent object": (pickle.PERSID + b"1\n", "PERSID is not allowed"),
    "an external buffer": (pickle.NEXT_BUFFER, "NEXT_BUFFER is not allowed"),
    "endless bytes": (pickle.BINBYTES8 + b"\xff" * 7 + b"\x7f", "expected 9223372036854775807"),
    "4 GB of bytes": (pickle.BINBYTES + b"\xff" * 4, "expected 4294967295 bytes"),
    "2 GB of text": (pickle.BINSTRING + b"\xff" * 3 + b"\x7f", "expected 2147483647 bytes"),
    "a long integer": (pickle.LONG4 + b"\xff" * 3 + b"\x7f", "not enough data"),
    "a long frame": (pickle.FRAME + b"\xff" * 8, CUT),
    "an empty stack": (REDUCE, CUT),
    "an empty stack below a mark": (pickle.MARK + pickle.APPENDS, CUT),
    "no mark": (pickle.TUPLE, CUT),
    "nothing in the memo": (get(0), CUT),
    "no object": (b"", CUT),
    "deep lists": (pickle.EMPTY_LIST * DEEP + pickle.APPEND * (DEEP - 1), "dictionary, got list"),
    "deep states": (
        (named("numpy", "dtype") + pickle.EMPTY_TUPLE + REDUCE) * DEEP + BUILD * (DEEP - 1),
        TOO_MANY,
    ),
    "a list in itself": (sequence() + put(0) + get(0) + pickle.APPEND, "dictionary, got list"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_instructions_that_plain_data_does_not_need(folder, name):
    stream, reason = STREAMS[name]
    assert reason in refusal(folder, stream + STOP)


def test_a_list_of_labels_in_itself(folder):
    labels = pickle.EMPTY_LIST + put(0) + get(0) + pickle.APPEND
    stream = dictionary({b"data": IMAGE, b"fine_labels": labels, b"coarse_labels": labels})
    assert "got an object of type list" in refusal(folder, stream + STOP)


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        (long(10**5000), "got an integer of 16610 bits"),
        (long(-(10**40)), "got an integer of 133 bits"),
        (long(10**20), "got 100000000000000000000"),
        (text(b"\0" * 10**6), "... of length 1000000"),
        (unicode("\U0010ffff" * 10**5), "... of length 100000"),
        (sequence(*[NONE] * 10**5), "got an object of type list"),
        (NONE, "got None"),
        (TRUE, "got True"),
    ],
)
def test_a_message_repeats_little_of_a_label(folder, label, shown):
    assert shown in refusal(folder, part(fine=label) + STOP)


def test_random_changes_are_refused_or_read_as_they_are(folder):
    rng = np.random.default_rng(0)
    n_read = 0
    for trial in range(400):
        name, original = ("meta", META + STOP) if trial % 8 == 0 else ("test", part() + STOP)
        stream = changed(original, rng)
        (folder / name).write_bytes(stream)
        bunch, message = loaded(folder)
        (folder / name).write_bytes(original)
        if bunch is None:
            assert message.startswith(f"{folder / name}: ")
            assert len(message) < len(str(folder)) + 1000
            continue
        n_read += 1
        assert bunch.data.shape == (2, SIZE)
        assert bunch.data[1].tobytes() in (stream if name == "test" else PIXELS)
        assert 0 <= bunch.target.min() <= bunch.target.max() < 100
        assert len(bunch.target_names) == 100
    assert 20 < n_read < 200


def loaded(folder):
    """Return the data set, or why it is refused."""
    try:
        return load_cifar100(folder), ""
    except ValueError as error:
        return None, str(error)


def changed(stream, rng):
    """Replace, insert or remove a byte or two, most of them outside the pixels."""
    pixels = stream.find(PIXELS)
    stream = bytearray(stream)
    for _ in range(rng.integers(1, 3)):
        i = int(rng.integers(len(stream)))
        if 0 < pixels <= i < pixels + SIZE and rng.random() < 0.6:
            i = int(rng.integers(pixels))
        kind = rng.integers(4)
        new = bytes([rng.integers(256)]) if kind else bytes([stream[rng.integers(len(stream))]])
        stream[i : i + (kind != 2)] = b"" if kind == 3 else new
    return bytes(stream)
