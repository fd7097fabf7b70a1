"""Study what each part of FFNB adds on sets of many kinds, and test its defaults once.

The study sees training rows only: a quarter of them is held out, several times, and scored. It
starts from the defaults and changes one parameter at a time, or a few together; eight peers' heads
are scored on the same rows. With ``--test`` the defaults and the peers get the test rows instead.

    python benchmarks/defaults.py --sets digits wine --settings "band_size=0" "rank=16"
    python benchmarks/defaults.py --data FOLDER --out study.md study.csv
    python benchmarks/defaults.py --data FOLDER --test --out test.md test.csv
    python benchmarks/defaults.py --from sbu.csv wine.csv --out study.md
    python benchmarks/defaults.py --tables tables.npz --test --out tables.md tables.csv

The last command compares on the tables of a file instead, such as `collect_tables.py` makes.
"""

import csv
import sys
from pathlib import Path

import _defaults_report
import heads
import numpy as np
from _data import Split
from _report import command_line, environment_lines, limited, publish
from _sets import study_sets, table_sets
from heads import Context, Method, run_stream
from sklearn.model_selection import StratifiedShuffleSplit

from ffnb_sklearn import FFNBClassifier

DEFAULT = "default"
PEERS = ["ncm", "slda", "slda-scaled", "ridge", "fecam", "ranpac", "ranpac-fixed", "klda"]

# Parameters that differ from the defaults: one at a time, then some together.
VARIANTS = [
    {"band_size": 0},
    {"band_size": 3},
    {"p": 0.8},
    {"p": 0.99},
    {"n_layers": 2},
    {"old_statistics": "zero"},
    {"max_epochs": 20},
    {"shared_band_size": 0},
    {"shared_band_size": 500},
    {"shared_band_size": 8000},
    {"skip_connection": False},
    {"shrinkage": 0.0},
    {"shrinkage": 0.1},
    {"shrinkage": 0.25},
    {"shrinkage": 0.5},
    {"shrinkage": 1.0},
    {"epsilon": 0.03},
    {"epsilon": 0.1},
    {"epsilon": 0.3},
    {"epsilon": 1.0},
    {"shrinkage": 0.5, "epsilon": 0.2},
    {"shrinkage": 0.25, "epsilon": 0.3},
    {"rank": 16},
    {"rank": 32},
    {"rank": None},
    {"band_size": 0, "shared_band_size": 0},
    {"band_size": 0, "skip_connection": False},
    {"band_size": 0, "shared_band_size": 0, "shrinkage": 1.0},
    {"shared_band_size": 0, "skip_connection": False},
    {"band_size": 3, "n_layers": 2, "p": 0.8},
]

# The widest shared band is left out where there are more training rows or classes than this.
_WIDEST, _MOST_ROWS, _MOST_CLASSES = 8000, 1500, 20


def setting_name(changes):
    """How a setting is called: its differences to the defaults."""
    return ", ".join(f"{name}={value}" for name, value in changes.items()) or DEFAULT


SETTINGS = {setting_name(changes): changes for changes in [{}, *VARIANTS]}


def method_of(changes):
    """The row of a setting, built as the heads' benchmark builds its own."""
    return Method(
        f"FFNB, {setting_name(changes)}",
        lambda c: FFNBClassifier(**changes, random_state=c.seed, device=c.device),
        setting_name(changes),
    )


def hold_outs(study, n_repeats):
    """Splits of the training rows of a set's first split; its test rows are not among them."""
    whole = study.splits()[0]
    cutter = StratifiedShuffleSplit(n_repeats, test_size=0.25, random_state=0)
    return [
        Split(f"hold-out {k}", whole.X[learned], whole.y[learned], whole.X[scored], whole.y[scored])
        for k, (learned, scored) in enumerate(cutter.split(whole.X, whole.y))
    ]


def fits(changes, split):
    """Whether a setting is to be run on so many rows and classes."""
    small = len(split.y) <= _MOST_ROWS and len(np.unique(split.y)) <= _MOST_CLASSES
    return changes.get("shared_band_size") != _WIDEST or small


