import numpy as np
import pytest

from ffnb_sklearn.datasets import load_fpha

SPLIT = """\
Training 3
Subject_1/open_jar/2 0
Subject_2/open_jar/1 0
Subject_2/pour_milk/1 1
Test 2
Subject_1/open_jar/1 0
Subject_6/pour_milk/3 1
"""
PATHS = [line.split()[0] for line in SPLIT.splitlines() if "/" in line]


def write_sequence(folder, frames):
    """Write one sequence as released: blanks, the frame number first, from 0."""
    folder.mkdir(parents=True)
    lines = [
        " ".join([str(i), *(str(value) for value in frame.ravel())])
        for i, frame in enumerate(frames)
    ]
    (folder / "skeleton.txt").write_text("\n".join([*lines, ""]))


@pytest.fixture
def tree(tmp_path):
    rng = np.random.default_rng(0)
    frames = [rng.normal(scale=100, size=(3 + i, 21, 3)).round(4) for i in range(len(PATHS))]
    for path, sequence in zip(PATHS, frames, strict=True):
        write_sequence(tmp_path / path, sequence)
    (tmp_path / "data_split_action_recognition.txt").write_text(SPLIT)
    return tmp_path, frames


def test_reads_the_tree_in_the_order_of_the_split(tree):
    folder, frames = tree
    bunch = load_fpha(str(folder))
    for read, written in zip(bunch.data, frames, strict=True):
        np.testing.assert_array_equal(read, written)
    assert bunch.target.tolist() == [0, 0, 1, 0, 1]
    assert bunch.target_names == ["open_jar", "pour_milk"]
    assert bunch.train.tolist() == [True, True, True, False, False]
    assert bunch.subject.tolist() == [1, 2, 2, 1, 6]
    assert bunch.filenames[0] == str(folder / "Subject_1" / "open_jar" / "2" / "skeleton.txt")
    assert "Garcia-Hernando" in bunch.DESCR
    assert "Licence" in bunch.DESCR


def test_released_parent_folder(tree, tmp_path_factory):
    folder, frames = tree
    release = tmp_path_factory.mktemp("release")
    (release / "Hand_pose_annotation_v1").symlink_to(folder)
    split = "data_split_action_recognition.txt"
    (folder / split).rename(release / split)
    np.testing.assert_array_equal(load_fpha(release).data[4], frames[4])


def test_missing_files(tree):
    folder, _ = tree
    gone = folder / PATHS[2] / "skeleton.txt"
    gone.unlink()
    split = folder / "data_split_action_recognition.txt"
    with pytest.raises(FileNotFoundError) as error:
        load_fpha(folder)
    assert str(error.value) == f"{gone}: no such file; line 4 of {split} lists it."
    split.unlink()
    with pytest.raises(FileNotFoundError, match="expected the official split file"):
        load_fpha(folder)
    with pytest.raises(FileNotFoundError, match="data_home must be an existing folder"):
        load_fpha(folder / "absent")


def test_malformed_sequence(tree):
    folder, _ = tree
    file = folder / PATHS[0] / "skeleton.txt"
    file.write_text(file.read_text().replace("\n2 ", "\n2 0 "))
    with pytest.raises(ValueError, match="expected 64 values, got 65") as error:
        load_fpha(folder)
    assert str(error.value).startswith(f"{file}, line 3: ")


ENTRY = "expected .* or 'Subject_<k>/<action>/<n> <label>', got"


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("Training 3\n", "", ", line 1", "expected 'Training <count>', .*got 'Subject_1/open_jar"),
        ("Training 3", "Training three", ", line 1", "expected 'Training <count>'"),
        ("Training 3", "Training_3" * 10**3, ", line 1", "of length 10000"),
        ("Subject_1/open_jar/2 0", "Subject_1/open_jar/2", ", line 2", ENTRY),
        ("Subject_1/open_jar/2 0", "", ", line 2", ENTRY + " ''"),
        ("Subject_1/open_jar/2 0", "Subject_1/open_jar/2 -1", ", line 2", ENTRY),
        ("Subject_1/open_jar/2 0", "Subject_1/../2 0", ", line 2", ENTRY),
        ("Subject_1/open_jar/2 0", f"Subject_{'9' * 5000}/a/2 0", ", line 2", "of length 5014"),
        ("Subject_2/pour_milk/1 1", "Subject_2/pour_milk/1 0", ", line 4", "'open_jar' above"),
        ("Training 3", "Training 4", "", "announce .*'Training': 4, .* list .*'Training': 3"),
        ("Test 2\n", "", "", "announce {'Training': 3}, the lines list {'Training': 5, 'Test': 0}"),
        ("/3 1", "/3 9", "", r"labels must be 0, 1, ... without a gap, got \[0, 1, 9\]"),
    ],
)
def test_malformed_split_is_named_with_its_line(tree, old, new, place, message):
    folder, _ = tree
    split = folder / "data_split_action_recognition.txt"
    assert old in SPLIT
    split.write_text(SPLIT.replace(old, new, 1))
    with pytest.raises(ValueError, match=message) as error:
        load_fpha(folder)
    assert str(error.value).startswith(f"{split}{place}: ")
    assert len(str(error.value)) < len(str(split)) + 1000


def test_released_sequences_read_back(shared_data, tmp_path):
    released = dict(np.load(shared_data / "fpha.npz"))
    official = (shared_data / "fpha_data_split_action_recognition.txt").read_text()
    offsets = released["offsets"]
    for i, path in enumerate(released["path"]):
        # Two frames of each keep the test short; the first sequence is written in full.
        stop = offsets[i + 1] if i == 0 else offsets[i] + 2
        write_sequence(tmp_path / path, released["joints"][offsets[i] : stop])
    (tmp_path / "data_split_action_recognition.txt").write_text(official)
    bunch = load_fpha(tmp_path)
    for i, sequence in enumerate(bunch.data):
        expected = released["joints"][offsets[i] : offsets[i] + len(sequence)]
        np.testing.assert_array_equal(sequence.astype(np.float32), expected)
    assert len(bunch.data[0]) == offsets[1]
    np.testing.assert_array_equal(bunch.target, released["label"])
    np.testing.assert_array_equal(bunch.train, released["split"] == 0)
    np.testing.assert_array_equal(bunch.subject, released["subject"])
    assert bunch.target_names == released["class_names"].tolist()
