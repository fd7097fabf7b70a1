"""Arrays to tensors and back, and the choice of a device.

Every conversion between NumPy and torch is here: fitted state stays NumPy, and each call chooses
its device.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[np.float64]

_T = TypeVar("_T")

# Multiplications and additions that are worth a thread. Threads for less work save milliseconds,
# and spin for seconds beside a busy process (benchmarks/speed/first_prediction.py).
OPERATIONS_PER_THREAD = 2e9


def resolve_device(device: str) -> torch.device:
    """Turn the value of a ``device`` parameter into a torch device.

    "auto" is the current CUDA device if there is one, else the CPU; never "mps", which has no
    float64 arithmetic. Raise `ValueError` for any device that this machine lacks.
    """
    if device == "cpu":
        return torch.device("cpu")
    n_cuda = torch.cuda.device_count()
    available = ["cpu"]
    if n_cuda:
        available.append("cuda")
    for index in range(n_cuda):
        available.append(f"cuda:{index}")
    if torch.backends.mps.is_available():
        available.append("mps")
    if device == "auto":
        return torch.device("cuda" if n_cuda else "cpu")
    if not isinstance(device, str) or device not in available:
        raise ValueError(
            f"device must be 'auto' or a device of this machine, {', '.join(available)}; got "
            f"{device!r}, which is not available."
        )
    return torch.device(device)


class _WritableView:
    """Present a read-only array as writable, without a copy.

    torch has no read-only tensors, and warns about the memory maps of joblib's workers.
    """

    def __init__(self, array: npt.NDArray[Any]) -> None:
        # A view of this object keeps the memory of the array alive.
        self._array = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def as_tensor(
    array: npt.ArrayLike | torch.Tensor,
    *,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Put an array-like of any memory layout, byte order and dtype on a device; None is the CPU.

    On the CPU the tensor shares the memory of a C-ordered array of the same dtype, even of a
    read-only one: never write to it. Tensors keep their dtype. Raise `ValueError` for float64 on an
    MPS device.
    """
    if device is None:
        device = torch.device("cpu")
    if isinstance(array, torch.Tensor):
        return array.to(device)
    if device.type == "mps" and dtype == torch.float64:
        raise ValueError(
            "device='mps' has no float64 arithmetic, which is needed here; use "
            "device='cpu' or 'cuda', or dtype='float32' where there is that parameter."
        )
    # torch refuses negative strides, and the last bits of a product depend on the strides.
    values = np.asarray(array, dtype=_numpy_dtype(dtype), order="C")
    if any(stride < 0 for stride in values.strides):
        # A single row counts as C-ordered whatever its stride.
        values = values.copy()
    if not values.flags.writeable:
        values = np.asarray(_WritableView(values))
    return torch.from_numpy(values).to(device)


@cache
def _numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """Return the dtype of NumPy that corresponds to a dtype of torch."""
    return torch.empty(0, dtype=dtype, device="cpu").numpy().dtype


def as_array(tensor: torch.Tensor) -> Array:
    """Return a tensor, on any device and with or without a gradient, as a float64 array.

    The array shares the memory of a float64 tensor on the CPU.
    """
    # An MPS device cannot cast to float64.
    on_cpu = tensor.detach().cpu()
    array: Array = on_cpu.to(torch.float64).numpy()
    return array


def place_arrays(value: _T, place: Callable[[npt.NDArray[Any]], torch.Tensor]) -> _T:
    """Return a dataclass whose arrays, also those of dataclasses in it, `place` has replaced."""
    changed: Any = value
    if isinstance(value, np.ndarray):
        changed = place(value)
    elif isinstance(value, tuple) and not hasattr(value, "_fields"):
        changed = tuple(place_arrays(item, place) for item in value)
    elif is_dataclass(value) and not isinstance(value, type):
        changes = {}
        for field in fields(value):
            changes[field.name] = place_arrays(getattr(value, field.name), place)
        changed = replace(value, **changes)
    return cast(_T, changed)


@contextmanager
def without_modes() -> Iterator[None]:
    """Switch off modes of torch within a block.

    `torch.autocast` would compute products of float32 numbers with 8 bits, and
    `torch.inference_mode` has no gradients for fine-tuning.
    """
    with (
        torch.inference_mode(False),
        torch.autocast("cpu", enabled=False),
        torch.autocast("cuda", enabled=False),
    ):
        yield


@contextmanager
def few_threads(operations: float) -> Iterator[None]:
    """Let torch use no more threads on the CPU than the operations within a block are worth.

    Only torch's own setting changes both its pool of threads and the pool of MKL.
    """
    before = torch.get_num_threads()
    n_worth = int(operations / OPERATIONS_PER_THREAD)
    n_threads = min(before, max(1, n_worth))
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# Decorator of entries into the core, so that modes of torch around a call change nothing.
plain_torch = without_modes()
