"""Products of samples with the rows of all classes, in parts that stay in the cache."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import torch

from .interface import Rows

__all__ = ["ROWS_TOGETHER", "groups", "responses"]

# Samples or other rows of a product; its matrices have at most the square of so many numbers. A
# product of fewer rows is slow, and larger matrices do not stay in the cache of the processor.
ROWS_TOGETHER = 1024


def responses(
    x: Rows,
    rows: torch.Tensor,
    offsets: torch.Tensor,
    lengths: Sequence[int],
    dtype: torch.dtype = torch.float64,
) -> Iterator[tuple[slice, range, torch.Tensor]]:
    """Yield slices of samples, ranges of classes, and the responses of their rows plus offsets.

    The responses of r rows to n samples have the shape (r, n), and may be overwritten. `lengths`
    has the number of rows of each class.
    """
    parts = [part.to(dtype) for part in x.split(ROWS_TOGETHER)]
    longest = max(rows.shape[1], *(len(part) for part in parts))
    for classes, numbers in groups(lengths, ROWS_TOGETHER**2 // longest):
        block, added, start = rows[numbers].to(dtype), offsets[numbers, None].to(dtype), 0
        for part in parts:
            if isinstance(part, torch.Tensor):
                # In this order the product of dense matrices is 5 % faster.
                found = torch.addmm(added, block, part.T)
            else:
                found = (part @ block.T).T.add_(added)
            yield slice(start, start + len(part)), classes, found
            start += len(part)


def groups(lengths: Sequence[int], most: int) -> Iterator[tuple[range, slice]]:
    """Yield consecutive classes with up to `most` rows, or a single class, and their rows."""
    first, start, stop = 0, 0, 0
    for c, end in enumerate(accumulate(lengths)):
        if end - start > most and c > first:
            if stop > start:
                yield range(first, c), slice(start, stop)
            first, start = c, stop
        stop = end
    if stop > start:
        yield range(first, len(lengths)), slice(start, stop)
