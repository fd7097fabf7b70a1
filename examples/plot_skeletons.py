"""
Learn actions of two persons from raw skeleton files
====================================================

The SBU Kinect Interaction data set contains sequences of two persons who kick, hug or shake hands,
with one text file per sequence. :func:`~ffnb_sklearn.datasets.load_sbu` reads these files,
:class:`~ffnb_sklearn.SkeletonDescriptor` turns sequences of any length into rows, and
``IncrementalDiscriminantAnalysis`` learns one action after the other.

If you have the data set, pass its folder; ``--picture`` saves the picture instead of showing it::

    python examples/plot_skeletons.py --data SBU_FOLDER --picture skeletons.png

Without the data set, the script simulates the eight actions with jointed dolls, writes them to a
temporary folder in the format of the data set, and reads them from there. The accuracy then shows
that all parts work together; it does not predict the accuracy on real actions.
"""

import argparse
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from ffnb_sklearn import (
    AccuracyMatrixDisplay,
    IncrementalDiscriminantAnalysis,
    SkeletonDescriptor,
    evaluate_stream,
    make_continual_pipeline,
)
from ffnb_sklearn.datasets import load_sbu

parser = argparse.ArgumentParser(description="Learn actions from raw skeleton files.")
parser.add_argument("--data", help="folder of the SBU data set; by default, scenes are acted")
parser.add_argument("--picture", help="file to save the picture to; by default, it is shown")
options = parser.parse_args()

# %%
# The dolls
# ---------
# The array holds the 15 joints of a standing doll, in millimetres: x points to the partner, y up
# and z to the side. An action moves some joints there and back, and moves the dolls towards or away
# from each other.

DOLL = np.array(
    [
        *[(0, 700, 0), (0, 500, 0), (0, 250, 0)],  # head, neck, torso
        *[(0, 450, -180), (0, 200, -230), (0, -50, -250)],  # left shoulder, elbow, hand
        *[(0, 450, 180), (0, 200, 230), (0, -50, 250)],  # right shoulder, elbow, hand
        *[(0, 0, -100), (0, -420, -110), (0, -850, -120)],  # left hip, knee, foot
        *[(0, 0, 100), (0, -420, 110), (0, -850, 120)],  # right hip, knee, foot
    ],
    dtype=float,
)
BONES = [(0, 1), (1, 2), (1, 3), (3, 4), (4, 5), (1, 6), (6, 7), (7, 8)]
BONES += [(2, 9), (9, 10), (10, 11), (2, 12), (12, 13), (13, 14)]

REACH = {7: (200, 130, -60), 8: (450, 330, -180)}  # the right elbow and hand
BOTH = REACH | {4: (200, 130, 60), 5: (450, 330, 180)}  # and the left ones
PUNCH = {7: (300, 250, -60), 8: (650, 600, -200)}
KICK = {13: (350, 250, 0), 14: (700, 550, 0)}  # the right knee and foot

# Gap between the dolls in millimetres, at the start and at the height of the action; moves of both
# dolls; begin and end of the action, as shares of the sequence. An action with an end of 2 reaches
# its height at the end of the sequence.
SCENES = {
    "approaching": (1900, 900, {}, {}, 0.0, 2.0),
    "departing": (900, 1900, {}, {}, 0.0, 2.0),
    "kicking": (1000, 1100, KICK, {}, 0.3, 0.7),
    "pushing": (900, 1300, BOTH, {}, 0.1, 1.3),
    "shaking_hands": (1000, 1000, REACH, REACH, 0.1, 0.9),
    "hugging": (1000, 350, BOTH, BOTH, 0.1, 0.9),
    "exchanging": (1000, 1000, BOTH, REACH, 0.1, 0.9),
    "punching": (950, 1050, PUNCH, {}, 0.3, 0.7),
}

# Millimetres per unit of the files, and the origin of the files in the coordinates of the dolls.
UNIT = np.array([-2560.0, -1920.0, 10000 / 7.8125])
ORIGIN = np.array([1280.0, 960.0, -2300.0])


