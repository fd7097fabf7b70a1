"""The learned state of classifiers: its stored parts, and the checks when they are read.

The constructors of the immutable classes of the core rebuild the state. This module checks
everything that a constructor does not check, so that no file gives a state that learning could not
give.
"""

import sys
from collections import defaultdict
from dataclasses import fields, is_dataclass, replace
from functools import partial

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

from .._estimators.bands import Bands
from .._estimators.state import State
from .._inputs.columns import ColumnRepair
from .._inputs.labels import check_labels
from .._inputs.sparse import N_TERMS, RandomProjection
from ..classifier import FFNBClassifier
from ..core.features.activations import ACTIVATIONS
from ..core.features.batch_norm import BatchNorm
from ..core.features.feature_map import Band, FeatureMap
from ..core.features.shared_band import SharedBand, draw_shared_band
from ..core.likeness import LeftOutLikeness
from ..core.model import Model
from ..core.settings import Descent, Settings
from ..core.statistics import ClassMoments
from ..core.tuning.naive import NaiveNetwork, Outputs
from ._container import misfit

__all__ = ["MOST_PROJECTED", "read_names", "read_state", "write_state"]

_LARGEST_SEED = 2**32 - 1

# Most weights of a shared band, which is drawn on loading: half a gigabyte.
_MOST_DRAWN = 2**26

# Largest number of features of samples that are projected. The matrix of the projection is drawn at
# the first prediction and takes about 64 bytes per feature, 1 GB.
MOST_PROJECTED = 1 << 24

# Fields that files do not hold, because they follow from the others.
_DERIVED = {
    Model: ["inputs_past"],
    FeatureMap: ["n_inputs", "shared"],
    RandomProjection: ["n_features"],
}

_CONSTRAINTS = FFNBClassifier._parameter_constraints | Bands._parameter_constraints


def write_state(state, writer):
    """Return the JSON of a learned state."""
    n_features = state.n_features_in
    if state.projection is not None and n_features > MOST_PROJECTED:
        raise ValueError(
            f"samples of more than {MOST_PROJECTED} features cannot be saved with their projection;"
            f" got {n_features} features."
        )
    return _written(state, writer, "the learned state")


def _written(value, writer, where):
    """Return the JSON of a core object: its fields by name, its arrays by number."""
    if is_dataclass(value):
        names = _stored(type(value))
        return {name: _written(getattr(value, name), writer, name) for name in names}
    if isinstance(value, tuple | list):
        return [_written(one, writer, where) for one in value]
    return writer.plain(value.item() if isinstance(value, np.generic) else value, where)


def _stored(made):
    """Return the names of the fields of a dataclass that a file holds."""
    return [one.name for one in fields(made) if one.init and one.name not in _DERIVED.get(made, ())]


def _fields_of(made, node):
    """Return the stored fields of a dataclass in their order."""
    return node.fields(*_stored(made))


def read_state(node, *, naive):
    """Return the learned state, with consistent parts, of a naive network or another model."""
    width, names, projection, repair, model, classes, tasks = _fields_of(State, node)
    n_features, known = width.integer(1), _labels(classes)
    projected = projection.optional(lambda one: _read_projection(one, n_features))
    state = State(
        n_features,
        names.optional(lambda one: read_names(one, n_features)),
        projected,
        repair.optional(lambda one: _read_repair(one, n_features, projected)),
        None,
        known,
        tuple(_labels(one, known) for one in tasks.entries()),
    )
    _check_bookkeeping(state, node)
    read = _read_network if naive else _read_model
    return replace(state, model=read(model, state.n_inputs, len(state.arrived)))


