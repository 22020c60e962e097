"""Tiles that threads move: of operands into shared memory, of results to the arrays. In: a `Matrix`, the index map of
one. Out: lines of C. `contract.py` and `back_to_back.py` write kernels with them.
"""

from __future__ import annotations

import re

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.element import Elements, Index, Indices, Parameters
from eqfuse.emit.cuda.multiply import Multiply
from eqfuse.emit.cuda.operands import Matrix
from eqfuse.ir.graph import Node


class Sums(Elements):
    """Elements over m, n and k; the values `at_hand` have names."""

    changes = re.compile(r"\b([mnkiv]|sum|score|shift|best|top|total|t\d+)\b")

    def __init__(self, parameters: Parameters, at_hand: dict[Node, str]) -> None:
        super().__init__(parameters, Indices())
        self.at_hand = at_hand

    def earlier(self, n: Node, index: Index) -> str | None:
        return self.at_hand.get(n)

    def start(self, matrix: Matrix, width: int) -> None:
        """Another part of the function, where nothing that varies is at hand; `width` neighbours are read at once."""
        self.inner, self.inner_memo, self.vectors = [], {}, {}
        self.short_here = {name for name in self.short_here if name.startswith("s")}
        self.indices, self.vector_width = Indices(), width
        self.fast, self.flat = matrix.fast, matrix.flat
        for index, shape, flat in matrix.offsets:
            self.indices.know(index, shape, flat)


def of_neighbours(e: Sums, matrix: Matrix, width: int, last: list[str], placed: bool = False) -> list[str]:
    """The statements of this part for `width` elements, then `last` for each; `placed`: they want to know `i`."""
    fast, integer = matrix.fast, e.parameters.integer
    inner = [*e.inner, *last]
    wanted = [*inner, *(first for _, first in e.vectors)]
    used = placed or any(re.search(r"\bi_?\b", line) for line in wanted)
    flat = re.sub(rf"\b{fast}\b", first_of(fast, width), matrix.flat)
    place = [f"const {integer} {first_of('i', width)} = {flat};"] if used else []
    if width == 1:
        return [*place, *inner]
    return [
        *place,
        *e.read_at_once(),
        "#pragma unroll",
        f"for (int v = 0; v < {width}; v++) {{",
        f"    const {integer} {fast} = {fast}_ + v{', i = i_ + v' if used else ''};",
        *(f"    {line}" for line in inner),
        "}",
    ]


def run_as_it_lies(e: Sums, matrix: Matrix, text: str) -> str:
    """Where the neighbours start of which `text` is the element `v`, if that is all that this part computes."""
    if len(e.vectors) != 1 or e.inner or not text.endswith(".v[v]"):
        return ""
    ((array, place),) = e.vectors
    return f"{array} + {matrix.flat_of_first if place == 'i_' else place}"


def epilogue(e: Sums, result: Matrix, multiply: Multiply, width: int, limits: dict[str, int], sums: str) -> list[str]:
    """What follows the product `result`, on the `sums` of this thread, and the stores of `width` neighbours at once.
    `limits`: of rows and columns, where tiles reach beyond them."""
    outputs, group, integer = e.parameters.body.outputs, multiply.group, e.parameters.integer
    e.start(result, width)
    stores = [e.stored(o, result.index) for o in outputs]
    e.inner.insert(0, f"const {ops.computing_type(result.node.dtype)} sum = {e.rounded(result.node, sums)};")
    types = [f"Vec<{ops.stored(o.dtype)}, {width}>" for o in outputs]
    if width == 1:
        inside = of_neighbours(e, result, 1, [f"w{j}[i] = {text};" for j, text in enumerate(stores)], True)
    else:
        inside = [
            *(f"{t} w{j}v;" for j, t in enumerate(types)),
            *of_neighbours(e, result, width, [f"w{j}v.v[v] = {text};" for j, text in enumerate(stores)], True),
            *(f"*({t}*)(w{j} + i_) = w{j}v;" for j, t in enumerate(types)),
        ]
    first = first_of("n", width)
    ends = [f"{name} < {limits[x]}" for x, name in (("m", "m"), ("n", first)) if x in limits]
    if ends:
        inside = [f"if ({' && '.join(ends)}) {{", *(f"    {x}" for x in inside), "}"]
    inside.insert(0, f"const {integer} {first} = column + {multiply.n}{'' if width > 1 else ' + v'};")
    if width == 1:
        inside = ["#pragma unroll", f"for (int v = 0; v < {group}; v++) {{", *(f"    {x}" for x in inside), "}"]
    return [
        "#pragma unroll",
        f"for (int a = 0; a < {multiply.counts[0]}; a++) {{",
        f"    const {integer} m = row + {multiply.m};",
        "    #pragma unroll",
        f"    for (int b = 0; b < {multiply.counts[1]}; b++) {{",
        *(f"        {line}" for line in inside),
        "    }",
        "}",
    ]


def first_of(name: str, width: int) -> str:
    """The name of the first of `width` neighbours."""
    return name if width == 1 else f"{name}_"


def neighbour(width: int) -> str:
    """Which of `width` neighbours a statement is about."""
    return "0" if width == 1 else "v"
