"""Which nodes, extents and constants of one graph stand for which of another that computes the same at other sizes.

In: two graphs, read side by side. Out: a `Correspondence`, which gives for a node that laws made of the one what would
stand for it in the other. It is only evidence: whoever follows it proves what comes of it. `NoTransfer` says why
there is none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from eqfuse.ir.graph import Graph, Node, node
from eqfuse.ops import row
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType

NO_EXTENTS = ("axis", "axes")  # attributes whose numbers are never sizes


class NoTransfer(Exception):
    """The plan does not fit this size; the message says why."""


class Ambiguity(NoTransfer):
    """Two extents or constants are one number at the size of the plan: one made at another size may do."""


class Correspondence:
    """Which node, extent and constant of one trace stand for which of another. NoTransfer where they differ."""

    def __init__(self, old: Graph, new: Graph) -> None:
        self._nodes: dict[Node, Node] = {}
        self._extents: dict[int, int] = {0: 0, 1: 1}
        self._unclear: set[int] = set()
        self._literals: dict[Literal, Literal] = {}
        if len(old.inputs) != len(new.inputs) or len(old.outputs) != len(new.outputs):
            raise NoTransfer("the function has other inputs or results at this size")
        for pair in (*zip(old.inputs, new.inputs, strict=True), *zip(old.outputs, new.outputs, strict=True)):
            self._align(*pair)

    def _align(self, old: Node, new: Node) -> None:
        stack = [(old, new)]
        while stack:
            a, b = stack.pop()
            partner = self._nodes.get(a)
            if partner is not None:
                if partner is not b:
                    raise Ambiguity(f"two values that are one {a.op} at the planned size differ at this one")
                continue
            if a.op != b.op or len(a.args) != len(b.args) or a.dtype != b.dtype or len(a.shape) != len(b.shape):
                raise NoTransfer(f"the function computes {_described(b)} where it had {_described(a)}")
            self._nodes[a] = b
            for m, n in zip(a.shape, b.shape, strict=True):
                self._extent(m, n)
            if a.op == "const":
                self._literals[a.literal] = b.literal
            elif a.op != "input":
                self._pair(a, a.attrs, b.attrs)
            stack.extend(zip(a.args, b.args, strict=True))

    def _pair(self, where: Node, a: Hashable, b: Hashable) -> None:
        """Note which numbers of one attribute stand for which of the other."""
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            for m, n in zip(a, b, strict=True):
                self._pair(where, m, n)
        elif type(a) is int and type(b) is int:
            self._extent(a, b)
        elif a != b:
            raise NoTransfer(f"an attribute of {where.op} is {b} where it was {a}")

    def _extent(self, a: int, b: int) -> None:
        if self._extents.setdefault(a, b) != b:
            self._unclear.add(a)

    def compute(self, folds: Iterable[tuple[str, tuple, tuple[Literal, ...], Literal]]) -> None:
        """Follow the constants that laws computed from the program's own."""
        if all(a == b for a, b in self._literals.items()):
            return
        for op, attrs, args, value in folds:
            if value not in self._literals and any(a in self._literals for a in args):
                arrays = [self._literals.get(a, a).array for a in args]
                with np.errstate(all="ignore"):
                    array = row(op).meaning(*arrays, *(self._attribute(a) for a in attrs))
                self._literals[value] = Literal(np.asarray(array))

    def node(self, old: Node) -> Node:
        """The node that stands for `old`: a node of the trace, or one that a law made from it."""
        stack = [old]
        while stack:
            n = stack[-1]
            missing = [a for a in n.args if a not in self._nodes]
            if n in self._nodes or not missing:
                stack.pop()
            if n not in self._nodes:
                if missing:
                    stack.extend(missing)
                else:
                    self._nodes[n] = self._counterpart(n)
        return self._nodes[old]

    def _counterpart(self, n: Node) -> Node:
        if n.op == "const":
            return node("const", (), (self._literals.get(n.literal, n.literal),))
        names = n.row.attrs
        attrs = [a if name in NO_EXTENTS else self._attribute(a) for name, a in zip(names, n.attrs, strict=True)]
        return node(n.op, (self._nodes[a] for a in n.args), attrs)

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._attribute(v) for v in value)
        return self._number(value) if type(value) is int else value

    def _number(self, value: int) -> int:
        """The number that stands for `value`: an extent, a product of extents, or the number itself."""
        if value in self._unclear:
            raise Ambiguity(f"{value} stands for two extents at the planned size")
        if value in self._extents:
            return self._extents[value]
        for a, b in self._extents.items():
            if 1 < a < value and a != b and value % a == 0 and a not in self._unclear:
                return b * self._number(value // a)
        return value


def _described(n: Node) -> str:
    return f"{n.op} of {TensorType(n.dtype, n.shape)}"
