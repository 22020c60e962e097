"""Where updates of arrays write: into the memory of the array they update, or beside values that lie in place already.

In: a `Plan`, what its kernels can write into, and of a loop's step the carries, whose memory is the loop's. Out:
`Updates`. Next stop: `eqfuse.plan.buffers`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from eqfuse.ir.graph import Graph, Node, input_node, node, topological
from eqfuse.ir.views import leaf_chain
from eqfuse.ops import Role, row
from eqfuse.ops.types import TensorType
from eqfuse.ops.updates import Ranges, apart, uncovered
from eqfuse.plan.plan import Kernel, Plan


@dataclass(frozen=True)
class PlacedSlice:
    """Written by kernel `maker` as a `slice` of the value `whole`, into which kernel `user` would copy its value
    number `position`."""

    whole: int
    slice: Node
    maker: int
    user: int
    position: int


@dataclass(frozen=True)
class Updates:
    """`in_place`: kernels that write into the array they update, and that value. `over`: kernels that write over the
    carry that they read element by element, and that value. `parts`: values that are written where a later kernel would
    copy them. `kept`: the results that are carries in the memory of those of the step before; `carried`: values that
    lie there."""

    in_place: dict[int, int]
    parts: dict[int, PlacedSlice]
    over: Mapping[int, int] = field(default_factory=dict)
    kept: frozenset[int] = frozenset()
    carried: frozenset[int] = frozenset()


def updates(
    plan: Plan, gaps: Collection[int] = (), shared: Collection[int] = (), carried: Mapping[int, int] | None = None,
    last: Collection[int] = (),
) -> Updates:  # fmt: skip
    """`gaps`: kernels that can write an array with gaps; `shared`: those of them whose result may share memory with
    what they read; `carried`: values that carries come in, in memory that only the loop knows, and which result is the
    next one; `last`: kernels that write an element after all that they read of it. A carry is written in place if its
    next value lies where it lay, whole."""
    carried = carried or {}
    while True:
        found = _Placements(plan, frozenset(gaps), frozenset(shared), frozenset(carried), frozenset(last))
        for i, k in enumerate(plan.kernels):
            found.follow(i, k)
        stays = {v: at for v, at in carried.items() if found.is_all_of(plan.outputs[at], v)}
        if stays == carried:
            return Updates(found.in_place, found.parts, found.over, frozenset(stays.values()), frozenset(found.whole))
        carried = stays


class _Placements:
    """What was decided of the kernels so far, and whose memory each value lies in."""

    def __init__(
        self, plan: Plan, gaps: frozenset[int], shared: frozenset[int], carried: frozenset[int], last: frozenset[int]
    ) -> None:
        self.plan, self.gaps, self.shared, self.carried, self.last = plan, gaps, shared, carried, last
        self.whole = {*carried}  # values that are all elements of a carry's memory, in order
        self.memory = {v: v for v in range(len(plan.types))}
        self.maker: dict[int, int] = {}  # none of views
        self.readers: dict[int, list[int]] = {}
        for i, k in enumerate(plan.kernels):
            for v in dict.fromkeys(k.reads):
                self.readers.setdefault(v, []).append(i)
        self.in_place: dict[int, int] = {}
        self.over: dict[int, int] = {}
        self.parts: dict[int, PlacedSlice] = {}

    def follow(self, i: int, k: Kernel) -> None:
        if k.is_view:
            self._share(k, k.reads[0], leaf_chain(k.body.outputs[0])[1])
            return
        self.maker.update(dict.fromkeys(k.writes, i))
        n = k.body.outputs[0]
        over = self._overwritten(i, k) if i in self.last and len(k.writes) == 1 else None
        if over is not None:
            self.over[i] = over
            self._share(k, over, ())
            return
        update = k.template.updates and row(n.op).role is Role.UPDATE
        if not update or len(k.writes) != 1:
            return
        leaf, chain = leaf_chain(n.args[0])
        if leaf.op != "input":
            return
        base = k.reads[k.body.inputs.index(leaf)]
        if chain and not (base in self.whole and _keeps_order(chain)):
            return
        apart_parts = self._parts(i, k, k.writes[0])
        if self._is_free(i, k, n, base, leaf):
            parts = self._parts(i, k, base)
            kept = sum(TensorType(n.dtype, _extents(r)).size for r in uncovered(n.shape, _slices(n)))
            if base in self.whole or self._copied(n, parts) <= self._copied(n, apart_parts) + kept:
                self.in_place[i] = base
                self._share(k, base, chain)
                apart_parts = parts
        self.parts |= apart_parts

    def _overwritten(self, i: int, k: Kernel) -> int | None:
        """The carry that kernel `i` reads element by element, and nobody after it."""
        for v, leaf in zip(k.reads, k.body.inputs, strict=True):
            if v not in self.whole or not _by_element(k.body, leaf):
                continue
            lying = {u for u, m in self.memory.items() if m == self.memory[v]}
            unread = all(j <= i for u in lying for j in self.readers.get(u, ()))
            if unread and lying.isdisjoint(self.plan.outputs) and lying.isdisjoint({*k.reads} - {v}):
                return v
        return None

    def _share(self, k: Kernel, base: int, chain: Sequence[Node]) -> None:
        """The result of `k` lies in the memory of `base`, seen through the views `chain`."""
        self.memory[k.writes[0]] = self.memory[base]
        if base in self.whole and _keeps_order(chain):
            self.whole.add(k.writes[0])

    def is_all_of(self, v: int, memory: int) -> bool:
        """Is the value `v` the whole of `memory`, that of a carry?"""
        return v in self.whole and self.memory[v] == memory

    def _copied(self, n: Node, parts: dict[int, PlacedSlice]) -> int:
        """Elements that the update copies from values."""
        written = {part.position for part in parts.values()}
        return sum(a.type.size for at, a in enumerate(n.args[1:]) if at not in written)

    def _is_free(self, i: int, k: Kernel, n: Node, base: int, leaf: Node) -> bool:
        """May kernel `i` write into the memory of `base`? It must come from another kernel, or be a carry; nobody may
        see the change who wants what was there before: a later reader, a result, another write of the same update."""
        memory = self.memory[base]
        if base not in self.whole and (base not in self.maker or memory not in self.maker):
            return False
        lying = [v for v, m in self.memory.items() if m == memory]
        if any(v in self.plan.outputs for v in lying) or any(v in lying for v in k.reads if v != base):
            return False
        again = [a for a in n.args[1:] if leaf in topological([a])]
        if again and not _reads_first(n, leaf) and not all(_unseen(a, n) for a in again):
            return False
        later = [(self.plan.kernels[j], v) for v in lying for j in self.readers.get(v, ()) if j > i]
        return all(v in {*self.maker, *self.carried} and _looks_past(reader, v, n) for reader, v in later)

    def _parts(self, i: int, k: Kernel, whole_value: int) -> dict[int, PlacedSlice]:
        """The values of update `i` that their makers can write into `whole_value` at once: only this kernel reads
        them, and nothing that it copies before goes there."""
        n = k.body.outputs[0]
        found: dict[int, PlacedSlice] = {}
        if n.op != "slice_scatter" or len(k.body.operators) != 1:
            return found
        slices = _slices(n)
        kept = uncovered(n.shape, slices) if whole_value == k.writes[0] else []
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
            if whole_value == k.writes[0] or self._is_left_alone(whole_value, made, i):
                found[v] = PlacedSlice(whole_value, node("slice", (whole,), (slices[at],)), made, i, at)
        return found

    def _is_left_alone(self, whole_value: int, maker: int, user: int) -> bool:
        """Is the memory of `whole_value` complete when kernel `maker` runs, and read by none from then until `user`?"""
        memory = self.memory[whole_value]
        lying = [v for v, m in self.memory.items() if m == memory]
        if maker not in self.shared or any(self.maker.get(v, -1) >= maker for v in lying):
            return False
        return not any(maker < j < user for v in lying for j in self.readers.get(v, ()))


def _by_element(body: Graph, leaf: Node) -> bool:
    """Does each element of the one output depend on `leaf` by the same element alone?"""
    (output,) = body.outputs
    behind = {leaf}
    for n in body.nodes:
        if not behind.isdisjoint(n.args):
            if row(n.op).role is not Role.ELEMENTWISE or n.shape != leaf.shape:
                return False
            behind.add(n)
    return output in behind and output is not leaf and output.type == leaf.type


def _slices(n: Node) -> tuple[Ranges, ...]:
    """What the update replaces: all of it where only the data tell."""
    if n.op != "slice_scatter":
        return (tuple((0, extent, 1) for extent in n.shape),)
    return n.attr("slices")


def _extents(ranges: Ranges) -> tuple[int, ...]:
    return tuple(len(range(*r)) for r in ranges)


def _keeps_order(chain: Sequence[Node]) -> bool:
    """Do the views `chain` show the elements of an array, which lies in order, all and as they lie?"""
    return all(n.op == "reshape" for n in chain)


def _reads_first(n: Node, leaf: Node) -> bool:
    """Does the update `n` read of `leaf`, which it writes, no element after its own write of it? So do one slice and
    one value, which are computed before they are written, and a value for each of the columns at one index, computed
    from elements of its own column."""
    if n.op != "scatter":
        return len(n.args) == 2
    base, indices, values = n.args
    if values.type.size == 1:
        return True
    if indices.type.size != 1 or leaf in topological([indices]):
        return False
    behind = {leaf, base}
    for a in topological([values]):
        if a in behind or behind.isdisjoint(a.args):
            continue
        own = a.op == "take" and a.args[0] is base and a.args[1] not in behind and a.args[1].type.size == 1
        if a.shape != values.shape or not (row(a.op).role is Role.ELEMENTWISE or (own and _axis(a) == _axis(n))):
            return False
        behind.add(a)
    return True


def _axis(n: Node) -> int:
    """The axis of its first argument that the gather or the update `n` takes an index of."""
    axis: int = n.attr("axis")
    return axis % len(n.args[0].shape)


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
