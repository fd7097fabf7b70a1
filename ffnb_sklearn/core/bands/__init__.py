"""Trained bands: nothing here runs with band_size=0."""
