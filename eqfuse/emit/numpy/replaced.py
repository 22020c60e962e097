"""The kernel of a map whose result is an array with slices replaced: tiles of the largest values, written where they
stay, then the other values and updates on whole arrays.

In: a `ReplacedSlices`. Out: `Source`.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqfuse.emit.numpy.ops import index_text
from eqfuse.emit.numpy.panel import share_tiles
from eqfuse.emit.numpy.schedule import ReplacedSlices
from eqfuse.emit.numpy.source import Source, named, straight
from eqfuse.emit.numpy.tile import StageText
from eqfuse.ir.graph import Node
from eqfuse.ir.views import computes, leaf_chain
from eqfuse.ops.updates import Ranges


def updates_kernel(schedule: ReplacedSlices) -> Source:
    """The whole kernel; without tiles its lines may stand in the program's function."""
    replacement, stage = schedule.replacement, schedule.stage
    source = Source(schedule.kernel_body)
    tiled = list(schedule.tiled)
    source.inline = stage is None
    operands = dict.fromkeys(replacement.stands, "o0")
    _keep(source, schedule, operands)
    if stage:
        text = StageText(source, stage)
        for k, place in enumerate(schedule.tiled.values()):
            source.line(f"q{k} = o0{index_text(place)}")
        text.write_into({n: f"q{k}" for k, n in enumerate(tiled)})
        share_tiles(source, text, schedule.threads)
    for step in schedule.steps:
        for a in (a for n in step.nodes for a in n.args):
            _take(source, a, operands)
        places = {n: f"o0{index_text(place)}" for n, place in step.placed.items()}
        straight(source, step.nodes, operands, places, step.kept)
        _assign(source, step.assigned, operands)
    return source


def _keep(source: Source, schedule: ReplacedSlices, operands: dict[Node, str]) -> None:
    """Copy what the result has of the first array, unless it lies in its memory, where it may."""
    unwritten, first = schedule.replacement.unwritten, schedule.replacement.first
    if not schedule.may_lie_over_first:
        _assign(source, unwritten, operands)
        return
    source.carries = {0: source.body.inputs.index(first)}
    if source.inline:
        _assign(source, unwritten, operands)
        source.keeping = len(source.lines)
    elif unwritten:
        source.line(f"if o0 is not {source.leaf(first)}:")
        _assign(source, unwritten, operands, 2)


def _assign(source: Source, assigned: Sequence[tuple[Ranges, Node]], operands: dict[Node, str], depth: int = 1) -> None:
    for place, value in assigned:
        _take(source, value, operands)
        source.line(f"o0{index_text(place)} = {operands[value]}", depth)


def _take(source: Source, n: Node, operands: dict[Node, str]) -> None:
    """Have a text for the leaf `n` behind its views: of an inline kernel, a name."""
    leaf, _ = leaf_chain(n)
    if computes(leaf) or n in operands:
        return
    operands[n] = named(source, n) if source.inline and leaf not in operands else f"({source.view(n, operands)})"
