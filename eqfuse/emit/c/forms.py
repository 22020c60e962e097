"""The forms of a body: what one text of its loops can run, of all cells of its space.

In: a body with views on leaves alone, and its space. Out: `Form`s. Next stop: `schedule.py`.
A body that joins no arrays has one form, of one cell. Where arrays are joined, cells that compute alike differ in
where they read, which loops look up in a table; vectors want strides that are known, so that cells of other strides
have another form, but for small cells, whose strides stand in the table too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from eqfuse.emit.c.cells import Cell, CellBox, Read, cells_of, check_few, is_map
from eqfuse.emit.c.nest import Access, Nest, access
from eqfuse.emit.c.passes import Branch, Pass, Strip, is_gather, is_known_number, is_load, is_reduction
from eqfuse.ir.graph import Graph, Node, topological
from eqfuse.ir.views import leaf_chain
from eqfuse.ops.types import Shape

GATHERED_STEP = 1 << 20  # elements from one place that is gathered to the next, as loops see it
SMALL_SHARE = 32  # a cell with a smaller share of the space than one in as many has strides that are looked up

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Form:
    """`body`: what its cells compute, of elements of `reads`, by cell, the largest first; `numbers` and `boxes` of
    these; `reductions` in the order of the whole body. When the nest is known, `passes`, the dimensions along which
    each value differs, `varying`, `strips`, each behind those that it reads, and `branches`."""

    body: Graph
    reductions: tuple[Node, ...]
    reads: tuple[dict[Node, Read], ...]
    numbers: tuple[int, ...] = (0,)
    boxes: tuple[CellBox, ...] = ()
    passes: tuple[Pass, ...] = ()
    varying: dict[Node, frozenset[int]] = field(default_factory=dict)
    strips: tuple[Strip, ...] = ()
    branches: tuple[Branch, ...] = ()

    @property
    def arrays(self) -> dict[Node, Read]:
        """Those of the largest cell."""
        return self.reads[0]

    @cached_property
    def gathered(self) -> frozenset[Node]:
        """What stands for arrays of which elements are gathered."""
        return frozenset(n for n, read in self.arrays.items() if read.extent)

    @property
    def touched(self) -> dict[Node, Access]:
        """Where the largest cell reads each array. What is gathered lies far apart along the axes of its places."""
        accesses = {n: read.access for n, read in self.arrays.items()}
        for n in self.body.nodes:
            if not is_gather(n) or is_gather(n.args[1]):
                continue
            own = accesses[n.args[0]]
            places = [accesses[m].strides for m in topological([n.args[1]]) if m in accesses and m not in self.gathered]
            along = [max(map(abs, each)) for each in zip(*places, strict=True)] if places else own.strides
            strides = tuple(s or GATHERED_STEP * far for s, far in zip(own.strides, along, strict=True))
            accesses[n.args[0]] = Access(own.offset, strides)
        return accesses

    def read_in(self, number: int) -> set[Node]:
        """The arrays that pass number `number` reads."""
        nodes = [*self.passes[number].nodes, *[n for strip in self.strips for n in strip.nodes]]
        return {reads[n].leaf for reads in self.reads for n in nodes if n in reads}

    def by_cell(self, n: Node, quantity: Callable[[Read], T]) -> list[T]:
        """Of what is read as `n`, in each cell."""
        return [quantity(reads[n]) for reads in self.reads]

    def varies(self, n: Node, nest: Nest) -> frozenset[int]:
        """The dimensions along which what is read as `n` differs."""
        joined = self.arrays[n].seams
        seams = frozenset([d for d, dim in enumerate(nest.dims) if not joined.isdisjoint(dim.axes)] if joined else ())
        return seams.union(*[nest.varies(a) for a in {reads[n].access for reads in self.reads}])


def _reads_in(first: Cell, cell: Cell, is_loose: bool) -> dict[Node, Read] | None:
    """What `cell` reads in the form that `first` is the first cell of, if that can run it. Strides along an axis on
    which the cell has one index are those of the others; of a loose form others may differ."""
    if cell.body.outputs != first.body.outputs:
        return None
    ones = {axis: low for axis, (low, high) in enumerate(cell.box) if high - low == 1}
    reads = {}
    for n, read in cell.reads.items():
        strides, own = first.reads[n].access.strides, read.access.strides
        if own != strides:
            if not is_loose and any(a != strides[axis] and axis not in ones for axis, a in enumerate(own)):
                return None
            read = _with_strides(read, ones, strides)
        reads[n] = read
    return reads


def _with_strides(read: Read, ones: Mapping[int, int], strides: Sequence[int]) -> Read:
    offset, own = read.access.offset, [*read.access.strides]
    for axis, low in ones.items():
        offset += (own[axis] - strides[axis]) * low
        own[axis] = strides[axis]
    return Read(read.leaf, Access(offset, tuple(own)), read.seams, read.extent, read.stride)


def forms_of(body: Graph, space: Shape) -> list[Form]:
    """UnsupportedOp where there are too many."""
    if not any(map(is_map, body.nodes)):
        reads = {n: Read(leaf_chain(n)[0], access(n, space)) for n in _loaded(body) if not is_known_number(n)}
        reductions = tuple(n for n in body.nodes if is_reduction(n))
        return [Form(body, reductions, (reads,), boxes=(tuple([(0, n) for n in space]),))]
    cells = cells_of(body, space)
    total = sum(cell.size for cell in cells)
    groups: list[tuple[Cell, bool, dict[int, dict[Node, Read]]]] = []  # the first cell, is it loose, reads by number
    for number, cell in sorted(enumerate(cells), key=lambda each: -each[1].size):
        for first, is_loose, by_cell in groups:
            if (cell_reads := _reads_in(first, cell, is_loose)) is not None:
                by_cell[number] = cell_reads
                break
        else:
            groups.append((cell, cell.size * SMALL_SHARE < total, {number: cell.reads}))
    check_few([len(first.body.nodes) for first, *_ in groups])
    return [
        Form(first.body, first.reductions, (*by_cell.values(),), (*by_cell,), tuple([cells[i].box for i in by_cell]))
        for first, _, by_cell in groups
    ]


def _loaded(body: Graph) -> list[Node]:
    """The leaves, behind their views, that are read."""
    readers = [n for n in body.nodes if not is_load(n)]
    return [a for a in dict.fromkeys([*(a for n in readers for a in n.args), *body.outputs]) if is_load(a)]

