"""The programs of a loop's steps, and which of its results may lie where the values lie that they begin with.

In: a kernel with the plans of its steps. Out: what runs them. Next stop: a target's loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqfuse.budget import Meter
from eqfuse.cost.device import Device
from eqfuse.cost.targets import emitter
from eqfuse.ir.graph import Node, topological
from eqfuse.ir.loops import result_number
from eqfuse.ir.views import leaf_chain
from eqfuse.plan.in_place import chain_keeps_order
from eqfuse.plan.loops import carried, first_carries, planned_loop
from eqfuse.plan.plan import Kernel, Plan


def emitted_steps(n: Node, inner: Sequence[Plan], device: Device, meter: Meter | None) -> list[Any]:
    """What runs the plans of `n`; both branches of a choice keep the same results where arguments lie."""
    emit, first = emitter(device, meter), first_carries(n)
    while True:
        steps: list[Any] = [emit(plan, carried(n, plan, first)) for plan in inner]
        kept = {result: arg for result, arg in first.items() if all(step.kept.get(result) == result for step in steps)}
        if n.op != "if_else" or kept == first:
            return steps
        first = kept


def begun_in_place(kernel: Kernel, begun: Mapping[int, Node]) -> dict[int, int]:
    """Which results of the loop may lie where the values lie that they are `begun` with, by place among what `kernel`
    writes and reads: nothing else depends on these."""
    body, n = kernel.body, planned_loop(kernel)
    written = {0: 0} if body.outputs[0] is n else {}
    if body.outputs[0].op == "loop_result":
        written = {result_number(o): j for j, o in enumerate(body.outputs)}
    places = {}
    for result, arg in begun.items():
        leaf, chain = leaf_chain(arg)
        alone = sum(leaf in topological([a]) for a in n.args) == 1
        if result in written and alone and leaf in body.inputs and chain_keeps_order(chain):
            places[written[result]] = body.inputs.index(leaf)
    return places


def held_results(kernel: Kernel, steps: Sequence[Any]) -> int:
    """Bytes of the results that a step makes, and of those of the step before, which it reads."""
    sizes = [
        [o.type.nbytes for result, o in enumerate(plan.graph.outputs) if result not in step.kept]
        for plan, step in zip(kernel.inner, steps, strict=True)
    ]
    return max(2 * sum(nbytes) for nbytes in sizes)
