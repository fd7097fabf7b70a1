"""The heads: distances to Gaussians, pairs of classes, ridge regression.

Each head is solved from `ffnb_sklearn.core.classifier.gaussians.ClassGaussians`, holds NumPy arrays
alone, and has ``scores(features)``, a tensor of shape (n_samples, n_classes).
"""
