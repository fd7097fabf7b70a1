"""Rows from sequences of skeletons."""

from ._descriptor import SkeletonDescriptor

__all__ = ["SkeletonDescriptor"]
