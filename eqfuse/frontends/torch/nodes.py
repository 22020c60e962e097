"""The nodes of a graph of torch's operators, one after the other on traced arrays, by the rows of `table.py`.

In: a GraphModule of core operators, and the values of its inputs. Out: a `Graph`. Next stop:
`specialise/torch_backend.py`.
torch decides dtypes: operands are cast to what it promotes them to, results to what its own run on shapes has noted.
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.errors import EqfuseError, UnsupportedOp
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import Tracer, argument, wrap
from eqfuse.frontends.numpy.tracing import Trace
from eqfuse.frontends.torch import families as families
from eqfuse.frontends.torch.dtypes import is_supported, numpy_dtype
from eqfuse.frontends.torch.table import AS_IT_IS, OPERANDS, TORCH_OPERATORS, TorchRow, wide
from eqfuse.ir.graph import Graph, Node, input_node
from eqfuse.ops.types import TensorType

_SAYS_NOTHING = ("memory_format", "layout", "device", "pin_memory", "non_blocking", "requires_grad")


class NodeError(Exception):
    """What a row raised, and the node."""

    def __init__(self, node: Any, error: Exception) -> None:
        self.node, self.error = node, error
        super().__init__(str(error))


def place_of(node: Any) -> str:
    """The user's line that a node comes from, or nothing."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").strip().splitlines()]
    frames = [i for i, line in enumerate(lines) if line.startswith("File ")]
    return "; ".join(lines[frames[-1] :]) if frames else ""


def obstacle(node: Any) -> str | None:
    """Why a node cannot be computed by a row, as far as that is known without running it; None where nothing is."""
    if node.op != "call_function":
        return f"{node.op} is no operator"
    if node.target is python_operator.getitem:
        return None if isinstance(node.args[0].meta.get("val"), tuple | list) else "it is no part of a result"
    if str(node.target) not in TORCH_OPERATORS:
        return "it has no row in the table of torch's operators (eqfuse/frontends/torch)"
    values = [node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]
    return next((reason for reason in map(_unfit, values) if reason), None)


def _unfit(value: Any) -> str | None:
    import torch

    if isinstance(value, tuple | list):
        return next((reason for reason in map(_unfit, value) if reason), None)
    if not isinstance(value, torch.Tensor):
        return None
    if value.device.type != "cpu":
        return f"a tensor lies on {value.device}: this front-end computes on the CPU"
    if value.layout is not torch.strided:
        return f"a tensor has the layout {value.layout}"
    return None if is_supported(value.dtype) else f"tensors of eqfuse do not hold {value.dtype}"


def graph_of(module: Any, inputs: Sequence[Any]) -> Graph:
    """The graph of `module` for inputs of these types: tensors become inputs, numbers constants. NodeError where a row
    refuses."""
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    arguments: list[Node] = []
    with Trace(), np.errstate(all="ignore"):
        values: dict[Any, Any] = {}
        for n, x in zip(placeholders, inputs, strict=True):
            if isinstance(x, int | float | complex):
                values[n] = x
                continue
            own = input_node(n.name, TensorType(numpy_dtype(x.dtype), tuple(x.shape)))
            values[n] = argument(own, len(arguments), scalar=False)
            arguments.append(own)
        for n in module.graph.nodes:
            if n.op == "call_function":
                values[n] = _result(n, values)
            elif n.op == "output":
                outputs = _filled(n.args[0], values)
        flat = outputs if isinstance(outputs, tuple | list) else (outputs,)
        return Graph(tuple(arguments), tuple(lift(x).node for x in flat))


def _filled(parts: Any, values: dict[Any, Any]) -> Any:
    """The arguments of a node with values in the place of nodes, and NumPy's dtypes."""
    import torch

    if isinstance(parts, torch.fx.Node):
        return values[parts]
    if isinstance(parts, tuple | list):
        return [_filled(part, values) for part in parts]
    return numpy_dtype(parts) if isinstance(parts, torch.dtype) else parts


def _result(node: Any, values: dict[Any, Any]) -> Any:
    args = [_filled(a, values) for a in node.args]
    if node.target is python_operator.getitem:
        return args[0][args[1]]
    kwargs = {name: _filled(a, values) for name, a in node.kwargs.items() if name not in _SAYS_NOTHING}
    row = TORCH_OPERATORS[str(node.target)]
    noted = node.meta["val"]
    try:
        if row.computes_in is not AS_IT_IS:
            dtype = wide(_promoted(node) if row.computes_in is OPERANDS else numpy_dtype(noted.dtype))
            args = [_cast(a, dtype) for a in args]
            kwargs = {name: _cast(a, dtype) for name, a in kwargs.items()}
        return _called(row, args, kwargs, noted)
    except (EqfuseError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise NodeError(node, error) from error


def _called(row: TorchRow, args: list[Any], kwargs: dict[str, Any], noted: Any) -> Any:
    several = isinstance(noted, tuple | list)
    if "result" in row.parameters:
        kwargs["result"] = numpy_dtype((noted[0] if several else noted).dtype)
    results = row.function(*args, **kwargs)
    if not several:
        return _traced(results, noted)
    return [None if x is None else _traced(x, like) for x, like in zip(results, noted, strict=True)]


def _traced(x: Any, like: Any) -> Tracer:
    """A result of a row as an array that nothing writes to, in torch's dtype."""
    y = lift(x)
    if kind(y.dtype) == "c" and not like.dtype.is_complex:
        y = y.real
    y = y.astype(numpy_dtype(like.dtype))
    if y.ndim != like.dim():
        raise UnsupportedOp(f"the result has rank {y.ndim}, torch's {like.dim()}")
    return wrap(y.node)


def _cast(x: Any, dtype: np.dtype) -> Any:
    return x.astype(dtype) if isinstance(x, Tracer) else x


def _promoted(node: Any) -> np.dtype:
    """What torch promotes the operands to: tensors with axes before those without, these before numbers."""
    import torch

    operands = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in node.args]
    operands = [a for a in operands if isinstance(a, torch.Tensor | bool | int | float | complex)]
    dtype = torch.result_type(operands[0], operands[1]) if len(operands) == 2 else operands[0].dtype
    return numpy_dtype(dtype)
