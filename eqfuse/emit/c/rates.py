"""What loops in C cost: bytes that pass between memory and arrays, and seconds of operators, by price class.

In: the forms of a body over a nest of loops. Out: bytes by input, seconds of one thread. Next stop: `schedule.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from eqfuse.cost.device import PRICED_AS, Device
from eqfuse.cost.work import LINE
from eqfuse.dtypes import BFLOAT16, FLOAT16, kind
from eqfuse.emit.c.forms import Form
from eqfuse.emit.c.nest import PERMUTED_STEPS, Access, Nest
from eqfuse.emit.c.ops import PLACES, is_prepared
from eqfuse.emit.c.passes import GATHERING, REDUCING, is_load, is_scan
from eqfuse.ir.graph import Graph, Node, topological
from eqfuse.kinds.cascade import Cascade
from eqfuse.kinds.elements import bytes_read
from eqfuse.ops import Role, row
from eqfuse.ops.row import PriceClass

# What an element costs in additions of its dtype, operands in the nearest cache: measured on a Zen 5 with 512-bit
# vectors, where a vector of additions takes 1/3 ns, and on a Xeon of 2023, which divides half as fast: between the two,
# and rounded. By price class; functions that differ by themselves.
ADDITIONS = {
    PriceClass.FREE: 0, PriceClass.SIMPLE: 1, PriceClass.LOGIC: 1, PriceClass.REDUCTION: 1, PriceClass.DIVISION: 7,
    PriceClass.EXPONENTIAL: 16, PriceClass.ERF: 26, PriceClass.FLOOR_DIVISION: 120, PriceClass.DIVISORS: 2000,
}  # fmt: skip
BY_OPERATOR = {  # of floats
    "sqrt": 9, "log": 19, "log1p": 24, "tanh": 22, "sinh": 20, "cosh": 20, "asinh": 56, "acosh": 48, "atanh": 36,
    "sin": 21, "cos": 21, "tan": 42, "asin": 18, "acos": 16, "atan": 20, "atan2": 22, "power": 70, "cbrt": 28,
    "hypot": 26, "erfc": 62, "logaddexp": 140, "nextafter": 8,
}  # fmt: skip
LONGER = 1.4  # times as many, of float64: its series are longer, and so are its divisions
DEAR_ADDITIONS = ADDITIONS[PriceClass.DIVISION]  # and more, are functions
AS_LONG = frozenset(["asinh", "acosh", "hypot", "logaddexp", "nextafter", "power", "tan"])  # but of these
DIVIDED = {1: 60, 2: 30, 4: 24, 8: 26}  # quotients and remainders of integers, by their bytes
DIVIDED_BY_ONE = 14  # where the divisor is one number
WIDENED = 1  # of an element that is made wider before it is reduced
SUM_KEPT = 2  # of an element that joins a sum of its column, which is loaded and stored
SUM_WAIT = 3  # of an element of a row that is reduced: one vector after another joins one sum
SOUGHT = 9  # more, where it is that of a row
FOLDED, FOUND = 3e-9, 1.2e-8  # seconds to make one result of a vector of them, and to find its place
OF_PLACE = 3  # of a reduction that finds one: values are kept until it is known
ONE_BY_ONE = 250  # what is computed one element after another
OF_GATHER = 30  # of any dtype
SCAN_STEP = 60  # of a scan along a row, each of which waits for the one before
SCAN_LANES = 16  # in whose time a scan along a row takes one step of a dear operator
COLUMN = 3  # of a scan of columns side by side
MOVED = 1  # of an element of a strip, which is stored, or loaded
IN_LINE, CROSSING = 0.8, 1.6  # of an element of a vector that is loaded: one whose line it is, and one across two lines
ACROSS, BYTE_ACROSS = 8, 18  # of float32: an element of four bytes, and of one, that is read by blocks; see `across`
PERMUTED = 2  # of an element that lies some steps from the next, for each step: vectors of all are loaded and permuted
ONE_LINE = 0.4  # of a load of an element far from the next, at least, where several lie in one cache line
REST = 16  # elements that take a turn more, of those that no vector and no half of one holds
LOOP_BEGIN = 2e-9  # seconds until a loop of vectors runs
CELL = 4e-9  # seconds until the loops of a cell run
HALF_ROUNDING = 10  # of 16-bit floats, loaded, stored, and rounded after each operator
VECTOR = 64  # bytes of a vector
WAY = 128 << 10  # bytes from one line to the next that has the same place in a level-2 cache, of cores since 2017
READ, WRITTEN = 2 / 3, 4 / 3  # of what a byte of a copy costs: before a line is written it is read, too


@cache
def additions(op: str, dtype: np.dtype, by_one: bool = False) -> tuple[float, str]:
    """What one element of `op` on `dtype` costs in additions, and the dtype of these. `by_one`: the second argument is
    one number for all elements."""
    name, gathers = dtype.name, row(op).role is Role.GATHER
    own = OF_PLACE if op in PLACES else OF_GATHER if gathers else BY_OPERATOR.get(op) if kind(dtype) == "f" else None
    if is_prepared(op, dtype):
        own = DIVIDED_BY_ONE if by_one else DIVIDED[dtype.itemsize]
    times: float = own or ADDITIONS.get(row(op).price, ONE_BY_ONE)
    if name == "float64" and DEAR_ADDITIONS <= times < ONE_BY_ONE and op not in AS_LONG and not gathers:
        times *= LONGER
    if dtype in (FLOAT16, BFLOAT16):
        times, name = times + HALF_ROUNDING, "float32"
    base, share = PRICED_AS.get(name, (name, 1))
    return times * share, base


def work_of(
    nest: Nest, forms: Sequence[Form], seams: Mapping[int, Sequence[int]], device: Device
) -> tuple[float, int]:
    """Seconds of one thread to compute all passes, and operations."""
    passes, flops = work_by_pass(nest, forms, seams, device)
    return sum(passes), flops


def work_by_pass(
    nest: Nest, forms: Sequence[Form], seams: Mapping[int, Sequence[int]], device: Device
) -> tuple[list[float], int]:
    """Seconds of one thread to compute each pass, strips with the first, and operations."""
    total, flops = max(1, nest.elements), 0
    begin = total / max(1, nest.runs.block) * LOOP_BEGIN
    if seams:
        begin = nest.units * math.prod([len(seams[d]) - 1 for d in (*nest.inside, nest.vector) if d in seams]) * CELL
    seconds = [0.0 if nest.is_line else begin for _ in forms[0].passes]
    for form in forms:
        lanes = _lanes(form, nest)
        size, full = _size(form, nest, lanes) if seams else (total, total * not_full(nest.runs.extent, lanes))
        loops, count = _work_of(form, nest, device)
        strips = len(form.strips)
        for number, each in enumerate([sum(loops[: strips + 1]), *loops[strips + 1 :]]):
            seconds[number] += each * full / total
        flops += round(count * size / total)
    return seconds, flops


def _size(form: Form, nest: Nest, lanes: int) -> tuple[int, float]:
    """The elements of the cells of `form`, and as many of full vectors as take as long."""
    size, full = 0, 0.0
    for box in form.boxes:
        extents = [math.prod([box[a][1] - box[a][0] for a in dim.axes]) for dim in nest.dims]
        count, along = math.prod(extents), extents[nest.vector]
        size += count
        full += count * not_full(along, lanes)
    return size, full


def _lanes(form: Form, nest: Nest) -> int:
    """Elements that a turn of the loop of vectors takes: a vector of the smallest that it loads or stores, where it has
    as many."""
    stored = {*form.body.outputs, *form.arrays}
    sizes = [n.dtype.itemsize for n, along in form.varying.items() if nest.vector in along and n in stored]
    lanes, least = (VECTOR // max(1, min(VECTOR, size)) for size in (min(sizes, default=4), max(sizes, default=4)))
    while lanes > max(least, nest.runs.extent):
        lanes //= 2
    return max(lanes, 2)


def not_full(extent: int, lanes: int) -> float:
    """How many times as long an element takes in turns of `lanes` along `extent` elements as in full ones: behind the
    last turn come one of half as many, and ever smaller ones for the rest."""
    turns, left = divmod(extent, lanes)
    halves, rest = divmod(left, lanes // 2)
    return max(1.0, (turns + halves + (rest > 0) + rest // REST) * lanes / max(1, extent))


def _work_of(form: Form, nest: Nest, device: Device) -> tuple[list[float], int]:
    """Seconds of one thread for each loop over the whole space by this form, in full vectors, and operations."""
    loops, flops = [], 0
    counts: dict[tuple[frozenset[int], bool], int] = {}
    varying, arrays, threads = form.varying, form.arrays, device.threads
    for turns, nodes, moved in _loops_of(form):
        loading = turns * sum(_load(n, form, nest, device) for n in nodes if n in arrays)
        waits = [n for n in nodes if n.op in REDUCING and not nest.by_columns]
        seconds = turns * sum(_moved(n, nest, device) for n in moved)
        for n in nodes:
            op, args, loaded = n.op, n.args, is_load(n)
            gathers = op in GATHERING
            key = varying[args[gathers]] if gathers or op in REDUCING else varying[n], loaded
            count = counts.get(key)
            if count is None:
                count = counts[key] = _times(nest, *key)
            if not loaded:
                flops += round(turns * count)
                times, base = additions(op, worked_on(n), not varying[args[-1]])
                if op in REDUCING:
                    times += WIDENED * _widens(n) + SUM_KEPT * nest.by_columns
                    times += SOUGHT * (op in PLACES and not nest.by_columns)
                if is_scan(n):
                    times = _of_scan(n, nest)
                seconds += turns * count * times * threads / device.scalar_rate(base)
            elif n in arrays and abs(nest.runs.step(arrays[n].access)) > 1:
                seconds += turns * count * _loaded(n, arrays[n].access, nest, device)
        if waits:
            _, base = additions("add", worked_on(waits[0]))
            seconds = max(seconds, nest.elements * SUM_WAIT * threads / device.scalar_rate(base))
            seconds += sum([n.type.size * (FOUND if n.op in PLACES else FOLDED) for n in waits])
        loops.append(max(seconds, loading))
    return loops, flops


def _load(n: Node, form: Form, nest: Nest, device: Device) -> float:
    """Seconds of one thread to load all vectors of neighbours in `n`, while others are computed with."""
    access = form.arrays[n].access
    if abs(nest.runs.step(access)) != 1:
        return 0.0
    first = access.offset + sum(low * s for (low, _), s in zip(form.boxes[0], access.strides, strict=True))
    places = [first, *[d.step(access) for d in nest.dims if d is not nest.runs]]
    crosses = any(place * n.dtype.itemsize % LINE for place in places)
    times = (CROSSING if crosses else IN_LINE) * n.dtype.itemsize / 4
    return nest.elements * times * device.threads / device.scalar_rate("float32")


def across(itemsize: int, device: Device) -> float:
    """Seconds of one thread to read an element by blocks, across the axis that its array lies along."""
    times = BYTE_ACROSS if itemsize == 1 else ACROSS * max(4, itemsize) / 4
    return times * device.threads / device.scalar_rate("float32")


def far_load(itemsize: int, device: Device) -> float:
    """Seconds of one thread to load an element of many, each of which lies far from the next."""
    name = {2: "float16", 4: "float32"}.get(itemsize, "float64")
    return device.threads * device.element_seconds("transpose", name)


def _loaded(n: Node, access: Access, nest: Nest, device: Device) -> float:
    """Seconds of one thread to load an element of `n`, some steps from the next."""
    if nest.reads_across(access):
        return across(n.dtype.itemsize, device)
    step = abs(nest.runs.step(access))
    seconds = far_load(n.dtype.itemsize, device) * min(1.0, max(ONE_LINE, step * n.dtype.itemsize / LINE))
    permuted = PERMUTED * step * _addition(n.dtype, device) * device.threads
    return min(seconds, permuted) if step <= PERMUTED_STEPS else seconds


def worked_on(n: Node) -> np.dtype:
    """The dtype of the values that `n` works on; where it makes wider ones of them, that of these."""
    dtype = n.args[n.row.values_from].dtype
    return n.dtype if _widens(n) or (n.op == "cast" and n.dtype.itemsize > dtype.itemsize) else dtype


def _widens(n: Node) -> bool:
    """Is it a reduction of wider values than it reads?"""
    return n.op in REDUCING - PLACES.keys() and n.dtype.itemsize > n.args[0].dtype.itemsize


def _loops_of(form: Form) -> Iterator[tuple[float, Sequence[Node], Sequence[Node]]]:
    """Of each loop: how often it runs for an element, what it loads, computes or reduces, and what it moves from strips
    or to one."""
    for strip in form.strips:
        yield strip.turns, strip.nodes, (*strip.taken, strip.value)
    for p in form.passes:
        yield 1.0, (*p.nodes, *p.reductions), p.taken if form.strips else ()


def _moved(n: Node, nest: Nest, device: Device) -> float:
    """Seconds of one thread to store a value in a strip, or to load it from there, for all elements."""
    return nest.elements * MOVED * _addition(n.dtype, device) * device.threads


def _addition(dtype: np.dtype, device: Device) -> float:
    """Seconds of an addition, all threads at work, of what `dtype` is computed in."""
    name = "float32" if dtype in (FLOAT16, BFLOAT16) else dtype.name
    base, share = PRICED_AS.get(name, (name, 1))
    return share / device.scalar_rate(base)


def _of_scan(n: Node, nest: Nest) -> float:
    """What a step costs in additions."""
    dear = BY_OPERATOR.get(n.attr("ufunc"), 0) if n.op == "accumulate" else 0
    return COLUMN + dear if nest.by_columns else SCAN_STEP + SCAN_LANES * dear


def _times(nest: Nest, dims: frozenset[int], loaded: bool) -> int:
    """How often a value that differs along `dims` is loaded or computed: in each turn of the loop that it stands in."""
    if nest.is_line or not dims:
        return nest.elements if dims else 1
    loops = set(range(len(nest.dims)))
    if nest.vector not in dims:
        loops -= {nest.vector} if dims & {*nest.inside} else {nest.vector, *nest.inside}
    elif nest.by_columns and not dims & nest.reduced and not loaded:
        loops -= nest.reduced
    return math.prod([nest.dims[d].extent for d in loops])


def bytes_of(body: Graph, nest: Nest, forms: Sequence[Form], device: Device) -> tuple[int, ...]:
    """Bytes read of each input: once where what a unit reads stays near from pass to pass, else once a pass."""
    once = bytes_read(body, body.outputs)
    if len(forms[0].passes) == 1:
        return once
    if near_bytes(nest, forms) <= device.l2_bytes // 2:
        return once
    times = dict.fromkeys(body.inputs, 0)
    for number in range(len(forms[0].passes)):
        for i in {i for form in forms for i in form.read_in(number)}:
            if i in times:
                times[i] += 1
    return tuple([nbytes * max(1, times[i]) for i, nbytes in zip(body.inputs, once, strict=True)])


def traffic_of(read: int, written: int, streamed: int = 0) -> int:
    """As many bytes of a copy, half read and half written, as take as long. `streamed`: those of the ones written that
    pass by the caches."""
    return round(READ * (read + streamed) + WRITTEN * (written - streamed))


def near_bytes(nest: Nest, forms: Sequence[Form]) -> int:
    """Bytes that the arrays which a unit reads take up in a level-2 cache. Of rows that lie a multiple of a power of
    two apart, the lines have the places of as many bytes: a short part of each row takes up as much as that."""
    loops, near = {*nest.inside, nest.vector}, 0
    for n, read in forms[0].arrays.items():
        along = nest.varies(read.access) & loops
        if not along:
            continue
        size = n.dtype.itemsize
        for d in sorted(along, key=lambda d: abs(nest.dims[d].step(read.access))):
            apart = abs(nest.dims[d].step(read.access)) * n.dtype.itemsize
            size = max(size, min(apart & -apart, WAY)) * nest.dims[d].block
        near += size
    return near


def joining_seconds(cascade: Cascade, parts: int, device: Device) -> float:
    """Seconds of one thread to carry what `parts` give over to the whole."""
    seconds = 0.0
    for n in topological([cascade.shares[r] for stage in cascade.stages[1:] for r in stage]):
        if n.args:
            times, base = additions(n.op, n.args[-1].dtype)
            seconds += n.type.size * parts * times * device.threads / device.scalar_rate(base)
    return seconds
