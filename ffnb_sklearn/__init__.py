"""Forgetting-free neural blocks as scikit-learn estimators."""
