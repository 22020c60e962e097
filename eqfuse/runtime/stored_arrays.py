"""Arrays stored in a zip file: .npy members whose elements begin at a cache line, and are read where they lie.

In: arrays, or a file. Out: members; literals in memory that maps the file, of which the system reads the pages that are
touched, gives them up when memory is short, and has one copy for all processes.
"""

from __future__ import annotations

import mmap
import struct
import sys
import zipfile
import zlib
from io import BytesIO
from typing import BinaryIO

import numpy as np

from eqfuse.machine.memory import ALIGNMENT
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType

HEADER = struct.Struct("<26xHH")  # of a member: lengths of its name and of its extra field
ZIP64 = 20  # bytes that zipfile adds to the extra field for sizes beyond 4 GB
PADDING = struct.Struct("<HH")  # a part of the extra field: its kind and length
PADDING_KIND = 0xD935  # "data alignment" in the list of extra fields, as Android's zipalign writes it


def store_array(archive: zipfile.ZipFile, data: BytesIO, name: str, array: np.ndarray) -> None:
    """Add `array` as the member `name` to `archive`, which is written to `data`."""
    member = zipfile.ZipInfo(name)
    begin = data.tell() + HEADER.size + len(name) + ZIP64 + PADDING.size
    gap = -begin % ALIGNMENT
    member.extra = PADDING.pack(PADDING_KIND, gap) + bytes(gap)
    with archive.open(member, "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


class StoredArrays:
    """The members of an archive that `store_array` wrote, mapped. ValueError or KeyError where it is not such a one."""

    def __init__(self, archive: zipfile.ZipFile, file: BinaryIO) -> None:
        self._archive = archive
        self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def literal(self, name: str, tensor: TensorType) -> Literal:
        """The member `name`, whose bits are those of the type `tensor`."""
        member = self._archive.getinfo(name)
        names, extras = HEADER.unpack_from(self._memory, member.header_offset)
        begin = member.header_offset + HEADER.size + names + extras
        stored = memoryview(self._memory)[begin : begin + member.file_size]
        if member.compress_type != zipfile.ZIP_STORED or begin % ALIGNMENT:
            raise ValueError(f"{name} is compressed or does not begin at a multiple of {ALIGNMENT} bytes")
        if zlib.crc32(stored) != member.CRC:
            raise ValueError(f"the bytes of {name} are not those that were written")
        elements = stored[len(stored) - tensor.nbytes :]
        # on Windows no mapped file can be replaced
        return Literal.stored(tensor, bytes(elements) if sys.platform == "win32" else elements)

    def release(self) -> None:
        """Give up the pages read so far: what is touched again is read again."""
        if sys.platform != "win32":
            self._memory.madvise(mmap.MADV_DONTNEED)
