"""Images in all the forms in which people have them, as rows with the channels first."""

import os
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from ffnb_sklearn.backbones import TorchFeatureExtractor, image_files
from ffnb_sklearn.backbones._images import ImageSource, image_source

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, size=(5, 6, 7, 3), dtype=np.uint8)
FIRST = np.ascontiguousarray(BYTES.transpose(0, 3, 1, 2))
ROWS = FIRST.reshape(5, -1)


class Pairs(Dataset):
    """Images with labels, computed when they are asked for."""

    def __init__(self, items):
        self.items, self.read = items, []

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        self.read.append(index)
        return self.items[index], index % 2


def pictures(images=BYTES, mode=None):
    image = pytest.importorskip("PIL.Image")
    made = [image.fromarray(one) for one in images]
    return made if mode is None else [one.convert(mode) for one in made]


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{k}.png" for k in range(len(BYTES))]
    for path, picture in zip(paths, pictures(), strict=True):
        picture.save(path)
    return paths


FORMS = {
    "channels first": FIRST,
    "channels last": BYTES,
    "not contiguous": np.asfortranarray(BYTES),
    "tensor": torch.from_numpy(FIRST),
    "tensor, channels last": torch.from_numpy(BYTES),
    "list of arrays": list(BYTES),
    "tuple of tensors": tuple(torch.from_numpy(FIRST)),
    "data set of pairs": Pairs(list(BYTES)),
    "data set of tensors": TensorDataset(torch.from_numpy(FIRST), torch.arange(5)),
    "subset": Subset(Pairs(list(FIRST)), range(5)),
}


# ---- forms


@pytest.mark.parametrize("shape", [None, (3, 6, 7)])
@pytest.mark.parametrize("form", FORMS)
def test_forms_give_the_same_rows(form, shape):
    source = image_source(FORMS[form], shape)
    assert source.shape == ROWS.shape
    assert len(source) == 5
    assert source.input_shape == (3, 6, 7)
    assert source.values == "uint8"
    assert_array_equal(source[:], ROWS)
    assert source[1:3].dtype == np.uint8
    assert_array_equal(source[1:3], ROWS[1:3])
    assert_array_equal(source[np.array([4, 0, 4])], ROWS[[4, 0, 4]])


def test_pictures_and_files(files):
    names = np.array([str(path) for path in files])
    for form in (pictures(), files, [str(path) for path in files], names, Pairs(pictures())):
        assert_array_equal(image_source(form)[:], ROWS)


def test_grey_images():
    grey = BYTES[..., 0]
    for form in (pictures(grey), Pairs(pictures(grey))):
        source = image_source(form)
        assert source.input_shape == (1, 6, 7)
        assert_array_equal(source[:], grey.reshape(5, -1))
    for form in (grey, list(grey), torch.from_numpy(grey), grey[:, None], grey[..., None]):
        assert_array_equal(image_source(form, (1, 6, 7))[:], grey.reshape(5, -1))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64, bool])
def test_other_numbers(dtype):
    source = image_source(FIRST.astype(dtype))
    assert source.values == "number"
    assert source[:].dtype in (np.float32, np.float64)
    assert_array_equal(source[:], ROWS.astype(dtype))


def test_half_precision_of_torch():
    images = torch.from_numpy(FIRST).to(torch.bfloat16).requires_grad_()
    assert_array_equal(image_source(images)[:], images.detach().float().reshape(5, -1))


def test_images_of_any_number_of_axes_are_taken_in_the_shape_that_is_given():
    nodes = RNG.normal(size=(4, 21, 24))
    assert_array_equal(image_source(nodes, (21, 24))[:], nodes.reshape(4, -1))


@pytest.mark.parametrize(
    "rows",
    [ROWS, ROWS.tolist(), torch.from_numpy(ROWS), [ROWS[0], ROWS[1]], np.ones(3), [1.0, 2.0], None],
)
def test_rows_are_no_images(rows):
    assert image_source(rows) is None


def test_a_column_of_a_table_and_a_list_of_pairs(files):
    pandas = pytest.importorskip("pandas")
    for images in (pandas.Series(files), [(image, 0) for image in BYTES], pandas.Series([*BYTES])):
        assert_array_equal(image_source(images)[:], ROWS)


