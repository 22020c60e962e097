"""Which cuts there are: operators are joined and grown through the lattice of kinds.

In: a `Segment` and a `Device`. Out: `Cut`s and the bodies of kernels. Next stop: `enumerate.py`, `../greedy.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

from eqfuse.budget import UNLIMITED, Allowance
from eqfuse.cost.device import Device
from eqfuse.cost.targets import is_compiled
from eqfuse.cost.work import NO_JUMPS, touches
from eqfuse.egraph.space import ENode, Segment
from eqfuse.extract.candidates.cuts import Cut, below
from eqfuse.extract.candidates.prices import Prices
from eqfuse.extract.candidates.reading import line_ratio, steps_read
from eqfuse.extract.candidates.work import Works, union
from eqfuse.ir.graph import Graph, Node, input_node
from eqfuse.kinds import State, join, leaf, merge
from eqfuse.ops import Role

LARGEST_KERNEL = 512  # operators in one kernel; more neither compile nor fit registers
T = TypeVar("T")
_UNKNOWN: Any = object()


class Grammar:
    """Makes cuts over one segment for one device. States are shared with another grammar that it is `like`.

    `allowance`: when it is spent, whoever makes kernels of these cuts goes on with those that there are.
    """

    def __init__(
        self, segment: Segment, device: Device, like: Grammar | None = None, allowance: Allowance = UNLIMITED
    ) -> None:
        self.segment = segment
        self.device = device
        self.allowance = allowance
        self.strict: bool = segment.strict or (like is not None and like.strict)
        self.compiled = is_compiled(device)
        self.classes = segment.classes
        constants = ((i, n) for i, c in enumerate(segment.classes) for n in c.nodes if n.op == "const")
        self.scalars: dict[int, ENode] = {i: n for i, n in constants if self.classes[i].type.size == 1}
        self.free = {i for i, c in enumerate(segment.classes) if c.constant} | set(segment.inputs)
        kept = {*segment.inputs, *segment.roots}
        self.prices: Prices = Prices(segment.classes, kept, device, like.prices if like else None)
        self._leaves: dict[int, Cut] = {}
        self._states: dict[tuple, State | str] = like._states if like else {}
        self._interned_states: dict[State, State] = like._interned_states if like else {}
        self._merged: dict[tuple[int, int], State | str] = like._merged if like else {}
        self._sorts: dict[tuple, int] = like._sorts if like else {}
        self._like: dict[int, int] = {}
        self._joined: dict[tuple, Cut | str] = {}
        self._pieces: dict[tuple[Cut, tuple], Works] = {}
        self._once: dict[tuple, Any] = {}
        self._inlined: dict[tuple[Cut, ...], Cut | str] = {}
        self._reading: dict[tuple[Cut, int], Cut | str] = {}
        self._taking: dict[tuple[Cut, ...], Cut | str] = {}
        self._bodies: dict[tuple[Cut, ...], tuple[Graph, tuple[int, ...]]] = {}

    def for_segment(self, segment: Segment) -> Grammar:
        """The grammar of another program in the same classes: what was made for one serves both."""
        other = copy(self)
        other.segment = segment
        return other

    def leaf(self, eclass: int) -> Cut:
        """Class `eclass` read from memory, or written into the kernel when it is a scalar constant."""
        cut = self._leaves.get(eclass)
        if cut is None:
            t = self.classes[eclass].type
            scalar = eclass in self.scalars
            cut = Cut(
                eclass, self.scalars.get(eclass), (), self._interned(leaf(t.shape)),
                {} if scalar else {eclass: t.nbytes}, () if eclass in self.free else (eclass,), {}, 0,
                0 if scalar else 1 << eclass, 0, 0, self.prices,
            )  # fmt: skip
            self._leaves[eclass] = cut
        return cut

    def takes(self, cut: Cut) -> bool:
        """May there be larger cuts made of `cut`? A smaller grammar spares the search what it would refuse."""
        return True

    def join(self, eclass: int, enode: ENode, parts: tuple[Cut, ...]) -> Cut | str:
        """The cut that applies `enode` to `parts`, the same object each time, or why no kernel can hold it."""
        key = (eclass, enode, parts)
        cut = self._joined.get(key)
        if cut is None:
            cut = self._joined[key] = self._join(eclass, enode, parts)
        return cut

    def once(self, compute: Callable[..., T], *cuts: tuple[Cut, ...]) -> T:
        """What `compute` makes of these cuts, the same object each time."""
        key = (compute, *cuts)
        value: T = self._once.get(key, _UNKNOWN)
        if value is _UNKNOWN:
            value = self._once[key] = compute(self, *cuts)
        return value

    def merged(self, a: State, b: State) -> State | str:
        """The state of a kernel that computes both, which are those of cuts or what this gave; or why there is none."""
        key = id(a), id(b)
        state = self._merged.get(key)
        if state is None:
            state = merge(a, b, self.device)
            state = self._merged[key] = state if isinstance(state, str) else self._interned(state)
        return state

    def _join(self, eclass: int, enode: ENode, parts: tuple[Cut, ...]) -> Cut | str:
        steps = NO_JUMPS
        for part, arg in zip(parts, enode.args, strict=True):
            if part.state.strides is not None:
                types = self.classes[arg].type, self.classes[eclass].type
                read = steps_read(part.state, types[0], enode, types[1], self.compiled)
                steps = steps + read if read is not NO_JUMPS else steps
        number = self.prices.number(eclass, enode, steps)
        operator = enode.row
        role = operator.role
        name: tuple = (eclass, enode)  # of a product; a compiled kernel holds one derivation of it
        if role in (Role.CONTRACTION, Role.WINDOW) and self.compiled and any(p.works for p in parts):
            name = (eclass, enode, *[tuple(sorted(p.works.values())) for p in parts])
        key = (self._alike(number, eclass, enode), name[2:], *[id(p.state) for p in parts])
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = self._state(eclass, enode, parts, name)
        if isinstance(state, str):
            return state
        leaves: dict[int, int] = {}
        inside = outside = 0
        for part in parts:
            if not leaves:
                leaves = dict(part.leaves)
            else:
                for c, nbytes in part.leaves.items():
                    if leaves.get(c, -1) < nbytes:
                        leaves[c] = nbytes
            inside |= part.inside
            outside |= part.outside
        if (inside | outside) >> eclass & 1:
            return "it would need its own result"
        if role is Role.VIEW and state.at_leaf:
            touched = self.prices.sizes[eclass] * (1 if self.compiled else line_ratio(state, self.classes[eclass].type))
            leaves = {c: min(size, touched) for c, size in leaves.items()}
            self.prices.note_view(eclass, parts[0].leaves, leaves)
        if role in (Role.GATHER, Role.UPDATE) and parts[0].leaves:
            touched = touches(enode.op, enode.attrs, self.classes[enode.args[0]].type, self.classes[eclass].type)
            alone = [c for c in parts[0].leaves if not any(c in other.leaves for other in parts[1:])]
            leaves |= {c: min(leaves[c], touched) for c in alone}
        executed = [part.works for part in parts]
        if operator.pieces is not None and self.compiled:
            executed = [self._piece(part, eclass, enode, i) for i, part in enumerate(parts)]
        elif self.compiled:
            executed = [self._executed(part, state, role) if part.works else {} for part in parts]
        if role is Role.VIEW and not self.compiled and executed[0]:
            share = self.classes[eclass].type.size / max(self.classes[enode.args[0]].type.size, 1)
            executed = [self.prices.viewed(executed[0], (eclass, enode), min(1.0, share))]
        works = union([*executed, {1.0: 1 << number}])
        size = self.prices.operator_count(works)
        if size > LARGEST_KERNEL:
            return f"a kernel of more than {LARGEST_KERNEL} operators"
        reads = tuple([c for c in leaves if c not in self.free])
        inside |= 1 << eclass
        depth = max([part.depth for part in parts], default=0) + (not state.at_leaf)
        return Cut(eclass, enode, parts, state, leaves, reads, works, inside, outside, size, depth, self.prices)

    def _state(self, eclass: int, enode: ENode, parts: tuple[Cut, ...], name: tuple) -> State | str:
        """The state of `enode` applied to `parts`. Equal states are one object, so that few are ever derived."""
        out, types = self.classes[eclass].type, [self.classes[a].type for a in enode.args]
        state = join(enode.op, enode.attrs, out, types, [p.state for p in parts], self.device, name)
        if isinstance(state, State) and state.unfinished and self.strict:
            return "a row between two products is summed up tile by tile, which rounds otherwise than the program"
        return state if isinstance(state, str) else self._interned(state)

    def _alike(self, number: int, eclass: int, enode: ENode) -> int:
        """A number that operators share whose states are the same over the same arguments; products share none."""
        shared = self._like.get(number)
        if shared is None:
            types = [self.classes[a].type for a in enode.args]
            product = (eclass, enode) if enode.row.role is Role.CONTRACTION else None
            sort = (enode.op, enode.attrs, self.classes[eclass].type, *types, product)
            shared = self._like[number] = self._sorts.setdefault(sort, len(self._sorts))
        return shared

    def _interned(self, state: State) -> State:
        return self._interned_states.setdefault(state, state)

    def _executed(self, part: Cut, into: State, role: Role) -> Works:
        """The part's work inside a larger compiled body: a thread computes a broadcast map once per element it serves,
        and a block of a tiled product the prologue of what it loads."""
        if not part.state.template.pointwise:
            return part.works
        size, space = math.prod(part.state.shape), math.prod(into.space)
        if not size:
            return part.works
        if role is Role.CONTRACTION and into.product is not None:
            times = into.product.again(size, self.device)
        elif into.template.repeats and size < space:
            times = space / size
        else:
            return part.works
        return {ran * times: mask for ran, mask in part.works.items()}

    def _piece(self, part: Cut, eclass: int, enode: ENode, number: int) -> Works:
        """The part's work as the piece `number` of a joined array, inside a larger compiled body: a thread whose
        element is in the piece computes it anew, whatever else it computes of the same value."""
        piece = eclass, enode, number
        works = self._pieces.get((part, piece))
        if works is None:
            works = self._pieces[part, piece] = self._work_of_piece(part, piece)
        return works

    def _work_of_piece(self, part: Cut, piece: tuple) -> Works:
        source = part
        while source.enode is not None and source.parts and source.enode.row.role is Role.VIEW:
            (source,) = source.parts
        share = math.prod(part.state.shape) / max(math.prod(source.state.shape), 1)
        return self.prices.behind(part.works, piece, min(1.0, share))

    def inline(self, cut: Cut, values: dict[int, Cut]) -> Cut | str:
        """`cut` with every leaf of `values` computed inside instead of read, or why that is no kernel."""
        inlined = {c: value for c, value in values.items() if c in cut.leaves}
        key = (cut, *inlined.values())
        rejoined = self._inlined.get(key)
        if rejoined is None:
            leaves = sum([1 << c for c in inlined])
            swap = lambda c: None if c.parts else inlined.get(c.eclass)  # noqa: E731
            rejoined = self._inlined[key] = self._rejoined(cut, 0, leaves, swap)
        return rejoined

    def reading(self, cut: Cut, eclass: int) -> Cut | str:
        """`cut` with class `eclass` read from memory instead of computed, or why that is no kernel."""
        leaf = self.leaf(eclass)
        rejoined = self._reading.get((cut, eclass))
        if rejoined is None:
            rejoined = self._rejoined(cut, 1 << eclass, 0, lambda c: leaf if c.eclass == eclass else None)
            self._reading[cut, eclass] = rejoined
        return rejoined

    def taking(self, cut: Cut, others: dict[int, Cut]) -> Cut | str:
        """`cut` with every class of `others` that it reads or computes derived as they say, or why there is none."""
        mask = sum([1 << c for c in others])
        if not (cut.inside | cut.outside) & mask:
            return cut
        key = (cut, *others.values())
        rejoined = self._taking.get(key)
        if rejoined is None:
            rejoined = self._taking[key] = self._rejoined(cut, mask, mask, lambda c: others.get(c.eclass))
        return rejoined

    def _rejoined(self, cut: Cut, inside: int, outside: int, swap: Callable[[Cut], Cut | None]) -> Cut | str:
        """`cut` joined anew with some of its derivation swapped for other cuts of the same class: some of the classes
        `inside` where they are computed, and of those `outside` where they are read (a bit each)."""
        new: dict[Cut, Cut] = {}
        stack = [cut]
        while stack:
            c = stack[-1]
            if c in new:
                stack.pop()
                continue
            other = swap(c)
            if other is not None or not c.parts:
                new[c] = other or c
                continue
            missing = [p for p in c.parts if (p.inside & inside or p.outside & outside) and p not in new]
            if missing:
                stack.extend(missing)
                continue
            parts = tuple([new.get(p, p) for p in c.parts])  # what is not touched stays as it is
            assert c.enode is not None
            joined = self.join(c.eclass, c.enode, parts) if parts != c.parts else c
            if isinstance(joined, str):
                return joined
            new[c] = joined
        return new[cut]

    def body(self, cuts: tuple[Cut, ...]) -> tuple[Graph, tuple[int, ...]]:
        """The body graph of a kernel that computes `cuts`, and the classes it reads, in the order of its inputs."""
        if cuts not in self._bodies:
            self._bodies[cuts] = self._body(cuts)
        return self._bodies[cuts]

    def _body(self, cuts: tuple[Cut, ...]) -> tuple[Graph, tuple[int, ...]]:
        nodes: dict[int, Node] = {}
        reads: dict[int, Node] = {}
        for c in below(cuts):
            if c.enode is None:
                if c.eclass not in reads:
                    read = self.classes[c.eclass]
                    reads[c.eclass] = input_node(f"r{len(reads)}", read.type, read.constant)
                nodes[id(c)] = reads[c.eclass]
            else:
                nodes[id(c)] = c.enode.over(nodes[id(p)] for p in c.parts)
        return Graph(tuple(reads.values()), tuple(nodes[id(c)] for c in cuts)), tuple(reads)
