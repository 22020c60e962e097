"""ONNX models: a file or ModelProto in, a `Graph` out. Next stop: `egraph.saturate`.

The nodes run one after the other on traced arrays, by the rows of `onnx_table`. Functions, the model's own and those by
which the standard defines an operator that has no row, are inlined. Initialisers become constants; what depends on
constants and shapes alone has a value at once, so that shapes computed inside the model are known.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqfuse.errors import EqfuseError, ShapeError, TargetUnavailable, TraceError, UnsupportedOp
from eqfuse.frontends import (  # noqa: F401  (fill the table)
    onnx_attention,
    onnx_control,
    onnx_elementwise,
    onnx_indexing,
    onnx_layout,
    onnx_networks,
    onnx_quantised,
    onnx_recurrent,
    onnx_reductions,
    onnx_resize,
    onnx_signal,
    onnx_windows,
)
from eqfuse.frontends.accepted import plain_array, supported
from eqfuse.frontends.onnx_table import TABLE, find, uniform
from eqfuse.frontends.promotion import lift
from eqfuse.ir import Graph, Node, TensorType, input_node
from eqfuse.tracer import Trace, Tracer, argument, wrap

if TYPE_CHECKING:
    import onnx

STANDARD = ("", "ai.onnx")
FOLDED_BYTES = 1 << 16  # known values up to this size are computed while the model is loaded, larger ones later


def from_onnx(model: Any, fixed: Mapping[str, Any] | None = None, /, **sizes: Any) -> Graph:
    """The graph of an ONNX model: a path, or a ModelProto.

    `sizes` gives a number to each symbolic size, ``from_onnx("bert.onnx", batch=1, seq=128)``, or, under the name of an
    input, its whole shape. `fixed` gives values to inputs, which then are constants and no inputs any more. Arguments
    and results are in the model's order; arguments may be given by name, and several results are a named tuple.
    """
    proto, title = _proto(model)
    loader = _Loader(proto, title)
    fixed = dict(fixed or {})
    graph = proto.graph
    constants = {t.name: loader.tensor(t) for t in graph.initializer}
    for sparse in graph.sparse_initializer:
        raise UnsupportedOp(f"{title}: the initialiser {sparse.values.name!r} is sparse, which no tensor here is")
    declared = [i for i in graph.input if i.name not in constants]
    unknown = set(fixed) - {i.name for i in graph.input}
    if unknown:
        raise TraceError(f"{title} has no input {', '.join(map(repr, sorted(unknown)))}")
    free = [i for i in declared if i.name not in fixed]
    types = _types(title, free, [i for i in declared if i.name in fixed], fixed, sizes)
    nodes = [input_node(i.name, t) for i, t in zip(free, types, strict=True)]
    with Trace():
        values: dict[str, Any] = {name: lift(array) for name, array in constants.items()}
        for i in declared:
            if i.name in fixed:
                values[i.name] = lift(_fixed(title, i, fixed[i.name]))
        for place, n in enumerate(nodes):
            values[free[place].name] = argument(n, place, scalar=False, weak=False)
        results = loader.run(graph, values)
        outputs = [_output(title, o.name, x) for o, x in zip(graph.output, results, strict=True)]
    signature = ModelSignature(tuple(i.name for i in free), tuple(o.name for o in graph.output))
    return Graph(tuple(nodes), tuple(outputs), signature)


@dataclass(frozen=True)
class ModelSignature:
    """The names of a model's inputs and outputs, in its order."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    pure = True

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        given = dict(zip(self.inputs, args, strict=False))
        wrong = [name for name in kwargs if name in given or name not in self.inputs]
        missing = [name for name in self.inputs if name not in given and name not in kwargs]
        if wrong or missing or len(args) > len(self.inputs):
            raise ShapeError(
                f"the model's inputs are {', '.join(map(repr, self.inputs))}; {len(args)} arrays were given by "
                f"position, and {', '.join(map(repr, kwargs)) or 'none'} by name"
            )
        return [given[name] if name in given else kwargs[name] for name in self.inputs]

    def feed(self, leaves: Sequence[Any]) -> Sequence[Any]:
        return leaves

    def select(self, outputs: Sequence[Any]) -> list[Any]:
        return list(outputs)

    def settle(self, arrays: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        return list(outputs)

    def rebuild(self, results: Sequence[Any]) -> Any:
        """The one result, or a named tuple of several (``_0`` where the model's name is no Python name)."""
        return results[0] if len(self.outputs) == 1 else self._several(*results)

    @cached_property
    def _several(self) -> Callable[..., Any]:
        return namedtuple("Outputs", self.outputs, rename=True)


# ---- the file


def _proto(model: Any) -> tuple[onnx.ModelProto, str]:
    """The checked model, with the data that lies in other files, and what to call it in messages."""
    try:
        import onnx
    except ImportError as error:
        raise TargetUnavailable("from_onnx reads models by the package onnx: pip install 'eqfuse[onnx]'") from error
    invalid = (onnx.checker.ValidationError, ValueError, RuntimeError, _decode_error())
    if isinstance(model, (str, PathLike)):
        path = Path(fspath(model))
        try:
            onnx.checker.check_model(str(path))
            return onnx.load(str(path)), f"the model {path.name!r}"
        except OSError as error:
            raise EqfuseError(f"the model {str(path)!r} cannot be read: {error}") from error
        except invalid as error:
            raise EqfuseError(f"{str(path)!r} is not a valid ONNX model: {error}") from error
    if not isinstance(model, onnx.ModelProto):
        raise TraceError(f"from_onnx takes a path or an onnx.ModelProto, not a {type(model).__name__}")
    title = f"the model {model.graph.name!r}"
    try:
        onnx.checker.check_model(model)
    except invalid as error:
        raise EqfuseError(f"{title} is not valid: {error}") from error
    return model, title


def _decode_error() -> type[Exception]:
    from google.protobuf.message import DecodeError

    return DecodeError


# ---- inputs and outputs


def _types(
    title: str, free: Sequence[Any], known: Sequence[Any], fixed: Mapping[str, Any], sizes: Mapping[str, Any]
) -> list[TensorType]:
    """The types of the inputs `free`, with the sizes that the user gives, or that the shapes of `fixed` tell."""
    sizes = dict(sizes)
    whole = {i.name: sizes.pop(i.name) for i in free if not isinstance(sizes.get(i.name, 0), int)}
    symbols = {d.dim_param for i in (*free, *known) for d in i.type.tensor_type.shape.dim if d.dim_param}
    if set(sizes) - symbols:
        raise ShapeError(
            f"{title} has no symbolic size {', '.join(map(repr, sorted(set(sizes) - symbols)))}; it has "
            f"{', '.join(map(repr, sorted(symbols))) or 'none'}"
        )
    for i in known:
        for d, n in zip(i.type.tensor_type.shape.dim, np.shape(fixed[i.name]), strict=False):
            if d.dim_param:
                sizes.setdefault(d.dim_param, n)
    missing: dict[str, None] = {}
    types = []
    for i in free:
        t = i.type.tensor_type
        if i.type.WhichOneof("value") != "tensor_type":
            raise TraceError(
                f"{title}: the input {i.name!r} is a {i.type.WhichOneof('value').removesuffix('_type')}, not a tensor"
            )
        shape: list[int] = []
        if i.name in whole:
            shape = [int(n) for n in whole[i.name]]
        elif not t.HasField("shape"):
            missing[f"the shape of {i.name!r}, {i.name}=(…)"] = None
        else:
            for d in t.shape.dim:
                if d.HasField("dim_value"):
                    shape.append(d.dim_value)
                elif d.dim_param in sizes:
                    shape.append(int(sizes[d.dim_param]))
                elif d.dim_param:
                    missing[f"{d.dim_param!r} of {i.name!r}"] = None
                else:
                    missing[f"an unnamed size of {i.name!r}, whose shape {i.name}=(…) gives"] = None
        types.append(TensorType(_dtype(t.elem_type, f"{title}: the input {i.name!r}"), tuple(shape)))
    if missing:
        raise ShapeError(
            f"{title} has sizes without a number: {', '.join(missing)}. Give them by name: "
            "ef.from_onnx(model, batch=8)"
        )
    return types


def _fixed(title: str, declared: Any, given: Any) -> np.ndarray:
    what = f"{title}: the value of {declared.name!r}"
    dtype = _dtype(declared.type.tensor_type.elem_type, what)
    array = plain_array(np.asarray(given, dtype if isinstance(given, (int, float, list, tuple)) else None), what)
    dims = declared.type.tensor_type.shape.dim
    fits = len(dims) == array.ndim and all(
        not d.HasField("dim_value") or d.dim_value == n for d, n in zip(dims, array.shape, strict=True)
    )
    if array.dtype != dtype or (declared.type.tensor_type.HasField("shape") and not fits):
        raise ShapeError(f"{what} is {TensorType(array.dtype, array.shape)}, which the model does not declare")
    return array


def _dtype(element: int, what: str) -> np.dtype:
    import onnx

    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
    except (KeyError, TypeError):
        raise TraceError(f"{what} has the unknown element type {element}") from None
    return supported(dtype, what)


def _output(title: str, name: str, x: Any) -> Node:
    if not isinstance(x, Tracer):
        kind = "left out" if x is None else "a sequence" if isinstance(x, list) else type(x).__name__
        raise TraceError(f"{title}: the output {name!r} is {kind}, not a tensor")
    return x.node


# ---- the nodes


class _Loader:
    """What the nodes of one model have in common."""

    def __init__(self, model: onnx.ModelProto, title: str) -> None:
        self.title = title
        self.at = "the model"  # the node that runs, for messages
        self.opsets = {_domain(o.domain): o.version for o in model.opset_import}
        self.functions = {(_domain(f.domain), f.name, f.overload): f for f in model.functions}

    def run(self, graph: onnx.GraphProto, values: dict[str, Any]) -> list[Any]:
        """The outputs of the model's graph. Every error names the model and the node."""
        try:
            return _Scope(self, values, {}, self.opsets).run(graph)
        except EqfuseError as error:
            error.args = (f"{self.title}: {self.at}: {error}",)
            raise
        except (ValueError, IndexError, OverflowError) as error:
            raise ShapeError(f"{self.title}: {self.at}: {error}") from error

    def tensor(self, proto: onnx.TensorProto) -> np.ndarray:
        import onnx

        what = f"{self.title}: the constant {proto.name!r}"
        _dtype(proto.data_type, what)
        try:
            return plain_array(onnx.numpy_helper.to_array(proto), what)
        except (ValueError, TypeError, OSError) as error:
            raise EqfuseError(f"{what} cannot be read: {error}") from error


def _domain(name: str) -> str:
    return "" if name in STANDARD else name


class _Scope:
    """The names that the nodes of a graph or function see."""

    def __init__(
        self,
        loader: _Loader,
        values: dict[str, Any],
        attributes: Mapping[str, onnx.AttributeProto],
        opsets: Mapping[str, int],
        place: str = "",
    ) -> None:
        self._loader, self._values, self._attributes, self._opsets = loader, values, attributes, opsets
        self._place = place  # the functions on the way from the model to these nodes

    def run(self, graph: onnx.GraphProto) -> list[Any]:
        """The outputs of `graph`, whose inputs are among the values."""
        for t in graph.initializer:
            if t.name not in self._values:
                self._values[t.name] = lift(self._loader.tensor(t))
        self.nodes(graph.node)
        return [self._values[o.name] for o in graph.output]

    def nodes(self, nodes: Sequence[onnx.NodeProto]) -> None:
        outer = self._loader.at
        for n in nodes:
            self._loader.at = self._where(n)
            for name, x in zip(n.output, self._node(n), strict=False):
                if name:
                    self._values[name] = x
        self._loader.at = outer

    def _where(self, n: onnx.NodeProto) -> str:
        output = next((o for o in n.output if o), "")
        named = f" {n.name!r}" if n.name else f" that makes {output!r}" if output else ""
        return f"{self._place}the {n.op_type} node{named}"

    def _node(self, n: onnx.NodeProto) -> Sequence[Any]:
        domain = _domain(n.domain)
        inputs = [self._values[name] if name else None for name in n.input]
        function = self._loader.functions.get((domain, n.op_type, n.overload))
        if function is not None:
            return self._inline(function, n, inputs)
        version = self._opsets.get(domain, 0)
        row = find(domain, n.op_type, version)
        if row is None:
            body = None if (domain, n.op_type) in TABLE else self._definition(domain, n, version, inputs)
            if body is not None:
                return self._inline(body, n, inputs, _defaults(domain, n.op_type, version))
            raise UnsupportedOp(_no_row(domain, n.op_type, version))
        attributes = {a.name: self._attribute(a) for a in n.attribute}
        attributes = {name: a for name, a in attributes.items() if a is not None}
        if set(attributes) - row.attributes:
            names = ", ".join(map(repr, sorted(set(attributes) - row.attributes)))
            raise UnsupportedOp(f"the table of ONNX operators (eqfuse/frontends) has no {n.op_type} with {names}")
        if row.counts_outputs:
            attributes["outputs"] = len(n.output)
        while inputs and inputs[-1] is None:
            inputs.pop()
        try:
            results = row.function(*inputs, **attributes)
        except TypeError as error:
            import inspect

            try:
                inspect.signature(row.function).bind(*inputs, **attributes)
            except TypeError as misfit:
                raise UnsupportedOp(f"{n.op_type} of opset {version} takes other inputs: {misfit}") from None
            raise error
        results = results if isinstance(results, tuple) else (results,)
        likes = _same_dtypes(domain, n.op_type, version)
        return [_traced(x, _dtype_like(inputs, likes, i)) for i, x in enumerate(results)]

    def _attribute(self, a: onnx.AttributeProto) -> Any:
        """The value of an attribute as Python has it, or None where the function around was given none."""
        import onnx

        if a.ref_attr_name:
            if a.ref_attr_name not in self._attributes:
                return None
            a = self._attributes[a.ref_attr_name]
        kind = onnx.AttributeProto
        if a.type == kind.GRAPH:
            return Subgraph(self, a.g)
        if a.type == kind.TENSOR:
            return self._loader.tensor(a.t)
        if a.type in (kind.FLOAT, kind.INT, kind.STRING, kind.FLOATS, kind.INTS, kind.STRINGS):
            given = onnx.helper.get_attribute_value(a)
            given = tuple(given) if a.type in (kind.FLOATS, kind.INTS, kind.STRINGS) else given
            return _text(given)
        raise UnsupportedOp(f"the attribute {a.name!r} is a {kind.AttributeType.Name(a.type)}, which no row takes")

    def _inline(
        self,
        function: onnx.FunctionProto,
        n: onnx.NodeProto,
        inputs: Sequence[Any],
        defaults: Sequence[onnx.AttributeProto] = (),
    ) -> Sequence[Any]:
        """What `function` gives for the inputs and attributes of `n`."""
        attributes = {a.name: a for a in (*defaults, *function.attribute_proto)}
        for a in n.attribute:
            outer = self._attributes.get(a.ref_attr_name) if a.ref_attr_name else a
            if outer is not None:
                attributes[a.name] = outer
        values = dict.fromkeys(function.input)
        values.update(zip(function.input, inputs, strict=False))
        opsets = {**self._opsets, **{_domain(o.domain): o.version for o in function.opset_import}}
        place = f"{self._place}in the function {function.name or n.op_type!r}, "
        inner = _Scope(self._loader, values, attributes, opsets, place)
        inner.nodes(function.node)
        return [values.get(name) for name in function.output]

    def _definition(
        self, domain: str, n: onnx.NodeProto, version: int, inputs: Sequence[Any]
    ) -> onnx.FunctionProto | None:
        """The function by which the standard defines the operator of `n`, if it does."""
        import onnx

        if not onnx.defs.has(n.op_type, domain):
            return None
        schema: Any = onnx.defs.get_schema(n.op_type, version, domain)
        plain = [v for v in schema.function_opset_versions if v <= version]
        if plain:
            return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(max(plain)))
        built = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        if not built:
            return None
        types = [_type_proto(x).SerializeToString() for x in inputs]
        resolved = onnx.NodeProto()
        resolved.CopyFrom(n)
        del resolved.attribute[:]
        for a in n.attribute:
            outer = self._attributes.get(a.ref_attr_name) if a.ref_attr_name else a
            if outer is not None:
                made = resolved.attribute.add()
                made.CopyFrom(outer)
                made.name = a.name
        data = schema.get_context_dependent_function_with_opset_version(max(built), resolved.SerializeToString(), types)
        return onnx.FunctionProto.FromString(data) if data else None

    def inner(self, graph: onnx.GraphProto, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a graph within this one, which sees its names."""
        values = {**self._values, **dict(zip((i.name for i in graph.input), inputs, strict=True))}
        return _Scope(self._loader, values, self._attributes, self._opsets, self._place).run(graph)


class Subgraph:
    """A graph that is an attribute, as a function of traced arrays."""

    def __init__(self, scope: _Scope, graph: onnx.GraphProto) -> None:
        self._scope, self._graph = scope, graph

    def __call__(self, *inputs: Any) -> list[Any]:
        return self._scope.inner(self._graph, inputs)


def _defaults(domain: str, name: str, version: int) -> list[onnx.AttributeProto]:
    """What the standard says of the attributes that a node of the operator leaves out."""
    import onnx

    attributes = onnx.defs.get_schema(name, version, domain).attributes.values()
    return [a.default_value for a in attributes if a.default_value.name]


@cache
def _same_dtypes(domain: str, name: str, version: int) -> tuple[int | None, ...]:
    """For each output of an operator, the input whose element type it has by the standard."""
    import onnx

    if not onnx.defs.has(name, domain):
        return ()
    schema = onnx.defs.get_schema(name, version, domain)
    inputs = [i.type_str for i in schema.inputs]
    return tuple(inputs.index(o.type_str) if o.type_str in inputs else None for o in schema.outputs)


def _dtype_like(inputs: Sequence[Any], likes: Sequence[int | None], place: int) -> np.dtype | None:
    like = likes[place] if place < len(likes) else None
    x = inputs[like] if like is not None and like < len(inputs) else None
    return x.dtype if isinstance(x, Tracer) else None


def _traced(x: Any, dtype: np.dtype | None) -> Any:
    """A result of a row: an array that nothing writes to, in the dtype of the standard where that is an input's (NumPy
    leaves bfloat16 for float32 when it meets a Python number). Sequences and None as they are."""
    if x is None or isinstance(x, list):
        return x
    y = lift(x) if dtype is None else lift(x).astype(dtype)
    if y.nbytes > FOLDED_BYTES or y.node.op in ("const", "input", "broadcast_to"):
        return wrap(y.node)
    value = y.known()
    return wrap(y.node if value is None else uniform(value))


def _text(given: Any) -> Any:
    if isinstance(given, tuple):
        return tuple(map(_text, given))
    return given.decode() if isinstance(given, bytes) else given


def _type_proto(x: Any) -> onnx.TypeProto:
    import onnx

    if isinstance(x, list):
        return onnx.helper.make_sequence_type_proto(_type_proto(x[0] if x else None))
    if x is None:
        return onnx.TypeProto()
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)


def _no_row(domain: str, name: str, version: int) -> str:
    rows = TABLE.get((domain, name))
    if rows:
        return (
            f"{name} of opset {version} is not in the table of ONNX operators, which has it since {rows[0].since}: "
            "convert the model by onnx.version_converter"
        )
    reason = REFUSED.get(name, "it has no row in the table of ONNX operators (eqfuse/frontends), and no definition")
    return f"{domain + '.' if domain else ''}{name} cannot be loaded: {reason}"


_RANDOM = "it draws random numbers, which a model does not take from outside; draw them there and make them an input"
_SHAPE = "the shape of its result depends on data"
_STRINGS = "strings are not tensors"
REFUSED = {
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"), _RANDOM
    ),
    **dict.fromkeys(("NonZero", "Unique", "NonMaxSuppression"), _SHAPE),
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer"), _STRINGS),
    "ImageDecoder": "it decodes files",
}
