"""One operator, one NumPy call, nothing fused with it; and views on their own, copied.

In: a body of kind library or view. Out: `Source`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from eqfuse.emit.numpy.ops import LAID_OVER, filled_template, replaced_calls, replaced_slices
from eqfuse.emit.numpy.schedule import BlockCopies
from eqfuse.emit.numpy.source import Source, named
from eqfuse.emit.numpy.table import NUMPY_ROWS
from eqfuse.emit.numpy.temporaries import temporaries, unreshaped, view_copy_bytes
from eqfuse.emit.numpy.transpose_copy import COPY_BUFFER, run_axis
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, const, substitute
from eqfuse.plan.plan import Kernel

_MOST_RUNS = 16  # of known places, copied one by one; beyond, as indices


def library_calls(body: Graph) -> int:
    """NumPy calls, and assignments, of a kernel of the one operator in `body`."""
    n, *others = body.computations
    if others:
        names = ", ".join(n.op for n in body.computations)
        raise UnsupportedOp(f"a library kernel holds one operator, this one {names}")
    more = len(body.outputs) - 1
    if n.op in LAID_OVER:
        return replaced_calls(n) + more
    if n.op == "scatter":
        return 1 + (n.shape[1] if _by_column(n) else 1) + more
    if n.op == "take" and n.args[1].op == "const":
        return (len(_slices(n)) or 1) + more
    described = NUMPY_ROWS[n.op]
    copied = described.by_meaning and (more or not described.own_array)
    return (2 if copied else 1) + more


def library_kernel(body: Graph) -> Source:
    """The kernel of a body with one operator on leaves behind views."""
    (n,) = body.computations
    source = Source(body)
    source.inline = True
    args = [named(source, a) for a in n.args]
    if n.op in _WRITTEN:
        _WRITTEN[n.op](source, n, args)
    elif n.op == "take" and n.args[1].op == "const":
        _take_slices(source, n, args)
    elif n.op == "take" and not n.args[1].shape:  # `np.take` copies all of an array with gaps
        array, place = args
        source.line(f"copyto(o0, {array}[{':, ' * (len(n.args[0].shape) + n.attr('axis'))}{place}])")
    elif NUMPY_ROWS[n.op].own_array and len(body.outputs) == 1:
        source.names |= NUMPY_ROWS[n.op].names
        source.returned = filled_template(n, NUMPY_ROWS[n.op].new, args)
    else:
        source.line(_call(source, n, args))
    for place in source.writes[1:]:
        source.line(f"copyto({place}, o0)")
    return source


def block_copies_kernel(schedule: BlockCopies) -> Source:
    """The kernel of a body without operators that copies arrays across the axes they lie along, on all threads."""
    body, source = schedule.body, Source(schedule.body)
    for o, place in zip(body.outputs, source.writes, strict=True):
        base = unreshaped(o)
        destination = place if base is o else f"{place}.reshape({base.shape})"
        if run_axis(base) is None:
            source.note_statement_bytes(view_copy_bytes(base))
            source.line(f"copyto({destination}, {source.view(base)})")
            continue
        source.line(f"x = {source.view(base)}")
        source.line(f"y = {destination}")
        source.line("def tiles(numbers):")
        source.line(f"memory = scratch({COPY_BUFFER})", 2)
        source.line("for number in numbers:", 2)
        source.line("copy_transposed(y, x, memory, number)", 3)
        source.share("blocks_of(x)", schedule.threads, False, COPY_BUFFER)
    return source


def with_constant_places(k: Kernel, constants: Mapping[int, np.ndarray]) -> Kernel:
    """`k`; where it takes from places that are known, with these as a constant: they may be a few slices."""
    n = k.body.outputs[0]
    if n.op != "take" or k.body.computations != (n,) or n.args[1] not in k.body.inputs:
        return k
    position = k.body.inputs.index(n.args[1])
    places = constants.get(k.reads[position])
    if places is None or not _runs(places, n.args[0].type.extent(n.attr("axis"))):
        return k
    outputs = substitute(k.body.outputs, {n.args[1]: const(places)})
    inputs = tuple(i for i in k.body.inputs if i is not n.args[1])
    return replace(k, body=Graph(inputs, outputs), reads=tuple(v for i, v in enumerate(k.reads) if i != position))


def _runs(places: np.ndarray, extent: int) -> list[tuple[int, int, str]]:
    """`places` along an axis of `extent` as a few slices: start and stop in the result, and the slice that lies there.

    None when they are many, or no row of valid places.
    """
    if places.ndim != 1 or not places.size or places.min() < -extent or places.max() >= extent:
        return []
    steps = np.diff(places % extent)
    if np.count_nonzero(steps[1:] != steps[:-1]) > 2 * _MOST_RUNS:
        return []
    runs, start = [], 0
    while start < places.size:
        step = int(steps[start]) if start < steps.size else 1
        other = np.flatnonzero(steps[start:] != step)
        stop = start + 1 + (int(other[0]) if other.size else steps.size - start)
        first, last = int(places[start] % extent), int(places[stop - 1] % extent)
        end = last + 1 if step >= 0 else last - 1 if last else ""
        runs.append((start, stop, f"{first}:{end}" + (f":{step}" if step not in (0, 1) else "")))
        start = stop
    return runs if len(runs) <= _MOST_RUNS else []


def _slices(n: Node) -> list[tuple[int, int, str]]:
    """The few slices that `n` takes, from known places; none where they are many."""
    array, places = n.args
    return _runs(places.literal.array, array.type.extent(n.attr("axis")))


def _take_slices(source: Source, n: Node, args: list[str]) -> None:
    """Copy slice by slice where the places are a few slices: `take` goes element by element."""
    runs = _slices(n)
    before = ":, " * (len(n.args[0].shape) + n.attr("axis"))
    for start, stop, indices in runs:
        source.line(f"o0[{before}{start}:{stop}] = {args[0]}[{before}{indices}]")
    if not runs:
        source.line(_call(source, n, args))


def _call(source: Source, n: Node, args: list[str]) -> str:
    source.note_statement_bytes(temporaries(n))
    source.names |= NUMPY_ROWS[n.op].names
    return filled_template(n, NUMPY_ROWS[n.op].into, args, out="o0")


def laid_over(source: Source, n: Node, args: list[str]) -> None:
    """Copy what no write covers, then write the values in turn."""
    kept, values = replaced_slices(n, args)
    source.keeping = len(kept)
    source.block([f"copyto(o0{index}, {text})" for index, text in kept], 1)
    source.block([f"o0{index} = {text}" for index, text in values], 1)


# ufunc.at is a tenth as slow on one axis: 20,000 rows of 3 take 0.63 ms, three columns of them 0.06. But it takes over
# a microsecond to begin: 16 rows of 32 take 5 of them, 32 columns 40.
MOST_COLUMNS, FEWEST_ADDED = 64, 128


def scatter(source: Source, n: Node, args: list[str]) -> None:
    """Copy the array, then write the values to where the indices say."""
    base, indices, values = args
    axis, mode = n.attr("axis"), n.attr("mode")
    where = ", ".join([*[":"] * (len(n.shape) + axis), indices])
    source.line(f"copyto(o0, {base})")
    source.keeping = 1
    if mode == "set":
        source.line(f"o0[{where}] = {values}")
    elif _by_column(n):
        source.line(f"for q in range({n.shape[1]}):")
        source.line(f"{mode}.at(o0[:, q], ({indices},), {values}[..., q])", 2)
    else:
        whole = ", ".join([*["every"] * (len(n.shape) + axis), indices])
        source.line(f"{mode}.at(o0, ({whole},), {values})")


def _by_column(n: Node) -> bool:
    """Are the columns of what the update `n` joins taken one by one?"""
    is_by_row = n.attr("axis") == -2 and len(n.shape) == 2
    pays = is_by_row and n.shape[1] <= MOST_COLUMNS and n.args[1].type.size >= FEWEST_ADDED
    return n.attr("mode") != "set" and pays


_WRITTEN: dict[str, Callable[[Source, Node, list[str]], None]] = {
    "scatter": scatter, **dict.fromkeys(LAID_OVER, laid_over),
}  # fmt: skip
