"""
Sort messages into categories that arrive week by week
======================================================

A help desk sorts its messages. Each week brings two new categories, and the messages of earlier
weeks are deleted. After each week the classifiers are tested on new messages of all categories so
far.

All classifiers get the same sparse rows from a ``HashingVectorizer``. This vectorizer learns
nothing from the messages, so a word has the same column in week five as in week one. The steps
after the vectorizer differ:

- ``FFNBClassifier`` accepts the sparse rows of 262,144 columns, and reduces them by a random
  projection;
- ``TruncatedSVD`` before ``FFNBClassifier`` is a common step for text, but fails here: it is fitted
  to the messages of week one, which lack the words of later categories;
- ``SGDClassifier`` also accepts sparse rows, but forgets.

Pass a file name to save the picture instead of showing it::

    python examples/plot_text.py text.png
"""

import sys
import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalAccuracyDisplay,
    evaluate_stream,
    make_continual_pipeline,
)
from ffnb_sklearn.exceptions import FrozenTransformerWarning

# %%
# The messages
# ------------
# Each word is drawn at random, with probability one third from the words of the category and
# otherwise from common words. The categories arrive in alphabetical order.

WORDS = {
    "account": "login password username email profile verify locked reset captcha session",
    "billing": "invoice charged refund card payment tax receipt twice amount bank",
    "cameras": "lens blurry shutter flash zoom focus tripod photo exposure video",
    "delivery": "parcel courier tracking late address shipped driver doorstep depot customs",
    "energy": "battery charger empty drains plug voltage overheats cable percent power",
    "firmware": "update version install reboot beta crash rollback download patch bootloader",
    "gardens": "hose sprinkler lawn mower pruning soil hedge blade grass pump",
    "heating": "thermostat radiator cold boiler valve temperature degrees leak pressure pipes",
    "internet": "router wifi signal drops speed modem cable ethernet lag provider",
    "jobs": "vacancy interview applied salary contract internship hiring resume start position",
}
COMMON = (
    "hello please help since yesterday my the new still not working again today after could you "
    "tell me what to do i have tried everything and it is very urgent thanks regards when will "
    "this be solved problem question order customer number morning week device shop home support"
)


def write_messages(n_per_category, seed):
    """Return messages of 8 to 15 words, and their categories."""
    random = np.random.default_rng(seed)
    texts, categories = [], []
    for category, own in WORDS.items():
        for _ in range(n_per_category):
            n_words = random.integers(8, 16)
            is_own = random.random(n_words) < 1 / 3
            words = np.where(
                is_own, random.choice(own.split(), n_words), random.choice(COMMON.split(), n_words)
            )
            texts.append(" ".join(words))
            categories.append(category)
    return np.array(texts, dtype=object), np.array(categories)


texts, categories = write_messages(100, seed=0)
texts_test, categories_test = write_messages(60, seed=1)
print(f"{categories[0]}: {texts[0]}")

# %%
# The classifiers
# ---------------
# Without trained bands, the classifier makes no dense copy of all rows, and its result does not
# depend on the order of the weeks.


def hashing():
    """Return the transformer that maps messages to sparse rows."""
    return HashingVectorizer(n_features=2**18, ngram_range=(1, 2))


def ffnb():
    """Return a classifier for sparse rows."""
    return FFNBClassifier(band_size=0, random_state=0)


classifiers = {
    "FFNBClassifier": make_continual_pipeline(hashing(), ffnb()),
    "TruncatedSVD, FFNBClassifier": make_continual_pipeline(
        hashing(), TruncatedSVD(50, random_state=0), ffnb()
    ),
    "SGDClassifier": make_continual_pipeline(
        hashing(), SGDClassifier(loss="log_loss", random_state=0)
    ),
}

# %%
# The weeks
# ---------
# The pipeline with ``TruncatedSVD`` issues a warning, which is printed here.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", FrozenTransformerWarning)
    results = {
        name: evaluate_stream(
            classifier, texts, categories, texts_test, categories_test, classes_per_task=2
        )
        for name, classifier in classifiers.items()
    }
for warning in caught:
    print(f"{warning.category.__name__}:")
    print(textwrap.fill(str(warning.message), 88, initial_indent="  ", subsequent_indent="  "))

print("accuracy on all categories so far, in %")
print(f"{'new categories':<20}" + "".join(f"{name:>30}" for name in results))
for week, names in enumerate(results["FFNBClassifier"].task_classes):
    row = [100 * result.accuracies[week] for result in results.values()]
    print(f"{', '.join(names):<20}" + "".join(f"{accuracy:>30.1f}" for accuracy in row))

# %%
# Accuracy after each week
# ------------------------

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
IncrementalAccuracyDisplay.from_stream(results, ax=axes)
axes.set_ylim(0, 1.02)
axes.legend(loc="lower left", frameon=False)
axes.set_title("Messages, two new categories per week")

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
