"""Trained bands: all that `FFNBClassifier` adds to the core."""
