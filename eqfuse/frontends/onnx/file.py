"""ONNX files: a path or ModelProto in, a checked ModelProto out. Used by `model.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqfuse.errors import EqfuseError, TargetUnavailable, TraceError, UnsupportedOp
from eqfuse.frontends.onnx.nodes import STANDARD
from eqfuse.frontends.onnx.table import operator_row

if TYPE_CHECKING:
    import onnx


def checked_model(model: Any) -> tuple[onnx.ModelProto, str]:
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
            return _versioned(onnx.load(str(path)), f"the model {path.name!r}")
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
    return _versioned(model, title)


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
                if n.domain in STANDARD and operator_row("", n.op_type, version) and _deprecated(n.op_type, version):
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


def _versioned(proto: onnx.ModelProto, title: str) -> tuple[onnx.ModelProto, str]:
    """Both, if the versions of the operators are known here."""
    import onnx

    versions: dict[str, int] = {}
    for o in proto.opset_import:
        domain = "" if o.domain in STANDARD else o.domain
        if versions.setdefault(domain, o.version) != o.version:
            raise EqfuseError(f"{title} imports the operators of {domain or 'the standard'!r} in two versions")
    newest = onnx.defs.onnx_opset_version()
    if versions.get("", 0) > newest:
        raise UnsupportedOp(
            f"{title} is of opset {versions['']}, and the package onnx here knows opsets up to {newest}: update onnx, "
            "or convert the model by onnx.version_converter"
        )
    return proto, title


def _decode_error() -> type[Exception]:
    from google.protobuf.message import DecodeError

    return DecodeError
