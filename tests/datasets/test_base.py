import numpy as np
import pytest

from ffnb_sklearn.datasets import load_cifar100, load_fpha, load_sbu
from ffnb_sklearn.datasets._base import read_frames


def write(tmp_path, content):
    path = tmp_path / "frames.txt"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_values_shape_and_line_ends(tmp_path, end):
    path = write(tmp_path, end.join([b"7 1 2 3 4 5 6", b"9 .5 -1e-3 0 0 0 -0.0", b"", b" "]))
    frames = read_frames(path, (2, 3))
    assert frames.dtype == np.float64
    assert frames.flags.c_contiguous
    np.testing.assert_array_equal(frames[0], [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(frames[1], [[0.5, -1e-3, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"", 1, "the file is empty"),
        (b"\r\n \r\n", 1, "the file is empty"),
        (b"0 1 2 3\n1 1 2\n", 2, "expected 4 values, got 3"),
        (b"0 1 2 3\n1 1 2 3 4\n", 2, "expected 4 values, got 5"),
        (b"0 1 2 3\n\n \n1 1 2 3\n", 2, "expected 4 values, got 0"),
        (b"0 1 2 3\n1 1 2 x\n", 2, "could not convert string to float: b'x'"),
        (b"0 1 2 3\n1 1 2 \xff\n", 2, "could not convert"),
        (b"0 1 2 3\n1 1 2 3\n2 1 nan 3\n", 3, "finite"),
        (b"0 1 2 inf\n", 1, "finite"),
    ],
)
def test_malformed_file_is_named_with_its_line(tmp_path, content, line, message):
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match=message) as error:
        read_frames(path, (1, 3))
    assert str(error.value).startswith(f"{path}, line {line}: ")


def test_separator_is_required(tmp_path):
    path = write(tmp_path, b"0,1,2,3\n1 1 2 3\n")
    with pytest.raises(ValueError, match="line 2: expected 4 values, got 1"):
        read_frames(path, (1, 3), separator=b",")


@pytest.mark.parametrize("load", [load_cifar100, load_fpha, load_sbu])
def test_a_folder_that_is_missing(load, tmp_path):
    with pytest.raises(FileNotFoundError, match="data_home must be an existing folder"):
        load(tmp_path / "no")
