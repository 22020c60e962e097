"""One element of a kernel's body as C statements. In: a body and the index at which a value is wanted. Out: lines of C.
Views are index maps: the index is rewritten on the way to the arrays, no data moves. Next stop: `kernels.py`, `row.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from eqfuse.emit.cuda import ops
from eqfuse.emit.cuda.neighbours import neighbouring
from eqfuse.emit.cuda.pieces import first_choice, pieces_at
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Graph, Node
from eqfuse.ops import Role
from eqfuse.ops.index_map import Place
from eqfuse.ops.literal import Literal
from eqfuse.ops.row import Rounding
from eqfuse.ops.types import Shape

Index = tuple[str, ...]
Recursion = Generator["Recursion", Any, Any]  # yields the steps that it needs the result of

BEYOND = 1 << 27  # how far past the last element an index may run: a turn of the whole grid, a tile, a row's threads
VARIABLE_NAME = re.compile(r"\b[a-z]\w*(?:\[v\])?")  # of a variable
LONG_INDEX = 60  # characters of index arithmetic that are not written twice
LONGEST_INDEX = 4_000  # characters of index arithmetic, written out, that are searched for neighbours


@dataclass
class Parameters:
    """The kernel's parameters: reads, constants (never in the text: they are data), then what is written. `rounds`:
    16-bit floats are rounded after every operator, as NumPy rounds them."""

    body: Graph
    rounds: bool = True
    constants: list[Literal] = field(default_factory=list)

    @cached_property
    def integer(self) -> str:
        """The C type of every index: one that no value of the body, stored or not, is too large for."""
        farthest = max((n.type.size + _padding(n) for n in self.body.nodes), default=0)
        return "int" if farthest + BEYOND < 2**31 else "long long"

    def pointer(self, n: Node) -> str | None:
        """The array that holds `n`, if one does."""
        if n.op == "input":
            return f"r{self.body.inputs.index(n)}"
        return f"k{self.number(n.literal)}" if n.op == "const" and n.type.size != 1 else None

    def stored(self, array: str) -> str:
        """The C type of an array's elements, by its name."""
        place = int(array[1:])
        if array[0] == "k":
            return ops.stored(self.constants[place].array.dtype)
        return ops.stored((self.body.inputs if array[0] == "r" else self.body.outputs)[place].dtype)

    def scalar(self, n: Node) -> str | None:
        return f"k{self.number(n.literal)}" if n.number is not None else None

    def number(self, literal: Literal) -> int:
        if literal not in self.constants:
            self.constants.append(literal)
        return self.constants.index(literal)

    def declarations(self) -> list[str]:
        texts = [f"const {ops.stored(n.dtype)}* __restrict__ r{i}" for i, n in enumerate(self.body.inputs)]
        for i, literal in enumerate(self.constants):
            dtype = literal.array.dtype
            array = f"const {ops.stored(dtype)}* __restrict__ k{i}"
            texts.append(f"{ops.computing_type(dtype)} k{i}" if literal.array.size == 1 else array)
        return texts + [f"{ops.stored(n.dtype)}* __restrict__ w{i}" for i, n in enumerate(self.body.outputs)]

    def constant_argument(self, literal: Literal) -> np.generic | np.ndarray:
        """A constant as the launch passes it."""
        array = literal.array
        if array.size != 1:
            return array
        return (array.astype(np.float32) if ops.computing_type(array.dtype) == "float" else array).reshape(())[()]


def _padding(n: Node) -> int:
    """How far beyond what it reads the indices of `n` run."""
    return sum(map(sum, n.attr("padding"))) if n.op == "conv" else 0


def aligned(index: Index, shape: Shape) -> Index:
    """The index into an array of `shape` that broadcasts."""
    tail = index[len(index) - len(shape) :]
    return tuple("0" if n == 1 else text for text, n in zip(tail, shape, strict=True))


