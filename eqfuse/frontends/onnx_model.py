"""ONNX models: a file or ModelProto in, a `Graph` out. Next stop: `egraph.saturate`.

Initialisers become constants; what depends on constants and shapes alone has a value at once, so that shapes computed
inside the model are known. The nodes run in `onnx_nodes`.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqfuse.errors import EqfuseError, ShapeError, TargetUnavailable, TraceError, UnsupportedOp
from eqfuse.frontends.accepted import plain_array
from eqfuse.frontends.onnx_nodes import STANDARD, Loader
from eqfuse.frontends.onnx_table import dtype_of, find
from eqfuse.frontends.promotion import lift
from eqfuse.ir import Fed, Graph, Node, TensorType, input_node
from eqfuse.tracer import Trace, Tracer, argument

if TYPE_CHECKING:
    import onnx


def from_onnx(model: Any, fixed: Mapping[str, Any] | None = None, /, **sizes: Any) -> Graph:
    """The graph of an ONNX model: a path, or a ModelProto.

    `sizes` gives a number to each symbolic size, ``from_onnx("bert.onnx", batch=1, seq=128)``, or, under the name of an
    input, its whole shape. `fixed` gives values to inputs, which then are constants and no inputs any more. Arguments
    and results are in the model's order; arguments may be given by name, and several results are a named tuple.
    """
    proto, title = _proto(model)
    loader = Loader(proto, title)
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
    with Trace(), np.errstate(all="ignore"):
        values: dict[str, Any] = {name: lift(array) for name, array in constants.items()}
        for i in declared:
            if i.name in fixed:
                values[i.name] = lift(_fixed(title, i, fixed[i.name]))
        for place, n in enumerate(nodes):
            values[free[place].name] = argument(n, place, scalar=False)
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

    def feed(self, leaves: Sequence[Any]) -> Fed:
        return Fed(leaves)

    def select(self, fed: Fed, outputs: Sequence[Any]) -> list[Any]:
        return list(outputs)

    settle = select

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
            _check(str(path), lambda: onnx.load(str(path)))
            return onnx.load(str(path)), f"the model {path.name!r}"
        except OSError as error:
            raise EqfuseError(f"the model {str(path)!r} cannot be read: {error}") from error
        except invalid as error:
            raise EqfuseError(f"{str(path)!r} is not a valid ONNX model: {error}") from error
    if not isinstance(model, onnx.ModelProto):
        raise TraceError(f"from_onnx takes a path or an onnx.ModelProto, not a {type(model).__name__}")
    title = f"the model {model.graph.name!r}"
    try:
        _check(model, lambda: model)
    except invalid as error:
        raise EqfuseError(f"{title} is not valid: {error}") from error
    return model, title


def _check(model: Any, loaded: Callable[[], onnx.ModelProto]) -> None:
    """Raise what the checker finds. It refuses deprecated operators; those that have a row are valid here."""
    import onnx

    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        if "is deprecated" not in str(error):
            raise
        renamed = onnx.ModelProto()
        renamed.CopyFrom(loaded())
        for part, nodes in ((renamed, renamed.graph.node), *((f, f.node) for f in renamed.functions)):
            version = next((o.version for o in part.opset_import if o.domain in STANDARD), 0)
            part.opset_import.add(domain="eqfuse.deprecated", version=1)
            for n in _with_inner(nodes):
                if n.domain in STANDARD and find("", n.op_type, version) and _deprecated(n.op_type, version):
                    n.domain = "eqfuse.deprecated"
        onnx.checker.check_model(renamed)


def _with_inner(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """`nodes`, and those of the graphs in them."""
    waiting = list(nodes)
    while waiting:
        n = waiting.pop()
        yield n
        waiting += [inner for a in n.attribute for graph in (a.g, *a.graphs) for inner in graph.node]


def _deprecated(name: str, version: int) -> bool:
    import onnx

    return onnx.defs.has(name, version, "") and onnx.defs.get_schema(name, version, "").deprecated


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
        types.append(TensorType(dtype_of(t.elem_type, f"{title}: the input {i.name!r}"), tuple(shape)))
    if missing:
        raise ShapeError(
            f"{title} has sizes without a number: {', '.join(missing)}. Give them by name: "
            "ef.from_onnx(model, batch=8)"
        )
    return types


def _fixed(title: str, declared: Any, given: Any) -> np.ndarray:
    what = f"{title}: the value of {declared.name!r}"
    dtype = dtype_of(declared.type.tensor_type.elem_type, what)
    array = plain_array(np.asarray(given, dtype if isinstance(given, (int, float, list, tuple)) else None), what)
    dims = declared.type.tensor_type.shape.dim
    fits = len(dims) == array.ndim and all(
        not d.HasField("dim_value") or d.dim_value == n for d, n in zip(dims, array.shape, strict=True)
    )
    if array.dtype != dtype or (declared.type.tensor_type.HasField("shape") and not fits):
        raise ShapeError(f"{what} is {TensorType(array.dtype, array.shape)}, which the model does not declare")
    return array


def _output(title: str, name: str, x: Any) -> Node:
    if not isinstance(x, Tracer):
        kind = "left out" if x is None else "a sequence" if isinstance(x, list) else type(x).__name__
        raise TraceError(f"{title}: the output {name!r} is {kind}, not a tensor")
    return x.node
