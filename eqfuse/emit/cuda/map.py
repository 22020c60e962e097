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
    vectors = [f"Vec<{parameters.stored(f'w{j}')}, {width}>" for j, _ in stores]
    return [
        *elements.outer,
        f"for ({integer} g = {start}; g < {size // width}; g += {step}) {{",
        f"    const {integer} i_ = g * {width};",
        *(f"    {line}" for line in elements.read_at_once()),
        *(f"    {vector} w{j}v;" for j, vector in enumerate(vectors)),
        "    #pragma unroll",
        f"    for (int v = 0; v < {width}; v++) {{",
        f"        const {integer} i = i_ + v;",
        *(f"        {line}" for line in elements.inner),
        *(f"        w{j}v.v[v] = {text};" for j, text in stores),
        "    }",
        *(f"    *({vector}*)(w{j} + i_) = w{j}v;" for j, vector in enumerate(vectors)),
        "}",
    ]
