"""The graph: typed, immutable, hash-consed tensor operators.

In: nodes built by the tracer, a law or the extractor. Out: `Graph`, whose text `ir/text.py` reads.
Next stop: `egraph.saturate`. A node carries only `op, args, attrs`; its type follows from the operator table.
"""

from __future__ import annotations

import hashlib
import inspect
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy import asarray  # itself: while a function is traced, np.asarray is what stands in for it

from eqfuse.dtypes import supported
from eqfuse.errors import ShapeError
from eqfuse.ir.evaluate import meaning, values_of
from eqfuse.ir.pytree import Structure, tree_leaves
from eqfuse.ops import Op, Role, row
from eqfuse.ops.host_function import HostFunction
from eqfuse.ops.index_map import IndexMap, Piece
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import Shape, TensorType
from eqfuse.summary import SummarisedValue, Summary, count, cut, listed, rest

CodePlace = tuple[CodeType, int]  # as `errors.user_place` has it


class Node:
    """One operator applied to nodes. Made only by `node`, so equal nodes are the same object."""

    __slots__ = ("op", "args", "attrs", "type", "row", "__weakref__")

    op: str
    args: tuple[Node, ...]
    attrs: tuple[Hashable, ...]
    type: TensorType
    row: Op  # of the operator

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    def attr(self, name: str) -> Any:
        """The attribute that the operator's row calls `name`."""
        return self.row.attr(self.attrs, name)

    @property
    def index_map(self) -> IndexMap | None:
        """Where this view finds its elements in its argument; None where no sums of indices say so."""
        places = self.row.index_map
        assert places is not None, f"{self.op} is no view"
        return places(self.args[0].shape, self.attrs)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Where its arguments lie in it, those that cover others first."""
        places = self.row.pieces
        assert places is not None, f"{self.op} is not joined of pieces"
        return places(tuple([a.shape for a in self.args]), self.attrs)

    @property
    def literal(self) -> Literal:
        """The value of a constant."""
        return self.attr("value")

    @property
    def number(self) -> Any:
        """The one element of a constant; None where there are more, and of what is no constant."""
        return self.literal.array.reshape(-1)[0] if self.op == "const" and self.type.size == 1 else None

    @property
    def is_constant_leaf(self) -> bool:
        """Is it a constant, or an input that stands for one?"""
        return self.op == "const" or (self.op == "input" and self.attr("constant"))

    def over(self, args: Iterable[Node]) -> Node:
        """The same operator, with the same attributes, over other arguments."""
        new = node(self.op, args, self.attrs)
        noted = made_over.get()
        if noted is not None and new is not self:
            noted.setdefault(new, self)
        return new

    def __repr__(self) -> str:
        return f"<{self.op} {self.type}>"


# which node each was made of by `over`, for those who ask for it
made_over: ContextVar[dict[Node, Node] | None] = ContextVar("made_over", default=None)
_interned: weakref.WeakValueDictionary[tuple, Node] = weakref.WeakValueDictionary()
_lock = threading.RLock()


def node(op: str, args: Iterable[Node] = (), attrs: Iterable[Hashable] = (), type: TensorType | None = None) -> Node:
    """The node `op(*args, *attrs)`, type-checked by the operator's row; of `type`, where that was found before.

    Raises ShapeError when the arguments do not fit, UnsupportedOp when there is no such row.
    """
    args, attrs = tuple(args), tuple(attrs)
    key = (op, args, attrs)
    cached = _interned.get(key)
    if cached is not None:
        return cached
    n = Node()
    n.op, n.args, n.row = op, args, row(op)
    n.attrs = attrs and tuple(
        [supported(a, f"an attribute of {op}") if isinstance(a, np.dtype) else a for a in attrs]
    )
    n.type = type or n.row.type([a.type for a in args], n.attrs)
    with _lock:
        return _interned.setdefault(key, n)


def input_node(name: str, type: TensorType, constant: bool = False) -> Node:
    """A value from outside. `constant`: its data is at hand when the program is built (a large constant)."""
    return node("input", (), (name, type, constant))


def const(value: Any, dtype: np.dtype | None = None) -> Node:
    """A constant node holding a copy of `value`."""
    return node("const", (), (Literal(asarray(value, dtype)),))


def in_dtype(n: Node, dtype: np.dtype) -> Node:
    """`n` in `dtype`."""
    return n if n.dtype == dtype else node("cast", (n,), (dtype,))


def topological(outputs: Iterable[Node]) -> list[Node]:
    """Every node that `outputs` need, arguments first, in the order a depth-first walk finishes them."""
    order: list[Node] = []
    done: set[Node] = set()
    for root in outputs:
        stack: list[tuple[Node, Iterator[Node]]] = [] if root in done else [(root, iter(root.args))]
        while stack:
            current, rest = stack[-1]
            for arg in rest:
                if arg not in done:
                    stack.append((arg, iter(arg.args)))
                    break
            else:
                stack.pop()
                if current not in done:
                    done.add(current)
                    order.append(current)
    return order


def depends_on(n: Node, part: Node) -> bool:
    """Is `part` computed for `n`, or `n` itself?"""
    return part in topological((n,))


class CallArguments(NamedTuple):
    """The arguments of a call: one array per input of the graph, and the values of its Python numbers."""

    arrays: Sequence[Any]
    numbers: Sequence[Any] = ()


class Signature(Protocol):
    """How a traced function's arguments and results nest around the flat arrays of its graph."""

    @property
    def parameters(self) -> inspect.Signature | None:
        """Those of a call, as far as they are known."""

    @property
    def pure(self) -> bool:
        """Are the leaves of the arguments the graph's inputs, and its outputs the results?"""

    @property
    def result_leaves(self) -> Sequence[Structure]:
        """What each result is: an array, or a scalar."""

    @property
    def rules(self) -> Sequence[str]:
        """What the function calls that has a gradient of its own."""

    @property
    def written(self) -> tuple[int, ...]:
        """The inputs that a call changes in place: the graph's last outputs are what they become."""

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments."""

    def feed(self, leaves: Sequence[Any]) -> CallArguments:
        """What a call's `leaves` give the graph."""

    def select(self, fed: CallArguments, outputs: Sequence[Any]) -> list[Any]:
        """The results among the graph's outputs and the numbers."""

    def settle(self, fed: CallArguments, outputs: Sequence[Any]) -> list[Any]:
        """The results, after the arguments among the arrays are changed as the function changes them."""

    def rebuild(self, results: Sequence[Any]) -> Any:
        """What the function returns, around `results`."""


