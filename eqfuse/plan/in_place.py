"""Where updates of arrays write: into the memory of the array they update, or beside values that lie in place already.

In: a `Plan`, what its kernels can write into, and of a loop's step the carries, whose memory is the loop's. Out:
`Updates`. Next stop: `eqfuse.plan.buffers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from eqfuse.cost.targets import copies_overlap
from eqfuse.ir.graph import Node, input_node, node, topological
from eqfuse.ir.views import computes, leaf_chain
from eqfuse.kinds.elements import by_element
from eqfuse.ops import Role, index_map
from eqfuse.ops.types import TensorType
from eqfuse.ops.updates import Ranges, apart, meeting, uncovered, whole_of
from eqfuse.ops.views import extents_of
from eqfuse.plan.plan import Kernel, Plan


@dataclass(frozen=True)
class PlacedSlice:
    """Written by kernel `maker` where `views` of the value `whole` lie, into which kernel `user` would copy its value
    number `position`."""

    whole: int
    views: tuple[Node, ...]
    maker: int
    user: int
    position: int


@dataclass(frozen=True)
class Updates:
    """`in_place`: kernels that write into the array they update, and that value. `over`: results that are written over
    a value which nobody reads later, and that value: over a carry that is read element by element, or by a loop over
    what it begins with. `parts`: values that are written where a later kernel would copy them. `kept`: the results that
    are carries in the memory of those of the step before, and in whose; `carried`: values that lie there."""

    in_place: dict[int, int]
    parts: dict[int, PlacedSlice]
    over: Mapping[int, int] = field(default_factory=dict)
    kept: Mapping[int, int] = field(default_factory=dict)
    carried: frozenset[int] = frozenset()


def updates(
    plan: Plan, gaps: Collection[int] = (), shared: Collection[int] = (), carried: Mapping[int, int] | None = None,
    last: Collection[int] = (), loops: Mapping[int, Mapping[int, int]] = MappingProxyType({}),
    anywhere: Collection[int] = (), overlays: Mapping[int, Collection[tuple[int, int]]] = MappingProxyType({}),
) -> Updates:  # fmt: skip
    """`gaps`: kernels that can write an array with gaps; `shared`: those of them whose result may share memory with
    what they read; `carried`: values that carries come in, in memory that only the loop knows, and which result is the
    next one; `last`: kernels that write an element after all that they read of it; `loops`: kernels that keep a result
    where a value that they read lies, if both lie in one place; `anywhere`: kernels that write arrays in order wherever
    these begin; `overlays`: by kernel, which of its results may lie over which of its reads, and take no longer then.
    Carries are written in place if their next values lie where they lay, each the whole of one."""
    carried = carried or {}
    while True:
        placements = _Placements(
            plan, frozenset(gaps), frozenset(shared), frozenset(carried), frozenset(last), loops, frozenset(anywhere)
        )
        for i, k in enumerate(plan.kernels):
            placements.follow(i, k)
        placements.overwrite({i: overlays[i] for i in sorted(overlays) if i in placements.anywhere})
        lies = placements.carries(carried)
        stays = {v: result for v, result in carried.items() if result in lies}
        if stays == carried:
            kept = {result: carried[v] for result, v in lies.items()}
            return Updates(placements.in_place, placements.parts, placements.over, kept, frozenset(placements.whole))
        carried = stays


class _Placements:
    """What was decided of the kernels so far, and whose memory each value lies in."""

    def __init__(
        self, plan: Plan, gaps: frozenset[int], shared: frozenset[int], carried: frozenset[int], last: frozenset[int],
        loops: Mapping[int, Mapping[int, int]], anywhere: frozenset[int],
    ) -> None:  # fmt: skip
        self.plan, self.gaps, self.shared, self.carried, self.last = plan, gaps, shared, carried, last
        self.loops, self.anywhere = loops, anywhere
        self.whole = {*carried}  # values that are all elements of a carry's memory, in order
        self.complete = {*carried}  # those, and values that are all elements of what a kernel makes
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
            self._share(k.writes[0], k.reads[0], leaf_chain(k.body.outputs[0])[1])
            return
        self.maker.update(dict.fromkeys(k.writes, i))
        n = k.body.outputs[0]
        over = self._overwritten(i, k)
        for v, base in over.items():
            self.over[v] = base
            self._share(v, base, ())
        self.complete.update(k.writes)
        if over:
            return
        update = k.template.updates and n.row.role is Role.UPDATE
        if not update or len(k.writes) != 1:
            return
        leaf, chain = leaf_chain(n.args[0])
        if leaf.op != "input":
            return
        base = k.reads[k.body.inputs.index(leaf)]
        if chain and not (base in self.complete and chain_keeps_order(chain)):
            return
        apart_parts = self._parts(i, k, k.writes[0])
        if self._is_free(i, k, n, base, leaf):
            parts = self._parts(i, k, base)
            kept = sum(TensorType(n.dtype, extents_of(r)).size for r in uncovered(n.shape, _slices(n)))
            if base in self.whole or self._copied(n, parts) <= self._copied(n, apart_parts) + kept:
                self.in_place[i] = base
                self._share(k.writes[0], base, chain)
                apart_parts = parts
        self.parts |= apart_parts

    def _overwritten(self, i: int, k: Kernel) -> dict[int, int]:
        """The results of kernel `i` that are written over a value which it reads, and nobody after it: a carry that it
        reads element by element, or what a loop begins with."""
        if i in self.loops:
            pairs = ((k.writes[result], k.reads[read]) for result, read in self.loops[i].items())
            return {v: base for v, base in pairs if base in self.complete and self._is_last(i, k, base)}
        if i not in self.last or len(k.writes) > 1:
            return {}
        for base, leaf in zip(k.reads, k.body.inputs, strict=True):
            if base in self.whole and by_element(k.body, leaf) and self._is_last(i, k, base):
                return {k.writes[0]: base}
        return {}

    def overwrite(self, overlays: Mapping[int, Collection[tuple[int, int]]]) -> None:
        """Let results of kernels lie over values that these read for the last time, as `overlays` has it. It comes
        last: what was decided before saves copies, and nothing of it is undone."""
        lying: dict[int, list[int]] = {}
        for v, memory in self.memory.items():
            lying.setdefault(memory, []).append(v)
        returned = {self.memory[v] for v in self.plan.outputs}
        read_last = {m: max([self.readers.get(v, [-1])[-1] for v in values]) for m, values in lying.items()}
        for i, pairs in overlays.items():
            k = self.plan.kernels[i]
            read = [self.memory[r] for r in k.reads]
            for result, position in sorted(pairs):
                v, base, memory = k.writes[result], k.reads[position], read[position]
                is_placed = v in self.over or v in self.parts or self.memory[v] != v or i in self.in_place
                is_own = memory in self.maker and memory not in self.parts and self.maker[memory] in self.anywhere
                if is_placed or not is_own or base not in self.complete or memory in returned:
                    continue
                if read_last[memory] > i or read.count(memory) > 1:
                    continue
                self.over[v] = base
                lying[memory] += lying[v]
                self.memory |= dict.fromkeys(lying[v], memory)
                read_last[memory] = max(read_last[v], i + 1)  # no other result lies there too
                returned |= {memory} if v in returned else set()

    def _is_last(self, i: int, k: Kernel, base: int) -> bool:
        """Is `base` in memory that may be written to, all of which only kernel `i` still reads, as one argument?"""
        lying = {v for v, m in self.memory.items() if m == self.memory[base]}
        unread = all(j <= i for v in lying for j in self.readers.get(v, ())) and k.reads.count(base) == 1
        return unread and lying.isdisjoint(self.plan.outputs) and lying.isdisjoint({*k.reads} - {base})

    def _share(self, v: int, base: int, chain: Sequence[Node]) -> None:
        """The value `v` lies in the memory of `base`, seen through the views `chain`."""
        self.memory[v] = self.memory[base]
        if chain_keeps_order(chain):
            self.whole.update({v} if base in self.whole else ())
            self.complete.update({v} if base in self.complete else ())

    def carries(self, carried: Mapping[int, int]) -> dict[int, int]:
        """The results that are carries in memory of carries, each the whole of another one's, and whose."""
        lies: dict[int, int] = {}
        for result in carried.values():
            v = self.plan.outputs[result]
            if v in self.whole and self.memory[v] not in lies.values():
                lies[result] = self.memory[v]
        while True:
            memories = {*lies.values()}
            fewer = {result: m for result, m in lies.items() if carried[m] in lies}
            fewer = {result: m for result, m in fewer.items() if any(carried[w] == result for w in memories)}
            if fewer == lies:
                return lies
            lies = fewer

    def _copied(self, n: Node, parts: dict[int, PlacedSlice]) -> int:
        """Elements that the update copies from values."""
        written = {part.position for part in parts.values()}
        return sum(a.type.size for position, a in enumerate(n.args[1:]) if position not in written)

    def _is_free(self, i: int, k: Kernel, n: Node, base: int, leaf: Node) -> bool:
        """May kernel `i` write into the memory of `base`? It must come from another kernel, or be a carry; nobody may
        see the change who wants what was there before: a later reader, a result, another write of the same update."""
        memory = self.memory[base]
        if base not in self.whole and (base not in self.maker or memory not in self.maker):
            return False
        lying = [v for v, m in self.memory.items() if m == memory]
        if any(v in self.plan.outputs for v in lying) or any(v in lying for v in k.reads if v != base):
            return False
        if not (_reads_first(n, leaf) or _reads_in_time(n, leaf)) or _overwrites_its_source(n):
            return False
        if not copies_overlap(self.plan.device) and not _copies_from_apart(n, leaf):
            return False
        later = [(self.plan.kernels[j], v) for v in lying for j in self.readers.get(v, ()) if j > i]
        return all(v in {*self.maker, *self.carried} and _looks_past(reader, v, n) for reader, v in later)

    def _parts(self, i: int, k: Kernel, whole_value: int) -> dict[int, PlacedSlice]:
        """The values of update `i` that their makers can write into `whole_value` at once: none reads them after this
        kernel, and nothing that it copies before goes there."""
        n = k.body.outputs[0]
        parts: dict[int, PlacedSlice] = {}
        is_new = whole_value == k.writes[0]
        if n.row.pieces is None or len([m for m in k.body.operators if computes(m) or not is_new]) != 1:
            return parts
        slices = _slices(n)
        kept = uncovered(n.shape, slices) if is_new else ()
        whole = input_node("whole", self.plan.types[k.writes[0]])
        leaves = [leaf_chain(a) for a in n.args]
        uses, values = Counter(leaf for leaf, _ in leaves), dict(zip(k.body.inputs, k.reads, strict=True))
        meets = meeting(n.shape, (*kept, *slices))[len(kept) :]
        seen = [] if is_new else [*_seen(n).values()]
        for position, (leaf, chain) in enumerate(leaves[1:]):
            if leaf not in values or meets[position]:
                continue
            v = values[leaf]
            if not self._may_lie(v, i, n, slices[position], chain, is_new):
                continue
            if uses[leaf] > 1 or v in self.parts or not all(r and apart(r, slices[position]) for r in seen):
                continue
            maker = self.maker[v]
            if is_new or self._is_left_alone(whole_value, maker, i):
                cut = node("slice", (whole,), (slices[position],))
                views = (cut, node("reshape", (cut,), (self.plan.types[v].shape,))) if chain else (cut,)
                parts[v] = PlacedSlice(whole_value, views, maker, i, position)
        return parts

    def _may_lie(self, v: int, user: int, n: Node, ranges: Ranges, chain: Sequence[Node], is_new: bool) -> bool:
        """Can the value `v` be written as the slice `ranges` of what the update `n`, kernel `user`, gives, which copies
        `chain` of it? In a new array elements that lie together may be anybody's, and be read before."""
        maker, readers = self.maker.get(v, -1), self.readers[v]
        if self.memory[v] != v or v in self.plan.outputs or not chain_keeps_order(chain):
            return False
        if maker in self.gaps and readers == [user] and not chain:
            return True
        in_time = all(j <= user and not self.plan.kernels[j].is_view for j in readers)
        return is_new and maker in self.anywhere and in_time and _lie_together(n.shape, ranges)

    def _is_left_alone(self, whole_value: int, maker: int, user: int) -> bool:
        """Is the memory of `whole_value` complete when kernel `maker` runs, and read by none from then until `user`?"""
        memory = self.memory[whole_value]
        lying = [v for v, m in self.memory.items() if m == memory]
        if maker not in self.shared or any(self.maker.get(v, -1) >= maker for v in lying):
            return False
        return not any(maker < j < user for v in lying for j in self.readers.get(v, ()))


