"""A user's type checker sees the types of the public names."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ffnb_sklearn

SCRIPT = """
import numpy as np

from ffnb_sklearn import FFNBClassifier, load, save

X = np.zeros((4, 2))
y = [0, 0, 1, 1]
clf = FFNBClassifier(random_state=0)
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
FFNBClassifier(band_size="three")
"""

# torch is large, and no revealed type depends on it.
CONFIG = """
[mypy]
strict = True
follow_imports = silent
[mypy-torch.*]
follow_imports = skip
"""

CLASSIFIER = "ffnb_sklearn.classifier.FFNBClassifier"
ARRAY = "numpy.ndarray["


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
    beginnings = [CLASSIFIER, CLASSIFIER, CLASSIFIER, ARRAY, ARRAY]
    beginnings += [CLASSIFIER, CLASSIFIER, CLASSIFIER, "None"]
    assert len(revealed) == len(beginnings) + 1, result.stdout + result.stderr
    for text, beginning in zip(revealed, beginnings, strict=False):
        assert text.startswith(beginning), result.stdout
    assert "Any" not in revealed[-1]
    errors = [line for line in result.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, result.stdout
    assert 'Argument "band_size" to "FFNBClassifier" has incompatible type "str"' in errors[0]
