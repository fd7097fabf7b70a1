"""Read files of tensors: those of `torch.save`, of any age, and those of safetensors.

``torch.load(weights_only=True)`` runs no code of a file, but it does not compare the checksums of
a file, and some of the functions that it calls take any amount of memory or time: `bytearray` of a
number, `_codecs.encode` with a codec of quadratic time, storages of any size without data. Tensors
and plain types need none of them, so they are refused before torch decodes the file.
"""

import io
import pickletools
import zipfile

import torch

# Global names that tensors and plain types need, besides those in the modules of torch below.
_NAMES = {
    *("collections OrderedDict", "collections Counter", "torch.nn.parameter Parameter"),
    *("builtins set", "builtins complex", "__builtin__ set", "__builtin__ complex"),
    "torch.serialization _get_layout",
}

_TUPLES = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}
_STORES, _LOADS = {"BINPUT", "LONG_BINPUT"}, {"BINGET", "LONG_BINGET"}

# Most tuples inside of each other; those of torch have 3. The hash of a tuple, as a key, descends
# into them, and a depth of about 100,000 overflows the C stack.
_DEEPEST = 100

# Number of pickles at the beginning of a file of torch before version 1.6.
_N_PICKLES = 5

# Most numbers in all storages per byte of a file; tensors that share a storage count it each time.
_NUMBERS_PER_BYTE = 4


def read_tensors(content, refusal):
    """Read the bytes of a file with tensors and plain types; the tensors are on the CPU.

    Raise `ValueError` with the message `refusal` if the bytes are damaged, forged or not such a
    file, and `ImportError` if they need safetensors, which is not installed.
    """
    try:
        # The names of a file of safetensors follow the eight bytes of their length.
        return _of_safetensors(content) if content[8:9] == b"{" else _of_torch(content)
    except ImportError:
        raise
    except Exception as error:
        # A forged file can raise an error of nearly any kind. The reason is not repeated, because
        # the message of torch advises reading the file without its safeguard.
        raise ValueError(refusal) from error


def _of_safetensors(content):
    """Return the tensors of a file of safetensors by name."""
    try:
        from safetensors.torch import load
    except ImportError as error:
        raise ImportError(
            "weights is a file of safetensors, which needs the package safetensors; install it: "
            "python -m pip install safetensors."
        ) from error
    return load(content)


def _of_torch(content):
    """Return the content of a file of `torch.save`."""
    stream, limit = io.BytesIO(content), _NUMBERS_PER_BYTE * len(content)
    is_archive = content.startswith(b"PK")
    if is_archive:
        with zipfile.ZipFile(stream) as archive:
            _check_archive(archive, len(content), limit)
    else:
        for _ in range(_N_PICKLES):
            check_pickle(stream, limit)
    stream.seek(0)
    tree = torch.load(stream, map_location="cpu", weights_only=True)
    if not is_archive and stream.read(1):
        raise ValueError("the file has more bytes than its tensors")
    return tree


def _check_archive(archive, n_bytes, limit):
    """Raise `ValueError` unless the members of an archive are those that their checksums belong to.

    Members are not compressed, so that none of them is larger than the file.
    """
    members = archive.infolist()
    # Torch leaves memory unset where a member is shorter than its size, or marked as a folder.
    marks = {
        (one.compress_type, one.file_size - one.compress_size, one.external_attr) for one in members
    }
    if marks != {(zipfile.ZIP_STORED, 0, 0)}:
        raise ValueError("a member is compressed, or a folder")
    if sum(one.file_size for one in members) > n_bytes:
        raise ValueError("the members overlap")
    for member in members:
        # Reading to the end compares the checksum.
        content = archive.read(member)
        if member.filename.endswith(".pkl"):
            check_pickle(io.BytesIO(content), limit)


def check_pickle(stream, limit):
    """Raise `ValueError` if a pickle requests anything that tensors and plain types do not need.

    These are other global names, tuples that are nested too deeply, and storages of more than
    `limit` numbers together. Errors of other types mean that the stream is malformed.
    """
    # The stack has, for each object, the number of nested tuples and the sum of the numbers in
    # them, and None for each mark.
    stack, memo, n_stored = [], {}, 0
    for code, argument, _ in pickletools.genops(stream):
        if code.name == "GLOBAL" and not _is_harmless(argument):
            raise ValueError(f"the name {argument[:100]!r} is not needed for tensors")
        if code.name in _STORES:
            memo[argument] = stack[-1]
            continue
        taken = _take(stack, code.stack_before)
        if code.name == "BINPERSID":
            # The description of a storage, a tuple, holds its length.
            n_stored += sum(total for _, total in taken)
        depth = 1 + max((depth for depth, _ in taken), default=0) if code.name in _TUPLES else 0
        total = sum(total for _, total in taken)
        if isinstance(argument, int | float):
            total += abs(argument)
        for kind in code.stack_after:
            made = memo[argument] if code.name in _LOADS else (depth, total)
            if made[0] > _DEEPEST or n_stored > limit:
                raise ValueError("tuples are nested too deeply, or storages are too large")
            stack.append(None if kind is pickletools.markobject else made)


def _is_harmless(name):
    """Return whether a global name, written as "module name", creates only what a file holds."""
    module, _, attribute = name.partition(" ")
    if module == "torch":
        return not attribute.endswith("Tensor")  # sizes, data types, devices and storages remain
    return (module == "torch._utils" and attribute.startswith("_rebuild_")) or name in _NAMES


def _take(stack, kinds):
    """Remove the operands of an instruction from a stack, and return those that are no marks."""
    taken = []
    if pickletools.markobject in kinds:
        while (one := stack.pop()) is not None:
            taken.append(one)
    for kind in kinds:
        if kind not in (pickletools.markobject, pickletools.stackslice):
            taken.append(stack.pop())
    return taken
