"""Thousands of characters: drawn in some weights of a font to learn, in other fonts to test.

A row describes a drawn character: its ink fills a square of 32 x 32 pixels; in each cell of 4 x 4
pixels, the strokes of four directions are summed, which gives 256 columns of unit length.

`benchmarks.speed.many_classes --fonts FOLDER` measures them. Pillow draws the characters, and FAISS
is measured if it is installed.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.preprocessing import normalize

from benchmarks.lib.clock import processor_timed, state_megabytes
from benchmarks.lib.report import table
from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.baselines import NearestClassMean, StreamingLDA

SIDE = 32
CELL = 4
N_DIRECTIONS = 4

# The unified ideographs of the first version of Unicode, and a place that no font fills.
CHARACTERS = range(0x4E00, 0x9FA6)
MISSING = "\uffff"

# Test rows that are predicted one by one.
N_SINGLE = 30


class CosineNeighbours:
    """Label of the learned row with the largest cosine, by all products."""

    def fit(self, X, y):
        """Store the rows."""
        self.rows_ = normalize(X).astype(np.float32)
        self.labels_ = y
        return self

    def predict(self, X):
        """Return the labels of the nearest rows."""
        rows = normalize(X).astype(np.float32)
        return self.labels_[self._nearest(rows)]

    def _nearest(self, rows):
        return (rows @ self.rows_.T).argmax(axis=1)


class NeighbourIndex(CosineNeighbours):
    """The same by FAISS: a graph of neighbours (HNSW), which may miss the nearest."""

    def fit(self, X, y):
        """Build the graph."""
        import faiss

        super().fit(X, y)
        self.index_ = faiss.IndexHNSWFlat(X.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        self.index_.add(self.rows_)
        return self

    def _nearest(self, rows):
        return self.index_.search(rows, 1)[1][:, 0]

    def __getstate__(self):
        import faiss

        return {"index": faiss.serialize_index(self.index_), "labels": self.labels_}


CLASSIFIERS = {
    "IDA": lambda: IncrementalDiscriminantAnalysis(random_state=0),
    "IDA, shared_band_size=0": lambda: IncrementalDiscriminantAnalysis(
        shared_band_size=0, random_state=0
    ),
    "nearest mean": NearestClassMean,
    "streaming LDA": StreamingLDA,
    "cosine 1-NN": CosineNeighbours,
}
if find_spec("faiss"):
    CLASSIFIERS["cosine 1-NN, HNSW index"] = NeighbourIndex


def open_fonts(folder, pattern):
    """Return the fonts of a folder whose file names match a pattern, by name."""
    from PIL import ImageFont

    paths = sorted(Path(folder).glob(pattern))
    if not paths:
        raise FileNotFoundError(f"no font {pattern} in {folder}")
    return {path.stem: ImageFont.truetype(str(path), 2 * SIDE) for path in paths}


def draw(font, character):
    """Return a character whose ink fills a square, from 0 to 1; None if the font lacks it."""
    from PIL import Image, ImageDraw

    size = 4 * SIDE
    image = Image.new("L", (size, size))
    ImageDraw.Draw(image).text((SIDE, SIDE // 2), character, fill=255, font=font)
    ink = image.getbbox()
    if ink is None:
        return None
    square = image.crop(ink).resize((SIDE, SIDE), Image.Resampling.BOX)
    return np.asarray(square, dtype=np.float32) / 255.0


def describe(images):
    """Return the strokes of each direction in each cell, of unit length, of (n, 32, 32) images."""
    across, along = np.gradient(images, axis=(1, 2))
    lengths = np.hypot(across, along)
    # The two sides of a stroke have opposite gradients.
    angles = np.arctan2(across, along) % np.pi
    directions = np.round(angles * (N_DIRECTIONS / np.pi)).astype(int) % N_DIRECTIONS
    n_cells = SIDE // CELL
    features = []
    for direction in range(N_DIRECTIONS):
        strokes = np.where(directions == direction, lengths, 0.0)
        cells = strokes.reshape(-1, n_cells, CELL, n_cells, CELL)
        features.append(cells.sum(axis=(2, 4)).reshape(len(images), -1))
    return normalize(np.sqrt(np.concatenate(features, axis=1)))


def drawn_rows(fonts, count, seed=0):
    """Return rows of shape (n_characters, n_fonts, 256) of characters that all fonts have."""
    blanks = [draw(font, MISSING) for font in fonts]
    order = np.random.default_rng(seed).permutation(CHARACTERS)
    characters = []
    for number in order:
        images = []
        for font, blank in zip(fonts, blanks, strict=True):
            image = draw(font, chr(number))
            if image is None or np.array_equal(image, blank):
                break
            images.append(image)
        if len(images) == len(fonts):
            characters.append(images)
        if len(characters) == count:
            break
    if not characters:
        raise ValueError("the fonts must share a character; no ideograph is in all of them")
    images = np.asarray(characters)
    rows = describe(images.reshape(-1, SIDE, SIDE))
    return rows.reshape(len(characters), len(fonts), -1)


def run(options):
    """Measure all classifiers on all numbers of characters; return the single runs."""
    learned = open_fonts(options.fonts, options.learn)
    tested = {}
    for pattern in options.test:
        tested.update(open_fonts(options.fonts, pattern))
    rows = drawn_rows([*learned.values(), *tested.values()], max(options.characters))
    records = []
    for count in options.characters:
        X = rows[:count, : len(learned)].reshape(-1, rows.shape[2])
        y = np.repeat(np.arange(count), len(learned))
        for name, build in CLASSIFIERS.items():
            record = {"characters": count, "classifier": name}
            record |= measure(build(), X, y, rows[:count, len(learned) :], list(tested))
            records.append(record)
            print(record, file=sys.stderr, flush=True)
    return records


def measure(classifier, X, y, X_test, names):
    """Learn rows; return accuracies by font, seconds, megabytes and milliseconds a row."""
    record = {"learning s": processor_timed(classifier.fit, X, y)[0]}
    record["state MB"] = state_megabytes(classifier)
    record["first prediction s"] = processor_timed(classifier.predict, X_test[0, :1])[0]
    labels = np.arange(len(X_test))
    seconds = []
    for number, name in enumerate(names):
        second, predicted = processor_timed(classifier.predict, X_test[:, number])
        seconds.append(second)
        record[f"accuracy, {name}"] = 100.0 * np.mean(predicted == labels)
    record["ms a row"] = 1e3 * sum(seconds) / (len(labels) * len(names))
    single = [processor_timed(classifier.predict, row[:1])[0] for row in X_test[:N_SINGLE]]
    record["ms a single row"] = 1e3 * np.median(single)
    return record


def section(records, options):
    """Return what was learned and tested, and the records as a table, in Markdown."""
    learned = ", ".join(open_fonts(options.fonts, options.learn))
    heading = [
        "## Characters",
        "",
        f"Learned in one call: {learned}. One row of each font and character, 256 columns "
        "(strokes of four directions in 8 x 8 cells). Accuracies are percent of the characters in "
        "a font that was not learned.",
    ]
    columns = list(records[0])
    rows = []
    for record in records:
        cells = [record["characters"], record["classifier"]]
        for name in columns[2:]:
            digits = 1 if "accuracy" in name or "MB" in name else 2
            cells.append(f"{record[name]:.{digits}f}")
        rows.append(cells)
    return [heading, table(columns, rows)]
