"""Novelty scores: the likeness of samples to the classes, and the likeness of left-out samples.

`score` computes the likeness of any samples. `likeness` keeps that of left-out samples, and turns
it into a threshold. ``core.left_out`` computes it, because this takes predictions.
"""
