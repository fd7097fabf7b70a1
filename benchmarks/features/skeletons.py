"""Compare descriptors of skeleton sequences on training people who are left out in turn.

SBU leaves out each fold over pairs of people, FPHA each person of the training sequences. With
--test the test sequences are scored instead. Classes arrive as in the other tables.

    python -m benchmarks.features.skeletons --out skeletons.md skeletons.csv
    python -m benchmarks.features.skeletons --sets sbu fpha --candidates default --test
"""

import sys

import numpy as np
from sklearn.pipeline import make_union

from benchmarks.lib.data import read_arrays, test_masks
from benchmarks.lib.report import command_line, page, run_and_publish, table
from benchmarks.paper.data_sets import ROOTS, on_one_scale
from ffnb_sklearn import FFNBClassifier, SkeletonDescriptor

CLASSES_PER_TASK = {"sbu": 1, "fpha": 5}
SPEEDS = ("speed", "distance_speed")

# Label, and parameters of the descriptors that stand side by side.
CANDIDATES = {
    "default": ("default", [{}]),
    "ordered": ("ordered persons", [{"persons": "ordered"}]),
    "no-duration": ("without the duration", [{"blocks": SkeletonDescriptor().blocks[:-1]}]),
    "speeds": (
        "velocities over 2, 4, 8 and 16 frames",
        [{}, *({"blocks": SPEEDS, "half_window": h} for h in (1, 4, 8))],
    ),
    "pyramid": ("1, 2, 4 and 8 chunks", [{"n_chunks": n} for n in (8, 1, 2, 4)]),
}


def load(folder, name):
    """Read the sequences of a set in one unit on all axes.

    Returns
    -------
    sequences : list of ndarray
        Joints of each sequence.
    y, groups : ndarray of shape (n_sequences,)
        Labels, and groups to leave out: SBU's folds over pairs of people, FPHA's people.
    tests : dict of str -> ndarray of bool
        Test sequences by name of the split.
    """
    arrays = read_arrays(folder / f"{name}.npz")
    sequences = np.split(on_one_scale(arrays["joints"], name), arrays["offsets"][1:-1])
    groups = arrays["fold" if name == "sbu" else "subject"]
    return sequences, arrays["label"], groups, test_masks(arrays, name)


def masks(groups, tests, *, test):
    """Yield name, learned and scored sequences: test ones, or training groups left out."""
    for split, tested in tests.items():
        if test:
            yield split, ~tested, tested
            continue
        for group in np.unique(groups[~tested]):
            scored = ~tested & (groups == group)
            yield f"{split}, {group} left out", ~tested & ~scored, scored


def run(options):
    """Return the accuracy of every candidate on every split and seed."""
    records = []
    for name in options.sets:
        sequences, y, groups, tests = load(options.data, name)
        for candidate in options.candidates:
            if candidate == "ordered" and name != "sbu":
                continue  # one person
            descriptors = [
                SkeletonDescriptor(root=ROOTS[name], **one) for one in CANDIDATES[candidate][1]
            ]
            # A descriptor learns only the shape of the sequences.
            X = make_union(*descriptors).fit_transform(sequences)
            known = {}
            for seed in options.seeds:
                for split, learned, scored in masks(groups, tests, test=options.test):
                    # Two test folds share the models of which both are left out.
                    key = seed, learned.tobytes()
                    if key not in known:
                        clf = FFNBClassifier(
                            classes_per_task=CLASSES_PER_TASK[name], random_state=seed
                        )
                        known[key] = clf.fit(X[learned], y[learned])
                    right = known[key].predict(X[scored]) == y[scored]
                    keys = {"set": name, "candidate": candidate, "split": split, "seed": seed}
                    figures = {"width": X.shape[1], "n": len(right), "right": int(right.sum())}
                    records.append(keys | figures)
            print(name, candidate, file=sys.stderr, flush=True)
    return records


def report(records, options, environment):
    """Return the page as Markdown."""
    scored = "test sequences" if options.test else "people left out of the training sequences"
    notes = [
        f"accuracy in percent on {scored}, mean over seeds {', '.join(map(str, options.seeds))} ± "
        "its standard deviation",
        "SBU: the five folds of the file, one class per task; FPHA: the official split, five "
        "classes per task; SkeletonDescriptor() with the torso or the wrist as root, several of "
        "them side by side where stated; FFNBClassifier()",
    ]
    rows = []
    for name, candidate in dict.fromkeys((one["set"], one["candidate"]) for one in records):
        own = [one for one in records if (one["set"], one["candidate"]) == (name, candidate)]
        shares = [
            100.0
            * sum(one["right"] for one in own if one["seed"] == seed)
            / sum(one["n"] for one in own if one["seed"] == seed)
            for seed in options.seeds
        ]
        spread = f"{np.mean(shares):.2f} ± {np.std(shares):.2f}"
        rows.append([name, CANDIDATES[candidate][0], own[0]["width"], spread])
    columns = ["set", "candidate", "width", "accuracy %"]
    return page("Descriptors of skeleton sequences", environment, notes, table(columns, rows))


def main(arguments=None):
    """Run the comparison and print its report."""
    parser = command_line(__doc__, data=True)
    add = parser.add_argument
    add("--sets", nargs="+", choices=list(CLASSES_PER_TASK), default=list(CLASSES_PER_TASK))
    add("--candidates", nargs="+", choices=list(CANDIDATES), default=list(CANDIDATES))
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add("--test", action="store_true", help="score the test sequences")
    run_and_publish(run, report, parser.parse_args(arguments))


if __name__ == "__main__":
    main()
