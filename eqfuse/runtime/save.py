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
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.machine.files import users_file, write_users_file
from eqfuse.ops.literal import Literal
from eqfuse.plan.plan import Plan
from eqfuse.plan.report import Report
from eqfuse.plan.text import plan_text, report_text
from eqfuse.rewrites import Law, admitted, book

PROGRAM_FORMAT = 7  # of the file: one that reads no older files has the next number
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
    graph, large = _without_large_constants(plan.graph)
    header = {
        "format": PROGRAM_FORMAT,
        "graph": str(graph),
        "large": len(large),
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
            with archive.open(f"constant{i}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _storable(literal.array), allow_pickle=False)
    write_users_file(path, data.getvalue())


def _names(laws: Sequence[Law], report: Report) -> list[str]:
    own = set(laws) - set(admitted(book(), report.numerics))
    return [law.name for law in laws if law not in own]


def _storable(array: np.ndarray) -> np.ndarray:
    """`array` in a dtype that the .npy format knows; the graph's text holds the real one."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype in ADDED else array


def _without_large_constants(graph: Graph) -> tuple[Graph, list[Literal]]:
    """`graph` with inputs in the places of its large constants, behind its own inputs."""
    large: dict[Node, Literal] = {}
    for n in graph.nodes:
        if n.op == "const" and n.type.nbytes > CONSTANT_IN_TEXT:
            large[n] = n.literal
    stands = {n: input_node(f"constant {i}", n.type, True) for i, n in enumerate(large)}
    return Graph((*graph.inputs, *stands.values()), substitute(graph.outputs, stands)), list(large.values())
