"""Where a law was found to apply: which arrays its generated cases had, and what none of them had.

In: cases. Out: a line of the report, and remarks where a law whose guards say nothing of it holds on trifles alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from eqfuse.dtypes import FLOAT8, TENSORS
from eqfuse.ir.graph import Node, topological
from eqfuse.ops.row import Role
from eqfuse.rewrites.checking.cases import LawCase
from eqfuse.rewrites.language.law import Attr, Law

_ALONG = frozenset({"axes", "axis"})


@dataclass
class Coverage:
    """`ranks`: how many cases had each rank. `longest`: the most elements along any axis of each variable; `along`: and
    along those axes that each operator of the left side is told."""

    ranks: dict[int, int] = field(default_factory=dict)
    dtypes: set[np.dtype] = field(default_factory=set)
    longest: dict[str, int] = field(default_factory=dict)
    along: dict[str, int] = field(default_factory=dict)

    def add(self, case: LawCase) -> None:
        self.ranks[case.rank] = self.ranks.get(case.rank, 0) + 1
        for name, t in case.types.items():
            self.dtypes.add(t.dtype)
            self.longest[name] = max(self.longest.get(name, 0), *t.shape, 0)
        for n in topological(case.graph.outputs[: len(case.law.lefts)]):
            for extent in _extents(n):
                self.along[n.op] = max(self.along.get(n.op, 0), extent)

    def __str__(self) -> str:
        ranks = f"rank {min(self.ranks)}" + (f" to {max(self.ranks)}" if len(self.ranks) > 1 else "")
        few = [f"{name} only of one element" for name, extent in self.longest.items() if extent < 2]
        return "; ".join([f"{ranks}, {', '.join(dict.fromkeys(self._kinds()))}", *few, *self._trifles()])

    def _trifles(self) -> list[str]:
        return [f"{op} only along axes of extent 1" for op, extent in self.along.items() if extent < 2]

    def _kinds(self) -> Iterator[str]:
        for dtype in TENSORS:
            if dtype in self.dtypes:
                names = {"i": "integers", "u": "integers", "c": "complex numbers"}
                yield "float8" if dtype in FLOAT8 else names.get(dtype.kind, dtype.name)

    def remarks(self, law: Law) -> list[str]:
        """Where it holds on trifles alone, unless a guard is about the attributes that may say so."""
        said = any(isinstance(a, Attr) for g in law.when for a in g.args)
        return [] if said else [f"it applies to {trifle}: a guard could say so" for trifle in self._trifles()]


def _extents(n: Node) -> Iterator[int]:
    """How long the axes are that an operator reduces, joins or runs along."""
    if n.row.role in (Role.REDUCTION, Role.SCAN, Role.LIBRARY, Role.PIECES, Role.GATHER):
        for name, value in zip(n.row.attrs, n.attrs, strict=True):
            if name in _ALONG:
                yield from (n.args[0].shape[a] for a in (value if isinstance(value, tuple) else (value,)))
