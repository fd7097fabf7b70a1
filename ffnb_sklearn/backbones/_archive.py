"""Verify archives written by `torch.save`; `torch.load` does not compare their checksums.

Such a file is a ZIP archive of uncompressed members. Each member has a local header, its data and a
descriptor. A directory with a CRC-32 per member and three end records follow. `torch.load` reads
only the directory. This module checks every byte against redundant information in the file, so that
it detects a single flipped bit anywhere. The layout is section 4.3 of the ZIP specification
(APPNOTE.TXT 6.3), in the form that torch has written since version 1.6.
"""

import io
import struct
import zipfile
import zlib

import torch

from ffnb_sklearn.backbones._pickled import check_pickle

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_DESCRIPTOR = struct.Struct("<4s3I")
_WIDE_DESCRIPTOR = struct.Struct("<4sI2Q")
_END = struct.Struct("<4s4H2IH")
_WIDE_END = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")

# Placeholder for a size of more than 32 bits.
_NO_SIZE = 0xFFFFFFFF

# Size of a directory entry without its texts, and offset of the lengths of the texts, in bytes.
_ENTRY_BYTES, _LENGTHS = 46, 28

# Versions in the wide end record of every archive that torch writes.
_WRITER, _READER = 0x031E, 0x2D

# Flag of a member whose checksum and sizes follow its data; empty members lack it.
_DESCRIBED = 0x08

# Kinds of extra fields: sizes of large members, and padding that torch adds to align the data.
_SIZES, _PADDING = 0x0001, 0x4246


def read_archive(content, refusal):
    """Read a file of `torch.save` with tensors and plain types, if no bit has changed.

    The tensors are on the CPU. Raise `ValueError` with the message `refusal` if the bytes are
    damaged, forged or not such a file.
    """
    try:
        check_archive(content)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                if name.endswith(".pkl"):
                    check_pickle(archive.read(name))
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:
        # A forged file can raise an error of nearly any kind. The reason is not repeated, because
        # the message of torch advises reading the file without its safeguard.
        raise ValueError(refusal) from error


def check_archive(content):
    """Raise `ValueError` if parts of an archive contradict each other, or any bit has changed."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members, directory = archive.infolist(), archive.start_dir
    except Exception as error:
        # A damaged directory can raise many kinds of errors.
        raise ValueError("it is no archive") from error
    try:
        _check_members(memoryview(content), members, directory)
        _check_directory(content, members, directory)
    except struct.error as error:
        raise ValueError("a part is cut short") from error


def _require(holds, reason):
    if not holds:
        raise ValueError(reason)


def _check_members(content, members, directory):
    """Check that the members fill the file without gaps, up to the directory."""
    position = 0
    for member in members:
        _require(member.header_offset == position, "a member lies at another place")
        start = _start_of_data(content, member)
        stop = start + member.file_size
        _require(stop <= directory, "a member is cut short")
        checksum = zlib.crc32(content[start:stop])
        _require(checksum == member.CRC, "the checksum of a member differs")
        position = stop + _descriptor_size(content[stop:], member)
    _require(position == directory, "the directory lies at another place")


def _start_of_data(content, member):
    """Compare the header of a member with the directory; return the offset of its data."""
    kinds = (member.compress_type, member.compress_size)
    _require(kinds == (zipfile.ZIP_STORED, member.file_size), "a member is compressed")
    fields = _LOCAL_HEADER.unpack_from(content, member.header_offset)
    *header, n_name, n_extra = fields
    expected = [b"PK\3\4", member.extract_version, member.flag_bits, zipfile.ZIP_STORED]
    _require(header[:4] == expected and header[4:6] == [0, 0], "the header of a member differs")
    sums = [[member.CRC, member.file_size, member.file_size]]
    if member.flag_bits & _DESCRIBED:
        sums = [[0, 0, 0], [0, _NO_SIZE, _NO_SIZE]]
    _require(header[6:] in sums, "the checksum of a member differs")
    start = member.header_offset + _LOCAL_HEADER.size
    name = bytes(content[start : start + n_name])
    _require(name == member.orig_filename.encode(), "the name of a member differs")
    start += n_name
    _check_extra(bytes(content[start : start + n_extra]), n_extra)
    return start + n_extra


def _check_extra(extra, size):
    """Check the extra fields of a member; padding must repeat a single character."""
    _require(len(extra) == size, "an extra field is cut short")
    while extra:
        kind, size = struct.unpack_from("<2H", extra)
        field, extra = extra[4 : 4 + size], extra[4 + size :]
        _require(len(field) == size, "an extra field is cut short")
        valid = len(set(field)) <= 1 if kind == _PADDING else kind == _SIZES
        _require(valid, "an extra field differs")


def _descriptor_size(rest, member):
    """Check the descriptor after the data of a member, if there is one; return its size."""
    if not member.flag_bits & _DESCRIBED:
        return 0
    sums = (b"PK\7\x08", member.CRC, member.file_size, member.file_size)
    # Members that are large, or that lie beyond 4 GB, have 64-bit sizes.
    if rest[: _WIDE_DESCRIPTOR.size] == _WIDE_DESCRIPTOR.pack(*sums):
        return _WIDE_DESCRIPTOR.size
    _require(rest[: _DESCRIPTOR.size] == _DESCRIPTOR.pack(*sums), "the descriptor differs")
    return _DESCRIPTOR.size


def _check_directory(content, members, start):
    """Compare the entries of the directory with each other and with the end records."""
    # Fields that no other part repeats must be equal for all members.
    constants = {
        (
            *(one.create_version, one.create_system, one.reserved, one.volume),
            *(one.internal_attr, one.external_attr, one.date_time, one.comment),
        )
        for one in members
    }
    _require(len(constants) == 1, "the entries of the directory differ")
    stop = start
    for one in members:
        lengths = (len(one.orig_filename.encode()), len(one.extra), len(one.comment))
        found = struct.unpack_from("<3H", content, stop + _LENGTHS)
        _require(found == lengths, "an entry of the directory is cut short")
        stop += _ENTRY_BYTES + sum(lengths)
    count, size = len(members), stop - start
    wide = _WIDE_END.pack(
        b"PK\6\6", _WIDE_END.size - 12, _WRITER, _READER, 0, 0, count, count, size, start
    )
    locator = _LOCATOR.pack(b"PK\6\7", 0, stop, 1)
    few, small, low = min(count, 0xFFFF), min(size, _NO_SIZE), min(start, _NO_SIZE)
    end = _END.pack(b"PK\5\6", 0, 0, few, few, small, low, 0)
    _require(content[stop:] == wide + locator + end, "the end of the archive differs")
