"""The text of one stage of a tiled kernel: arrays and their tiles, scratch memory, statements.

In: a `Stage` and the `Source` that it becomes lines of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqfuse.emit.numpy.branches import Branch, branch_lines
from eqfuse.emit.numpy.concatenations import JoinedRange, rows_of_pieces
from eqfuse.emit.numpy.erf import buffer_bytes
from eqfuse.emit.numpy.gathers import places_in_panel, take_along
from eqfuse.emit.numpy.narrow import by_columns
from eqfuse.emit.numpy.ops import ONE_RUN, into, masked_copy
from eqfuse.emit.numpy.scratch import ScratchArrays, Slot
from eqfuse.emit.numpy.source import Source, straight
from eqfuse.emit.numpy.spans import Span
from eqfuse.emit.numpy.stage import Stage
from eqfuse.emit.numpy.statements import bits_dtype
from eqfuse.emit.numpy.temporaries import for_blas, lies_apart, temporaries, view_copy_bytes
from eqfuse.emit.numpy.transpose_copy import COPY_BUFFER
from eqfuse.ir.graph import Node
from eqfuse.ir.views import computes
from eqfuse.ops import Role
from eqfuse.ops.types import Shape


class StageText:
    """The lines of one stage. `letter` starts its names; `span` names the bounds of its block; `incoming` names the
    tiles that an earlier stage has made."""

    def __init__(
        self,
        source: Source,
        stage: Stage,
        letter: str = "",
        span: tuple[str, str] = ("i", "j"),
        incoming: Mapping[Node, str] | None = None,
    ) -> None:
        self.source, self.stage, self.body = source, stage, stage.body
        self.panel, self.cut = stage.panel, stage.cut
        self.letter, self.span = letter, span
        self.incoming = incoming or {}
        self.slices: list[tuple[str, str, Shape, bool, Span | None]] = []  # tile, array, dims, right operand?, piece
        self.copied: list[tuple[str, str, Node, bool]] = []  # into scratch: tile, slice, value, transposed?
        self.named: dict[tuple, str] = {}
        self.loaded: list[tuple[str, str, Node]] = []  # flipped: tile, array, value; copied column by column
        self.stored: list[tuple[str, str, Node]] = []
        self.spanned: list[str] = []  # lines that make scratch arrays as long as what a tile takes of a piece
        self.shared_names = self._shared()
        if not stage.placed:
            self._written()
        self.pieces = {n: [self._operand(n, i) for i in range(len(n.args))] for n in stage.concats.split}
        operands = {
            n: [] if n in stage.concats.rows else [self._operand(n, i) for i in range(len(stage.reads[n]))]
            for n in stage.nodes
        }
        self.statements = self._statements(operands)
        self.statements += [f"copyto({y}, {self.incoming[o]})" for o, y in stage.outputs.items() if o in self.incoming]

    @property
    def writes_gaps(self) -> bool:
        """May the one output have gaps? A reshape of it would be a copy."""
        (*more, o) = self.body.outputs
        if more or o not in self.stage.outputs or o.op in ONE_RUN:
            return False
        return self._shaped("o0", self.stage.dims(o.shape), o.shape) == "o0"

    # values that all tiles share, computed before the first

    def _shared(self) -> dict[Node, str]:
        shared = self.stage.shared
        if not shared:
            return {}
        operands = {a: f"({self.source.view(a)})" for n in shared for a in n.args if not computes(a)}
        places = {o: self.source.writes[k] for k, o in reversed(list(enumerate(self.body.outputs))) if o in shared}
        straight(self.source, list(shared), operands, places, kept=self.stage.read_later)
        return {n: operands.get(n, "") for n in shared}  # a bound that its `clip` has taken in has no name

    def _written(self) -> None:
        """Each computed output in the axes of the panel; other outputs are copied whole."""
        for k, o in enumerate(self.body.outputs):
            if self.stage.outputs.get(o) == f"y{k}":
                dims = self.stage.dims(o.shape)
                array = self._shaped(f"o{k}", dims, o.shape)
                if array != f"o{k}":
                    self.source.line(f"b{k} = {array}")
                    array = f"b{k}"
                if self.stage.by_column(o):
                    self.stored.append((f"y{k}", array, o))
                else:
                    self.slices.append((f"y{k}", array, dims, False, None))
            elif o not in self.stage.outputs and self.shared_names.get(o) != self.source.writes[k]:
                self.source.line(f"copyto(o{k}, {self.shared_names.get(o) or self.source.view(o)})")

    def write_into(self, arrays: dict[Node, str]) -> None:
        """Let the tiles of these outputs be slices of `arrays`."""
        for o, name in arrays.items():
            dims, tile = self.stage.dims(o.shape), self.stage.outputs[o]
            array = self._shaped(name, dims, o.shape)
            if array != name:
                self.source.line(f"b{tile[1:]} = {array}")
                array = f"b{tile[1:]}"
            self.slices.append((tile, array, dims, False, None))

    def second_copies(self) -> None:
        """Lines after the last tile: outputs that are written twice."""
        for k, o in enumerate(self.body.outputs):
            tile = self.stage.outputs.get(o, f"y{k}")
            if tile != f"y{k}":
                self.source.line(f"copyto(o{k}, o{tile[1:]})")

    # arrays and their tiles

    def _operand(self, n: Node, i: int) -> str:
        """The name of the tile of argument `i` of `n`."""
        a = self.stage.reads[n][i]
        if n.op == "take":
            return self._rows_taken(n) if i else self._table(n)
        if a in self.incoming:
            return self.incoming[a]
        if a in self.stage.parts:
            return f"{self._operand(a, 0)}.{a.op}"
        if a in self.stage.concats.rows:
            return f"{self._memory(a)}_rows"
        if a in self.stage.concats.split:
            return ""  # its pieces are read
        if computes(a) and a not in self.shared_names:
            return self._memory(a)
        if a not in n.args and a.op == "const" and a.type.size > 1:
            low, high = self.span
            return self.source.leaf(a) + ("" if self.stage.tile_shape(n)[-1] is not None else f"[:{high} - {low}]")
        right = n.op == "matmul" and i == 1
        scalar = n.row.role is Role.ELEMENTWISE and a.type.size == 1
        as_lies = n.op == "matmul"  # BLAS reads either order
        span = self.stage.spans.reads(n, i)
        key = (a, right, scalar, as_lies, span)
        if key not in self.named:
            self.named[key] = self._scalar(a) if scalar else self._array(a, right, as_lies, span)
        return self.named[key]

    def _table(self, n: Node) -> str:
        """The array whose rows ``take`` takes, in the axes of the panel."""
        table, places = n.args
        rows = zip(self.stage.dims((*(1,) * places.type.rank, *table.shape[1:])), self.panel.groups, strict=True)
        shape = (table.shape[0], *[d for d, group in rows if self._in_row(n, group)])
        return self._named(f"({self.source.view(table)}).reshape({shape})")

    def _rows_taken(self, n: Node) -> str:
        """The numbers of the rows that a tile takes."""
        places = places_in_panel(n)
        inside = sum(self._in_row(n, group) for group in self.panel.groups)
        tile = self._array(places, False, True, self.stage.spans.reads(n, 1))  # `take` copies them
        return f"{tile}[{', '.join(['...', *['0'] * inside])}]"

    def _in_row(self, n: Node, group: Sequence[int]) -> bool:
        return group[0] >= self.panel.rank - n.args[0].type.rank + 1

    def _scalar(self, n: Node) -> str:
        text = self.shared_names.get(n) or self.source.view(n)
        if n.shape == () and text.isidentifier():
            return text
        name = self.source.name("a")
        self.source.line(f"{name} = {text}.reshape(())")
        return name

    def _whole(self, n: Node, right: bool = False) -> str:
        """The name of an array in the axes of the panel."""
        dims = self.stage.dims(n.shape)
        text = self.shared_names.get(n) or self.source.view(n)
        self.source.kernel_bytes += 0 if n in self.shared_names else view_copy_bytes(n)
        if right and not for_blas(n):  # NumPy would multiply without BLAS
            self.source.kernel_bytes += n.type.nbytes
            text = f"ascontiguousarray({text})"
        text = self._shaped(text, dims, n.shape)
        return self._named(text)

    def _named(self, text: str) -> str:
        """A name for the array `text`."""
        if text.isidentifier():
            return text
        name = self.source.name("a")
        self.source.line(f"{name} = {text}")
        return name

    def _array(self, n: Node, right: bool, as_lies: bool, span: Span | None) -> str:
        """The name of the tile of an array."""
        dims, text = self.stage.dims(n.shape), self._whole(n, right)
        if not self.stage.is_sliced(n, right):
            return text
        tile = f"{self.letter}x{len(self.slices) + len(self.loaded)}"
        if self.stage.by_column(n):
            self.loaded.append((tile, text, n))
            return tile
        self.slices.append((tile, text, dims, right, span))
        if as_lies or span is not None or not self.stage.is_copied(n):
            return tile
        self.copied.append((f"{self.letter}c{len(self.copied)}", tile, n, self.stage.is_across(n)))
        return self.copied[-1][0]

    def _shape(self, dims: Shape) -> Shape:
        """`dims` without the looped axes along which the value does not vary."""
        return tuple(d for a, d in enumerate(dims) if not (a in self.cut.loops and d == 1))

    def _shaped(self, text: str, dims: Shape, shape: Shape) -> str:
        """The array `text` of `shape` in the axes of the panel."""
        if self.panel.flipped:
            return f"{text}.reshape({dims[::-1]}).T"
        wanted = self._shape(dims)
        return text if wanted == shape else f"{text}.reshape({wanted})"

    # text

    def _memory(self, n: Node) -> str:
        """The name of the memory that `n` is computed into."""
        place = self.stage.place[n]
        return place if isinstance(place, str) else self._slot(place, n.dtype)

    def _slot(self, slot: Slot, dtype: np.dtype) -> str:
        if slot.output is not None:
            return slot.output
        slot.dtypes.add(dtype)
        return f"{self.letter}s{self.stage.slots.all.index(slot)}_{self.source.dtype(dtype)}"

    def _statements(self, operands: Mapping[Node, Sequence[str]]) -> list[str]:
        """Those of all nodes; `operands`: the names of what they read."""
        branch_of = {n: branch for branch in self.stage.branches for n in branch.statements}
        lines: list[str] = []
        for n, args in operands.items():
            if n not in branch_of:
                lines += self._lines(n, args)
            elif n is branch_of[n].statements[-1]:
                lines += self._branch(branch_of[n], operands)
        return lines

    def _branch(self, branch: Branch, operands: Mapping[Node, Sequence[str]]) -> list[str]:
        choices = {n.args[0]: args[0] for n, args in operands.items() if n.op == "where"}
        read = {n: [*zip(self.stage.reads[n], operands[n], strict=True)] for n in branch.statements if n in operands}
        lines = [line for n in read for line in self._lines(n, operands[n])]
        places = {n: self.stage.outputs.get(n) or self._memory(n) for n in read}
        return branch_lines(self.source, branch, self.stage.elements(branch.nodes[0]), choices, lines, read, places)

    def _lines(self, n: Node, args: Sequence[str]) -> list[str]:
        """The statements of `n`, and the copy of an output that is computed in scratch memory."""
        out = self._memory(n)
        lines, tile = self._text(n, args, out), self.stage.outputs.get(n, out)
        return [*lines, f"copyto({tile}, {out})"] if out != tile else lines

    def _text(self, n: Node, args: Sequence[str], out: str) -> list[str]:
        stage = self.stage
        if n.op == "concat":
            return [self._rows(n, out)] if n in stage.concats.rows else self._joined(n, args, out)
        if n.op == "where":
            if n not in stage.masks:
                return masked_copy(args, out)
            return [f"choose({', '.join(args)}, {self._slot(stage.masks[n], np.dtype(bits_dtype(n.dtype)))}, {out})"]
        if n.op == "erf" and n.dtype == np.float32:
            self.source.note_statement_bytes(buffer_bytes(stage.elements(n)))
            return [f"fast_erf({args[0]}, {out})"]
        if n.op == "take":
            self.source.note_statement_bytes(stage.elements(n) * (n.dtype.itemsize + 8))
            return [f"take({args[0]}, {args[1]}, 0, {out})"]
        if n.op == "take_along_axis":
            self.source.names["take_along"] = take_along
            return [f"take_along({args[0]}, {args[1]}, {out})"]
        if n in stage.concats.by:
            return [self._segment(n, args, out, segment) for segment in stage.concats.by[n]]
        if n.op != "matmul":
            share = stage.elements(n.args[0]) / max(n.args[0].type.size, 1)
            nbytes = int(temporaries(n) * share) + self.source.note_buffers(n, stage.elements(n), self._lies_apart)
            self.source.note_statement_bytes(nbytes)
        if stage.is_dot(n):
            return [self._dot(n, args, out)]
        axes = stage.axes(n)
        return by_columns(n, stage.reads[n], args, out, axes, stage.lying) or [into(n, args, out, axes)]

    def _joined(self, n: Node, args: Sequence[str], out: str) -> list[str]:
        """Copies of the pieces `args` to their places in `out`, where they have not been computed there."""
        lines = []
        for k, (a, name) in enumerate(zip(n.args, args, strict=True)):
            if a in self.stage.pieces:
                continue
            span = self.stage.spans.pieces[n][k] if n in self.stage.spans.pieces else None
            if span is not None and span.extent == 1:  # a piece of one place is not cut
                name += self._along(n, *span.bounds)
            lines.append(f"copyto({out}{self._place(n, k)}, {name})")
        return lines

    def _place(self, n: Node, k: int) -> str:
        """The index that takes the place of piece `k` of the joined array `n`."""
        start = sum(a.type.extent(n.attr("axis")) for a in n.args[:k])
        if n not in self.stage.spans.pieces:
            return self._along(n, str(start), str(start + n.args[k].type.extent(n.attr("axis"))))
        outer, (i, j) = self.stage.spans.by_value.get(n), self.stage.spans.pieces[n][k].bounds
        low = outer.bounds[0] if outer else self.span[0]
        return self._along(n, f"{start} + {i} - {low}", f"{start} + {j} - {low}")

    def _along(self, n: Node, low: str, high: str) -> str:
        """The index that takes a part along the axis along which `n` is joined."""
        (axis,) = self.panel.kept([n.attr("axis")])
        before = [":"] * sum(a not in self.cut.loops for a in range(axis))
        return f"[{', '.join([*before, f'{low}:{high}'])}]"

    def _rows(self, n: Node, out: str) -> str:
        """The call that finds the tile of `n` in its pieces."""
        (axis,) = self.panel.kept([n.attr("axis")])
        self.source.names["rows_of"] = rows_of_pieces
        before = f"({'every, ' * axis})"
        names = [self._whole(a) for a in n.args]
        spans = self.stage.spans.pieces[n]
        low, high = spans[0].outer.bounds if spans[0].outer else self.span
        starts = tuple(s.start for s in spans)
        return f"{out}_rows = rows_of({out}, {low}, {high}, {before}, {starts}, ({', '.join(names)}))"

    def _segment(self, n: Node, args: Sequence[str], out: str, segment: JoinedRange) -> str:
        """The statement of `n` at the places of one segment."""
        before = [":"] * sum(a not in self.cut.loops for a in range(segment.axis))

        def part(name: str, low: int, high: int) -> str:
            return f"{name}[{', '.join([*before, f'{low}:{high}'])}]"

        names = []
        for a, name in zip(n.args, args, strict=True):
            if a in segment.pieces:
                k, start = segment.pieces[a]
                piece, extent = self.pieces[a][k], a.args[k].type.extent(a.attr("axis"))
                places = segment.low - start, segment.high - start
                names.append(piece if places == (0, extent) else part(piece, *places))
            else:
                varies = self.stage.dims(a.shape)[segment.axis] > 1
                names.append(part(name, segment.low, segment.high) if varies else name)
        return into(n, names, part(out, segment.low, segment.high))

    def _dot(self, n: Node, args: Sequence[str], out: str) -> str:
        """The sum of products."""
        if not self.stage.keeps_lock(n):
            return f"vecdot({args[0]}, {args[1]}, {out}[..., 0])"
        if self.stage.reads[n][1].op == "const":
            return f"einsum('...i->...', {args[0]}, out={out}[..., 0])"
        return f"einsum('...i,...i->...', {args[0]}, {args[1]}, out={out}[..., 0])"

    def _lies_apart(self, n: Node) -> bool:
        """Has the tile of `n` gaps in memory? Scratch arrays have none while they are as long as the block."""
        scratch = isinstance(self.stage.place.get(n), Slot)
        apart = any(n in values for values in (self.incoming, self.stage.pieces, self.stage.parts))
        return not scratch and (apart or self.stage.within(n) or lies_apart(n))

    def scratch(self, offset: int, size: str = "size", ragged: bool = False) -> tuple[list[str], list[str], int]:
        """Lines that make this stage's scratch arrays in ``memory`` from `offset`, lines that shorten them to `size`
        indices of the block (where the last block is shorter, or `ragged` says so), and the offset after them."""
        ragged = ragged or self.cut.ragged(self.panel.extents[self.cut.axis])
        arrays = ScratchArrays(self.source, self.cut.block, offset, size, ragged)
        for slot in self.stage.slots.all:
            if slot.output is None:
                names = {self._slot(slot, d): d for d in sorted(slot.dtypes, key=lambda d: d.name)}
                arrays.array(names, slot.shape)
        for tile, _, n, _ in self.copied:
            arrays.array({tile: n.dtype}, self.stage.tile_shape(n))
        if any(across for *_, across in self.copied):
            arrays.bytes(f"{self.letter}buffer", COPY_BUFFER)
        for tile, _, n in (*self.loaded, *self.stored):
            arrays.array({tile: n.dtype}, (self.panel.extents[0], None))
        self.spanned = arrays.spanned
        return arrays.views, arrays.shorter, arrays.offset

    def write(self, depth: int) -> None:
        """The statements of one tile."""
        self.source.block([*self.stage.spans.lines(self.span, self.stage.concats.rows), *self.spanned], depth)
        for tile, array, dims, right, span in self.slices:
            low, high = span.bounds if span else self.span
            parts = []
            for a, d in enumerate(dims):
                if a in self.cut.loops:
                    if d > 1:
                        parts.append(f"p{a}")
                elif a == self.cut.axis and self.stage.is_blocked(dims, right):
                    parts.append(f"{low}:{high}")
                else:
                    parts.append(":")
            while parts and parts[-1] == ":":
                parts.pop()
            self.source.line(f"{tile} = {array}[{', '.join(parts)}]" if parts else f"{tile} = {array}", depth)
        for n, k, name in self.stage.pieces.values():
            self.source.line(f"{name} = {self._memory(n)}{self._place(n, k)}", depth)
        for tile, array, _ in self.loaded:
            self._columns(f"copyto({tile}[q], {array}[q, {self.span[0]}:{self.span[1]}])", depth)
        for tile, array, _, across in self.copied:
            copy = f"copy_transposed({tile}, {array}, {self.letter}buffer)" if across else f"copyto({tile}, {array})"
            self.source.line(copy, depth)
        for text in self.statements:
            self.source.line(text, depth)
        for tile, array, _ in self.stored:
            self._columns(f"copyto({array}[q, {self.span[0]}:{self.span[1]}], {tile}[q])", depth)

    def _columns(self, text: str, depth: int) -> None:
        self.source.line(f"for q in range({self.panel.extents[0]}):", depth)
        self.source.line(text, depth + 1)
