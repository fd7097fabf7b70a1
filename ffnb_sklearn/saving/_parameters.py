"""The parameters and fitted attributes that a file may hold, with every name that it may use.

Parameters decide what an estimator does long after it was loaded: a dotted name is imported, a path
is opened, a pattern is matched against texts, and a number allocates memory. So a file cannot hold
any value that a constructor accepts. A parameter can be None, a flag, a number, or an option that
the estimator lists in its constraints. Any other value needs a rule in the table below. `save`
refuses the same values as `load`.
"""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils._param_validation import Options

from .._estimators.bands import Bands
from .._estimators.base import ClassIncrementalClassifier
from ..backbones import FlipCrop, Jitter, MirrorShift, TorchFeatureExtractor
from ..datasets._base import shown
from ..skeletons._blocks import BLOCK_SCALES
from ..skeletons._descriptor import SkeletonDescriptor
from ._models import MOST_PROJECTED
from ._values import NUMBER_TYPES

__all__ = ["check_columns", "check_parameter", "check_size", "rules_of"]

# Largest values of numbers that allocate memory, build layers or start processes before any sample
# confirms them.
_LARGEST = {
    "n_features": MOST_PROJECTED,
    "n_features_in_": MOST_PROJECTED,
    "n_layers": 1 << 10,
    "band_size": 1 << 16,
    "shared_band_size": 1 << 20,
    "degree": 16,
    "n_components": 1 << 20,
    "n_jobs": 1 << 10,
    "sample_steps": 1 << 10,
}

# Largest number of columns of a `SkeletonDescriptor`; a row then takes 32 MB.
_MOST_DESCRIBED = 1 << 22

# Largest number of words or characters of an n-gram; a text has this many n-grams per position.
_LONGEST_NGRAM = 16

# Largest shift of an image, in pixels; the padded image must not be much larger than the image.
_LARGEST_SHIFT = 256

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d{1,3})?")

# Codecs that decode in time proportional to the length of a text.
_ENCODINGS = {
    *("ascii", "latin-1", "utf-8", "utf-8-sig", "utf-16", "utf-32"),
    *(f"iso-8859-{part}" for part in (*range(1, 12), *range(13, 17))),
    *(f"cp{page}" for page in range(1250, 1259)),
}

# Patterns of tokens that are found in time proportional to the length of a text: a run of
# characters of one kind, of bounded or maximal length. A pattern with an alternative to try again
# can take a time that is exponential in the length of a text. A boundary at the end needs one at
# the beginning, without which each of the positions in a run would try the rest of the run.
_PATTERN = re.compile(
    r"(\(\?u\))?(?P<start>\\b)?"
    r"(?P<kind>\\[wdS]|\[\^?(\\[wds.\-]|\w-\w|[\w '#@&+.,])+-?\])"
    r"(?P=kind){0,9}([+*]|\{\d{1,2}(,\d{0,2})?\})?(?(start)(\\b)?)"
)


class _Rule(NamedTuple):
    """Values that a parameter may have, in words and as a test."""

    expected: str
    holds: Callable[[Any], bool]


def _is_number(value):
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _is_count(value, least=0):
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least


def _is_size(value):
    return _is_count(value, 1)


def _is_shape(value):
    # The product of Python's integers cannot overflow.
    return isinstance(value, tuple) and all(type(one) is int and one > 0 for one in value)


def _is_name(value):
    return isinstance(value, str)


def _is_array(value, kinds="biufc"):
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds


def _is_numeric(value):
    """Return whether a value is an array or a tensor of numbers."""
    return isinstance(value, torch.Tensor) or _is_array(value)


def _is_list(holds):
    """Make a test for lists, tuples and arrays whose entries hold."""
    return lambda value: isinstance(value, list | tuple | np.ndarray) and all(map(holds, value))


def _is_dict(holds, key_holds=_is_name):
    """Make a test for dictionaries whose values and keys hold."""
    return lambda value: (
        isinstance(value, dict) and all(key_holds(key) and holds(one) for key, one in value.items())
    )


def _is_option(*options):
    return lambda value: isinstance(value, str) and value in options


def _none_or(*tests):
    """Make a test for None and for values for which any test holds."""
    return lambda value: value is None or any(test(value) for test in tests)


def _is_plain(value):
    """Return whether a value is a number, a string, an array, or a collection of these."""
    if value is None or isinstance(value, bool | str | np.generic) or _is_number(value):
        return True
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return _is_numeric(value) or value in NUMBER_TYPES.values()


def _is_scaling(value):
    """Return whether a value is a number, or nested lists or an array of numbers."""
    return _is_number(value) or _is_numeric(value) or _is_list(_is_scaling)(value)


def _is_shift_of_images(kind, name):
    """Make a test for an augmentation or for views whose shift is small."""
    return lambda value: type(value) is kind and getattr(value, name) <= _LARGEST_SHIFT


