"""The results of loops and choices, which an operator gives together, as one value; and what their arguments are.

In: the node of a loop. Out: nodes of its results, and which of them a node is. Next stop: `plan.loops`.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqfuse.ir.graph import Node, node
from eqfuse.ops.loops import places, results_of
from eqfuse.ops.types import TensorType


def result_types(loop: Node) -> list[TensorType]:
    """The types of the results of a loop or a choice."""
    return results_of(loop.op, [a.type for a in loop.args], loop.attrs)


def loop_results(loop: Node) -> list[Node]:
    """Each result of a loop or a choice."""
    return unpacked_results(loop, result_types(loop))


def unpacked_results(packed: Node, types: Sequence[TensorType]) -> list[Node]:
    """The results of `types` that the operator `packed` gives together."""
    if len(types) == 1:
        return [packed]
    return [node("loop_result", (packed,), (place, str(t))) for place, t in zip(places(types), types, strict=False)]


def result_number(n: Node, loop: Node | None = None) -> int:
    """Which result the ``loop_result`` `n` is, of its argument or of the `loop` that this stands for."""
    return places(result_types(loop or n.args[0])).index(n.attr("offset"))


FIRST_CARRY = {"fori_loop": 2, "while_loop": 0, "scan": 0}  # among the arguments; results begin by the carries
_INPUTS_BEFORE = {"fori_loop": -1, "while_loop": 0, "scan": 1, "if_else": -1}


def first_shared(loop: Node) -> int:
    """The first argument of a loop or a choice that all its steps, or both branches, read as it is."""
    if loop.op == "if_else":
        return 1
    carries: int = loop.attr("carries")
    return FIRST_CARRY[loop.op] + carries + (loop.attr("stacked") if loop.op == "scan" else 0)


def inputs_before(loop: Node) -> int:
    """Which input of a step, or of a branch, stands for an argument of `loop`, less the number of the argument."""
    return _INPUTS_BEFORE[loop.op]