def _lie_together(shape: Sequence[int], ranges: Ranges) -> bool:
    """Do the elements of a slice of an array in order lie one behind the other?"""
    is_whole = True
    for (start, stop, step), extent in zip(reversed(ranges), reversed(shape), strict=True):
        count = len(range(start, stop, step))
        if count > 1 and (step > 1 or not is_whole):
            return False
        is_whole &= count == extent
    return True


def _slices(n: Node) -> tuple[Ranges, ...]:
    """What the update replaces: all of it where only the data tell."""
    if n.row.pieces is None:
        return (whole_of(n.shape),)
    return n.attr("slices")


def chain_keeps_order(chain: Sequence[Node]) -> bool:
    """Do the views `chain` show the elements of an array, which lies in order, all and as they lie?"""
    return all(n.type.size == n.args[0].type.size and index_map.keeps_order(n.index_map) for n in chain)


def _reads_first(n: Node, leaf: Node) -> bool:
    """Does the update `n` read of `leaf`, which it writes, no element after its own write of it? So do one slice and
    one value, which are computed before they are written, and a value for each of the columns at one index, computed
    from elements of its own column."""
    if n.row.pieces is not None:
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
        if a.shape != values.shape or not (a.row.role is Role.ELEMENTWISE or (own and _axis(a) == _axis(n))):
            return False
        behind.add(a)
    return True


