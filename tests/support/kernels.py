"""Kernel bodies made by hand, and the judge: `evaluate`, bit for bit where no sum is involved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse import dtypes
from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.profiles import DEVICES
from eqfuse.emit.numpy.kernels import emit_kernel
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.kinds import KINDS
from eqfuse.ops import Role
from eqfuse.ops.types import TensorType
from eqfuse.plan.plan import Kernel

CPU = DEVICES["cpu"]
EXACT = ("max", "min", "any", "all", "argmax", "argmin", "window_max", "take", "concat", "pad", "sort")
PRICE = Price(0.0, 0, 0, 0, "memory")


def read(i: int, shape: Sequence[int], dtype: Any = np.float32) -> Node:
    return input_node(f"r{i}", TensorType(np.dtype(dtype), tuple(shape)))


def number(value: float, dtype: Any = np.float32) -> Node:
    return const(value, np.dtype(dtype))


def add(a: Node, b: Node) -> Node:
    return node("add", (a, b))


def mul(a: Node, b: Node) -> Node:
    return node("multiply", (a, b))


def reduced(op: str, x: Node, *axes: int) -> Node:
    return node(op, (x,), (axes or (-1,),))


def scanned(op: str, x: Node, axis: int = -1) -> Node:
    return node(op, (x,), (axis,)) if op.startswith("cum") else node("accumulate", (x,), (op, axis))


def distribution(x: Node, axis: int) -> Node:
    e = node("exp", (x,))
    return node("divide", (scanned("cumsum", e, axis), reduced("sum", e, axis)))


def cast(x: Node, dtype: Any) -> Node:
    return node("cast", (x,), (np.dtype(dtype),))


def cut(x: Node, axis: int, start: int, stop: int) -> Node:
    ranges = [(0, n, 1) for n in x.shape]
    ranges[axis] = (start, stop, 1)
    return node("slice", (x,), (tuple(ranges),))


def joined(axis: int, *pieces: Node) -> Node:
    return node("concat", pieces, (axis,))


def rolled(x: Node, by: int, axis: int) -> Node:
    n = x.shape[axis]
    return joined(axis, cut(x, axis, n - by, n), cut(x, axis, 0, n - by))


def softmax(x: Node, *axes: int) -> Node:
    e = node("exp", (node("subtract", (x, reduced("max", x, *axes))),))
    return node("divide", (e, reduced("sum", e, *axes)))


def gelu(x: Node) -> Node:
    def c(v: float) -> Node:
        return number(v, x.dtype)

    cube = mul(mul(x, x), x)
    inner = mul(add(x, mul(cube, c(0.044715))), c(0.79788456))
    return mul(mul(x, c(0.5)), add(node("tanh", (inner,)), c(1.0)))


def layer_norm(x: Node, axis: int = -1) -> Node:
    n = number(x.type.extent(axis), x.dtype)
    centred = node("subtract", (x, node("divide", (reduced("sum", x, axis), n))))
    variance = node("divide", (reduced("sum", mul(centred, centred), axis), n))
    return node("divide", (centred, node("sqrt", (add(variance, number(1e-5, x.dtype)),))))


def body(reads: Sequence[Node], *outputs: Node) -> Graph:
    return Graph(tuple(reads), outputs)


def data(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = []
    for n in graph.inputs:
        if n.dtype.kind in "iub":
            arrays.append(rng.integers(0, 2 if n.dtype.kind == "b" else 9, n.shape).astype(n.dtype))
        elif n.dtype.kind == "c":
            arrays.append((rng.normal(size=n.shape) + 1j * rng.normal(size=n.shape)).astype(n.dtype))
        else:
            arrays.append(np.asarray(rng.normal(size=n.shape)).astype(n.dtype))
    return arrays


def scheduled_for(target: str) -> set[str]:
    """The kinds of kernels that the target has."""
    return {name for name, kind in KINDS.items() if target in kind.schedules}


def kernel(kind: str, graph: Graph) -> Kernel:
    return Kernel(kind, graph, tuple(range(len(graph.inputs))), tuple(range(100, 100 + len(graph.outputs))), PRICE)


def run(kind: str, graph: Graph, arrays: Sequence[np.ndarray], device: Device = CPU) -> list[np.ndarray]:
    outs = [np.full(o.shape, 7, o.dtype) for o in graph.outputs]
    emit_kernel(kernel(kind, graph), device).run(outs, arrays)
    return outs


def judge(kind: str, graph: Graph, arrays: Sequence[np.ndarray] | None = None, device: Device = CPU) -> str:
    """Run `graph` as a kernel of `kind` and compare; returns the source."""
    arrays = data(graph) if arrays is None else arrays
    before = [a.copy() for a in arrays]
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, arrays)
        got = run(kind, graph, arrays, device)
    source = emit_kernel(kernel(kind, graph), device).source
    exact = all(n.op in EXACT or n.row.role in (Role.ELEMENTWISE, Role.LEAF, Role.VIEW) for n in graph.nodes)
    exact = exact and all(n.dtype.kind != "c" for n in graph.nodes)  # NumPy rounds x *= y of one element another way
    for g, w in zip(got, wanted, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        if exact or dtypes.kind(w.dtype) not in "fc":
            assert g.tobytes() == np.ascontiguousarray(w).tobytes() or np.array_equal(g, w, equal_nan=True), source
        else:
            near, far = (dtypes.real_parts(v).astype(np.float64) for v in (g, w))
            tolerance = 64 * dtypes.epsilon(w.dtype) * float(np.abs(far).max(initial=1.0))
            np.testing.assert_allclose(near, far, rtol=0, atol=tolerance, err_msg=source)
    for a, b in zip(arrays, before, strict=True):
        assert a.tobytes() == b.tobytes(), "the kernel wrote into an array it reads"
    return source
