"""Tables of the study of the defaults, from the records of single runs."""

import numpy as np
from scipy.stats import rankdata

_DEFAULT = "default"

# The bar: how far behind the best peer the default may be on any set, in points.
_MOST_BEHIND = 0.5


def accuracies(records):
    """Final accuracies in percent: ``{set: {method: {(split, seed): accuracy}}}``."""
    table = {}
    for record in records:
        runs = table.setdefault(record["set"], {}).setdefault(record["method"], {})
        runs[record["split"], str(record["seed"])] = 100.0 * float(record["final"])
    return table


def paired_difference(runs, reference):
    """Mean difference over the runs that both have, and its standard error.

    Parameters
    ----------
    runs, reference : dict of run to accuracy
        Accuracies of two methods on the same splits.

    Returns
    -------
    mean, error : float
        The error is nan for a single run.
    """
    gaps = np.array([runs[key] - reference[key] for key in runs if key in reference])
    error = gaps.std(ddof=1) / len(gaps) ** 0.5 if len(gaps) > 1 else np.nan
    return gaps.mean(), error


def mean_ranks(means):
    """Mean rank of each method over sets; 1 is best, ties share their ranks.

    Parameters
    ----------
    means : dict of set to dict of method to accuracy
        Every set with the same methods.

    Returns
    -------
    ranks : dict of method to float
        Means over the sets.
    """
    methods = list(next(iter(means.values())))
    # Accuracies that differ by rounding are ties.
    rows = [[-round(one[method], 6) for method in methods] for one in means.values()]
    return dict(zip(methods, np.mean([rankdata(row) for row in rows], axis=0), strict=True))


def set_means(records):
    """Mean accuracy by set and method, over splits and seeds."""
    return {
        name: {method: np.mean(list(runs.values())) for method, runs in methods.items()}
        for name, methods in accuracies(records).items()
    }


def study_report(records, studies, environment, labels):
    """Return the report of the hold-outs as Markdown.

    Parameters
    ----------
    records : list of dict
        Records of all runs.
    studies : list of StudySet
        The sets, in the order of the columns.
    environment : list of str
        Lines on versions and processor.
    labels : dict of str to str
        Names of the peers, by method.

    Returns
    -------
    text : str
        Header, settings against the default, peers against the default.
    """
    lines = ["# FFNB's defaults: what each part adds, on hold-outs of training rows", ""]
    lines += environment
    lines += [
        "- accuracy after the last task on held-out training rows minus that of the default, in "
        "points; ± is the standard error of the mean paired difference over hold-outs, each with "
        "its own class order and random features; worst: the set where a row loses most",
        "- seeds: 0 of the hold-outs' rows; a hold-out's number, from 0, of its class order and "
        "random features",
        "",
    ]
    lines += _set_list(studies)
    table = accuracies(records)
    counts = ", ".join(f"{name} {len(methods[_DEFAULT])}" for name, methods in table.items())
    lines += ["", f"Hold-outs of the default: {counts}; -: not run."]
    settings = [name for name in _methods(table) if name not in labels]
    peers = {name: labels[name] for name in _methods(table) if name in labels}
    lines += ["", "## Settings", "", *_difference_table(table, {n: n for n in settings}, studies)]
    if peers:
        lines += ["", "## Peers", "", *_difference_table(table, peers, studies)]
        ranked = [one for one in records if one["method"] in {_DEFAULT, *peers}]
        lines += ["", "## Ranks and the bar", "", *_rank_table(ranked, labels)]
    return "\n".join(lines) + "\n"


def test_report(records, studies, environment, labels):
    """Return the report of the test as Markdown; arguments as of `study_report`."""
    title = (
        "public tables" if all(one.kind.startswith("table,") for one in studies) else "test rows"
    )
    lines = [f"# FFNB's defaults against its peers, on {title}", "", *environment]
    lines += [
        "- accuracy after the last task in percent, mean over splits and seeds ± its standard "
        "deviation over runs; bold: best",
        "- seeds: from 0 on, another for each run of a set: of class order and random features",
        "",
    ]
    lines += _set_list(studies)
    lines += ["", "## Accuracies", "", *_accuracy_table(accuracies(records), labels, studies)]
    lines += ["", "## Ranks and the bar", "", *_rank_table(records, labels)]
    return "\n".join(lines) + "\n"


