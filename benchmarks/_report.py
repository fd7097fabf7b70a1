"""Turn the records of single runs into tables, with a header that says where they come from."""

import argparse
import csv
import datetime
import os
import platform
import shlex
import sys
from pathlib import Path

import numpy as np
import scipy
import sklearn
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import ffnb_sklearn

COLUMNS = ["final %", "average incremental %", "fit s", "predict s", "state MB"]


def environment_lines(package_version, device):
    """Lines about the command, versions, processor and threads.

    Parameters
    ----------
    package_version : str
        Version of the package under test.
    device : str
        Device that FFNB runs on; the peers run on the processor.

    Returns
    -------
    lines : list of str
        Markdown list items.
    """
    versions = {
        "Python": platform.python_version(),
        "ffnb_sklearn": package_version,
        "scikit-learn": sklearn.__version__,
        "torch": torch.__version__,
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
    }
    blas = sorted({f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()})
    return [
        *_command_lines(),
        f"- date: {datetime.date.today().isoformat()}",
        "- versions: " + ", ".join(f"{name} {value}" for name, value in versions.items()),
        f"- processor: {_processor()}, {os.cpu_count()} cores; threads: {', '.join(blas)}, "
        f"torch {torch.get_num_threads()}",
        f"- device: {device} for FFNB ({_device_name(device)}), CPU for all others",
    ]


def set_table(records, labels):
    """Markdown table of one data set, one row per method.

    Folds are averaged first; mean and standard deviation are over seeds.

    Parameters
    ----------
    records : list of dict
        Records of all runs on this set.
    labels : dict of str to str
        Method name to row label.

    Returns
    -------
    lines : list of str
        The table; the best final accuracy of the incremental methods is in bold.
    """
    folds = list(dict.fromkeys(record["split"] for record in records))
    with_folds = len(folds) > 1 and folds[0].startswith("fold")
    columns = COLUMNS + ([f"{folds[-1]}, right"] if with_folds else [])
    rows = {}
    for method in dict.fromkeys(record["method"] for record in records):
        chosen = [record for record in records if record["method"] == method]
        rows[method] = _row(chosen) + ([_right(chosen, folds[-1])] if with_folds else [])
    _embolden_best(records, rows)
    lines = ["| method | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {labels[method]} | {' | '.join(cells)} |" for method, cells in rows.items()]
    return lines


def output_path(name):
    """A file name of the command line that `write` knows what to do with."""
    if Path(name).suffix not in (".md", ".csv"):
        raise argparse.ArgumentTypeError(f"names must end in .md or .csv; got {name!r}")
    return Path(name)


def run_limited(run, options):
    """Run a benchmark with its number of threads.

    Parameters
    ----------
    run : callable
        Takes the options and returns the single runs.
    options : Namespace
        With `threads`, a number or None.

    Returns
    -------
    records : list of dict
        What `run` returns.
    environment : list of str
        Lines that describe where it ran.
    """
    if options.threads:
        torch.set_num_threads(options.threads)
    with threadpool_limits(limits=options.threads):
        return run(options), environment_lines(ffnb_sklearn.__version__, "cpu")


def write(path, text, records):
    """Write the report, or the records of the single runs, by the file's suffix.

    Parameters
    ----------
    path : Path
        ``.md`` for the report, ``.csv`` for the records.
    text : str
        The report.
    records : list of dict
        The records.
    """
    if Path(path).suffix == ".md":
        Path(path).write_text(text, encoding="utf-8")
        return
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)


def _per_seed(records, key):
    """Values of the seeds, each the mean over its folds."""
    seeds = dict.fromkeys(record["seed"] for record in records)
    return np.array([np.mean([r[key] for r in records if r["seed"] == s]) for s in seeds])


def _row(records):
    final, average = _per_seed(records, "final"), _per_seed(records, "average")
    costs = [np.mean(_per_seed(records, key)) for key in ("fit_s", "predict_s", "state_mb")]
    return [_spread(final), _spread(average), *(f"{cost:.3g}" for cost in costs)]


def _spread(values):
    if np.isnan(values).any():
        return "-"
    if len(values) == 1:
        return f"{100 * values[0]:.2f}"
    return f"{100 * values.mean():.2f} ± {100 * values.std():.2f}"


def _right(records, split):
    chosen = [record for record in records if record["split"] == split]
    right = np.mean([record["final"] * record["n_test"] for record in chosen])
    return f"{right:.1f} / {chosen[0]['n_test']}"


def _embolden_best(records, rows):
    finals = {
        method: _per_seed([r for r in records if r["method"] == method], "final").mean()
        for method in rows
        if not any(r["joint"] for r in records if r["method"] == method)
    }
    for method, final in finals.items():
        if final == max(finals.values()):
            rows[method][0] = f"**{rows[method][0]}**"


def _command_lines():
    """The command that is running, if it is a script of this folder; no place on this machine."""
    script = Path(sys.argv[0]).resolve()
    if script.parent != Path(__file__).resolve().parent or not script.is_file():
        return []
    words = [Path(one).name if Path(one).is_absolute() else one for one in sys.argv[1:]]
    return [f"- command: `python benchmarks/{shlex.join([script.name, *words])}`"]


def _processor():
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or sys.platform


def _device_name(device):
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(torch.device(device))
    return "the processor above" if device == "cpu" else device
