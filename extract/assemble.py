"""Assemble the covers of all segments into one plan, and prove each cover equal to its segment.

In: a `Space` and one `Cover` per distinct segment. Out: a `Plan`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.egraph.canonical import slice_of
from eqfuse.egraph.proof import prove
from eqfuse.egraph.segments import Use, crossings
from eqfuse.egraph.space import Segment, Space
from eqfuse.extract.covers.cover import Cover
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType
from eqfuse.plan.plan import Kernel, Plan

_FREE = Price(0.0, 0, 0, 0, "memory")


@dataclass(frozen=True)
class _KernelStep:
    """A kernel of one segment, over its classes."""

    kind: str
    body: Graph
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    price: Price


def assemble(space: Space, covers: list[Cover], device: Device) -> Plan:
    """The plan that runs each use of a segment by its cover, values numbered in the order they appear."""
    for cover in covers:
        cover.settle()
    solved = [_steps(cover) for cover in covers]
    graph = space.graph
    types: list[TensorType] = []
    constants: list[tuple[int, Literal]] = []
    setup: list[Kernel] = []
    kernels: list[Kernel] = []

    def number(t: TensorType) -> int:
        types.append(t)
        return len(types) - 1

    value: dict[Node, int] = {n: number(n.type) for n in graph.inputs}
    place = {n: i for i, n in enumerate(graph.nodes)}
    sources: dict[int, int] = {}
    for use in space.uses:
        segment, cover = covers[use.segment].grammar.segment, covers[use.segment]
        numbers: dict[int, int] = {}
        for class_id, n in zip(segment.inputs, use.inputs, strict=True):
            if n not in value and n.op == "const":
                value[n] = number(n.type)
                constants.append((value[n], n.literal))
            elif n not in value:
                value[n] = number(n.type)
                kernels.append(_slice(n, value))
            numbers[class_id] = value[n]
        once, steps = solved[use.segment]
        for step, into in [*((s, setup) for s in once), *((s, kernels) for s in steps)]:
            reads = tuple(numbers[c] for c in step.reads)
            numbers |= {c: number(segment.classes[c].type) for c in step.writes}
            into.append(Kernel(step.kind, step.body, reads, tuple(numbers[c] for c in step.writes), step.price))
        for n, class_id in _written(cover.grammar.segment, use):
            if class_id in numbers:
                sources.setdefault(numbers[class_id], place[n])
        for class_id, n in zip(cover.grammar.segment.roots, use.outputs, strict=True):
            value[n] = numbers[class_id]
    return Plan(
        graph, device, tuple(types), tuple(value[n] for n in graph.inputs), tuple(constants), tuple(setup),
        tuple(kernels), tuple(value[o] for o in graph.outputs), tuple(value[n] for n in crossings(graph, space.uses)),
        _bound(space, covers), space.numerics, tuple(sources.items()),
    )  # fmt: skip


def prove_covers(space: Space, covers: list[Cover]) -> None:
    """Prove that `covers`, which were assembled, compute the segments of `space`. EqfuseError where egglog cannot."""
    for segment, cover in zip(space.segments, covers, strict=True):
        if not cover.is_proved:
            once, steps = _steps(cover)
            chosen = cover.grammar.segment
            prove(segment, [(s.body, s.reads, s.writes) for s in (*once, *steps)], chosen.inputs, chosen.roots)


def _written(segment: Segment, use: Use) -> Iterator[tuple[Node, int]]:
    """The nodes of the program that a `use` of `segment` stands for, and their classes."""
    pairs = [*zip(use.outputs, segment.graph.outputs, strict=True)]
    seen: set[Node] = set(use.inputs)
    while pairs:
        n, like = pairs.pop()
        if n in seen or (n.op, len(n.args)) != (like.op, len(like.args)):
            continue
        seen.add(n)
        pairs += zip(n.args, like.args, strict=True)
        if like in segment.origin:
            yield n, segment.origin[like]


def _slice(n: Node, value: dict[Node, int]) -> Kernel:
    """The view `n` of a value, for the segment that reads it."""
    base = slice_of(n)
    read = input_node("r0", base.type)
    return Kernel("view", Graph((read,), substitute((n,), {base: read})), (value[base],), (value[n],), _FREE)


def _bound(space: Space, covers: list[Cover]) -> float | None:
    bounds = [covers[use.segment].bound for use in space.uses]
    return None if None in bounds else sum(b for b in bounds if b is not None)


def _steps(cover: Cover) -> tuple[list[_KernelStep], list[_KernelStep]]:
    """What runs once when the program is built, and what runs at every call."""
    chosen = cover.grammar.segment
    kernels = []
    for group in cover.groups:
        body, reads = cover.grammar.body(group.cuts)
        kernels.append(_KernelStep(group.state.kind, body, reads, group.outputs, group.price))
    wanted = {c for k in kernels for c in k.reads} | set(chosen.roots)
    inputs = set(chosen.inputs)
    setup = [_constant_step(chosen, c) for c in sorted(wanted - inputs) if chosen.classes[c].constant]
    return setup, kernels


def _constant_step(segment: Segment, eclass: int) -> _KernelStep:
    body, reads = constant_body(segment, eclass)
    return _KernelStep("setup", body, reads, (eclass,), _FREE)


def constant_body(segment: Segment, eclass: int) -> tuple[Graph, tuple[int, ...]]:
    """The smallest derivation of a class that depends on constants alone, and the classes it reads."""
    inputs = set(segment.inputs)
    size: dict[int, int] = dict.fromkeys((c for c in inputs if segment.classes[c].constant), 1)
    best: dict[int, int] = {}
    changed = True
    while changed:
        changed = False
        for i, class_ in enumerate(segment.classes):
            if not class_.constant or i in inputs:
                continue
            for k, enode in enumerate(class_.nodes):
                if all(a in size for a in enode.args):
                    total = 1 + sum(size[a] for a in enode.args)
                    if i not in size or total < size[i]:
                        size[i], best[i], changed = total, k, True
    reads: dict[int, Node] = {}
    nodes: dict[int, Node] = {}
    stack = [eclass]
    while stack:
        c = stack[-1]
        if c in inputs:
            nodes[c] = reads.setdefault(c, input_node(f"r{len(reads)}", segment.classes[c].type))
        if c in nodes:
            stack.pop()
            continue
        enode = segment.classes[c].nodes[best[c]]
        missing = [a for a in enode.args if a not in nodes]
        if missing:
            stack.extend(reversed(missing))
        else:
            nodes[c] = enode.over(nodes[a] for a in enode.args)
    return Graph(tuple(reads.values()), (nodes[eclass],)), tuple(reads)
