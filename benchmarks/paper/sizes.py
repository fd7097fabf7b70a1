"""Network sizes as the paper counts them."""

# Weights of the backbone, which no task changes: 33 and 30 for each of its 60 and 168 outputs.
BACKBONE_WEIGHTS = {"sbu": 1980, "fpha": 5040}


def published_size(estimator, backbone):
    """Number of parameters of the printed network, backbone included.

    The paper counts both orders of a pair and a class's pair with itself: C^2 pairs for C classes,
    each with a hyperplane, an offset and a weight in the aggregated score. All 17 printed sizes are
    those of one layer with 3 neurons per class and d inputs, 3 d C + 3 C^3 + 2 C^2 beside the
    backbone.

    Parameters
    ----------
    estimator : FFNBClassifier
        Fitted, with pairs of classes over bands alone.
    backbone : int
        Number of weights below the inputs.

    Returns
    -------
    int
        Number of parameters.
    """
    n_classes, width = len(estimator.classes_), estimator._n_features_out
    # Ours are C (C - 1) / 2 pairs, because both orders have the same hyperplane up to its sign.
    in_pairs = n_classes * (n_classes - 1) // 2 * (width + 1)
    in_bands = estimator.n_parameters_ - in_pairs
    return backbone + in_bands + n_classes**2 * (width + 2)