@dataclass
class Indices:
    """Index arithmetic with literal extents. Remembers which tuple came from which flat offset, so that a contiguous
    read is `r0[i]` again."""

    flats: dict[tuple[tuple[str, int], ...], str] = field(default_factory=dict)

    def split(self, flat: str, shape: Shape) -> Index:
        index: list[str] = []
        step = math.prod(shape)
        leading = True
        for n in shape:
            step //= max(n, 1)
            if n == 1:
                index.append("0")
                continue
            text = flat if step == 1 else f"({flat} / {step})"
            index.append(text if leading else f"({text} % {n})")
            leading = False
        self.know(tuple(index), shape, flat)
        return tuple(index)

    def know(self, index: Index, shape: Shape, flat: str) -> None:
        significant = _significant(index, shape)
        if significant:  # the place in an array of one element is 0, which varies with nothing
            self.flats[significant] = flat

    def join(self, index: Index, shape: Shape) -> str:
        key = _significant(index, shape)
        if key in self.flats:
            return self.flats[key]
        terms, step = [], 1
        for text, n in zip(reversed(index), reversed(shape), strict=True):
            if n != 1 and text != "0":
                terms.append(text if step == 1 else f"{text} * {step}")
            step *= n
        if len(terms) == 1 and terms[0] in index:
            return terms[0]
        return f"({' + '.join(reversed(terms))})" if terms else "0"


def _significant(index: Index, shape: Shape) -> tuple[tuple[str, int], ...]:
    return tuple((text, n) for text, n in zip(index, shape, strict=True) if n != 1)


