"""Maps side by side: one function of the device for each, which the blocks of its range call.

In: their schedule. Out: the functions, and the statements of the one that is launched. Next stop: `kernels.py`.
"""

from __future__ import annotations

from eqfuse.emit.cuda import map
from eqfuse.emit.cuda.element import Parameters
from eqfuse.emit.cuda.scheduling.side_by_side import SideBySideSchedule


def side_by_side_lines(schedule: SideBySideSchedule, parameters: Parameters, name: str) -> tuple[str, list[str]]:
    """The functions of the parts, and the inside of the kernel `name`."""
    functions, lines = [], []
    firsts = schedule.firsts
    for i, (part, first) in enumerate(zip(schedule.parts, firsts, strict=True)):
        own = Parameters(part.body, parameters.rounds)
        inside = map.map_lines(part.schedule, own, "block", str(part.schedule.grid[0]))
        declared = ", ".join(["unsigned block", *own.declarations()])
        text = "".join(f"    {line}\n" for line in inside)
        functions.append(f"static __device__ void {name}_{i}({declared}) {{\n{text}}}\n")
        constants = [f"k{parameters.number(literal)}" for literal in own.constants]
        reads, writes = [f"r{j}" for j in part.reads], [f"w{j}" for j in part.writes]
        called = ", ".join([f"blockIdx.x - {first}", *reads, *constants, *writes])
        test = f"if (blockIdx.x < {first + part.schedule.grid[0]}) " if i < len(firsts) - 1 else ""
        lines.append(f"{'else ' if i else ''}{test}{name}_{i}({called});")
    return "\n".join(functions), lines
