"""Saved programs: one file with the graph, the plan and the large constants; data only, no code, no pickle.

In: a plan and its report. Out: a file, a zip of JSON and .npy members, which `load` reads.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eqfuse.dtypes import ADDED
from eqfuse.errors import EqfuseError
from eqfuse.frontends.signature_text import write_signature
from eqfuse.machine.files import users_file, write_users_file
from eqfuse.plan.plan import Plan
from eqfuse.plan.report import Report
from eqfuse.plan.text import plan_text, report_text
from eqfuse.rewrites import Law, admitted, book
from eqfuse.runtime.stored_arrays import store_array

PROGRAM_FORMAT = 8  # of the file: one that reads no older files has the next number
CONSTANT_IN_TEXT = 64  # constants up to this size are written into the graph's text


def save_program(plan: Plan, report: Report | None, laws: Sequence[Law] | None, path: str | Path) -> None:
    """Write `plan` to `path`, in one step. EqfuseError when that is a folder, or the results nest in a class of the
    user's.

    Of the `laws` it was chosen under the names are kept, and of a user's own ones nothing: they are code.
    """
    users_file(path)
    if plan.graph.calls_python:
        raise EqfuseError(
            "the program calls a function of yours (ef.pure_callback), which is code: a file of a program holds none"
        )
    large = [literal for literal in plan.graph.literals if literal.type.nbytes > CONSTANT_IN_TEXT]
    numbers = {literal: str(i) for i, literal in enumerate(large)}
    header = {
        "format": PROGRAM_FORMAT,
        "graph": plan.graph.text(lambda literal: numbers.get(literal) or literal.text()),
        "large": [str(literal.type) for literal in large],
        "device": plan.device.to_json(),
        "plan": plan_text(plan),
        **write_signature(plan.graph.signature),
        "report": report_text(report) if report is not None else None,
        "laws": _names(laws, report) if laws is not None and report is not None else None,
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("program.json", json.dumps(header))
        for i, literal in enumerate(large):
            store_array(archive, data, f"constant{i}.npy", _storable(literal.array))
    write_users_file(path, data.getvalue())


def _names(laws: Sequence[Law], report: Report) -> list[str]:
    own = set(laws) - set(admitted(book(), report.numerics))
    return [law.name for law in laws if law not in own]


def _storable(array: np.ndarray) -> np.ndarray:
    """`array` in a dtype that the .npy format knows; the graph's text holds the real one."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype in ADDED else array