class Elements:
    """Writes the statements that compute single elements: those that stay the same along a row into `outer`, the
    others into `inner`. Both are lists the caller replaces from pass to pass."""

    changes = re.compile(r"\b(i|v|col|t\d+)\b")  # what differs from one element to the next; s… and row stay

    def __init__(self, parameters: Parameters, indices: Indices) -> None:
        self.parameters = parameters
        self.indices = indices
        self.outer: list[str] = []
        self.inner: list[str] = []
        self.inner_memo: dict[tuple[Node, Index], str] = {}
        self.outer_memo: dict[tuple[Node, Index], str] = {}
        self.vectors: dict[tuple[str, str], str] = {}  # what is read of neighbours at once: (array, first place), name
        self.vector_width = 1
        self.fast, self.flat = "i", "i"  # what differs between neighbours, and `i` in terms of it
        self.count = 0
        self.shortened: dict[str, str] = {}  # long index arithmetic: the variable that holds it
        self.short_here: set[str] = set()  # of those variables, the ones at hand

    def value(self, n: Node, index: Index) -> str:
        """The name of the variable that holds `n[index]`, computed now unless it already was."""
        return finished(self._value(n, index))

    def stored(self, n: Node, index: Index) -> str:
        """`n[index]` as an array keeps it: what is only stored is rounded once, and what is copied not at all."""
        while (variable := self._variable(n, index)) is None and n.row.role is Role.VIEW:
            n, index = n.args[0], self._source(n, index)
        if variable is None and (array := self.parameters.pointer(n)) is not None:
            return self._element(array, self.indices.join(index, n.shape))
        if variable is None and ops.computing_type(n.dtype) != ops.stored(n.dtype) and n.row.role is Role.ELEMENTWISE:
            values = [self.value(a, aligned(index, a.shape)) for a in n.args]
            if n.op == "cast":
                return ops.stored_cast(n.args[0].dtype, n.dtype, values[0])
            return ops.value_kept(n.dtype, self.expression(n, values))
        return ops.value_kept(n.dtype, variable or self.value(n, index))

    def _variable(self, n: Node, index: Index) -> str | None:
        return self.outer_memo.get((n, index)) or self.inner_memo.get((n, index)) or self.earlier(n, index)

    def _value(self, n: Node, index: Index) -> Recursion:
        value = self._variable(n, index)
        if value is None:
            value = yield self._compute(n, index)
        return value

    def earlier(self, n: Node, index: Index) -> str | None:
        """A value that an earlier pass left behind."""
        return None

    def name(self, n: Node, index: Index, text: str) -> str:
        """A new variable for `n[index]`, in the outermost place where `text` is known."""
        varies = self.changes.search(text) is not None
        name = self.new_name(varies)
        self.define(ops.computing_type(n.dtype), name, text, varies)
        (self.inner_memo if varies else self.outer_memo)[n, index] = name
        return name

    def new_name(self, varies: bool) -> str:
        self.count += 1
        return f"{'t' if varies else 's'}{self.count - 1}"

    def declared(self, kind: str, name: str, varies: bool) -> list[str]:
        """The statement that declares a variable whose value follows, if it takes one here."""
        return [f"{kind} {name};"]

    def define(self, kind: str, name: str, text: str, varies: bool) -> None:
        (self.inner if varies else self.outer).append(f"{kind} {name} = {text};")

    def _compute(self, n: Node, index: Index) -> Recursion:
        scalar = self.parameters.scalar(n)
        if scalar is not None:
            return scalar
        array = self.parameters.pointer(n)
        if array is not None:
            element = self._element(array, self.indices.join(index, n.shape))
            return self.name(n, index, ops.value_read(n.dtype, element))
        role = n.row.role
        if role is Role.ELEMENTWISE:
            values = []
            for a in n.args:
                values.append((yield self._value(a, aligned(index, a.shape))))
            return self.name(n, index, self._applied(n, values))
        if role is Role.VIEW:
            return (yield self._value(n.args[0], self._source(n, index)))
        if n.row.pieces is not None:
            return (yield self._piece(n, index))
        if role is Role.GATHER:
            value = yield self._value(n.args[0], (yield self._gathered(n, index)))
            return self.name(n, index, value)
        raise UnsupportedOp(f"the cuda target cannot compute {n.op} inside a kernel; run it as a library call")

    def _applied(self, n: Node, values: list[str]) -> str:
        if n.op == "cast":
            return ops.cast(n.args[0].dtype, n.dtype, values[0])
        return self.rounded(n, self.expression(n, values))

    def expression(self, n: Node, values: list[str]) -> str:
        """`n` of `values`, not yet rounded."""
        return ops.expression(n.op, [a.dtype for a in n.args], values)

    def rounded(self, n: Node, text: str) -> str:
        """`text`, a value of `n`, as exact as the program has it."""
        exact = n.row.rounding is Rounding.NEVER
        return ops.rounded(n.dtype, text) if self.parameters.rounds and not exact else text

    def _element(self, array: str, flat: str) -> str:
        first = self._first_of_neighbours(flat) if self.vector_width > 1 else None
        if first is None:
            return f"{array}[{flat}]"
        return f"{self.vector(array, first)}.v[v]"

    def vector(self, array: str, first: str) -> str:
        """The name of the neighbours of `array` from `first` on, read at once."""
        again = sum(a == array for a, _ in self.vectors)
        return self.vectors.setdefault((array, first), f"{array}v{f'_{again}' if again else ''}")

    def _first_of_neighbours(self, flat: str) -> str | None:
        """Where the neighbours start whose places are `flat`; None where they do not lie side by side."""
        names = {name: text for text, name in self.shortened.items()}
        names |= {"i": self.flat} if self.flat != "i" else {}
        whole, before = flat, ""
        while whole != before and len(whole) < LONGEST_INDEX:
            whole, before = re.sub(VARIABLE_NAME, lambda m: f"({names[m[0]]})" if m[0] in names else m[0], whole), whole
        if len(whole) >= LONGEST_INDEX or not neighbouring(whole, self.fast, self.vector_width):
            return None
        return "i_" if flat == "i" else re.sub(rf"\b{self.fast}\b", f"{self.fast}_", whole)

    def read_at_once(self) -> list[str]:
        """The statements that read neighbours."""
        return [self.read_vector(array, first, name) for (array, first), name in self.vectors.items()]

    def read_vector(self, array: str, first: str, name: str) -> str:
        kind = f"Vec<{self.parameters.stored(array)}, {self.vector_width}>"
        return f"const {kind} {name} = *(const {kind}*)({array} + {first});"

    def _source(self, n: Node, index: Index) -> Index:
        """Where in its argument the view `n` finds its element `index`."""
        places = n.index_map
        if places is None:
            return self.indices.split(self._short(self.indices.join(index, n.shape)), n.args[0].shape)
        return tuple(_placed(place, index) for place in places)

    def _piece(self, n: Node, index: Index) -> Recursion:
        """`n[index]`, of the piece that it lies in: one value at a place that depends on the piece, where all are
        views of that value; else each piece in a branch of its own."""
        pieces = [(p.condition, *self._behind(p.source, p.index)) for p in pieces_at(n, index)]
        sources = {source for _, source, _ in pieces}
        if len(sources) == 1:
            places = zip(*[place for *_, place in pieces], strict=True)
            place = tuple(self._short(first_choice([p[0] for p in pieces], texts)) for texts in places)
            return self.name(n, index, (yield self._value(sources.pop(), place)))
        branches: list[tuple[str, list[str], str]] = []
        for condition, source, place in pieces:
            outside = self._enter()
            value = yield self._value(source, place)
            branches.append((condition, self.inner, value))
            self._leave(outside)
        return self._branched(n, index, branches)

    def _behind(self, n: Node, index: Index) -> tuple[Node, Index]:
        """What the views that end in `n` look at, and where it has the element `index` of `n`."""
        while n.row.role is Role.VIEW:
            n, index = n.args[0], self._source(n, index)
        return n, index

    def _enter(self) -> tuple:
        """Begin a branch: what is computed there is not known outside. Returns what `_leave` takes."""
        outside = self.inner, self.outer, self.inner_memo, self.outer_memo, self.short_here, self.vector_width
        self.inner = self.outer = []
        self.inner_memo, self.outer_memo = dict(self.inner_memo), dict(self.outer_memo)
        self.short_here, self.vector_width = set(self.short_here), 1  # a vector may reach beyond its piece
        return outside

    def _leave(self, outside: tuple) -> None:
        self.inner, self.outer, self.inner_memo, self.outer_memo, self.short_here, self.vector_width = outside

    def _branched(self, n: Node, index: Index, branches: list[tuple[str, list[str], str]]) -> str:
        """A variable for `n[index]`, which each of the branches (condition, lines, value) computes."""
        varies = any(self.changes.search(" ".join((condition, *lines, value))) for condition, lines, value in branches)
        name = self.new_name(varies)
        text = self.declared(ops.computing_type(n.dtype), name, varies)
        for i, (condition, lines, value) in enumerate(branches):
            test = f"if ({condition}) " if condition else ""
            text.append(f"{'} else ' if i else ''}{test}{{")
            text += [f"    {line}" for line in (*lines, f"{name} = {value};")]
        (self.inner if varies else self.outer).extend([*text, "}"])
        (self.inner_memo if varies else self.outer_memo)[n, index] = name
        return name

    def _gathered(self, n: Node, index: Index) -> Recursion:
        """Where in its argument `take` or `take_along_axis` finds its element `index`."""
        source, indices = n.args
        axis = source.type.rank + n.attr("axis")
        whole = n.row.by_element
        end = axis + (1 if whole else indices.type.rank)
        place = yield self._value(indices, index if whole else index[axis:end])
        integer = self.parameters.integer
        return (*index[:axis], f"eqf_place<{integer}>({place}, {source.shape[axis]})", *index[end:])

    def _short(self, text: str) -> str:
        """`text`, index arithmetic, or a variable that holds it: what is split into axes is written once for each."""
        if len(text) <= LONG_INDEX:
            return text
        varies = self.changes.search(text) is not None
        name = self.shortened.setdefault(text, self.new_name(varies))
        if name not in self.short_here:
            self.short_here.add(name)
            self.define(f"const {self.parameters.integer}", name, text, varies)
        return name


