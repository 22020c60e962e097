"""Branches: what a kernel computes only for those elements that ask for it, as each choice asks for one value.

In: a body of elementwise work alone. Out: its `Branch`es, and the lines that compute one. Next stop: `source`, `tile`.
`np.where(m, f(x), g(x))` and `y[m] = f(x[m])` ask for `f` where `m` is true. Of an array, or a tile, of which few
elements ask, what these read is taken out, computed with, and put in place; where none does, nothing is computed. A
kernel is priced as if all asked: nobody knows how many will.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.emit.choices import Conditions, asked_for, in_order
from eqfuse.emit.numpy.ops import fresh
from eqfuse.emit.numpy.tiling import node_work
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.views import computes
from eqfuse.ops import Role

if TYPE_CHECKING:
    from eqfuse.emit.numpy.source import Source

# Seconds of an element, on a Zen 5.
COMPUTED_ALONE = 4e-9  # of one that is computed alone: its place is found, and its value put there
READ_ALONE = 2e-9  # more for each array that it reads
LEAST_FEW_SHARE = 1 / 32  # of the elements of an array that may ask for a branch that is worth its lines, at least
LEAST_SECONDS = 8e-6  # of a branch of one array, as it takes about a microsecond to look who asks for it

NamesRead = Mapping[Node, Sequence[tuple[Node, str]]]  # by node what its statement reads, with the names of that

# np.count_nonzero takes another microsecond
_count = np._core.multiarray.count_nonzero  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Branch:
    """`nodes` are asked for where each of `conditions` is as it says; choices read `results` of them, or one alone the
    only result, its `choice`. Where at most this `share` of elements ask, these are computed alone."""

    conditions: tuple[tuple[Node, bool], ...]
    nodes: tuple[Node, ...]
    results: tuple[Node, ...]
    choice: Node | None
    share: float

    @property
    def statements(self) -> tuple[Node, ...]:
        return (*self.nodes, self.choice) if self.choice else self.nodes

    def __str__(self) -> str:
        return " ".join(dict.fromkeys(n.op for n in self.nodes))


def few_places(asks: np.ndarray, share: float) -> tuple[np.ndarray, ...] | None:
    """The places where `asks` is true, if these are at most this `share` of all."""
    return asks.nonzero() if _count(asks) <= share * asks.size else None


def branches_of(body: Graph, elements: int, device: Device) -> tuple[Branch, ...]:
    """The dear ones, by arrays of so many `elements`; what is asked for under more conditions than another's is part of
    that."""
    apart = any(n.row.role is Role.VIEW and computes(n.args[0]) for n in body.nodes)
    if apart or any(n.row.role is not Role.ELEMENTWISE for n in body.computations):
        return ()
    full = max((n.shape for n in body.computations if n.op == "where"), key=math.prod, default=())
    if math.prod(full) <= 1:
        return ()
    asked = asked_for(body, {n for n in body.nodes if n.shape == full})
    chosen: dict[Conditions, Branch] = {}
    for conditions in sorted(dict.fromkeys(asked.values()), key=len):
        if conditions and not any(conditions > other for other in chosen):
            dear = [n for n, each in asked.items() if each == conditions and computes(n)]
            seconds = sum(max(0.0, node_work(n, device).whole - device.call_seconds) / n.type.size for n in dear)
            if seconds * elements < LEAST_SECONDS:
                continue
            others = {n for branch in chosen.values() for n in branch.statements}
            own = {n for n, each in asked.items() if each >= conditions and computes(n)} - others
            branch = _branch(body, own, conditions, seconds, others)
            if branch.share >= LEAST_FEW_SHARE:
                chosen[conditions] = branch
    branches = tuple(chosen.values())
    return branches if grouped(body.computations, branches) else ()


def _branch(
    body: Graph, own: set[Node], conditions: Conditions, seconds: float, others: set[Node]
) -> Branch:
    """The branch of the nodes `own`, which take so many `seconds` for an element."""
    nodes = tuple(n for n in body.nodes if n in own)
    readers: dict[Node, list[Node]] = {n: [] for n in nodes}
    for reader in (n for n in body.nodes if n not in own):
        for a in own.intersection(reader.args):
            readers[a].append(reader)
    results = tuple(n for n in nodes if readers[n])
    arrays = {a for n in nodes for a in n.args if a not in own and a.type.size > 1}
    share = seconds / (seconds + COMPUTED_ALONE + READ_ALONE * len(arrays))
    named, choice = in_order(conditions, body), None
    if len(results) == len(named) == len(readers[results[-1]]) == 1:
        (only,), ((condition, _),) = readers[results[0]], named
        is_lone = only.args.count(results[0]) == 1 and only.args[0] is condition
        choice = only if is_lone and only not in others and only.shape == results[0].shape else None
    return Branch(named, nodes, results, choice, share)


def grouped(nodes: Sequence[Node], branches: Sequence[Branch]) -> list[Node]:
    """`nodes`, arguments first, those of each branch together, behind its conditions; none where that cannot be."""
    if not branches:
        return [*nodes]
    group = {n: (n,) for n in nodes} | {n: branch.statements for branch in branches for n in branch.statements}
    position = {n: i for i, n in enumerate(nodes)}
    needs = {each: {group[a] for n in each for a in n.args if a in group} - {each} for each in group.values()}
    for branch in branches:
        needs[branch.statements].update(group[c] for c, _ in branch.conditions if c in group)
    order: list[Node] = []
    while ready := [each for each, needed in needs.items() if not needed]:
        first = min(ready, key=lambda each: position[each[-1]])
        order += first
        del needs[first]
        for needed in needs.values():
            needed.discard(first)
    return order if not needs else []


def branch_lines(
    source: Source, branch: Branch, elements: int, asks: Mapping[Node, str], all_computed: Sequence[str],
    operands: NamesRead, places: Mapping[Node, str],
) -> list[str]:  # fmt: skip
    """The lines of a branch of so many `elements`. `asks`: the names of its conditions; `all_computed`: its lines where
    many ask; `operands`: what each of its nodes reads; `places`: where its results go, or its choice."""
    source.note_statement_bytes(_bytes(branch, elements))
    source.names |= {"few_places": few_places, "broadcast_to": np.broadcast_to}
    index = source.name("t")
    lines, alone = _alone(source, branch, index, operands, asks[branch.conditions[0][0]])
    others: list[str] = []
    if branch.choice is None:
        lines += [f"{places[n]}[{index}] = {alone[n]}" for n in branch.results]
    else:
        (result,), out = branch.results, places[branch.choice]
        other = next(text for n, text in operands[branch.choice][1:] if n is not result)
        others = [f"copyto({out}, {other})"]
        lines += [*others, f"{out}[{index}] = {alone[result]}"]
    wanted = [asks[c] if is_true else f"~{asks[c]}" for c, is_true in branch.conditions]
    return [
        f"{index} = few_places({' & '.join(wanted)}, {branch.share:.3f})",
        f"if {index} is None:", *[f"    {line}" for line in all_computed],
        f"elif {index}[0].size:", *[f"    {line}" for line in lines],
        *["else:"] * bool(others), *[f"    {line}" for line in others],
    ]  # fmt: skip


def _alone(
    source: Source, branch: Branch, index: str, operands: NamesRead, asks: str
) -> tuple[list[str], dict[Node, str]]:
    """The lines that compute a branch for the elements at `index` alone, and the names of what they compute.
    `asks`: an array of all elements."""
    lines, alone, free = list[str](), dict[Node, str](), list[str]()
    last = {a: n for n in branch.nodes for a, _ in operands.get(n, ())}
    for n in (n for n in branch.nodes if n in operands):
        args = []
        for a, text in operands[n]:
            if a.type.size == 1:
                text += ".reshape(())" * (a.shape != ())
            elif a not in alone:
                alone[a] = free.pop() if free else source.name("t")
                whole = text if a.shape == n.shape else f"broadcast_to({text}, {asks}.shape)"
                lines.append(f"{alone[a]} = {whole}[{index}]")
            args.append(alone.get(a, text))
        alone[n] = free.pop() if free else source.name("t")
        lines.append(fresh(n, args, alone[n], source.dtype(n.dtype)))
        free += [alone[a] for a in alone if last.get(a) is n and a not in branch.results]
    return lines, alone


def _bytes(branch: Branch, elements: int) -> int:
    """What the lines of a branch allocate, of an array of so many elements."""
    last = {a: n for n in branch.nodes for a in n.args}
    live: set[Node] = set()
    most = 0
    for n in branch.nodes:
        live |= {n, *(a for a in n.args if a.type.size > 1)}
        most = max(most, len(live))
        live -= {a for a in n.args if last[a] is n} - {*branch.results}
    size = max(n.dtype.itemsize for n in branch.nodes)
    indices = 8 * branch.nodes[0].type.rank
    return int(branch.share * elements * (indices + most * size)) + elements * len(branch.conditions)
