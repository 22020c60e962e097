"""What a step of a loop computes of its row of an array, before the loop for all rows at once.

In: what a step computes, and the arrays whose rows it reads. Out: the same, where products that read no carry have
become rows of one product before the loop, and ``z[i]`` by the index of the loop is the row itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eqfuse.frontends.numpy import tidy
from eqfuse.ir.graph import Node, input_node, node, substitute, topological
from eqfuse.ops import Role
from eqfuse.ops.fft import TRANSFORMS
from eqfuse.ops.types import TensorType

Rows = dict[Node, Node]  # the input that is a row, and the array of all rows

_VIEWS = ("reshape", "transpose", "slice", "broadcast_to")
_ALONG_AXES = {"flip", "sliding_window", *TRANSFORMS}  # which their attributes count from the last


def depending(outputs: Sequence[Node], inputs: Collection[Node]) -> set[Node]:
    """The nodes that `outputs` need and that depend on `inputs`."""
    dependent = set(inputs)
    for n in topological(outputs):
        if any(a in dependent for a in n.args):
            dependent.add(n)
    return dependent


def indexed(outputs: Sequence[Node], inputs: Collection[Node], index: Node, steps: range) -> tuple[list[Node], Rows]:
    """`outputs`, where an array that does not change, taken at the `index` of the loop, is a row of it."""
    varies = depending(outputs, [*inputs, index])
    rows: Rows = {}
    values: dict[Node, Node] = {}
    for n in topological(outputs):
        if n.op == "take" and n.args[1] is index and n.args[0] not in varies and _is_first_axis(n, steps):
            array = n.args[0]
            whole = [(0, extent, 1) for extent in array.shape[1:]]
            values[n] = input_node(f"{index.attr('name')}, row {len(rows)}", n.type)
            rows[values[n]] = tidy.slice_(array, [(steps.start, steps.stop, 1), *whole])
    return list(substitute(outputs, values)) if values else list(outputs), rows


def _is_first_axis(n: Node, steps: range) -> bool:
    array = n.args[0]
    is_first: bool = n.attr("axis") == -len(array.shape)
    return is_first and steps.start >= 0 and steps.stop <= array.shape[0]


def products_before(outputs: Sequence[Node], inputs: Collection[Node], rows: Rows) -> tuple[list[Node], Rows]:
    """`outputs`, where products of rows with what does not change, and what is computed of these, are rows of arrays
    that are computed before the loop."""
    if not rows or not next(iter(rows.values())).shape[0]:
        return list(outputs), rows
    of_rows, order = depending(outputs, rows), topological(outputs)
    batch = Batch(rows, depending(outputs, inputs))
    for n in order:
        if n in of_rows and n not in batch.arrays:
            batch.add(n)
    read = {a for n in order if n not in batch.arrays for a in n.args} | {*outputs}
    frontier = [n for n in order if n in batch.multiplied and n in read]
    values = {n: input_node(f"{next(iter(rows)).attr('name')}, product {i}", n.type) for i, n in enumerate(frontier)}
    results = list(substitute(outputs, values)) if values else list(outputs)
    left = {r: array for r, array in rows.items() if r in topological(results)}
    return results, left | {values[n]: batch.arrays[n] for n in frontier}


class Batch:
    """What is computed of rows, for all of them: `arrays`, by the node of a row. `multiplied`: those with one
    product for all rows."""

    def __init__(self, rows: Rows, varies: set[Node]) -> None:
        self.length = next(iter(rows.values())).shape[0]
        self.left = varies  # what is computed step by step
        self.arrays: Rows = dict(rows)
        self.multiplied: set[Node] = set()

    def add(self, n: Node) -> None:
        """Compute `n`, which depends on rows, for all of them, or leave it to the steps."""
        array = None if any(a in self.left for a in n.args) else self._batched(n)
        if array is None or array.type != TensorType(n.dtype, (self.length, *n.shape)):
            self.left.add(n)
            return
        self.arrays[n] = array
        if self._is_one_product(n) or any(a in self.multiplied for a in n.args):
            self.multiplied.add(n)

    def _is_one_product(self, n: Node) -> bool:
        """Is `n`, for all rows, one product of matrices? (A stack of as many takes no less time than one a step.)"""
        if n.op != "matmul":
            return False
        a, b = n.args
        return b not in self.arrays or (a not in self.arrays and b.shape[1:] == (1,))

    def _batched(self, n: Node) -> Node | None:
        role = n.row.role
        if n.op == "matmul":
            return self._product(n, *(a in self.arrays for a in n.args))
        if role is Role.ELEMENTWISE:
            return n.over([self._aligned(a, len(n.shape)) for a in n.args])
        if role in (Role.REDUCTION, Role.SCAN) or n.op in _ALONG_AXES:
            return n.over([self.arrays[a] for a in n.args])
        if n.op == "concat":
            return n.over([tidy.broadcast_to(self._aligned(a, len(a.shape)), (self.length, *a.shape)) for a in n.args])
        return self._view(n) if n.op in _VIEWS else None

    def _aligned(self, n: Node, rank: int) -> Node:
        """`n` for all rows, with `rank` axes behind the rows'; what does not change as it is."""
        if n not in self.arrays:
            return n
        return tidy.reshape(self.arrays[n], (self.length, *(1,) * (rank - len(n.shape)), *n.shape))

    def _product(self, n: Node, left: bool, right: bool) -> Node | None:
        """Rows times one matrix; a matrix times columns, each of one row, as rows times its transpose; a matrix, or
        rows, times matrices that are rows."""
        a, b = n.args
        if left and right and len(a.shape) == len(b.shape):
            return node("matmul", (self.arrays[a], self.arrays[b]))
        if left and not right and len(b.shape) == 2:
            return node("matmul", (self.arrays[a], b))
        if right and not left and len(a.shape) == 2 and b.shape[1:] == (1,):
            columns = tidy.reshape(self.arrays[b], (self.length, b.shape[0]))
            return tidy.reshape(node("matmul", (columns, tidy.transpose(a, (1, 0)))), (self.length, *n.shape))
        if right and len(a.shape) == len(b.shape) == 2:
            return node("matmul", (a, self.arrays[b]))
        return None

    def _view(self, n: Node) -> Node:
        x = self.arrays[n.args[0]]
        if n.op == "transpose":
            return tidy.transpose(x, (0, *(axis + 1 for axis in n.attr("axes"))))
        if n.op == "slice":
            return tidy.slice_(x, [(0, self.length, 1), *n.attr("ranges")])
        if n.op == "reshape":
            return tidy.reshape(x, (self.length, *n.shape))
        return tidy.broadcast_to(self._aligned(n.args[0], len(n.shape)), (self.length, *n.shape))
