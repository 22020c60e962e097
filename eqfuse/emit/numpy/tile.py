"""One stage of a tiled kernel: the elementwise work, row reductions and products of a graph, on one tile after another.

In: a graph with views on leaves only, its `Panel` and `Cut`. Out: lines in a `Source`.
Each thread has a few scratch arrays in its cache; a result goes into the memory of an operand that dies there, and
from some point on into the output itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eqfuse.cost.roofline import BLAS, DOT_FROM, DOT_TO
from eqfuse.emit.evaluation_order import evaluation_order
from eqfuse.emit.numpy.bounds import clipped, repeated
from eqfuse.emit.numpy.erf import room_bytes
from eqfuse.emit.numpy.narrow import by_columns
from eqfuse.emit.numpy.ops import CHOOSE_FROM, ONE_RUN, into, masked_copy
from eqfuse.emit.numpy.scratch import Rooms, Slot, Slots, TileShape
from eqfuse.emit.numpy.source import Source, bits, last_uses, straight
from eqfuse.emit.numpy.temporaries import buffers, copied, for_blas, lies_apart, temporaries
from eqfuse.emit.numpy.tiling import Cut, Panel
from eqfuse.emit.numpy.transpose_copy import BUFFER, run_axis
from eqfuse.ir.graph import Graph, Node, const
from eqfuse.ir.views import computes, leaf_chain, strides_after
from eqfuse.ops import Role, row
from eqfuse.ops.types import Shape

SHORT_RUN = 4096  # bytes
HELD_ROWS = 500  # up to which `vecdot` does not let go of Python's lock (measured with NumPy 2.4)


class Stage:
    """The lines of one stage. `letter` starts its names; `span` names the bounds of its block.

    `given` names tiles that an earlier stage has made; `written` names tiles that outputs go into, where they are not
    simply slices of the arrays to write; `gaps`: the rows of the output are apart, no place to work in.
    """

    def __init__(
        self,
        source: Source,
        body: Graph,
        panel: Panel,
        cut: Cut,
        letter: str = "",
        span: tuple[str, str] = ("i", "j"),
        given: dict[Node, str] | None = None,
        written: dict[Node, str] | None = None,
        gaps: bool = False,
    ) -> None:
        self.source, self.body, self.panel, self.cut, self.gaps = source, body, panel, cut, gaps
        self.letter, self.span = letter, span
        self.given = given or {}
        self.slices: list[tuple[str, str, Shape, bool]] = []  # tile, array, dims, right operand?
        self.copied: list[tuple[str, str, Node, bool]] = []  # into scratch: tile, slice, value, transposed?
        self.named: dict[tuple[Node, bool, bool, bool], str] = {}
        self.loaded: list[tuple[str, str, Node]] = []  # flipped: tile, array, value; copied column by column
        self.stored: list[tuple[str, str, Node]] = []
        self.known = self._shared(written or {})
        self.placed = written is not None
        self.nodes = [n for n in evaluation_order(body) if computes(n) and n not in self.known and n not in self.given]
        self.outputs = self._written(written)
        self.reads = clipped(self.nodes, {*body.outputs, *self.outputs})
        self.nodes = list(self.reads)
        for n in self.nodes:
            if self.reads[n] == n.args:
                self.reads[n] = repeated(n, self._row(n))
        self._dots()
        self.nodes.sort(key=lambda n: not self._multiplies_memory(n))
        self.last = last_uses([self.reads[n] for n in self.nodes], body.outputs)
        self.slots = Slots(source, letter)
        self.place: dict[Node, Slot | str] = {}
        self.masks: dict[Node, Slot] = {}
        for at, n in enumerate(self.nodes):
            self._assign(at, n)
        self.operands = [[self._operand(n, i) for i in range(len(self.reads[n]))] for n in self.nodes]
        self.statements = [
            text for n, args in zip(self.nodes, self.operands, strict=True) for text in self._lines(n, args)
        ]
        self.statements += [f"copyto({y}, {self.given[o]})" for o, y in self.outputs.items() if o in self.given]

    @property
    def writes_gaps(self) -> bool:
        """May the one output have gaps? A reshape of it would be a copy."""
        (*more, o) = self.body.outputs
        if more or o not in self.outputs or o.op in ONE_RUN:
            return False
        return self._shaped("o0", self.panel.dims(o.shape), o.shape) == "o0"

    @property
    def multiplies(self) -> bool:
        """Might BLAS start threads of its own?"""
        last = self.cut.axis == len(self.panel.extents) - 1
        return any(n.op == "matmul" or (last and len(self.reads[n]) != len(n.args)) for n in self.nodes)

    # values that all tiles share, computed before the first

    def _shared(self, written: dict[Node, str]) -> dict[Node, str]:
        shared: dict[Node, None] = {}
        for n in self.body.nodes:
            if (
                not computes(n)
                or n in self.given
                or n in written
                or n.op == "matmul"
                or self.cut.varies(self.panel.dims(n.shape))
            ):
                continue
            if all(a in shared or not (computes(a) or a in self.given) for a in n.args):
                shared[n] = None
        if not shared:
            return {}
        operands = {a: f"({self.source.view(a)})" for n in shared for a in n.args if not computes(a)}
        places = {o: self.source.writes[k] for k, o in reversed(list(enumerate(self.body.outputs))) if o in shared}
        later = {a for n in self.body.nodes if n not in shared for a in n.args}
        straight(self.source, list(shared), operands, places, kept=[n for n in shared if n in later])
        return {n: operands.get(n, "") for n in shared}  # a bound that its `clip` has taken in has no name

    def _written(self, written: dict[Node, str] | None) -> dict[Node, str]:
        """The tile that each computed output goes into. Other outputs are copied whole."""
        if written is not None:
            return written
        outputs: dict[Node, str] = {}
        self.first_copy: dict[Node, int] = {}
        for k, o in enumerate(self.body.outputs):
            if (computes(o) or o in self.given) and o not in self.known and o not in outputs:
                self.first_copy[o] = k
                outputs[o] = f"y{k}"
                dims = self.panel.dims(o.shape)
                array = self._shaped(f"o{k}", dims, o.shape)
                if array != f"o{k}":
                    self.source.line(f"b{k} = {array}")
                    array = f"b{k}"
                if self._by_column(o):
                    self.stored.append((f"y{k}", array, o))
                else:
                    self.slices.append((f"y{k}", array, dims, False))
            elif o not in outputs and self.known.get(o) != self.source.writes[k]:
                self.source.line(f"copyto(o{k}, {self.known.get(o) or self.source.view(o)})")
        return outputs

    def write_into(self, arrays: dict[Node, str]) -> None:
        """Let the tiles of these outputs be slices of `arrays`."""
        for o, name in arrays.items():
            dims = self.panel.dims(o.shape)
            array = self._shaped(name, dims, o.shape)
            if array != name:
                self.source.line(f"b{name[1:]} = {array}")
                array = f"b{name[1:]}"
            self.slices.append((self.outputs[o], array, dims, False))

    def second_copies(self) -> None:
        """Lines after the last tile: outputs that are written twice."""
        for k, o in enumerate(self.body.outputs):
            if self.first_copy.get(o, k) != k:
                self.source.line(f"copyto(o{k}, o{self.first_copy[o]})")

    # sums as dot products

    def _dots(self) -> None:
        """Sums over the last axis become dot products, with the factors of what they sum or with ones: BLAS takes a
        third of the time of a reduction, and a product that only the sum reads is never stored."""
        for n in [n for n in self.nodes if n.op == "sum" and self._is_dot(n)]:
            (a,) = n.args
            lonely = sum(a in self.reads[m] for m in self.nodes) == 1 and a not in self.body.outputs
            factors = a.args if a.op == "multiply" else a.args * 2 if a.op == "square" else ()
            runs = factors and all(f.shape == a.shape and self._runs(f) for f in factors)
            if runs and lonely and a in self.reads and self.reads[a] == a.args:
                self.reads[n] = factors
                self.nodes.remove(a)
            elif self.cut.axis != len(self.panel.extents) - 1:
                length = self.panel.dims(a.shape)[-1]
                self.reads[n] = (a, const(np.ones(length, n.dtype)))

    def _multiplies_memory(self, n: Node) -> bool:
        """Is `n` a sum of products of arrays in memory? The first pass over an array waits for it, so it had better be
        the one that computes most: 2.4 ms for 2.9 where the sum, the largest and the sum of squares of rows are one
        kernel."""
        factors = self.reads[n]
        return n.op == "sum" and len(factors) == 2 and not any(a.op == "const" or computes(a) for a in factors)

    def _is_dot(self, n: Node) -> bool:
        last = len(self.panel.extents) - 1
        length = self.panel.dims(n.args[0].shape)[last]
        lengths = DOT_FROM <= length <= DOT_TO or self.cut.axis == last
        return (
            n.dtype.name in BLAS
            and self.panel.kept(n.attrs[0]) == (last,)  # type: ignore[arg-type]
            and lengths
            and self._runs(n.args[0])
        )

    def _runs(self, n: Node) -> bool:
        """Does `n` lie in memory so that its last axis is one run?"""
        if computes(n):
            return n not in self.given and n not in self.known
        leaf, chain = leaf_chain(n)
        strides = strides_after(leaf.type, chain)
        return leaf.op == "input" and leaf not in self.given and bool(n.shape) and (strides is None or strides[-1] == 1)

    # which memory every value lives in

    def tile_shape(self, n: Node) -> TileShape:
        dims = self.panel.dims(n.shape)
        return tuple(None if a == self.cut.axis and d > 1 else d for a, d in enumerate(dims) if a not in self.cut.loops)

    def _row(self, n: Node) -> int:
        """How long a row of the tile of `n` is."""
        extents = self._extents(n)
        return extents[-1] if extents else 0

    def _extents(self, n: Node) -> Shape:
        return tuple(self.cut.block if d is None else d for d in self.tile_shape(n))

    def _lying(self, n: Node) -> Shape:
        """The shape of the tile of `n` as an operand: that of one number has no axes, as `_scalar` makes it."""
        return self._extents(n) if n.type.size > 1 else ()

    def _elements(self, n: Node) -> int:
        return math.prod(self._extents(n))

    def _assign(self, at: int, n: Node) -> None:
        slot_of = {a: s for a in self.reads[n] if isinstance(s := self.place.get(a), Slot)}
        dying = [a for a in dict.fromkeys(self.reads[n]) if a in slot_of and self.last[a] == at]
        blended = self._blends(n)
        if blended:
            self.masks[n] = self.slots.take(self.tile_shape(n.args[0]), np.dtype(bits(n.dtype)))
        reused = next((slot_of[a] for a in dying if self._may_overwrite(n, a, blended)), None)
        output = self.outputs.get(n)
        scattered = output is not None and self._scattered(n)
        apart = n.op in ONE_RUN and (self.placed or self._within(n))
        if output is not None and not (scattered and self._times_read(n)) and not apart:
            self.place[n] = output
            if reused is not None and not scattered and self._may_be_output(reused, n):
                reused.output = output
        else:
            self.place[n] = reused or self.slots.take(self.tile_shape(n), n.dtype)
        done = [slot_of[a] for a in dying] + ([self.masks[n]] if blended else [])
        self.slots.give(s for s in done if s is not self.place[n])

    def _may_overwrite(self, n: Node, a: Node, blended: bool) -> bool:
        """May the result of `n` take the memory of its dying argument `a`?"""
        if row(n.op).role is not Role.ELEMENTWISE or a.dtype != n.dtype or self.tile_shape(a) != self.tile_shape(n):
            return False
        if n.op == "where":
            condition, yes, no = n.args
            return a is not condition and yes is not no and (blended or a is no)
        return n.op != "cast"

    def _may_be_output(self, slot: Slot, n: Node) -> bool:
        """Only one tile may write each element of an output before its value is final."""
        dims = self.panel.dims(n.shape)
        own = all(dims[a] == self.panel.extents[a] for a in (*self.cut.loops, self.cut.axis))
        return own and not self.gaps and slot.output is None and slot.dtypes == {n.dtype}

    def _blends(self, n: Node) -> bool:
        return n.op == "where" and self._elements(n) >= CHOOSE_FROM and bits(n.dtype) is not None

    # arrays and their tiles

    def _operand(self, n: Node, i: int) -> str:
        """The name of the tile of argument `i` of `n`."""
        a = self.reads[n][i]
        if a in self.given:
            return self.given[a]
        if computes(a) and a not in self.known:
            place = self.place[a]
            return place if isinstance(place, str) else self.slots.name(place, a.dtype)
        if a not in n.args and a.op == "const" and a.type.size > 1:
            row_of_it = self.source.leaf(a)
            shape = self.tile_shape(n)
            return row_of_it if shape[-1] is not None else f"{row_of_it}[:{self.span[1]} - {self.span[0]}]"
        right = n.op == "matmul" and i == 1
        scalar = row(n.op).role is Role.ELEMENTWISE and a.type.size == 1
        as_lies = n.op == "matmul"  # BLAS reads either order
        key = (a, right, scalar, as_lies)
        if key not in self.named:
            self.named[key] = self._scalar(a) if scalar else self._array(a, right, as_lies)
        return self.named[key]

    def _scalar(self, n: Node) -> str:
        text = self.known.get(n) or self.source.view(n)
        if n.shape == () and text.isidentifier():
            return text
        name = self.source.name("a")
        self.source.line(f"{name} = {text}.reshape(())")
        return name

    def _array(self, n: Node, right: bool, as_lies: bool) -> str:
        dims = self.panel.dims(n.shape)
        text = self.known.get(n) or self.source.view(n)
        self.source.made_bytes += 0 if n in self.known else copied(n)
        if right and not for_blas(n):  # NumPy would multiply without BLAS
            self.source.made_bytes += n.type.nbytes
            text = f"ascontiguousarray({text})"
        text = self._shaped(text, dims, n.shape)
        if not text.isidentifier():
            name = self.source.name("a")
            self.source.line(f"{name} = {text}")
            text = name
        if not any(dims[a] > 1 for a in self.cut.loops) and not self._blocked(dims, right):
            return text
        tile = f"{self.letter}x{len(self.slices) + len(self.loaded)}"
        if self._by_column(n):
            self.loaded.append((tile, text, n))
            return tile
        self.slices.append((tile, text, dims, right))
        across = self._is_across(n)
        if as_lies or not (across or (self._scattered(n) and self._times_read(n) > 1)):
            return tile
        self.copied.append((f"{self.letter}c{len(self.copied)}", tile, n, across))
        return self.copied[-1][0]

    def _is_across(self, n: Node) -> bool:
        """Is `n` an array that a tile reads across the axis it lies along?"""
        along = run_axis(n)
        if along is None or self.panel.flipped:
            return False
        return not set(self.panel.kept([along])) & set(self.cut.loops)

    def _scattered(self, n: Node) -> bool:
        """Does a tile of `n`, an array of the panel's axes, consist of short rows far from each other? In memory like
        that caches hold little: rows some power of two apart share a few sets."""
        dims = self.panel.dims(n.shape)
        inside = [d for a, d in enumerate(dims) if a < self.cut.axis and a not in self.cut.loops]
        run = math.prod(self._extents(n)[len(inside) :]) * n.dtype.itemsize
        return math.prod(inside) > 1 and not self.panel.flipped and run < SHORT_RUN

    def _times_read(self, n: Node) -> int:
        return sum(n in read for read in self.reads.values())

    def _shape(self, dims: Shape) -> Shape:
        """`dims` without the looped axes along which the value does not vary."""
        return tuple(d for a, d in enumerate(dims) if not (a in self.cut.loops and d == 1))

    def _by_column(self, n: Node) -> bool:
        """Must the columns of `n` be copied apart? NumPy would walk along the short rows."""
        return self.panel.flipped and min(self.panel.dims(n.shape)) > 1

    def _shaped(self, text: str, dims: Shape, shape: Shape) -> str:
        """The array `text` of `shape` in the axes of the panel."""
        if self.panel.flipped:
            return f"{text}.reshape({dims[::-1]}).T"
        wanted = self._shape(dims)
        return text if wanted == shape else f"{text}.reshape({wanted})"

    def _blocked(self, dims: Shape, right: bool) -> bool:
        """Is the value cut along the block axis? A right operand is whole along the rows of the product."""
        return dims[self.cut.axis] > 1 and not (right and self.cut.axis == len(dims) - 2)

    # text

    def _lines(self, n: Node, args: Sequence[str]) -> list[str]:
        """The statements of `n`, and the copy of an output that is computed in scratch memory."""
        place = self.place[n]
        out = place if isinstance(place, str) else self.slots.name(place, n.dtype)
        lines = self._text(n, args, out)
        return [*lines, f"copyto({self.outputs[n]}, {out})"] if out != self.outputs.get(n, out) else lines

    def _text(self, n: Node, args: Sequence[str], out: str) -> list[str]:
        if n.op == "where":
            if n not in self.masks:
                return masked_copy(args, out)
            return [f"choose({', '.join(args)}, {self.slots.name(self.masks[n], np.dtype(bits(n.dtype)))}, {out})"]
        if n.op == "erf" and n.dtype == np.float32:
            self.source.passes(room_bytes(self._elements(n)))
            return [f"fast_erf({args[0]}, {out})"]
        if n.op != "matmul":
            share = self._elements(n.args[0]) / max(n.args[0].type.size, 1)
            self.source.passes(int(temporaries(n) * share) + buffers(n, self._elements(n), self._lies_apart))
        if len(args) == 2 and n.op == "sum":
            return [self._dot(n, args, out)]
        axes: tuple[int, ...] = ()
        if row(n.op).role is Role.REDUCTION:
            loops = self.cut.loops
            axes = tuple(a - sum(b < a for b in loops) for a in self.panel.kept(n.attrs[0]))  # type: ignore[arg-type]
        return by_columns(n, self.reads[n], args, out, axes, self._lying) or [into(n, args, out, axes)]

    def _dot(self, n: Node, args: Sequence[str], out: str) -> str:
        """The sum of products. While `vecdot` computes a few rows it keeps Python's lock, and other threads wait until
        these have come from memory; `einsum` gives it away, and is slower where they are in cache."""
        cached = computes(self.reads[n][0])
        if cached or self._elements(n) > HELD_ROWS or self._row(n.args[0]) > DOT_TO:
            return f"vecdot({args[0]}, {args[1]}, {out}[..., 0])"
        if self.reads[n][1].op == "const":
            return f"einsum('...i->...', {args[0]}, out={out}[..., 0])"
        return f"einsum('...i,...i->...', {args[0]}, {args[1]}, out={out}[..., 0])"

    def _lies_apart(self, n: Node) -> bool:
        """Has the tile of `n` gaps in memory? Scratch arrays have none while they are as long as the block."""
        if isinstance(self.place.get(n), Slot):
            return False
        return self._within(n) or n in self.given or lies_apart(n)

    def _within(self, n: Node) -> bool:
        """Is the tile of `n` in an array cut along an axis with others before it?"""
        return any(self.panel.dims(n.shape)[a] > 1 for a in range(self.cut.axis) if a not in self.cut.loops)

    def scratch(self, offset: int, size: str = "size", ragged: bool = False) -> tuple[list[str], list[str], int]:
        """Lines that make this stage's scratch arrays in ``memory`` from `offset`, lines that shorten them to `size`
        indices of the block (where the last block is shorter, or `ragged` says so), and the offset after them."""
        ragged = ragged or self.cut.ragged(self.panel.extents[self.cut.axis])
        rooms = Rooms(self.source, self.cut.block, offset, size, ragged)
        self.slots.make(rooms)
        for tile, _, n, _ in self.copied:
            rooms.array({tile: n.dtype}, self.tile_shape(n))
        if any(across for *_, across in self.copied):
            rooms.bytes(f"{self.letter}buffer", BUFFER)
        for tile, _, n in (*self.loaded, *self.stored):
            rooms.array({tile: n.dtype}, (self.panel.extents[0], None))
        return rooms.made, rooms.shorter, rooms.offset

    def write(self, depth: int) -> None:
        """The statements of one tile."""
        low, high = self.span
        for tile, array, dims, right in self.slices:
            parts = []
            for a, d in enumerate(dims):
                if a in self.cut.loops:
                    if d > 1:
                        parts.append(f"p{a}")
                elif a == self.cut.axis and self._blocked(dims, right):
                    parts.append(f"{low}:{high}")
                else:
                    parts.append(":")
            while parts and parts[-1] == ":":
                parts.pop()
            self.source.line(f"{tile} = {array}[{', '.join(parts)}]" if parts else f"{tile} = {array}", depth)
        for tile, array, _ in self.loaded:
            self._columns(f"copyto({tile}[q], {array}[q, {low}:{high}])", depth)
        for tile, array, _, across in self.copied:
            copy = f"copy_transposed({tile}, {array}, {self.letter}buffer)" if across else f"copyto({tile}, {array})"
            self.source.line(copy, depth)
        for text in self.statements:
            self.source.line(text, depth)
        for tile, array, _ in self.stored:
            self._columns(f"copyto({array}[q, {low}:{high}], {tile}[q])", depth)

    def _columns(self, text: str, depth: int) -> None:
        self.source.line(f"for q in range({self.panel.extents[0]}):", depth)
        self.source.line(text, depth + 1)


def tile_indices(panel: Panel, cut: Cut) -> list[str]:
    """Lines that find a tile's indices ``p…`` and ``i:j`` from its ``number``."""
    lines = []
    rest = "number"
    if cut.loops:
        if cut.blocks > 1:
            lines.append(f"number, u = divmod(number, {cut.blocks})")
            rest = "u"
        else:
            rest = "0"
        lines += [f"number, p{a} = divmod(number, {panel.extents[a]})" for a in reversed(cut.loops[1:])]
        lines.append(f"p{cut.loops[0]} = number")
    extent = panel.extents[cut.axis]
    lines.append(f"i = {rest} * {cut.block}")
    lines.append(f"j = min(i + {cut.block}, {extent})" if cut.ragged(extent) else f"j = i + {cut.block}")
    return lines
