"""Source text of one kernel: lines, the names they use, and straight-line bodies without tiles.

In: nodes. Out: lines of Python over names made here (r: read, o: written, k: constants, a: operands, t: results).
A kernel is a function of its own, or `inline`: lines that may stand in the function of a whole program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from eqfuse.emit.evaluation_order import evaluation_order
from eqfuse.emit.numpy.branches import Branch, NamesRead, branch_lines, grouped
from eqfuse.emit.numpy.narrow import by_columns
from eqfuse.emit.numpy.ops import (
    LAID_OVER,
    NAMES,
    ONE_RUN,
    WINDOWED,
    fresh,
    into,
    masked_copy,
    replaced_slices,
    scalar_expression,
    view_text,
    whole_product,
)
from eqfuse.emit.numpy.statements import behind_views, bits_dtype, reduced_axes, statements
from eqfuse.emit.numpy.temporaries import (
    GATHERED_FROM,
    NUMPY_BUFFER,
    SHORT_BUFFER,
    gathered,
    has_long_rows,
    lies_apart,
    temporaries,
    unreshaped,
    view_copy_bytes,
)
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.views import computes, leaf_chain
from eqfuse.kinds.elements import by_element
from eqfuse.ops.elementwise import UFUNCS
from eqfuse.ops.types import TensorType


class Source:
    """Lines of one kernel and the objects behind its names."""

    def __init__(self, body: Graph) -> None:
        self.body = body
        self.names: dict[str, Any] = dict(NAMES)
        self.lines: list[str] = []
        self.reads = {n: f"r{i}" for i, n in enumerate(body.inputs)}
        self.writes = [f"o{i}" for i in range(len(body.outputs))]
        self.scratch_bytes = 0  # that each of its threads keeps
        self.threads = 1  # that work at once
        self.kernel_bytes = 0  # arrays that it makes and holds until it is done
        self.statement_bytes = 0  # the most that one statement makes and drops
        self.short_buffers = False  # is a ufunc faster where NumPy gathers fewer elements at a time?
        self.held_bytes = 0  # copies behind views, which a program's function holds until it returns
        self.inline = False
        self.calls: list[tuple[str, list[str], list[str]]] | None = None  # inline: its lines as calls of C: the
        # function, arrays that it reads in C order, others;
        self.together: Callable[[Any], tuple[Callable[..., Any], Any]] | None = None  # what makes many of them one
        self.returned: str | None = None  # inline: an expression for the one result, which is an array of its own
        self.keeping = 0  # of an update: its first lines, which copy what it does not replace
        self.writes_gaps = False  # may its result have gaps between its elements?
        self.one_ufunc_writes = False  # inline: the last line alone writes, by a ufunc, also over what it reads
        self.writes_last = False  # is an element of its one result written after all that is read of that element?
        self.overlays: frozenset[tuple[int, int]] = frozenset()  # which results may lie over which reads, as cheaply
        self.carries: dict[int, int] = {}  # results that stay where a value read lies, if both lie in one place
        self.views: dict[str, Node] = {}  # inline: leaves behind views, taken before the first line
        self.numbers: dict[str, Node] = {}  # inline: of leaves behind views, likewise
        self.workspaces: dict[str, TensorType] = {}  # inline: arrays that the lines write results into
        self.constants: dict[str, Node] = {}
        self._consts: dict[Node, str] = {}
        self._names_made = 0

    def line(self, text: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + text)

    def block(self, texts: Iterable[str], depth: int) -> None:
        for text in texts:
            self.line(text, depth)

    def name(self, letter: str) -> str:
        self._names_made += 1
        return f"{letter}{self._names_made - 1}"

    def leaf(self, n: Node) -> str:
        if n.op != "const":
            return self.reads[n]
        if n not in self._consts:
            name = self._consts[n] = f"k{len(self._consts) + 2}"  # k0 and k1 are Bessel's functions
            self.constants[name] = n
            self.names[name] = n.literal.array
        return self._consts[n]

    def view(self, n: Node, operands: Mapping[Node, str] = MappingProxyType({})) -> str:
        """An expression for a leaf, or one of the values that `operands` names, behind its views."""
        leaf, chain = leaf_chain(n)
        return view_text(operands.get(leaf) or self.leaf(leaf), chain)

    def number(self, n: Node, operands: Mapping[Node, str]) -> str:
        """A name or an expression for the number that `n` is: a leaf behind its views, or a value at hand."""
        leaf, chain = leaf_chain(n)
        if leaf.op != "const" and leaf not in self.reads:
            return view_text(operands[leaf], chain, number=True)
        name = next((name for name, other in self.numbers.items() if other is n), None)
        if name is None:
            self.leaf(leaf)
            name = self.name("a")
            self.numbers[name] = n
        return name

    def dtype(self, dtype: np.dtype) -> str:
        self.names[dtype.name] = dtype
        return dtype.name

    def share(self, count: int | str, threads: int, blas: bool, scratch_bytes: int) -> None:
        """The last lines of ``tiles``, which has `scratch_bytes` in ``memory``, and the call that shares it out."""
        if scratch_bytes:
            self.line("keep(memory)", 2)
        self.line(f"share(tiles, {count}, {threads}, {blas})")
        self.scratch_bytes, self.threads = scratch_bytes, min(threads, count) if isinstance(count, int) else threads

    def note_statement_bytes(self, nbytes: int) -> None:
        """Count `nbytes` that one statement makes and drops."""
        self.statement_bytes = max(self.statement_bytes, nbytes)

    def note_buffers(self, n: Node, elements: int, gaps: Callable[[Node], bool]) -> int:
        """Bytes in which the ufunc of `n`, for `elements` results, gathers operands; noted is whether short buffers are
        faster."""
        operands = gathered(n, gaps)
        short = elements >= GATHERED_FROM and has_long_rows(operands, n.shape)
        self.short_buffers |= short
        return min(SHORT_BUFFER if short else NUMPY_BUFFER, elements) * sum(a.dtype.itemsize for a in operands)

    @property
    def temporary_bytes(self) -> int:
        """What it allocates beside workspaces and scratch memory, all threads together."""
        return self.kernel_bytes + self.statement_bytes * self.threads

    def workspace(self, t: TensorType) -> str:
        """An array of type `t` for results; of an inline kernel, memory that the program gives."""
        name = self.name("t")
        self.dtype(t.dtype)
        if self.inline:
            self.workspaces[name] = t
        else:
            self.kernel_bytes += t.nbytes
            self.line(f"{name} = empty({t.shape}, {t.dtype.name})")
        return name

    def text(self) -> str:
        """The source of the kernel as a function of its own."""
        used = set(self.body.nodes)
        head = [f"r{i} = ins[{i}]" for i, n in enumerate(self.body.inputs) if n in used]
        head += [f"o{i} = outs[{i}]" for i in range(len(self.body.outputs))]
        head += [f"{name} = {self.view(n)}" for name, n in self.views.items()]
        for name, n in self.numbers.items():
            leaf, chain = leaf_chain(n)
            head.append(f"{name} = {view_text(self.leaf(leaf), chain, number=True)}")
        head += [f"{name} = empty({t.shape}, {t.dtype.name})" for name, t in self.workspaces.items()]
        last = [f"    copyto(o0, {self.returned})"] if self.returned else []
        return "\n".join(["def run(outs, ins):", *(f"    {line}" for line in head), *self.lines, *last]) + "\n"


def straight(
    source: Source, nodes: Sequence[Node], operands: dict[Node, str], places: dict[Node, str],
    kept: Iterable[Node] = (), branches: Sequence[Branch] = (),
) -> None:  # fmt: skip
    """Write `nodes` one after another on whole arrays, as a NumPy user would, reusing the memory of dead results.

    `operands` names the values at hand and receives the new ones; `places` names the arrays that results must end in;
    what is `kept` is read again later; the nodes of each of `branches` stand together.
    """
    kept = [*map(behind_views, source.body.outputs), *kept]
    workspaces: dict[str, TensorType] = {}
    numbers: set[Node] = set()
    free: list[str] = []  # workspaces; the one left last, which is still in cache, is taken first
    begun: dict[Node, int] = {}  # the first line of each node
    named: dict[Node, list[tuple[Node, str]]] = {}  # what it reads

    def workspace(t: TensorType) -> str:
        name = next((r for r in reversed(free) if workspaces[r] == t), None)
        if name is None:
            name = source.workspace(t)
            workspaces[name] = t
        else:
            free.remove(name)
        return name

    for n, statement in statements(nodes, list(places), kept, source.inline).items():
        read = statement.reads
        if statement.form == "number":
            _write_number(source, n, read, numbers, operands, places.get(n))
            free += [operands[a] for a in statement.freed if operands[a] in workspaces]
            continue
        args = [operands.get(a) or source.view(a, operands) for a in read]
        begun[n], named[n] = len(source.lines), [*zip(read, args, strict=True)]
        if statement.form == "part":
            operands[n] = f"{args[0]}.{n.op}"
            continue
        passing = temporaries(n) + source.note_buffers(n, n.type.size, lies_apart)
        passing += sum(view_copy_bytes(a) for a in read if computes(behind_views(a)))
        if statement.form == "fresh":
            out = source.name("t")
            source.kernel_bytes += n.type.nbytes
            passing -= n.type.nbytes * (n.op in WINDOWED)
            source.line(fresh(n, args, out, source.dtype(n.dtype)))
        else:
            over = operands[statement.over] if statement.over is not None else None
            out = places.get(n) or over or workspace(n.type)
            if statement.form == "choose":
                mask = workspace(TensorType(np.dtype(bits_dtype(n.dtype)), n.args[0].shape))
                source.line(f"choose({', '.join(args)}, {mask}, {out})")
                free.append(mask)
            else:
                source.block(_lines(n, read, args, out), 1)
        source.note_statement_bytes(passing)
        operands[n] = out
        free += [operands[a] for a in statement.freed if operands[a] in workspaces]

    for branch in branches:
        _write_branch(source, branch, begun, named, operands)


def _write_number(
    source: Source, n: Node, read: Sequence[Node], numbers: set[Node], operands: dict[Node, str], place: str | None
) -> None:
    """The lines of `n`, one number, which joins `numbers`, and goes to `place` if there is one."""
    operands[n] = source.name("t")
    numbers.add(n)
    scalars = [operands[a] if a in numbers else source.number(a, operands) for a in read]
    source.line(f"{operands[n]} = {scalar_expression(n, scalars)}")
    if place is not None:
        source.line(f"{place}[()] = {operands[n]}")


def _write_branch(
    source: Source, branch: Branch, begun: dict[Node, int], read: NamesRead, names: Mapping[Node, str]
) -> None:
    """Makes of the lines of a branch some that need not compute all. `begun`: the first line of each node; `names` of
    all values."""
    own = [begun[n] for n in branch.statements if n in begun]
    first, behind = own[0], min([line for line in begun.values() if line > own[-1]], default=len(source.lines))
    lines = [line.removeprefix("    ") for line in source.lines[first:behind]]
    asks = {c: names.get(c) or source.view(c, names) for c, _ in branch.conditions}
    texts = branch_lines(source, branch, branch.nodes[0].type.size, asks, lines, read, names)
    source.lines[first:behind] = [f"    {text}" for text in texts]
    begun.update({n: line + len(texts) - len(lines) for n, line in begun.items() if line >= behind})


def _lines(n: Node, read: Sequence[Node], args: list[str], out: str) -> list[str]:
    """Lines that compute `n` of `read` into the whole array `out`."""
    if n.op == "where":
        return masked_copy(args, out)
    if n.op == "matmul":
        return [whole_product(n, args, out)]
    if n.op in LAID_OVER:
        return [f"copyto({out}{index}, {text})" for each in replaced_slices(n, args) for index, text in each]
    axes = reduced_axes(n)
    return by_columns(n, read, args, out, axes) or [into(n, args, out, axes)]


def straight_kernel(body: Graph, branches: Sequence[Branch] = ()) -> Source:
    """A whole body on whole arrays."""
    source = Source(body)
    source.inline = True
    operands: dict[Node, str] = {}
    nodes = grouped([n for n in evaluation_order(body) if computes(n)], branches)
    places: dict[Node, str] = {}
    for o, place in zip(body.outputs, source.writes, strict=True):
        if computes(o):
            places.setdefault(o, place)
    forms = statements(nodes, list(places), [*map(behind_views, body.outputs)], True)
    for statement in forms.values():
        for a in () if statement.form == "number" else statement.reads:
            if not computes(behind_views(a)) and a not in operands:
                operands[a] = named(source, a)
    straight(source, nodes, operands, places, branches=branches)
    fill_outputs(source, body.outputs, operands, places)
    source.one_ufunc_writes = len(body.outputs) == 1 and body.outputs[0].op in UFUNCS.keys() - ONE_RUN
    source.writes_last = source.one_ufunc_writes
    if source.one_ufunc_writes:
        source.overlays = frozenset((0, i) for i, leaf in enumerate(body.inputs) if by_element(body, leaf))
    return source


def tuple_text(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' * (len(names) == 1)})"


def named(source: Source, n: Node) -> str:
    """A name for a leaf behind its views, taken once."""
    text = source.view(n)
    if text.isidentifier():
        return text
    name = source.name("a")
    source.held_bytes += view_copy_bytes(n)
    source.views[name] = n
    return name


def fill_outputs(source: Source, outputs: Sequence[Node], operands: dict[Node, str], places: dict[Node, str]) -> None:
    """Fill the outputs that no statement has written: values read as they are, and second copies."""
    for o, place in zip(outputs, source.writes, strict=True):
        if o in operands and places.get(o) != place:
            source.line(f"copyto({place}, {operands[o]})")
        elif places.get(o) != place:
            base = unreshaped(o)
            destination = place if base is o else f"{place}.reshape({base.shape})"
            source.note_statement_bytes(view_copy_bytes(base))
            source.line(f"copyto({destination}, {source.view(base, operands)})")
