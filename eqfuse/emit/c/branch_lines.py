"""The loops of a map or a reduction with branches: a block of elements after another, each of which is looked at first.

In: a form with `Branch`es. Out: lines of C. Next stop: `writer.py`.
Names: y: values of a branch; f: what elements read that are computed alone, or what they are; asks, many: who asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eqfuse.emit.c import ops
from eqfuse.emit.c.branches import APART, LANES
from eqfuse.emit.c.element import braced, indented
from eqfuse.emit.c.lines import Lines
from eqfuse.emit.c.nest import AXES
from eqfuse.emit.c.passes import Branch, Pass, is_load, needed
from eqfuse.ir.graph import Node

BLIND_BLOCKS = 7  # that are taken for such as one before them, of which many elements ask for every branch
LANE_LOOP = "for (long lane = 0; lane < {count}; lane++)"


class BranchLines(Lines):
    """`alone`: where what elements read stands while they are computed alone; `many`: the name of the number of blocks
    to come of which many elements are taken to ask."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.alone: dict[Node, str] = {}
        self.many = ""

    @property
    def run(self) -> int:
        return min(super().run, LANES) if self.form.branches else super().run

    def vectors(
        self, p: Pass, inner: list[str], first: str, last: str, reduced: Sequence[tuple[str, str]] = ()
    ) -> list[str]:
        if not self.form.branches or p is not self.form.passes[0]:
            return super().vectors(p, inner, first, last, reduced)
        many = self.many = self.counts.name("many")
        named = [(branch, self.counts.name("asks")) for branch in self.form.branches]
        values = {n: self.counts.name("y") for branch, _ in named for n in branch.results}
        self.top += [f"long {many} = 0;", *[f"unsigned char {asks}[{LANES}];" for _, asks in named]]
        self.top += [f"{ops.computing_type(n.dtype)} {y}[{LANES}] = {{0}};" for n, y in values.items()]
        gains = [f"({a}_count <= {b.few} ? {b.gain} - {a}_count * {b.lane} : 0)" for b, a in named]
        by_many = f"{' + '.join(gains)} <= {LANES * APART * (len(named) - 1)}"
        few: list[str] = []
        for branch, asks in named:
            if len(named) > 1:
                few += [*braced(f"if ({asks}_count > {branch.few})", self._all(branch, values)), "else"]
            few += braced(f"if ({asks}_count)", self._few(branch, asks, values))
        few += self.over(self._rest(p, values), "block", "seen", reduced)
        whole = [f"{many}--;", *self.over(inner, "block", "seen", reduced)]
        lines = [
            *[f"long {asks}_count = 0;" for _, asks in named],
            *braced(f"if (!{many})", [*self._looked(named), f"{many} = {by_many} ? {BLIND_BLOCKS + 1} : 0;"]),
            *braced(f"if ({many})", whole),
            *braced("else", few),
        ]
        if first == "run":  # which is no longer than a block
            return ["{", *indented([f"const long block = {first}, seen = {last};", *lines]), "}"]
        seen = f"const long seen = block + {LANES} < {last} ? block + {LANES} : {last};"
        return braced(f"for (long block = {first}; block < {last}; block += {LANES})", [seen, *lines])

    def _vector_loop(self, p: Pass, inner: list[str], number: int) -> list[str]:
        lines = super()._vector_loop(p, inner, number)
        # how a row is summed does not depend on the row before it, which another thread may have
        return [f"{self.many} = 0;", *lines] if self.many and p.reductions else lines

    def _rest(self, p: Pass, values: Mapping[Node, str]) -> list[str]:
        """What is computed for each element but the `values` of branches, and what becomes of it."""
        outputs = [self.form.body.outputs[j] for j in p.outputs if self._is_full(j)]
        nodes, taken = needed(self.form.body, [*outputs, *(n.args[0] for n in p.reductions)], values.keys())
        lines: list[str] = []
        for n in taken:
            self.enter(n, "inner", lines, f"{values[n]}[{self._lane}]")
        lines += self._lines_of(nodes)
        self._reduce(p, lines)
        self._outputs(p, lines, [])
        return lines

    def element(self, n: Node, place: str = "") -> tuple[str, str]:
        if n not in self.alone:
            return super().element(n, place)
        text = self.alone[n]
        return ("", text) if ops.is_half(n.dtype) else (ops.value_read(n.dtype, text), "")

    @property
    def _lane(self) -> str:
        return f"{AXES[self.nest.vector]} - block"

    def _lines_of(self, nodes: Iterable[Node]) -> list[str]:
        """The lines that load or compute `nodes` for an element; what does not differ in the loop is known."""
        places: dict[str, list[str]] = {"top": self.top, "unit": [], "inner": []}
        for n in nodes:
            own = self.place(n)
            if is_load(n):
                self._load(n, own, places, {})
            elif not self._is_known(n, own):
                self._compute(n, own, places)
        return places["inner"]

    def _looked(self, named: Sequence[tuple[Branch, str]]) -> list[str]:
        """The loop that finds which elements of a block ask for each branch, and how many."""
        conditions = [n for branch, _ in named for n, _ in branch.conditions]
        lines = self._lines_of(needed(self.form.body, conditions, set())[0])
        for branch, asks in named:
            texts = [f"{'' if wanted else '!'}{self.value(n, 'inner')}" for n, wanted in branch.conditions]
            lines.append(f"{asks}[{self._lane}] = {' & '.join(texts)};")
        counted = [f"{asks}_count = eqf_asked_u8({asks}, seen - block);" for _, asks in named]
        return [*self.over(lines, "block", "seen"), *counted]

    def _all(self, branch: Branch, values: Mapping[Node, str]) -> list[str]:
        """The loop that computes a branch for all elements of a block."""
        lines = self._lines_of(branch.nodes)
        lines += [f"{values[n]}[{self._lane}] = {self.names[n, 'inner']};" for n in branch.results]
        return self.over(lines, "block", "seen")

    def _few(self, branch: Branch, asks: str, values: Mapping[Node, str]) -> list[str]:
        """The loops that compute a branch for those elements of a block that ask for it: what each reads stands side by
        side, then what each is, which goes to its place at last."""
        head = LANE_LOOP.format(count=f"{asks}_count")
        loads = [n for n in branch.nodes if is_load(n) and self.place(n) == "inner"]
        read = {n: self.counts.name("f") for n in loads}
        results = {n: self.counts.name("f") for n in branch.results}
        declared = [f"{ops.ctype(n.dtype).stored} {f}[{branch.few}];" for n, f in read.items()]
        declared += [f"{ops.computing_type(n.dtype)} {f}[{branch.few}];" for n, f in results.items()]
        index = f"const long {AXES[self.nest.vector]} = block + at[lane];"
        moved = [f"{f}[lane] = {''.join(self.element(n))};" for n, f in read.items()]
        self.alone = {n: f"{f}[lane]" for n, f in read.items()}
        lines = self._lines_of(branch.nodes)
        self.alone = {}
        lines += [f"{f}[lane] = {self.names[n, 'inner']};" for n, f in results.items()]
        placed = [f"{values[n]}[at[lane]] = {f}[lane];" for n, f in results.items()]
        return [
            f"unsigned char at[{LANES}];", f"eqf_found_u8({asks}, seen - block, {asks}_count, at);", *declared,
            *braced(head, [index, *moved]), self.simd([], lines), *braced(head, lines), *braced(head, placed),
        ]  # fmt: skip