def _is_pattern(value):
    if not isinstance(value, str) or not _PATTERN.fullmatch(value):
        return False
    try:
        re.compile(value)
    except re.error:
        return False
    return True


def _is_range_of_ngrams(value):
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(map(_is_size, value))
        and value[0] <= value[1] <= _LONGEST_NGRAM
    )


def _is_vocabulary(value):
    # The columns of a sparse array are not checked when it is made.
    return _is_dict(_is_count)(value) and sorted(value.values()) == list(range(len(value)))


def _is_estimator(value):
    return isinstance(value, BaseEstimator)


def _is_step(value):
    """Return whether a value is a name and an estimator, None or "passthrough"."""
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and _is_name(value[0])
        and _none_or(_is_option("passthrough"), _is_estimator)(value[1])
    )


_NONE = _Rule("None", lambda value: value is None)
_COUNT = _Rule("an integer of at least 0", _is_count)
_ONE_DEVICE = _Rule(
    "the name of a device",
    lambda value: isinstance(value, str) and _DEVICE.fullmatch(value) is not None,
)
_SIZES = _Rule("None or a list of sizes", _none_or(_is_list(_is_size)))
_SCALING = _Rule("None or numbers", _none_or(_is_scaling))
_NUMBER_TYPE = _Rule(
    "a type of numbers",
    lambda value: value in NUMBER_TYPES.values() or _is_option(*NUMBER_TYPES)(value),
)
_PER_FEATURE = _Rule("None or one number per feature", _none_or(lambda one: _is_array(one, "f")))

# Parameters of every class that turns texts into counts.
_TEXTS = {
    # Other inputs are files.
    "input": _Rule("'content'", _is_option("content")),
    "encoding": _Rule(
        f"one of {', '.join(sorted(_ENCODINGS))}",
        lambda value: isinstance(value, str) and value.lower() in _ENCODINGS,
    ),
    "strip_accents": _Rule("None, 'ascii' or 'unicode'", _none_or(_is_option("ascii", "unicode"))),
    "preprocessor": _NONE,
    "tokenizer": _NONE,
    "analyzer": _Rule("'word', 'char' or 'char_wb'", _is_option("word", "char", "char_wb")),
    "stop_words": _Rule(
        "None, 'english' or a list of words", _none_or(_is_option("english"), _is_list(_is_name))
    ),
    "token_pattern": _Rule(
        r"None or a pattern that cannot backtrack: a run of characters of one kind, such as "
        r"'(?u)\b\w\w+\b' or '[a-z]+'",
        _none_or(_is_pattern),
    ),
    "ngram_range": _Rule(f"two integers from 1 to {_LONGEST_NGRAM}", _is_range_of_ngrams),
    "dtype": _NUMBER_TYPE,
}

