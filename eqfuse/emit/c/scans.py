"""The lines of scans: what keeps a running value, how it begins, and its step.

In: a form of `Loops`, and its passes. Out: lines of C. Next stop: `lines.py`.
A column has a running value for each of its elements; in a row each step waits for the one before.
"""

from __future__ import annotations

from typing import Any

from eqfuse.emit.c import ops
from eqfuse.emit.c.element import Elements
from eqfuse.emit.c.passes import Pass, is_scan
from eqfuse.ir.graph import Node


class Scans(Elements):
    """`steps`: the lines that need the turn of the loop before theirs."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.steps: set[str] = set()

    def scans(self, p: Pass) -> list[Node]:
        return [n for n in p.nodes if is_scan(n)]

    def scan(self, n: Node, lines: list[str]) -> None:
        """Adds a step of the scan `n` to the innermost loop."""
        how, running = ops.scanned_reduction(n), self.accumulated(self._name(n))
        step = how.step.format(a=running, b=f"({how.kind}){self.value(n.args[0], 'inner')}")
        self.enter(n, "inner", lines, self.result(n, f"({running} = {self.as_stored(n, step)})"))
        self.steps.add(lines[-1])

    def scans_begun(self, p: Pass) -> list[str]:
        """The lines before the loops of a pass."""
        lines: list[str] = []
        for n in self.scans(p):
            how, name = ops.scanned_reduction(n), self._name(n)
            begun = f"{self.accumulated(name)} = {how.identity};"
            if self.nest.by_columns:
                lines.append(f"{how.kind} {name}[{self.nest.runs.block}];")
                lines.append(f"{self.loop_head(self.nest.vector, whole=True)} {begun}")
            else:
                lines.append(f"{how.kind} {begun}")
        return lines

    def _name(self, n: Node) -> str:
        return f"s{[m for m in self.form.body.nodes if is_scan(m)].index(n)}"
