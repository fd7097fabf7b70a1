"""Model files that are forged consistently, loaded and used: they run nothing, open nothing.

Most forgeries in `tests.campaigns.attack.models` do not load. Here a parameter or a fitted value is
replaced by a value of the same kind, so that many files load. Each is then used as a service would
use it.
"""

import io
import json
import os
import re
import signal
import sys
import warnings
import zipfile
from contextlib import contextmanager
from functools import partial, reduce
from importlib.util import find_spec
from itertools import zip_longest
from operator import getitem

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler

from ffnb_sklearn import SkeletonDescriptor, TorchFeatureExtractor, make_continual_pipeline
from ffnb_sklearn.backbones import ConvNet, MirrorShift, SkeletonGCN
from ffnb_sklearn.exceptions import ModelFileError
from tests.campaigns.attack.models import following_classifier, many_layers, search
from tests.saving.model_files import (
    classifier,
    closed,
    discriminant,
    discriminant_pipeline,
    load_bytes,
    naive_classifier,
    open_set_classifier,
    opened,
    pipeline,
    places,
    put,
    saved,
    with_text,
)
from tests.separated_classes import X

try:
    import resource
except ImportError:
    # Windows does not measure the memory.
    resource = None

# Longest time of a file, in seconds, far above the time of any file: a hang ends the attack.
_LONGEST = 120

# Most memory that all files together may add, in KB.
_MOST_MEMORY = 3_000_000

_FORBIDDEN = re.compile(
    r"subprocess\.|os\.(system|exec|spawn|posix_spawn|fork|remove|rename)|socket\."
)

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_OWN = "ffnb_sklearn.backbones:ConvNet"

# Counts of which a large one once took gigabytes at the first prediction, or kept `load` busy.
_HARMFUL = {("AnaCP", "parameters", "n_layers"), ("NaiveNetwork", "n_layers")}

# Calls of `ran`, and events that no file may cause.
_EVENTS = []
_WATCHED = []


def ran(*_, **__):
    """Record a call; forged files name this function."""
    _EVENTS.append("ran")


def text_pipeline():
    model = make_continual_pipeline(HashingVectorizer(n_features=4096), discriminant())
    return model.partial_fit(["a parcel is late", "an invoice is due"], ["late", "due"])


def image_pipeline():
    small = {"stem_width": 4, "widths": (4, 6), "blocks": (1, 1)}
    extractor = TorchFeatureExtractor(
        ConvNet, backbone_params=small, layers=["0", "3"], pooling="max", views=MirrorShift(1)
    )
    return make_continual_pipeline(extractor, classifier()).partial_fit(_IMAGES, [0, 0, 1, 1])


def graph_pipeline():
    extractor = TorchFeatureExtractor(
        SkeletonGCN, backbone_params={"n_nodes": 6, "n_node_features": 3}, input_shape=(6, 3)
    )
    return make_continual_pipeline(extractor, classifier()).partial_fit(_ROWS, [0, 0, 1, 1])


def skeleton_pipeline():
    return make_continual_pipeline(SkeletonDescriptor(n_chunks=2), classifier()).partial_fit(
        _SEQUENCES, [0, 0, 1, 1]
    )


_RNG = np.random.default_rng(0)
_IMAGES = _RNG.integers(256, size=(4, 3, 8, 8), dtype=np.uint8)
_ROWS = _RNG.random((4, 18))
_ROWS_MIXED = np.array([["red", 1.0], ["blue", 2.0], ["red", np.nan], ["green", 4.0]], dtype=object)
_SEQUENCES = _RNG.random((4, 5, 6, 3))


def word_pipeline():
    model = make_continual_pipeline(TfidfVectorizer(), discriminant())
    return model.partial_fit(["a parcel is late", "an invoice is due"], ["late", "due"])


def kept_words_pipeline():
    kept = FrozenEstimator(CountVectorizer().fit(["a parcel is late", "an invoice is due"]))
    model = make_continual_pipeline(
        make_union(kept, make_pipeline(kept, MaxAbsScaler())), discriminant()
    )
    return model.partial_fit(["a parcel is late", "an invoice is due"], ["late", "due"])