def _axis(n: Node) -> int:
    """The axis of its first argument that the gather or the update `n` takes an index of."""
    axis: int = n.attr("axis")
    return axis % len(n.args[0].shape)


def _seen(n: Node) -> dict[int, Ranges | None]:
    """The slices that values of the update `n` are views of, in the array that it updates, by number of the value; None
    where one depends on that array in another way."""
    base, chain = leaf_chain(n.args[0])
    ranges_of: dict[int, Ranges | None] = {}
    for position, a in enumerate(n.args[1:]):
        leaf, views = leaf_chain(a)
        (*before, cut) = views[: len(chain) + 1] or (a,)
        if leaf is base and (*before,) == (*chain,) and cut.op == "slice":
            ranges_of[position] = cut.attr("ranges")
        elif base in topological([a]):
            ranges_of[position] = None
    return ranges_of


def _reads_in_time(n: Node, leaf: Node) -> bool:
    """Does the update `n` of slices, written in turn, read of `leaf`, which it writes, none that it has written before?
    An assignment to memory that it reads itself is right: NumPy copies what it reads first."""
    slices = _slices(n)
    if n.row.pieces is None:
        return all(leaf not in topological([a]) for a in n.args[1:])
    return all(r is not None and all(apart(r, before) for before in slices[:i]) for i, r in _seen(n).items())


