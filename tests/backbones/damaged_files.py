"""What becomes of the bytes of a file that is damaged, for readers that must say so."""

# Torch meets each with an error of another type.
DAMAGED = {
    "empty": lambda whole: b"",
    "text": lambda whole: b"not a file",
    "more text": lambda whole: b"hello world\n",
    "cut": lambda whole: whole[:200],
    "cut late": lambda whole: whole[:-1],
    "end of a pickle": lambda whole: b"\x80\x02.",
    "number cut short": lambda whole: b"\x80\x02J.",
}


def with_bit_flipped(content, position, bit):
    """Return bytes with one bit flipped."""
    changed = bytearray(content)
    changed[position] ^= 1 << bit
    return bytes(changed)
