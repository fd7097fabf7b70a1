"""Model files in which values refer to an array of another value, digest and all."""

import numpy as np

from ffnb_sklearn.exceptions import ModelFileError
from tests.campaigns.attack.models import original_files
from tests.saving.model_files import closed, load_bytes, opened, places, put


def count_repeated(n_files, folder):
    """Return how many files with a repeated reference are loaded; other errors are raised."""
    originals = [opened(file) for file in original_files()]
    n_accepted = 0
    for number in range(n_files):
        content, arrays = originals[number % len(originals)]
        rng = np.random.default_rng(number)
        references = [path for path in places(content) if path[-1:] == ("array",)]
        first, second = rng.choice(len(references), size=2, replace=False)
        reference = content
        for step in references[first]:
            reference = reference[step]
        forged = put(content, references[second], reference)
        try:
            load_bytes(closed(forged, arrays), folder / "forged.ffnb")
        except ModelFileError:
            continue
        n_accepted += 1
    return n_accepted
