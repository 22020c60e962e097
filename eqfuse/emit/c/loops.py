"""What a body computes over a nest of loops: the passes of its forms, along which dimensions values differ.

In: a body with views on leaves alone, its forms and nest. Out: `Loops`. Next stop: `schedule.py` or `product/`, which
price them, and `lines.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from eqfuse.emit.c.forms import Form
from eqfuse.emit.c.nest import Access, Nest, aligned
from eqfuse.emit.c.ops import ctype
from eqfuse.emit.c.passes import Pass, is_load, is_reduction, is_scan, passes_of
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import TooManyCopies, may_be_pushed, push_views
from eqfuse.kinds.cascade import Cascade
from eqfuse.ops.types import Shape, TensorType

HELD = 256 << 10  # bytes of values of a unit that are kept between passes, at most


@dataclass(frozen=True, eq=False, kw_only=True)
class Loops:
    """`body`: what is computed, with views on leaves alone; `forms`: how, by the cells of the space; `seams`: the
    places along dimensions where cells begin, and where the last one ends; `written`: where the elements of each output
    lie. `split`: a reduced dimension of which units take blocks, whose results are joined at last; `cascade`: how,
    where later reductions need earlier ones; `streamed`: the numbers of the outputs that pass by the caches."""

    body: Graph
    space: Shape
    nest: Nest
    forms: tuple[Form, ...]
    written: tuple[Access, ...]
    seams: dict[int, tuple[int, ...]] = field(default_factory=dict)
    split: int | None = None
    cascade: Cascade | None = None
    streamed: frozenset[int] = frozenset()

    @property
    def passes(self) -> tuple[Pass, ...]:
        """Those of the form that most of the space has; the others have like ones."""
        return self.forms[0].passes

    @property
    def units(self) -> int:
        return self.nest.elements if self.nest.is_line else self.nest.units

    @property
    def chunks(self) -> int:
        """Into how many chunks the units are cut."""
        return 1

    @property
    def is_by_rows(self) -> bool:
        """Does a turn of the vector loop compute whole rows, of which each element is in a known cell?"""
        return False

    @property
    def has_conflicts(self) -> bool:
        """May two turns of the loop of vectors update the same element?"""
        return False

    @property
    def parts(self) -> int:
        """Into how many parts each row is split."""
        return 1 if self.split is None else self.nest.dims[self.split].blocks

    @property
    def reductions(self) -> list[Node]:
        return [n for p in self.passes for n in p.reductions]

    @property
    def workspaces(self) -> list[TensorType]:
        """The results of parts, by reduction; of a cascade, then what each adds to the whole."""
        if self.split is None:
            return []
        partials = [TensorType(partial_dtype(n), (self.parts, max(1, n.type.size))) for n in self.reductions]
        return partials if self.cascade is None else partials * 2

    @property
    def held_bytes(self) -> int:
        """Bytes of a unit that are kept between passes."""
        return _held_bytes(self.forms, self.nest)

    @property
    def overlays(self) -> Mapping[Node, frozenset[int]]:
        """By input, the outputs that may lie over it: of the input, each place is read alone by what writes there, and
        nowhere after it. What a pass reads of an element is read before it writes there."""
        leaves = {read.leaf for form in self.forms for reads in form.reads for read in reads.values()}
        return {n: frozenset(j for j in range(len(self.written)) if self._may_lie_over(j, n)) for n in leaves}

    def _may_lie_over(self, j: int, leaf: Node) -> bool:
        output, place = self.body.outputs[j], self.written[j]
        if (output.dtype, output.type.size) != (leaf.dtype, leaf.type.size):
            return False
        if self.split is not None and output.shape == self.space:
            return False
        for form in self.forms:
            reads = [read for each in form.reads for read in each.values() if read.leaf is leaf]
            if any(read.access != place or read.extent or read.seams for read in reads):
                return False
            last = next((i for i, p in enumerate(form.passes) if j in p.outputs), -1)
            if form.strips or any(leaf in form.read_in(i) for i in range(last + 1, len(form.passes))):
                return False
        return True

    def writes_all(self, p: Pass) -> bool:
        """Does a pass write results of full size?"""
        return any(self.body.outputs[j].shape == self.space for j in p.outputs)


def pushed(body: Graph) -> Graph:
    """`body` with views on leaves alone."""
    if not any(map(may_be_pushed, body.nodes)):
        return body
    try:
        return push_views(body)
    except TooManyCopies:
        raise UnsupportedOp("its views would repeat its work too often: store a result first") from None


def result_access(output: Node, space: Shape, axes: Sequence[int], strides: Sequence[int] = ()) -> Access:
    """Where an output over `space`, of which `axes` are reduced, is written: with `strides`, or in order."""
    shape = tuple(1 if a in axes else n for a, n in enumerate(space))
    if output.shape not in (space, shape):
        raise UnsupportedOp(f"a c kernel over {space} writes results of that shape or of {shape}")
    return aligned(0, strides or contiguous(output.shape), output.shape, space)


def with_passes(forms: Sequence[Form], nest: Nest, writes: bool = True) -> tuple[Form, ...]:
    """`forms` with their passes, which hold what is dear from one to the next, if that is not too much; `writes`: the
    results too, where reductions are not joined before."""
    planned = tuple([_with_passes(form, nest, True, writes) for form in forms])
    if _held_bytes(planned, nest) > HELD:
        return tuple([_with_passes(form, nest, False, writes) for form in forms])
    return planned


def _with_passes(form: Form, nest: Nest, hold: bool, writes: bool) -> Form:
    varying = _varying(form, nest)

    def differs(n: Node) -> bool:
        return nest.vector in varying[n] and not varying[n].isdisjoint(nest.reduced)

    passes = passes_of(form.body, differs, hold, writes)
    if len(form.reductions) > 1:
        passes = tuple([replace(p, reductions=tuple(n for n in form.reductions if n in p.reductions)) for p in passes])
    return replace(form, passes=passes, varying=varying)


def _varying(form: Form, nest: Nest) -> dict[Node, frozenset[int]]:
    """The dimensions along which each value differs."""
    dimensions: dict[Node, frozenset[int]] = {}
    every, arrays = frozenset(range(len(nest.dims))), form.arrays
    kept = every - nest.reduced
    for n in form.body.nodes:
        if n in arrays:
            dimensions[n] = form.varies(n, nest)
        elif is_load(n):
            dimensions[n] = frozenset()
        elif is_scan(n):
            dimensions[n] = every
        elif is_reduction(n):
            dimensions[n] = kept
        else:
            first, *others = [dimensions[a] for a in n.args]
            dimensions[n] = first.union(*others) if any(along != first for along in others) else first
    return dimensions


def held_elements(nest: Nest) -> int:
    """Elements of a value that is kept for every element of a unit."""
    loops = {*nest.inside, nest.vector}
    return max(1, math.prod(nest.dims[d].block for d in loops))


def partial_dtype(n: Node) -> np.dtype:
    """The dtype of the result of a part of reduction `n`, unrounded."""
    return np.dtype(np.float32) if ctype(n.dtype).computed == "float" else n.dtype


def _held_bytes(forms: Sequence[Form], nest: Nest) -> int:
    """Bytes of a unit that are kept between passes."""
    held = [n for form in forms for p in form.passes for n in p.held]
    return held_elements(nest) * sum(max(4, n.dtype.itemsize) for n in held)