def _overwrites_its_source(n: Node) -> bool:
    """Would the update `n` of slices copy elements that it has written before? NumPy copies first what an assignment
    both reads and writes, but not for vectors that have other steps there."""
    if n.row.pieces is None or len(n.shape) != 1:
        return False
    base, chain = leaf_chain(n.args[0])
    for position, ranges in _seen(n).items():
        leaf, views = leaf_chain(n.args[1 + position])
        written = _slices(n)[position]
        if leaf is not base or (ranges is not None and apart(ranges, written)):
            continue
        after = views[len(chain) + 1 :]
        if ranges is None or ranges[0][2] != written[0][2] or any(v.op != "flip" for v in after):
            return True
    return False


def _copies_from_apart(n: Node, leaf: Node) -> bool:
    """Does the update `n` copy from `leaf`, which it writes, only slices apart from those that it copies them to?"""
    seen = _seen(n) if n.row.pieces is not None else {}
    if any(leaf in topological([a]) for position, a in enumerate(n.args[1:]) if position not in seen):
        return False
    return all(ranges is not None and apart(ranges, _slices(n)[position]) for position, ranges in seen.items())


def _looks_past(k: Kernel, v: int, update: Node) -> bool:
    """Does kernel `k` read of the value `v` only slices that the update leaves as they are?"""
    leaves = [leaf for leaf, read in zip(k.body.inputs, k.reads, strict=True) if read == v]
    if any(leaf.shape != update.shape for leaf in leaves):
        return False
    users = [n for n in k.body.nodes if any(leaf in n.args for leaf in leaves)]
    users += [o for o in k.body.outputs if o in leaves]
    return all(
        n.op == "slice" and all(apart(n.attr("ranges"), written) for written in _slices(update))
        for n in users
    )
