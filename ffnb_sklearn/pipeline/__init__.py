"""Pipelines that learn new classes."""

from ._pipeline import ContinualPipeline, make_continual_pipeline

__all__ = ["ContinualPipeline", "make_continual_pipeline"]
