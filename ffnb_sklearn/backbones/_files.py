"""Files of tensors, which may be cut short, damaged, or something else."""

import io
from pathlib import Path

import torch


def read_tensors(path, refusal):
    """Read what `torch.save` wrote, if it is tensors and plain types.

    Parameters
    ----------
    path : str or path
        Where it is.
    refusal : str
        Message for a file that torch cannot read.

    Returns
    -------
    object
        The content, its tensors on the CPU.

    Raises
    ------
    OSError
        If the file is missing or its bytes cannot be had.
    ValueError
        If the bytes are not such a file.
    """
    content = Path(path).read_bytes()
    try:
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:
        # Damage shows as an error of nearly any kind. The reason is not repeated: torch advises
        # to read the file without its safeguard.
        raise ValueError(refusal) from error
