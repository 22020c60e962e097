"""ONNX control flow: If, Loop and Scan, as `ef.cond`, `ef.while_loop` and `ef.scan`.

In: calls of rows from `nodes.py`. Out: traced arrays. A branch whose condition is known is taken here; a loop of few
steps, and one whose steps differ in what they make, is unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.errors import EqfuseError, ShapeError, UnsupportedOp
from eqfuse.frontends.numpy import loops
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.table import one, operator

BodyFunction = Callable[..., list[Any]]
MAX_STEPS = 10_000  # of a loop that is unrolled
ROLLED = 8  # steps from which a loop stays one


def is_known(x: Any) -> bool:
    return lift(x).constant_value() is not None


@operator("If")
def if_(condition: Any, *, then_branch: BodyFunction, else_branch: BodyFunction) -> Any:
    if is_known(condition):
        return tuple(then_branch() if one(condition, "the condition of If") else else_branch())
    try:
        return loops.cond(condition.reshape(()), lambda: tuple(then_branch()), lambda: tuple(else_branch()))
    except EqfuseError as error:
        raise _needed(condition, "the condition of If", error) from error


@operator("Loop")
def loop(trips: Any = None, condition: Any = None, *states: Any, body: BodyFunction, outputs: int = 1) -> Any:
    """The states after the last step, then what each step puts out, along a new first axis."""
    for x, what in ((trips, "the trip count of Loop"), (condition, "the condition of Loop")):
        if x is not None and not is_known(x):
            return _until(x, what, trips, condition, states, body, outputs)
    count = None if trips is None else one(trips, "the trip count of Loop")
    going = condition is None or bool(one(condition, "the condition of Loop"))
    if going and count is not None and (count >= ROLLED or count <= 0):
        try:
            return _steady(max(count, 0), condition is None, states, body, outputs)
        except EqfuseError:  # its steps are not alike, and it may still be unrolled
            pass
    now: list[Any] = list(states)
    rows: list[list[Any]] = []
    while going and (count is None or len(rows) < count):
        if len(rows) == MAX_STEPS:
            raise UnsupportedOp(f"a Loop of more than {MAX_STEPS} steps")
        going_on, *results = _outputs(body, (lift(np.int64(len(rows))), lift(np.bool_(True)), *now), 1 + len(states))
        if condition is not None and not is_known(going_on):
            return _until(going_on, "the condition of Loop", trips, condition, states, body, outputs)
        now = [x if isinstance(x, list) else lift(x) for x in results[: len(states)]]
        rows.append(results[len(states) :])
        going = condition is None or bool(one(going_on, "the condition of Loop"))
    if outputs > len(states) and not rows:
        _, *results = _outputs(body, (lift(np.int64(0)), lift(np.bool_(True)), *states), 1 + len(states))
        return (*states, *(_none_of(x) for x in results[len(states) :]))
    return (*now, *(lazy.stack([row[i] for row in rows]) for i in range(outputs - len(states))))


def _until(
    unknown: Any, what: str, trips: Any, condition: Any, states: Sequence[Any], body: BodyFunction, outputs: int
) -> Any:
    """A Loop whose number of steps depends on data, as `unknown`, which is `what`, does."""
    try:
        if outputs > len(states):
            raise UnsupportedOp("it puts out a row for each step, whose number would depend on data")
        return _while(trips, condition, states, body)
    except EqfuseError as error:
        raise _needed(unknown, what, error) from error


def _needed(x: Any, what: str, error: EqfuseError) -> EqfuseError:
    """The refusal that asks for the value of `x`, as `error` happens without."""
    try:
        one(x, f"{what} ({str(error).partition(chr(10))[0]})")
    except EqfuseError as refusal:
        return refusal
    return error


def _while(trips: Any, condition: Any, states: Sequence[Any], body: BodyFunction) -> Any:

    def goes_on(carry: tuple[Any, ...]) -> Any:
        i, going, *_ = carry
        return going if trips is None else going & (i < trips.reshape(()))

    def step(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        i, _, *now = carry
        going_on, *after = _outputs(body, (i, lift(np.bool_(True)), *now), 1 + len(states))
        going = lift(np.bool_(True)) if condition is None else lift(going_on).reshape(())
        return (i + 1, going, *after[: len(states)])

    going = lift(np.bool_(True)) if condition is None else condition.reshape(())
    return loops.while_loop(goes_on, step, (lift(np.int64(0)), going, *states))[2:]


def _steady(count: int, unconditional: bool, states: Sequence[Any], body: BodyFunction, outputs: int) -> Any:
    """A Loop of `count` steps. EqfuseError where a step may end it, or differs from others in what it makes."""

    def step(now: tuple[Any, ...], i: Any) -> tuple[Any, Any]:
        going_on, *results = _outputs(body, (i, lift(np.bool_(True)), *now), 1 + len(states))
        if not unconditional and not one(going_on, "the condition of Loop"):
            raise UnsupportedOp("a Loop that ends before its trip count")
        return tuple(results[: len(states)]), tuple(results[len(states) : outputs])

    last, rows = loops.scan(step, tuple(states), np.arange(count))
    return (*last, *rows)


def _outputs(body: BodyFunction, inputs: tuple[Any, ...], count: int) -> list[Any]:
    """What a step of `body` puts out: at least `count` values."""
    outputs = body(*inputs)
    if len(outputs) < count:
        raise ShapeError(f"its body puts out {len(outputs)} values, {count} are needed")
    return outputs


def _none_of(x: Any, axis: int = 0) -> Any:
    """What no steps put out of which each would put out `x`."""
    return lazy.stack([x], axis)[(slice(None),) * (axis % (x.ndim + 1)) + (slice(0),)]


@operator("Scan", since=9)
def scan(
    *values: Any, body: BodyFunction, num_scan_inputs: int, scan_input_axes: tuple[int, ...] = (),
    scan_input_directions: tuple[int, ...] = (), scan_output_axes: tuple[int, ...] = (),
    scan_output_directions: tuple[int, ...] = (),
) -> Any:  # fmt: skip
    first = len(values) - num_scan_inputs
    scanned = []
    for i, x in enumerate(values[first:]):
        moved = lazy.moveaxis(x, scan_input_axes[i] if scan_input_axes else 0, 0)
        scanned.append(lazy.flip(moved, 0) if scan_input_directions and scan_input_directions[i] else moved)

    def step(now: tuple[Any, ...], rows: tuple[Any, ...]) -> tuple[Any, Any]:
        outputs = _outputs(body, (*now, *rows), first)
        return tuple(outputs[:first]), tuple(outputs[first:])

    now, results = _scanned(step, tuple(values[:first]), tuple(scanned))
    turned = []
    for i, x in enumerate(results):
        back = scan_output_directions and scan_output_directions[i]
        turned.append(lazy.moveaxis(lazy.flip(x, 0) if back else x, 0, scan_output_axes[i] if scan_output_axes else 0))
    return (*now, *turned)


def _scanned(step: Callable[..., tuple[Any, Any]], now: tuple[Any, ...], xs: tuple[Any, ...]) -> Any:
    if xs[0].shape[0] >= ROLLED:
        try:
            return loops.scan(step, now, xs)
        except EqfuseError:  # its steps are not alike, and it may still be unrolled
            pass
    return unrolled(step, now, xs)


def unrolled(
    step: Callable[..., tuple[Any, Any]], now: tuple[Any, ...], xs: tuple[Any, ...], reverse: bool = False
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """As `ef.scan` over tuples, one step after another."""
    count = xs[0].shape[0]
    rows = []
    for t in reversed(range(count)) if reverse else range(count):
        now, row = step(now, tuple(x[t] for x in xs))
        rows.append(row)
    if not rows:
        row = step(now, tuple(lift(np.zeros(x.shape[1:], x.dtype)) for x in xs))[1]
        return now, tuple(map(_none_of, row))
    return now, tuple(lazy.stack(each[::-1] if reverse else each) for each in zip(*rows, strict=True))
