"""Library calls on a GPU. In: a kernel that no CUDA function computes: a product, a convolution, a window, a sort.
Out: `CudaCalls`, Python text over CuPy with one call per operator. Next stop: `emit/cuda/executable.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from eqfuse.dtypes import BFLOAT16, FLOAT8
from eqfuse.emit.cuda.library import LIBRARY_CALLS, ON_HOST, helpers
from eqfuse.emit.cuda.scheduling.calls import CallsSchedule
from eqfuse.emit.cuda.scheduling.host import UFUNC_NAMES
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node, topological
from eqfuse.ops import Role, row
from eqfuse.ops.elementwise import UFUNCS

# {0}, {1}: arguments; {all}: every argument; {out}: what is written into; attributes by their names in the row.
CUPY_CALLS = {
    "where": "cupy.where({all})", "cast": "{0}.astype('{dtype}')", "bitcast": "{0}.view('{dtype}')",
    "real": "{0}.real", "imag": "{0}.imag", "complex": "complex_array({0}, {1})",
    "transpose": "cupy.transpose({0}, {axes})", "reshape": "cupy.reshape({0}, {shape})",
    "broadcast_to": "cupy.broadcast_to({0}, {shape})", "flip": "cupy.flip({0}, {axes})",
    "take": "cupy.take({0}, {1}, {axis})", "take_along_axis": "cupy.take_along_axis({0}, {1}, {axis})",
    "loop_result": "loop_result({0}, {offset}, {result!r})",
    "concat": "cupy.concatenate(({all},), {axis})", "pad": "pad({0}, {1}, {widths})",
    "scatter": "scatter({out}, {1}, {2}, {axis}, '{mode}')",
    "argmax": "cupy.argmax({0}, axis={axes[0]}, keepdims=True)",
    "argmin": "cupy.argmin({0}, axis={axes[0]}, keepdims=True)",
    "matmul": "product({0}, {1})", "conv": "conv({0}, {1}, {strides}, {padding}, {dilations}, {groups})",
    "window_max": "window_max({0}, {window}, {strides}, {padding})",
    "window_sum": "window_sum({0}, {window}, {strides}, {padding})",
} | {
    name: f"cupy.{name}({{0}}, axis={{axes}}, keepdims=True)" for name in ("sum", "prod", "max", "min", "any", "all")
} | LIBRARY_CALLS  # fmt: skip
# their meanings are written in what CuPy has too
_BOTH = ("conv", "window_max", "window_sum", "loop_result")
_INTO = {
    "matmul": "product({0}, {1}, {out})", "concat": "cupy.concatenate(({all},), {axis}, out={out})",
    "take": "cupy.take({0}, {1}, {axis}, out={out})",
    **{op: f"{name}({{all}}, out={{out}})" for op, name in UFUNC_NAMES.items()},
}  # fmt: skip


@dataclass(frozen=True)
class CudaCalls:
    """A Python function over device arrays: reads, then `constants`, then writes, as a CUDA function takes them."""

    source: str
    schedule: CallsSchedule
    constants: tuple[np.ndarray, ...]

    def bind(self, cupy: ModuleType, special: ModuleType, **own: Callable[..., Any]) -> Callable[..., None]:
        """The function, calling `cupy` (a module of NumPy's functions) and `special` (of SciPy's special functions),
        and functions of our `own` in place of helpers."""
        names: dict[str, Any] = {op: row(op).meaning for op in _BOTH}
        names |= {"cupy": cupy, "special": special, "pad": _pad, **helpers(cupy)}
        names |= {"complex_array": partial(_complex, cupy), **own}
        exec(compile(self.source, "<eqfuse library calls>", "exec"), names)
        function: Callable[..., None] = names["kernel"]
        return function


def emit_calls(body: Graph, schedule: CallsSchedule, in_place: bool = False) -> CudaCalls:
    """The library calls that compute `body`. UnsupportedOp when there is none for an operator. `in_place`: it is an
    update, whose result lies in the memory of the array."""
    if schedule.widened:
        return CudaCalls(_function(body, 0, _widened_product(body, schedule.widened)), schedule, ())
    for n in body.nodes:
        if n.dtype in FLOAT8:
            raise UnsupportedOp(f"the cuda target has no {n.dtype.name} arrays: cast them to bfloat16 first")
    places = {n: [f"w{j}" for j, o in enumerate(body.outputs) if o is n] for n in body.nodes}
    names = {n: f"r{i}" for i, n in enumerate(body.inputs)}
    constants: list[np.ndarray] = []
    lines: list[str] = []
    for n in body.nodes:
        if n.op == "const":
            names[n] = f"k{len(constants)}"
            constants.append(n.literal.array)
        elif n not in names:
            out = places[n].pop(0) if places[n] else None
            arguments = [names[a] for a in n.args]
            names[n] = out or f"t{len(lines)}"
            if n.row.role is Role.UPDATE and n not in schedule.host:
                begun = f"{out}[...] = {arguments[0]}" if out else f"{names[n]} = {arguments[0]}.copy()"
                lines += [begun] * (not in_place) + _updates(n, arguments, names[n])
            elif out and n in schedule.placed:
                lines.append(_filled(_INTO[n.op], n, arguments, out))
            else:
                lines.append(f"{out}[...] = " if out else f"{names[n]} = ")
                lines[-1] += _call(n, arguments, n in schedule.host)
        lines += [f"{place}[...] = {names[n]}" for place in places[n]]
    return CudaCalls(_function(body, len(constants), lines), schedule, tuple(constants))


def _updates(n: Node, arguments: list[str], out: str) -> list[str]:
    """The lines that write what the update `n` changes into `out`, which holds the array."""
    _, *values = arguments
    if n.op == "scatter":
        return [_filled(CUPY_CALLS[n.op], n, arguments, out)]
    return [f"{_cut(out, ranges) or f'{out}[...]'} = {v}" for ranges, v in zip(n.attr("slices"), values, strict=True)]


def _cut(array: str, ranges: Sequence[tuple[int, int, int]]) -> str:
    """A slice of `array`; nothing where that has no axes."""
    index = ", ".join(f"{start}:{stop}:{step}" for start, stop, step in ranges)
    return f"{array}[{index}]" if index else ""


def _widened_product(body: Graph, operands: tuple[Node, ...]) -> list[str]:
    """The views of what is read, and their product, which cuBLAS widens itself."""
    names = {n: f"r{i}" for i, n in enumerate(body.inputs)}
    lines: list[str] = []
    for n in topological(operands):
        if n not in names:
            names[n] = f"t{len(lines)}"
            lines.append(f"{names[n]} = {_call(n, [names[a] for a in n.args], False)}")
    first, *others = (f"w{j}" for j in range(len(body.outputs)))
    lines.append(f"widened_product({names[operands[0]]}, {names[operands[1]]}, {first})")
    return lines + [f"{place}[...] = {first}" for place in others]


def _function(body: Graph, constants: int, lines: Sequence[str]) -> str:
    counts = (("r", len(body.inputs)), ("k", constants), ("w", len(body.outputs)))
    parameters = ", ".join(f"{letter}{i}" for letter, count in counts for i in range(count))
    return f"def kernel({parameters}):\n" + "".join(f"    {line}\n" for line in lines or ["pass"])


def _call(n: Node, arguments: list[str], host: bool) -> str:
    if n.op == "slice":
        return _cut(arguments[0], n.attr("ranges")) or arguments[0]
    template = ON_HOST if host else _template(n)
    if template is None:
        raise UnsupportedOp(f"the cuda target has no library call for {n.op}: add its row to eqfuse/emit/cuda/calls.py")
    called = n.row.role in (Role.LIBRARY, Role.PIECES, Role.REDUCTION, Role.SCAN)
    if called and template != ON_HOST:  # few of CuPy's know bfloat16
        small = [a.dtype == BFLOAT16 for a in n.args]
        arguments = [f"{a}.astype('float32')" if s else a for a, s in zip(arguments, small, strict=True)]
        template += ".astype('bfloat16')" * (n.dtype == BFLOAT16 and any(small))
    return _filled(template, n, arguments, "")


def _template(n: Node) -> str | None:
    """The call of `n` on the device."""
    return f"{UFUNC_NAMES[n.op]}({{all}})" if n.op in UFUNCS else CUPY_CALLS.get(n.op)


def _filled(template: str, n: Node, arguments: list[str], out: str) -> str:
    attrs = dict(zip(n.row.attrs, n.attrs, strict=True))
    values = ", ".join(map(repr, n.attrs))
    return template.format(*arguments, all=", ".join(arguments), out=out, op=n.op, values=values, **attrs)


def _complex(cupy: ModuleType, real: Any, imag: Any) -> Any:
    """The complex array with these parts, on the device."""
    whole = cupy.broadcast_to(real, np.broadcast_shapes(real.shape, imag.shape)).astype(f"c{2 * real.dtype.itemsize}")
    whole.imag = imag
    return whole


def _pad(x: Any, value: Any, widths: Sequence[tuple[int, int]]) -> Any:
    """`x` with `value`, a scalar on the device, around it (CuPy's own `pad` takes scalars of the host alone)."""
    padded = np.empty_like(x, shape=tuple(a + n + b for n, (a, b) in zip(x.shape, widths, strict=True)))
    padded[...] = value
    padded[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, widths, strict=True))] = x
    return padded
