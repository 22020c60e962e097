"""What a body computes over a nest of loops: its passes, where its arrays lie, along which dimensions values differ.

In: a body with views on leaves alone, its space and nest. Out: `Loops`. Next stop: `schedule.py` or `product/`, which
price them, and `writer.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqfuse.emit.c.nest import Access, Nest, access, aligned
from eqfuse.emit.c.ops import ctype
from eqfuse.emit.c.passes import Pass, is_load, is_reduction, passes_of
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import TooOften, leaf_chain, push_views
from eqfuse.ops import row
from eqfuse.ops.types import Shape, TensorType

HELD = 256 << 10  # bytes of values of a unit that are kept between passes, at most


@dataclass(frozen=True, eq=False, kw_only=True)
class Loops:
    """`body`: what is computed, with views on leaves alone; `arrays`: where the elements of each leaf behind its views
    lie, and `written`, of each output; `varying`: the dimensions along which each value differs. `split`: a reduced
    dimension of which units take blocks, whose results are joined at last."""

    body: Graph
    space: Shape
    nest: Nest
    passes: tuple[Pass, ...]
    arrays: dict[Node, Access]
    varying: dict[Node, frozenset[int]]
    written: tuple[Access, ...]
    split: int | None = None

    @property
    def units(self) -> int:
        return self.nest.elements if self.nest.is_line else self.nest.units

    @property
    def chunks(self) -> int:
        """Into how many chunks the units are cut."""
        return 1

    @property
    def parts(self) -> int:
        """Into how many parts each row is split."""
        return 1 if self.split is None else self.nest.dims[self.split].blocks

    @property
    def reductions(self) -> list[Node]:
        return [n for p in self.passes for n in p.reductions]

    @property
    def workspaces(self) -> list[TensorType]:
        """The results of parts, by reduction."""
        if self.split is None:
            return []
        return [TensorType(partial_dtype(n), (self.parts, max(1, n.type.size))) for n in self.reductions]

    @property
    def held_bytes(self) -> int:
        """Bytes of a unit that are kept between passes."""
        return sum(_held_bytes(self.nest, n) for p in self.passes for n in p.held)

    def writes_all(self, p: Pass) -> bool:
        """Does a pass write results of full size?"""
        return any(self.body.outputs[j].shape == self.space for j in p.outputs)


def pushed(body: Graph) -> Graph:
    """`body` with views on leaves alone."""
    if not any(n.op == "broadcast_to" or (not row(n.op).computes and n.args and row(n.args[0].op).computes)
               for n in body.nodes):  # fmt: skip
        return body
    try:
        return push_views(body)
    except TooOften:
        raise UnsupportedOp("its views would repeat its work too often: store a result first") from None


def arrays_of(body: Graph, space: Shape) -> dict[Node, Access]:
    """The leaves, behind their views, that `body` reads, but for numbers of the program, and where they lie."""
    readers = [n for n in body.nodes if not is_load(n)]
    read = [a for a in dict.fromkeys([*(a for n in readers for a in n.args), *body.outputs]) if is_load(a)]
    return {n: access(n, space) for n in read if _is_array(n)}


def place_of(output: Node, space: Shape, axes: Sequence[int]) -> Access:
    """Where an output over `space`, of which `axes` are reduced, is written."""
    shape = tuple(1 if a in axes else n for a, n in enumerate(space))
    if output.shape not in (space, shape):
        raise UnsupportedOp(f"a c kernel over {space} writes results of that shape or of {shape}")
    return aligned(0, contiguous(output.shape), output.shape, space)


def varying_of(body: Graph, nest: Nest, arrays: dict[Node, Access]) -> dict[Node, frozenset[int]]:
    """The dimensions along which each value differs."""
    found: dict[Node, frozenset[int]] = {}
    kept = frozenset(range(len(nest.dims))) - nest.reduced
    for n in body.nodes:
        if n in arrays:
            found[n] = nest.varies(arrays[n])
        elif is_load(n):
            found[n] = frozenset()
        else:
            found[n] = kept if is_reduction(n) else frozenset().union(*[found[a] for a in n.args])
    return found


def held_passes(body: Graph, nest: Nest, varying: dict[Node, frozenset[int]]) -> tuple[Pass, ...]:
    """Those that hold what is dear between them, if that is not too much."""
    def differs(n: Node) -> bool:
        return nest.vector in varying[n] and not varying[n].isdisjoint(nest.reduced)

    passes = passes_of(body, differs, True)
    if sum(_held_bytes(nest, n) for p in passes for n in p.held) > HELD:
        return passes_of(body, differs, False)
    return passes


def held_elements(nest: Nest) -> int:
    """Elements of a value that is kept for every element of a unit."""
    loops = {*nest.inside, nest.vector}
    return max(1, math.prod(nest.dims[d].block for d in loops))


def partial_dtype(n: Node) -> np.dtype:
    """The dtype of the result of a part of reduction `n`, unrounded."""
    return np.dtype(np.float32) if ctype(n.dtype).computed == "float" else n.dtype


def _held_bytes(nest: Nest, n: Node) -> int:
    return held_elements(nest) * max(4, n.dtype.itemsize)


def _is_array(n: Node) -> bool:
    """Is it an array, or a view of one, and no number of the program?"""
    leaf, _ = leaf_chain(n)
    return not (leaf.op == "const" and leaf.type.size == 1)
