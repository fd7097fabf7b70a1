"""When a parameter takes effect that is changed after the estimator has learned."""

__all__ = ["FIXED", "NEXT_LEARNING", "NEXT_PREDICTION", "READ_BY_PREDICTIONS", "RULES"]

# The parameter belongs to the solution of the classifier, which follows from the stored moments.
NEXT_PREDICTION = "next prediction"
# The parameter belongs to the learning of a task: of its bands, or of the storage of its moments.
NEXT_LEARNING = "next call that learns"
# The parameter shapes the state: the next call of any kind raises an error.
FIXED = "refused"

# Rule of each parameter of `FFNBClassifier`; the user guide has the same table. The parameters of
# `NaiveIncrementalClassifier` are among them.
RULES = {
    "p": NEXT_LEARNING,
    # Except that 0 and positive numbers are not exchanged: bands need moments of earlier tasks.
    "band_size": NEXT_LEARNING,
    "n_layers": FIXED,
    "shared_band_size": FIXED,
    "skip_connection": FIXED,
    # The repair of columns is decided at the first task.
    "scale": FIXED,
    "activation": NEXT_LEARNING,
    "init": NEXT_LEARNING,
    "gamma": NEXT_LEARNING,
    "null_space": NEXT_LEARNING,
    "covariance": NEXT_PREDICTION,
    "shrinkage": NEXT_PREDICTION,
    "epsilon": NEXT_PREDICTION,
    "rank": NEXT_LEARNING,
    "max_state_mb": NEXT_LEARNING,
    "classifier": NEXT_PREDICTION,
    "chunk_size": NEXT_PREDICTION,
    "old_statistics": NEXT_LEARNING,
    # The units of ridges and rates of bands apply to the next bands.
    "units": NEXT_PREDICTION,
    "half_bias": NEXT_PREDICTION,
    "training": NEXT_LEARNING,
    "max_epochs": NEXT_LEARNING,
    "learning_rate": NEXT_LEARNING,
    "momentum": NEXT_LEARNING,
    "weight_decay": NEXT_LEARNING,
    "batch_size": NEXT_LEARNING,
    "batch_norm": NEXT_LEARNING,
    # Of `fit` alone.
    "classes_per_task": NEXT_LEARNING,
    "device": NEXT_PREDICTION,
    # An integer that gives another seed. None and generators have no seed to compare.
    "random_state": FIXED,
    "verbose": NEXT_LEARNING,
    "priors": NEXT_PREDICTION,
    "novelty": NEXT_LEARNING,
}

# Parameters that a prediction follows or refuses.
READ_BY_PREDICTIONS = ["band_size", *(name for name in RULES if RULES[name] != NEXT_LEARNING)]
