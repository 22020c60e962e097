"""Loops and choices: a Python loop over the program of a step, whose arena is taken once for all steps.

In: a kernel with the plans of its steps. Out: `Source`. A step gives its carries in new arrays, in the memory of those
of the step before the last (`plan/memory.py`), so it allocates nothing large. A carry that every step updates in place
(`plan/in_place.py`) lies where the loop's result does, from the first step on, and that may be where the value lies
that it begins with. So it is with what both branches of a choice update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from eqfuse.emit.executable import in_order as ordered
from eqfuse.emit.numpy.source import Source, tuple_text
from eqfuse.emit.steps import begun_in_place, held_results
from eqfuse.ir.graph import Node
from eqfuse.ir.loops import FIRST_CARRY, result_number
from eqfuse.ir.view_strides import contiguous
from eqfuse.ir.views import leaf_chain, strides_after
from eqfuse.ops.loops import INDEX_TYPE, packed_part, places, results_of, scan_indices
from eqfuse.ops.types import TensorType
from eqfuse.plan.loops import first_carries, is_indexed, planned_loop
from eqfuse.plan.memory import results
from eqfuse.plan.plan import Kernel


def loop_kernel(kernel: Kernel, steps: Sequence[Any], native: LoopRunner | None = None) -> Source:
    """The kernel of a loop or a choice, whose programs are `steps`. `native`: what runs it without Python."""
    n = planned_loop(kernel)
    source = Source(kernel.body)
    lent = steps if native is None else steps[:-1]
    source.names |= {"lend": _lending(lent), "give_back": _giving(lent)}
    source.names |= {"int": int, "order": scan_indices, "part": packed_part, "begin": _begun, "settle": _settle}
    source.names["in_order"] = ordered
    source.kernel_bytes = max(s.peak_bytes for s in steps)
    source.short_buffers = any(s.short_buffers for s in steps)
    types = results_of(n.op, [a.type for a in n.args], n.attrs)
    first = first_carries(n)
    copied = {first[carry] for carry in steps[-1].kept}  # to where the carry lies
    source.carries = begun_in_place(kernel, {carry: n.args[first[carry]] for carry in steps[-1].kept})
    args = [_operand(source, a, i, steps[-1].reads_in_order and i not in copied) for i, a in enumerate(n.args)]
    views = _views(steps[-1])
    kept = steps[-1].kept
    into = [
        Destination(p, i in kept, kept.get(i, i) != i, i in views) for i, p in enumerate(_places(source, types))
    ]
    if native is None:
        source.kernel_bytes += held_results(kernel, steps)
        _WRITERS[n.op](source, n, args, into)
    else:
        _write_natively(source, n, args, into, native)
    outputs = kernel.body.outputs
    for place, written in zip(source.writes, outputs, strict=True):
        if written.op != "loop_result" and place != "o0":
            source.line(f"copyto({place}, o0)")
    for name, step in zip(("first", "step") if len(steps) > 1 else ("step",), steps, strict=True):
        source.lines += ["", f"    # {name}:", *(f"    # {line}" for line in step.source().splitlines())]
    return source


ENDLESS = 1 << 62  # iterations of a loop that ends by itself


class LoopRunner(Protocol):
    """Turns of a loop that run without Python."""

    @property
    def spares(self) -> Sequence[TensorType]:
        """Types of the arrays that it wants besides."""

    def run(self, rows: range, start: int, arrays: Sequence[np.ndarray]) -> None:
        """An iteration for each of `rows`, of which that numbered 0 has the number `start` for the step. `arrays`:
        what the loop reads, places of its results, spares. Of a loop that ends by itself `rows` is as long as it may
        be."""


class Destination(NamedTuple):
    """Where a result goes. `kept`: it is a carry in the memory of those before, and this one's is begun there;
    `moves`: each step gives it in another one's; `is_view`: each step gives a view, whose elements the next one wants
    in order."""

    name: str
    kept: bool
    moves: bool
    is_view: bool


def _begun(place: np.ndarray, array: np.ndarray) -> None:
    """Let the carry that lies in `place` begin as `array`, which lies there itself or apart from it."""
    if not np.may_share_memory(place, array):
        np.copyto(place, array)


def _settle(places: Sequence[np.ndarray], arrays: Sequence[np.ndarray]) -> None:
    """Move `arrays`, which lie in these `places` in some order, each to its own."""
    apart = [(p, a.copy()) for p, a in zip(places, arrays, strict=True) if not np.may_share_memory(p, a)]
    for place, array in apart:
        np.copyto(place, array)


def _operand(source: Source, n: Node, number: int, in_order: bool) -> str:
    """A name for `n`: a view of a leaf is made once, not in every step, and put `in_order` if steps read it so."""
    text = source.view(n)
    if n.op == "const" or (n in source.reads and not in_order):
        return text
    if in_order:
        source.kernel_bytes += n.type.nbytes * (not _lies_in_order(n))
        text = f"in_order({text})"
    source.line(f"x{number} = {text}")
    return f"x{number}"


def _lies_in_order(n: Node) -> bool:
    """Are the views that `n` is of an array in C order in C order, too?"""
    leaf, chain = leaf_chain(n)
    return strides_after(leaf.type, chain) == contiguous(n.shape)


def _views(step: Any) -> frozenset[int]:
    """The results of `step` that are views, where the next step wants elements in order."""
    views = {k.writes[0] for k in step.plan.kernels if k.is_view and step.reads_in_order}
    return frozenset(i for i, v in enumerate(step.plan.outputs) if v in views and i not in step.kept)


def _lending(steps: Sequence[Any]) -> Callable[[], list[Any]]:
    """What lends the functions of `steps`, each with its memory; `_giving` gives them back."""
    return lambda: [s.take() for s in steps]


def _giving(steps: Sequence[Any]) -> Callable[[list[Any]], None]:
    def give_back(lent: list[Any]) -> None:
        for step, (bound, arena) in zip(steps, lent, strict=True):
            step.give(bound, arena)

    return give_back


def _places(source: Source, types: Sequence[TensorType]) -> list[str]:
    """Names of where the results go: each a place of its own, or all of them one behind the other in one vector."""
    outputs = source.body.outputs
    if len(types) == 1:
        return ["o0"]
    if outputs[0].op == "loop_result":
        written = {result_number(n): name for n, name in zip(outputs, source.writes, strict=True)}
        return [written.get(i) or source.workspace(t) for i, t in enumerate(types)]
    names = []
    for i, (start, t) in enumerate(zip(places(types), types, strict=False)):
        source.names[f"type{i}"] = t
        source.line(f"p{i} = part(o0, {start}, type{i})")
        names.append(f"p{i}")
    return names


def _write_natively(
    source: Source, n: Node, args: list[str], into: list[Destination], native: LoopRunner
) -> None:  # fmt: skip
    count: int = n.attr("carries")
    begun = args[FIRST_CARRY[n.op] :]
    source.block([f"begin({p.name}, {arg})" for arg, p in zip(begun, into[:count], strict=False) if p.kept], 1)
    source.names |= {"iterate": native.run, "range": range}
    start = 0
    if n.op == "scan":
        rows, start = f"order({n.attr('trips')}, {n.attr('reverse')})", n.attr("start")
    elif n.op == "fori_loop":
        rows = f"range(int({args[0]}), int({args[1]}))"
    else:
        source.line("((first, _),) = lent = lend()")
        rows = f"range({ENDLESS} if first({tuple_text(args)})[0] else 0)"
    source.names["result"] = results.new
    for i, t in enumerate(native.spares):
        source.line(f"s{i} = result({t.shape}, {source.dtype(t.dtype)})")
        source.kernel_bytes += t.nbytes
    spares = [f"s{i}" for i in range(len(native.spares))]
    handed = [*args, *(place.name for place in into), *spares]
    source.line(f"iterate({rows}, {start}, {tuple_text(handed)})")
    if n.op == "while_loop":
        source.line("give_back(lent)")


def _while(source: Source, n: Node, args: list[str], into: list[Destination]) -> None:
    count: int = n.attr("carries")
    state, shared = _begin(source, args, into), args[count:]
    operands = tuple_text([*state, *shared])
    source.line("(first, _), (step, _) = lent = lend()")
    source.line(f"goes_on = first({operands})[0]")
    source.line("while goes_on:")
    source.line(f"{', '.join([*state, 'goes_on'])} = step({operands})", 2)
    _put_in_order(source, state, into)
    _end(source, state, into)


def _fori(source: Source, n: Node, args: list[str], into: list[Destination]) -> None:
    lower, upper, *rest = args
    count: int = n.attr("carries")
    state, shared = _begin(source, rest, into), rest[count:]
    _index(source)
    source.line("((step, _),) = lent = lend()")
    source.line(f"for index[()] in range(int({lower}), int({upper})):")
    source.line(f"{tuple_text(state)} = step({tuple_text(['index', *state, *shared])})", 2)
    _put_in_order(source, state, into)
    _end(source, state, into)


def _scan(source: Source, n: Node, args: list[str], into: list[Destination]) -> None:
    count: int = n.attr("carries")
    stacked, shared = args[count:][: n.attr("stacked")], args[count + n.attr("stacked") :]
    state = _begin(source, args, into[:count])
    _index(source)
    rows = [f"{x}[i, ...]" for x in stacked]
    new_rows = [f"y{i}" for i in range(len(into) - count)]
    source.line("((step, _),) = lent = lend()")
    source.line(f"for i in order({n.attr('trips')}, {n.attr('reverse')}):")
    if is_indexed(n):
        source.line(f"index[()] = {n.attr('start')} + i", 2)
    source.line(f"{tuple_text([*state, *new_rows])} = step({tuple_text(['index', *state, *rows, *shared])})", 2)
    _put_in_order(source, state, into)
    source.block([f"{place.name}[i] = {name}" for place, name in zip(into[count:], new_rows, strict=True)], 2)
    _end(source, state, into[:count])


def _choice(source: Source, n: Node, args: list[str], into: list[Destination]) -> None:
    condition, *shared = args
    results, first = [f"c{i}" for i in range(len(into))], first_carries(n)
    for i, place in enumerate(into):
        if place.kept:
            source.line(f"begin({place.name}, {shared[first[i] - 1]})")
            shared[first[i] - 1] = place.name
    source.line("(first, _), (step, _) = lent = lend()")
    source.line(f"{tuple_text(results)} = (first if {condition} else step)({tuple_text(shared)})")
    _end(source, results, into)


_WRITERS: dict[str, Callable[[Source, Node, list[str], list[Destination]], None]] = {
    "while_loop": _while, "fori_loop": _fori, "scan": _scan, "if_else": _choice,
}  # fmt: skip


def _index(source: Source) -> None:
    source.line(f"index = empty((), {source.dtype(INDEX_TYPE.dtype)})")


def _begin(source: Source, args: Sequence[str], into: Sequence[Destination]) -> list[str]:
    state = [f"c{i}" for i in range(len(into))]
    for name, arg, place in zip(state, args, into, strict=False):
        if place.kept:
            source.line(f"begin({place.name}, {arg})")
        source.line(f"{name} = {place.name if place.kept else arg}")
    return state


def _put_in_order(source: Source, state: Sequence[str], into: Sequence[Destination]) -> None:
    source.block([f"{name} = in_order({name})" for name, p in zip(state, into, strict=False) if p.is_view], 2)


def _end(source: Source, state: Sequence[str], into: Sequence[Destination]) -> None:
    ends = [*zip(into, state, strict=True)]
    source.block([f"copyto({place.name}, {name})" for place, name in ends if not place.kept], 1)
    moved = [(place.name, name) for place, name in ends if place.moves]
    if moved:
        source.line(f"settle({tuple_text([place for place, _ in moved])}, {tuple_text([name for _, name in moved])})")
    source.line("give_back(lent)")