def _methods(table):
    return list(dict.fromkeys(method for methods in table.values() for method in methods))


def _set_list(studies):
    lines = [
        "Columns standardised by the training rows are the one exception to the rule that rows go "
        "in as they are: no head here scales.",
        "",
        "| set | kind | source | stream |",
        "|---|---|---|---|",
    ]
    return lines + [f"| {s.name} | {s.kind} | {s.source} | {s.protocol} |" for s in studies]


def _table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _difference_table(table, names, studies):
    sets = [study.name for study in studies]
    rows = []
    if _DEFAULT not in names:
        names = {_DEFAULT: _DEFAULT, **names}
    for method, label in names.items():
        if method == _DEFAULT:
            means = [np.mean(list(table[name][_DEFAULT].values())) for name in sets]
            rows.append([f"{label}, %", *(f"{mean:.2f}" for mean in means)])
            rows[-1] += [f"{np.mean(means):.2f}", ""]
            continue
        rows.append([label, *_difference_cells(table, method, sets)])
    return _table(["setting", *sets, "mean", "worst"], rows)


def _difference_cells(table, method, sets):
    gaps = {
        name: paired_difference(table[name][method], table[name][_DEFAULT])
        for name in sets
        if method in table[name]
    }
    cells = [_gap(*gaps[name]) if name in gaps else "-" for name in sets]
    worst = min(gaps, key=lambda name: gaps[name][0])
    mean = np.mean([gap for gap, _ in gaps.values()])
    return [*cells, f"{mean:+.2f}", f"{gaps[worst][0]:+.2f} {worst}"]


def _gap(mean, error):
    """A difference; a single run has no standard error."""
    return f"{mean:+.2f}" if np.isnan(error) else f"{mean:+.2f} ± {error:.2f}"


def _accuracy_table(table, labels, studies):
    sets, rows = [study.name for study in studies], []
    best = {
        name: max(np.mean(list(runs.values())) for runs in table[name].values()) for name in sets
    }
    for method in _methods(table):
        cells = [_accuracy_cell(table[name].get(method, {}), best[name]) for name in sets]
        rows.append([_label(method, labels), *cells])
    return _table(["method", *sets], rows)


def _accuracy_cell(runs, best):
    if not runs:
        return "-"
    values = np.array(list(runs.values()))
    cell = f"{values.mean():.2f} ± {values.std():.2f}"
    return f"**{cell}**" if np.isclose(values.mean(), best) else cell


def _label(method, labels):
    return "FFNB, default" if method == _DEFAULT else labels[method]


def _rank_table(records, labels):
    """Mean ranks, distances to the best peer, and whether both parts of the bar hold."""
    table, means, lines, first = accuracies(records), set_means(records), [], None
    methods = {record["method"] for record in records}
    whole = {name: one for name, one in means.items() if methods <= set(one)}
    if whole:
        ranks = mean_ranks(whole)
        first = ranks[_DEFAULT] == min(ranks.values())
        rows = [[_label(m, labels), f"{ranks[m]:.2f}"] for m in sorted(ranks, key=ranks.get)]
        lines = [f"Ranks over the {len(whole)} sets that every method was run on."]
        lines += ["", *_table(["method", "mean rank"], rows), ""]
    behind, distances = 0, []
    for name, one in means.items():
        peer = max((method for method in one if method != _DEFAULT), key=one.get)
        gap, error = paired_difference(table[name][_DEFAULT], table[name][peer])
        behind += gap < -_MOST_BEHIND
        verdict = "yes" if gap >= -_MOST_BEHIND else "no"
        cells = [name, labels[peer], f"{one[peer]:.2f}", _gap(gap, error), verdict]
        distances.append(cells)
    header = ["set", "best peer", "its accuracy", "default minus it", "within 0.5"]
    lines += ["±: standard error of the mean paired difference over splits and seeds.", ""]
    lines += [*_table(header, distances), ""]
    verdict = {True: "yes", False: "no", None: "no set has all methods"}[first]
    lines.append(
        f"Mean rank of the default best: {verdict}. Sets on which it is more than "
        f"{_MOST_BEHIND} points behind the best peer: {behind} of {len(means)}."
    )
    return lines
