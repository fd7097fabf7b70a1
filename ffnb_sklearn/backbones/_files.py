"""Files of tensors, which may be cut short, damaged, forged, or something else."""

import io
from pathlib import Path

import torch

from ffnb_sklearn.backbones._archive import check_archive


def read_tensors(path, refusal):
    """Read what `torch.save` wrote, if it is tensors and plain types, and if no bit has changed.

    Parameters
    ----------
    path : str or path
        File.
    refusal : str
        Message for a file that is damaged or something else.

    Returns
    -------
    object
        The content, its tensors on the CPU.

    Raises
    ------
    OSError
        If the file is missing or its bytes cannot be read.
    ValueError
        If the bytes are not such a file.
    """
    content = Path(path).read_bytes()
    try:
        check_archive(content)
    except ValueError as error:
        raise ValueError(refusal) from error
    return unpacked(content, refusal)


def unpacked(content, refusal):
    """Return what `torch.save` wrote to bytes, if it is tensors and plain types.

    Parameters
    ----------
    content : bytes
        The whole file, whose check sums were compared.
    refusal : str
        Message for bytes that torch cannot read.

    Returns
    -------
    object
        The content, its tensors on the CPU.

    Raises
    ------
    ValueError
        If the bytes are not such a file.
    """
    try:
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:
        # A forged file shows as an error of nearly any kind. The reason is not repeated: torch
        # advises to read the file without its safeguard.
        raise ValueError(refusal) from error
