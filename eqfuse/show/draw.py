"""Layered drawings of a program as SVG: the graph as it was written, and the kernels that it became.

In: a `Graph` or a `Plan`. Out: SVG text. Boxes stand in rows by the longest path from the inputs; in a row they are
ordered by the mean place of what they read, swept a few times (Sugiyama, Tagawa, Toda 1981).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds import KINDS
from eqfuse.ops import Role
from eqfuse.plan.plan import Kernel, Plan
from eqfuse.plan.report import running
from eqfuse.summary import quantity

INPUT = "input"  # the kind of a place where a value comes in
KIND_OF_ROLE = {
    Role.LEAF: INPUT, Role.ELEMENTWISE: "map", Role.REDUCTION: "reduce", Role.VIEW: "view", Role.GATHER: "map",
    Role.PIECES: "map", Role.CONTRACTION: "contract", Role.WINDOW: "window", Role.LIBRARY: "library",
    Role.UPDATE: "library", Role.SCAN: "scan",
}  # fmt: skip
CHARACTER, LINE_HEIGHT, PAD, BOX_GAP, ROW_STEP = 6.2, 14, 8, 14, 24  # pixels
LAYOUT_SWEEPS = 8  # over the rows, to lay boxes near those that they read and that read them
BEND = "bend"  # the kind of a place where an edge passes a row


@dataclass(frozen=True)
class Box:
    """A rectangle with lines of text, below the boxes numbered in `above`."""

    lines: tuple[str, ...]
    kind: str
    above: tuple[int, ...]

    @property
    def width(self) -> float:
        return 4 if self.kind == BEND else max(map(len, self.lines)) * CHARACTER + 2 * PAD

    @property
    def height(self) -> float:
        return 0 if self.kind == BEND else len(self.lines) * LINE_HEIGHT + PAD


def colours() -> dict[str, str]:
    """The colour of each kind of box."""
    return {INPUT: "#ffffff"} | {kind.name: kind.colour for kind in KINDS.values()}


def draw_graph(graph: Graph) -> str:
    """Every operator of `graph` in a box of its own, as plain NumPy runs it. Scalar constants are left out."""
    number: dict[Node, int] = {}
    boxes: list[Box] = []
    for n in graph.nodes:
        if n.number is not None:
            continue
        name = n.attr("name") if n.op == "input" else n.op
        above = dict.fromkeys(number[a] for a in n.args if a in number)
        number[n] = len(boxes)
        boxes.append(Box((name, str(n.type)) if not n.args else (name,), KIND_OF_ROLE[n.row.role], tuple(above)))
    return draw(boxes)


def draw_plan(plan: Plan) -> str:
    """Every kernel of `plan` in one box that lists its operators and what it moves. Views are looked through.

    Inputs and constants that only one kernel reads share one box above it.
    """
    names = {v: n.attr("name") for v, n in zip(plan.inputs, plan.graph.inputs, strict=True)}
    behind: dict[int, int] = {}  # what a view shows
    for kernel in plan.kernels:
        if kernel.is_view:
            behind[kernel.writes[0]] = behind.get(kernel.reads[0], kernel.reads[0])
    reads = [tuple(dict.fromkeys(behind.get(v, v) for v in k.reads)) for k in running(plan)]
    readers = Counter(v for values in reads for v in values)
    box_of: dict[int, int] = {}
    boxes: list[Box] = []

    def add(box: Box, values: Sequence[int]) -> None:
        box_of.update(dict.fromkeys(values, len(boxes)))
        boxes.append(box)

    for kernel, values in zip(running(plan), reads, strict=True):
        leaves = [v for v in values if v not in box_of]
        own = [v for v in leaves if readers[v] == 1]
        for group in [*([v] for v in leaves if v not in own), *([own] if own else [])]:
            add(Box(tuple(f"{names.get(v, 'constant')}  {plan.types[v]}" for v in group), INPUT, ()), group)
        above = tuple(dict.fromkeys(box_of[v] for v in values))
        add(Box(_title(kernel), kernel.kind, above), kernel.writes)
    return draw(boxes)


def _title(kernel: Kernel) -> tuple[str, ...]:
    words, lines = [n.op for n in kernel.body.computations or kernel.body.operators], [""]
    for word in words:
        if len(lines[-1]) + len(word) > 34:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    moved = quantity(kernel.price.bytes_read + kernel.price.bytes_written, "B")
    return (f"{kernel.kind} · {moved}", *lines)


def draw(boxes: Sequence[Box]) -> str:
    """`boxes` (each after those above it) as one SVG element."""
    items, rows = _layers(boxes)
    width = max((sum(items[i].width + BOX_GAP for i in r) for r in rows), default=0) + BOX_GAP
    place: dict[int, tuple[float, float]] = {}  # middle of the top edge
    bottom: list[float] = []
    y: float = BOX_GAP
    for r in rows:
        x = (width - sum(items[i].width + BOX_GAP for i in r) + BOX_GAP) / 2
        for i in r:
            place[i] = (x + items[i].width / 2, y)
            x += items[i].width + BOX_GAP
        y += max(items[i].height for i in r)
        bottom += [y]
        y += ROW_STEP
    row_of = {i: k for k, r in enumerate(rows) for i in r}
    shapes = []
    for i, item in enumerate(items):
        for a in item.above:
            (x1, top), end = place[a], place[i]
            shapes.append(_edge((x1, top + items[a].height), bottom[row_of[a]], end))
        if item.kind == BEND:
            x, top = place[i]
            shapes.append(_path(f"M{x:.0f} {top:.0f}V{bottom[row_of[i]]:.0f}"))
    shapes += [_rectangle(box, *place[i]) for i, box in enumerate(boxes)]
    height = y - ROW_STEP + BOX_GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="ui-monospace, monospace" font-size="10">{"".join(shapes)}</svg>'
    )


def _layers(boxes: Sequence[Box]) -> tuple[list[Box], list[list[int]]]:
    """The boxes and, where an edge passes a row, a bend (one per source and row, shared); then their numbers by row.

    A leaf stands just above its first reader.
    """
    rank: list[int] = []
    for box in boxes:
        rank.append(1 + max((rank[a] for a in box.above), default=-1))
    for i, box in enumerate(boxes):
        if not box.above:
            rank[i] = min((rank[j] for j, b in enumerate(boxes) if i in b.above), default=1) - 1
    items = list(boxes)
    bends: dict[tuple[int, int], int] = {}
    for i, box in enumerate(boxes):
        above = []
        for a in box.above:
            last = a
            for r in range(rank[a] + 1, rank[i]):
                if (a, r) not in bends:
                    bends[a, r] = len(items)
                    items.append(Box(("",), BEND, (last,)))
                    rank.append(r)
                last = bends[a, r]
            above.append(last)
        items[i] = Box(box.lines, box.kind, tuple(dict.fromkeys(above)))
    rows: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for i, r in enumerate(rank):
        rows[r].append(i)
    _order(items, rows)
    return items, rows


def _order(items: Sequence[Box], rows: list[list[int]]) -> None:
    """Sort each row by the mean place of its neighbours in the row above, then below, and so on."""
    above = [list(item.above) for item in items]
    below: list[list[int]] = [[] for _ in items]
    for i, item in enumerate(items):
        for a in item.above:
            below[a].append(i)
    places = {i: (k + 0.5) / len(r) for r in rows for k, i in enumerate(r)}
    for sweep in range(LAYOUT_SWEEPS):
        near = below if sweep % 2 else above
        for r in reversed(rows) if sweep % 2 else rows:
            wish = {i: sum(places[j] for j in near[i]) / len(near[i]) if near[i] else places[i] for i in r}
            r.sort(key=wish.__getitem__)
            places |= {i: (k + 0.5) / len(r) for k, i in enumerate(r)}


def _edge(start: tuple[float, float], level: float, end: tuple[float, float]) -> str:
    """From `start` straight down to `level`, then in a curve to `end`."""
    (x1, y1), (x2, y2) = start, end
    middle = (level + y2) / 2
    return _path(f"M{x1:.0f} {y1:.0f}V{level:.0f}C{x1:.0f} {middle:.0f} {x2:.0f} {middle:.0f} {x2:.0f} {y2:.0f}")


def _path(d: str) -> str:
    return f'<path d="{d}" fill="none" stroke="#9aa3ad"/>'


def _rectangle(box: Box, x: float, y: float) -> str:
    lines = []
    for k, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if k == 0 and box.kind != INPUT else ""
        position = f'x="{x:.0f}" y="{y + LINE_HEIGHT * (k + 1):.0f}"'
        lines.append(f'<text {position} text-anchor="middle"{weight}>{escape(line)}</text>')
    return (
        f'<rect x="{x - box.width / 2:.0f}" y="{y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="5" '
        f'fill="{colours()[box.kind]}" stroke="#5b6470" stroke-width="0.7"/>{"".join(lines)}'
    )
