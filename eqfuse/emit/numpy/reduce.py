"""Reductions whose results leave the kernel, cut along a reduced axis: partial results, joined in a fixed order.

In: a `TiledReduction`, or `ResultsOfRows`, whose reductions may need one another. Out: `Source`. How the axis is cut
depends on shapes and the number of threads alone, so results do not vary from run to run.
"""

from __future__ import annotations

from eqfuse.emit.numpy.ops import JOINS
from eqfuse.emit.numpy.panel import share_tiles
from eqfuse.emit.numpy.schedule import ResultsOfRows, TiledReduction
from eqfuse.emit.numpy.source import Source, fill_outputs, straight
from eqfuse.emit.numpy.tile import StageText
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.views import computes


def reduce_kernel(schedule: TiledReduction) -> Source:
    """The kernel, cut along the first reduced axis."""
    body, stage, reductions = schedule.body, schedule.stage, schedule.reductions
    parts, chunk, block = stage.cut.count, schedule.chunk, stage.cut.block
    source = Source(body)
    text = StageText(source, stage)
    text.write_into({o: source.writes[body.outputs.index(o)] for o in schedule.written})
    sizes = {n: stage.dims(n.shape) for n in reductions}
    for k, n in enumerate(reductions):
        source.line(f"q{k} = empty({(parts, *sizes[n])}, {source.dtype(n.dtype)})")
    arrays, shorter, nbytes = text.scratch(0, ragged=True)
    source.line("def tiles(numbers):")
    if arrays:
        source.block([f"memory = scratch({nbytes})", *arrays], 2)
    for k, n in enumerate(reductions):
        source.line(f"z{k} = empty({sizes[n]}, {source.dtype(n.dtype)})", 2)
    source.line("for number in numbers:", 2)
    extent = stage.panel.extents[stage.cut.axis]
    source.block([f"start = number * {chunk}", f"stop = min(start + {chunk}, {extent})"], 3)
    source.line(f"for i in range(start, stop, {block}):", 3)
    source.line(f"j = min(i + {block}, stop)", 4)
    if shorter:
        source.block(["size = j - i", *shorter], 4)
    text.write(4)
    source.line("if i == start:", 4)
    source.block([f"copyto(q{k}[number], z{k})" for k in range(len(reductions))], 5)
    source.line("else:", 4)
    for k, n in enumerate(reductions):
        source.line(f"{JOINS[n.op]}(q{k}[number], z{k}, out=q{k}[number])", 5)
    source.share(parts, schedule.threads, stage.multiplies, nbytes)
    _epilogue(source, schedule)
    # partial results of all parts, of the one at hand, and joined
    source.kernel_bytes += sum(n.type.nbytes * (parts + source.threads + 1) for n in reductions)
    return source


def cascade_kernel(schedule: ResultsOfRows) -> Source:
    """The kernel whose tiles reduce rows, or parts of them, which it joins at last."""
    parts, source = schedule.parts, Source(schedule.body)
    text = StageText(source, schedule.stage)
    body, operands, arrays = schedule.body, dict[Node, str](), dict[Node, str]()
    for k, (o, stand) in enumerate(zip(parts.body.outputs, parts.stands, strict=True)):
        if o in body.outputs:
            operands[stand] = arrays[o] = source.writes[body.outputs.index(o)]
            continue
        arrays[o] = f"q{k}"
        source.line(f"q{k} = empty({o.shape}, {source.dtype(o.dtype)})")
        operands[stand] = f"q{k}.reshape({stand.shape})"
        source.kernel_bytes += o.type.nbytes
    text.write_into(arrays)
    share_tiles(source, text, schedule.threads)
    _finish(source, parts.rest, operands, {stand: name for stand, name in operands.items() if name in source.writes})
    return source


def _epilogue(source: Source, schedule: TiledReduction) -> None:
    """Lines that join the partial results and do what follows them, on whole (small) arrays."""
    body, rest = schedule.body, schedule.rest
    operands: dict[Node, str] = {}
    for o, stand in schedule.written.items():
        operands[stand] = source.writes[body.outputs.index(o)]
    for k, (n, stand) in enumerate(schedule.joined.items()):
        operands[stand] = f"q{k}_all"
        source.line(f"q{k}_all = {JOINS[n.op]}.reduce(q{k}, 0).reshape({n.shape})")
    _finish(source, rest, operands, {stand: operands[stand] for stand in schedule.written.values()})


def _finish(source: Source, rest: Graph, operands: dict[Node, str], places: dict[Node, str]) -> None:
    """Lines that compute `rest` on whole arrays, of which `operands` are at hand, and `places` written."""
    nodes = rest.computations
    for a in (a for n in nodes for a in n.args):
        if not computes(a) and a not in operands:
            operands[a] = f"({source.view(a)})"
    for o, place in zip(rest.outputs, source.writes, strict=True):
        if computes(o):
            places.setdefault(o, place)
    straight(source, nodes, operands, places)
    fill_outputs(source, rest.outputs, operands, places)
