"""The page of `layers.py`: the table of this machine, and the figures that papers print."""

import json
from itertools import pairwise

import numpy as np
from _layer_features import CUTOUT, FEATURES, FURTHER, WIDE
from _paper_printed import CIFAR_ACCURACIES, CIFAR_AVERAGES
from _paper_sections import printed_matrix
from _paper_settings import CIFAR
from _report import environment_lines

import ffnb_sklearn

# Random neurons of RanPAC and cosines of KLDA.
WIDTH = 5000

# Lines of the page on networks other than the given one.
NETWORKS = {
    (FURTHER, CUTOUT): "- trained further: 12 epochs on the same classes, then 6 with cutout "
    "(`backbone.py`)",
    (WIDE,): "- wide network: trained on the same classes from random weights, 8, 16 and 26 epochs "
    "(backbone_wide.md)",
}

COLUMNS = (
    "features",
    "width",
    "head",
    "stream",
    "scored",
    "base %",
    "final %",
    "average %",
    "fit s",
    "predict s",
    "state MB",
)

# Average incremental accuracy in percent with 2, 5, 10, and 20 or 25 tasks after the first, as the
# papers print it; None: not known. Papers: arXiv:2111.11366 (FFNB); Zhu et al., CVPR 2021 (PASS);
# Zhu et al., CVPR 2022 (SSRE); arXiv:2211.13131 (FeTrIL); arXiv:2205.14922 (ACIL);
# arXiv:2309.14062 (FeCAM); Yan et al., CVPR 2021 (DER).
PUBLISHED = {
    "FFNB, the paper": (
        "EfficientNet, frozen",
        *(CIFAR_AVERAGES[stream] for stream in ("S2", "S5", "S10")),
        None,
    ),
    "PASS": ("ResNet-18, trained on by every task", None, 63.5, 61.8, 58.1),
    "SSRE": ("ResNet-18, grows with every task", None, 65.9, 65.0, 61.7),
    "FeTrIL": ("ResNet-18, frozen", None, 66.3, 65.2, 61.5),
    "ACIL": ("ResNet-32, frozen", None, 66.30, 66.07, 65.95),
    "FeCAM": ("ResNet-18, frozen", None, 70.9, 70.8, 69.4),
    "CLOVER": ("five networks, frozen", None, 72.7, 72.3, 71.0),
    "DER": ("ResNet-18, one more per task; keeps images", 74.61, 73.21, 72.81, None),
}


def report(records, options, learners):
    """Return the page as Markdown.

    Parameters
    ----------
    records : list of dict
        Rows of the table.
    options : Namespace
        The command line.
    learners : dict of str to Method
        Heads by name.

    Returns
    -------
    text : str
        Description, table, published figures, settings.
    """
    lines = [
        f"# Features of several layers: {options.title}",
        "",
        *environment_lines(ffnb_sklearn.__version__, options.device),
        *_description(options),
        "",
        _row(COLUMNS),
        "|---" * len(COLUMNS) + "|",
        *(_row(_cells(one, learners)) for one in records),
        "",
        *(line for one in records if one.get("matrix") for line in _matrix(one, learners)),
        *_published(),
        "",
        "Settings:",
        "",
    ]
    lines += [f"- {learners[name].label}: {learners[name].note}." for name in options.methods]
    return "\n".join(lines) + "\n"


def _description(options):
    n = options.images_per_class or 500
    return [
        "- data: CIFAR-100, all test images, "
        f"{n} training images per class{'' if n == 500 else ' (of 500, so figures are lower)'}; a "
        "ResNet trained on the first 50 classes, whose weights come with the data",
        *(
            line
            for networks, line in NETWORKS.items()
            if any(set(networks) & set(FEATURES[name].networks) for name in options.features)
        ),
        f"- seeds: {', '.join(map(str, options.seeds))}, of what the head draws at random; means "
        "over seeds",
        f"- random neurons of RanPAC, cosines of KLDA: {WIDTH}",
        "- features: outputs of residual blocks (6: end of the second stage, 7 and 8: third, 9 and "
        "10: fourth), each pooled by the mean over the image and scaled by one number learned on "
        "the first 50 classes; last layer: the output of the network, unscaled; mean with the "
        "mirrored image unless stated; shifted images: by two pixels to four sides, each with its "
        "mirror image; pixels: divided by 255",
        "- stream: tasks after the first one, which has 50 classes; base %: after the first task; "
        "average %: mean over all tasks of the accuracy on all classes met so far, both on the "
        "first scored test images of each class; final %: on all 100 of each class",
        "- fit s: sum over tasks, without extraction; predict s: the whole test set after the last "
        "task, without what is solved before the first prediction; state: the pickled head after "
        "the last task; rows may have run beside other processes",
    ]


def _cells(one, learners):
    stream = f"S{50 // one['per_task']}, {one['per_task']} per task"
    accuracies = (f"{one[name]:.2f}" for name in ("base", "final", "average"))
    costs = (f"{one[name]:.3g}" for name in ("fit_s", "score_s", "state_mb"))
    row = FEATURES[one["features"]].label, one["width"], learners[one["method"]].label
    return *row, stream, one["scored"], *accuracies, *costs


def _matrix(one, learners):
    """Accuracies by groups of classes, one column per task, beside those that the paper prints."""
    ours = np.array(json.loads(one["matrix"]))
    stream = f"S{len(ours) - 1}"
    printed = printed_matrix(CIFAR[stream]) if stream in CIFAR else np.full_like(ours, np.nan)
    learner, features = learners[one["method"]].label, FEATURES[one["features"]].label
    heading = ["test classes", *(f"T{task}" for task in range(len(ours)))]
    starts = [0, *range(50, 100, one["per_task"])]
    lines = [
        f"## Groups of classes, {learner}, {features}, {stream}, ours (paper)",
        "",
        _row(heading),
        "|---" * len(heading) + "|",
    ]
    for group, (start, stop) in enumerate(pairwise([*starts, 100])):
        cells = [""] * group + [
            f"{own:.2f}" + ("" if np.isnan(paper) else f" ({paper:.2f})")
            for own, paper in zip(ours[group:, group], printed[group:, group], strict=True)
        ]
        lines.append(_row([f"{start}-{stop - 1}", *cells]))
    return [*lines, ""]


def _published():
    finals = {stream: CIFAR_ACCURACIES[stream][-1] for stream in CIFAR_AVERAGES}
    printed = ", ".join(f"{final:.2f} ({stream})" for stream, final in finals.items())
    return [
        "## Published figures",
        "",
        "Average incremental accuracy in percent on the same split and streams, as the papers "
        "print it. Each method has a network of its own with a recipe of its own, so these rows "
        "say what is reached, and not which head is better. "
        f"Final accuracies of the paper of FFNB: {printed}. Papers with 20 tasks mostly "
        "start from 40 classes.",
        "",
        "| method | network | S2 | S5 | S10 | S20 or S25 |",
        "|---|---|---|---|---|---|",
        *(
            _row((name, network, *("-" if one is None else f"{one:.2f}" for one in figures)))
            for name, (network, *figures) in PUBLISHED.items()
        ),
    ]


def _row(cells):
    return f"| {' | '.join(map(str, cells))} |"