def test_a_loader_is_no_data_set():
    with pytest.raises(TypeError, match="and no loader; got an instance of DataLoader"):
        image_source(DataLoader(Pairs(BYTES)))


def test_only_what_is_asked_for_is_read():
    data = Pairs(list(BYTES))
    source = image_source(data)
    data.read.clear()
    source[2:4]
    assert data.read == [2, 3]


# ---- folders


def test_files_of_a_folder_are_sorted_and_those_of_subfolders_too(tmp_path):
    for name in ("b/2.JPG", "a/9.png", "a/10.png", "a/readme.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = image_files(str(tmp_path))
    assert [one.relative_to(tmp_path).as_posix() for one in found] == [
        "a/10.png",
        "a/9.png",
        "b/2.JPG",
    ]


def test_folders_without_images(tmp_path):
    with pytest.raises(ValueError, match=r"folder must hold images, .*\.png.* has none"):
        image_files(tmp_path)
    with pytest.raises(NotADirectoryError, match="folder must be a folder of images; got"):
        image_files(tmp_path / "nowhere")


# ---- errors


@pytest.mark.parametrize(
    ("images", "shape", "error", "message"),
    [
        (FIRST[:0], None, ValueError, "X must hold at least one image; got an empty ndarray"),
        (Pairs([]), None, ValueError, "at least one image; got an empty Pairs"),
        ("folder", None, ValueError, r"the single path 'folder'.*image_files\(folder\)"),
        (BYTES[..., :2], None, ValueError, r"input_shape must be given.*shape \(6, 7, 2\)"),
        (BYTES[..., 0], None, ValueError, r"input_shape must be given.*shape \(6, 7\)"),
        (BYTES[:, :3], None, ValueError, r"input_shape must be given.*shape \(3, 7, 3\)"),
        (BYTES, (3, 8, 8), ValueError, r"X must hold images of input_shape=\(3, 8, 8\), or \(8, 8"),
        ([*BYTES[:2], BYTES[2, 1:]], None, ValueError, r"X\[2\] must .* got shape \(5, 7, 3\)"),
        ([BYTES[0], FIRST[1] / 255], None, ValueError, r"X\[1\] has float64 .* X\[0\] has uint8"),
        ([BYTES[0], 3], None, TypeError, r"X must hold images.*X\[1\] is an instance of int"),
        (Pairs([3]), None, TypeError, r"X must hold images: .*X\[0\] is an instance of int"),
        (BYTES.astype(str), None, ValueError, r"must hold real numbers; got dtype <U3"),
        (BYTES * 1j, None, ValueError, r"must hold real numbers; got dtype complex128"),
    ],
)
def test_what_cannot_be_used(images, shape, error, message):
    with pytest.raises(error, match=message):
        image_source(images, shape)[:]


def test_a_data_set_without_positions():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(TypeError, match=r"X must be a data set with a length.*of Stream"):
        image_source(Stream())


def test_values_that_are_not_finite():
    images = FIRST.astype(np.float32)
    images[3, 0, 0, 0] = np.nan
    for form in (images, list(images)):
        source = image_source(form)
        assert source[:3].shape == (3, 126)
        with pytest.raises(ValueError, match=r"finite values; X\[3\] has NaN or infinity"):
            source[2:5]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGBA"])
@pytest.mark.parametrize("shape", [None, (3, 6, 7)])
def test_modes_are_converted_where_nothing_is_lost(mode, shape):
    image = pytest.importorskip("PIL.Image")
    mixed = [*pictures()[:2], *(one.convert(mode) for one in pictures()[2:])]
    expected = [np.asarray(one.convert("RGB")) for one in mixed]
    assert_array_equal(image_source(mixed, shape)[:], image_source(np.stack(expected))[:])
    if mode == "LA":
        clear = image.new("LA", (7, 6), (9, 100))
        with pytest.raises(ValueError, match=r"X\[1\] .* 3 \(colour\); got 4 \(colour and transp"):
            image_source([mixed[0], clear], shape)[:]


def test_modes_that_lose_something():
    image = pytest.importorskip("PIL.Image")
    clear = pictures(mode="RGBA")[0]
    clear.putpixel((0, 0), (1, 2, 3, 254))
    assert image_source([clear]).input_shape == (4, 6, 7)
    assert_array_equal(image_source([clear, *pictures()])[1:].reshape(5, 4, 6, 7)[:, :3], FIRST)
    for images, shape, message in (
        ([clear], (3, 6, 7), r"X\[0\] must .* network, 3 \(colour\); got 4 \(colour and transpar"),
        (
            pictures(),
            (1, 6, 7),
            r"X\[0\] must .* network, 1 \(grey\); got 3 \(colour\), which cannot",
        ),
        (
            [pictures(mode="L")[0], pictures()[1]],
            None,
            r"X\[1\] .* 1 \(grey\); got 3 \(colour",
        ),
        (pictures(), (2, 6, 7), r"network, 2 \(unusual\); got 3 \(colour\)"),
    ):
        with pytest.raises(ValueError, match=message):
            image_source(images, shape)[:]
    for mode in ("CMYK", "I;16", "F"):
        with pytest.raises(ValueError, match=f"a grey or colour image of .*got mode {mode}"):
            image_source([image.new(mode, (7, 6))])


def test_damaged_and_missing_files(files, tmp_path):
    content = files[2].read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"no image at all"):
        files[2].write_bytes(damaged)
        with pytest.raises(
            ValueError, match=r"X\[2\], the file '.*2\.png', must be a grey or colour image"
        ):
            image_source(files)[:]
    with pytest.raises(FileNotFoundError, match=r"nowhere\.png"):
        image_source([tmp_path / "nowhere.png"])
    with pytest.raises(IsADirectoryError):
        image_source([tmp_path])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such paths")
