"""Check the pickle in a file of `torch.save` before torch decodes it.

``torch.load(weights_only=True)`` runs no code of a file, but some of the functions that it calls
take any amount of memory or time: `bytearray` of a number, `_codecs.encode` with a codec of
quadratic time, tensors of any size without data. Tensors and plain types need none of them.
"""

import pickletools

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


def check_pickle(content):
    """Raise `ValueError` if a pickle requests other names than tensors and plain types need.

    The same holds if tuples are nested too deeply. Errors of other types mean that the stream is
    malformed.
    """
    # The stack has the number of nested tuples for each object, and None for each mark.
    stack, memo = [], {}
    for code, argument, _ in pickletools.genops(content):
        if code.name == "GLOBAL" and not _is_harmless(argument):
            raise ValueError(f"the name {argument[:100]!r} is not needed for tensors")
        if code.name in _STORES:
            memo[argument] = stack[-1]
            continue
        taken = _take(stack, code.stack_before)
        for kind in code.stack_after:
            depth = 1 + max(taken, default=0) if code.name in _TUPLES else 0
            depth = memo[argument] if code.name in _LOADS else depth
            if depth > _DEEPEST:
                raise ValueError("tuples are nested too deeply")
            stack.append(None if kind is pickletools.markobject else depth)


def _is_harmless(name):
    """Return whether a global name, written as "module name", creates only what a file holds."""
    module, _, attribute = name.partition(" ")
    if module == "torch":
        return not attribute.endswith("Tensor")  # sizes, data types, devices and storages remain
    return (module == "torch._utils" and attribute.startswith("_rebuild_")) or name in _NAMES


def _take(stack, kinds):
    """Remove the operands of an instruction from a stack, and return the depths of the objects."""
    taken = []
    if pickletools.markobject in kinds:
        while (depth := stack.pop()) is not None:
            taken.append(depth)
    for kind in kinds:
        if kind not in (pickletools.markobject, pickletools.stackslice):
            taken.append(stack.pop())
    return taken
