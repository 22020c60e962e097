"""The lines of reductions: how one begins, its step, and the loop of vectors over a run that it is reduced by.

In: a form of `Loops`, and its passes. Out: lines of C. Next stop: `lines.py`.
A column has a variable for each of its elements. In a row the vectors of the loop are combined at its end; the sum of
many elements is one of runs, which are added in pairs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import FAR_FLAG, MISSED, braced
from eqfuse.emit.c.fission import fission
from eqfuse.emit.c.loops import partial_dtype
from eqfuse.emit.c.nest import AXES
from eqfuse.emit.c.passes import Pass
from eqfuse.emit.c.scans import Scans
from eqfuse.ir.graph import Node, topological

AHEAD = 64  # bytes of a cache line
PAIR_BYTES = 2048  # of a run whose sum is one vector of sums; those of runs are added in pairs


class Reductions(Scans):
    """The arrays that loops fill are declared by the number of the pass that fills them first."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._declared: dict[int, list[str]] = {}

    def declared(self, number: int) -> list[str]:
        """The arrays that pass `number` is the first to fill."""
        return self._declared.get(number, [])

    def _rows(self, p: Pass) -> list[tuple[Node, ops.Reduction, str, str]]:
        return [(n, *self.reduction(n)) for n in p.reductions]

    def _reduce(self, p: Pass, inner: list[str]) -> None:
        """Adds the steps of reductions to the innermost loop."""
        for n, how, kind, name in self._rows(p):
            value = self.value(n.args[0], "inner")
            if how.places:
                self._reduce_place(n, value, inner)
                continue
            if ops.computing_type(n.args[0].dtype) != kind and how.clause in "+*":
                value = f"({kind}){value}"
            summed = f"{name}_run" if self._is_paired(how) else self.accumulated(name)
            step = how.step if self.nest.by_columns else how.quick or how.step
            inner.append(f"{summed} = {step.format(a=summed, b=value)};")
            if how.nan and not self.nest.by_columns:
                inner.append(f"{name}_nan |= {value} != {value};")
            self.results[n] = self.result(n, self.accumulated(name))

    def _reduce_place(self, n: Node, value: str, inner: list[str]) -> None:
        """The same of a reduction that finds a place."""
        lines, kind = self.places(n), ops.computing_type(n.dtype)
        if self.nest.by_columns:
            (index,) = (AXES[d] for d in self.nest.inside)
            inner += lines.column_step(value, index, self.column())
            self.results[n] = f"({kind}){lines.name}_at[{self.column()}]"
        else:
            inner += lines.step(value, f"{AXES[self.nest.vector]} - {self._first_of_run}")
            self.results[n] = f"({kind}){lines.name}_at"

    @property
    def _first_of_run(self) -> str:
        """The index at which a run of vectors begins."""
        return self.cell_ends(self.nest.vector)[0] if self.nest.runs.block <= self.run else "run"

    def around(self, number: int) -> tuple[list[str], list[str]]:
        """The lines before and after the loops of pass `number`, which begin and end its reductions."""
        before = self.scans_begun(self.form.passes[number])
        after: list[str] = []
        rows = self._rows(self.form.passes[number])
        for n, how, kind, name in rows:
            if how.places:
                before += self._places_begun(n)
                continue
            accumulator = self.accumulated(name)
            if how.nan and not self.nest.by_columns:
                before.append(f"int {name}_nan = 0;")
                after.append(f"{name} = {name}_nan ? {how.nan} : {name};")
            if self.nest.by_columns:
                before.append(f"{kind} {name}[{self.nest.runs.block}];")
                before.append(f"{self.loop_head(self.nest.vector, whole=True)} {accumulator} = {how.identity};")
            elif self._is_paired(how):
                before.append(f"{kind} {name}_sums[{ops.SUMS_WAITING}];")
                after.append(f"{kind} {name} = eqf_total_{self.suffix(n)}({name}_sums, runs{number});")
            else:
                before.append(f"{kind} {name} = {how.identity};")
            after += self._finished(n, accumulator)
        if any(self._is_paired(how) for _, how, _, _ in rows):
            before.append(f"long runs{number} = 0;")
        return before, after

    def _places_begun(self, n: Node) -> list[str]:
        lines, vector = self.places(n), self.nest.vector
        if self.nest.by_columns:
            return lines.columns_begun(self.loop_head(vector, whole=True), self.nest.runs.block, self.column())
        return lines.begun()

    def _finished(self, n: Node, sum_text: str) -> list[str]:
        """The lines that make of sums what the program has, or keep those of a part."""
        if self.schedule.split is not None:
            lines = [f"{self.part(n)} = {sum_text};", *self._anchored(n, sum_text)]
        else:
            text = self.as_stored(n, sum_text)
            lines = [f"{sum_text} = {text};"] * (text != sum_text)
        return [f"{self.loop_head(self.nest.vector, whole=True)} {line}" if self.nest.by_columns else line
                for line in lines]  # fmt: skip

    def _anchored(self, n: Node, sum_text: str) -> list[str]:
        """What stands for the result of a part where later reductions need it."""
        cascade = self.schedule.cascade
        if cascade is None or n not in cascade.anchors:
            return []
        texts = {cascade.parts[n]: sum_text, cascade.count: self.count_of_part()}
        for m in topological((cascade.anchors[n],)):
            if m not in texts:
                values = [texts[a] for a in m.args]
                text = ops.expression(m.op, [a.dtype for a in m.args], values) if m.args else self.parameters.leaf(m)
                texts[m] = f"({text})"
        return [f"{sum_text} = {texts[cascade.anchors[n]]};"]

    def _is_paired(self, how: ops.Reduction) -> bool:
        """Is it a sum of several runs that are added in pairs?"""
        return how.pairwise and not self.nest.by_columns and (self._between > 1 or self.nest.runs.block > self.run)

    @property
    def _between(self) -> int:
        """Turns of the loops between a unit's and that of the vectors."""
        return math.prod(self.nest.dims[d].block for d in self.nest.inside)

    @property
    def run(self) -> int:
        """Elements whose sum is one vector of sums."""
        return PAIR_BYTES // max([partial_dtype(n).itemsize for n in self.form.reductions], default=4)

    def simd(self, reduced: Sequence[tuple[str, str]], lines: list[str]) -> str:
        """What lets the loop over `lines` be one of vectors, with variables that are `reduced`, by operator."""
        flags = [flag for flag in (MISSED, FAR_FLAG) if any(line.lstrip().startswith(f"{flag} ") for line in lines)]
        variables = [*reduced, *[("|", flag) for flag in flags]]
        return " ".join(["#pragma omp simd", *[f"reduction({clause} : {name})" for clause, name in variables]])

    def over(self, lines: list[str], first: str, last: str, reduced: Sequence[tuple[str, str]] = ()) -> list[str]:
        """A loop of vectors, with variables that are `reduced`."""
        name = AXES[self.nest.vector]
        return [self.simd(reduced, lines), *braced(f"for (long {name} = {first}; {name} < {last}; {name}++)", lines)]

    def vectors(
        self, p: Pass, inner: list[str], first: str, last: str, reduced: Sequence[tuple[str, str]] = ()
    ) -> list[str]:
        """The same over `inner`, which is all that a pass computes for an element."""
        return self.over(inner, first, last, reduced)

    def _vector_loop(self, p: Pass, inner: list[str], number: int) -> list[str]:
        (first, last), steps = self.cell_ends(self.nest.vector), self.steps.intersection(inner)
        if self.nest.by_columns or not (p.reductions or steps):
            return self.vectors(p, inner, first, last)
        rows = self._rows(p)
        names = [(how.clause, f"{name}_run" if self._is_run(how) else name) for _, how, _, name in rows]
        names += [("|", f"{name}_run_nan" if how.places else f"{name}_nan") for _, how, _, name in rows if how.nan]
        runs = [row for row in rows if self._is_run(row[1])]
        exit_condition = "" if p.outputs or p.held else self._early_end(rows)
        if not runs and not exit_condition and not steps:
            return self.vectors(p, inner, first, last, names)
        started, ended = self._runs(runs, number)
        run = self.run
        if self.nest.runs.block <= run:
            return [*started, *self._turns(p, inner, first, last, names, number), *ended]
        end = f"run + {run} < {last} ? run + {run} : {last}"
        inside = self._turns(p, inner, "run", "end", names, number)
        inside = [*self._fetched_ahead(number), *inside]
        going_on = f"run < {last}" + f" && !({exit_condition})" * bool(exit_condition)
        return braced(f"for (long run = {first}; {going_on}; run += {run})",
                     [f"const long end = {end};", *started, *inside, *ended])  # fmt: skip

    def _fetched_ahead(self, number: int) -> list[str]:
        """In the last pass over a part of a cascade, what fetches the next part from memory, so that its first pass
        does not wait; behind the last part, where nothing may be, it does nothing."""
        is_last, along = number == len(self.form.passes) - 1, self.schedule.split == self.nest.vector
        if self.schedule.cascade is None or not (is_last and along):
            return []
        name, block = AXES[self.nest.vector], self.nest.runs.block
        lines = []
        for n in self.form.passes[0].nodes:
            if n in self.form.arrays and self.nest.runs.step(self.form.arrays[n].access) == 1:
                line = AHEAD // n.dtype.itemsize
                text = "".join(self.element(n))
                head = f"for (long {name} = run; {name} < end; {name} += {line})"
                lines += braced(head, [f"__builtin_prefetch(&{text} + {block}, 0, 2);"])
        return lines

    def _turns(
        self, p: Pass, inner: list[str], first: str, last: str, reduced: list[tuple[str, str]], number: int
    ) -> list[str]:
        """Loops of vectors over a run, and between them those of scans."""
        if self.steps.isdisjoint(inner):
            return self.vectors(p, inner, first, last, reduced)
        name = AXES[self.nest.vector]
        head, place = f"for (long {name} = {first}; {name} < {last}; {name}++)", f"{name} - {self._first_of_run}"
        pieces, kept = fission(inner, self.steps, place)
        length = min(self.run, self.nest.runs.block)
        self._declared.setdefault(number, []).extend([f"{kind} {name}[{length}];" for name, kind in kept.items()])
        lines: list[str] = []
        for piece in pieces:
            words = set(re.findall(r"\w+", "\n".join(piece.lines)))
            variables = [each for each in reduced if each[1] in words]
            lines += [] if piece.is_scan else [self.simd(variables, piece.lines)]
            lines += braced(head, piece.lines)
        return lines

    def _early_end(self, rows: Sequence[tuple[Node, ops.Reduction, str, str]]) -> str:
        """When the results of `rows` are known before their end; nothing if that is not said."""
        tests = [f"{name} != {how.identity}" for _, how, _, name in rows if how.ends]
        return " && ".join(tests) * (len(tests) == len(rows))

    def _is_run(self, how: ops.Reduction) -> bool:
        """Is it reduced run by run?"""
        return how.places or self._is_paired(how)

    def _runs(self, rows: list[tuple[Node, ops.Reduction, str, str]], number: int) -> tuple[list[str], list[str]]:
        """The lines before and after a run of vectors."""
        started: list[str] = []
        ended: list[str] = []
        for n, how, kind, name in rows:
            if how.places:
                lines = self.places(n)
                started += lines.run_begun(min(self.run, self.nest.runs.block))
                ended += lines.run_ended(self._first_of_run)
            else:
                started.append(f"{kind} {name}_run = 0;")
                ended.append(f"eqf_push_{self.suffix(n)}({name}_sums, runs{number}, {name}_run);")
        if any(self._is_paired(how) for _, how, _, _ in rows):
            ended.append(f"runs{number}++;")
        return started, ended
