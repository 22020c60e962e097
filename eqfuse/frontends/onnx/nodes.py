"""The nodes of an ONNX model, one after the other on traced arrays, by the rows of `table.py`.

In: a graph and the values of its inputs. Out: those of its outputs. Functions, the model's own and those by which the
standard defines an operator that has no row, are inlined. Used by `model.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eqfuse.errors import EqfuseError, ShapeError, UnsupportedOp
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.frontends.onnx import families as families
from eqfuse.frontends.onnx.schemas import (
    check_shapes,
    check_types,
    check_version,
    defaults,
    float_defaults,
    function_body,
    same_dtypes,
)
from eqfuse.frontends.onnx.table import ONNX_OPERATORS, dtype_of, operator_row, uniform
from eqfuse.ir.accepted import supported_array

if TYPE_CHECKING:
    import onnx

STANDARD = ("", "ai.onnx")
FOLDED_BYTES = 1 << 16  # known values up to this size are computed while the model is loaded, larger ones later


class Loader:
    """What the nodes of one model have in common."""

    def __init__(self, model: onnx.ModelProto, title: str) -> None:
        self.title = title
        self.where = "the model"  # the node that runs, for messages
        self.opsets = {_domain(o.domain): o.version for o in model.opset_import}
        self.functions = {(_domain(f.domain), f.name, f.overload): f for f in model.functions}

    def run(self, graph: onnx.GraphProto, values: dict[str, Any]) -> list[Any]:
        """The outputs of the model's graph. Every error names the model and the node."""
        try:
            return _Scope(self, values, {}, self.opsets).run(graph)
        except EqfuseError as error:
            error.args = (f"{self.title}: {self.where}: {error}",)
            raise
        except MemoryError as error:
            raise EqfuseError(f"{self.title}: {self.where}: it takes more memory than there is. {error}") from error
        except (ValueError, IndexError, ArithmeticError) as error:
            raise ShapeError(f"{self.title}: {self.where}: {error}") from error

    def tensor(self, proto: onnx.TensorProto) -> np.ndarray:
        import onnx

        what = f"{self.title}: the constant {proto.name!r}"
        dtype_of(proto.data_type, what)
        try:
            return supported_array(onnx.numpy_helper.to_array(proto), what)
        except (ValueError, TypeError, OSError) as error:
            raise EqfuseError(f"{what} cannot be read: {error}") from error


def _domain(name: str) -> str:
    return "" if name in STANDARD else name


