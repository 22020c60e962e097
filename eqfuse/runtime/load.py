"""Saved programs, read: nothing of the file is run, and a foreign one ends in an EqfuseError.

In: a file that `Program.save` wrote. Out: a `Program`, emitted anew for this process.
"""

from __future__ import annotations

import errno
import json
import struct
import zipfile
import zlib
from dataclasses import replace
from os import PathLike
from pathlib import Path

from eqfuse.cost.device import Device
from eqfuse.errors import EqfuseError
from eqfuse.frontends.signature_text import read_signature
from eqfuse.ir.text import parse
from eqfuse.ops.types import tensor_type
from eqfuse.plan.text import plan_of_text, report_of_text
from eqfuse.rewrites import admitted, book
from eqfuse.runtime.program import Program, emit
from eqfuse.runtime.save import PROGRAM_FORMAT
from eqfuse.runtime.stored_arrays import StoredArrays

FILE_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, EOFError, ValueError, KeyError, TypeError,
    IndexError, AttributeError, RecursionError,
)  # fmt: skip


def load(path: str | Path, graphs: bool = False) -> Program:
    """The program that `Program.save` wrote to `path`; with `graphs`, on a GPU, as `compile` makes it.

    Large constants stay in the file, which is mapped: while the program is in use, replace it (as `save` does), and
    write nothing into it.
    """
    if not isinstance(path, str | PathLike):
        raise EqfuseError(f"ef.load takes the path of a file that a program was saved to, not {path!r}")
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            header = json.loads(archive.read("program.json"))
            if header["format"] != PROGRAM_FORMAT:
                raise EqfuseError(
                    f"{path} was saved by another version of eqfuse: compile the program again and save it"
                )
            stored = StoredArrays(archive, file)
            large = [stored.literal(f"constant{i}.npy", tensor_type(t)) for i, t in enumerate(header["large"])]
        graph = replace(parse(header["graph"], large), signature=read_signature(header))
        program = emit(plan_of_text(header["plan"], graph, Device.from_json(header["device"])))
        if header["report"] is not None:
            program.report = replace(report_of_text(header["report"]), hurried=0, uncompiled=0)
        if header["laws"] is not None:
            names = set(header["laws"])
            program.laws = tuple(law for law in admitted(book(), program.report.numerics) if law.name in names)
        if graphs:
            program.executable.use_graphs()
        stored.release()  # of most constants kernels read copies in the order in which they need them
        return program
    except EqfuseError:
        raise
    except (*FILE_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # of a place before the file's beginning
            raise
        raise EqfuseError(f"{path} is not a saved program: {type(error).__name__}: {error}") from error
