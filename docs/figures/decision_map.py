"""Figure of the page "Which classifier?": docs/user_guide/which_classifier.rst."""

import matplotlib.pyplot as plt

# Each question, and the answer to "yes".
STEPS = [
    ("Do you want the paper's\nmethod, trained blocks?", "FFNBClassifier"),
    (
        "May you keep all rows,\nand are new classes rare?",
        "SVC, random forest:\nfit again to all rows",
    ),
    ("May you keep all rows, and must\neach row count at once?", "k nearest neighbours"),
    ("Do hundreds of rows a second\narrive, or do classes drift?", "river"),
    ("Fewer than five rows\na class?", "NearestClassMean\n(rows of unit length)"),
    ("Must the state stay below\na tenth of a megabyte?", "StreamingLDA"),
]
LAST = "IncrementalDiscriminantAnalysis"
OURS = {"FFNBClassifier", LAST}


def draw_decision_map():
    """Draw the questions below each other, and the answers beside them."""
    _, axes = plt.subplots(figsize=(5.0, 6.0), layout="constrained")
    axes.set(xlim=(0.0, 1.0), ylim=(-0.4, len(STEPS) + 0.4))
    axes.axis("off")
    box = {"boxstyle": "round,pad=0.6", "facecolor": "white", "edgecolor": "tab:blue"}
    other = {"boxstyle": "round,pad=0.6", "facecolor": "whitesmoke", "edgecolor": "grey"}
    own = {"boxstyle": "round,pad=0.6", "facecolor": "tab:blue", "edgecolor": "tab:blue"}
    ours = {"bbox": own, "color": "white", "fontweight": "bold"}
    arrow = {"arrowstyle": "-|>", "color": "grey", "shrinkA": 4, "shrinkB": 4}
    centre = {"ha": "center", "va": "center", "fontsize": 10}
    for step, (question, answer) in enumerate(STEPS):
        height = len(STEPS) - step
        asked = axes.text(0.25, height, question, bbox=box, **centre)
        style = ours if answer in OURS else {"bbox": other}
        named = axes.text(0.83, height, answer, **style, **centre)
        for text in (asked, named):
            text.set_zorder(3)
        axes.annotate("", (0.64, height), (0.51, height), arrowprops=arrow)
        axes.text(0.57, height + 0.1, "yes", ha="center", fontsize=9, color="dimgrey")
        axes.annotate("", (0.25, height - 0.68), (0.25, height - 0.32), arrowprops=arrow)
        axes.text(0.27, height - 0.53, "no", fontsize=9, color="dimgrey")
    axes.text(0.25, 0.0, LAST, **ours, **centre)
