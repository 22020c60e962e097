"""The text of a convolution in C: copies of the image by phases, tiles of sums over its windows, the rest.

In: a `ConvolutionSchedule`. Out: the text of its functions. Next stop: `emit/c/kernels.py`.
Names: planes: a buffer of what a unit reads of some channels; sums: of its results; at: where the terms of a tile lie
in the planes; number, group, part, rows, columns: which unit it is; channel: the first of those that are copied.
"""

from __future__ import annotations

from itertools import product

from eqfuse.emit.c import ops
from eqfuse.emit.c.convolution.parts import PhaseCopy
from eqfuse.emit.c.convolution.schedule import ConvolutionSchedule
from eqfuse.emit.c.element import braced
from eqfuse.emit.c.nest import AXES
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.product.function import Function, block_bounds, decoded, functions_text, sum_text
from eqfuse.emit.c.product.piece import BlockLines
from eqfuse.emit.c.product.tile import RegisterTile
from eqfuse.emit.c.sliding.writer import WindowsWriter
from eqfuse.emit.c.writer import Text, called, run_line
from eqfuse.ir.graph import Node


def convolution_text(schedule: ConvolutionSchedule, name: str, rounds: bool) -> Text:
    return _Writer(schedule, name, rounds).text()


class _Writer:
    def __init__(self, schedule: ConvolutionSchedule, name: str, rounds: bool) -> None:
        self.schedule, self.conv, self.blocks = schedule, schedule.convolution, schedule.blocks
        self.name, self.rounds = name, rounds
        self.type = ops.ctype(self.conv.dtype)
        self.parameters = Parameters(schedule.body, schedule.workspaces)
        self.functions: list[Function] = []
        self.above = [f"above{i}" for i in range(len(self.conv.above))]
        self.pooling: WindowsWriter | None = None
        if schedule.pooling is not None:
            self.pooling = WindowsWriter(
                schedule.pooling, name, rounds, self.parameters, self._incoming("own"), ["own"], self.functions
            )

    def text(self) -> Text:
        name, s = f"{self.name}_chunk", self.schedule
        lines = [*self._filters_copied(), run_line(name, s.chunks, s.threads)]
        source = functions_text({name: self._chunk()}, self.functions, self.parameters, self.type.computed)
        return Text(source + called(self.name, self.parameters, lines, s.seconds), self.parameters)

    def _filters_copied(self) -> list[str]:
        """The line that copies all filters, before all units."""
        loops = self.schedule.filters
        if loops is None:
            return []
        piece = BlockLines(loops, self.rounds, self.parameters, {}, [""])
        piece.kept = [f"p0[{piece.index(loops.written[0])}]"]
        lines = piece.kernel()
        for d in reversed(range(piece.down)):
            lines = braced(f"for (long {AXES[d]} = 0; {AXES[d]} < {loops.nest.dims[d].extent}; {AXES[d]}++)", lines)
        copy = Function(f"{self.name}_filters", [], [], lines)
        self.functions.append(copy)
        return [copy.call()]

    # Units

    def _chunk(self) -> list[str]:
        s, b, c = self.schedule, self.blocks, self.conv
        end = f"(chunk + 1) * {s.chunk}"
        end = f"{end} < {s.units} ? {end} : {s.units}"
        return [
            f"_Alignas(64) {self.type.computed} planes[{b.image_elements(c)}];",
            f"_Alignas(64) {self.type.computed} sums[{b.filters * b.width}];",
            f"__builtin_memset(planes + {b.image_elements(c) - b.tiles[0].columns}, 0, "
            f"{b.tiles[0].columns} * sizeof *planes);",
            *(self.pooling.buffers() if self.pooling else []),
            *self._table(),
            *braced(f"for (long unit = chunk * {s.chunk}, end = {end}; unit < end; unit++)", self._unit()),
        ]

    def _table(self) -> list[str]:
        """The lines that find where terms lie in the planes."""
        b, c = self.blocks, self.conv
        plane = b.copied(c)
        taps = [phase * b.high * b.pitch + y * b.pitch + x for phase, y, x in c.taps]
        places = [number * plane + tap for number in range(c.planes) for tap in taps]
        place = f"channel * {c.planes * plane} + taps[tap]"
        inside = braced(f"for (int tap = 0; tap < {c.window}; tap++)", [f"at[channel * {c.window} + tap] = {place};"])
        return [
            f"static const int taps[] = {{{', '.join(map(str, places))}}};",
            f"int at[{b.channels * c.window}];",
            *braced(f"for (int channel = 0; channel < {b.channels}; channel++)", inside),
        ]

    def _unit(self) -> list[str]:
        c, b = self.conv, self.blocks
        *above, high, wide = c.blocked
        filters = c.filters_of_group
        counts = [("number", c.conv.shape[0]), ("group", c.groups), *zip(self.above, above, strict=True)]
        counts += [("rows", -(-high // b.results)), ("columns", -(-wide // b.columns))]
        lines = decoded("unit", [*counts, ("part", -(-filters // b.filters))])
        if self.pooling is None:
            lines += [*block_bounds("row", "rows", b.rows, high), *block_bounds("column", "columns", b.columns, wide)]
        else:
            lines += self.pooling.ranges()
            lines += ["const long row_begin = from, column_begin = left;"]
        lines += block_bounds("filter", "part", b.filters, filters)
        return [*lines, *self._sums(), *self._rest()]

    def _rest(self) -> list[str]:
        """The lines that compute what follows, of one filter after another."""
        b, c = self.blocks, self.conv
        head = "for (long filter = filter_begin; filter < filter_end; filter++)"
        channel, sums = sum_text(("group", c.filters_of_group), "filter"), sum_text(
            "sums", ("(filter - filter_begin)", b.width)
        )
        if self.pooling is not None:
            i, j = self.pooling.outer
            declarations = [f"const long {i} = number, {j} = {channel};", f"{self.type.computed} *const own = {sums};"]
            return braced(head, [*declarations, *self.pooling.unit()])
        assert self.schedule.rest is not None
        piece = BlockLines(self.schedule.rest, self.rounds, self.parameters, self._incoming())
        rest = Function(f"{self.name}_rest", [*AXES[: piece.down], *piece.block_ends], ["sums"], piece.kernel())
        self.functions.append(rest)
        ends = ["row_begin", "row_end", "column_begin", "column_end"]
        return braced(head, [f"{rest.name}({', '.join(['arrays', 'number', channel, *self.above, *ends, sums])});"])

    def _incoming(self, name: str = "sums") -> dict[Node, str]:
        """Where the sums of a filter lie."""
        return {self.conv.result: f"{name}[{{row}} * {self.blocks.pitch} + {{column}}]"}

    # Sums

    def _sums(self) -> list[str]:
        """The lines that make the sums of a unit, of some channels after others."""
        b, c = self.blocks, self.conv
        lines = [*self._copies(), *self._tiles()]
        if b.channels == c.channels:
            return ["const long channel = 0, channels = " + f"{c.channels};", *lines]
        left = f"{c.channels} - channel"
        count = f"{left} < {b.channels} ? {left} : {b.channels}" if c.channels % b.channels else str(b.channels)
        head = f"for (long channel = 0; channel < {c.channels}; channel += {b.channels})"
        return braced(head, [f"const long channels = {count};", *lines])

    def _tiles(self) -> list[str]:
        b = self.blocks
        first, *others = b.tiles
        calls = self._tile(first)
        head = f"for (; row + {first.rows} <= deep_end; row += {first.rows})"
        inside = ["long row = deep;", *braced(head, [calls])]
        inside += [line for t in others for line in braced("if (row < deep_end)", [self._tile(t)])]
        end = f"deep + {b.deep}"
        across = braced(f"for (long place = 0; place < {b.across * first.columns}; place += {first.columns})", inside)
        lines = [f"const long deep_end = {end} < filter_end ? {end} : filter_end;", *across]
        lines = braced(f"for (long deep = filter_begin; deep < filter_end; deep += {b.deep})", lines)
        return lines

    def _tile(self, t: RegisterTile) -> str:
        b, c = self.blocks, self.conv
        filters = "p0" if self.schedule.filters else self.parameters.leaf(c.filters.body.outputs[0])
        offset = c.in_place.offset if c.in_place else 0
        row = sum_text(("group", c.filters_of_group), "row")
        weights = sum_text(filters, (str(offset), 1), (f"({row})", c.terms), ("channel", c.window))
        sums = sum_text("sums", ("(row - filter_begin)", b.width), "place")
        more = "0" if b.channels == c.channels else "channel > 0"
        return (
            f"{t.function(self.type.suffix)}(channels * {c.window}, {weights}, {c.terms}, planes + place, at, "
            f"{sums}, {b.width}, {more});"
        )

    # Copies of the image

    def _copies(self) -> list[str]:
        """The lines that copy what a unit reads of some channels."""
        b, c = self.blocks, self.conv
        plane, size = b.copied(c), b.high * b.pitch
        copies = [self._copied(i, copied) for i, copied in enumerate(c.phases)]
        lines = []
        for number, taps in enumerate(product(*[range(axis.window) for axis in c.above])):
            start = sum_text(("plane", c.planes * plane), (str(number), plane))
            moved = zip(self.above, c.above, taps, strict=True)
            where = [_place(name, axis.stride, tap * axis.dilation - axis.before) for name, axis, tap in moved]
            inside = []
            for i, text in enumerate(copies):
                target = sum_text("planes", start, (str(i), size))
                inside.append(text.format(where="".join(f"{x}, " for x in where), target=target))
            tests = [f"(unsigned long)({x}) < {axis.extent}" for x, axis in zip(where, c.above, strict=True)
                     if axis.is_padded]  # fmt: skip
            if tests:
                clear = f"__builtin_memset({sum_text('planes', start)}, 0, {plane} * sizeof *planes);"
                inside = [*braced(f"if ({' && '.join(tests)})", inside), *braced("else", [clear])]
            lines += inside
        return braced("for (long plane = 0; plane < channels; plane++)", lines)

    def _copied(self, i: int, copied: PhaseCopy) -> str:
        """The call that copies phase `i` of a plane, and clears what is no element around it."""
        b, loops = self.blocks, self.schedule.copies[i]
        size = b.high * b.pitch
        if copied.part is None or loops is None:
            return f"__builtin_memset({{target}}, 0, {size} * sizeof *planes);"
        kept = f"planes[({{row}} + first) * {b.pitch} + {{column}} + left]"
        piece = BlockLines(loops, self.rounds, self.parameters, {}, [kept])
        names = piece.block_ends
        head = []
        for d, phase, name, extent in (
            (piece.down, copied.rows, "first", b.high), (piece.down + 1, copied.columns, "left", b.pitch)
        ):  # fmt: skip
            begin, end = f"{AXES[d]}_begin", f"{AXES[d]}_end"
            low = sum_text(f"{'row' if name == 'first' else 'column'}_begin", (str(-phase.start), 1))
            head += [
                f"const long {name}_at = {low};",
                f"const long {begin} = {name}_at > 0 ? {name}_at : 0;",
                f"const long {end} = {name}_at + {extent} < {phase.count} ? {name}_at + {extent} : {phase.count};",
                f"const long {name} = {begin} - {name}_at;",
            ]
        some = f"if ({names[0]} < {names[1]} && {names[2]} < {names[3]})"
        lines = [*head, *self._cleared(names), *braced(some, piece.kernel())]
        block = [*AXES[: piece.down], "row_begin", "column_begin"]
        copy = Function(f"{self.name}_phase{i}", block, ["planes"], lines)
        self.functions.append(copy)
        channel = sum_text(("group", self.conv.channels), "channel", "plane")
        return f"{copy.name}(arrays, number, {channel}, {{where}}row_begin, column_begin, {{target}});"

    def _cleared(self, names: list[str]) -> list[str]:
        """The lines that clear what is padding, or is beside the image, of a copy."""
        b = self.blocks
        top, bottom, left, right = names
        row = f"planes + row * {b.pitch}"
        beside = [
            f"for (long x = 0; x < left; x++) planes[row * {b.pitch} + x] = 0;",
            f"for (long x = left + {right} - {left}; x < {b.pitch}; x++) planes[row * {b.pitch} + x] = 0;",
        ]
        outside = f"if (row < first || row >= first + {bottom} - {top} || {left} >= {right})"
        return braced(
            f"for (long row = 0; row < {b.high}; row++)",
            [*braced(outside, [f"__builtin_memset({row}, 0, {b.pitch} * sizeof *planes);"]), *braced("else", beside)],
        )


def _place(name: str, stride: int, offset: int) -> str:
    return sum_text((name, stride), (str(abs(offset)), -1 if offset < 0 else 1))