def category_pipeline():
    columns = ColumnTransformer(
        [
            ("colours", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [0]),
            ("sizes", make_pipeline(SimpleImputer(), StandardScaler()), [1]),
        ]
    )
    return make_continual_pipeline(columns, classifier()).partial_fit(_ROWS_MIXED, [0, 0, 1, 1])


def samples(canary):
    """Return the function that makes each estimator, and samples for it."""
    texts = ["a" * 30000 + "!", "a " * 3000, str(canary), "x-\u0301" * 3000]
    paths = [str(canary), *texts]
    return [
        (text_pipeline, texts),
        (image_pipeline, _IMAGES),
        # A service of texts gets a file with another first step.
        (image_pipeline, paths),
        (graph_pipeline, _ROWS),
        (skeleton_pipeline, _SEQUENCES),
        (pipeline, X),
        (discriminant_pipeline, X),
        (open_set_classifier, X),
        (naive_classifier, X),
        (many_layers, X),
        (following_classifier, X),
        *(skops_samples(paths) if find_spec("skops") else []),
    ]


def skops_samples(texts):
    return [
        (word_pipeline, texts),
        (kept_words_pipeline, texts),
        (category_pipeline, _ROWS_MIXED),
        (search, X),
    ]


def hostile_values(old, canary):
    """Return values of the kind of a value of the JSON text, and values that name something."""
    if isinstance(old, bool):
        return [not old]
    if isinstance(old, int):
        return [-1, 0, 1, 2, 7, 100, 10**4, 10**6, 2**24, 2**31 - 1, 2**40, 2**63 - 1, 10**30]
    if isinstance(old, float):
        return [0.0, 1e-300, 0.5, 1.0, 1e300]
    names = ["subprocess:run", f"{__name__}:ran", str(canary), "(a", "filename", "file"]
    names += ["punycode", "zlib_codec", "char", "none", "meta", "mirror", _OWN]
    objects = [
        *({"path": str(canary)}, {"factory": f"{__name__}:ran"}, {"factory": _OWN}, None),
        *({"tuple": [1, 10**6]}, {"tuple": [1, 16]}, {"tuple": [3, 10**5, 10**5]}),
        *({"dict": [["stem_width", 2**13]]}, {"dict": [["widths", [2**13, 2**13]]]}),
        *({"dict": [["n_nodes", 10**5], ["n_node_features", 3]]}, {"number_type": "complex128"}),
        {"augmentation": ["MirrorShift", {"dict": [["shift", 10**5]]}]},
        {"augmentation": ["MirrorShift", {"dict": [["shift", 200]]}]},
        {"augmentation": ["Jitter", {"dict": []}]},
    ]
    return names + objects if isinstance(old, str) or old is None else objects + names


def count_used(n_files, folder):
    """Return how many of some consistently forged files load; each of these is used."""
    canary = folder / "canary.txt"
    canary.write_text("a secret text")
    forgeries = all_forgeries(canary, folder)
    before = _memory()
    n_loaded = sum(
        _is_used(*forgeries[number % len(forgeries)], canary, folder) for number in range(n_files)
    )
    assert _memory() - before < _MOST_MEMORY
    return n_loaded


