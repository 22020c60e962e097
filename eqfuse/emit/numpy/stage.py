"""One stage of a tiled kernel: what is computed before the first tile; what a tile loads, holds, computes and stores.

In: a graph with views on leaves only, its `Panel` and `Tiling`. Out: `Stage`, which `tile` writes as text.
Each thread has a few scratch arrays in its cache; a result goes into the memory of an operand that dies there, and
from some point on into the output itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache, cached_property

import numpy as np

from eqfuse.cost.work import LINE
from eqfuse.emit.evaluation_order import evaluation_order
from eqfuse.emit.numpy.bounds import clipped, repeated
from eqfuse.emit.numpy.branches import Branch, grouped
from eqfuse.emit.numpy.concatenations import concatenations, pieces_in_place
from eqfuse.emit.numpy.cost.calls import is_dot
from eqfuse.emit.numpy.cost.figures import BLAS, DOT_TO
from eqfuse.emit.numpy.narrow import column_calls
from eqfuse.emit.numpy.ops import CHOOSE_FROM, ONE_RUN
from eqfuse.emit.numpy.scratch import Slot, Slots, TileShape, longest
from eqfuse.emit.numpy.spans import NONE, Span, spans
from eqfuse.emit.numpy.statements import bits_dtype, is_part, last_uses, statements
from eqfuse.emit.numpy.temporaries import for_blas
from eqfuse.emit.numpy.tiling import Panel, Tiling
from eqfuse.emit.numpy.transpose_copy import run_axis
from eqfuse.ir.graph import Graph, Node, const
from eqfuse.ir.views import computes, leaf_chain, strides_after
from eqfuse.ops import Role
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.ops.types import Shape

SHORT_RUN = 4096  # bytes
HELD_ROWS = 500  # up to which `vecdot` does not let go of Python's lock (measured with NumPy 2.4)


class Stage:
    """What one stage does. `incoming`: values whose tiles an earlier stage has made; `written`: names of the tiles that
    outputs go into, where they are not simply slices of the arrays to write; `gaps`: the rows of the output are apart,
    no place to work in; `branches`: of its elementwise work.

    `shared` is computed before the first tile; `reads`: what the statement of each node reads, in order; `parts`: views
    of what is read; `place`: the memory that each result goes into, scratch or the tile of an output.
    """

    def __init__(
        self,
        body: Graph,
        panel: Panel,
        cut: Tiling,
        incoming: Collection[Node] = (),
        written: Mapping[Node, str] | None = None,
        gaps: bool = False,
        branches: Sequence[Branch] = (),
    ) -> None:
        self.body, self.panel, self.cut, self.incoming, self.gaps = body, panel, cut, incoming, gaps
        self.placed, self.branches = written is not None, branches
        self.dims = cache(panel.dims)
        self._extents: dict[Node, Shape] = {}
        self.spans = spans(body, panel, cut.axis, cut.loops) or NONE
        self.shared = self._shared(written or {})
        computed = [n for n in evaluation_order(body) if computes(n) and n not in self.shared and n not in incoming]
        computed = grouped(computed, branches)
        self.outputs = dict(written) if written is not None else self._outputs()
        self.reads = clipped(computed, {*body.outputs, *self.outputs})
        for n in self.reads:
            in_parts = any(isinstance(d, Span) for d in self.tile_shape(n)[-1:])  # of any length
            if self.reads[n] == n.args and not in_parts:
                self.reads[n] = repeated(n, self.row(n))
        self.nodes = list(self.reads)
        self._dots()
        self.parts = self._parts()
        self.nodes = [n for n in self.nodes if n not in self.parts]
        self.nodes.sort(key=lambda n: not self._multiplies_memory(n))
        self.masks: dict[Node, Slot] = {}
        self.concats = concatenations(panel, cut, self.spans, self.reads, self.outputs, self.column_calls)
        self.nodes = [n for n in self.nodes if n not in self.concats.split]
        names = {n: y for n, y in self.outputs.items() if not (self.scattered(n) and self.times_read(n))}
        self.pieces = pieces_in_place(self.nodes, self.concats, self.spans, self.reads, names)
        self.last = last_uses([self.uses(n) for n in self.nodes], body.outputs)
        self.slots = Slots()
        self.place: dict[Node, Slot | str] = {}
        for position, n in enumerate(self.nodes):
            self._assign(position, n)

    def uses(self, n: Node) -> list[Node]:
        """What the statement of `n` reads, the pieces of what it reads piece by piece among it."""
        split = self.concats.split
        return [p for a in self.reads[n] for p in (self.reads[a] if a in split else (a,))]

    # values that all tiles share, computed before the first

    def _shared(self, written: Collection[Node]) -> tuple[Node, ...]:
        shared: dict[Node, None] = {}
        for n in self.body.nodes:
            in_tiles = n in self.incoming or n in written or n.op == "matmul"
            if not computes(n) or in_tiles or self.cut.varies(self.dims(n.shape)):
                continue
            if all(a in shared or not (computes(a) or a in self.incoming) for a in n.args):
                shared[n] = None
        return tuple(shared)

    @property
    def read_later(self) -> list[Node]:
        """The shared values that tiles read."""
        later = {a for n in self.body.nodes if n not in self.shared for a in n.args}
        return [n for n in self.shared if n in later]

    def _outputs(self) -> dict[Node, str]:
        """The tile that each computed output goes into. Other outputs are copied whole."""
        outputs: dict[Node, str] = {}
        for k, o in enumerate(self.body.outputs):
            if (computes(o) or o in self.incoming) and o not in self.shared:
                outputs.setdefault(o, f"y{k}")
        return outputs

    # sums as dot products

    def _dots(self) -> None:
        """Sums over the last axis become dot products, with the factors of what they sum or with ones: BLAS takes a
        third of the time of a reduction, and a product that only the sum reads is never stored."""
        for n in [n for n in self.nodes if n.op == "sum" and self._is_dot(n)]:
            (a,) = n.args
            is_read_once = sum(a in self.reads[m] for m in self.nodes) == 1 and a not in self.body.outputs
            factors = a.args if a.op == "multiply" else a.args * 2 if a.op == "square" else ()
            runs = factors and all(f.shape == a.shape and self._runs(f) for f in factors)
            if runs and is_read_once and a in self.reads and self.reads[a] == a.args:
                self.reads[n] = factors
                self.nodes.remove(a)
            elif self.cut.axis != len(self.panel.extents) - 1:
                length = self.dims(a.shape)[-1]
                self.reads[n] = (a, const(np.ones(length, n.dtype)))

    def _parts(self) -> set[Node]:
        """The real and imaginary parts of complex arrays in memory that one ufunc reads where they lie."""
        apart = {*self.outputs, *self.incoming}
        parts = [n for n in self.nodes if is_part(n, self.reads) and apart.isdisjoint((n, *n.args))]
        readers = {n: next(m for m in self.reads if n in self.reads[m]) for n in parts}
        return {n for n, reader in readers.items() if reader.op in UFUNCS.keys() - ONE_RUN}

    def _multiplies_memory(self, n: Node) -> bool:
        """Is `n` a sum of products of arrays in memory? The first pass over an array waits for it, so it had better be
        the one that computes most: 2.4 ms for 2.9 where the sum, the largest and the sum of squares of rows are one
        kernel."""
        factors = self.reads[n]
        return n.op == "sum" and len(factors) == 2 and not any(a.op == "const" or computes(a) for a in factors)

    def _is_dot(self, n: Node) -> bool:
        last = len(self.panel.extents) - 1
        length = self.dims(n.args[0].shape)[last]
        rows = is_dot(length, n.dtype) or (self.cut.axis == last and n.dtype.name in BLAS)
        return rows and self.panel.kept(n.attr("axes")) == (last,) and self._runs(n.args[0])

    def _runs(self, n: Node) -> bool:
        """Does `n` lie in memory so that its last axis is one run?"""
        if computes(n):
            return n not in self.incoming and n not in self.shared
        leaf, chain = leaf_chain(n)
        strides = strides_after(leaf.type, chain)
        return (
            leaf.op == "input" and leaf not in self.incoming and bool(n.shape) and (strides is None or strides[-1] == 1)
        )

    # which memory every value lives in

    def tile_shape(self, n: Node) -> TileShape:
        dims, span = self.dims(n.shape), self.spans.by_value.get(n)
        return tuple(span if a == self.cut.axis and d > 1 else d for a, d in enumerate(dims) if a not in self.cut.loops)

    def row(self, n: Node) -> int:
        """How long a row of the tile of `n` is."""
        extents = self.extents(n)
        return extents[-1] if extents else 0

    def extents(self, n: Node) -> Shape:
        if n not in self._extents:
            self._extents[n] = tuple([longest(d, self.cut.block) for d in self.tile_shape(n)])
        return self._extents[n]

    def lying(self, n: Node) -> Shape:
        """The shape of the tile of `n` as an operand: that of one number has no axes."""
        return self.extents(n) if n.type.size > 1 else ()

    def elements(self, n: Node) -> int:
        return math.prod(self.extents(n))

    def _assign(self, step: int, n: Node) -> None:
        uses = self.uses(n)
        slot_of = {a: s for a in uses if isinstance(s := self.place.get(a), Slot)}
        dying = [a for a in dict.fromkeys(uses) if a in slot_of and self.last[a] == step]
        blended = self._blends(n)
        if blended:
            self.masks[n] = self.slots.take(self.tile_shape(n.args[0]), np.dtype(bits_dtype(n.dtype)))
        reused = next((slot_of[a] for a in dying if self._may_overwrite(n, a, blended)), None)
        output = self.outputs.get(n)
        scattered = output is not None and self.scattered(n)
        apart = n.op in ONE_RUN and (self.placed or self.within(n))
        if n in self.pieces:
            self.place[n] = self.pieces[n][2]
        elif output is not None and not (scattered and self.times_read(n)) and not apart:
            self.place[n] = output
            if reused is not None and not scattered and self._may_be_output(reused, n):
                reused.output = output
        else:
            self.place[n] = reused or self.slots.take(self.tile_shape(n), n.dtype)
        place = self.place[n]
        if isinstance(place, Slot):
            place.dtypes.add(n.dtype)
        done = [slot_of[a] for a in dying] + ([self.masks[n]] if blended else [])
        self.slots.give(s for s in done if s is not place)

    def _may_overwrite(self, n: Node, a: Node, blended: bool) -> bool:
        """May the result of `n` take the memory of its dying argument `a`?"""
        if n.row.role is not Role.ELEMENTWISE or a.dtype != n.dtype or self.tile_shape(a) != self.tile_shape(n):
            return False
        if n.op == "where":
            condition, yes, no = n.args
            return a is not condition and yes is not no and (blended or a is no)
        return n.op != "cast"

    def _may_be_output(self, slot: Slot, n: Node) -> bool:
        """Only one tile may write each element of an output before its value is final."""
        dims = self.dims(n.shape)
        own = all(dims[a] == self.panel.extents[a] for a in (*self.cut.loops, self.cut.axis))
        return own and not self.gaps and slot.output is None and slot.dtypes == {n.dtype}

    def _blends(self, n: Node) -> bool:
        return n.op == "where" and self.elements(n) >= CHOOSE_FROM and bits_dtype(n.dtype) is not None

    # how arrays are read and written

    def is_sliced(self, n: Node, right: bool) -> bool:
        """Does a tile take its own part of `n`? `right`: the right operand of a product."""
        dims = self.dims(n.shape)
        return any(dims[a] > 1 for a in self.cut.loops) or self.is_blocked(dims, right)

    def is_blocked(self, dims: Shape, right: bool) -> bool:
        """Is the value cut along the block axis? A right operand is whole along the rows of the product."""
        return dims[self.cut.axis] > 1 and not (right and self.cut.axis == len(dims) - 2)

    def by_column(self, n: Node) -> bool:
        """Must the columns of `n` be copied apart? NumPy would walk along the short rows."""
        return self.panel.flipped and min(self.dims(n.shape)) > 1

    def is_across(self, n: Node) -> bool:
        """Is `n` an array that a tile reads across the axis it lies along?"""
        along = run_axis(n)
        if along is None or self.panel.flipped:
            return False
        return not set(self.panel.kept([along])) & set(self.cut.loops)

    def is_copied(self, n: Node) -> bool:
        """Does a tile copy its part of the array `n` before it works on it?"""
        return self.is_across(n) or ((self.scattered(n) or self.has_gaps(n)) and self.times_read(n) > 1)

    def has_gaps(self, n: Node) -> bool:
        """Does the array `n` have gaps between neighbours, which share cache lines? Loops of vectors take no such."""
        leaf, chain = leaf_chain(n)
        strides = strides_after(leaf.type, chain) if leaf.op == "input" and not self.panel.flipped else None
        steps = [abs(s) for extent, s in zip(n.shape, strides or (), strict=False) if extent > 1]
        return bool(steps) and steps[-1] > 1 and steps[-1] * n.dtype.itemsize < LINE

    def scattered(self, n: Node) -> bool:
        """Does a tile of `n`, an array of the panel's axes, consist of short rows far from each other? In memory like
        that caches hold little: rows some power of two apart share a few sets."""
        dims = self.dims(n.shape)
        inside = [d for a, d in enumerate(dims) if a < self.cut.axis and a not in self.cut.loops]
        run = math.prod(self.extents(n)[len(inside) :]) * n.dtype.itemsize
        return math.prod(inside) > 1 and not self.panel.flipped and run < SHORT_RUN

    def within(self, n: Node) -> bool:
        """Is the tile of `n` in an array cut along an axis with others before it?"""
        return any(self.dims(n.shape)[a] > 1 for a in range(self.cut.axis) if a not in self.cut.loops)

    def times_read(self, n: Node) -> int:
        return sum(n in read for read in self.reads.values())

    def axes(self, n: Node) -> tuple[int, ...]:
        """The axes of its operand's tile that `n` reduces, from the left."""
        if n.row.role is not Role.REDUCTION:
            return ()
        return tuple(a - sum(b < a for b in self.cut.loops) for a in self.panel.kept(n.attr("axes")))

    @property
    def multiplies(self) -> bool:
        """Might BLAS start threads of its own?"""
        last = self.cut.axis == len(self.panel.extents) - 1
        return any(n.op == "matmul" or (last and len(self.reads[n]) != len(n.args)) for n in self.nodes)

    @property
    def copied(self) -> list[Node]:
        """The pieces that tiles copy to where the arrays joined of them lie."""
        return [a for n in self.concats.copied for a in n.args if a not in self.pieces]

    @property
    def gathered(self) -> set[Node]:
        """The arrays with gaps between neighbours that tiles copy, as several read them."""
        read = [(n, i, a) for n in (*self.nodes, *self.parts) for i, a in enumerate(self.reads[n]) if self._loads(n, a)]
        return {a for n, i, a in read if self.spans.reads(n, i) is None and self.has_gaps(a) and self.is_copied(a)}

    # NumPy calls

    @cached_property
    def calls(self) -> int:
        """NumPy calls that a tile makes."""
        computed = sum(map(self._calls, self.nodes)) + sum(o in self.incoming for o in self.outputs)
        if not self.placed:
            computed += sum(self.panel.extents[0] for o in self.outputs if self.by_column(o))
        read = {
            a for n in (*self.nodes, *self.parts, *self.concats.split) for i, a in enumerate(self.reads[n])
            if n not in self.concats.rows and self.spans.reads(n, i) is None and self._loads(n, a)
        }  # fmt: skip
        return computed + sum(self.panel.extents[0] if self.by_column(a) else self.is_copied(a) for a in read)

    def _calls(self, n: Node) -> int:
        """Those of the statement of `n`, and of the copy of an output that is computed in scratch memory."""
        copied = n in self.outputs and self._memory(n) != self.outputs[n]
        if n.op == "concat":
            return (1 if n in self.concats.rows else sum(a not in self.pieces for a in n.args)) + copied
        if n in self.concats.by:
            return len(self.concats.by[n]) + copied
        if n.op == "where" and n not in self.masks:
            no = self.reads[n][2]
            elsewhere = no not in self.place or no in self.concats.rows or self._memory(no) != self._memory(n)
            return 1 + elsewhere + copied
        return (self.column_calls(n) or 1) + copied

    def column_calls(self, n: Node) -> int:
        """In how many calls `n` is computed column by column; 0 where it is computed by one call."""
        one = n in self.masks or (n.op == "erf" and n.dtype == np.float32) or self.is_dot(n)
        return 0 if one else column_calls(n, self.reads[n], self.axes(n), self.lying)

    def is_dot(self, n: Node) -> bool:
        """Is the sum `n` computed as dot products?"""
        return n.op == "sum" and len(self.reads[n]) == 2

    def keeps_lock(self, n: Node) -> bool:
        """Would `vecdot` compute the few rows of the dot products `n` without letting go of Python's lock? Other
        threads would wait. `einsum` gives it away: it sums rows as fast, but multiplies them in three times as long
        where they are in cache."""
        one_operand, in_memory = self.reads[n][1].op == "const", not computes(self.reads[n][0])
        return (one_operand or in_memory) and self.elements(n) <= HELD_ROWS and self.row(n.args[0]) <= DOT_TO

    def _memory(self, n: Node) -> object:
        """What the memory of a computed value is known by: a slot, or the name of an output's tile."""
        place = self.place[n]
        return place.output or place if isinstance(place, Slot) else place

    def _loads(self, n: Node, a: Node) -> bool:
        """Does `n` read its own part of the array `a` from memory, where it may have to be copied first?"""
        inside = a in self.incoming or (computes(a) and a not in self.shared)
        number = n.row.role is Role.ELEMENTWISE and a.type.size == 1
        of_ones = a not in n.args and a.op == "const" and a.type.size > 1
        return not (inside or number or of_ones or n.op in ("matmul", "take")) and self.is_sliced(a, False)

    @cached_property
    def calls_once(self) -> int:
        """NumPy calls that are made before the first tile and after the last."""
        placed = [o for o in self.body.outputs if o in self.shared]
        kept = [*self.body.outputs, *self.read_later]
        shared = sum(s.calls for s in statements(self.shared, placed, kept, False).values())
        right = {n.args[1] for n in self.nodes if n.op == "matmul"}
        shared += sum(not (computes(a) or for_blas(a)) for a in right)  # copied so that BLAS can read them
        if self.placed:
            return shared
        return shared + len(self.body.outputs) - len({*placed, *self.outputs})
