"""Where the largest and the smallest values lie: the lines of argmax and argmin in the loops of a kernel.

In: the name of an accumulator, and how it goes on (`ops.Reduction`). Out: lines of C. Next stop: `lines.py`.
Vectors find the best value of a run and keep the run's values; where it beats those before, its place among them is
looked up. In loops over several results each has its best value and its place. The first NaN is best of all, then the
first of equal values.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqfuse.emit.c.ops import Reduction


@dataclass(frozen=True)
class Places:
    """`name`: what the best value is called, `name`_at its place; `kind`: the C type of values, `suffix` of functions,
    `index` of places in columns."""

    name: str
    kind: str
    suffix: str
    index: str
    how: Reduction

    @property
    def better(self) -> str:
        return "<" if self.how.clause == "min" else ">"

    def begun(self) -> list[str]:
        """The lines before a loop of vectors along the values."""
        nan = [f"int {self.name}_nan = 0;"] * bool(self.how.nan)
        return [f"{self.kind} {self.name} = {self.how.identity};", f"long {self.name}_at = 0;", *nan]

    def run_begun(self, length: int) -> list[str]:
        nan = [f"int {self.name}_run_nan = 0;"] * bool(self.how.nan)
        return [f"{self.kind} {self.name}_run = {self.how.identity}, {self.name}_values[{length}];", *nan]

    def step(self, value: str, place: str) -> list[str]:
        """`place`: of the value in its run."""
        run = f"{self.name}_run"
        nan = [f"{run}_nan |= {value} != {value};"] * bool(self.how.nan)
        how = self.how.quick or self.how.step
        return [f"{self.name}_values[{place}] = {value};", f"{run} = {how.format(a=run, b=value)};", *nan]

    def run_ended(self, first: str) -> list[str]:
        """`first`: the place of the first value of the run."""
        name, run = self.name, f"{self.name}_run"
        line = f"{name}_at = {first} + eqf_place_{self.suffix}({name}_values, {name});"
        if not self.how.nan:
            return [f"if ({run} {self.better} {name}) {{", f"    {name} = {run};", f"    {line}", "}"]
        return [
            f"if (!{name}_nan && ({run}_nan || {run} {self.better} {name})) {{",
            f"    {name}_nan = {run}_nan;",
            f"    {name} = {run}_nan ? {self.how.nan} : {run};",
            f"    {line}",
            "}",
        ]

    def columns_begun(self, head: str, width: int, column: str) -> list[str]:
        """The lines before loops over `width` results."""
        name = self.name
        return [
            f"{self.kind} {name}[{width}];",
            f"{self.index} {name}_at[{width}];",
            f"{head} {name}[{column}] = {self.how.identity}, {name}_at[{column}] = 0;",
        ]

    def column_step(self, value: str, place: str, column: str) -> list[str]:
        name, best = self.name, f"{self.name}[{column}]"
        new = f"{value} {self.better} {best}"
        if self.how.nan:
            new = f"({new}) | (({value} != {value}) & ({best} == {best}))"
        return [
            f"const int {name}_new = {new};",
            f"{name}_at[{column}] = {name}_new ? {place} : {name}_at[{column}];",
            f"{best} = {name}_new ? {value} : {best};",
        ]
