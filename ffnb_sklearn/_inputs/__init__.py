"""Checks and conversions of what users pass: arrays, labels, columns, sparse samples, seeds."""
