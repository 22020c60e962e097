"""Reductions whose results leave the kernel, cut along a reduced axis: partial results, joined in a fixed order.

In: a reduce body in which cutting the other axes would give too few or too narrow tiles. Out: `Source`.
How the axis is cut depends on shapes and the number of threads alone, so results do not vary from run to run.
"""

from __future__ import annotations

import math
from dataclasses import replace

from eqfuse.dtypes import ADDED
from eqfuse.emit.numpy.ops import JOINS
from eqfuse.emit.numpy.source import Source, copies, straight
from eqfuse.emit.numpy.tile import Stage
from eqfuse.emit.numpy.tiling import Cut, Panel, grain
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.ir.views import computes
from eqfuse.ops import Role, row

PARTS_PER_THREAD = 4


def reductions_last(body: Graph) -> list[Node] | None:
    """The reductions of a body in which nothing of full size depends on one; None for any other body. What does not
    depend on one may be a result too.

    And None where cutting would show: NumPy rounds a sum of bfloat16 or float8 after every element, from first to last.
    """
    found = [n for n in body.nodes if row(n.op).role is Role.REDUCTION]
    if not found or any(n.op not in JOINS or n.dtype in ADDED for n in found):
        return None
    after: set[Node] = set()
    for n in body.nodes:
        if n in found:
            if any(a in after for a in n.args):
                return None
            after.add(n)
        elif any(a in after for a in n.args):
            if n.shape != found[0].shape:
                return None
            after.add(n)
    space = found[0].args[0].shape
    return found if all(o in after or (computes(o) and o.shape == space) for o in body.outputs) else None


def worth_it(panel: Panel, target: int, threads: int, alone: bool) -> bool:
    """Would tiles of the other axes be too few, or narrow columns of a tall array, or too large for a cache?

    `alone`: a reduction that nothing is computed for, whose tiles need no cache.
    """
    others = math.prod(panel.extents[a] for a in panel.cuttable())
    axis = panel.whole.index(True)
    along, outer, tile = panel.extents[axis], math.prod(panel.extents[:axis]), math.prod(panel.extents[axis:])
    if outer >= PARTS_PER_THREAD * threads and (alone or tile <= target):
        return False
    if along < 8 * threads or others > target // 2:
        return False
    return not panel.whole[-1] or others < 4 * threads


def reduce_kernel(body: Graph, reductions: list[Node], panel: Panel, target: int, threads: int) -> Source:
    """The kernel of `body`, cut along the first reduced axis."""
    axis = panel.whole.index(True)
    extent = panel.extents[axis]
    block = max(1, min(extent, target // max(1, math.prod(panel.extents) // extent)))
    block = min(extent, -(-block // grain(body)) * grain(body))
    parts = min(PARTS_PER_THREAD * threads, math.ceil(extent / block))
    chunk = math.ceil(extent / parts)
    parts, block = math.ceil(extent / chunk), min(block, chunk)
    source = Source(body)
    panel = replace(panel, whole=tuple(a != axis for a in range(len(panel.whole))))
    full = [o for o in dict.fromkeys(body.outputs) if o not in reductions and o.shape == reductions[0].args[0].shape]
    graph = Graph(body.inputs, (*reductions, *full))
    names = {n: f"q{k}" for k, n in enumerate(reductions)}
    cut = Cut((), axis, block, parts, parts)
    tiles = {n: f"z{k}" for k, n in enumerate(reductions)} | {o: f"y{k}" for k, o in enumerate(full)}
    stage = Stage(source, graph, panel, cut, written=tiles)
    stage.write_into({o: source.writes[body.outputs.index(o)] for o in full})
    sizes = {n: panel.dims(n.shape) for n in reductions}
    for k, n in enumerate(reductions):
        source.line(f"q{k} = empty({(parts, *sizes[n])}, {source.dtype(n.dtype)})")
    made, shorter, nbytes = stage.scratch(0, ragged=True)
    source.line("def tiles(numbers):")
    if made:
        source.block([f"memory = scratch({nbytes})", *made], 2)
    for k, n in enumerate(reductions):
        source.line(f"z{k} = empty({sizes[n]}, {source.dtype(n.dtype)})", 2)
    source.line("for number in numbers:", 2)
    source.block([f"start = number * {chunk}", f"stop = min(start + {chunk}, {extent})"], 3)
    source.line(f"for i in range(start, stop, {block}):", 3)
    source.line(f"j = min(i + {block}, stop)", 4)
    if shorter:
        source.block(["size = j - i", *shorter], 4)
    stage.write(4)
    source.line("if i == start:", 4)
    source.block([f"copyto(q{k}[number], z{k})" for k in range(len(reductions))], 5)
    source.line("else:", 4)
    for k, n in enumerate(reductions):
        source.line(f"{JOINS[n.op]}(q{k}[number], z{k}, out=q{k}[number])", 5)
    source.share(parts, threads, stage.multiplies, nbytes)
    _epilogue(source, body, reductions, full, names)
    # partial results of all parts, of the one at hand, and joined
    source.made_bytes += sum(n.type.nbytes * (parts + source.threads + 1) for n in reductions)
    return source


def _epilogue(
    source: Source, body: Graph, reductions: list[Node], full: list[Node], names: dict[Node, str]
) -> None:
    """Lines that join the partial results and do what follows them, on whole (small) arrays."""
    stands = {n: input_node(f"reduced {k}", n.type) for k, n in enumerate(reductions)}
    written = {o: input_node(f"written {k}", o.type) for k, o in enumerate(full)}
    operands: dict[Node, str] = {}
    for o, stand in written.items():
        operands[stand] = source.writes[body.outputs.index(o)]
    for n, stand in stands.items():
        operands[stand] = f"{names[n]}_all"
        source.line(f"{names[n]}_all = {JOINS[n.op]}.reduce({names[n]}, 0).reshape({n.shape})")
    outputs = substitute(body.outputs, stands | written)
    rest = Graph(body.inputs, outputs)
    nodes = [n for n in rest.nodes if computes(n)]
    for a in (a for n in nodes for a in n.args):
        if not computes(a) and a not in operands:
            operands[a] = f"({source.view(a)})"
    places: dict[Node, str] = {stand: operands[stand] for stand in written.values()}
    for o, place in zip(outputs, source.writes, strict=True):
        if computes(o):
            places.setdefault(o, place)
    straight(source, nodes, operands, places)
    copies(source, outputs, operands, places)
