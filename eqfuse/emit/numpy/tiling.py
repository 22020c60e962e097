"""How a kernel body is cut into tiles: which axes may be cut, which adjacent ones merge, how large a tile is.

In: a body with views on leaves only. Out: `Panel` (its axes) and `Tiling` (its tiles). Next stop: `panel.py`.
Every value has, along a cuttable axis, the extent of the panel or 1; along a whole axis its extent is its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from weakref import WeakKeyDictionary

from eqfuse.cost.device import Device
from eqfuse.cost.roofline import work
from eqfuse.cost.work import LINE, NO_JUMPS, Jumps, Work, rows_apart, total_work
from eqfuse.emit.evaluation_order import evaluation_order
from eqfuse.emit.numpy.cost.calls import sums_rows, transposed_read, work_of_gaps
from eqfuse.emit.numpy.cost.figures import COPIED_RUNS, PAIRS_OVER_TILES, PAIRS_OVER_TRAFFIC, SHORTER
from eqfuse.emit.numpy.cost.gram import gram_work, is_gram
from eqfuse.emit.numpy.cost.tiles import tiles_pay
from eqfuse.emit.numpy.gathers import aside, places_in_panel, shares
from eqfuse.emit.numpy.temporaries import unreshaped
from eqfuse.emit.numpy.transpose_copy import run_axis
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import computes, leaf_chain, strides_after
from eqfuse.ops import Role
from eqfuse.ops.types import Shape, TensorType

ROW_OF_COLUMNS = 24  # elements of a row, up to which a tile holds its rows as columns
NARROW_AXIS = 64  # elements along the innermost axis; less wastes cache lines


@dataclass(frozen=True)
class Panel:
    """The axes of a kernel body after merging. `groups[i]`: the original axes behind axis i, from the left."""

    rank: int
    groups: tuple[tuple[int, ...], ...]
    extents: Shape
    whole: tuple[bool, ...]
    flipped: bool = False  # the two axes stand in reverse order: columns of short rows lie together in a tile

    def dims(self, shape: Shape) -> Shape:
        """A value's shape over the merged axes."""
        padded = (1,) * (self.rank - len(shape)) + shape
        return tuple(math.prod(padded[a] for a in group) for group in self.groups)

    def cuttable(self) -> list[int]:
        return [i for i, whole in enumerate(self.whole) if not whole]

    def flip(self) -> Panel:
        """Both axes of a panel of rows, the other way round."""
        return Panel(self.rank, self.groups[::-1], self.extents[::-1], self.whole[::-1], True)

    def short_rows(self) -> bool:
        """Many rows of a few elements: NumPy spends its time between rows."""
        return self.whole == (False, True) and self.extents[1] <= ROW_OF_COLUMNS and self.extents[0] >= NARROW_AXIS

    def kept(self, axes: Sequence[int]) -> tuple[int, ...]:
        """The merged axes that hold the original `axes` (negative)."""
        wanted = {a + self.rank for a in axes}
        return tuple(i for i, group in enumerate(self.groups) if wanted & set(group))


@dataclass(frozen=True)
class Tiling:
    """The tiles of a panel: `loops` are axes taken one index at a time, `axis` is taken `block` indices at a time."""

    loops: tuple[int, ...]
    axis: int
    block: int
    blocks: int
    count: int  # of tiles

    def ragged(self, extent: int) -> bool:
        return extent % self.block != 0

    def tile(self, panel: Panel) -> Shape:
        """The extents of a tile, of axes that have more than one index there."""
        extents = [self.block if a == self.axis else n for a, n in enumerate(panel.extents) if a not in self.loops]
        return tuple(n for n in (reversed(extents) if panel.flipped else extents) if n > 1)

    def varies(self, dims: Shape) -> bool:
        """Does a value of shape `dims` differ from tile to tile?"""
        return any(dims[a] > 1 for a in (*self.loops, self.axis))


def right_operands(body: Graph) -> set[Node]:
    """Nodes read as the right operand of a product."""
    return {n.args[1] for n in body.nodes if n.op == "matmul"}


