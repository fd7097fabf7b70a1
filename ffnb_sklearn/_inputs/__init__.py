"""Checks and conversions of arrays, labels, columns, sparse samples and seeds of users."""