def _read_projection(node, n_features):
    """Return a projection of samples of a given width onto fewer columns."""
    seed, n_columns = _fields_of(RandomProjection, node)
    node.require(n_features <= MOST_PROJECTED, f"None above {MOST_PROJECTED} features")
    width = n_columns.integer(N_TERMS, n_features)
    n_columns.require(width in (n_features, width // N_TERMS * N_TERMS), f"a multiple of {N_TERMS}")
    return RandomProjection(n_features, seed.integer(0, _LARGEST_SEED), width)


def _read_repair(node, n_features, projection):
    """Return a repair of columns, which changes at least one."""
    offset, scale = _fields_of(ColumnRepair, node)
    repair = ColumnRepair(
        offset.optional(lambda one: one.array(n_features)),
        scale.optional(lambda one: one.array(n_features, least=0.0)),
    )
    node.require(repair.offset is not None or repair.scale is not None, "an offset or a scale")
    offset.require(repair.offset is None or projection is None, "null with a projection")
    scale.require(repair.scale is None or bool((repair.scale > 0.0).all()), "positive")
    return repair


def read_names(node, n_features):
    """Return the names of features."""
    names = node.labels()
    if names.dtype != object or len(names) != n_features:
        raise misfit(node.where, f"{n_features} names")
    return names


def _labels(node, known=None):
    """Return at least one label, without duplicates and of the kind of other labels."""
    labels = node.labels()
    if not len(labels) or len(np.unique(labels)) != len(labels):
        raise misfit(node.where, "one label or more, none of them twice")
    try:
        return check_labels(labels, known, node.where)
    except ValueError as error:
        raise misfit(node.where, "labels of a kind that can be learned") from error


def _check_bookkeeping(state, node):
    """Check that the labels of the tasks, of the model and of the columns are consistent."""
    arrived = state.arrived
    if arrived is None or len(np.unique(arrived)) != len(arrived):
        raise misfit(f"{node.where}.task_classes", "one label or more, none of them twice")
    if not np.array_equal(np.sort(state.classes), state.classes):
        raise misfit(f"{node.where}.classes", "sorted")
    if not np.isin(arrived, state.classes).all():
        raise misfit(f"{node.where}.classes", "a superset of the labels that have arrived")


def _is_axis(p):
    """Return whether an entry of `Settings.p` is a number of axes or a share of energy."""
    return 0 <= p <= sys.maxsize if type(p) is int else type(p) is float and 0.0 < p < 1.0


def _read_settings(node):
    """Return settings."""
    nodes = dict(zip(_stored(Settings), _fields_of(Settings, node), strict=True))
    descent = dict(zip(_stored(Descent), _fields_of(Descent, nodes.pop("descent")), strict=True))
    values, steps = ({name: one.plain() for name, one in some.items()} for some in (nodes, descent))
    values["p"] = tuple(one.plain() for one in nodes["p"].entries())
    _check_values(node, values | steps)
    settings = Settings(**values, descent=Descent(**steps))
    node.require(
        settings.skip_connection or settings.shared_band_size or settings.band_size,
        "settings that leave the classifier a feature",
    )
    node.require(
        settings.units == "relative" or settings.epsilon is not None,
        "settings with an absolute ridge or a relative one",
    )
    return settings


def _check_values(node, values):
    """Raise unless parameters of the estimator give these values; None is "auto" for two."""
    automatic = [name for name in ("shrinkage", "epsilon") if values[name] is None]
    try:
        given = values | dict.fromkeys(automatic, "auto")
        validate_parameter_constraints(_CONSTRAINTS, given, "settings")
    except InvalidParameterError as error:
        raise misfit(node.where, "valid values of settings") from error
    axes = type(values["p"]) is tuple and bool(values["p"]) and all(map(_is_axis, values["p"]))
    plain = "auto" not in (values["shrinkage"], values["epsilon"], values["shared_band_size"])
    # The constraints accept True as a number, and integers of any size.
    flags = (name for name, value in values.items() if type(value) is bool)
    plain &= all("boolean" in _CONSTRAINTS[name] for name in flags)
    plain &= all(one <= sys.maxsize for one in values.values() if type(one) is int)
    node.require(axes and plain, "valid values of settings")


def _read_model(node, n_inputs, n_classes):
    """Return a model of a given number of inputs and classes."""
    settings, seed, network, moments, dims, n_newest, curve, left_out = _fields_of(Model, node)
    settings, number = _read_settings(settings), seed.integer(0, _LARGEST_SEED)
    n_layers = len(settings.p)
    bands, widths = _read_bands(network, n_inputs, n_layers)
    network.require(settings.band_size or not bands, "empty with band_size=0")
    features = FeatureMap(n_inputs, _drawn_band(node, n_inputs, settings, number), bands)
    return Model(
        settings,
        number,
        features,
        tuple(_read_moments(one, features.n_features) for one in moments.entries(n_classes)),
        tuple(
            tuple(n.integer(0, widths[layer]) for layer, n in enumerate(one.entries(n_layers)))
            for one in dims.entries()
        ),
        _read_n_newest(n_newest, [band.layer for band in features.bands], dims, n_classes),
        _read_curve(curve),
        _read_left_out(left_out, n_classes),
    )


def _read_n_newest(node, layers, dims, n_classes):
    """Return the number of classes of the newest task, which has a band in each layer."""
    number = node.integer(0, n_classes)
    if number:
        n_layers = len(dims.entries()[-1].entries()) if dims.entries() else 0
        complete = n_layers and layers[-n_layers:] == list(range(1, n_layers + 1))
        node.require(complete, "0 without a newest task")
    return number


def _read_curve(node):
    """Return losses."""
    losses = tuple(one.plain() for one in node.entries())
    node.require(all(type(one) is float for one in losses), "a list of numbers")
    return losses


def _read_left_out(node, n_classes):
    """Return the left-out likeness of the first classes, or of all."""
    read = []
    for one in node.entries():
        values, known = _fields_of(LeftOutLikeness, one)
        likeness = LeftOutLikeness(values.array(None), known.integer())
        ascending = bool((np.diff(likeness.values) >= 0.0).all())
        values.require(ascending and (likeness.values <= 0.0).all(), "ascending and not positive")
        known.require(likeness.n_classes > 0 or not len(likeness.values), "positive with values")
        read.append(likeness)
    node.require(len(read) <= n_classes, f"of at most {n_classes} classes")
    return tuple(read)


def _drawn_band(node, n_inputs, settings, seed):
    """Return the shared band that a seed gives, unless the file asks for too much memory."""
    n_neurons = settings.shared_band_size
    node.require(n_neurons * (n_inputs + 1) <= _MOST_DRAWN, f"of at most {_MOST_DRAWN} weights")
    return draw_shared_band(n_neurons, n_inputs, mirrored=settings.skip_connection, seed=seed)


def _read_bands(node, n_inputs, n_layers):
    """Return the bands and the width of every layer; a band reads only features before it."""
    # The widths of the file are only compared with arrays; no memory is allocated from them.
    bands, widths = [], defaultdict(int, {0: n_inputs})
    for one in _fields_of(FeatureMap, node)[0].entries():
        layer, weights, activation, norm, scale = _fields_of(Band, one)
        number, rows = layer.integer(1, n_layers), weights.array(None, None)
        width = widths[number - 1]
        # A band of the first layer reads all inputs; other bands read the neurons that existed
        # before.
        seen = rows.shape[1] == width if number == 1 else rows.shape[1] <= width
        if not len(rows) or not seen:
            raise misfit(weights.where, f"rows over {width} features")
        batch_norm = norm.optional(partial(_read_norm, n_neurons=len(rows)))
        factor = scale.number(0.0, above=True)
        bands.append(Band(number, rows, activation.text(*ACTIVATIONS), batch_norm, factor))
        widths[number] += len(rows)
    return tuple(bands), widths


def _read_norm(node, n_neurons):
    """Return the running statistics of batch normalisation."""
    mean, variance = _fields_of(BatchNorm, node)
    return BatchNorm(mean.array(n_neurons), variance.array(n_neurons, least=0.0))


def _read_moments(node, n_features):
    """Return the moments of a class."""
    weight, mean, factor, residual = _fields_of(ClassMoments, node)
    return ClassMoments(
        weight.number(0.0, above=True),
        mean.array(n_features),
        factor.array(None, n_features),
        residual.array(n_features, least=0.0),
    )


def _read_network(node, n_inputs, n_classes):
    """Return a naive network of a given number of inputs and classes."""
    seed, n_layers, scale, network, outputs, n_trainings, curve = _fields_of(NaiveNetwork, node)
    depth, heads = n_layers.integer(1), outputs.entries()
    bands, _ = _read_bands(network, n_inputs, depth)
    # Every task has added a band to each layer.
    expected = [layer for _ in heads for layer in range(1, min(depth, len(bands)) + 1)]
    network.require([band.layer for band in bands] == expected, "a band per layer and task")
    widths = np.cumsum([len(band.weights) for band in bands[depth - 1 :: depth]])
    read = tuple(_read_outputs(one, width) for one, width in zip(heads, widths, strict=True))
    outputs.require(sum(len(one.offsets) for one in read) == n_classes, f"of {n_classes} classes")
    return NaiveNetwork(
        seed.integer(0, _LARGEST_SEED),
        depth,
        scale.number(0.0, above=True),
        FeatureMap(n_inputs, SharedBand.empty(n_inputs), bands),
        read,
        n_trainings.integer(),
        _read_curve(curve),
    )


def _read_outputs(node, width):
    """Return the outputs of one task over the neurons that the last layer had at the time."""
    weights, offsets = _fields_of(Outputs, node)
    rows = weights.array(None, int(width))
    if not len(rows):
        raise misfit(weights.where, "of one class or more")
    return Outputs(rows, offsets.array(len(rows)))
