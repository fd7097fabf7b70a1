"""Validate the rows or images given to `fit` and `transform` of a `TorchFeatureExtractor`."""

import torch
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ffnb_sklearn._estimators.transactions import columns_of
from ffnb_sklearn.backbones._inputs import Inputs
from ffnb_sklearn.backbones._sources import as_source
from ffnb_sklearn.pipeline._fingerprint import give_same_output


def first_samples(extractor, X):
    """Validate the samples given to `fit`.

    Return rows, or images to be read as rows, their conversion to inputs of the network, and the
    fitted attributes that describe them.
    """
    shape, resize = extractor.input_shape, extractor.resize
    Inputs(shape).check_shape()
    if resize is not None and shape is not None and (len(shape) != 3 or max(shape[1:]) > resize):
        raise ValueError(
            "resize must be at least the longest side in input_shape=(channels, height, width); "
            f"got resize={resize} and input_shape={tuple(shape)}."
        )
    rows = as_source(X, shape, resize)
    if rows is None:
        X = _as_rows(X)
        rows = check_array(X, estimator=extractor, input_name="X")
        seen = {**columns_of(X), "image_values_": None}
    else:
        shape = rows.input_shape
        seen = {"n_features_in_": rows.shape[1], "image_values_": rows.values}
    inputs = Inputs(shape, extractor.mean, extractor.std)
    inputs.check(rows.shape[1])
    return (
        rows,
        inputs,
        seen | {"input_shape_": None if shape is None else tuple(int(n) for n in shape)},
    )


def more_samples(extractor, X):
    """Validate the samples given to `transform`; return rows, or images as rows."""
    _check_unchanged(extractor)
    source = as_source(X, extractor.input_shape_, extractor.resize)
    if source is None:
        return validate_data(extractor, _as_rows(X), reset=False)
    if extractor.input_shape_ is None:
        raise ValueError(
            f"X must hold rows of {extractor.n_features_in_} values, as in fit; got images of "
            f"shape {source.input_shape}. Fit with input_shape, or with images."
        )
    source.check(extractor.image_values_)
    return source


def network_params(extractor):
    """Return the parameters that the weights belong to, besides `backbone` itself.

    A function as `backbone` may be replaced by its name, or after loading by the user's own.
    """
    params = _copied(dict(extractor.backbone_params or {}))
    return {"backbone_params": params, "head": extractor.head}


def _copied(value):
    """Copy nested containers; their items need not be comparable, and stay the same objects."""
    if type(value) is dict:
        return {key: _copied(one) for key, one in value.items()}
    return type(value)(map(_copied, value)) if type(value) in (list, tuple) else value


def _check_unchanged(extractor):
    """Raise if parameters of the network, `layers` or `pooling` differ from those of `fit`."""
    now = network_params(extractor)
    for name, value in getattr(extractor, "network_params_", now).items():
        if not give_same_output(value, now[name]):
            raise ValueError(
                f"{name} must be that of fit, {value!r}; got {now[name]!r}. Call fit again."
            )
    fitted = list(getattr(extractor, "layer_widths_", ()))
    pooling = getattr(extractor, "pooling_", extractor.pooling)
    if list(extractor.layers or ()) != fitted or extractor.pooling != pooling:
        raise ValueError(
            f"layers and pooling must be those of fit, {fitted or None} and {pooling!r}; got "
            f"{extractor.layers} and {extractor.pooling!r}. Call fit again."
        )


def _as_rows(X):
    """Convert a tensor of rows to an array; return other values as they are."""
    if not isinstance(X, torch.Tensor):
        return X
    # NumPy lacks bfloat16.
    return (X.float() if X.dtype == torch.bfloat16 else X).detach().cpu().numpy()
