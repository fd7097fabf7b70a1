from itertools import pairwise

import numpy as np
import pytest

from ffnb_sklearn.datasets import load_sbu


def write_sequence(folder, frames, first_frame=55):
    """Write one sequence as released: commas, CRLF, the frame number first."""
    folder.mkdir(parents=True)
    lines = [
        f"{first_frame + i}," + ",".join(str(value) for value in frame.ravel())
        for i, frame in enumerate(frames)
    ]
    (folder / "skeleton_pos.txt").write_bytes("\r\n".join([*lines, ""]).encode())


@pytest.fixture
def tree(tmp_path):
    rng = np.random.default_rng(0)
    frames = {
        ("s03s04", "02", "001"): rng.random((4, 2, 15, 3)).round(5),
        ("s01s02", "08", "002"): rng.random((3, 2, 15, 3)).round(5),
        ("s01s02", "08", "001"): rng.random((5, 2, 15, 3)).round(5),
        ("s06s03", "01", "001"): rng.random((2, 2, 15, 3)).round(5),
    }
    for place, sequence in frames.items():
        write_sequence(tmp_path.joinpath(*place), sequence)
    return tmp_path, frames


PAIRS = ["s06s03", "s01s02", "s03s04"]


def test_reads_the_tree(tree):
    folder, frames = tree
    bunch = load_sbu(str(folder), pairs=PAIRS)
    assert len(bunch.data) == 4
    for sequence, place in zip(bunch.data, sorted(frames), strict=True):
        np.testing.assert_array_equal(sequence, frames[place])
    assert bunch.target.tolist() == [7, 7, 1, 0]
    assert [bunch.target_names[i] for i in (0, 7)] == ["approaching", "punching"]
    assert bunch.pair.tolist() == ["s01s02", "s01s02", "s03s04", "s06s03"]
    assert bunch.fold.tolist() == [0, 0, 0, 4]
    assert bunch.filenames[1] == str(folder / "s01s02" / "08" / "002" / "skeleton_pos.txt")
    assert "Yun" in bunch.DESCR
    assert "Licence" in bunch.DESCR


def test_original_coordinates(tree):
    folder, frames = tree
    bunch = load_sbu(folder, pairs=["s06s03"], coordinates="original")
    x, y, z = np.moveaxis(frames["s06s03", "01", "001"], -1, 0)
    expected = np.stack([1280 - 2560 * x, 960 - 1920 * y, z * 10000 / 7.8125], axis=-1)
    np.testing.assert_allclose(bunch.data[0], expected, rtol=1e-14)


def test_hidden_folders_and_images_are_passed_over(tree):
    folder, _ = tree
    (folder / "s03s04" / "__MACOSX").mkdir()
    (folder / "s03s04" / ".cache").mkdir()
    (folder / "s03s04" / "02" / "001" / "rgb_000055.png").touch()
    assert len(load_sbu(folder, pairs=["s03s04"]).data) == 1


def test_every_pair_is_expected_by_default(tree):
    with pytest.raises(FileNotFoundError, match=r"s01s03: no <class 01..08>/<sequence> folder"):
        load_sbu(tree[0])


def test_missing_files(tree):
    folder, _ = tree
    with pytest.raises(FileNotFoundError, match="data_home must be an existing folder"):
        load_sbu(folder / "absent")
    file = folder / "s03s04" / "02" / "001" / "skeleton_pos.txt"
    file.unlink()
    with pytest.raises(FileNotFoundError) as error:
        load_sbu(folder, pairs=["s03s04"])
    assert str(error.value).startswith(f"{file}: no such file")
    (folder / "s02s01").mkdir()
    with pytest.raises(FileNotFoundError, match=r"s02s01: no <class 01..08>/<sequence> folder"):
        load_sbu(folder, pairs=["s02s01"])


def test_malformed_line(tree):
    folder, _ = tree
    file = folder / "s03s04" / "02" / "001" / "skeleton_pos.txt"
    lines = file.read_bytes().split(b"\r\n")
    lines[2] = lines[2].rsplit(b",", 1)[0]
    file.write_bytes(b"\r\n".join(lines))
    with pytest.raises(ValueError, match="expected 91 values, got 90") as error:
        load_sbu(folder, pairs=["s03s04"])
    assert str(error.value).startswith(f"{file}, line 3: ")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"coordinates": "pixels"}, "coordinates must be 'normalized' or 'original'"),
        ({"pairs": ["s01s01"]}, r"pairs must name some of .* got \['s01s01'\]"),
        ({"pairs": []}, r"pairs must name some of .* got \[\]"),
    ],
)
def test_wrong_parameters(tree, parameters, message):
    with pytest.raises(ValueError, match=message):
        load_sbu(tree[0], **parameters)


def test_the_whole_release_reads_back(shared_data, tmp_path):
    released = dict(np.load(shared_data / "sbu.npz"))
    offsets = released["offsets"]
    for i, (start, stop) in enumerate(pairwise(offsets)):
        label = f"{released['label'][i] + 1:02d}"
        folder = tmp_path / released["pair"][i] / label / released["sequence"][i]
        write_sequence(folder, released["joints"][start:stop], released["frame_no"][start])
    bunch = load_sbu(tmp_path)
    np.testing.assert_array_equal(np.concatenate(bunch.data).astype(np.float32), released["joints"])
    np.testing.assert_array_equal([len(s) for s in bunch.data], np.diff(offsets))
    np.testing.assert_array_equal(bunch.target, released["label"])
    np.testing.assert_array_equal(bunch.fold, released["fold"])
    np.testing.assert_array_equal(bunch.pair, released["pair"])
