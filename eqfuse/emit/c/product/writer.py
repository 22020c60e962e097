"""The text of a product in C: copies of operands, tiles of sums, and loops over the elements of each block of results.

In: a `ProductSchedule`. Out: the text of its functions, as `emit/c/writer.py` gives that of loops. Next stop:
`emit/c/kernels.py`. Names: left, sums0, sums1: buffers of a unit; carried0: values of its rows; row, column: the first
of a tile; from0, to0: terms of the first product that are added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import braced, indented
from eqfuse.emit.c.loops import Loops
from eqfuse.emit.c.nest import AXES, Access, Dim
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.product import online_lines
from eqfuse.emit.c.product.blocks import ProductStep, outer_of
from eqfuse.emit.c.product.function import Function, block_bounds, decoded, functions_text, sum_text
from eqfuse.emit.c.product.merged_axes import MergedAxesLines
from eqfuse.emit.c.product.parts import BlockPart
from eqfuse.emit.c.product.piece import BlockLines
from eqfuse.emit.c.product.schedule import ProductSchedule
from eqfuse.emit.c.writer import Text, called, run_line
from eqfuse.ir.graph import Node


def product_text(schedule: ProductSchedule, name: str, rounds: bool, once: bool = False) -> Text:
    """`once`: panels are copied by a function of their own, `panels_function`."""
    return _Writer(schedule, name, rounds).text(once)


def panels_function(name: str) -> str:
    return f"{name}_panels"


class _Writer:
    def __init__(self, schedule: ProductSchedule, name: str, rounds: bool) -> None:
        self.schedule, self.parts, self.blocks = schedule, schedule.parts, schedule.blocks
        self.name, self.rounds = name, rounds
        self.type = ops.ctype(self.parts.dtype)
        self.parameters = Parameters(schedule.body, schedule.workspaces, overlays=schedule.overlays)
        self.functions: list[Function] = []
        self.row = AXES[len(self.parts.outer)]
        self.column = AXES[len(self.parts.outer) + 1]

    def text(self, once: bool) -> Text:
        panels = [self._panels(number) for number, step in enumerate(self.blocks.steps) if step.in_panels]
        chunk = self._chunk()
        lines_of = {name: [*self._turn_line(), *lines] for name, lines, _ in [*panels, chunk]}
        source = functions_text(lines_of, self.functions, self.parameters, self.type.computed)
        *before, run = [run_line(name, chunks, self.schedule.threads) for name, _, chunks in [*panels, chunk]]
        if once:
            source += called(panels_function(self.name), self.parameters, before, self.schedule.seconds)
            before = []
        lines, counted = [*before, run], []
        if self.blocks.turns > 1:
            lines, counted = braced(f"for (; turn < {self.blocks.turns}; turn++)", lines), ["turn"]
        source += called(self.name, self.parameters, lines, self.schedule.seconds, counted=counted)
        return Text(source, self.parameters)

    def _of_turn(self, name: str, count: int, by_terms: bool = False) -> str:
        """The number among all of what is number `name` among the `count` of a turn of terms, or of columns."""
        cut = self.blocks.turns > 1 and by_terms == bool(self.blocks.turn_terms)
        return sum_text(("turn", count if cut else 0), name)

    def _turn_line(self) -> list[str]:
        """The line that finds which turn it is."""
        line = f"const long turn = *(const long *)arrays[{len(self.parameters.names())}];"
        return [line] * (self.blocks.turns > 1)

    # Copies of right operands

    def _panels(self, product: int) -> tuple[str, list[str], int]:
        """The function that copies a block of terms of a panel."""
        loops, step = self.schedule.rights[product], self.blocks.steps[product]
        assert loops is not None
        *outer, down, columns = loops.nest.dims
        place = f"{{row}} * {step.tile.columns} + {{column}}"
        if step.tile.dots:
            place = f"{{column}} * {loops.space[-2]} + {{row}}"
        lines = self._lines(self.parts.rights[product], loops, {}, [f"panel[{place}]"]).kernel()
        d, count, parts = len(outer) + 1, columns.blocks, down.blocks
        wide, terms, panels = step.tile.columns, self._panel_terms(product), self.blocks.panels(product, self.parts)
        outer_counts = [(AXES[i], dim.extent) for i, dim in enumerate(outer)]
        parts_of_turn = parts if parts == 1 else -(-terms // down.block)
        head = decoded("chunk", [*outer_counts, ("place", panels), ("block", parts_of_turn)])
        head.append(f"const long number = {self._of_turn('place', panels)};")
        head.append(f"const long part = {self._of_turn('block', parts_of_turn, by_terms=True)};")
        head += [f"if (number >= {count}) return;"] * (count % panels > 0)
        head += [f"if (part >= {parts}) return;"] * (parts % parts_of_turn > 0)
        if columns.blocks > 1:
            head += block_bounds(AXES[d], "number", wide, columns.extent)
        first, extent = f"chunk * {wide * terms}", str(terms)
        if parts > 1:
            row = AXES[d - 1]
            head += block_bounds(row, "part", down.block, down.extent)
            first = f"chunk / {parts_of_turn} * {wide * terms} + {self._in_turn(f'{row}_begin')} * {wide}"
            extent = f"({row}_end - {row}_begin)"
        head.append(f"{self.type.computed} *panel = {self._workspace(product)} + {first};")
        if columns.extent % wide:
            head += [f"if (number == {count - 1}) __builtin_memset(panel, 0, {wide} * {extent} * sizeof *panel);"]
        chunks = math.prod(extent for _, extent in outer_counts) * panels * parts_of_turn
        return f"{self.name}_right{product}", [*head, *lines], chunks

    def _panel_terms(self, product: int) -> int:
        """The terms that panels hold at a time."""
        return self.blocks.turn_terms or self.parts.rights[product].space[-2]

    def _in_turn(self, term: str) -> str:
        """The place of a term among those of a turn."""
        return f"({term} - turn * {self.blocks.turn_terms})" if self.blocks.turn_terms else term

    def _workspace(self, product: int) -> str:
        return f"p{sum(step.in_panels for step in self.blocks.steps[:product])}"

    # Units

    def _chunk(self) -> tuple[str, list[str], int]:
        lines = self._unit()
        units, chunk, chunks = self.schedule.units, self.schedule.chunk, self.schedule.chunks
        head = [f"_Alignas(64) {self.type.computed} {name}[{size}];" for name, size in self._buffers()]
        if self.blocks.left_elements and self._has_short_tiles(self.blocks.steps[0]):  # what lies there may be slow
            head.append("__builtin_memset(left, 0, sizeof left);")
        if self.blocks.right_elements and self.parts.out[-1] % self.blocks.steps[0].tile.columns:
            head.append("__builtin_memset(right, 0, sizeof right);")
        if chunks == units:
            return f"{self.name}_chunk", [*head, "const long unit = chunk;", *lines], chunks
        end = f"(chunk + 1) * {chunk}"
        end = f"{end} < {units} ? {end} : {units}" if units % chunk else end
        head.append(f"const long last = {end};")
        head += braced(f"for (long unit = chunk * {chunk}; unit < last; unit++)", lines)
        return f"{self.name}_chunk", head, chunks

    def _buffers(self) -> list[tuple[str, int]]:
        blocks = self.blocks
        buffers = [("left", blocks.left_elements)] * (blocks.left_elements > 0)
        buffers += [("right", blocks.right_elements)] * (blocks.right_elements > 0)
        if not blocks.sums:
            buffers += [(f"sums{number}", blocks.high * step.width) for number, step in enumerate(blocks.steps)]
        buffers += [("apart", blocks.high * blocks.apart)] * (blocks.apart > 0)
        rows = [*self._carried(), *(["before", "added", "scale"] if self.schedule.tops is not None else [])]
        if self.schedule.live is not None:
            rows.append("alive")
            buffers.append(("nothing", blocks.steps[-1].width))
        return buffers + [(name, blocks.high) for name in rows]

    def _carried(self) -> list[str]:
        return [f"carried{i}" for i in range(len(self.parts.carried))]

    def _unit(self) -> list[str]:
        """The lines of one unit."""
        parts, blocks = self.parts, self.blocks
        across, high = parts.out[-1], parts.height
        counts = [(AXES[d], dim.extent) for d, dim in enumerate(parts.outer)]
        counts += [("rows", -(-high // blocks.rows)), ("block", blocks.across(parts))]
        lines = decoded("unit", counts)
        lines.append(f"const long columns = {self._of_turn('block', blocks.across(parts))};")
        lines += block_bounds(self.row, "rows", blocks.rows, high)
        lines += block_bounds(self.column, "columns", blocks.columns, across)
        if blocks.sums:
            lines.append(f"{self.type.computed} *const sums0 = p1 + unit * {blocks.sums};")
        lines += self._products()
        incoming = self._incoming(parts.results[-1], len(blocks.steps) - 1)
        incoming |= {n: f"{name}[{{row}}]" for n, name in zip(parts.carried, self._carried(), strict=True)}
        buffers = [f"sums{len(blocks.steps) - 1}", *self._carried()]
        rest = self._function("rest", BlockLines(self.schedule.rest, self.rounds, self.parameters, incoming), buffers)
        last = f"if (turn == {blocks.turns - 1}) " if blocks.turn_terms else ""
        return [*lines, f"{last}{rest.call()}"]

    def _incoming(self, result: object, product: int) -> dict:
        return {result: f"sums{product}[{{row}} * {self.blocks.steps[product].width} + {{column}}]"}

    def _function(self, name: str, piece: BlockLines, buffers: list[str]) -> Function:
        block_function = Function(f"{self.name}_{name}", piece.block(), buffers, piece.kernel())
        self.functions.append(block_function)
        return block_function

    def _lines(self, part: BlockPart, loops: Loops, incoming: Mapping[Node, str], kept: Sequence[str]) -> BlockLines:
        """The lines that copy or compute a block of an operand."""
        if part.merged is None:
            return BlockLines(loops, self.rounds, self.parameters, incoming, kept)
        return MergedAxesLines(part.merged, loops, self.rounds, self.parameters, kept)

    def _products(self) -> list[str]:
        """The sums of the last product."""
        lines: list[str] = []
        for number, step in enumerate(self.blocks.steps):
            left, terms = self._left(number), self.parts.lefts[number].space[-1]
            tiles = [*self._right_copy(number), *self._tiles(number)]
            is_chained = self.blocks.is_chained(number)
            by_block = left is not None and (is_chained or step.held < terms)
            copies = []
            if left is not None:
                copies = [left.call([*left.block[:-2], f"from{number}", f"to{number}"] if by_block else None)]
            if is_chained:  # all but the copy of the first left operand is done again for each block
                once = int(self.schedule.lefts[0] is not None)
                if self.schedule.tops is not None:
                    lines = [*lines[:once], *self._online(self.schedule.tops, lines[once:], copies, tiles)]
                    continue
                lines = [*lines[:once], *self._by_depth(number, [*lines[once:], *copies, *tiles])]
            elif by_block:
                lines += self._by_depth(number, [*copies, *tiles])
            else:
                lines += [*copies, *self._by_depth(number, tiles)]
        return lines

    def _online(self, tops: Loops, first: list[str], weights: list[str], second: list[str]) -> list[str]:
        """A softmax between two products, a block of columns after another. `first`, `second`: the tiles of these."""
        rows, buffer = f"({self.row}_end - {self.row}_begin)", ("sums1", self.blocks.steps[1].width)
        assert self.parts.online is not None
        scores = self._incoming(self.parts.results[0], 0)
        incoming = scores | {self.parts.online.before: "before[{row}]"}
        piece = BlockLines(tops, self.rounds, self.parameters, incoming, ["carried0[{row}]", *scores.values()])
        newer = self._function("tops", piece, ["sums0", "before", "carried0"])
        by_block = [*newer.block[:-2], "from1", "to1"]
        lines = [*first, *online_lines.weighted(rows, buffer, newer.call(by_block), weights), *second]
        live = self.schedule.live
        if live is not None:
            alive_lines = BlockLines(live, self.rounds, self.parameters, {}, ["alive[{row}]"])
            alive = self._function("live", alive_lines, ["alive"])
            lines = [*online_lines.passed_over(rows, alive.call(by_block), self._nothing()), *lines]
        return [
            *online_lines.begun(rows, self.type.computed, buffer[0], live is not None),
            *self._by_depth(1, lines),
            *online_lines.ended(rows, buffer, live is not None),
        ]

    def _nothing(self) -> list[str]:
        """Adds 0 times the rows of the second right operand that a block passes over."""
        step, across = self.blocks.steps[1], self.parts.out[-1]
        line = replace(step.tile, rows=1).function(self.type.suffix)
        clips = step.right is not None and across % step.tile.columns > 0
        columns = _clipped("column", step.tile.columns, str(across), clips)
        call = f"{line}(to1 - from1, &zero, 0, 0, {self._right_tile(1)}, nothing + column, 0, 1);"
        return braced(f"for (long across = 0; across < {across}; across += {step.tile.columns})", [*columns, call])

    def _by_depth(self, product: int, lines: list[str]) -> list[str]:
        """`lines` for one block of terms after another."""
        depth, terms, name = self.blocks.steps[product].depth, self.parts.lefts[product].space[-1], f"from{product}"
        if depth == terms:
            return lines
        end = f"{name} + {depth}"
        end = end if terms % depth == 0 else f"{end} < {terms} ? {end} : {terms}"
        begin, behind = "0", str(terms)
        if self.blocks.turn_terms:
            begin, behind = f"turn * {self.blocks.turn_terms}", "behind"
        head = f"for (long {name} = {begin}; {name} < {behind}; {name} += {depth})"
        loop = braced(head, [f"const long to{product} = {end};", *lines])
        return [*self._behind_turn(terms), *loop]

    def _behind_turn(self, terms: int) -> list[str]:
        """The lines that find the end of the terms of a turn."""
        if not self.blocks.turn_terms:
            return []
        end = f"(turn + 1) * {self.blocks.turn_terms}"
        return [f"const long behind = {end} < {terms} ? {end} : {terms};"]

    def _left(self, product: int) -> Function | None:
        """What computes or copies a left operand into its buffer."""
        loops, step = self.schedule.lefts[product], self.blocks.steps[product]
        if loops is None:
            return None
        if product:
            width = self.blocks.steps[product - 1].width
            incoming = self._incoming(self.parts.results[product - 1], product - 1)
            rows, online = self._carried(), self.parts.online
            if online is not None:
                incoming = self._incoming(online.scores, 0)
                incoming |= {self.parts.carried[0]: "carried0[{row}]", online.before: "before[{row}]"}
                rows = ["added", "scale"]
            kept = [f"sums{product - 1}[{{row}} * {width} + {{column}}]", *(f"{x}[{{row}}]" for x in rows)]
            buffers = [f"sums{product - 1}", *rows, *(["carried0", "before"] if online is not None else [])]
        else:
            slow, fast = ("column", "row") if step.transposed else ("row", "column")
            place = f"{{{slow}}} * {step.stride} + {{{fast}}}"
            rows = self._carried() if len(self.parts.products) == 1 else []
            incoming, kept, buffers = {}, [f"left[{place}]", *(f"{x}[{{row}}]" for x in rows)], ["left", *rows]
        lines = self._lines(self.parts.lefts[product], loops, incoming, kept)
        return self._function(f"left{product}", lines, buffers)

    def _right_copy(self, product: int) -> list[str]:
        """The call that copies a block of a right operand that is in no panels."""
        loops, step = self.schedule.rights[product], self.blocks.steps[product]
        if loops is None or step.in_panels:
            return []
        place = f"right[{{row}} * {step.right_stride} + {{column}}]"
        lines = self._lines(self.parts.rights[product], loops, {}, [place])
        copy = self._function(f"right{product}", lines, ["right"])
        outer, down = len(loops.nest.dims) - 2, loops.nest.dims[-2]
        terms = [f"from{product}", f"to{product}"] if down.blocks > 1 else []
        return [copy.call([*copy.block[:outer], *terms, *copy.block[outer + len(terms) :]])]

    def _tiles(self, product: int) -> list[str]:
        """All tiles of sums of a block of terms."""
        step, across = self.blocks.steps[product], self.parts.products[product].shape[-1]
        t, several = step.tile, step.depth < self.parts.lefts[product].space[-1]
        begin, end = f"{self.column}_begin", f"{self.column}_end"
        if product < len(self.blocks.steps) - 1:
            following = product + 1
            chained = self.blocks.is_chained(following)
            begin, end = (f"from{following}", f"to{following}") if chained else ("0", str(across))
        depth, more = (f"to{product} - from{product}", f"from{product} > 0") if several else (str(step.depth), "0")
        more = "1" if product and self.schedule.tops is not None else more
        sums = sum_text(f"sums{product}", (f"(row - {self.row}_begin)", step.width), ("column", 1), (begin, -1))
        rows = _clipped("row", t.rows, f"{self.row}_end", step.left is not None and self._has_short_tiles(step))
        columns = _clipped("column", t.columns, end, step.right is not None and across % t.columns > 0)
        extents = f"{depth}, {end} - {begin}, {'apart' if step.apart else '0'}" if t.streams else depth
        operands = f"{self._left_tile(product)}, {self._right_tile(product)}"
        call = f"{t.function(self.type.suffix)}({extents}, {operands}, {sums}, {step.width}, {more});"
        head = f"for (long first = {self.row}_begin; first < {self.row}_end; first += {t.rows})"
        inside = braced(head, [*rows, call])
        if t.streams:
            return ["{", *indented([f"const long column = {begin};", *inside]), "}"]
        return braced(f"for (long across = {begin}; across < {end}; across += {t.columns})", [*columns, *inside])

    def _has_short_tiles(self, step: ProductStep) -> bool:
        return self.blocks.rows % step.tile.rows > 0 or self.parts.height % step.tile.rows > 0

    def _term(self, product: int) -> str:
        """The first of the terms that are added."""
        return f"from{product}" if self.blocks.steps[product].depth < self.parts.lefts[product].space[-1] else "0"

    def _left_tile(self, product: int) -> str:
        """Where the rows of a tile begin, and the steps to the next row and term."""
        step, term, row = self.blocks.steps[product], self._term(product), f"(row - {self.row}_begin)"
        if step.left is not None:
            leaf = self.parameters.leaf(self.parts.lefts[product].body.outputs[0])
            by_row, by_term = self.parts.rows[-1].step(step.left), step.left.strides[-1]
            return f"{sum_text(leaf, *self._outer(step.left), ('row', by_row), (term, by_term))}, {by_row}, {by_term}"
        if step.held < self.parts.lefts[product].space[-1] or self.blocks.is_chained(product):
            term = "0"
        if product:
            width = self.blocks.steps[product - 1].width
            return f"{sum_text(f'sums{product - 1}', (row, width), (term, 1))}, {width}, 1"
        by_row, by_term = (1, step.stride) if step.transposed else (step.stride, 1)
        return f"{sum_text('left', (row, by_row), (term, by_term))}, {by_row}, {by_term}"

    def _right_tile(self, product: int) -> str:
        """Where the columns of a tile begin, and the step to the next term, or column."""
        step, part, term = self.blocks.steps[product], self.parts.rights[product], self._term(product)
        if step.right is not None:
            leaf = self.parameters.leaf(part.body.outputs[0])
            by_term, by_column = step.right.strides[-2:]
            place = sum_text(leaf, *self._outer(step.right), (term, by_term), ("column", by_column))
            return f"{place}, {by_column if step.tile.dots else by_term}"
        if step.right_stride:
            return f"{sum_text('right', (f'(column - {self.column}_begin)', 1))}, {step.right_stride}"
        wide, varied = step.tile.columns, outer_of(self.parts, product)
        number = _joined([(AXES[self.parts.outer.index(dim)], dim) for dim in varied])
        panels = self.blocks.panels(product, self.parts)
        by_term = 1 if step.tile.dots else wide
        by_columns = self.blocks.turns > 1 and not self.blocks.turn_terms
        column, terms = f"(column - turn * {panels * wide})" if by_columns else "column", self._panel_terms(product)
        first = (number, panels * wide * terms), (column, terms), (self._in_turn(term), by_term)
        return f"{sum_text(self._workspace(product), *first)}, {terms if step.tile.dots else wide}"

    def _outer(self, access: Access) -> list[tuple[str, int]]:
        """Where the matrix of an operand begins."""
        return [(str(access.offset), 1), *((AXES[d], dim.step(access)) for d, dim in enumerate(self.parts.outer))]


def _clipped(name: str, size: int, end: str, clips: bool) -> list[str]:
    """The line that finds the first index of a tile; the last one overlaps the one before rather than exceed `end`."""
    start = "first" if name == "row" else "across"
    return [f"const long {name} = {f'{start} + {size} <= {end} ? {start} : {end} - {size}' if clips else start};"]


def _joined(indices: Sequence[tuple[str, Dim]]) -> str:
    text = "0"
    for name, dim in indices:
        text = name if text == "0" else f"({text} * {dim.extent} + {name})"
    return text