def _placed(place: Place, index: Index) -> str:
    """Where the element `index` of a view lies along one axis of its argument."""
    if len(place.terms) != 1:
        terms = [index[axis] if step == 1 else f"{index[axis]} * {step}" for axis, step in place.terms]
        return f"({' + '.join([*terms, str(place.start)] if place.start else terms)})" if terms else str(place.start)
    ((axis, step),) = place.terms
    if step == -1:
        return f"({place.start} - {index[axis]})"
    return index[axis] if (place.start, step) == (0, 1) else _shifted(index[axis], place.start, step)


def _shifted(text: str, start: int, step: int) -> str:
    """`text * step + start`, written the same way however many slices lead there."""
    if step != 1:
        return f"({text} * {step} + {start})"
    earlier = re.fullmatch(r"\((.*) \+ (\d+)\)", text)
    if earlier and earlier[1].isidentifier():
        return f"({earlier[1]} + {int(earlier[2]) + start})"
    return f"({text} + {start})"


def finished(steps: Recursion) -> Any:
    """The result of `steps`, with those they ask for on a stack of our own: bodies may be deeper than Python's."""
    stack, result = [steps], None
    while stack:
        try:
            asked = stack[-1].send(result)
        except StopIteration as done:
            stack.pop()
            result = done.value
        else:
            stack.append(asked)
            result = None
    return result
