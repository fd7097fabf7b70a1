"""When a parameter takes effect that is changed after the estimator has learned."""

from .bands import Bands

__all__ = ["FIXED", "NEXT_LEARNING", "NEXT_PREDICTION", "READ_BY_PREDICTIONS", "RULES"]

# The parameter belongs to the solution of the classifier, which follows from the stored moments.
NEXT_PREDICTION = "next prediction"
# The parameter belongs to the learning of a task: of its bands, or of the storage of its moments.
NEXT_LEARNING = "next call that learns"
# The parameter shapes the state: the next call of any kind raises an error.
FIXED = "refused"

# Rule of each parameter of `FFNBClassifier`, and of each option of its `bands`; the user guide has
# the same table.
RULES = {
    **dict.fromkeys(
        ["classes_per_task", "band_size", "p", "rank", "novelty", "verbose"], NEXT_LEARNING
    ),
    **{f"bands__{name}": NEXT_LEARNING for name in Bands().get_params()},
    **dict.fromkeys(
        ["classifier", "covariance", "shrinkage", "epsilon", "priors", "chunk_size", "device"],
        NEXT_PREDICTION,
    ),
    **dict.fromkeys(["bands__units", "bands__half_bias"], NEXT_PREDICTION),
    **dict.fromkeys(
        ["n_layers", "shared_band_size", "skip_connection", "scale", "random_state"], FIXED
    ),
}

# Parameters that a prediction follows or refuses. 0 and positive numbers of trained neurons are not
# exchanged, because bands need moments of earlier tasks.
READ_BY_PREDICTIONS = ["band_size", *(name for name in RULES if RULES[name] != NEXT_LEARNING)]