def panel_of(body: Graph, lying: Mapping[Node, Shape] = MappingProxyType({})) -> Panel:
    """The merged axes of a map, row, reduce, contract (matrix product) or back_to_back body. `lying`: strides of
    results that do not lie in C order."""
    products = [n for n in body.nodes if n.op == "matmul"]
    reductions = body.of_role(Role.REDUCTION)
    rows = -1
    if products:
        space = products[-1].shape
        whole = {len(space) - 1}
        rows = len(space) - 2
    elif reductions:
        space = reductions[0].args[0].shape
        whole = {a + len(space) for a in reductions[0].attr("axes")}
    else:
        space = max((o.shape for o in body.outputs), key=lambda s: (math.prod(s), len(s)))
        whole = set()
    rank = len(space)
    if not reductions and any(n.op == "take_along_axis" for n in body.nodes):
        whole.add(rank - 1)
    regular, right = _operands(body, rank, lying)
    kept = [a for a in range(rank) if a in whole or space[a] != 1 or a == rows]

    joints = {n.attr("axis") + rank for n in body.nodes if n.op in ("concat", "take_along_axis")}  # own extents

    def together(group: list[int], a: int) -> bool:
        apart = (group[0] in whole) != (a in whole) or a in joints or not joints.isdisjoint(group)
        return not apart and _merges(_last(group, space), a, space, regular, right, rows)

    groups = _grouped(kept, together)
    return Panel(
        rank,
        groups,
        tuple(math.prod(space[a] for a in g) for g in groups),
        tuple(g[0] in whole for g in groups),
    )


def _grouped(axes: Iterable[int], together: Callable[[list[int], int], bool]) -> tuple[tuple[int, ...], ...]:
    """`axes` in groups of neighbours: each joins the group before it, if they go `together`."""
    groups: list[list[int]] = []
    for a in axes:
        if groups and together(groups[-1], a):
            groups[-1].append(a)
        else:
            groups.append([a])
    return tuple(map(tuple, groups))


def _last(group: Sequence[int], space: Shape) -> int:
    """The axis of `group` that the next one must go with: its last, units apart."""
    return next((a for a in reversed(group) if space[a] != 1), group[-1])


Strided = tuple[Shape, Shape]


def _operands(
    body: Graph, rank: int, lying: Mapping[Node, Shape] = MappingProxyType({})
) -> tuple[list[Strided], list[Strided]]:
    """Shape and strides, padded to `rank`, of every array read or written; right operands of products apart."""
    rights = right_operands(body)
    regular = [(o.shape, lying.get(o, contiguous(o.shape))) for o in body.outputs]
    right = []
    apart = ("matmul", "take")
    used = {a for n in body.nodes if n.row.role not in (Role.LEAF, Role.VIEW) for a in n.args if n.op not in apart}
    used |= {n.args[0] for n in body.nodes if n.op == "matmul"} | set(body.outputs)
    places = [places_in_panel(n) for n in body.nodes if n.op == "take"]
    used |= set(places)
    for n in (*body.nodes, *places):
        if n.row.role not in (Role.LEAF, Role.VIEW):
            continue
        leaf, chain = leaf_chain(n)
        strides = strides_after(leaf.type, chain)
        entry = (n.shape, contiguous(n.shape) if strides is None else strides)
        if n in rights:
            right.append(entry)
        if n in used:
            regular.append(entry)

    def padded(entry: Strided) -> Strided:
        missing = rank - len(entry[0])
        return (1,) * missing + entry[0], (0,) * missing + entry[1]

    return [padded(e) for e in regular if e[0]], [padded(e) for e in right]


def _merges(i: int, j: int, space: Shape, regular: list[Strided], right: list[Strided], rows: int) -> bool:
    """May axes i and j, neighbours, be taken as one by every array?"""
    if right and j == rows:
        if any(shape[i] != 1 for shape, _ in right):
            return False
    elif not all(_as_one(i, j, space, e) for e in right):
        return False
    return all(_as_one(i, j, space, e) for e in regular)


def _as_one(i: int, j: int, space: Shape, entry: Strided) -> bool:
    shape, strides = entry
    if space[i] == 1 or space[j] == 1 or shape[i] == shape[j] == 1:
        return True
    return shape[i] == space[i] and shape[j] == space[j] and strides[i] == strides[j] * space[j]


