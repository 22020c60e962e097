"""Maps: a grid-stride loop over the shape of the results. In: a map body and its schedule. Out: the statements of one
CUDA function. Next stop: `cuda.emit_kernel`.
"""

from __future__ import annotations

import math

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Elements, Indices, Parameters
from eqfuse.emit.cuda.scheduling.map import MapSchedule


def emit(schedule: MapSchedule, parameters: Parameters) -> list[str]:
    """The inside of the function."""
    body, width, (threads, _) = parameters.body, schedule.width, schedule.block
    shape = body.outputs[0].shape
    elements = Elements(parameters, Indices())
    elements.vector_width = width
    index = elements.indices.split("i", shape)
    stores = [(j, ops.store(o.dtype, elements.value(o, index))) for j, o in enumerate(body.outputs)]
    size, integer = math.prod(shape), parameters.integer
    start, step = f"({integer})blockIdx.x * {threads} + threadIdx.x", f"({integer})gridDim.x * {threads}"
    if width == 1:
        inner = [*elements.inner, *(f"w{j}[i] = {text};" for j, text in stores)]
        loop = f"for ({integer} i = {start}; i < {size}; i += {step}) {{"
        return [*elements.outer, loop, *(f"    {line}" for line in inner), "}"]
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
