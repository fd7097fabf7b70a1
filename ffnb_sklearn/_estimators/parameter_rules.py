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
    # Of `fit` alone.
    "classes_per_task": NEXT_LEARNING,
    "shared_band_size": FIXED,
    # Except that 0 and positive numbers are not exchanged: bands need moments of earlier tasks.
    "band_size": NEXT_LEARNING,
    "p": NEXT_LEARNING,
    "n_layers": FIXED,
    **{f"bands__{name}": NEXT_LEARNING for name in Bands().get_params()},
    # The units of ridges and rates of bands apply to the next bands.
    "bands__units": NEXT_PREDICTION,
    "bands__half_bias": NEXT_PREDICTION,
    "skip_connection": FIXED,
    "classifier": NEXT_PREDICTION,
    "covariance": NEXT_PREDICTION,
    "shrinkage": NEXT_PREDICTION,
    "epsilon": NEXT_PREDICTION,
    "rank": NEXT_LEARNING,
    "priors": NEXT_PREDICTION,
    # The repair of columns is decided at the first task.
    "scale": FIXED,
    "novelty": NEXT_LEARNING,
    "chunk_size": NEXT_PREDICTION,
    "device": NEXT_PREDICTION,
    # An integer that gives another seed. None and generators have no seed to compare.
    "random_state": FIXED,
    "verbose": NEXT_LEARNING,
}

# Parameters that a prediction follows or refuses.
READ_BY_PREDICTIONS = ["band_size", *(name for name in RULES if RULES[name] != NEXT_LEARNING)]
