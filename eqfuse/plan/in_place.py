"""Where updates of arrays write: into the memory of the array they update, or beside values that lie in place already.

In: a `Plan`, and what its kernels can write into. Out: `Updates`. Next stop: `eqfuse.plan.buffers`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from eqfuse.ir.graph import Node, input_node, node, topological
from eqfuse.ops import Role, row
from eqfuse.ops.types import TensorType
from eqfuse.ops.updates import Ranges, apart, uncovered
from eqfuse.plan.plan import Kernel, Plan


@dataclass(frozen=True)
class Part:
    """Written by kernel `maker` as a `slice` of the value `of`, into which kernel `user` would copy its value `at`."""

    of: int
    slice: Node
    maker: int
    user: int
    at: int


@dataclass(frozen=True)
class Updates:
    """`in_place`: kernels that write into the array they update, and that value. `parts`: values that are written where
    a later kernel would copy them."""

    in_place: dict[int, int]
    parts: dict[int, Part]


def updates(plan: Plan, gaps: Collection[int] = (), shared: Collection[int] = ()) -> Updates:
    """`gaps`: kernels that can write an array with gaps; `shared`: those of them whose result may share memory with
    what they read."""
    found = _Found(plan, frozenset(gaps), frozenset(shared))
    for i, k in enumerate(plan.kernels):
        found.follow(i, k)
    return Updates(found.in_place, found.parts)


class _Found:
    """What was decided of the kernels so far, and whose memory each value lies in."""

    def __init__(self, plan: Plan, gaps: frozenset[int], shared: frozenset[int]) -> None:
        self.plan, self.gaps, self.shared = plan, gaps, shared
        self.memory = {v: v for v in range(len(plan.types))}
        self.maker: dict[int, int] = {}  # none of views
        self.readers: dict[int, list[int]] = {}
        for i, k in enumerate(plan.kernels):
            for v in dict.fromkeys(k.reads):
                self.readers.setdefault(v, []).append(i)
        self.in_place: dict[int, int] = {}
        self.parts: dict[int, Part] = {}

    def follow(self, i: int, k: Kernel) -> None:
        if k.is_view:
            self.memory[k.writes[0]] = self.memory[k.reads[0]]
            return
        self.maker.update(dict.fromkeys(k.writes, i))
        n = k.body.outputs[0]
        update = k.template.updates and row(n.op).role is Role.UPDATE
        if not update or len(k.writes) != 1 or n.args[0].op != "input":
            return
        base = k.reads[k.body.inputs.index(n.args[0])]
        apart_parts = self._parts(i, k, k.writes[0])
        if self._is_free(i, k, n, base):
            parts = self._parts(i, k, base)
            kept = sum(TensorType(n.dtype, _extents(r)).size for r in uncovered(n.shape, _slices(n)))
            if self._copied(n, parts) <= self._copied(n, apart_parts) + kept:
                self.in_place[i] = base
                self.memory[k.writes[0]] = self.memory[base]
                apart_parts = parts
        self.parts |= apart_parts

    def _copied(self, n: Node, parts: dict[int, Part]) -> int:
        """Elements that the update copies from values."""
        written = {part.at for part in parts.values()}
        return sum(a.type.size for at, a in enumerate(n.args[1:]) if at not in written)

    def _is_free(self, i: int, k: Kernel, n: Node, base: int) -> bool:
        """May kernel `i` write into the memory of `base`? It must come from another kernel; nobody may see the change
        who wants what was there before: a later reader, a result, another write of the same update."""
        memory = self.memory[base]
        if base not in self.maker or memory not in self.maker:
            return False
        lying = [v for v, m in self.memory.items() if m == memory]
        if any(v in self.plan.outputs for v in lying) or any(v in lying for v in k.reads if v != base):
            return False
        again = [a for a in n.args[1:] if any(leaf is n.args[0] for leaf in topological([a]))]
        if again and len(n.args) > 2 and not all(_unseen(a, n) for a in again):
            return False
        later = [(self.plan.kernels[j], v) for v in lying for j in self.readers.get(v, ()) if j > i]
        return all(v in self.maker and _looks_past(reader, v, n) for reader, v in later)

    def _parts(self, i: int, k: Kernel, of: int) -> dict[int, Part]:
        """The values of update `i` that their makers can write into `of` at once: only this kernel reads them, and
        nothing that it copies before goes there."""
        n = k.body.outputs[0]
        found: dict[int, Part] = {}
        if n.op != "slice_scatter" or len(k.body.operators) != 1:
            return found
        slices = _slices(n)
        kept = uncovered(n.shape, slices) if of == k.writes[0] else []
        whole = input_node("whole", self.plan.types[k.writes[0]])
        for at, a in enumerate(n.args[1:]):
            if a not in k.body.inputs or not all(apart(slices[at], before) for before in (*kept, *slices[:at])):
                continue
            v = k.reads[k.body.inputs.index(a)]
            made = self.maker.get(v, -1)
            if made not in self.gaps or self.memory[v] != v or v in self.plan.outputs or self.readers[v] != [i]:
                continue
            if list(n.args).count(a) > 1 or v in self.parts:
                continue
            if of == k.writes[0] or self._is_left_alone(of, made, i):
                found[v] = Part(of, node("slice", (whole,), (slices[at],)), made, i, at)
        return found

    def _is_left_alone(self, of: int, made: int, user: int) -> bool:
        """Is the memory of `of` complete when kernel `made` runs, and read by none from then until `user`?"""
        memory = self.memory[of]
        lying = [v for v, m in self.memory.items() if m == memory]
        if made not in self.shared or any(self.maker.get(v, -1) >= made for v in lying):
            return False
        return not any(made < j < user for v in lying for j in self.readers.get(v, ()))


def _slices(n: Node) -> tuple[Ranges, ...]:
    """What the update replaces: all of it where only the data tell."""
    if n.op != "slice_scatter":
        return (tuple((0, extent, 1) for extent in n.shape),)
    return n.attr("slices")


def _extents(ranges: Ranges) -> tuple[int, ...]:
    return tuple(len(range(*r)) for r in ranges)


def _unseen(view: Node, update: Node) -> bool:
    """Is `view` a slice of what is updated that sees none of the writes?"""
    ranges = view.attr("ranges") if view.op == "slice" and view.args[0] is update.args[0] else None
    return ranges is not None and all(apart(ranges, written) for written in _slices(update))


def _looks_past(k: Kernel, v: int, update: Node) -> bool:
    """Does kernel `k` read of the value `v` only slices that the update leaves as they are?"""
    leaves = [leaf for leaf, read in zip(k.body.inputs, k.reads, strict=True) if read == v]
    users = [n for n in k.body.nodes if any(leaf in n.args for leaf in leaves)]
    users += [o for o in k.body.outputs if o in leaves]
    return all(
        n.op == "slice" and all(apart(n.attr("ranges"), written) for written in _slices(update))
        for n in users
    )
