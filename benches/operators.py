"""Every operator that has a row in C, in every dtype: the C target's kernel beside the NumPy target's and plain NumPy.

Each on arrays that a level-2 cache holds, and on arrays in memory; reductions and views of several shapes. Answers are
compared first, then all three are timed in turn; medians, of what C loses most first. Run: eqfuse bench operators
[--json FILE] [word…], where a row is taken if each word is one of its own: an operator, a dtype, a form, a place.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from eqfuse import dtypes
from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.targets import device_for
from eqfuse.emit.c import kernels as c_kernels
from eqfuse.emit.c import ops
from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.errors import EqfuseError
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.ops.elementwise import UFUNCS, loop_dtypes
from eqfuse.ops.types import Shape, TensorType
from eqfuse.plan.plan import Kernel
from eqfuse.show.progress import progress

DTYPES = [d for d in dtypes.TENSORS if d not in dtypes.FLOAT8 and d.kind != "c"]
PLACES = {"cache": 1 << 16, "memory": 1 << 24}  # bytes of an array
BY_CONSTANT = ("floor_divide", "remainder", "power", "bitwise_left_shift", "bitwise_right_shift")
TOGETHER = 24  # kernels compiled as one text
SECONDS, ROUNDS, BATCH = 0.03, 5, 3e-4  # of a case; turns at least; of the calls timed as one
LOSS = 1.1  # times the NumPy target's seconds: less is noise


@dataclass(frozen=True)
class OperatorCase:
    """A kernel of one operator. `form`: of its arguments."""

    op: str
    dtype: str
    form: str
    place: str
    kind: str
    body: Graph

    @property
    def words(self) -> tuple[str, ...]:
        return self.op, self.dtype, self.form, self.place


@dataclass(frozen=True)
class OperatorRow:
    """What a case takes: median seconds. `right`: does C give what NumPy gives?"""

    words: tuple[str, ...]
    c: float
    tiles: float
    numpy: float
    right: bool


def cases() -> Iterator[OperatorCase]:
    for dtype in DTYPES:
        for place, nbytes in PLACES.items():
            size = nbytes // dtype.itemsize
            for form, n in (*_elementwise(dtype, size), *_views(dtype, size)):
                yield _case(form, place, "map", dtype, n)
            for form, n in _reductions(dtype, size):
                yield _case(form, place, "reduce", dtype, n)


def _case(form: str, place: str, kind: str, dtype: np.dtype, n: Node) -> OperatorCase:
    inputs = tuple(leaf for leaf in Graph((), (n,)).nodes if leaf.op == "input")
    op, form = (f"cast to {n.dtype.name}", "") if n.op == "cast" else (n.op, form)
    return OperatorCase(op, dtype.name, form, place, kind, Graph(inputs, (n,)))


def _read(name: str, shape: Shape, dtype: np.dtype) -> Node:
    return input_node(name, TensorType(dtype, shape))


def _elementwise(dtype: np.dtype, size: int) -> Iterator[tuple[str, Node]]:
    x, y = (_read(name, (size,), dtype) for name in "xy")
    for name, ufunc in UFUNCS.items():
        arguments = (x, y)[: ufunc.nin]
        if not _is_row(name, [a.dtype for a in arguments]):
            continue
        yield "arrays", node(name, arguments)
        if name in BY_CONSTANT:
            yield "constant", node(name, (x, const(3, dtype)))
    yield "arrays", node("where", (_read("z", (size,), np.dtype(np.bool_)), x, y))
    yield from (("arrays", node("cast", (x,), (to,))) for to in DTYPES if to != dtype)


def _is_row(name: str, wanted: list[np.dtype]) -> bool:
    try:
        *operands, result = loop_dtypes(name, *wanted)
    except EqfuseError:
        return False
    return wanted == operands and ops.emits(name, wanted, result)


def _views(dtype: np.dtype, size: int) -> Iterator[tuple[str, Node]]:
    rows = 1 << (size.bit_length() - 1) // 2
    shape = rows, size // rows
    x, y, turned = _read("x", shape, dtype), _read("y", shape, dtype), _read("z", shape[::-1], dtype)
    row, column = _read("u", (1, shape[1]), dtype), _read("v", (shape[0], 1), dtype)
    op = "bitwise_xor" if dtype.kind == "b" else "add"
    yield "transposed", node(op, (node("transpose", (turned,), ((1, 0),)), y))
    yield "row", node(op, (x, row))
    yield "column", node(op, (x, column))


def _reductions(dtype: np.dtype, size: int) -> Iterator[tuple[str, Node]]:
    whole, tall = _read("x", (size,), dtype), _read("x", (size // 8, 8), dtype)
    rows = _read("x", (size // 1024, 1024), dtype)
    for op in ops.REDUCTIONS:
        if op in ("sum", "prod") and dtype.kind == "b":
            continue
        yield "all", node(op, (whole,), ((-1,),))
        yield "rows", node(op, (rows,), ((-1,),))
        yield "columns", node(op, (rows,), ((-2,),))
        yield "short rows", node(op, (tall,), ((-1,),))
        yield "tall columns", node(op, (tall,), ((-2,),))


def _argument(n: Node, op: str, rng: np.random.Generator) -> np.ndarray:
    if n.dtype.kind == "b":
        return rng.random(n.shape) < 0.5
    if n.dtype.kind in "iu":
        return rng.integers(1, 100, n.shape).astype(n.dtype)
    least, most = (0.99, 1.01) if op == "prod" else (0.1, 0.9)
    return rng.uniform(least, most, n.shape).astype(n.dtype)


def _compiled(chosen: Sequence[OperatorCase], device: Device) -> list[Callable]:
    """The C kernel of each."""
    kernels = [c_kernels.emit_kernel(_kernel(case), device) for case in chosen]
    functions = c_kernels.loaded(c_kernels.modules([k for k in kernels if isinstance(k, c_kernels.CKernel)]))
    return [k.called(functions[k.name], ()).run if isinstance(k, c_kernels.CKernel) else k.run for k in kernels]


def _kernel(case: OperatorCase) -> Kernel:
    return Kernel(case.kind, case.body, tuple(range(len(case.body.inputs))), (99,), Price(0, 0, 0, 0, "memory"))


def measured(case: OperatorCase, ours: Callable, tiles: Callable) -> OperatorRow:
    rng = np.random.default_rng(0)
    arrays = [_argument(n, case.op, rng) for n in case.body.inputs]
    (out,) = case.body.outputs
    got, wanted = (np.empty(out.shape, out.dtype) for _ in range(2))
    with np.errstate(all="ignore"):
        ours([got], arrays)
        tiles([wanted], arrays)
        right = _agree(got, wanted)
        c, tiled, reference = _medians([
            lambda: ours([got], arrays), lambda: tiles([wanted], arrays), lambda: evaluate(case.body, arrays),
        ])  # fmt: skip
    return OperatorRow(case.words, c, tiled, reference, right)


def _agree(got: np.ndarray, wanted: np.ndarray) -> bool:
    if dtypes.kind(wanted.dtype) == "f":
        eps = float(ml_dtypes.finfo(wanted.dtype).eps)
        a, b = got.astype(np.float64), wanted.astype(np.float64)
        most = np.max(np.abs(b), where=np.isfinite(b), initial=0)
        return np.allclose(a, b, rtol=64 * eps, atol=64 * eps * most, equal_nan=True)
    return np.array_equal(got, wanted)


def _medians(runs: Sequence[Callable[[], Any]]) -> list[float]:
    counts = [max(1, round(BATCH / _seconds(run, 1))) for run in runs]
    taken: list[list[float]] = [[] for _ in runs]
    begun = time.perf_counter()
    while len(taken[0]) < ROUNDS or time.perf_counter() - begun < SECONDS:
        for samples, run, count in zip(taken, runs, counts, strict=True):
            samples.append(_seconds(run, count))
        if len(taken[0]) == 2 and time.perf_counter() - begun > 10 * SECONDS:
            break
    return [statistics.median(samples) for samples in taken]


def _seconds(run: Callable[[], Any], count: int) -> float:
    run()
    begun = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begun) / count


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench operators", description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    chosen = [case for case in cases() if all(word in case.words for word in options.words)]
    here, there = device_for("c"), device_for("numpy")
    rows = []
    with progress(len(chosen)) as display:
        for first in range(0, len(chosen), TOGETHER):
            some = chosen[first : first + TOGETHER]
            for case, ours in zip(some, _compiled(some, here), strict=True):
                display.step(" ".join(case.words))
                rows.append(measured(case, ours, emit_kernel(_kernel(case), there).run))
    rows.sort(key=lambda row: row.tiles / row.c)
    print(f"{'operator':20} {'dtype':9} {'form':13} {'place':7} {'C µs':>9} {'C/tiles':>8} {'C/NumPy':>8}")
    for row in rows:
        op, dtype, form, place = row.words
        ratios = f"{row.c * 1e6:9.1f} {row.c / row.tiles:8.2f} {row.c / row.numpy:8.2f}"
        print(f"{op:20} {dtype:9} {form:13} {place:7} {ratios}{'' if row.right else '  WRONG'}")
    lost = sum(row.c > LOSS * row.tiles for row in rows)
    print(f"{lost} of {len(rows)} rows take C more than {LOSS} times what the NumPy target takes")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
