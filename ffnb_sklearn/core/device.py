"""Arrays to tensors and back, and the choice of a device.

Everything that crosses between NumPy and torch goes through this module, so that fitted
state stays NumPy and a device is chosen anew at every call.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["as_array", "as_tensor", "resolve_device"]

_EXPECTED = "'auto', 'cpu', 'cuda', 'cuda:<index>' or 'mps'"

_NUMPY_DTYPE: dict[torch.dtype, npt.DTypeLike] = {
    torch.float64: np.float64,
    torch.float32: np.float32,
    torch.int64: np.int64,
    torch.uint8: np.uint8,
    torch.bool: np.bool_,
}


def _available_devices() -> list[str]:
    """Names of the devices that this machine offers."""
    names = ["cpu"]
    names += [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    return names


def resolve_device(device: str) -> torch.device:
    """Turn the value of a ``device`` parameter into a torch device.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "mps"} or "cuda:<index>"
        ``"auto"`` is the current CUDA device where there is one, else the CPU. It is
        never ``"mps"``, which has no float64 arithmetic.

    Returns
    -------
    torch.device
        A device that this machine has.

    Raises
    ------
    ValueError
        If the value is none of the above, or names a device that this machine lacks.

    Examples
    --------
    >>> from ffnb_sklearn.core.device import resolve_device
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    available = _available_devices()
    has_cuda = "cuda:0" in available
    if device == "auto":
        return torch.device("cuda" if has_cuda else "cpu")
    if not isinstance(device, str) or not _is_device_name(device):
        raise ValueError(f"device must be {_EXPECTED}; got {device!r}.")
    if device not in available and not (device == "cuda" and has_cuda):
        raise ValueError(
            f"device={device!r} is not available; this machine has {', '.join(available)}."
        )
    return torch.device(device)


def _is_device_name(device: str) -> bool:
    """Tell whether a string is one of the spellings of `_EXPECTED`."""
    kind, colon, index = device.partition(":")
    if colon:
        return kind == "cuda" and index.isdecimal()
    return kind in ("cpu", "cuda", "mps")


class _WritableView:
    """Present a read-only array as writable, without a copy.

    torch has no read-only tensors: it warns about every read-only array, among them the
    memory maps that joblib hands to its workers.
    """

    def __init__(self, array: npt.NDArray[Any]) -> None:
        # The view made from this object keeps it alive, and so the memory of the array.
        self._array = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def as_tensor(
    array: npt.ArrayLike, *, device: torch.device, dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """Put an array on a device.

    Parameters
    ----------
    array : array-like
        Numbers in any memory layout, byte order and dtype; read-only memory is accepted.
    device : torch.device
        Where the tensor is to live, see `resolve_device`.
    dtype : torch.dtype, default=torch.float64
        Type of the elements: float64, float32, int64, uint8 or bool.

    Returns
    -------
    torch.Tensor
        Contiguous tensor of the same shape. On the CPU it shares the memory of a
        C-ordered array of the same dtype: never write to it in place.

    Raises
    ------
    ValueError
        If float64 is asked for on an MPS device, which does not have it.

    Examples
    --------
    >>> import torch
    >>> from ffnb_sklearn.core.device import as_tensor
    >>> as_tensor([[1, 2]], device=torch.device("cpu"))
    tensor([[1., 2.]], dtype=torch.float64)
    """
    if device.type == "mps" and dtype == torch.float64:
        raise ValueError(
            "device='mps' has no float64 arithmetic, which is needed here; use "
            "device='cpu' or 'cuda', or dtype='float32' where there is that parameter."
        )
    # One layout for all: torch refuses negative strides, and the order of summation
    # (hence the last bits of a product) depends on the strides.
    values = np.asarray(array, dtype=_NUMPY_DTYPE[dtype], order="C")
    if any(stride < 0 for stride in values.strides):
        # A single row counts as C-ordered whatever its stride.
        values = values.copy()
    if not values.flags.writeable:
        values = np.asarray(_WritableView(values))
    return torch.from_numpy(values).to(device)


def as_array(tensor: torch.Tensor) -> npt.NDArray[np.float64]:
    """Bring a tensor back as a float64 array.

    Parameters
    ----------
    tensor : torch.Tensor
        Tensor on any device, with or without a gradient.

    Returns
    -------
    ndarray of float64
        Array of the same shape. It shares the memory of a float64 tensor on the CPU.

    Examples
    --------
    >>> import torch
    >>> from ffnb_sklearn.core.device import as_array
    >>> as_array(torch.tensor([1, 2]))
    array([1., 2.])
    """
    # The CPU comes first: an MPS device cannot cast to float64.
    array: npt.NDArray[np.float64] = tensor.detach().cpu().to(torch.float64).numpy()
    return array
