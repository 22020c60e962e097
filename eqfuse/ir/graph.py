"""The graph: typed, immutable, hash-consed tensor operators.

In: nodes built by the tracer, a law or the extractor. Out: `Graph`, which prints as text that rebuilds it (`parse`).
Next stop: `egraph.saturate`. A node carries only `op, args, attrs`; its type follows from the operator table.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import math
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy import asarray  # itself: while a function is traced, np.asarray is what stands in for it

from eqfuse.dtypes import kind, supported  # (the import registers bfloat16 and float8 with NumPy)
from eqfuse.errors import EqfuseError, ShapeError

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype and shape of one tensor. Prints as ``float32[8, 512]``. Equal dtypes are the same object."""

    dtype: np.dtype
    shape: Shape

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", supported(self.dtype, "a tensor"))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def extent(self, axis: int) -> int:
        """Extent along `axis`, counted from the right (negative); 1 beyond the rank, as broadcasting has it."""
        return self.shape[axis] if -axis <= len(self.shape) else 1

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


def tensor_type(text: str) -> TensorType:
    """The type that prints as `text`."""
    name, _, extents = text.rstrip("]").partition("[")
    return TensorType(np.dtype(name), tuple(int(n) for n in extents.split(",") if n.strip()))


class Literal:
    """An array as a value, compared and hashed by dtype, shape and bits: NaN equals itself, -0.0 differs from 0.0."""

    __slots__ = ("array", "_key")

    def __init__(self, array: np.ndarray) -> None:
        dtype = supported(array.dtype, "a constant")
        self._key = (dtype, array.shape, array.tobytes())
        self.array = np.ndarray(array.shape, dtype, self._key[2])  # not writeable, as bytes are not

    @property
    def type(self) -> TensorType:
        return TensorType(self.array.dtype, self.array.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Literal({self.text()})"

    def digest(self) -> str:
        """Short text, different for different literals."""
        dtype, shape, data = self._key
        return f"{dtype.name}{shape}{data.hex() if len(data) <= 64 else hashlib.blake2b(data).hexdigest()}"

    def text(self) -> str:
        """Python text that `literal_from_text` turns back into the same bits."""
        if self.array.size == 1 and kind(self.array.dtype) in "biuf":
            value = self.array.item()
            if not (isinstance(value, float) and not math.isfinite(value)):
                return f'"{self.type}", {value!r}'
        return f'"{self.type}", "{base64.b64encode(self.array.tobytes()).decode()}"'


def literal_from_text(type_text: str, value: object) -> Literal:
    """Inverse of `Literal.text`."""
    t = tensor_type(type_text)
    if isinstance(value, str):
        return Literal(np.frombuffer(base64.b64decode(value), t.dtype).reshape(t.shape))
    return Literal(np.full(t.shape, value, t.dtype))


class Node:
    """One operator applied to nodes. Made only by `node`, so equal nodes are the same object."""

    __slots__ = ("op", "args", "attrs", "type", "__weakref__")

    op: str
    args: tuple[Node, ...]
    attrs: tuple[Hashable, ...]
    type: TensorType

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"<{self.op} {self.type}>"


_interned: weakref.WeakValueDictionary[tuple, Node] = weakref.WeakValueDictionary()
_lock = threading.RLock()


def node(op: str, args: Iterable[Node] = (), attrs: Iterable[Hashable] = ()) -> Node:
    """The node `op(*args, *attrs)`, type-checked by the operator's row.

    Raises ShapeError when the arguments do not fit, UnsupportedOp when there is no such row.
    """
    args, attrs = tuple(args), tuple(attrs)
    key = (op, args, attrs)
    found = _interned.get(key)
    if found is not None:
        return found
    made = Node()
    made.op, made.args = op, args
    made.attrs = tuple([supported(a, f"an attribute of {op}") if isinstance(a, np.dtype) else a for a in attrs])
    made.type = _rows()(op).type([a.type for a in args], made.attrs)
    with _lock:
        return _interned.setdefault(key, made)


@cache
def _rows() -> Callable[[str], Any]:
    from eqfuse.ops import row  # whose types are this module's

    return row


def input_node(name: str, type: TensorType, known: bool = False) -> Node:
    """A value from outside. `known`: its data is at hand when the program is built (a large constant)."""
    return node("input", (), (name, type, known))


def const(value: Any, dtype: np.dtype | None = None) -> Node:
    """A constant node holding a copy of `value`."""
    return node("const", (), (Literal(asarray(value, dtype)),))


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


class Fed(NamedTuple):
    """The arguments of a call: one array per input of the graph, and the values of its Python numbers."""

    arrays: Sequence[Any]
    numbers: Sequence[Any] = ()


class Signature(Protocol):
    """How a traced function's arguments and results nest around the flat arrays of its graph."""

    @property
    def pure(self) -> bool:
        """Are the leaves of the arguments the graph's inputs, and its outputs the results?"""

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments."""

    def feed(self, leaves: Sequence[Any]) -> Fed:
        """What a call's `leaves` give the graph."""

    def select(self, fed: Fed, outputs: Sequence[Any]) -> list[Any]:
        """The results among the graph's outputs and the numbers."""

    def settle(self, fed: Fed, outputs: Sequence[Any]) -> list[Any]:
        """The results, after the arguments among the arrays are changed as the function changes them."""

    def rebuild(self, results: Sequence[Any]) -> Any:
        """What the function returns, around `results`."""


@dataclass(frozen=True)
class Graph:
    """A program: `inputs` (all of op ``input``, in calling order), `outputs`, and how they nest for the user."""

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    signature: Signature | None = field(default=None, compare=False, repr=False)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node that reaches an output, arguments first."""
        return tuple(topological(self.outputs))

    @cached_property
    def operators(self) -> tuple[Node, ...]:
        """The nodes that do something: all but inputs and constants."""
        return tuple(n for n in self.nodes if n.op not in ("input", "const"))

    @cached_property
    def key(self) -> str:
        """Digest of the printed text: equal for structurally equal graphs, in every process."""
        return hashlib.blake2b(self._text(Literal.digest).encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        return self._text(Literal.text)

    def _text(self, literal: Callable[[Literal], str]) -> str:
        names = {n: f"a{i}" for i, n in enumerate(self.inputs)}
        heads = [f'{names[n]}: {n.attrs[0]!r} = "{n.type}{"!" if n.attrs[2] else ""}"' for n in self.inputs]
        lines = [f"def graph({', '.join(heads)}):"]
        for n in self.nodes:
            if n in names:
                continue
            names[n] = f"t{len(lines) - 1}"
            if n.op == "const":
                assert isinstance(n.attrs[0], Literal)
                call = literal(n.attrs[0])
            else:
                call = ", ".join([*(names[a] for a in n.args), *map(attr_text, n.attrs)])
            lines.append(f"    {names[n]} = {n.op}({call})  # {n.type}")
        lines.append(f"    return ({''.join(names[o] + ', ' for o in self.outputs)})")
        return "\n".join(lines)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": str(self)}


def attr_text(value: object) -> str:
    """An attribute as Python text that `attr` reads."""
    return f'dtype("{value.name}")' if isinstance(value, np.dtype) else repr(value)


def parse(text: str) -> Graph:
    """The graph that prints as `text`. Reads the text as data (never executes it)."""
    try:
        (function,) = ast.parse(text).body
        assert isinstance(function, ast.FunctionDef)
        values: dict[str, Node] = {}
        for arg, default in zip(function.args.args, function.args.defaults, strict=True):
            type_text = ast.literal_eval(default)
            assert arg.annotation is not None
            values[arg.arg] = input_node(
                ast.literal_eval(arg.annotation), tensor_type(type_text.rstrip("!")), type_text.endswith("!")
            )
        inputs = tuple(values.values())
        for line in function.body:
            if isinstance(line, ast.Return):
                assert isinstance(line.value, ast.Tuple)
                return Graph(inputs, tuple(values[e.id] for e in line.value.elts if isinstance(e, ast.Name)))
            assert isinstance(line, ast.Assign) and isinstance(line.value, ast.Call)
            (target,), call = line.targets, line.value
            assert isinstance(target, ast.Name) and isinstance(call.func, ast.Name)
            if call.func.id == "const":
                made = node("const", (), (literal_from_text(*map(ast.literal_eval, call.args)),))
            else:
                args = [values[a.id] for a in call.args if isinstance(a, ast.Name)]
                made = node(call.func.id, args, [attr(a) for a in call.args if not isinstance(a, ast.Name)])
            values[target.id] = made
    except EqfuseError:
        raise
    except (AssertionError, SyntaxError, ValueError, KeyError, TypeError) as error:
        raise EqfuseError(f"this is not the text of a graph: {error!r}") from error
    raise EqfuseError("this is not the text of a graph: it returns nothing")


def attr(text: ast.expr) -> Any:
    """Inverse of `attr_text`. ValueError where the text is no plain value."""
    if isinstance(text, ast.Call) and isinstance(text.func, ast.Name) and text.func.id == "dtype":
        return np.dtype(ast.literal_eval(text.args[0]))
    return ast.literal_eval(text)


def check(graph: Graph) -> Graph:
    """`graph` itself, after re-deriving every type and making sure that every input is declared. Raises ShapeError."""
    declared = set(graph.inputs)
    for n in graph.nodes:
        if n.op == "input" and n not in declared:
            raise ShapeError(f"the graph reads {n.attrs[0]!r}, which is not among its inputs")
        derived = _rows()(n.op).type([a.type for a in n.args], n.attrs)
        if derived != n.type:
            raise ShapeError(f"{n.op}: the node says {n.type}, its arguments give {derived}")
    return graph


def substitute(outputs: Iterable[Node], values: dict[Node, Node]) -> tuple[Node, ...]:
    """`outputs` with every node of `values` replaced by its value (walks stop there)."""
    outputs = tuple(outputs)
    new = dict(values)
    stack = [o for o in outputs if o not in new]
    while stack:
        current = stack[-1]
        missing = [a for a in current.args if a not in new]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if current not in new:
            new[current] = node(current.op, (new[a] for a in current.args), current.attrs) if current.args else current
    return tuple(new[o] for o in outputs)
