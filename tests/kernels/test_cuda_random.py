"""Random maps, rows and reductions of every dtype over views, gathers and odd shapes, with special values.

Only operators with exactly defined results take part, so kernels have the evaluator's bits. With EQFUSE_EXPLORE=5 each
run draws new kernels, five times as many when slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from eqfuse import dtypes
from eqfuse.cost.profiles import profile
from eqfuse.emit.cuda.kernels import emit_kernel, module_source
from eqfuse.errors import EqfuseError
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.kinds import State, classify
from eqfuse.machine import nvrtc
from eqfuse.ops import Role
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.ops.types import TensorType
from eqfuse.plan.plan import Kernel
from eqfuse.testing import cudasim
from tests.kernels.test_cuda_elementwise import same, special_values
from tests.support.drawing import EXPLORING, many
from tests.support.kernels import PRICE

H100 = profile("h100")
CUDA_FUNCTIONS = ("map", "row", "reduce", "contract")
DTYPES = [d for d in dtypes.TENSORS if d not in dtypes.FLOAT8 and d.kind != "c"]
EXTENTS = (0, 1, 1, 2, 3, 4, 5, 8, 31, 33, 70, 129)
NUMBERS = ("add", "subtract", "multiply", "negative", "abs", "square", "sign", "floor_divide", "remainder")
FLOATS = ("divide", "sqrt", "floor", "round", "maximum", "minimum")
INTEGERS = ("maximum", "minimum", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "gcd", "bitwise_invert")
BOOLEANS = ("logical_and", "logical_xor", "logical_not", "maximum", "add")


class Drawing:
    """One random body. Values have the shape `whole`, or that with `axes` reduced."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        rank = int(rng.integers(1, 4))
        self.whole = tuple(int(n) for n in rng.choice(EXTENTS, rank))
        if np.prod(self.whole) > 20_000:
            self.whole = (*self.whole[:-2], 3, 5)[-rank:]
        kept = [a for a in range(-rank, 0) if rng.random() < 0.6]
        self.axes = tuple(kept) or (-1,)
        self.dtype = DTYPES[int(rng.integers(len(DTYPES)))]
        self.count = 0

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def input(self, shape: tuple[int, ...], dtype: np.dtype, name: str = "r") -> Node:
        self.count += 1
        return input_node(f"{name}{self.count:02}", TensorType(dtype, shape))

    def leaf(self) -> Node:
        """An array, or a view or a gather of one, that broadcasts to the whole."""
        shape = tuple(1 if self.rng.random() < 0.2 else n for n in self.whole)
        shape = shape[int(self.rng.integers(2)) * (len(shape) > 1) :]
        way, rank = int(self.rng.integers(9)), len(shape)
        if way == 0:
            order = tuple(int(a) for a in self.rng.permutation(rank))
            turned = self.input(tuple(shape[order.index(a)] for a in range(rank)), self.dtype)
            return node("transpose", (turned,), (order,))
        if way == 1:
            ranges = tuple((int(self.rng.integers(3)), 0, int(self.rng.integers(1, 4))) for _ in shape)
            ends = tuple((a, a + n * s, s) for (a, _, s), n in zip(ranges, shape, strict=True))
            return node("slice", (self.input(tuple(e + 1 for _, e, _ in ends), self.dtype),), (ends,))
        if way == 2:
            axes = tuple(a for a in range(-rank, 0) if self.rng.random() < 0.6)
            return node("flip", (self.input(shape, self.dtype),), (axes,))
        if way == 3:
            return node("reshape", (self.input((int(np.prod(shape)),), self.dtype),), (shape,))
        if way == 4 and shape[0] and rank > 1:
            places = self.pick([np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.uint16)])
            indices = self.input((shape[0],), places, "at")
            return node("take", (self.input((7, *shape[1:]), self.dtype), indices), (-rank,))
        if way == 5:
            return const(self.pick(special_values(self.dtype)), self.dtype)
        return self.input(shape, self.dtype)

    def grow(self, values: list[Node], steps: int) -> list[Node]:
        for _ in range(steps):
            x, y = self.pick(values), self.pick(values)
            kind = dtypes.kind(x.dtype)
            ops = {"b": BOOLEANS, "f": NUMBERS + FLOATS}.get(kind, NUMBERS + INTEGERS)
            op = str(self.pick(ops))
            try:
                if self.rng.random() < 0.15:
                    value = node("where", (node("less", (x, y)), y, x))
                elif self.rng.random() < 0.1 and kind != "f":
                    value = node("cast", (node("cast", (x,), (self.pick(DTYPES),)),), (self.dtype,))
                else:
                    value = node(op, (x, y)[: UFUNCS[op].nin])
            except EqfuseError:
                continue
            if value.dtype == self.dtype:
                values.append(value)
        return values

    def body(self) -> Graph:
        values = self.grow([self.leaf() for _ in range(3)], int(self.rng.integers(1, 7)))
        full = [v for v in values if v.shape == self.whole and v.op != "input"]
        if not full:
            given = self.input(self.whole, self.dtype)
            full = [node("where", (node("equal", (given, given)), given, values[-1]))]
        outputs = [full[-1]]
        if self.rng.random() < 0.6:
            ops = ("any", "all") if self.dtype.kind == "b" else ("max", "min")
            count = int(self.rng.integers(1, 3))
            reduced = [node(str(self.pick(ops)), (self.pick(full),), (self.axes,)) for _ in range(count)]
            known = [*reduced, *([full[-1]] if self.rng.random() < 0.5 else [])]
            after = self.grow(known, int(self.rng.integers(0, 5)))
            outputs = [v for v in after if v.dtype == self.dtype][-2:]
            if len(self.axes) == 1 and self.rng.random() < 0.5:
                outputs.append(node(str(self.pick(("argmax", "argmin"))), (self.pick(full),), (self.axes,)))
        inputs = sorted((n for n in Graph((), tuple(outputs)).nodes if n.op == "input"), key=lambda n: n.attr("name"))
        return Graph(tuple(inputs), tuple(dict.fromkeys(outputs)))

    def data(self, body: Graph) -> list[np.ndarray]:
        arrays = []
        for n in body.inputs:
            if n.attr("name").startswith("at"):
                arrays.append(self.rng.integers(0 if n.dtype.kind == "u" else -7, 7, n.shape).astype(n.dtype))
                continue
            special, kind = special_values(n.dtype), n.dtype.kind
            ordinary = self.rng.integers(0 if kind in "bu" else -5, 2 if kind == "b" else 6, n.shape).astype(n.dtype)
            chosen = self.rng.choice(special.view(f"u{special.itemsize}"), n.shape).view(special.dtype)
            arrays.append(np.where(self.rng.random(n.shape) < 0.3, chosen, ordinary))
        return arrays


