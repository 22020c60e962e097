"""CUDA kernels. In: a planned kernel of kind map, row, reduce or contract. Out: `CudaKernel`, readable CUDA text with
the rule by which it is launched through `cupy.RawModule`, or on the CPU through `eqfuse.testing.cudasim`. Next stop:
`emit/cuda/executable.py`.

Arrays are C-contiguous and start at multiples of 16 bytes (the runtime copies those that do not).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqfuse.cost.device import Device
from eqfuse.emit.cuda import contract, ops, row
from eqfuse.emit.cuda.element import Elements, Indices, Parameters
from eqfuse.emit.cuda.prelude import PRELUDE
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph
from eqfuse.ops.types import Shape
from eqfuse.plan.plan import Kernel

THREADS = 256
MOST_BLOCKS = 132 * 8 * 16  # sixteen waves of the largest device; a thread then takes more than one turn
EMITTED = ("map", "row", "reduce", "contract")


@dataclass(frozen=True)
class CudaKernel:
    """One CUDA function; no text and no grid where there is nothing to compute. `constants` follow the reads among its
    arguments, the writes come next, then the `workspace`: (dtype, elements) of arrays that start as zeros and that
    every launch leaves fit for the next one."""

    name: str
    source: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    constants: tuple[np.generic | np.ndarray, ...]
    workspace: tuple[tuple[np.dtype, int], ...]

    def arguments(self, writes: Sequence[Any], reads: Sequence[Any], constants: Sequence[Any],
                  workspace: Sequence[Any]) -> tuple[Any, ...]:  # fmt: skip
        """What a launch passes, in the order of the function's parameters; constant arrays already on the device."""
        return (*reads, *constants, *writes, *workspace)


def emit_kernel(kernel: Kernel, device: Device, rounds: bool = True) -> CudaKernel:
    """The CUDA function that computes `kernel.body`; where `rounds`, with 16-bit floats rounded after every operator.
    UnsupportedOp when the kind or an operator has no CUDA form."""
    if kernel.kind not in EMITTED:
        raise UnsupportedOp(
            f"the cuda target ({device.name}) emits kernels of kind {', '.join(EMITTED)}, not {kernel.kind}; "
            "what is left runs as library calls"
        )
    name = f"{kernel.kind}_{hashlib.blake2b(str(kernel.body).encode(), digest_size=6).hexdigest()}"
    if all(o.type.size == 0 for o in kernel.body.outputs):
        return CudaKernel(name, "", (), (), (), ())
    parameters = Parameters(kernel.body, rounds)
    if kernel.kind == "contract":
        code = contract.emit(kernel.body, parameters, device)
    else:
        code = (_emit_map if kernel.kind == "map" else row.emit)(kernel.body, parameters)
    declarations = parameters.declarations()
    for j, dtype in enumerate(code.parts):
        declarations.append(f"{ops.stored(dtype)}* parts{j}")
    if code.parts:
        declarations.append("unsigned* arrived")
    # without the second bound ptxas spills registers so that more blocks fit a multiprocessor
    source = f'extern "C" __global__ void __launch_bounds__({math.prod(code.block)}, {code.resident}) {name}(\n    '
    source += ",\n    ".join(declarations) + ") {\n" + "".join(f"    {line}\n" for line in code.lines) + "}\n"
    workspace = [(dtype, code.part_size) for dtype in code.parts]
    if code.parts:
        workspace.append((np.dtype(np.uint32), code.groups))
    constants = tuple(parameters.constant_argument(c) for c in parameters.constants)
    return CudaKernel(name, source, code.grid, code.block, constants, tuple(workspace))


def module_source(sources: Sequence[str] | dict[str, None]) -> str:
    """A compilable module: the helpers that the functions share, then the functions."""
    return "\n".join((PRELUDE, *sources))


def _emit_map(body: Graph, parameters: Parameters) -> row.Code:
    """A grid-stride loop over the shape of the results, 16 bytes a thread and turn."""
    shape = body.outputs[0].shape
    if any(o.shape != shape for o in body.outputs):
        raise UnsupportedOp("a cuda map kernel writes results of one shape")
    size = math.prod(shape)
    width = _vector_width(body, size)
    blocks = max(1, min(MOST_BLOCKS, -(-size // (THREADS * width))))
    return row.Code(_map_loop(body, parameters, shape, width), (blocks, 1), (THREADS, 1), (), 0, 0)


def _vector_width(body: Graph, size: int) -> int:
    """Elements per access of 16 bytes, as far as they divide the result."""
    widest = max(n.dtype.itemsize for n in (*body.inputs, *body.outputs))
    return math.gcd(16 // widest, size)


def _map_loop(body: Graph, parameters: Parameters, shape: Shape, width: int) -> list[str]:
    elements = Elements(parameters, Indices())
    elements.vector_width = width
    index = elements.indices.split("i", shape)
    stores = [(j, ops.store(o.dtype, elements.value(o, index))) for j, o in enumerate(body.outputs)]
    size, integer = math.prod(shape), parameters.integer
    start, step = f"({integer})blockIdx.x * {THREADS} + threadIdx.x", f"({integer})gridDim.x * {THREADS}"
    if width == 1:
        inner = [*elements.inner, *(f"w{j}[i] = {text};" for j, text in stores)]
        return [*elements.outer, f"for ({integer} i = {start}; i < {size}; i += {step}) {{",
                *(f"    {line}" for line in inner), "}"]  # fmt: skip
    ctype = {f"r{j}": ops.stored(n.dtype) for j, n in enumerate(body.inputs)}
    ctype |= {f"k{j}": ops.stored(c.array.dtype) for j, c in enumerate(parameters.constants)}
    ctype |= {f"w{j}": ops.stored(o.dtype) for j, o in enumerate(body.outputs)}

    def vector(array: str) -> str:
        return f"Vec<{ctype[array]}, {width}>"

    return [
        *elements.outer,
        f"for ({integer} g = {start}; g < {size // width}; g += {step}) {{",
        *(f"    const {vector(a)} {a}v = ((const {vector(a)}*){a})[g];" for a in elements.vectors),
        *(f"    {vector(f'w{j}')} w{j}v;" for j, _ in stores),
        "    #pragma unroll",
        f"    for (int v = 0; v < {width}; v++) {{",
        f"        const {integer} i = g * {width} + v;",
        *(f"        {line}" for line in elements.inner),
        *(f"        w{j}v.v[v] = {text};" for j, text in stores),
        "    }",
        *(f"    (({vector(f'w{j}')}*)w{j})[g] = w{j}v;" for j, _ in stores),
        "}",
    ]
