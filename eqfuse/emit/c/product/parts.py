"""The parts of a body with a product, or with two in a chain: what is computed before, between and after them.

In: a body of kind contract or back_to_back. Out: `ProductParts`: a graph for each operand and one for the results, over
rows and columns; a product that a part reads is an input there. Next stop: `blocks.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from eqfuse.emit.c.forms import Form, forms_of
from eqfuse.emit.c.loops import Loops, pushed, with_passes
from eqfuse.emit.c.nest import Access, Dim, Nest, aligned, collapsed
from eqfuse.emit.c.ops import emits
from eqfuse.emit.c.passes import is_load, is_reduction
from eqfuse.emit.c.product.merged_axes import MergedAxes, merged_axes_of
from eqfuse.emit.c.product.tile import sums_dtype
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, depends_on, input_node, substitute, topological
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import leaf_chain
from eqfuse.ops import Role
from eqfuse.ops.types import Shape


@dataclass(frozen=True, eq=False)
class BlockPart:
    """What is computed over `space`, whose last two axes are those of an operand or of the results, in one `form`.
    `merged`: what the input of an operand stands for whose rows or columns are several axes of an array."""

    body: Graph
    space: Shape
    form: Form
    merged: MergedAxes | None = None

    @property
    def leaves(self) -> tuple[Node, ...]:
        """The inputs of the kernel that it reads, and what stands for results."""
        return self.body.inputs if self.merged is None else (self.merged.leaf,)

    @property
    def is_of_constants(self) -> bool:
        return all(leaf.is_constant_leaf for leaf in self.leaves)

    @property
    def elements(self) -> int:
        """Of an operand, where it lies."""
        return math.prod(self.space) if self.merged is None else self.merged.leaf.type.size

    @cached_property
    def arrays(self) -> dict[Node, Access]:
        """Where the elements of each leaf lie; those of products in C order."""
        return {n: read.access for n, read in self.form.arrays.items()}

    @cached_property
    def reduces(self) -> bool:
        return any(is_reduction(n) for n in self.body.nodes)

    def array_access(self, dtype: np.dtype) -> Access | None:
        """Where the one output lies, if it is an array whose elements are as good as of `dtype`, maybe behind views."""
        output = self.body.outputs[0]
        if self.merged is not None:
            return None
        alike = output.dtype == dtype or (output.dtype.kind == "i" and output.dtype.itemsize == dtype.itemsize)
        return self.arrays.get(output) if is_load(output) and alike else None

    def loops(self, dims: tuple[Dim, ...], vector: int, inside: tuple[int, ...], written: Sequence[Access]) -> Loops:
        return _loops_of(self, Nest(dims, vector, inside), tuple(written))


@lru_cache(maxsize=256)  # as of parts
def _loops_of(part: BlockPart, nest: Nest, written: tuple[Access, ...]) -> Loops:
    return Loops(
        body=part.body, space=part.space, nest=nest, forms=with_passes([part.form], nest), written=written
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class OnlineSoftmax:
    """What a softmax between two products needs beside the second left operand, where it is made of one block of
    columns after another. `tops`: the maxima so far, from those `before`, and the `scores` of which they are; `live`:
    has a row anything in a block? None where no block is passed over. The second left operand is that of a block, with
    the sums of its terms and the factor of the sums before; carried are the maxima and the sums of rows."""

    tops: BlockPart
    live: BlockPart | None
    scores: Node
    before: Node


@dataclass(frozen=True, eq=False)
class ProductParts:
    """`products` in order, and what each multiplies; `rest`: what follows the last. `results`: the inputs that stand
    for products; `carried`: those that stand for values of a row which the left operand of the last product computes
    beside itself and the rest reads. `rows`: dimensions of all axes but the last, of which the last is that of rows,
    along which no right operand differs."""

    products: tuple[Node, ...]
    lefts: tuple[BlockPart, ...]
    rights: tuple[BlockPart, ...]
    rest: BlockPart
    results: tuple[Node, ...]
    carried: tuple[Node, ...]
    rows: tuple[Dim, ...]
    online: OnlineSoftmax | None = None

    @property
    def dtype(self) -> np.dtype:
        """That of the sums."""
        dtype = sums_dtype(self.products[0].dtype)
        assert dtype is not None
        return dtype

    @property
    def outer(self) -> tuple[Dim, ...]:
        return self.rows[:-1]

    @property
    def height(self) -> int:
        """Rows for each index of the outer dimensions."""
        return self.rows[-1].extent

    @property
    def out(self) -> Shape:
        return self.products[-1].shape


def parts_of(body: Graph) -> ProductParts:
    """UnsupportedOp where kernels of this target do not hold it."""
    products = tuple(body.of_role(Role.CONTRACTION))
    _check(body, products)
    results = tuple(input_node(f"product{i}", n.type) for i, n in enumerate(products))
    stand_ins = dict(zip(products, results, strict=True))
    carried = _carried(body, products)
    row_values = {n: input_node(f"carried{i}", n.type) for i, n in enumerate(carried)}
    stem = products[-1].shape[:-2]
    lefts, rights = [], []
    for n in products:
        left, right = n.args
        more = carried if n is products[-1] else ()
        lefts.append(_operand(left, more, stem, stand_ins, results))
        rights.append(_operand(right, (), stem, {}, ()))
    rest = _part(body.outputs, products[-1].shape, row_values | stand_ins, (*results, *row_values.values()))
    rows = row_nest((*stem, products[-1].shape[-2]), [*lefts, rest], rights, (*results, *row_values.values()))
    return ProductParts(products, tuple(lefts), tuple(rights), rest, results, tuple(row_values.values()), rows)


def _check(body: Graph, products: Sequence[Node]) -> None:
    last = products[-1]
    if not 1 <= len(products) <= 2 or any(n.op != "matmul" for n in products):
        raise UnsupportedOp("a product of our own in C is one of matrices, or two of them in a chain")
    if any(sums_dtype(n.dtype) is None or n.dtype != last.dtype for n in products):
        raise UnsupportedOp(f"products of {last.dtype} are NumPy's")
    if any(n.shape[:-1] != last.shape[:-1] for n in products) or not all(n.type.size for n in body.nodes):
        raise UnsupportedOp("two products in a chain have the same rows, and none is empty")
    if (len(products) == 2 and not depends_on(last.args[0], products[0])) or depends_on(last.args[1], products[0]):
        raise UnsupportedOp("two products in a kernel are a chain: the second multiplies what is made of the first")
    for n in body.nodes:
        computes = n.row.role in (Role.ELEMENTWISE, Role.REDUCTION)
        if not computes and n not in products and n.row.role not in (Role.LEAF, Role.VIEW):
            raise UnsupportedOp(f"no product of our own in C holds {n.op}")
        if computes and not emits(n.op, [a.dtype for a in n.args], n.dtype):
            raise UnsupportedOp(f"C has no form of {n.op} on {n.args[0].dtype}")


def _carried(body: Graph, products: Sequence[Node]) -> tuple[Node, ...]:
    """Values of a row, made of the first of two products, or of rows that one multiplies, which more than the last one
    reads."""
    *first, last = products
    below = {last}
    for n in body.nodes:
        if below.intersection(n.args):
            below.add(n)
    reductions = [n for n in body.of_role(Role.REDUCTION) if n not in below]
    before = set(Graph((), (*last.args, *reductions)).nodes)
    of_rows, read = set(first or reductions), []
    for n in body.nodes:
        used = [a for a in n.args if a in of_rows] if n is not last else []
        if used and (n in before or (n.shape == (*last.shape[:-1], 1) and n not in below)):
            of_rows.add(n)
        else:
            read += used
    read += [o for o in body.outputs if o in of_rows]
    if any(n.shape != (*last.shape[:-1], 1) or n in body.outputs for n in read):
        raise UnsupportedOp("of what a product multiplies only values of a row are read after it")
    return tuple(dict.fromkeys(read))


def _operand(
    n: Node, more: Sequence[Node], stem: Shape, stand_ins: dict[Node, Node], results: Sequence[Node]
) -> BlockPart:
    """Of the operand `n`, and `more` that is computed beside it."""
    merged = merged_axes_of(n) if not more and not stem and sums_dtype(n.dtype) == n.dtype else None
    if merged is not None:
        return replace(_part((input_node("merged", n.type),), n.shape, {}, ()), merged=merged)
    return _part((n, *more), (*stem, *n.shape[-2:]), stand_ins, results)


def _part(outputs: Sequence[Node], space: Shape, stand_ins: dict[Node, Node], results: Sequence[Node]) -> BlockPart:
    return part_of(tuple(substitute(outputs, stand_ins)), space, tuple(results))


@lru_cache(maxsize=256)  # a search multiplies the same operands in many bodies
def part_of(outputs: tuple[Node, ...], space: Shape, results: tuple[Node, ...]) -> BlockPart:
    """`results`: the inputs that stand for products and for values of rows."""
    graph = pushed(Graph(tuple([n for n in topological(outputs) if n.op == "input"]), outputs))
    if any(is_reduction(n) and (n.attr("axes") != (-1,) or n.args[0].shape != space) for n in graph.nodes):
        raise UnsupportedOp("reductions around a product are over its whole rows")
    (form,) = forms_of(graph, space)
    part = BlockPart(graph, space, form)
    for n, access in part.arrays.items():
        leaf, _ = leaf_chain(n)
        if leaf in results and n.shape[-1] > 1 and access != aligned(0, contiguous(space), space, space):
            raise UnsupportedOp("a product is read in its own order in its kernel")
    return part


def row_nest(
    shape: Shape, by_rows: Sequence[BlockPart], rights: Sequence[BlockPart], results: Sequence[Node]
) -> tuple[Dim, ...]:
    """As few dimensions as all arrays in memory allow."""
    arrays = [(n, a) for p in by_rows for n, a in p.arrays.items()]
    accesses = [Access(a.offset, a.strides[:-1]) for n, a in arrays if leaf_chain(n)[0] not in results]
    across = [Access(a.offset, (*a.strides[:-2], 0)) for p in rights for a in p.arrays.values()]
    outputs = [aligned(0, contiguous(o.shape)[:-1], o.shape[:-1], shape) for o in by_rows[-1].body.outputs]
    dims = [dim for dim in collapsed(shape, (), [*accesses, *across, *outputs]) if dim.axes]
    if not dims or any(dims[-1].step(a) for a in across):
        dims.append(Dim((len(shape) - 1,), 1, False, 1))
    return tuple(dims)