@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_pipes_and_devices_are_no_images(kind, files, tmp_path):
    path = tmp_path / "0.jpg"
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    message = rf"X\[1\], the file '.*0\.jpg', must be a regular file; it is {kind}"
    with pytest.raises(ValueError, match=message):
        image_source([files[0], path])[:]


def test_only_the_documented_formats_are_tried(tmp_path, monkeypatch):
    eps = pytest.importorskip("PIL.EpsImagePlugin")
    started = []
    monkeypatch.setattr(eps, "Ghostscript", lambda *args, **_: started.append(args))
    path = tmp_path / "picture.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 7 6\n%%EndComments\nshowpage\n")
    with pytest.raises(
        ValueError, match=r"X\[0\], the file '.*picture\.png', must be .* image.*PNG"
    ):
        image_source([path])
    assert started == []


@pytest.mark.parametrize(
    "suffix", [".bmp", ".gif", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".webp"]
)
def test_every_documented_format_is_read(tmp_path, suffix):
    path = tmp_path / f"grey{suffix}"
    pictures(np.full((1, 6, 7), 200, np.uint8))[0].save(path)
    assert_array_equal(np.abs(image_source([path])[:].astype(int) - 200) <= 1, True)


def test_images_are_turned_upright(tmp_path):
    image = pytest.importorskip("PIL.Image")
    upright = pictures()[0]
    exif = image.Exif()
    exif[0x0112] = 6  # the camera was turned by a quarter
    path = tmp_path / "turned.png"
    upright.transpose(image.Transpose.ROTATE_90).save(path, exif=exif)
    for form in ([path], [image.open(path)]):
        assert_array_equal(image_source(form)[:], ROWS[:1])
    # Malformed data have no orientation.
    upright.info["exif"] = b"Exif\0\0nothing"
    assert_array_equal(image_source([upright])[:], ROWS[:1])


def test_pillow_is_needed_for_files_alone(monkeypatch, files):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "PIL.Image", raising=False)
    assert_array_equal(ImageSource(BYTES)[:], ROWS)
    assert_array_equal(ImageSource(list(BYTES))[:], ROWS)
    with pytest.raises(
        ImportError, match=r"PIL cannot be imported: .*; install it: .* pip install pillow"
    ):
        image_source(files)


# ---- other sizes and other channels


def gradient(height, width):
    """Return a colour image whose values rise along both axes."""
    rows, columns = np.mgrid[0:height, 0:width]
    image = np.stack([200 * rows / height, 200 * columns / width, 0 * rows + 50], axis=-1)
    return image.round().astype(np.uint8)