def run(study, methods, runs, device="cpu"):
    """Score methods on splits of one set.

    Parameters
    ----------
    study : StudySet
        The set.
    methods : dict of str to Method
        Settings of FFNB and peers, by name.
    runs : list of (Split, int)
        Splits with the seed of the class order and of the random features.
    device : str, default="cpu"
        Device for FFNB.

    Returns
    -------
    records : list of dict
        One per method and split.
    """
    records = []
    for split, seed in runs:
        context = Context(seed, study.width, device)
        for name, method in methods.items():
            if not fits(SETTINGS.get(name, {}), split):
                continue
            key = {"set": study.name, "split": split.name, "seed": seed, "method": name}
            records.append({**key, **run_stream(method, study, split, context)})
            print(*key.values(), f"{records[-1]['final']:.4f}", sep=", ", file=sys.stderr)
    return records


def run_study(study, settings, peers, n_repeats=None):
    """Score settings and peers on hold-outs, with another class order in each."""
    splits = hold_outs(study, n_repeats or study.repeats)
    methods = {name: method_of(SETTINGS[name]) for name in settings}
    methods |= {name: heads.METHODS[name] for name in peers}
    return run(study, methods, [(split, k) for k, split in enumerate(splits)])


def run_test(study, peers, n_splits=None):
    """Score the default and the peers on test rows, once."""
    splits = study.splits()[:n_splits]
    runs = [
        (split, study.seeds * k + seed)
        for k, split in enumerate(splits)
        for seed in range(study.seeds)
    ]
    methods = {DEFAULT: method_of({}), **{name: heads.METHODS[name] for name in peers}}
    return run(study, methods, runs)


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, quick="wine, three settings, two hold-outs", data=True)
    add = parser.add_argument
    add("--sets", nargs="+", help="default: all; quick: wine")
    add("--tables", type=Path, help=".npz of columns NAME_X and labels NAME_y, as the only sets")
    add("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    add("--peers", nargs="*", choices=PEERS, default=PEERS)
    add("--repeats", type=int, help="hold-outs per set, or splits of the test")
    add("--test", action="store_true", help="score the defaults and the peers on test rows")
    add("--from", dest="given", nargs="+", type=Path, help="report these .csv files; run nothing")
    options = parser.parse_args(arguments)
    known = table_sets(options.tables) if options.tables else study_sets(options.data)
    if unknown := set(options.sets or []) - set(known):
        parser.error(f"--sets: unknown sets {sorted(unknown)}; there are {', '.join(known)}")
    if options.test and not options.peers:
        parser.error("--test compares with peers: at least one is needed")
    if options.quick:
        options.sets, options.repeats = options.sets or ["wine"], options.repeats or 2
        options.settings = options.settings[:3]
        options.peers = [name for name in options.peers if name in {"ncm", "slda", "ridge"}]
    return options, known


def read_records(paths):
    """Records of earlier runs, from their .csv files."""
    records = []
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            records += [{**row, "final": float(row["final"])} for row in csv.DictReader(file)]
    return records


def measure(options, known):
    """Run what the command line asks for and return the records."""
    records = []
    for name in options.sets or list(known):
        if options.test:
            records += run_test(known[name], options.peers, options.repeats)
        else:
            settings = list(dict.fromkeys([DEFAULT, *options.settings]))
            records += run_study(known[name], settings, options.peers, options.repeats)
    return records


def main(arguments=None):
    """Run the study, or the test, and print its report."""
    options, known = parse(arguments)
    with limited(options.threads):
        records = read_records(options.given) if options.given else measure(options, known)
        environment = environment_lines()
    names = dict.fromkeys(record["set"] for record in records)
    labels = {name: heads.METHODS[name].label for name in PEERS}
    build = _defaults_report.test_report if options.test else _defaults_report.study_report
    text = build(records, [known[name] for name in names], environment, labels)
    publish(text, records, options.out)


if __name__ == "__main__":
    main()
