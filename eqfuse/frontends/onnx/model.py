"""ONNX models: a file or ModelProto in, a `Graph` out. Next stop: `egraph.saturate`.

Initialisers become constants; what depends on constants and shapes alone has a value at once, so that shapes computed
inside the model are known. The nodes run in `nodes.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError, TraceError, UnsupportedOp, user_level
from eqfuse.frontends.numpy import families as families
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import Tracer, argument
from eqfuse.frontends.numpy.tracing import Trace
from eqfuse.frontends.onnx.file import checked_model
from eqfuse.frontends.onnx.inputs import declared_shape, fits, given_value, input_types
from eqfuse.frontends.onnx.nodes import Loader
from eqfuse.frontends.onnx.table import dtype_of
from eqfuse.ir.graph import Graph, Node, input_node
from eqfuse.ir.signature import NamedSignature


def from_onnx(model: Any, fixed: Mapping[str, Any] | None = None, /, **sizes: Any) -> Graph:
    """The graph of an ONNX model: a path, or a ModelProto.

    `sizes` gives a number to each symbolic size, ``from_onnx("bert.onnx", batch=1, seq=128)``, or, under the name of an
    input, its whole shape. `fixed` gives values to inputs, which then are constants and no inputs any more. Arguments
    and results are in the model's order; arguments may be given by name, and several results are a named tuple.
    """
    proto, title = checked_model(model)
    loader = Loader(proto, title)
    if not isinstance(fixed or {}, Mapping):
        raise TraceError(f"values of inputs come by name, {{'shape': [2, 6]}}, not as a {type(fixed).__name__}")
    fixed = dict(fixed or {})
    graph = proto.graph
    constants = {t.name: loader.tensor(t) for t in graph.initializer if t.name not in fixed}
    for sparse in graph.sparse_initializer:
        raise UnsupportedOp(f"{title}: the initialiser {sparse.values.name!r} is sparse, which no tensor here is")
    declared = [i for i in graph.input if i.name not in constants]
    unknown = set(fixed) - {i.name for i in graph.input}
    if unknown:
        raise TraceError(f"{title} has no input {', '.join(map(repr, sorted(unknown)))}")
    free = [i for i in declared if i.name not in fixed]
    types = input_types(title, free, [i for i in declared if i.name in fixed], fixed, sizes)
    nodes = [input_node(i.name, t) for i, t in zip(free, types, strict=True)]
    with Trace(), np.errstate(all="ignore"):
        values: dict[str, Any] = {name: lift(array) for name, array in constants.items()}
        for i in declared:
            if i.name in fixed:
                values[i.name] = lift(given_value(title, i, fixed[i.name]))
        for place, n in enumerate(nodes):
            values[free[place].name] = argument(n, place, scalar=False)
        results = loader.run(graph, values)
        outputs = [_output(title, o, x) for o, x in zip(graph.output, results, strict=True)]
    signature = NamedSignature(tuple(i.name for i in free), tuple(o.name for o in graph.output))
    return Graph(tuple(nodes), tuple(outputs), signature)


def _output(title: str, declared: Any, x: Any) -> Node:
    if not isinstance(x, Tracer):
        kind = "left out" if x is None else "a sequence" if isinstance(x, list) else type(x).__name__
        raise TraceError(f"{title}: the output {declared.name!r} is {kind}, not a tensor")
    dtype = dtype_of(declared.type.tensor_type.elem_type, f"{title}: the output {declared.name!r}")
    if x.dtype != dtype:
        raise ShapeError(f"{title}: the output {declared.name!r} is {x.dtype}, and is declared as {dtype}")
    if not fits(declared, x.shape):
        warnings.warn(
            f"{title}: the output {declared.name!r} has the shape {x.shape}, and is declared as "
            f"{declared_shape(declared)}",
            stacklevel=user_level(),
        )
    return x.node