def tiling_for(
    panel: Panel, row_elements: int, target: int, threads: int, fewest: int, grain: int
) -> Tiling | None:
    """Tiles of about `target` elements, enough of them for `threads`; None when no axis can be cut.

    `row_elements`: elements of the largest value along the whole axes. `fewest`: rows of a tile of a product, or 0.
    `grain`: a block is a multiple of it, where the axis is that long.
    """
    axes = panel.cuttable()
    if not axes:
        return None
    volume, position = max(row_elements, 1), len(axes) - 1
    least = max(1, fewest)
    if not fewest and axes[-1] == len(panel.extents) - 1:
        least = NARROW_AXIS
    while position > 0 and volume * panel.extents[axes[position]] <= target:
        volume *= panel.extents[axes[position]]
        least, position = 1, position - 1
    axis = axes[position]
    extent = panel.extents[axis]
    outer = math.prod(panel.extents[a] for a in axes[:position])
    blocks = math.ceil(extent / max(least, target // volume))
    if blocks * outer < 2 * threads:
        blocks = min(math.ceil(2 * threads / outer), max(1, extent // least))
    elif outer == 1 and blocks % threads:
        blocks = min(blocks + threads - blocks % threads, extent)
    block = math.ceil(extent / blocks)
    if axis == len(panel.extents) - 1 and block > NARROW_AXIS:
        block = -(-block // NARROW_AXIS) * NARROW_AXIS
    block = min(extent, -(-block // grain) * grain)
    blocks = math.ceil(extent / block)
    return Tiling(tuple(axes[:position]), axis, block, blocks, blocks * outer)


def lead_groups(body: Graph, n: Node, lead: int) -> tuple[tuple[int, ...], ...]:
    """The leading axes of `n`, merged where every array of the body takes them as one."""
    regular, _ = _operands(body, len(n.shape))
    return _grouped(range(lead), lambda group, a: all(_as_one(_last(group, n.shape), a, n.shape, e) for e in regular))


def tile_elements(body: Graph, device: Device) -> int:
    """How many elements the arrays of a tile have: as many as fit a core's cache together, those alive at once.

    But no fewer than make a call last: threads that make short calls wait for Python's lock more than they work. Of
    pairs, no more than `PAIRS_OVER_TILES` says: a program that does without an array of all pairs is one of little
    memory.
    """
    besides = aside(body)
    itemsize = max((n.dtype.itemsize for n in body.nodes if n.type.size > 1 and n not in besides), default=1)
    arrays, products, of_pairs = max(2, alive(body)), body.of_role(Role.CONTRACTION), is_of_pairs(body)
    fitting = device.tile_bytes // (arrays * itemsize)
    lasting = 0 if products and not of_pairs else _lasting(body, besides, device)
    elements = fitting if products else max(fitting, lasting)
    if of_pairs:
        share = max(n.type.size for n in body.computations) // (PAIRS_OVER_TILES * device.threads * alive(body))
        elements = min(elements, max(share, lasting // SHORTER))
    return max(1, elements)


def _lasting(body: Graph, besides: Collection[Node], device: Device) -> int:
    """Elements of which a call lasts so long that threads gain."""
    if device.threads == 1:
        return 0
    working = [n for n in body.computations if n.type.size > 1]
    seconds = sum(node_work(n, device).seconds * device.threads for n in working)
    elements = sum(max(a.type.size for a in (n, *n.args) if a not in besides) for n in working)
    return int(device.lasting_seconds * elements / seconds) if seconds else 0


def is_of_pairs(body: Graph) -> bool:
    """Is an array far larger than all that the kernel reads and writes computed in it, element by element?"""
    full = max((n.type.size for n in body.of_role(Role.ELEMENTWISE)), default=0)
    products = max((n.type.size for n in body.of_role(Role.CONTRACTION)), default=0)
    return max(products, PAIRS_OVER_TRAFFIC * sum(n.type.size for n in (*body.inputs, *body.outputs))) < full


@lru_cache(maxsize=256)  # a schedule asks several times
def alive(body: Graph) -> int:
    """How many arrays of full size are needed at once, results written over operands that are done."""
    besides = aside(body)
    full = max(n.type.size for n in body.nodes if n not in besides)
    products = _summed_products(body)
    apart = {*besides, *products}
    held = {n for n in body.nodes if n.type.size == full and n not in apart and n.row.role is not Role.VIEW}
    order = [n for n in evaluation_order(body) if computes(n) and n not in products]
    reads = {n: held & {leaf_chain(f)[0] for a in n.args for f in (a.args if a in products else (a,))} for n in order}
    last = {a: n for n in order for a in reads[n]} | dict.fromkeys(leaf_chain(o)[0] for o in body.outputs)
    now = peak = sum(n.op == "input" for n in held)
    for n in order:
        done = sum(last[a] is n and computes(a) for a in reads[n])
        peak = max(peak, now + (n in held and not done))
        now += (n in held) - done
    return peak


def _summed_products(body: Graph) -> set[Node]:
    """Products of elements that only sums of rows read: a tile takes these as dot products, and never stores them."""
    sums = [n for n in body.computations if n.op == "sum" and sums_rows(n.attr("axes"), n.args[0].type)]
    read = [a for n in body.nodes for a in n.args] + [*body.outputs]
    return {a for (a,) in (n.args for n in sums) if a.op in ("multiply", "square") and read.count(a) == 1}


def grain(body: Graph) -> int:
    """Elements that blocks are a multiple of: those of a cache line, where an array is read across its lines."""
    across = [a for n in body.computations if n.op != "matmul" for a in n.args if run_axis(a) is not None]
    return max((LINE // a.dtype.itemsize for a in across), default=1)


def whole_seconds(body: Graph, device: Device) -> float:
    """What one NumPy call after another on whole arrays takes."""
    return sum(node_work(n, device).whole for n in body.computations)


def worth_tiling(body: Graph, whole: float, device: Device) -> bool:
    """Are tiles on several threads clearly faster than NumPy calls on whole arrays, which take `whole` seconds and what
    it takes to copy arrays across the axis that they lie along?"""
    read = shares(body)
    moved = sum(int(v.type.nbytes * read.get(v, 1)) for v in (*body.inputs, *body.outputs))
    if is_lone_reduction(body) and read_across(body):
        return False
    copied = copy_work(body, device)
    done = total_work([*(node_work(n, device) for n in body.computations), *copied])
    return tiles_pay(done._replace(whole=whole + sum(c.whole for c in copied)), moved, device)


def copy_work(body: Graph, device: Device) -> list[Work]:
    """What it takes to copy the arrays that `body` reads across the axis that they lie along, and views to results."""
    if is_lone_reduction(body):
        return []
    across = [transposed_read(t.size, t.dtype.itemsize, device) for t in read_across(body)]
    return [*across, *[work for o in map(unreshaped, body.outputs) for work in _view_copied(o, device)]]


def _view_copied(n: Node, device: Device) -> list[Work]:
    """What it takes NumPy to begin the runs of the view `n` of an input that it copies, and to step over gaps."""
    leaf, chain = leaf_chain(n)
    strides = strides_after(leaf.type, chain) if leaf.op == "input" and run_axis(n) is None else None
    if strides is None:
        return []
    last = next((abs(step) for extent, step in zip(n.shape[::-1], strides[::-1], strict=True) if extent > 1), 1)
    runs = rows_apart(n.shape, strides) * device.call_seconds / COPIED_RUNS
    begun = Work(0, runs / device.threads, 0, runs)
    return [begun, work_of_gaps(n.type.size, n.dtype.itemsize, device)] if last > 1 else [begun]


def read_across(body: Graph) -> list[TensorType]:
    """The arrays that `body` reads across the axis that they lie along."""
    read = [*(a for n in body.computations if n.op != "matmul" for a in n.args), *map(unreshaped, body.outputs)]
    return [a.type for a in dict.fromkeys(read) if run_axis(a) is not None]


def is_lone_reduction(body: Graph) -> bool:
    """Is it a reduction alone? That takes the axes in the order in which they lie, and its tiles need no cache."""
    return [n.row.role for n in body.computations] == [Role.REDUCTION]


def node_work(n: Node, device: Device, steps: Jumps = NO_JUMPS) -> Work:
    """What `n` costs to compute; arguments as those of `roofline.work`."""
    costs = _works.setdefault(n, {})
    cost = costs.get((device, steps))
    if cost is None:
        literal = n.args[-1].literal if n.args and n.args[-1].op == "const" else None
        cost = work(n.op, n.attrs, n.type, [a.type for a in n.args], device, steps, literal)
        cost = costs[device, steps] = gram_work(cost, n, device) if is_gram(n) else cost
    return cost


_works: WeakKeyDictionary[Node, dict[tuple[Device, Jumps], Work]] = WeakKeyDictionary()  # many bodies share nodes


def tile_indices(panel: Panel, cut: Tiling) -> list[str]:
    """Lines that find a tile's indices ``p…`` and ``i:j`` from its ``number``."""
    lines = []
    rest = "number"
    if cut.loops:
        if cut.blocks > 1:
            lines.append(f"number, u = divmod(number, {cut.blocks})")
            rest = "u"
        else:
            rest = "0"
        lines += [f"number, p{a} = divmod(number, {panel.extents[a]})" for a in reversed(cut.loops[1:])]
        lines.append(f"p{cut.loops[0]} = number")
    extent = panel.extents[cut.axis]
    lines.append(f"i = {rest} * {cut.block}")
    lines.append(f"j = min(i + {cut.block}, {extent})" if cut.ragged(extent) else f"j = i + {cut.block}")
    return lines
