"""Plans whose kernels run in the order of the program: a fixed topological order, such as papers on checkpointing take.

In: a plan, whose values are numbered as the program comes to them. Out: the same kernels in that order.
"""

from __future__ import annotations

from dataclasses import replace

import eqfuse as ef
from eqfuse.plan.plan import Plan
from eqfuse.runtime.program import Program


def in_program_order(plan: Plan) -> Plan:
    return replace(plan, kernels=tuple(sorted(plan.kernels, key=lambda k: k.writes[0])))


def peak_in_program_order(program: Program) -> int:
    """Bytes that a call would hold if the kernels of `program` ran in the order of the program."""
    return ef.emit(in_program_order(program.plan)).peak_bytes