# Rules by class and parameter or fitted attribute, whose name ends in "_". They apply to
# subclasses. A fitted attribute without a rule is not part of a file.
_RULES = {
    ClassIncrementalClassifier: {
        "device": _ONE_DEVICE,
        "p": _Rule("a number or one per layer", lambda p: _is_number(p) or _is_list(_is_number)(p)),
        "priors": _Rule(
            "'uniform', 'empirical' or weights by label",
            lambda value: (
                _is_option("uniform", "empirical")(value)
                or _is_dict(_is_number, lambda key: _is_name(key) or np.isscalar(key))(value)
            ),
        ),
        "bands": _Rule("None or Bands", _none_or(lambda one: type(one) is Bands)),
    },
    Pipeline: {
        "steps": _Rule("a list of names and estimators", _is_list(_is_step)),
        # A cache may run code.
        "memory": _NONE,
        "transform_input": _Rule("None or a list of names", _none_or(_is_list(_is_name))),
    },
    FrozenEstimator: {"estimator": _Rule("an estimator", _is_estimator)},
    StandardScaler: {
        **dict.fromkeys(["mean_", "var_", "scale_"], _PER_FEATURE),
        "n_samples_seen_": _Rule(
            "a count, or one per feature", lambda one: _is_number(one) or _is_array(one, "iuf")
        ),
    },
    MinMaxScaler: {
        "feature_range": _Rule("two numbers", _is_list(_is_number)),
        **dict.fromkeys(["min_", "scale_", "data_min_", "data_max_", "data_range_"], _PER_FEATURE),
        "n_samples_seen_": _COUNT,
    },
    MaxAbsScaler: {
        **dict.fromkeys(["scale_", "max_abs_"], _PER_FEATURE),
        "n_samples_seen_": _COUNT,
    },
    FeatureHasher: {"dtype": _NUMBER_TYPE},
    HashingVectorizer: _TEXTS,
    CountVectorizer: {**_TEXTS, "vocabulary_": _Rule("columns by word", _is_vocabulary)},
    SkeletonDescriptor: {
        "blocks": _Rule("a list of names of blocks", _is_list(_is_option(*BLOCK_SCALES))),
        "frame_shape": _SIZES,
        "frame_shape_": _Rule("a shape", _is_shape),
    },
    TorchFeatureExtractor: {
        "backbone_params": _Rule(
            "None or a dictionary of numbers, strings, arrays and collections of these",
            _none_or(_is_dict(_is_plain)),
        ),
        # `fit` opens a path.
        "weights": _Rule("None or arrays by name", _none_or(_is_dict(_is_numeric))),
        "head": _Rule("None or a name", _none_or(_is_name)),
        "layers": _Rule("None or a list of names", _none_or(_is_list(_is_name))),
        "frozen": _Rule("None or a list of names", _none_or(_is_list(_is_name))),
        "input_shape": _SIZES,
        "mean": _SCALING,
        "std": _SCALING,
        "device": _ONE_DEVICE,
        "augment": _Rule(
            f"None, 'flip-crop', Jitter, or FlipCrop of at most {_LARGEST_SHIFT} pixels",
            _none_or(
                _is_option("flip-crop"),
                lambda value: type(value) is Jitter,
                _is_shift_of_images(FlipCrop, "padding"),
            ),
        ),
        "views": _Rule(
            f"None, 'mirror', or MirrorShift of at most {_LARGEST_SHIFT} pixels",
            _none_or(_is_option("mirror"), _is_shift_of_images(MirrorShift, "shift")),
        ),
        "state_dict_": _Rule("arrays by name", _is_dict(_is_array)),
        "n_features_out_": _COUNT,
        "loss_curve_": _Rule("a list of numbers", _is_list(lambda one: type(one) is float)),
        "classes_": _Rule("labels", lambda one: _is_array(one, "biufUO") and one.ndim == 1),
        "layer_widths_": _Rule(
            "widths by layer", _is_dict(lambda one: type(one) is int and one > 0)
        ),
        "layer_scales_": _Rule(
            "scales by layer", _is_dict(lambda one: type(one) is float and 0.0 < one < math.inf)
        ),
        "input_shape_": _Rule("None or a shape", _none_or(_is_shape)),
        "image_values_": _Rule("a kind of numbers", _none_or(_is_option("uint8", "number"))),
    },
}


def rules_of(made):
    """Return the rules of a class by parameter and fitted attribute."""
    return next((_RULES[base] for base in made.__mro__ if base in _RULES), {"memory": _NONE})


def check_parameter(made, name, value):
    """Raise `ValueError` unless a file may hold a value of a parameter or attribute of a class."""
    rule = rules_of(made).get(name) or _setting(made, name)
    if not rule.holds(value):
        raise ValueError(f"{rule.expected} in a file; got {shown(value)}")


def check_size(name, value):
    """Raise `ValueError` if a value is a number that is too large for a parameter of a file."""
    if _is_number(value) and value > _LARGEST.get(name, math.inf):
        raise ValueError(f"a number of at most {_LARGEST[name]} in a file; got {shown(value)}")


def _setting(made, name):
    """Return the rule of a parameter without an entry: a number, a flag, None or an option."""
    constraints = getattr(made, "_parameter_constraints", {}).get(name, [])
    lists = [one for one in constraints if isinstance(one, Options)]
    options = [option for one in lists for option in one.options if isinstance(option, str)]
    most = _LARGEST.get(name, math.inf)

    def holds(value):
        if isinstance(value, str):
            return value in options
        if isinstance(value, np.random.RandomState):
            return "random_state" in constraints
        return (
            value is None
            or isinstance(value, bool | np.bool_)
            or (_is_number(value) and not value > most)
        )

    limit = "" if most == math.inf else f" of at most {most}"
    return _Rule(f"a number{limit}, a flag, None or one of {sorted(options)}", holds)


def check_columns(descriptor):
    """Raise `ValueError` if a row of a `SkeletonDescriptor` would have too many columns."""
    frame = getattr(descriptor, "frame_shape_", descriptor.frame_shape)
    shape = (1, 1, 1) if frame is None else tuple(map(int, frame))
    n_points = math.prod(shape[:-1])
    n_numbers, n_pairs = n_points * shape[-1], n_points * (n_points - 1) // 2
    # Joints, speed, spread, trajectory and distances of each chunk, and the speed of distances.
    n_columns = int(descriptor.n_chunks) * (4 * n_numbers + n_pairs) + n_pairs + 1
    if n_columns > _MOST_DESCRIBED:
        raise ValueError(
            f"n_chunks and frame_shape of SkeletonDescriptor must give at most {_MOST_DESCRIBED} "
            f"columns; got up to {n_columns}"
        )
