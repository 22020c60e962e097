"""The parts of a body with windows over an image: what is computed of the image before, and of the results after.

In: a body of kind window. Out: `Windows`: a graph for the image and one for the results. Next stop: `schedule.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eqfuse.emit.c.forms import forms_of
from eqfuse.emit.c.loops import Loops, pushed
from eqfuse.emit.c.nest import SHORT_DIMENSION, Access, Dim, aligned
from eqfuse.emit.c.ops import emits
from eqfuse.emit.c.product.parts import BlockPart
from eqfuse.emit.c.sliding.axes import Axis
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import leaf_chain
from eqfuse.ops import Role
from eqfuse.ops.types import Shape

WRITTEN_OUT = 64  # elements of windows down, and across, that are written one by one
REDUCED_BY = {"window_max": "max", "window_sum": "sum"}


@dataclass(frozen=True, eq=False)
class Windows:
    """`window`: the operator, which reduces by `reduction` windows along `axes`, the last ones of `image`, two at
    least; `rest`: what follows, `result` the input there that stands for what the windows give. `is_incoming`: the
    image is made of what the kernel computes before."""

    window: Node
    reduction: str
    axes: tuple[Axis, ...]
    image: BlockPart
    rest: BlockPart
    result: Node
    is_incoming: bool = False

    @property
    def outer(self) -> Shape:
        """Extents of the results before their last two axes."""
        return self.rest.space[:-2]

    @property
    def above(self) -> tuple[Axis, ...]:
        """The axes of windows before the last two."""
        return self.axes[:-2]

    @property
    def in_place(self) -> Access | None:
        """Where elements of the image lie, if it is an array that lies along its rows."""
        access = None if self.is_incoming else self.image.array_access(self.window.dtype)
        return access if access is not None and abs(access.strides[-1]) <= 1 else None


def windows_of(body: Graph, incoming: Sequence[Node] = ()) -> Windows:
    """UnsupportedOp where kernels of this target do not hold it. `incoming`: inputs that stand for what the kernel
    computes before, and reads in its order."""
    (window,) = body.of_role(Role.WINDOW)
    refuse_others(body, [window])
    image = window.args[0]
    result = input_node("windows", window.type)
    sizes, strides, padding = (window.attr(name) for name in ("window", "strides", "padding"))
    places = window.shape[window.type.rank - len(sizes) :]
    extents = image.shape[image.type.rank - len(sizes) :]
    numbers = zip(extents, places, sizes, strides, padding, strict=True)
    axes = [Axis(n, m, k, s, before) for n, m, k, s, (before, _) in numbers]
    if sizes[-1] > WRITTEN_OUT or math.prod(sizes[:-1]) > WRITTEN_OUT:
        raise UnsupportedOp(f"windows of {' x '.join(map(str, sizes))} elements are NumPy's")
    if len(axes) == 1:
        rows = window.shape[-2] if window.type.rank > 1 else 1
        axes = [Axis(rows, rows), *axes]
    rest = computed_part(body, substitute(body.outputs, {window: result}), flat(window.shape), [result])
    read = computed_part(body, [image], flat(image.shape), incoming)
    return Windows(window, REDUCED_BY[window.op], tuple(axes), read, rest, result, bool(incoming))


def refuse_others(body: Graph, sliding: Sequence[Node]) -> None:
    """Refuses what no kernel with windows holds."""
    for n in body.nodes:
        role = n.row.role
        if not n.type.size:
            raise UnsupportedOp("kernels with windows have elements")
        if n in sliding:
            dtypes = [a.dtype for a in n.args]
            if n.op in REDUCED_BY and not emits(REDUCED_BY[n.op], dtypes, n.dtype):
                raise UnsupportedOp(f"C has no form of {n.op} on {n.dtype}")
        elif role is Role.ELEMENTWISE:
            if not emits(n.op, [a.dtype for a in n.args], n.dtype):
                raise UnsupportedOp(f"C has no form of {n.op} on {n.args[0].dtype}")
        elif role not in (Role.LEAF, Role.VIEW):
            raise UnsupportedOp(f"no kernel with windows in C holds {n.op}")


def flat(shape: Shape) -> Shape:
    """A shape of two axes at least."""
    return (1,) * (2 - len(shape)) + shape


def computed_part(body: Graph, outputs: Sequence[Node], space: Shape, results: Sequence[Node]) -> BlockPart:
    """What is computed over `space`; `results`: inputs that stand for what is computed before, in its order."""
    graph = pushed(Graph((*body.inputs, *results), tuple(outputs)))
    (form,) = forms_of(graph, space)
    block = BlockPart(graph, space, form)
    for n, access in block.arrays.items():
        if leaf_chain(n)[0] in results and access != Access(0, ordered(space)):
            raise UnsupportedOp("what windows give is read in its own order in its kernel")
    return block


def ordered(space: Shape) -> tuple[int, ...]:
    """The strides of an array of `space` in C order; none along axes of one element."""
    return tuple([0 if n == 1 else s for n, s in zip(space, contiguous(space), strict=True)])


def loops_over_blocks(part: BlockPart, rows: int, columns: int, written: bool) -> Loops:
    """The loops over blocks of the last two axes; over rows within columns where those are short. `written`: its
    outputs are results of the kernel."""
    *outer, high, wide = part.space
    dims = [Dim((d,), n, False, n) for d, n in enumerate(outer)]
    d = len(outer)
    dims += [Dim((d,), high, False, min(rows, high)), Dim((d + 1,), wide, False, min(columns, wide))]
    turned = wide < SHORT_DIMENSION <= rows
    places = [Access(0, (0,) * len(part.space))] * len(part.body.outputs)
    if written:
        places = [_written(o, part.space) for o in part.body.outputs]
    return part.loops(tuple(dims), d if turned else d + 1, (d + 1,) if turned else (), places)


def _written(output: Node, space: Shape) -> Access:
    if flat(output.shape) != space:
        raise UnsupportedOp(f"a kernel with windows that give {space} writes results of that shape")
    return aligned(0, contiguous(output.shape), output.shape, space)
