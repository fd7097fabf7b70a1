"""Choose the descriptor of skeleton sequences on training people, and test the choice once.

SBU has five folds over pairs of people: for each test fold, the candidate is taken that is best on
the four others, each of which is left out in turn. FPHA has one split: the people of its training
sequences are left out in turn. Test sequences are scored with the chosen candidate alone. Classes
arrive as in the other tables. Run from anywhere:

    python benchmarks/skeletons.py --out skeletons.md skeletons.csv
    python benchmarks/skeletons.py --sets sbu --candidates default ordered
"""

import sys
from dataclasses import dataclass
from statistics import mean

import numpy as np
from _data import read_arrays, test_masks
from _paper_features import ROOTS, on_one_scale
from _report import command_line, run_and_publish
from sklearn.pipeline import make_union

from ffnb_sklearn import FFNBClassifier, SkeletonDescriptor, evaluate_stream

CLASSES_PER_TASK = {"sbu": 1, "fpha": 5}
SPEEDS = ("speed", "distance_speed")


@dataclass(frozen=True)
class Candidate:
    """A row of the table: descriptors side by side, and parameters of the classifier."""

    label: str
    descriptors: tuple = ({},)
    classifier: tuple = ()
    sets: tuple = ("sbu", "fpha")


CANDIDATES = {
    "default": Candidate("default"),
    "ordered": Candidate("ordered persons", ({"persons": "ordered"},), sets=("sbu",)),
    "no-duration": Candidate(
        "without the duration", ({"blocks": SkeletonDescriptor().blocks[:-1]},)
    ),
    "speeds": Candidate(
        "velocities over 2, 4, 8 and 16 frames",
        ({}, *({"blocks": SPEEDS, "half_window": h} for h in (1, 4, 8))),
    ),
    "pyramid": Candidate("1, 2, 4 and 8 chunks", tuple({"n_chunks": n} for n in (8, 1, 2, 4))),
    "pairs": Candidate("default, classifier='ovo'", classifier=(("classifier", "ovo"),)),
}


@dataclass(frozen=True)
class Sequences:
    """Sequences of a set with their labels, the groups to leave out, and the test masks."""

    name: str
    sequences: list
    y: np.ndarray
    groups: np.ndarray
    tests: dict


def load(folder, name):
    """Read the sequences of a set, in one unit on all axes.

    Parameters
    ----------
    folder : Path
        Folder of the data files.
    name : {"sbu", "fpha"}
        The set.

    Returns
    -------
    data : Sequences
        Groups are SBU's folds over pairs of people, and FPHA's people.
    """
    arrays = read_arrays(folder / f"{name}.npz")
    sequences = np.split(on_one_scale(arrays["joints"], name), arrays["offsets"][1:-1])
    groups = arrays["fold" if name == "sbu" else "subject"]
    return Sequences(name, sequences, arrays["label"], groups, test_masks(arrays, name))


def describe(candidate, data):
    """Compute the rows of all sequences; a descriptor learns nothing from them but their shape."""
    root = ROOTS[data.name]
    descriptors = [SkeletonDescriptor(root=root, **one) for one in candidate.descriptors]
    return make_union(*descriptors).fit_transform(data.sequences)


def held_out(candidate, X, data, left_out, seed):
    """Share of right answers on training groups that are left out in turn, per test split.

    Parameters
    ----------
    candidate : Candidate
        What to score.
    X : ndarray of shape (n_sequences, n_columns)
        Its rows.
    data : Sequences
        Labels and groups.
    left_out : dict
        Shares measured before, by train mask and group; two test folds share their models.
    seed : int
        Seed of the classifier.

    Returns
    -------
    shares : dict of str -> float
        By name of the test split.
    """
    shares = {}
    for split, test in data.tests.items():
        right = []
        for group in np.unique(data.groups[~test]):
            scored = ~test & (data.groups == group)
            learned = ~test & ~scored
            key = learned.tobytes()
            if key not in left_out:
                classifier = make_classifier(candidate, data, seed)
                left_out[key] = classifier.fit(X[learned], data.y[learned])
            right.append(left_out[key].predict(X[scored]) == data.y[scored])
        shares[split] = np.concatenate(right).mean()
    return shares


