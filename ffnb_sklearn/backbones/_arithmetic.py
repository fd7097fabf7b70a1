"""Device and precision of a network: full precision, or partly bfloat16."""

import platform
from dataclasses import dataclass, replace

import torch
from torch import nn

from ffnb_sklearn.core.device import resolve_device

_IMAGE_AXES = 4

# Number of float32 values in the longest vector register (AVX-512).
_REGISTER = 16


@dataclass(frozen=True)
class Arithmetic:
    """Device and precision of a network: of its weights, its inputs and its features.

    If it is `mixed`, convolutions and matrix products are computed in bfloat16; sums, losses and
    normalisations stay in `dtype`, which is float32. With `channels_first`, weights and images
    always keep the channels first in memory.
    """

    device: torch.device
    dtype: torch.dtype
    mixed: bool
    channels_first: bool = False

    @classmethod
    def of(cls, extractor, *, training):
        """Return the arithmetic for a `TorchFeatureExtractor`, on a device of this machine.

        ``mixed_precision="auto"`` selects mixed precision only in training, so it never changes
        features. Raise `ValueError` if `mixed_precision` is True and the device has no bfloat16, or
        `dtype` is not float32.
        """
        device, mixed = resolve_device(extractor.device), extractor.mixed_precision
        if mixed == "auto":
            can_mix = training and device.type == "cuda" and extractor.dtype == "float32"
            mixed = can_mix and has_bfloat16(device)
        elif mixed and extractor.dtype != "float32":
            raise ValueError(
                "mixed_precision=True needs dtype='float32', because it replaces part of the "
                f"float32 arithmetic by bfloat16; got dtype={extractor.dtype!r}."
            )
        elif mixed and not has_bfloat16(device):
            raise ValueError(
                "mixed_precision=True needs a device with bfloat16 arithmetic, such as a CPU with "
                f"AVX512-BF16 or a recent CUDA device; device {str(device)!r} of this machine has "
                "none. Use mixed_precision=False."
            )
        return cls(device, getattr(torch, extractor.dtype), bool(mixed))

    @property
    def channels_last(self):
        """Whether weights and images are stored with the channels last.

        On the CPU, this layout also speeds up convolutions in float32 (benchmarks/pretraining.py).
        """
        faster = self.mixed or (self.device.type == "cpu" and self.dtype == torch.float32)
        return faster and not self.channels_first

    def to_train(self, module):
        """Return the arithmetic for training, with channels first where gradients need it.

        With channels last, oneDNN on CPUs writes outside of its memory in strided 1 x 1
        convolutions with fewer input channels than a vector register holds numbers
        (uxlfoundation/oneDNN, issue 6035).
        """
        unsafe = self.device.type == "cpu" and any(
            isinstance(one, nn.Conv2d)
            and one.kernel_size == (1, 1) != one.stride
            and one.in_channels < _REGISTER
            for one in module.modules()
        )
        return replace(self, channels_first=unsafe)

    def autocast(self):
        """Return the context manager in which the network runs."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.mixed)

    def place(self, module):
        """Move a network to the device, lay out its weights, and return it."""
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        module.to(self.device)
        # Module.to would refuse this layout for weights with five axes.
        for one in module.parameters():
            if one.ndim == _IMAGE_AXES:
                one.data = one.data.contiguous(memory_format=layout)
        return module

    def arrange(self, inputs):
        """Give a batch of images the memory layout of the weights; keep other inputs."""
        if self.channels_last and inputs.ndim == _IMAGE_AXES:
            return inputs.contiguous(memory_format=torch.channels_last)
        return inputs


def has_bfloat16(device):
    """Return whether a CPU or a CUDA device has bfloat16 instructions; bfloat16 is slow without."""
    if device.type == "cuda":
        with torch.cuda.device(device):
            return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    if platform.machine().lower() in ("x86_64", "amd64"):
        return torch.cpu._is_avx512_bf16_supported()
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