def act(scene, rng):
    """Return one performance with random variations, of shape (n_frames, 2, 15, 3)."""
    gap, gap_at_height, actor, partner, begin, end = scene
    t = np.linspace(0, 1, rng.integers(14, 36)) + rng.normal(scale=0.05)
    height = np.sin(0.5 * np.pi * np.clip(2 * (t - begin) / (end - begin), 0, 2)) ** 2
    half_gap = 0.5 * (gap + height * (gap_at_height - gap)) + rng.normal(scale=40)
    dolls = np.empty((len(t), 2, 15, 3))
    for person, moves in enumerate((actor, partner)):
        doll = np.repeat(DOLL[None], len(t), axis=0)
        for joint, move in moves.items():
            doll[:, joint] += rng.uniform(0.1, 1.1) * height[:, None] * np.array(move)
        doll *= rng.uniform(0.9, 1.1)
        doll[:, :, 0] -= half_gap[:, None]
        # The partner is the actor turned around.
        dolls[:, person] = doll * ([1, 1, 1], [-1, 1, -1])[person]
    return dolls + rng.normal(scale=40, size=dolls.shape)


def write_raw_files(folder, pairs, n_repeats, rng):
    """Write performances as ``<pair>/<class>/<run>/skeleton_pos.txt``."""
    for pair in pairs:
        for label, scene in enumerate(SCENES.values(), start=1):
            for run in range(1, n_repeats + 1):
                # Convert millimetres to the fractions of an image that the files contain.
                frames = (act(scene, rng) - ORIGIN) / UNIT
                place = Path(folder, pair, f"{label:02d}", f"{run:03d}")
                place.mkdir(parents=True)
                table = np.column_stack([np.arange(len(frames)), frames.reshape(len(frames), -1)])
                formats = ["%d"] + ["%.5f"] * 90
                np.savetxt(
                    place / "skeleton_pos.txt", table, formats, delimiter=",", newline="\r\n"
                )


# %%
# Read the files
# --------------
# The pairs of the last fold of the official protocol are for testing, all other pairs for training.

if options.data:
    actions = load_sbu(options.data, coordinates="original")
else:
    pairs = ["s01s02", "s02s03", "s01s03", "s02s01", "s04s02", "s04s03"]
    with tempfile.TemporaryDirectory() as folder:
        write_raw_files(folder, pairs, n_repeats=4, rng=np.random.default_rng(0))
        actions = load_sbu(folder, pairs=pairs, coordinates="original")

test = actions.fold == 4
train, test = np.flatnonzero(~test), np.flatnonzero(test)
sequences = [[actions.data[i] for i in part] for part in (train, test)]
n_frames = [len(sequence) for sequence in actions.data]
print(f"sequences              {len(train)} to learn, {len(test)} to test")
print(f"frames per sequence    {min(n_frames)} to {max(n_frames)}")

# %%
# Learn one action after the other
# --------------------------------

learner = make_continual_pipeline(
    SkeletonDescriptor(root=2), IncrementalDiscriminantAnalysis(random_state=0)
)
result = evaluate_stream(
    learner,
    *(sequences[0], actions.target[train]),
    *(sequences[1], actions.target[test]),
    classes_per_task=1,
)
print(f"final accuracy         {100 * result.final_accuracy:.1f} %")
print(f"average incremental    {100 * result.average_incremental_accuracy:.1f} %")

# %%
# The actions
# -----------
# The picture shows the middle frame of one sequence of each action.

names = [name.replace("_", " ") for name in actions.target_names]
_, axes = plt.subplots(2, 4, figsize=(6.4, 4.2), layout="constrained")
for label, (name, ax) in enumerate(zip(names, axes.flat, strict=True)):
    sequence = actions.data[np.flatnonzero(actions.target == label)[0]]
    for joints, color in zip(sequence[len(sequence) // 2], ("#0072B2", "#D55E00"), strict=True):
        for bone in BONES:
            ax.plot(joints[list(bone), 0], joints[list(bone), 1], color=color, linewidth=2)
        ax.plot(*joints[0, :2], marker="o", markersize=9, color=color)
    ax.set(title=name, xlim=(-1150, 1150), ylim=(-1400, 1000), aspect="equal")
    ax.axis("off")

# %%
# Accuracy on each action after each task
# ---------------------------------------

figure, ax = plt.subplots(figsize=(6.4, 5.4), layout="constrained")
style = {"colorbar": False, "values_format": ".0f"}
AccuracyMatrixDisplay.from_stream(result, task_labels=names, ax=ax, **style)
ax.set_title("Accuracy on each action, in %")

if options.picture:
    figure.savefig(options.picture, dpi=110)
else:
    plt.show()
