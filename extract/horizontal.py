"""Horizontal fusion: maps of a plan that need nothing of one another, of any shapes, in one launch where launches take
longer than their work.

In: a `Plan`. Out: the plan with fewer kernels, never costlier, on devices on which a kind of kernel holds such maps.
"""

from __future__ import annotations

from dataclasses import replace

from eqfuse.cost.device import Device
from eqfuse.extract.covers.cover import ROUNDOFF, producers_first
from eqfuse.extract.kernel_price import priced
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.kinds import KINDS
from eqfuse.plan.plan import Kernel, Plan

TRIED_BESIDE = 8  # kernels that each map is tried beside
MOST_TRIES = 400  # tries for a plan


def fused_horizontally(plan: Plan) -> Plan:
    """`plan`, its maps beside others as long as that saves something."""
    kind = next((k.name for k in KINDS.values() if k.of_any_spaces and k.is_on(plan.device.target)), None)
    if kind is None:
        return plan
    beside = _KernelsLeft(plan, kind)
    for i, k in enumerate(plan.kernels):
        if k.template.pointwise and k.price.bound == "launch":
            beside.place(i)
    kernels = beside.ordered()
    return plan if len(kernels) == len(plan.kernels) else replace(plan, kernels=kernels, bound=None)


class _KernelsLeft:
    """The kernels that are left, by number, and which ones each needs, as bits."""

    def __init__(self, plan: Plan, kind: str) -> None:
        self.device, self.kind = plan.device, kind
        self.alive = dict(enumerate(plan.kernels))
        self.maker = {v: i for i, k in self.alive.items() for v in k.writes}
        self.needed: dict[int, int] = {}
        for i, k in self.alive.items():
            makers = [self.maker[v] for v in k.reads if v in self.maker]
            self.needed[i] = 0
            for m in makers:
                self.needed[i] |= self.needed[m] | 1 << m
        self.members = {i: 1 << i for i in self.alive}
        self.open: list[int] = []  # kernels that may take more, those that came last first
        self.tries = 0

    def place(self, number: int) -> None:
        """Put kernel `number` beside another one that is open, or leave it open for others."""
        for other in self.open[:TRIED_BESIDE]:
            needs = self.needed[number] & self.members[other] or self.needed[other] & self.members[number]
            if needs or self.tries == MOST_TRIES:
                continue
            self.tries += 1
            kernel = side_by_side(self.alive[other], self.alive[number], self.kind, self.device)
            if kernel is not None:
                self._join(other, number, kernel)
                return
        self.open.insert(0, number)

    def _join(self, first: int, second: int, kernel: Kernel) -> None:
        """`kernel` in place of two, as the first."""
        del self.alive[second]
        self.alive[first] = kernel
        self.maker.update(dict.fromkeys(kernel.writes, first))
        members = self.members[first] = self.members[first] | self.members.pop(second)
        needed = self.needed[first] = self.needed[first] | self.needed.pop(second)
        for i in self.needed:
            if self.needed[i] & members:
                self.needed[i] |= needed | members

    def ordered(self) -> tuple[Kernel, ...]:
        """The kernels, producers first, otherwise as they were."""
        order = producers_first(self.alive, lambda i: [self.maker[v] for v in self.alive[i].reads if v in self.maker])
        return tuple([self.alive[i] for i in order])


def side_by_side(a: Kernel, b: Kernel, kind: str, device: Device) -> Kernel | None:
    """One kernel of `kind` for both, if there is one and it is cheaper."""
    reads = tuple(dict.fromkeys((*a.reads, *b.reads)))
    inputs: dict[int, Node] = {}
    for k in (a, b):
        for v, n in zip(k.reads, k.body.inputs, strict=True):
            inputs.setdefault(v, input_node(f"r{reads.index(v)}", n.type, n.is_constant_leaf))
    outputs: list[Node] = []
    for k in (a, b):
        outputs += substitute(k.body.outputs, {n: inputs[v] for v, n in zip(k.reads, k.body.inputs, strict=True)})
    body = Graph(tuple([inputs[v] for v in reads]), tuple(outputs))
    answer = priced(body, device, kind)
    if isinstance(answer, str) or answer[1].seconds >= a.price.seconds + b.price.seconds - ROUNDOFF:
        return None
    return Kernel(kind, body, reads, (*a.writes, *b.writes), answer[1])
