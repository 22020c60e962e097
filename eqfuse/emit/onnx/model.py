"""A plan as an ONNX model, in which every kernel is a local function: picture, exchange format and independent check.

In: a `Plan`. Out: an `onnx.ModelProto` that onnxruntime runs to the evaluator's answers, and `from_onnx` reads. Kernels
with one body share a function, which carries its kind and its predicted seconds; what depends on constants alone is
computed here, and is an initialiser.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.emit.executable import constant_values
from eqfuse.emit.onnx import elementwise, reductions, updates, views, windows  # noqa: F401  (they fill the table)
from eqfuse.emit.onnx.body import IR_VERSION, OPSET, Builder, OnnxValue
from eqfuse.emit.onnx.loops import types_of_results, value_info, write_all
from eqfuse.errors import EqfuseError, TargetUnavailable
from eqfuse.ir.graph import Graph, Node, const, substitute
from eqfuse.ir.loops import result_number
from eqfuse.machine.files import write_users_file
from eqfuse.plan.plan import Kernel, Plan

if TYPE_CHECKING:
    import onnx

DOMAIN = "eqfuse"
PROTOBUF_BYTES = (1 << 31) - 1  # bytes of a protobuf file


def to_onnx(plan: Plan, path: str | PathLike[str] | None = None) -> onnx.ModelProto:
    """`plan` as an ONNX model of opset 21, checked, and written to `path` in one step where one is given.

    UnsupportedOp names an operator that standard ONNX, or onnxruntime in the dtype at hand, cannot express;
    TargetUnavailable where the package onnx is missing.
    """
    try:
        import onnx
    except ImportError as error:
        raise TargetUnavailable("to_onnx writes models by the package onnx: pip install 'eqfuse[onnx]'") from error
    names = _names(plan)
    constants = constant_values(plan)
    kernels = [_with_constant_integers(k, constants) for k in plan.kernels]
    functions: dict[tuple[str, Graph], onnx.FunctionProto] = {}
    nodes = []
    parted: dict[int, Node] = {}  # values that have a name for each result of a loop
    for i, k in enumerate(kernels):
        taken = _taken(k, parted, names)
        if taken is not None:
            nodes.append(onnx.helper.make_node("Identity", [taken], [names[k.writes[0]]], f"kernel {i}"))
            continue
        parted |= {v: o for v, o in zip(k.writes, k.body.outputs, strict=True) if len(types_of_results(o)) > 1}
        function = functions.get((k.kind, k.body))
        if function is None:
            function = functions[k.kind, k.body] = _function(f"k{i}_{k.kind}", k)
        written = [name for v in k.writes for name in _parts(v, parted, names)]
        reads = [names[v] for v in k.reads]
        nodes.append(onnx.helper.make_node(function.name, reads, written, f"kernel {i}", domain=DOMAIN))
    nodes += _copies(plan, names)
    wanted = {v for k in kernels for v in k.reads} | set(plan.outputs)
    if sum(constants[v].nbytes for v in wanted & constants.keys()) > PROTOBUF_BYTES:
        raise EqfuseError("the constants of this program take more than 2 GiB, which one ONNX file cannot hold")
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            nodes,
            "eqfuse",
            [value_info(names[v], n.type) for v, n in zip(plan.inputs, plan.graph.inputs, strict=True)],
            [value_info(name, o.type) for name, o in zip(_output_names(plan), plan.graph.outputs, strict=True)],
            [onnx.numpy_helper.from_array(array, names[v]) for v, array in constants.items() if v in wanted],
        ),
        functions=list(functions.values()),
        producer_name="eqfuse",
        ir_version=IR_VERSION,
        opset_imports=[onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(DOMAIN, 1)],
    )
    seconds = plan.seconds
    onnx.helper.set_model_props(model, _props(device=plan.device.name, predicted_seconds=seconds))
    onnx.checker.check_model(model, full_check=True)
    if path is not None:
        write_users_file(path, model.SerializeToString(deterministic=True))
    return model


def _function(name: str, k: Kernel) -> onnx.FunctionProto:
    """The kernel `k` as a function."""
    import onnx

    b = Builder()
    inputs = [OnnxValue(f"r{i}", n.dtype) for i, n in enumerate(k.body.inputs)]
    made_values = [v for values in write_all(b, k.body, inputs) for v in values]
    written = [f"w{i}" for i in range(len(made_values))]
    for result, value in zip(written, made_values, strict=True):
        b.nodes.append(onnx.helper.make_node("Identity", [value.name], [result]))
    proto = onnx.helper.make_function(
        DOMAIN, name, [v.name for v in inputs], written, b.nodes,
        [onnx.helper.make_opsetid("", OPSET)],
    )  # fmt: skip
    p = k.price
    props = _props(
        kind=k.kind, predicted_seconds=p.seconds, bound=p.bound, bytes_read=p.bytes_read, bytes_written=p.bytes_written,
        flops=p.flops,
    )  # fmt: skip
    for key, text in props.items():
        proto.metadata_props.add(key=key, value=text)
    return proto


def _parts(v: int, parted: Mapping[int, Node], names: Mapping[int, str]) -> list[str]:
    """The names of what the value `v` holds."""
    return [f"{names[v]} part {i}" for i in range(len(types_of_results(parted[v])))] if v in parted else [names[v]]


def _taken(k: Kernel, parted: Mapping[int, Node], names: Mapping[int, str]) -> str | None:
    """The name of the result of a loop that the kernel `k` takes, if that is all it does."""
    n = k.body.outputs[0]
    if n.op != "loop_result" or n.args[0] not in k.body.inputs:
        return None
    v = k.reads[k.body.inputs.index(n.args[0])]
    return _parts(v, parted, names)[result_number(n, parted[v])]


def _props(**values: Any) -> dict[str, str]:
    return {f"eqfuse.{name}": str(value) for name, value in values.items()}


def _with_constant_integers(k: Kernel, constants: Mapping[int, np.ndarray]) -> Kernel:
    """`k` with places and whole exponents that are known as constants: how it is written depends on them."""
    value_of = {n: v for n, v in zip(k.body.inputs, k.reads, strict=True) if v in constants}
    asked = (n.args[1] for n in k.body.nodes if n.op in ("scatter", "power"))
    values = {n: const(constants[value_of[n]]) for n in asked if n in value_of and kind(n.dtype) in "iu"}
    if not values:
        return k
    left = [(n, v) for n, v in zip(k.body.inputs, k.reads, strict=True) if n not in values]
    body = Graph(tuple(n for n, _ in left), substitute(k.body.outputs, values))
    return replace(k, body=body, reads=tuple(v for _, v in left))


# ---- names


def _names(plan: Plan) -> dict[int, str]:
    """A name for every value: the user's for inputs; an output's for what a kernel makes of it."""
    names = {v: f"v{v}" for v in range(len(plan.types))}
    names |= zip(plan.inputs, _distinct((n.attr("name") for n in plan.graph.inputs), "input"), strict=True)
    written = {v for k in plan.kernels for v in k.writes}
    for v, name in zip(plan.outputs, _output_names(plan), strict=True):
        if v in written:
            names[v] = name
            written.discard(v)
    return names


def _output_names(plan: Plan) -> list[str]:
    signature = plan.graph.signature
    names: Sequence[str] = getattr(signature, "outputs", ())
    if len(names) != len(plan.outputs):
        names = [f"output{i}" for i in range(len(plan.outputs))]
    taken = _distinct((n.attr("name") for n in plan.graph.inputs), "input")
    return _distinct(names, "output", taken)


def _distinct(names: Iterable[str], what: str, taken: Sequence[str] = ()) -> list[str]:
    """`names`, with another name where one is empty, stands twice, or looks like a value's own, ``v3``."""
    all_names: dict[str, None] = dict.fromkeys(taken)
    for i, name in enumerate(names):
        name = name if name and not (name[0] == "v" and name[1:].isdigit()) else f"{what}{i}"
        while name in all_names:
            name += "_"
        all_names[name] = None
    return list(all_names)[len(taken) :]


def _copies(plan: Plan, names: dict[int, str]) -> list[onnx.NodeProto]:
    """Results that are inputs, constants or results already."""
    import onnx

    return [
        onnx.helper.make_node("Identity", [names[v]], [name])
        for v, name in zip(plan.outputs, _output_names(plan), strict=True)
        if names[v] != name
    ]
