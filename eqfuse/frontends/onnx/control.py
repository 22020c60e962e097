"""ONNX control flow and sequences: branches whose condition is known, loops whose end is known, lists of tensors.

In: calls of rows from `nodes.py`. Out: traced arrays, and lists of them. What decides must not depend on data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError, UnsupportedOp
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.table import axis_of, ints, one, operator

Body = Callable[..., list[Any]]
MAX_STEPS = 10_000  # of a loop


@operator("If")
def if_(condition: Any, *, then_branch: Body, else_branch: Body) -> Any:
    return tuple(then_branch() if one(condition, "the condition of If") else else_branch())


def _made(body: Body, inputs: tuple[Any, ...], count: int) -> list[Any]:
    """What a step of `body` puts out: at least `count` values."""
    made = body(*inputs)
    if len(made) < count:
        raise ShapeError(f"its body puts out {len(made)} values, {count} are needed")
    return made


@operator("Loop")
def loop(trips: Any = None, condition: Any = None, *states: Any, body: Body, outputs: int = 1) -> Any:
    """The states after the last step, then what each step puts out, along a new first axis."""
    count = None if trips is None else one(trips, "the trip count of Loop")
    going = True if condition is None else one(condition, "the condition of Loop")
    now: list[Any] = list(states)
    rows: list[list[Any]] = []
    while going and (count is None or len(rows) < count):
        if len(rows) == MAX_STEPS:
            raise UnsupportedOp(f"a Loop of more than {MAX_STEPS} steps")
        going_on, *made = _made(body, (lift(np.int64(len(rows))), lift(np.bool_(True)), *now), 1 + len(states))
        now = [x if isinstance(x, list) else lift(x) for x in made[: len(states)]]
        rows.append(made[len(states) :])
        going = condition is None or one(going_on, "the condition of Loop")
    if outputs > len(states) and not rows:
        _, *made = _made(body, (lift(np.int64(0)), lift(np.bool_(True)), *states), 1 + len(states))
        return (*states, *(_none_of(x) for x in made[len(states) :]))
    return (*now, *(lazy.stack([row[i] for row in rows]) for i in range(outputs - len(states))))


def _none_of(x: Any, axis: int = 0) -> Any:
    """What no steps put out of which each would put out `x`."""
    return lazy.stack([x], axis)[(slice(None),) * (axis % (x.ndim + 1)) + (slice(0),)]


@operator("Scan", since=9)
def scan(
    *values: Any, body: Body, num_scan_inputs: int, scan_input_axes: tuple[int, ...] = (),
    scan_input_directions: tuple[int, ...] = (), scan_output_axes: tuple[int, ...] = (),
    scan_output_directions: tuple[int, ...] = (),
) -> Any:  # fmt: skip
    first = len(values) - num_scan_inputs
    now = list(values[:first])
    scanned = []
    for i, x in enumerate(values[first:]):
        moved = lazy.moveaxis(x, scan_input_axes[i] if scan_input_axes else 0, 0)
        scanned.append(lazy.flip(moved, 0) if scan_input_directions and scan_input_directions[i] else moved)
    rows = []
    for t in range(scanned[0].shape[0]):
        made = _made(body, (*now, *(x[t] for x in scanned)), first)
        now = made[:first]
        rows.append(made[first:])
    if not rows:
        nothing = (np.zeros(x.shape[1:], x.dtype) for x in scanned)
        made = _made(body, (*now, *map(lift, nothing)), first)[first:]
        return (*now, *(_none_of(x, scan_output_axes[i] if scan_output_axes else 0) for i, x in enumerate(made)))
    results = []
    for i, each in enumerate(zip(*rows, strict=True)):
        back = scan_output_directions and scan_output_directions[i]
        results.append(lazy.stack(each[::-1] if back else each, scan_output_axes[i] if scan_output_axes else 0))
    return (*now, *results)


# ---- sequences and options


@operator("Optional", "OptionalGetElement")
def optional(x: Any = None, *, type: Any = None) -> Any:
    return ([*x],) if isinstance(x, list) else x


@operator("OptionalHasElement")
def optional_has_element(x: Any = None) -> Any:
    return np.array(x is not None)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> Any:
    return ([],)


@operator("SequenceConstruct")
def sequence_construct(*xs: Any) -> Any:
    return (list(xs),)


@operator("SequenceAt")
def sequence_at(xs: list[Any], position: Any) -> Any:
    return xs[one(position, "the position in a sequence")]


@operator("SequenceInsert")
def sequence_insert(xs: list[Any], x: Any, position: Any = None) -> Any:
    at = len(xs) if position is None else one(position, "the position in a sequence")
    made = list(xs)
    made.insert(at, x)
    return (made,)


@operator("SequenceErase")
def sequence_erase(xs: list[Any], position: Any = None) -> Any:
    at = -1 if position is None else one(position, "the position in a sequence")
    made = list(xs)
    del made[at]
    return (made,)


@operator("SequenceLength")
def sequence_length(xs: list[Any]) -> Any:
    return np.array(len(xs), np.int64)


@operator("SplitToSequence")
def split_to_sequence(x: Any, given: Any = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    along, n = axis_of(axis, x.ndim), x.shape[axis]
    if given is None:
        parts = lazy.split(x, n, along) if n else []
        return ([p if keepdims else lazy.squeeze(p, along) for p in parts],)
    sizes = ints(given, "the split")
    if given.ndim == 0:
        if sizes[0] <= 0:
            raise ShapeError(f"parts of {sizes[0]} elements")
        sizes = (sizes[0],) * (n // sizes[0]) + ((n % sizes[0],) if n % sizes[0] else ())
    return (list(lazy.split(x, np.cumsum(sizes)[:-1].tolist(), along)),)


@operator("ConcatFromSequence")
def concat_from_sequence(xs: list[Any], *, axis: int, new_axis: int = 0) -> Any:
    return lazy.stack(xs, axis) if new_axis else lazy.concatenate(xs, axis)
