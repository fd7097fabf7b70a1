"""A user's type checker sees the types of the public names."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ffnb_sklearn

SCRIPT = """
import numpy as np

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    class_incremental_tasks,
    evaluate_prequential,
    evaluate_stream,
    load,
    save,
)
from ffnb_sklearn.baselines import FeCAM

X = np.zeros((4, 2))
y = [0, 0, 1, 1]
clf = IncrementalDiscriminantAnalysis(random_state=0)
reveal_type(clf)
reveal_type(clf.fit(X, y))
reveal_type(clf.partial_fit(X, y))
reveal_type(clf.predict(X))
reveal_type(clf.predict_proba(X))
reveal_type(clf.forget(0))
reveal_type(clf.forget_samples(X, y))
reveal_type(clf.rename({0: 2}))
shares: dict[int, float] = clf.estimate_priors(X)
reveal_type(save(clf, "model"))
reveal_type(load("model"))
reveal_type(class_incremental_tasks(y, class_order=[1, 0]))
reveal_type(evaluate_stream(clf, X, y, X, y, class_order="random", random_state=1993))
reveal_type(evaluate_stream(FeCAM(), X, y, X, y).accuracies)
reveal_type(evaluate_prequential(clf, X, y))
bands = FFNBClassifier(random_state=0)
reveal_type(bands.fit(X, y))
reveal_type(bands.merge(bands))
reveal_type(bands.rename({0: 2}))
reveal_type(FFNBClassifier.as_published(p=2))
reveal_type(bands.forgetting_bound(X))
FFNBClassifier(band_size="three")
evaluate_stream(clf, X, y, X, y, first_task_classes="two")
evaluate_prequential(X, X, y)
"""

# torch is large, and no revealed type depends on it.
CONFIG = """
[mypy]
strict = True
follow_imports = silent
[mypy-torch.*]
follow_imports = skip
"""

CLASSIFIER = "ffnb_sklearn.classifiers.discriminant.IncrementalDiscriminantAnalysis"
BANDS = "ffnb_sklearn.classifiers.ffnb."
ARRAY = "numpy.ndarray["
LOADED = "ffnb_sklearn.saving._files.Estimator"
STREAM = "ffnb_sklearn.streams."


def test_mypy_sees_the_types_of_the_public_names(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    config = tmp_path / "mypy.ini"
    config.write_text(CONFIG, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", f"--config-file={config}", "--no-color-output"]
    command += [f"--cache-dir={tmp_path / 'cache'}", str(script)]
    root = Path(ffnb_sklearn.__file__).parents[1]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    revealed = re.findall(r'Revealed type is "(.*)"', result.stdout)
    beginnings = [CLASSIFIER] * 3 + [ARRAY] * 2 + [CLASSIFIER] * 3 + ["None", LOADED]
    beginnings += ["list[" + ARRAY, STREAM + "_evaluation.StreamResult", ARRAY]
    beginnings += [STREAM + "_prequential.PrequentialResult"]
    beginnings += [BANDS + "FFNBClassifier"] * 3
    beginnings += [
        BANDS + "PublishedFFNBClassifier",
        "ffnb_sklearn.core.bands.bound.ForgettingBound",
    ]
    assert len(revealed) == len(beginnings), result.stdout + result.stderr
    for text, beginning in zip(revealed, beginnings, strict=True):
        assert text.startswith(beginning), result.stdout
    errors = [line for line in result.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 3, result.stdout
    assert 'Argument "band_size" to "FFNBClassifier" has incompatible type "str"' in errors[0]
    assert 'Argument "first_task_classes" to "evaluate_stream" has incompatible' in errors[1]
    assert 'Argument 1 to "evaluate_prequential" has incompatible type' in errors[2]
