"""What the ONNX standard says of its operators: the types that they take, their defaults, their definitions.

In: an operator at an opset version. Out: facts from the schemas of the package onnx. Used by `nodes.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from eqfuse.errors import ShapeError, UnsupportedOp
from eqfuse.frontends.numpy.tracer import Tracer

if TYPE_CHECKING:
    import onnx

NEWEST = 28  # the opset version whose text the rows follow


@dataclass(frozen=True)
class Formal:
    """An input of an operator. `group`: inputs of one group have one type, if it has a name. `needed`: it cannot be
    left out, nor be an option that holds nothing."""

    name: str
    group: str
    types: frozenset[str]
    needed: bool


@cache
def formals(domain: str, name: str, version: int) -> tuple[Formal, ...]:
    """The inputs of an operator, the last of them for all that follow; none of one that the standard does not have."""
    schema = _schema(domain, name, version)
    if schema is None:
        return ()
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    return tuple(_formal(i, allowed.get(i.type_str, [i.type_str])) for i in schema.inputs)


def _formal(i: Any, types: Sequence[str]) -> Formal:
    """An option is represented here by what it holds."""
    options = [t for t in types if t.startswith("optional(")]
    held = frozenset(t.removeprefix("optional(").removesuffix(")") if t in options else t for t in types)
    return Formal(i.name, i.type_str if i.is_homogeneous else "", held, i.option.name != "Optional" and not options)


def check_types(domain: str, name: str, version: int, inputs: Sequence[Any]) -> None:
    """ShapeError where an input has a type that the operator does not take, or not beside the others."""
    expected = formals(domain, name, version)
    seen: dict[str, tuple[str, str]] = {}
    for i, x in enumerate(inputs if expected else ()):
        formal = expected[min(i, len(expected) - 1)]
        input_type = type_name(x)
        if input_type is None and x is None and formal.needed:
            raise ShapeError(f"its input {formal.name!r} is left out")
        if input_type is None:
            continue
        if input_type not in formal.types:
            raise ShapeError(
                f"its input {formal.name!r} is {input_type}, and {name} of opset {version} takes "
                f"{', '.join(sorted(formal.types))}"
            )
        before = seen.setdefault(formal.group, (formal.name, input_type)) if formal.group else (formal.name, input_type)
        if before[1] != input_type:
            raise ShapeError(
                f"its inputs {before[0]!r} and {formal.name!r} have one type, not {before[1]} and {input_type}"
            )


def check_shapes(domain: str, n: onnx.NodeProto, version: int, inputs: Sequence[Any]) -> None:
    """ShapeError where the standard's own inference of shapes does not take the inputs of `n` or its attributes."""
    import onnx

    schema = _schema(domain, n.op_type, version)
    inner = any(a.HasField("g") for a in n.attribute)
    if schema is None or schema.deprecated or inner or any(isinstance(x, list) and not x for x in inputs):
        return
    if any(t.startswith("optional(") for i in schema.inputs for t in i.types):
        return  # of an option, which is represented here by what it holds
    names = [name if x is not None else "" for name, x in zip(n.input, inputs, strict=True)]
    types = {name: _type_proto(x) for name, x in zip(names, inputs, strict=True) if name}
    proto = n
    if names != list(n.input):
        proto = onnx.NodeProto()
        proto.CopyFrom(n)
        proto.input[:] = names
    try:
        opset = [onnx.helper.make_opsetid(domain, version)]
        onnx.shape_inference.infer_node_outputs(schema, proto, types, opset_imports=opset)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        raise ShapeError(re.sub(r"^(\[\w+\] )+", "", str(error))) from None


def type_name(x: Any) -> str | None:
    """The type of a value as the standard writes it, ``seq(tensor(float))``; None of what is not there."""
    if isinstance(x, list):
        inner = type_name(x[0]) if x else None
        return None if inner is None else f"seq({inner})"
    return f"tensor({_tensor_types()[x.dtype]})" if isinstance(x, Tracer) else None


@cache
def _tensor_types() -> dict[np.dtype, str]:
    import onnx

    names = {"FLOAT": "float", "DOUBLE": "double"}
    types: dict[np.dtype, str] = {}
    for name, number in onnx.TensorProto.DataType.items():
        if name != "UNDEFINED":
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
            types.setdefault(dtype, names.get(name, name.lower()))
    return types


def check_version(domain: str, name: str, version: int) -> None:
    """UnsupportedOp for a version of an operator that is newer than its row."""
    schema = _schema(domain, name, version)
    if schema is not None and domain == "" and schema.since_version > NEWEST:
        raise UnsupportedOp(
            f"{name} has a version of opset {schema.since_version}, and the table of ONNX operators follows opset "
            f"{NEWEST}: convert the model by onnx.version_converter"
        )


def defaults(domain: str, name: str, version: int) -> list[onnx.AttributeProto]:
    """What the standard says of the attributes that a node of the operator leaves out."""
    schema = _schema(domain, name, version)
    return [] if schema is None else [a.default_value for a in schema.attributes.values() if a.default_value.name]


@cache
def float_defaults(domain: str, name: str, version: int) -> dict[str, float]:
    """The defaults that are floats, as float32 has them: a row's own are decimal."""
    import onnx

    return {a.name: a.f for a in defaults(domain, name, version) if a.type == onnx.AttributeProto.FLOAT}


@cache
def same_dtypes(domain: str, name: str, version: int) -> tuple[int | None, ...]:
    """For each output of an operator, the input whose element type it has by the standard."""
    schema = _schema(domain, name, version)
    if schema is None:
        return ()
    inputs = [i.type_str for i in schema.inputs]
    return tuple(inputs.index(o.type_str) if o.type_str in inputs else None for o in schema.outputs)


def function_body(domain: str, n: onnx.NodeProto, version: int, inputs: Sequence[Any]) -> onnx.FunctionProto | None:
    """The function by which the standard defines the operator of `n`, whose attributes are all given, if it does."""
    import onnx

    schema = _schema(domain, n.op_type, version)
    if schema is None:
        return None
    versions = [v for v in schema.function_opset_versions if v <= version]
    if versions:
        return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(max(versions)))
    built = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if not built:
        return None
    types = [_type_proto(x).SerializeToString() for x in inputs]
    data = schema.get_context_dependent_function_with_opset_version(max(built), n.SerializeToString(), types)
    return onnx.FunctionProto.FromString(data) if data else None


def _type_proto(x: Any) -> onnx.TypeProto:
    import onnx

    if isinstance(x, list):
        return onnx.helper.make_sequence_type_proto(_type_proto(x[0] if x else None))
    if x is None:
        return onnx.TypeProto()
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)


@cache
def _schema(domain: str, name: str, version: int) -> Any:
    import onnx

    try:
        return onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None