class _Scope:
    """The names that the nodes of a graph or function see."""

    def __init__(
        self,
        loader: Loader,
        values: dict[str, Any],
        attributes: Mapping[str, onnx.AttributeProto],
        opsets: Mapping[str, int],
        place: str = "",
    ) -> None:
        self._loader, self._values, self._attributes, self._opsets = loader, values, attributes, opsets
        self._place = place  # the functions on the way from the model to these nodes

    def run(self, graph: onnx.GraphProto) -> list[Any]:
        """The outputs of `graph`, whose inputs and initialisers are among the values."""
        self.nodes(graph.node)
        return [self._values[o.name] for o in graph.output]

    def nodes(self, nodes: Sequence[onnx.NodeProto]) -> None:
        outer = self._loader.where
        for n in nodes:
            self._loader.where = self._where(n)
            results = self._node(n)
            if any(n.output[len(results) :]):
                raise UnsupportedOp(f"it has {len(n.output)} outputs, of which {len(results)} are made here")
            self._values |= {name: x for name, x in zip(n.output, results, strict=False) if name}
        self._loader.where = outer

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
        check_version(domain, n.op_type, version)
        check_types(domain, n.op_type, version, inputs)
        check_shapes(domain, self._with_attributes(n), version, inputs)
        row = operator_row(domain, n.op_type, version)
        if row is None:
            in_table = (domain, n.op_type) in ONNX_OPERATORS
            body = None if in_table else function_body(domain, self._with_attributes(n), version, inputs)
            if body is not None:
                return self._inline(body, n, inputs, defaults(domain, n.op_type, version))
            raise UnsupportedOp(_no_row(domain, n.op_type, version))
        attributes = {a.name: self._attribute(a) for a in n.attribute}
        attributes = {name: a for name, a in attributes.items() if a is not None}
        if set(attributes) - row.attributes:
            names = ", ".join(map(repr, sorted(set(attributes) - row.attributes)))
            raise UnsupportedOp(f"the table of ONNX operators (eqfuse/frontends) has no {n.op_type} with {names}")
        left_out = float_defaults(domain, n.op_type, version)
        attributes = {name: d for name, d in left_out.items() if name in row.attributes} | attributes
        if row.counts_outputs:
            attributes["outputs"] = len(n.output)
        while inputs and inputs[-1] is None:
            inputs.pop()
        try:
            results = row.function(*inputs, **attributes)
        except TypeError as error:
            try:
                inspect.signature(row.function).bind(*inputs, **attributes)
            except TypeError as misfit:
                raise UnsupportedOp(f"{n.op_type} of opset {version} takes other inputs: {misfit}") from None
            raise error
        results = results if isinstance(results, tuple) else (results,)
        likes = same_dtypes(domain, n.op_type, version)
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
            value = onnx.helper.get_attribute_value(a)
            value = tuple(value) if a.type in (kind.FLOATS, kind.INTS, kind.STRINGS) else value
            return _text(value)
        raise UnsupportedOp(f"the attribute {a.name!r} is a {kind.AttributeType.Name(a.type)}, which no row takes")

    def _inline(
        self,
        function: onnx.FunctionProto,
        n: onnx.NodeProto,
        inputs: Sequence[Any],
        left_out: Sequence[onnx.AttributeProto] = (),
    ) -> Sequence[Any]:
        """What `function` gives for the inputs and attributes of `n`."""
        attributes = {a.name: a for a in (*left_out, *function.attribute_proto)}
        for a in n.attribute:
            outer = self._attributes.get(a.ref_attr_name) if a.ref_attr_name else a
            if outer is not None:
                attributes[a.name] = outer
        if len(inputs) > len(function.input):
            raise ShapeError(f"the function takes {len(function.input)} inputs, {len(inputs)} are given")
        values = dict.fromkeys(function.input)
        values.update(zip(function.input, inputs, strict=False))
        opsets = {**self._opsets, **{_domain(o.domain): o.version for o in function.opset_import}}
        place = f"{self._place}in the function {function.name or n.op_type!r}, "
        inner = _Scope(self._loader, values, attributes, opsets, place)
        inner.nodes(function.node)
        missing = [name for name in function.output if name not in values]
        if missing:
            raise EqfuseError(f"no node of the function {function.name or n.op_type!r} makes its output {missing[0]!r}")
        return [values[name] for name in function.output]

    def _with_attributes(self, n: onnx.NodeProto) -> onnx.NodeProto:
        """`n` with the attributes of the function around in the place of references to them."""
        import onnx

        resolved = onnx.NodeProto()
        resolved.CopyFrom(n)
        del resolved.attribute[:]
        for a in n.attribute:
            outer = self._attributes.get(a.ref_attr_name) if a.ref_attr_name else a
            if outer is not None:
                attribute = resolved.attribute.add()
                attribute.CopyFrom(outer)
                attribute.name = a.name
        return resolved

    def inner(self, graph: onnx.GraphProto, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a graph within this one, which sees its names."""
        if len(inputs) != len(graph.input):
            raise ShapeError(f"the graph {graph.name!r} in it takes {len(graph.input)} inputs, not {len(inputs)}")
        own = {t.name: lift(self._loader.tensor(t)) for t in graph.initializer}
        values = {**self._values, **own, **dict(zip((i.name for i in graph.input), inputs, strict=True))}
        return _Scope(self._loader, values, self._attributes, self._opsets, self._place).run(graph)


class Subgraph:
    """A graph that is an attribute, as a function of traced arrays."""

    def __init__(self, scope: _Scope, graph: onnx.GraphProto) -> None:
        self._scope, self._graph = scope, graph

    def __call__(self, *inputs: Any) -> list[Any]:
        return self._scope.inner(self._graph, inputs)


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
    value = y.constant_value()
    return wrap(y.node if value is None else uniform(value))


def _text(attribute: Any) -> Any:
    if isinstance(attribute, tuple):
        return tuple(map(_text, attribute))
    return attribute.decode() if isinstance(attribute, bytes) else attribute


def _no_row(domain: str, name: str, version: int) -> str:
    rows = ONNX_OPERATORS.get((domain, name))
    if rows:
        return (
            f"{name} of opset {version} is not in the table of ONNX operators, which has it since {rows[0].since}: "
            "convert the model by onnx.version_converter"
        )
    reason = NOT_READ.get(name, "it has no row in the table of ONNX operators (eqfuse/frontends), and no definition")
    return f"{domain + '.' if domain else ''}{name} cannot be loaded: {reason}"


_RANDOM = "it draws random numbers, which a model does not take from outside; draw them there and make them an input"
_SHAPE = "the shape of its result depends on data"
_STRINGS = "strings are not tensors"
NOT_READ = {
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"), _RANDOM
    ),
    **dict.fromkeys(("NonZero", "Unique", "NonMaxSuppression"), _SHAPE),
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer"), _STRINGS),
    "ImageDecoder": "it decodes files",
}