def kernels(rng: np.random.Generator, count: int) -> Iterator[tuple[str, Graph, list[np.ndarray]]]:
    number = 0
    while number < count:
        drawing = Drawing(rng)
        try:
            body = drawing.body()
        except EqfuseError:  # NumPy has no largest of nothing
            continue
        if not body.inputs or any(o.op in ("input", "const") for o in body.outputs):
            continue
        state = classify(body, H100)
        gathers = any(n.op == "take" for n in body.nodes)
        if not (isinstance(state, State) and state.kind in CUDA_FUNCTIONS):
            reduces = any(n.row.role is Role.REDUCTION for n in body.nodes)
            if not gathers or reduces or len({o.shape for o in body.outputs}) > 1:
                continue
            kind = "map"
        else:
            kind = state.kind
        number += 1
        yield kind, body, drawing.data(body)


def judge(seed: int, count: int) -> None:
    drawn = list(kernels(np.random.default_rng(None if EXPLORING else seed), count))
    emitted = [emit_kernel(Kernel(kind, body, (), (), PRICE), H100) for kind, body, _ in drawn]
    code = module_source(list(dict.fromkeys(cuda.source for cuda in emitted)))
    for (_, body, arrays), cuda in zip(drawn, emitted, strict=True):
        writes = [np.zeros(o.shape, o.dtype) for o in body.outputs]
        workspace = [np.zeros(n, dtype) for dtype, n in cuda.workspace]
        if cuda.grid:
            arguments = cuda.arguments(writes, arrays, cuda.constants, workspace)
            cudasim.CpuRawKernel(code, cuda.name)(cuda.grid, cuda.block, arguments, seed=seed % 3)
        with np.errstate(all="ignore"):
            wanted = evaluate(body, arrays)
        for got, want in zip(writes, wanted, strict=True):
            zero = (want == 0) & (got == 0)  # whose sign max and min leave open
            assert (same(got, want) | zero).all(), f"{body}\n{arrays}\n{got}\n{want}"


@pytest.mark.slow
@pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
def test_random_kernels_have_the_evaluators_bits():
    judge(0, 30)


@pytest.mark.slow
@pytest.mark.skipif(bool(cudasim.cudasim_missing()), reason=cudasim.cudasim_missing() or "available")
@pytest.mark.parametrize("seed", range(1, 3))
def test_many_random_kernels_have_the_evaluators_bits(seed):
    judge(seed, many(60))


@pytest.mark.slow
@pytest.mark.skipif(bool(nvrtc.nvrtc_missing()), reason=nvrtc.nvrtc_missing() or "available")
def test_random_kernels_compile():
    drawn = list(kernels(np.random.default_rng(9), 30))
    emitted = [emit_kernel(Kernel(kind, body, (), (), PRICE), H100) for kind, body, _ in drawn]
    nvrtc.compile_cuda(module_source(list(dict.fromkeys(cuda.source for cuda in emitted))), "sm_80", nvrtc.STRICT)
