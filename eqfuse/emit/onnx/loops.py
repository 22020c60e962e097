"""Loops and choices as ONNX's Loop and If: what they read from outside is captured by its name.

In: a node, and the values of its arguments. Out: its results, each a value of its own: ONNX has no vector that holds
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from eqfuse.emit.onnx.body import I64, Builder, OnnxValue
from eqfuse.emit.onnx.table import onnx_value
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.loops import result_number, result_types
from eqfuse.ops.loops import LOOPS
from eqfuse.ops.row import BOOL
from eqfuse.ops.types import TensorType
from eqfuse.plan.loops import inner_graphs

if TYPE_CHECKING:
    import onnx

LEFT_OUT = OnnxValue("", BOOL)  # an input that is left out


def write_all(b: Builder, graph: Graph, inputs: Sequence[OnnxValue]) -> list[list[OnnxValue]]:
    """The outputs of `graph`, each as one value; that of a loop with several results as all of them."""
    values = {n: [v] for n, v in zip(graph.inputs, inputs, strict=True)}
    for n in graph.nodes:
        if n.op == "const":
            values[n] = [b.constant(n.literal.array)]
        elif n.op in LOOPS:
            values[n] = _write_loop(b, n, [values[a][0] for a in n.args])
        elif n.op == "loop_result":
            values[n] = [values[n.args[0]][result_number(n)]]
        elif n not in values:
            values[n] = [onnx_value(b, n, [values[a][0] for a in n.args])]
    return [values[o] for o in graph.outputs]


def types_of_results(n: Node) -> list[TensorType]:
    """The types of the results of a node: one, but for loops."""
    return result_types(n) if n.op in LOOPS else [n.type]


def _write_loop(b: Builder, n: Node, args: Sequence[OnnxValue]) -> list[OnnxValue]:
    types = types_of_results(n)
    if any(t.dtype.kind == "c" for t in (*types, *(a.type for a in n.args))):
        raise UnsupportedOp(f"{n.op} of complex numbers cannot be written as ONNX: it has none")
    return _WRITERS[n.op](b, n, args, types)


def _while(b: Builder, n: Node, args: Sequence[OnnxValue], types: Sequence[TensorType]) -> list[OnnxValue]:
    first, step = inner_graphs(n)
    shared = args[len(types) :]
    (goes_on,) = _single(write_all(b, first, args))

    def body(inner: Builder, _index: OnnxValue, state: Sequence[OnnxValue]) -> list[OnnxValue]:
        *after, again = _single(write_all(inner, step, [*state, *shared]))
        return [again, *after]

    return _loop(b, LEFT_OUT, goes_on, args[: len(types)], types, types, body)


def _fori(b: Builder, n: Node, args: Sequence[OnnxValue], types: Sequence[TensorType]) -> list[OnnxValue]:
    (step,) = inner_graphs(n)
    lower, upper, *rest = args
    shared = rest[len(types) :]
    trips = b("Max", b("Sub", upper, lower), b.constant(0, I64))

    def body(inner: Builder, index: OnnxValue, state: Sequence[OnnxValue]) -> list[OnnxValue]:
        counter = inner("Add", index, lower)
        return [inner.constant(True), *_single(write_all(inner, step, [counter, *state, *shared]))]

    return _loop(b, trips, LEFT_OUT, rest[: len(types)], types, types, body)


def _scan(b: Builder, n: Node, args: Sequence[OnnxValue], types: Sequence[TensorType]) -> list[OnnxValue]:
    (step,) = inner_graphs(n)
    count, arrays, trips, start, reverse = (n.attr(a) for a in ("carries", "stacked", "trips", "start", "reverse"))
    stacked, shared = args[count : count + arrays], args[count + arrays :]

    def body(inner: Builder, index: OnnxValue, state: Sequence[OnnxValue]) -> list[OnnxValue]:
        row = inner("Sub", inner.constant(trips - 1, I64), index) if reverse else index
        rows = [inner.uncast("Gather", x, row, axis=0) for x in stacked]
        counter = inner("Add", row, inner.constant(start, I64))
        return [inner.constant(True), *_single(write_all(inner, step, [counter, *state, *rows, *shared]))]

    step_types = [o.type for o in step.outputs]
    values = _loop(b, b.constant(trips, I64), LEFT_OUT, args[:count], step_types, types, body)
    if not reverse:
        return values
    backwards = b.ints(-1), b.ints(np.iinfo(np.int64).min), b.ints(0), b.ints(-1)
    return [*values[:count], *(b.uncast("Slice", y, *backwards) for y in values[count:])]


def _choice(b: Builder, n: Node, args: Sequence[OnnxValue], types: Sequence[TensorType]) -> list[OnnxValue]:
    graphs = []
    for graph in inner_graphs(n):
        inner = Builder(b)
        values = _single(write_all(inner, graph, args[1:]))
        graphs.append(_graph(inner, [], values, types))
    dtypes = tuple(t.dtype for t in types)
    return b.several("If", (args[0],), dtypes, then_branch=graphs[0], else_branch=graphs[1])


_Writer = Callable[[Builder, Node, Sequence[OnnxValue], Sequence[TensorType]], list[OnnxValue]]
_WRITERS: Mapping[str, _Writer] = {"while_loop": _while, "fori_loop": _fori, "scan": _scan, "if_else": _choice}


def _loop(
    b: Builder, trips: OnnxValue, goes_on: OnnxValue, initial: Sequence[OnnxValue], step_types: Sequence[TensorType],
    types: Sequence[TensorType], body: Callable[[Builder, OnnxValue, Sequence[OnnxValue]], list[OnnxValue]],
) -> list[OnnxValue]:  # fmt: skip
    """ONNX's Loop, whose `body` gives the condition, then what has `step_types`."""
    inner = Builder(b)
    index, going = OnnxValue(inner.name(), I64), OnnxValue(inner.name(), BOOL)
    state = [OnnxValue(inner.name(), v.dtype) for v in initial]
    outputs = body(inner, index, state)
    scalar = TensorType(I64, ()), TensorType(BOOL, ())
    takes = [*zip((index, going), scalar, strict=True), *zip(state, step_types, strict=False)]
    graph = _graph(inner, takes, outputs, [scalar[1], *step_types])
    return b.several("Loop", (trips, goes_on, *initial), tuple(t.dtype for t in types), body=graph)


def _graph(
    inner: Builder, inputs: Sequence[tuple[OnnxValue, TensorType]], values: Sequence[OnnxValue],
    types: Sequence[TensorType],
) -> onnx.GraphProto:  # fmt: skip
    """A graph inside a node: every output is made in it."""
    import onnx

    outputs = [OnnxValue(inner.name(), t.dtype) for t in types]
    for value, output in zip(values, outputs, strict=True):
        inner.nodes.append(onnx.helper.make_node("Identity", [value.name], [output.name]))
    return onnx.helper.make_graph(
        inner.nodes, f"steps_{outputs[0].name}", [value_info(v.name, t) for v, t in inputs],
        [value_info(o.name, t) for o, t in zip(outputs, types, strict=True)],
    )  # fmt: skip


def value_info(name: str, t: TensorType) -> onnx.ValueInfoProto:
    import onnx

    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(t.dtype), t.shape)


def _single(values: Sequence[Sequence[OnnxValue]]) -> list[OnnxValue]:
    return [v for (v,) in values]