def make_classifier(candidate, data, seed):
    """Return the classifier, which streams the classes in `fit`."""
    return FFNBClassifier(
        classes_per_task=CLASSES_PER_TASK[data.name],
        random_state=seed,
        **dict(candidate.classifier),
    )


def run(options):
    """Choose on training people for each set and split, then test the choice."""
    records = []
    for name in options.sets:
        data = load(options.data, name)
        chosen = [c for c in options.candidates if name in CANDIDATES[c].sets]
        rows = {c: describe(CANDIDATES[c], data) for c in chosen}
        shares = {}
        for c in chosen:
            shares[c] = held_out(CANDIDATES[c], rows[c], data, {}, options.seeds[0])
            print(name, c, mean(shares[c].values()), file=sys.stderr, flush=True)
        for split, test in data.tests.items():
            best = max(chosen, key=lambda c, split=split: shares[c][split])
            finals = score(CANDIDATES[best], rows[best], data, test, options.seeds)
            for c in chosen:
                record = {"set": name, "split": split, "candidate": c, "width": rows[c].shape[1]}
                record["held_out"] = 100 * shares[c][split]
                records += [
                    record | {"seed": seed, "final": final if c == best else float("nan")}
                    for seed, final in zip(options.seeds, finals, strict=True)
                ]
    return records


def score(candidate, X, data, test, seeds):
    """Final accuracy in percent on test sequences, for each seed."""
    finals = []
    for seed in seeds:
        result = evaluate_stream(
            make_classifier(candidate, data, seed).set_params(classes_per_task=None),
            X[~test],
            data.y[~test],
            X[test],
            data.y[test],
            classes_per_task=CLASSES_PER_TASK[data.name],
        )
        finals.append(100 * result.final_accuracy)
    return finals


def report(records, options, environment):
    """Return the page as Markdown."""
    lines = [
        "# Descriptors of skeleton sequences",
        "",
        *environment,
        f"- seeds: {', '.join(map(str, options.seeds))} of the classifier on test sequences, "
        f"{options.seeds[0]} on sequences left out; ± is the standard deviation over seeds, after "
        "folds are averaged",
        "- left out %: accuracy on people left out of the training sequences, mean over test "
        "splits; chosen: test splits for which the candidate was best there; the test sequences "
        "of other splits were not scored with it",
        "- SBU: the five folds of the file, one class per task; FPHA: the official split, five "
        "classes per task; SkeletonDescriptor() with the torso or the wrist as root, several of "
        "them side by side where stated; FFNBClassifier() unless stated",
    ]
    for name in options.sets:
        lines += ["", f"## {name.upper()}", "", *_table([r for r in records if r["set"] == name])]
    return "\n".join(lines) + "\n"


def _table(records):
    lines = ["| candidate | width | left out % | chosen |", "|---|---|---|---|"]
    for c in dict.fromkeys(one["candidate"] for one in records):
        own = [one for one in records if one["candidate"] == c]
        chosen = dict.fromkeys(one["split"] for one in own if not np.isnan(one["final"]))
        share = mean(one["held_out"] for one in own)
        cells = CANDIDATES[c].label, own[0]["width"], f"{share:.2f}", ", ".join(chosen) or "-"
        lines.append(f"| {' | '.join(map(str, cells))} |")
    tested = [one for one in records if not np.isnan(one["final"])]
    seeds = dict.fromkeys(one["seed"] for one in tested)
    finals = [mean(one["final"] for one in tested if one["seed"] == seed) for seed in seeds]
    return [
        *lines,
        "",
        f"Test accuracy of the choice: {mean(finals):.2f} ± {np.std(finals):.2f} %.",
    ]


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, data=True)
    add = parser.add_argument
    add("--sets", nargs="+", choices=list(CLASSES_PER_TASK), default=list(CLASSES_PER_TASK))
    add("--candidates", nargs="+", choices=list(CANDIDATES), default=list(CANDIDATES))
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    return parser.parse_args(arguments)


def main(arguments=None):
    """Run the comparison and print its report."""
    run_and_publish(run, report, parse(arguments))


if __name__ == "__main__":
    main()