def test_photographs_of_any_size_are_scaled_and_cut(tmp_path):
    image = pytest.importorskip("PIL.Image")
    arrays = [gradient(60, 40), gradient(30, 90), gradient(12, 12), gradient(9, 11)]
    paths = [tmp_path / f"{k}.png" for k in range(4)]
    for path, array in zip(paths, arrays, strict=True):
        image.fromarray(array).save(path)
    expected = image_source(arrays, (3, 8, 8), 10)[:]
    assert expected.shape == (4, 192)
    assert expected.dtype == np.uint8
    assert_array_equal(image_source(paths, (3, 8, 8), 10)[:], expected)
    assert_array_equal(image_source([image.open(one) for one in paths], (3, 8, 8), 10)[:], expected)
    first = [torch.from_numpy(one).movedim(-1, 0) for one in arrays]
    assert_array_equal(image_source(first, (3, 8, 8), 10)[:], expected)
    # An image of the right size is scaled like the others.
    assert_array_equal(image_source(np.stack([arrays[2]] * 2), (3, 8, 8), 10)[:], expected[[2, 2]])
    # The centre has the mean colour, and an axis of n pixels loses the same share on both sides.
    pixels = expected.reshape(4, 3, 8, 8).astype(float)
    assert np.abs(pixels[:, :2].mean(axis=(2, 3)) - 100).max() < 12
    assert image_source(arrays, None, 10).input_shape == (3, 10, 10)


def test_scaling_has_no_aliases_and_keeps_what_has_the_size():
    stripes = np.zeros((1, 3, 64, 64))
    stripes[..., ::2] = 1.0
    small = image_source(stripes, (3, 8, 8), 8)[:]
    assert np.abs(small - 0.5).max() < 0.03
    assert_array_equal(image_source(BYTES, (3, 6, 6), 6)[:], FIRST[..., :6].reshape(5, -1))


@pytest.mark.parametrize("side", [1, 3])
def test_one_image_without_an_axis_of_samples_is_no_set_of_images(side):
    with pytest.raises(ValueError, match=rf"shape \(9, {side}\)"):
        image_source(np.zeros((9, 9, side)), (3, 8, 8), 8)[:]


@pytest.mark.parametrize("resize", [None, 7])
def test_grey_and_opaque_images_become_those_of_a_colour_network(resize):
    shape = (3, 6, 7)
    grey = BYTES[..., 0]
    for form in (grey, grey[:, None], grey[..., None], list(grey), list(torch.from_numpy(grey))):
        expected = np.repeat(grey[:, None], 3, axis=1)
        expected_rows = image_source(expected, shape, resize)[:]
        assert_array_equal(image_source(form, shape, resize)[:], expected_rows)
    opaque = np.concatenate([BYTES, np.full_like(BYTES[..., :1], 255)], axis=-1)
    expected = image_source(BYTES, shape, resize)[:]
    for form in (opaque, opaque.transpose(0, 3, 1, 2), list(opaque)):
        assert_array_equal(image_source(form, shape, resize)[:], expected)
    expected = image_source(BYTES / 255, shape, resize)[:]
    assert_array_equal(image_source(opaque / 255, shape, resize)[:], expected)


def test_channels_that_cannot_be_converted_are_named():
    clear = np.concatenate([BYTES, BYTES[..., :1]], axis=-1)
    message = r"X.* channels are those of the network, 3 \(colour\); got 4 \(colour and transparen"
    for form in (clear, list(clear)):
        with pytest.raises(ValueError, match=message):
            image_source(form, (3, 6, 7))[:]
    with pytest.raises(ValueError, match=r"network, 1 \(grey\); got 3 \(colour\), which cannot"):
        image_source(BYTES, (1, 6, 7))[:]


def test_fit_transform_validates_the_images_once():
    class Counted(list):
        """Images that count how often the first image is read."""

        n_reads = 0

        def __getitem__(self, index):
            self.n_reads += index == 0
            return super().__getitem__(index)

    images = Counted(BYTES)
    network = torch.nn.Flatten()
    features = TorchFeatureExtractor(network, weights={}).fit_transform(images)
    assert_array_equal(features, BYTES.transpose(0, 3, 1, 2).reshape(len(BYTES), -1))
    # Whether it is an image, its shape, the probe and the features.
    assert images.n_reads == 4
