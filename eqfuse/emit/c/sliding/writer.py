"""The text of a kernel with windows in C: what is read of the image, windows reduced down and then across, the rest.

In: a `WindowsSchedule`. Out: the text of its functions. Next stop: `emit/c/kernels.py`.
Names: image: a buffer of the rows that a unit reads; line: those under one row of windows, reduced to one; reduced: a
buffer of what the windows of a unit give; from, to: rows of the image, left, right: columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import braced
from eqfuse.emit.c.nest import AXES
from eqfuse.emit.c.parameters import Parameters
from eqfuse.emit.c.product.function import Function, block_bounds, decoded, functions_text, sum_text
from eqfuse.emit.c.product.piece import BlockLines
from eqfuse.emit.c.sliding.axes import Axis
from eqfuse.emit.c.sliding.schedule import WindowsSchedule
from eqfuse.emit.c.writer import Text, called, run_line
from eqfuse.ir.graph import Node


def windows_text(schedule: WindowsSchedule, name: str, rounds: bool) -> Text:
    return WindowsWriter(schedule, name, rounds, Parameters(schedule.body, [])).text()


class WindowsWriter:
    """`incoming`: elements of buffers that the image is computed from, as `BlockLines` has them, and `outer_buffers`,
    these buffers. `functions` are added to."""

    def __init__(
        self, schedule: WindowsSchedule, name: str, rounds: bool, parameters: Parameters,
        incoming: Mapping[Node, str] | None = None, outer_buffers: Sequence[str] = (),
        functions: list[Function] | None = None,
    ) -> None:  # fmt: skip
        self.schedule, self.windows = schedule, schedule.windows
        self.name, self.rounds = name, rounds
        self.dtype = self.windows.window.dtype
        self.type = ops.computing_type(self.dtype)
        self.how = ops.reduction(self.windows.reduction, self.dtype, self.dtype)
        self.parameters, self.incoming, self.outer_buffers = parameters, incoming or {}, list(outer_buffers)
        self.functions: list[Function] = [] if functions is None else functions
        self.outer = AXES[: len(self.windows.outer)]
        self.row, self.column = AXES[len(self.outer)], AXES[len(self.outer) + 1]
        self.down, self.across = self.windows.axes[-2:]

    def text(self) -> Text:
        name, s = f"{self.name}_chunk", self.schedule
        source = functions_text({name: self._chunk()}, self.functions, self.parameters, self.type)
        run = run_line(name, s.chunks, s.threads)
        return Text(source + called(self.name, self.parameters, [run], s.seconds), self.parameters)

    def buffers(self) -> list[str]:
        """The lines that declare the buffers of a thread."""
        s = self.schedule
        lines = [f"_Alignas(64) {self.type} image[{s.image_elements}];"] * (s.before is not None)
        return [*lines, f"_Alignas(64) {self.type} reduced[{s.rows * s.columns}];"]

    def _chunk(self) -> list[str]:
        s = self.schedule
        end = f"(chunk + 1) * {s.chunk}"
        end = f"{end} < {s.units} ? {end} : {s.units}"
        head = f"for (long unit = chunk * {s.chunk}, last = {end}; unit < last; unit++)"
        high, wide = self.windows.rest.space[-2:]
        counts = list(zip(self.outer, self.windows.outer, strict=True))
        lines = decoded("unit", [*counts, ("rows", -(-high // s.rows)), ("columns", -(-wide // s.columns))])
        return [*self.buffers(), *braced(head, [*lines, *self.ranges(), *self.unit()])]

    def ranges(self) -> list[str]:
        """The lines that find the rows and columns of block `rows`, `columns`, and what it reads of the image."""
        s = self.schedule
        high, wide = self.windows.rest.space[-2:]
        lines = [*block_bounds(self.row, "rows", s.rows, high), *block_bounds(self.column, "columns", s.columns, wide)]
        lines += _read("from", "to", self.row, self.down)
        return [*lines, *_read("left", "right", self.column, self.across)]

    def unit(self) -> list[str]:
        """The lines that compute a block of results."""
        s = self.schedule
        lines, buffers = [], ["reduced"]
        if s.before is not None:
            buffers = ["image", "reduced"]
            lines = self._copies()
        ends = [f"{name}_{end}" for name in (self.row, self.column) for end in ("begin", "end")]
        block = [*self.outer, *ends, "from", "to", "left", "right"]
        windows = Function(f"{self.name}_windows", block, buffers, self._windows())
        place = f"reduced[{{row}} * ({self.column}_end - {self.column}_begin) + {{column}}]"
        rest = BlockLines(s.rest, self.rounds, self.parameters, {self.windows.result: place})
        after = Function(f"{self.name}_rest", [*self.outer, *ends], ["reduced"], rest.kernel())
        self.functions += [windows, after]
        return [*lines, windows.call(), after.call()]

    # What is read of the image

    def _copies(self) -> list[str]:
        """The lines that compute what a unit reads of each plane of the image."""
        s = self.schedule
        assert s.before is not None
        kept = f"image[{{row}} * {s.read_columns} + {{column}}]"
        piece = BlockLines(s.before, self.rounds, self.parameters, self.incoming, [kept])
        ends = [f"{name}_{end}" for name in (self.row, self.column) for end in ("begin", "end")]
        copy = Function(f"{self.name}_image", [*self.outer, *ends], [*self.outer_buffers, "image"], piece.kernel())
        self.functions.append(copy)
        lines = []
        for number, taps in enumerate(self._taps_above()):
            where = self._plane(taps)
            arguments = ", ".join(["arrays", *where, "from", "to", "left", "right"])
            buffers = [*self.outer_buffers, sum_text("image", (str(number), s.read_rows * s.read_columns))]
            call = f"{copy.name}({arguments}, {', '.join(buffers)});"
            lines.append(f"{self._if_inside(taps)}{call}")
        return lines

    def _taps_above(self) -> list[tuple[int, ...]]:
        """The planes of the image that windows hold, counted from their first along each axis before the last two."""
        return list(product(*[range(axis.window) for axis in self.windows.above]))

    def _plane(self, taps: tuple[int, ...]) -> list[str]:
        """The indices of a plane of the image."""
        first = len(self.outer) - len(taps)
        moved = zip(self.outer[first:], self.windows.above, taps, strict=True)
        return self.outer[:first] + [_place(name, axis, tap) for name, axis, tap in moved]

    def _if_inside(self, taps: tuple[int, ...]) -> str:
        """What skips a plane of padding."""
        first = len(self.outer) - len(taps)
        names = zip(self._plane(taps)[first:], self.windows.above, strict=True)
        tests = [f"(unsigned long)({text}) < {axis.extent}" for text, axis in names if axis.is_padded]
        return f"if ({' && '.join(tests)}) " if tests else ""

    # Windows

    def _windows(self) -> list[str]:
        """The function that reduces the windows of a unit, row after row."""
        has_line = self.across.window > 1 or self.across.stride > 1 or self.across.is_padded
        lines = [f"const long wide = {self.column}_end - {self.column}_begin;"]
        first = f"{self.column}_begin * {self.across.stride} - {self.across.before}"
        line = f"line[x - ({first})]" if has_line else f"reduced[({self.row} - {self.row}_begin) * wide + x - left]"
        if has_line:
            lines.append(f"{self.how.kind} line[{self.schedule.line}];")
            if self.across.is_padded:
                lines.append(f"for (long x = 0; x < {self.schedule.line}; x++) line[x] = {self.how.identity};")
        lines += braced(
            f"for (long {self.row} = {self.row}_begin; {self.row} < {self.row}_end; {self.row}++)",
            [*self._downwards(line), *(self._sideways() if has_line else [])],
        )
        return lines

    def _downwards(self, line: str) -> list[str]:
        """The lines that reduce the rows under a row of windows to one."""
        taps = [(above, tap) for above in self._taps_above() for tap in range(self.down.window)]
        value = self._joined([self._value(self._element(above, self._row(tap))) for above, tap in taps])
        whole = ["#pragma omp simd", *braced("for (long x = left; x < right; x++)", [f"{line} = {value};"])]
        padded = [axis.is_padded for axis in self.windows.axes[:-1]]
        if not any(padded):
            return whole
        inside = [
            f"{self._row(tap)} >= 0 && {self._row(tap)} < {self.down.extent}" for tap in {0, self.down.window - 1}
        ]
        for above in {self._taps_above()[0], self._taps_above()[-1]}:
            inside += [self._if_inside(above)[4:-2]] * bool(self._if_inside(above))
        parts = [f"for (long x = left; x < right; x++) {line} = {self.how.identity};"]
        for above in self._taps_above():
            step = self._step(line, self._value(self._element(above, "y")))
            first = _place(self.row, self.down, 0)
            rows = braced(
                f"for (long y = {first} > 0 ? {first} : 0; y < {first} + {self.down.reach} && "
                f"y < {self.down.extent}; y++)",
                ["#pragma omp simd", *braced("for (long x = left; x < right; x++)", [f"{line} = {step};"])],
            )
            test = self._if_inside(above).rstrip()
            parts += braced(test, rows) if test else rows
        return [*braced(f"if ({' && '.join(sorted(inside))})", whole), *braced("else", parts)]

    def _row(self, tap: int) -> str:
        return f"({_place(self.row, self.down, tap)})"

    def _sideways(self) -> list[str]:
        """The lines that reduce columns."""
        columns = [sum_text((str(tap), 1), ("x", self.across.stride)) for tap in range(self.across.window)]
        value = self._joined([f"line[{text}]" for text in columns])
        target = f"reduced[({self.row} - {self.row}_begin) * wide + x]"
        return ["#pragma omp simd", *braced("for (long x = 0; x < wide; x++)", [f"{target} = ({self.type})({value});"])]

    def _joined(self, values: list[str]) -> str:
        """The reduction of a few values as one expression."""
        return reduce(self._step, values)

    def _step(self, a: str, b: str) -> str:
        if self.how.clause == "max":
            return f"eqf_max_{ops.suffix(self.dtype)}({a}, {b})"
        return f"({self.how.step.format(a=a, b=b)})"

    def _value(self, text: str) -> str:
        return f"({self.how.kind})({text})"

    def _element(self, above: tuple[int, ...], row: str) -> str:
        """The element of the image in column x of a row, in a plane under the windows."""
        s = self.schedule
        if s.before is not None:
            number = self._taps_above().index(above)
            down = (f"({row} - from)", s.read_columns)
            return f"image[{sum_text((str(number), s.read_rows * s.read_columns), down, 'x - left')}]"
        access = self.windows.in_place
        assert access is not None
        leaf = self.parameters.leaf(self.windows.image.body.outputs[0])
        *outer, by_row, by_column = access.strides
        indices = [(f"({text})", step) for text, step in zip(self._plane(above), outer, strict=True)]
        index = sum_text((str(access.offset), 1), *indices, (row, by_row), ("x", by_column))
        return ops.value_read(self.dtype, f"{leaf}[{index}]")


def _place(name: str, axis: Axis, tap: int) -> str:
    """The index of the image under element `tap` of a window."""
    offset = tap * axis.dilation - axis.before
    text = sum_text((name, axis.stride))
    return f"{text} {'-' if offset < 0 else '+'} {abs(offset)}" if offset else text


def _read(low: str, high: str, name: str, axis: Axis) -> list[str]:
    """The lines that find which indices of the image the windows of a unit hold."""
    first, last = f"{name}_begin", f"({name}_end - 1)"
    begin, end = _place(first, axis, 0), f"{_place(last, axis, axis.window - 1)} + 1"
    if axis.is_padded:
        begin, end = f"{begin} > 0 ? {begin} : 0", f"{end} < {axis.extent} ? {end} : {axis.extent}"
    return [f"const long {low} = {begin};", f"const long {high} = {end};"]
