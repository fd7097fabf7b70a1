"""
Learn a thousand classes
========================

A reader of characters learns a thousand letters and signs, two hundred at a time. Each character is
drawn in eight styles of the fonts that come with matplotlib. The classifier is tested with a style
that it never learned.

``IncrementalDiscriminantAnalysis`` stores moments of the classes. The nearest neighbour (1-NN)
stores all images.

Pass a file name to save the picture instead of showing it::

    python examples/plot_thousand_classes.py characters.png
"""

import pickle
import sys
import unicodedata
from pathlib import Path
from time import perf_counter

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageDraw, ImageFont
from sklearn.neighbors import KNeighborsClassifier

from ffnb_sklearn import IncrementalDiscriminantAnalysis

# %%
# The characters
# --------------
# The first thousand letters, numbers and signs that all styles have, as images of 20 x 20 pixels.

SIDE = 20
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
STYLES = [
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSansMono-Bold",
    "DejaVuSansMono-Oblique",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
    "DejaVuSerif-BoldItalic",
]
UNSEEN_STYLE = "DejaVuSerif"


def common_characters(styles):
    """Return the printable characters that all styles have."""
    sets = [set(FT2Font(str(FONTS / f"{style}.ttf")).get_charmap()) for style in styles]
    codes = sorted(set.intersection(*sets))
    characters = [chr(code) for code in codes]
    return [text for text in characters if unicodedata.category(text)[0] in "LNPS"]


def draw_characters(style, characters):
    """Return an image of each character as a row."""
    font = ImageFont.truetype(str(FONTS / f"{style}.ttf"), 14)
    rows = []
    for text in characters:
        image = Image.new("L", (SIDE, SIDE))
        ImageDraw.Draw(image).text((SIDE // 2, 15), text, fill=255, font=font, anchor="ms")
        rows.append(np.asarray(image, dtype=float).ravel() / 255)
    return np.array(rows)


characters = common_characters([*STYLES, UNSEEN_STYLE])[:1000]
X = np.stack([draw_characters(style, characters) for style in STYLES])
X_test = draw_characters(UNSEEN_STYLE, characters)
y = np.arange(len(characters))

# %%
# The stream
# ----------
# The nearest neighbour is fitted to all images again after each task.

sizes = range(200, 1001, 200)
names = ["IncrementalDiscriminantAnalysis", "1-NN, stores all images"]
accuracies = {name: [] for name in names}
clf = IncrementalDiscriminantAnalysis(random_state=0)
seconds = 0.0
for size in sizes:
    task = slice(size - 200, size)
    start = perf_counter()
    clf.partial_fit(X[:, task].reshape(-1, X.shape[2]), np.tile(y[task], len(STYLES)))
    seconds += perf_counter() - start
    images = X[:, :size].reshape(-1, X.shape[2])
    labels = np.tile(y[:size], len(STYLES))
    fitted = {
        "IncrementalDiscriminantAnalysis": clf,
        "1-NN, stores all images": KNeighborsClassifier(1).fit(images, labels),
    }
    for name, classifier in fitted.items():
        accuracies[name].append(100 * classifier.score(X_test[:size], y[:size]))

print(f"learned in {seconds:.0f} s, {len(pickle.dumps(clf)) / 1e6:.0f} MB with its solution")
print("accuracy in %, characters in a style that was not learned")
print(f"{'characters':<31}" + "".join(f"{size:>7}" for size in sizes))
for name, values in accuracies.items():
    print(f"{name:<31}" + "".join(f"{value:7.1f}" for value in values))

# %%
# The pictures
# ------------

figure, (samples, curves) = plt.subplots(
    1, 2, figsize=(7.6, 3.6), layout="constrained", width_ratios=(1, 1.7)
)
shown = np.random.default_rng(0).choice(len(characters), 7, replace=False)
every_style = np.concatenate([X[::2][:, shown], X_test[None, shown]])
blocks = every_style.transpose(1, 0, 2).reshape(7, -1, SIDE, SIDE)
samples.imshow(-blocks.transpose(0, 2, 1, 3).reshape(7 * SIDE, -1), cmap="gray")
samples.set(xticks=[], yticks=[], title="four styles, and the unseen")
samples.axvline(4 * SIDE - 0.5, color="tab:red")
for name, values in accuracies.items():
    curves.plot(sizes, values, marker="o", label=name)
curves.set(xlabel="characters learned", ylabel="accuracy, %", ylim=(0, 102))
curves.legend(loc="lower left", frameon=False)

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
