"""Maps: a grid-stride loop over the shape of the results. In: a map body and its schedule. Out: the statements of one
CUDA function. Next stop: `cuda.emit_kernel`.
"""

from __future__ import annotations

import math

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Elements, Indices, Parameters
from eqfuse.emit.cuda.scheduling.map import MapSchedule


def emit(
    schedule: MapSchedule, parameters: Parameters, block: str = "blockIdx.x", blocks: str = "gridDim.x"
) -> list[str]:
    """The inside of the function, for the thread of `block`, one of so many `blocks`."""
    width, (threads, _) = schedule.width, schedule.block
    size, integer = math.prod(parameters.body.outputs[0].shape), parameters.integer
    start, step = f"({integer}){block} * {threads} + threadIdx.x", f"({integer}){blocks} * {threads}"
    if width == 1:
        elements, stores = _values(parameters, 1)
        inner = [*elements.inner, *(f"w{j}[i] = {text};" for j, text in stores)]
        loop = f"for ({integer} i = {start}; i < {size}; i += {step}) {{"
        return [*elements.outer, loop, *(f"    {line}" for line in inner), "}"]
    whole, rest = divmod(size, width)
    return [*_loop(parameters, width, f"{integer} g = {start}; g < {whole}; g += {step}"),
            *(_rest(parameters, start, whole * width, rest) if rest else [])]  # fmt: skip


def _values(parameters: Parameters, width: int) -> tuple[Elements, list[tuple[int, str]]]:
    """The elements at `i`, of which `width` are read at once, and what is stored there of each output."""
    outputs, elements = parameters.body.outputs, Elements(parameters, Indices())
    elements.vector_width = width
    index = elements.indices.split("i", outputs[0].shape)
    return elements, [(j, ops.store(o.dtype, elements.value(o, index))) for j, o in enumerate(outputs)]


def _loop(parameters: Parameters, width: int, turns: str) -> list[str]:
    """`width` neighbours a turn."""
    (elements, stores), integer = _values(parameters, width), parameters.integer
    vectors = [f"Vec<{parameters.stored(f'w{j}')}, {width}>" for j, _ in stores]
    return [
        *elements.outer,
        f"for ({turns}) {{",
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


def _rest(parameters: Parameters, thread: str, first: int, rest: int) -> list[str]:
    """The elements from `first` on, one each for the first threads."""
    elements, stores = _values(parameters, 1)
    return [
        f"if ({thread} < {rest}) {{",
        f"    const {parameters.integer} i = {thread} + {first};",
        *(f"    {line}" for line in (*elements.outer, *elements.inner)),
        *(f"    w{j}[i] = {text};" for j, text in stores),
        "}",
    ]
