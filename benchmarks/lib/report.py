"""Turn the records of single runs into tables, with a header that says where they come from."""

import argparse
import ast
import csv
import datetime
import os
import platform
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import scipy
import sklearn
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import ffnb_sklearn
from benchmarks.lib.data import default_folder


def environment_lines(device="cpu"):
    """List the command, versions, processor and threads; `device` is that of FFNB and IDA."""
    versions = {
        "Python": platform.python_version(),
        "ffnb_sklearn": ffnb_sklearn.__version__,
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
        f"- device: {device} for FFNB and IDA ({_device_name(device)}), CPU for all others",
    ]


def command_line(doc, *, rows="single runs", quick=None, data=False, threads=True):
    """Return a parser with the options that scripts share.

    It is described by the first line of `doc`. `rows` is what a .csv holds, and `quick` what the
    option ``--quick`` does, if there is one.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    add = parser.add_argument
    if data:
        add("--data", type=Path, default=default_folder(), help="feature files")
    if threads:
        add("--threads", type=int, help="threads of BLAS and torch; default: theirs")
    if quick:
        add("--quick", action="store_true", help=quick)
    add("--out", nargs="+", type=output_path, default=[], help=f".md: the report, .csv: {rows}")
    return parser


def read_settings(text):
    """Read parameters such as ``refresh=.1,rank=None``; an empty text names none."""
    settings = {}
    for pair in filter(None, text.split(",")):
        name, value = pair.split("=")
        try:
            settings[name] = ast.literal_eval(value)
        except ValueError:
            settings[name] = value
    return settings


def table(columns, rows):
    """Return a table as lines of Markdown; what is no text is shown by `str`."""
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (columns, *rows)]
    return [lines[0], "|---" * len(columns) + "|", *lines[1:]]


def page(title, environment, notes, *parts):
    """Return a report in Markdown: a title, a list of where and how it was measured, and parts."""
    lines = [f"# {title}", "", *environment, *(f"- {note}" for note in notes)]
    for part in parts:
        lines += ["", *part]
    return "\n".join(lines) + "\n"


def output_path(name):
    """A file name of the command line that `write` knows what to do with."""
    if Path(name).suffix not in (".md", ".csv"):
        raise argparse.ArgumentTypeError(f"names must end in .md or .csv; got {name!r}")
    return Path(name)


def run_and_publish(run, report, options):
    """Run a benchmark with its number of threads, print its report, and write its files.

    `run` returns the records of the options, and `report` takes these records, the options and the
    lines that describe where it ran.
    """
    records, environment = run_limited(run, options)
    publish(report(records, options, environment), records, options.out)


def read_records(paths):
    """Read the rows of .csv files of earlier runs, all values as text."""
    rows = []
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    return rows


def run_limited(run, options):
    """Run a benchmark with its number of threads.

    Return what `run` returns of the options, and lines that describe where it ran.
    """
    with limited(options.threads):
        return run(options), environment_lines()


@contextmanager
def limited(threads):
    """Let BLAS and torch use a number of threads, their own where it is None."""
    if threads:
        torch.set_num_threads(threads)
    with threadpool_limits(limits=threads):
        yield


def publish(text, records, paths):
    """Print the report, and write the files that are asked for."""
    print(text, end="")
    for path in paths:
        write(path, text, records)


def write(path, text, records):
    """Write the report to a path in .md, or the records of the single runs to one in .csv."""
    if Path(path).suffix == ".md":
        Path(path).write_text(text, encoding="utf-8")
        return
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)


def _command_lines():
    """The command that is running, if it is a module of this package; no place on this machine."""
    root, script = Path(__file__).resolve().parents[2], Path(sys.argv[0]).resolve()
    if not script.is_relative_to(root / "benchmarks") or not script.is_file():
        return []
    module = ".".join(script.relative_to(root).with_suffix("").parts)
    words = [Path(one).name if Path(one).is_absolute() else one for one in sys.argv[1:]]
    return [f"- command: `python -m {shlex.join([module, *words])}`"]


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
