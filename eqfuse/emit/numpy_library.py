"""One operator, one NumPy call, nothing fused with it; and views on their own, copied.

In: a body of kind library or view. Out: `Source`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.emit.numpy_ops import computes
from eqfuse.emit.numpy_source import Source, named, straight_kernel
from eqfuse.errors import UnsupportedOp
from eqfuse.ir import Graph, Node
from eqfuse.ops import Role, row
from eqfuse.ops.fft import TRANSFORMS
from eqfuse.views import leaf_chain


def _fill_sorted(out: np.ndarray, x: np.ndarray, axis: int, stable: bool) -> None:
    np.copyto(out, x)
    out.sort(axis, "stable" if stable else None)


def _fill_parted(out: np.ndarray, x: np.ndarray, axis: int, kth: tuple[int, ...]) -> None:
    np.copyto(out, x)
    out.partition(kth, axis)


# Calls that write into the result where it is. {0}, {1}: arguments; attributes by the names in the operator's row.
_INTO: dict[str, tuple[str, dict[str, Any]]] = {
    "cumsum": ("cumsum({0}, {axis}, o0.dtype, o0)", {"cumsum": np.cumsum}),
    "cumprod": ("cumprod({0}, {axis}, o0.dtype, o0)", {"cumprod": np.cumprod}),
    "accumulate": ("np.{ufunc}.accumulate({0}, {axis}, None, o0)", {"np": np}),
    "reduceat": ("np.{ufunc}.reduceat({0}, {1}, {axis}, None, o0)", {"np": np}),
    "fold": ("np.{ufunc}.reduce({0}, {axes}, None, o0, True)", {"np": np}),
    "sort": ("sort(o0, {0}, {axis}, {stable})", {"sort": _fill_sorted}),
    "partition": ("partition(o0, {0}, {axis}, {kth})", {"partition": _fill_parted}),
    **{name: (f"{name}({{0}}, {{n}}, {{axis}}, {{norm!r}}, o0)", {name: f}) for name, f in TRANSFORMS.items()},
}  # fmt: skip


def library_kernel(body: Graph) -> Source:
    """The kernel of a body with one operator on leaves behind views; or with none, which copies."""
    nodes = [n for n in body.nodes if computes(n)]
    if len(nodes) > 1:
        raise UnsupportedOp(f"a library kernel holds one operator, this one {', '.join(n.op for n in nodes)}")
    if not nodes or row(nodes[0].op).role in (Role.ELEMENTWISE, Role.REDUCTION) or nodes[0].op == "matmul":
        return straight_kernel(body)
    (n,) = nodes
    source = Source(body)
    args = [named(source, a) for a in n.args]
    source.line(_call(source, n, args))
    for place in source.writes[1:]:
        source.line(f"copyto({place}, o0)")
    return source


def _call(source: Source, n: Node, args: list[str]) -> str:
    if n.op == "concat":
        source.names["concatenate"] = np.concatenate
        return f"concatenate(({', '.join(args)},), {n.attrs[0]}, o0)"
    if n.op == "take":
        source.names["take"] = np.take  # with out=, NumPy copies first unless told how to treat what is out of range
        return f"take({args[0]}, {args[1]}, {n.attrs[0]}, o0)"
    if n.op in _INTO:
        template, names = _INTO[n.op]
        source.names |= names
        attrs = dict(zip(row(n.op).attrs, n.attrs, strict=True))
        return template.format(*args, **attrs)
    source.names[n.op] = row(n.op).meaning
    return f"copyto(o0, {n.op}({', '.join([*args, *map(repr, n.attrs)])}))"


def view_function(body: Graph) -> Callable[[np.ndarray], np.ndarray]:
    """The function that takes the view in `body` of an array."""
    chain = leaf_chain(body.outputs[0])[1]

    def view(array: np.ndarray) -> np.ndarray:
        for n in chain:
            array = row(n.op).meaning(array, *n.attrs)
        return array

    return view
