import tracemalloc

import numpy as np
import pytest

from ffnb_sklearn.datasets import load_cifar100, load_fpha, load_sbu
from ffnb_sklearn.datasets._base import read_frames, require_file


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
        (b"0 1 2 3\n1 1 2 3 4\n", 2, "expected 4 values, got more"),
        (b"0 1 2 3\n\n \n1 1 2 3\n", 2, "expected values, got a blank line"),
        (b"0 1 2 3\n1 1 2 x\n", 2, "expected a number, got 'x'"),
        (b"0 1 2 3\n1 1 2 \xff\n", 2, r"expected a number, got '\\xff'"),
        (b"0 1 2 3\n1 1_0 2 3\n", 2, "expected a number, got '1_0'"),
        (b"0 1 2 3\n1 1 2 " + b"\xff" * 10**4, 2, "of length 10000"),
        (b"0 1 2 3\n1 1 2 " + b"\xff" * 10**6, 2, "expected fewer than 65536 bytes"),
        (b"0 1 2 3\n" + b"1 " * 10**5, 2, "expected fewer than 65536 bytes"),
        (b"0 1 2 3\n" + b"1 " * 10**4, 2, "expected 4 values, got more"),
        (b"0 1 2 3\n1 1 2 1e101\n", 2, r"finite values up to 1e\+100, got 1e\+101"),
        (b"0 1 2 3\n1 -1e306 2 1\n", 2, r"finite values up to 1e\+100, got -1e\+306"),
        (b"0 1 2 3\n1 " + b"9" * 5000 + b" 2 1\n", 2, "finite values up to .*, got inf"),
        (b"0 1 2 3\n1 1 2 3\n2 1 nan 3\n", 3, "finite"),
        (b"0 1 2 inf\n", 1, "finite"),
        (b"0 1 2 3\n.5 1 2 3\n", 2, "expected an integer frame number, got 0.5"),
        (b"3 1 2 3\n3 1 2 3\n", 2, "frame number 3 does not exceed 3"),
        (b"1e99 1 2 3\n3 1 2 3\n", 2, r"frame number 3 does not exceed 1e\+99"),
    ],
)
def test_malformed_file_is_named_with_its_line(tmp_path, content, line, message):
    path = write(tmp_path, content)
    with pytest.raises(ValueError, match=message) as error:
        read_frames(path, (1, 3))
    assert str(error.value).startswith(f"{path}, line {line}: ")
    assert len(str(error.value)) < len(str(path)) + 1000


def test_a_large_file_of_something_else_is_not_read_whole(tmp_path):
    path = tmp_path / "frames.txt"
    with path.open("wb") as file:
        file.write(b"0 1 2 3\n")
        file.truncate(300_000_000)
    tracemalloc.start()
    with pytest.raises(ValueError, match="line 2: expected fewer than 65536 bytes"):
        read_frames(path, (1, 3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6


@pytest.mark.parametrize("load", [load_cifar100, load_fpha, load_sbu])
@pytest.mark.parametrize("folder", ["~nobody-of-this-name/x", "x" * 10**5, "x/" * 10**5, "a\0b"])
def test_folders_that_cannot_be(load, folder):
    with pytest.raises(FileNotFoundError, match="data_home must be an existing") as error:
        load(folder)
    assert len(str(error.value)) < 1200


@pytest.mark.parametrize("name", ["~nobody-of-this-name/x", "x" * 10**5])
def test_split_files_that_cannot_be(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=r"split.file") as error:
        load_fpha(tmp_path, split_file=name)
    assert len(str(error.value)) < 1200


def test_a_path_that_is_too_long_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file; a reason"):
        require_file(tmp_path / ("x" * 300), "a reason")


def test_separator_is_required(tmp_path):
    path = write(tmp_path, b"0,1,2,3\n1 1 2 3\n")
    with pytest.raises(ValueError, match="line 2: expected 4 values, got 1"):
        read_frames(path, (1, 3), separator=b",")