@dataclass(frozen=True, repr=False)
class Graph(SummarisedValue):
    """A program: `inputs` (all of op ``input``, in calling order), `outputs`, and how they nest for the user.

    `rolled`: what became of alike steps and of chains of constants in it, in words; None where nobody looked for any.
    `places`: where in the user's code its values were made, as far as that is known.
    """

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    signature: Signature | None = field(default=None, compare=False, repr=False)
    rolled: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    places: Mapping[Node, CodePlace] | None = field(default=None, compare=False, repr=False)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """What the traced function returns for `args`: of arrays by the evaluator, as `ef.meaning`; of traced arrays as
        part of their trace, as if the function were called there."""
        for leaf in tree_leaves((args, kwargs))[0]:
            hook = getattr(type(leaf), "__eqfuse_inlined__", None)
            if hook is not None:
                return hook(self, args, kwargs)
        return meaning(self, *args, **kwargs)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node that reaches an output, arguments first."""
        return tuple(topological(self.outputs))

    def with_inputs(self) -> Graph:
        """The graph of these outputs whose inputs are those that they need, as they are met."""
        graph = Graph(tuple([n for n in self.nodes if n.op == "input"]), self.outputs)
        vars(graph)["nodes"] = self.nodes  # which depend on the outputs alone
        return graph

    @cached_property
    def operators(self) -> tuple[Node, ...]:
        """The nodes that do something: all but inputs and constants."""
        return tuple(n for n in self.nodes if n.op not in ("input", "const"))

    @cached_property
    def computations(self) -> tuple[Node, ...]:
        """The nodes that compute: neither leaves nor views."""
        return tuple([n for n in self.nodes if n.row.computes])

    def of_role(self, role: Role) -> list[Node]:
        """The nodes of this role, arguments first."""
        return [n for n in self.nodes if n.row.role is role]

    @cached_property
    def key(self) -> str:
        """Digest of the printed text: equal for structurally equal graphs, in every process."""
        return hashlib.blake2b(self.text(Literal.digest).encode(), digest_size=16).hexdigest()

    @cached_property
    def literals(self) -> dict[Literal, int]:
        """The constants, those of bodies too, numbered in the order of the text."""
        numbers: dict[Literal, int] = {}
        for n in self.nodes:
            for a in n.attrs:
                for literal in (a,) if isinstance(a, Literal) else a.graph.literals if isinstance(a, Body) else ():
                    numbers.setdefault(literal, len(numbers))
        return numbers

    @cached_property
    def calls_python(self) -> bool:
        """Does it call functions of the user's, which are code and in no file?"""
        bodies = [a.graph for n in self.nodes for a in n.attrs if isinstance(a, Body)]
        return any(n.op == "pure_callback" for n in self.nodes) or any(b.calls_python for b in bodies)

    @property
    def heading(self) -> str:
        """Names and types of the first inputs, and types of the first outputs."""
        inputs = listed(f"{n.attr('name')} {n.type}" for n in self.inputs)
        return f"({inputs}) -> {listed(n.type for n in self.outputs)}"

    def summary(self) -> Summary:
        ops = Counter(n.op for n in self.operators).most_common()
        rows = [[op, f"×{times:,}"] for op, times in ops]
        title = f"Graph: {count(len(self.operators), 'operator')}, {cut(self.heading)}"
        return Summary(title, rows, rest(len(ops), "other operator"))

    def __str__(self) -> str:
        return self.text(Literal.text)

    def text(self, literal: Callable[[Literal], str], name: str = "graph") -> str:
        """The printed text, with constants as `literal` writes them."""
        names = {n: f"a{i}" for i, n in enumerate(self.inputs)}
        bodies: dict[Hashable, str] = {}
        heads = [f'{names[n]}: {n.attr("name")!r} = "{n.type}{"!" if n.attr("constant") else ""}"' for n in self.inputs]
        lines = [f"def {name}({', '.join(heads)}):"]
        for n in self.nodes:
            if n in names:
                continue
            names[n] = f"t{len(names) - len(self.inputs)}"
            for body in n.attrs:
                if isinstance(body, Body) and body not in bodies:
                    bodies[body] = f"body{len(bodies)}"
                    lines += [f"    {line}" for line in body.graph.text(literal, bodies[body]).split("\n")]
            if n.op == "const":
                call = literal(n.literal)
            else:
                call = ", ".join([*(names[a] for a in n.args), *(bodies.get(a) or attr_text(a) for a in n.attrs)])
            lines.append(f"    {names[n]} = {n.op}({call})  # {n.type}")
        lines.append(f"    return ({''.join(names[o] + ', ' for o in self.outputs)})")
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Body:
    """A graph as the attribute of an operator, such as the step of a loop. It prints inside the text of the graph
    around it."""

    graph: Graph

    @property
    def takes(self) -> tuple[TensorType, ...]:
        return tuple([n.type for n in self.graph.inputs])

    @property
    def gives(self) -> tuple[TensorType, ...]:
        return tuple([n.type for n in self.graph.outputs])

    @cached_property
    def flops(self) -> int:
        return sum(n.row.flops([a.type for a in n.args], n.type, n.attrs) for n in self.graph.nodes)

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The outputs of the graph, as its evaluator finds them."""
        values = values_of(self.graph, dict(zip(self.graph.inputs, arrays, strict=True)))
        return [values[o] for o in self.graph.outputs]

    def __repr__(self) -> str:
        return f"<body {cut(self.graph.heading)}>"


def attr_text(value: object) -> str:
    """An attribute as Python text that `ir.text.attr` reads; a `Body` has a name there."""
    if isinstance(value, HostFunction):
        return f"host_function({value.key!r}, {value.name!r})"
    return f'dtype("{value.name}")' if isinstance(value, np.dtype) else repr(value)


def checked_graph(graph: Graph) -> Graph:
    """`graph` itself, after re-deriving every type and making sure that every input is declared. Raises ShapeError."""
    declared = set(graph.inputs)
    for n in graph.nodes:
        if n.op == "input" and n not in declared:
            raise ShapeError(f"the graph reads {n.attr('name')!r}, which is not among its inputs")
        derived = n.row.type([a.type for a in n.args], n.attrs)
        if derived != n.type:
            raise ShapeError(f"{n.op}: the node says {n.type}, its arguments give {derived}")
    return graph


def constants(nodes: Iterable[Node]) -> set[Node]:
    """Those of `nodes`, arguments first, that are computed when the program is built."""
    computed: set[Node] = set()
    for n in nodes:
        if n.is_constant_leaf or (n.args and computed.issuperset(n.args)):
            computed.add(n)
    return computed


def substitute(outputs: Iterable[Node], values: Mapping[Node, Node]) -> tuple[Node, ...]:
    """`outputs` with every node of `values` replaced by its value (walks stop there)."""
    return substitute_into(dict(values), outputs)


def substitute_into(new: dict[Node, Node], outputs: Iterable[Node]) -> tuple[Node, ...]:
    """`outputs` with every node of `new` replaced so; to `new` is added what becomes of the others."""
    outputs = tuple(outputs)
    stack = [o for o in outputs if o not in new]
    while stack:
        current = stack[-1]
        missing = [a for a in current.args if a not in new]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if current not in new:
            is_same = all(new[a] is a for a in current.args)
            new[current] = current if is_same else current.over(new[a] for a in current.args)
    return tuple(new[o] for o in outputs)
