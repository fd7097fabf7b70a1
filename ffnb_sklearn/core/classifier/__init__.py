"""The classifier: Gaussian classes, the hyperplanes between them, and the choice of the ridge."""
