"""Time the first prediction after learning, which solves the classifier, as ratios in one run.

The prediction of one row is compared with the same where shrinkage and ridge are given, with the
floor of the solution's arithmetic (one Gram product, one Cholesky factorisation, and the solution
for all means and factor rows), and with the first prediction after one more sample or one more
class.

    python benchmarks/first_prediction.py --out first.md first.csv
    python benchmarks/first_prediction.py --quick
"""

import numpy as np
from _data import default_folder, known_problems
from _report import command_line, page, publish, run_limited, table
from _speed_clock import alternate, seconds_of
from _speed_floor import SolutionFloor

from ffnb_sklearn import FFNBClassifier

# Classes, samples of each, features.
CASES = [(100, 30, 50), (200, 30, 50), (45, 13, 528)]
GIVEN = {"shrinkage": 0.5, "epsilon": 0.2}


def gaussian_rows(n_classes, n, d):
    """Rows of overlapping Gaussian classes, and their labels."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), n)
    return rng.normal(size=(n_classes, d))[y] + rng.normal(size=(len(y), d)), y


def floor_of(clf, X):
    """The least arithmetic behind the solution of a fitted classifier."""
    moments = clf._state.model.moments
    width = clf.transform(X[:1]).shape[1]
    return SolutionFloor(sum(one.rank for one in moments), len(moments), width)


def measure(X, y, repeats):
    """Medians in seconds of each first prediction of one row, by name."""
    rows, last = X[:1], y == y.max()

    def one_round():
        whole, fewer = (FFNBClassifier(random_state=0, band_size=0) for _ in range(2))
        given = FFNBClassifier(random_state=0, band_size=0, **GIVEN).fit(X, y)
        found = {"auto": seconds_of(whole.fit(X, y).predict, rows)}
        found |= {"given": seconds_of(given.predict, rows), "floor": floor_of(given, X)()}
        whole.partial_fit(X[:1], y[:1])
        found["sample"] = seconds_of(whole.predict, rows)
        fewer.fit(X[~last], y[~last]).predict(rows)
        fewer.partial_fit(X[last], y[last])
        return {**found, "class": seconds_of(fewer.predict, rows)}

    rounds = alternate({"first": one_round}, repeats)
    return {name: float(np.median(values)) for name, values in rounds.items()}


def run(options):
    """Records of all cases."""
    cases = [(6, 8, 10)] if options.quick else CASES
    named = [("x".join(map(str, case)), *gaussian_rows(*case)) for case in cases]
    if options.cifar:
        split = known_problems(default_folder())["cifar"].splits()[0]
        named.append(("CIFAR-100 features", split.X, split.y))
    repeats = 1 if options.quick else options.repeats
    return [{"case": name, **measure(X, y, repeats)} for name, X, y in named]


def report(records, environment):
    """The ratios as Markdown."""
    columns = ["classes x samples x features", "first prediction", "over given values"]
    columns += ["given over floor", "after one more sample", "after one more class"]
    rows = [
        [
            one["case"],
            f"{one['auto']:.2f} s",
            f"{one['auto'] / one['given']:.2f}",
            f"{one['given'] / one['floor']:.2f}",
            f"{one['sample'] / one['auto']:.2f} of it",
            f"{one['class'] / one['auto']:.2f} of it",
        ]
        for one in records
    ]
    notes = [f"band_size=0, random_state=0, data of seed 0; given: {GIVEN}; medians of the repeats"]
    return page("The first prediction after learning", environment, notes, table(columns, rows))


def main(arguments=None):
    """Run the cases, and print their ratios."""
    parser = command_line(__doc__, quick="one small case, one repeat")
    parser.add_argument(
        "--cifar", action="store_true", help="also CIFAR-100's features, from files"
    )
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    records, environment = run_limited(run, options)
    publish(report(records, environment), records, options.out)


if __name__ == "__main__":
    main()