def all_forgeries(canary, folder):
    """Return all forgeries: a function that makes the file, samples and a name.

    Counts that once did harm come first. Then the models take turns, each with a parameter, another
    value and a part of skops.
    """
    rng = np.random.default_rng(0)
    harmful, kinds = [], []
    for make, rows in samples(canary):
        parameters, others = [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content, arrays = opened(saved(make(), folder / "model.ffnb"))
        for path in places(content):
            if path[:1] != ("estimator",) or path[-1] == "array":
                continue
            if path[-3:] in _HARMFUL or path[-2:] in _HARMFUL:
                chosen = harmful
            else:
                chosen = parameters if path[-2:-1] == ("parameters",) else others
            for value in hostile_values(reduce(getitem, path, content), canary):
                file = partial(_forged, content, arrays, path, value)
                chosen.append((file, rows, f"{path}={value!r}"))
        parts = list(_forged_parts(content, arrays, rows, canary))
        for kind in (parameters, others, parts):
            kinds.append([kind[i] for i in rng.permutation(len(kind))])
    by_turns = [one for turn in zip_longest(*kinds) for one in turn if one is not None]
    return harmful + by_turns


def _forged_parts(content, arrays, rows, canary):
    """Yield the forgeries in the bytes of skops."""
    for path in places(content):
        if path[-1:] != ("skops",):
            continue
        index = reduce(getitem, path, content)[1]["array"]
        for place, value in _hostile_parts(arrays[index].tobytes(), canary):
            file = partial(_forged_part, content, arrays, index, place, value)
            yield file, rows, f"{place}={value!r}"


def _forged(content, arrays, path, value):
    """Return a file with another value at a place of its JSON text."""
    forged = put(content, path, value) if value is not None else _with_null(content, path)
    return closed(forged, arrays)


def _hostile_parts(data, canary):
    """Yield the places of types and texts in the bytes of skops, and hostile values for each.

    The promise for these steps is about types and paths, and not about numbers.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        text = json.loads(archive.read("schema.json"))
    for place in places(text):
        if place[-1:] in (("__class__",), ("__module__",), ("__loader__",)):
            for value in ("system", "os", "posix", "FunctionNode", "ObjectNode", "TreeNode"):
                yield place, value
        elif place[-1:] == ("content",) and isinstance(reduce(getitem, place, text), str):
            for value in ("filename", "file", str(canary)):
                yield place, json.dumps(value)


def _forged_part(content, arrays, index, place, value):
    """Return a file with another value in the bytes of skops."""
    change = with_text(lambda text: put(text, place, value))
    forged = np.frombuffer(change(arrays[index].tobytes()), np.uint8)
    return closed(content, [*arrays[:index], forged, *arrays[index + 1 :]])


def _is_used(file, rows, name, canary, folder):
    """Forge a file, load it and use it; return whether it loads."""
    content = file()
    with _watched(canary, name), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimator = load_bytes(content, folder / "forged.ffnb")
        except ModelFileError:
            return False
        for method in ("transform", "predict", "predict_proba", "get_feature_names_out"):
            try:
                call = getattr(estimator, method)
                call() if method == "get_feature_names_out" else call(rows)
            except (MemoryError, SystemError, AssertionError) as error:
                error.add_note(name)
                raise
            except Exception:
                # Parameters that do not fit the samples.
                continue
    return True


def _with_null(content, path):
    """Return content with null at a place; `put` would remove the place."""
    marked = put(content, path, "")
    owner = marked
    for key in path[:-1]:
        owner = owner[key]
    owner[path[-1]] = None
    return marked


def _memory():
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _audit(event, arguments):
    """Record an event that no file may cause; this hook of Python cannot be removed."""
    if not _WATCHED:
        return
    canary, folder = _WATCHED
    if event == "open":
        name = os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else ""
        writes = bool(arguments[2] & _WRITES) and "__pycache__" not in name
        if name == canary or (writes and not name.startswith(folder)):
            _EVENTS.append(f"open {name}")
    elif _FORBIDDEN.match(event):
        _EVENTS.append(event)


_HOOKS = []


@contextmanager
def _watched(canary, what):
    """Raise if a block runs a program, opens a path that it should not, or hangs."""
    if not _HOOKS:
        sys.addaudithook(_audit)
        _HOOKS.append(_audit)

    def hang(*_):
        raise AssertionError(f"{what} hangs")

    has_alarm = hasattr(signal, "SIGALRM")
    _EVENTS.clear()
    _WATCHED[:] = [str(canary), str(canary.parent)]
    if has_alarm:
        old = signal.signal(signal.SIGALRM, hang)
        signal.alarm(_LONGEST)
    try:
        yield
    finally:
        _WATCHED.clear()
        if has_alarm:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, old)
    assert not _EVENTS, f"{what} causes {_EVENTS}"
