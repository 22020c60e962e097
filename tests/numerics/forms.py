"""Random programs on numbers of all kinds, and random programs that the laws find equal to them.

In: a seeded generator. Out: a `Graph` with arrays; one form of a saturated segment. Nothing here knows of prices: a
form may be any program of the e-graph, so that what the laws promise is tested, and not only what is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from eqfuse.dtypes import BFLOAT16, epsilon, kind
from eqfuse.egraph.space import ENode, Segment
from eqfuse.errors import EqfuseError
from eqfuse.extract.programs.replacement import GraphFacts, forms, replaceable, replaced
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, const, input_node, node
from eqfuse.ops.approximation import safe_range
from eqfuse.ops.types import TensorType
from eqfuse.rewrites import Law
from eqfuse.rewrites.language.law import LITERAL, VARIABLE, Attr, Computation, Term, walk
from eqfuse.rewrites.language.match import Decline, literal_of

DTYPES = (np.dtype(np.float32),) * 4 + (np.dtype(np.float64),) * 2 + (np.dtype(np.float16), BFLOAT16)
UNARY = (
    "negative", "abs", "square", "sqrt", "exp", "log", "log1p", "expm1", "tanh", "erf", "sin", "cos", "reciprocal",
    "floor", "sign",
)  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide") * 5 + ("maximum", "minimum", "logaddexp", "power")
CONSTANTS = (
    0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -3.0, 10.0, 1e-5, 300.0, 1e5, -1e9, 1e16, 12582912.0, 6755399441055744.0, 1 / 3,
)  # fmt: skip
REDUCTIONS = ("sum", "sum", "sum", "max", "min", "prod")


def random_program(
    rng: np.random.Generator, programs: int = 1, steps: int = 8, patterns: Sequence[Term] = ()
) -> tuple[Graph, list[np.ndarray]]:
    """Several programs in one graph, of one dtype, each of some `steps` operators over its own arrays and constants.

    Some steps write out one of `patterns`.
    """
    dtype = DTYPES[rng.integers(len(DTYPES))]
    inputs: list[Node] = []
    outputs: list[Node] = []
    for _ in range(programs):
        m, n = (int(rng.integers(1, 5)) for _ in range(2))
        shapes = [(m, n), (m, n), (n, m), (1, n), (m, 1), ()]
        mine = [input_node(f"x{len(inputs) + i}", TensorType(dtype, shape)) for i, shape in enumerate(shapes)]
        inputs += mine
        outputs += _program(rng, mine, steps, patterns)
    used = [x for x in inputs if x in set(Graph((), tuple(outputs)).nodes)]
    return Graph(tuple(used), tuple(dict.fromkeys(outputs))), [random_array(rng, x.type) for x in used]


def _program(rng: np.random.Generator, inputs: list[Node], steps: int, patterns: Sequence[Term]) -> list[Node]:
    dtype = inputs[0].dtype
    fitting = [c for c in CONSTANTS if abs(c) < safe_range(dtype)[1]]
    numbers = [const(np.asarray(c).astype(dtype)) for c in rng.choice(fitting, 3)]
    values = [inputs[i] for i in rng.permutation(len(inputs))[: rng.integers(2, 5)]]
    first = len(values)
    for _ in range(20 * steps):
        if len(values) == first + steps:
            break
        try:
            if len(patterns) and rng.random() < 0.3:
                value = _instance(rng, patterns[rng.integers(len(patterns))], values, numbers)
            else:
                value = _step(rng, values, numbers)
        except (EqfuseError, Decline):  # no such function of this dtype, or of these shapes
            continue
        if value is not None and value.type.size <= 64 and value not in values:
            values.append(value)
    computed = values[first:]
    read = {a for v in computed for a in v.args}
    return [v for v in computed if v not in read or v is computed[-1]] or values[:1]


def _step(rng: np.random.Generator, values: list[Node], numbers: list[Node]) -> Node | None:
    # late values are likelier, so that chains grow
    weights = np.arange(1, len(values) + 1) ** 1.5
    x, y = (values[int(rng.choice(len(values), p=weights / weights.sum()))] for _ in range(2))
    choice = rng.random()
    if kind(x.dtype) != "f" or kind(y.dtype) != "f":
        return None
    if choice < 0.15:
        return node(str(rng.choice(UNARY)), (x,))
    if choice < 0.45:
        other = numbers[rng.integers(len(numbers))]
        return node(str(rng.choice(BINARY)), (x, other) if rng.random() < 0.7 else (other, x))
    if choice < 0.75:
        return node(str(rng.choice(BINARY)), (x, y)) if _broadcasts(x, y) else None
    if choice < 0.78:
        z = values[rng.integers(len(values))]
        fits = _broadcasts(x, y) and kind(z.dtype) == "f" and _broadcasts(x, z) and _broadcasts(y, z)
        return node("where", (node(str(rng.choice(("less", "greater_equal"))), (x, y)), z, x)) if fits else None
    if x.type.rank != 2:
        return None
    if choice < 0.88:
        return node(str(rng.choice(REDUCTIONS)), (x,), (((-1,), (-2,), (-2, -1))[rng.integers(3)],))
    if choice < 0.95:
        return node("matmul", (x, y)) if y.type.rank == 2 and x.shape[1] == y.shape[0] else None
    return node("transpose", (x,), ((1, 0),)) if choice < 0.98 else node("reshape", (x,), (x.shape[::-1],))


def _instance(rng: np.random.Generator, pattern: Term, values: list[Node], numbers: list[Node]) -> Node:
    """`pattern` with values in the places of its variables."""
    bound: dict[str, Node] = {}

    def instance(term: Term, dtype: np.dtype) -> Node:
        if term.op == LITERAL:
            return node("const", (), (literal_of(term.value, dtype),))
        if term.op == VARIABLE:
            pool = values if rng.random() < 0.7 else numbers
            return bound.setdefault(term.name, pool[rng.integers(len(pool))])
        return node(term.op, [instance(a, dtype) for a in term.args], term.attrs)

    return instance(pattern, values[0].dtype)


def _broadcasts(x: Node, y: Node) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(x.shape[::-1], y.shape[::-1], strict=False))


def cancelling(rng: np.random.Generator, graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """`arrays` with one of them set to values that the program comes by, or nearly so, or their negatives."""
    if not arrays:
        return []
    with np.errstate(all="ignore"):
        met = evaluate(Graph(graph.inputs, graph.nodes), arrays)
        index, value = rng.integers(len(arrays)), met[rng.integers(len(met))]
        old = arrays[index]
        if kind(value.dtype) != "f" or not value.size:
            return list(arrays)
        near = 1 + epsilon(old.dtype) * rng.integers(-4, 5, old.shape) * rng.integers(0, 2)
        new = (rng.choice((-1, 1)) * np.resize(value.astype(np.float64), old.shape) * near).astype(old.dtype)
        changed = np.where(np.isfinite(new), new, old)
    return [*arrays[:index], changed, *arrays[index + 1 :]]


def random_array(rng: np.random.Generator, t: TensorType) -> np.ndarray:
    """Numbers of one of several kinds: near 1, from the safe range, few that recur, and special ones."""
    choice = rng.random()
    signs = rng.choice((-1.0, 1.0), t.shape) if rng.random() < 0.7 else np.ones(t.shape)
    span = np.log2(safe_range(t.dtype)[1]) * rng.choice((0.05, 0.2, 1.0))
    with np.errstate(all="ignore"):
        if choice < 0.4:
            numbers = rng.standard_normal(t.shape)
        elif choice < 0.7:
            numbers = signs * np.exp2(rng.uniform(-span, span, t.shape))
        elif choice < 0.9:
            numbers = signs * rng.choice((0.0, 0.5, 1.0, 1.0 + 2.0**-8, 2.0, 3.0, 1e-4, 1e4), t.shape)
        else:
            numbers = signs * rng.choice((0.0, 1.0, 2.0, np.inf, np.nan), t.shape, p=(0.2, 0.35, 0.25, 0.1, 0.1))
        return np.asarray(numbers).astype(t.dtype)


def patterns(laws: Sequence[Law]) -> list[Term]:
    """The left sides of `laws` that hold nothing but tensors and numbers."""
    sides = [side for law in laws for _, lefts, _ in law.directions for side in lefts]
    return [side for side in sides if not any(isinstance(a, Attr | Computation) for t in walk(side) for a in t.attrs)]


class Rewriter:
    """Uses laws one by one, at random, as the e-graph uses them all."""

    def __init__(self, laws: Sequence[Law]) -> None:
        self.by_root: dict[str, list[tuple[Law, bool, set[str]]]] = {}  # each with the operators that must be below
        for law in filter(replaceable, laws):
            for backwards, (_, (wanted,), _) in enumerate(law.directions):
                below = {"const" if a.op == LITERAL else a.op for a in wanted.args if a.op != VARIABLE}
                self.by_root.setdefault(wanted.op, []).append((law, bool(backwards), below))
        self.commutes = {law.name.removesuffix("_commutes") for law in laws if law.name.endswith("_commutes")}

    def walk(self, graph: Graph, rng: np.random.Generator, steps: int) -> tuple[Graph, list[str]]:
        """`graph` after some uses of laws, and their names."""
        used = []
        for _ in range(steps):
            written = GraphFacts(graph)
            by_law: dict[str, list[tuple[Node, Node]]] = {}
            for n in graph.operators:
                for law, form in self._forms(written, n):
                    by_law.setdefault(law.name, []).append((n, form))
            if not by_law:
                break
            telling = [name for name in by_law if not name.endswith("_commutes")]
            used.append(str(rng.choice(telling if telling and rng.random() < 0.9 else list(by_law))))
            places = by_law[used[-1]]
            graph, _ = replaced(graph, dict([places[rng.integers(len(places))]]))
        return graph, used

    def _forms(self, written: GraphFacts, n: Node) -> Iterator[tuple[Law, Node]]:
        below = {a.op for a in n.args}
        for law, backwards, wanted in self.by_root.get(n.op, ()):
            for form in forms(written, law, n, self.commutes, backwards) if wanted <= below else ():
                yield law, form


def random_form(segment: Segment, rng: np.random.Generator) -> Graph:
    """One of the programs of the segment's classes: of each class a node that is the best under random weights."""
    chosen = _chosen(segment, rng)
    nodes: dict[int, Node] = {number: n for n, number in zip(segment.graph.inputs, segment.inputs, strict=True)}
    stack = list(segment.roots)
    while stack:
        eclass = stack[-1]
        missing = [a for a in chosen[eclass].args if a not in nodes] if eclass not in nodes else []
        if missing:
            stack += missing
            continue
        stack.pop()
        if eclass not in nodes:
            enode = chosen[eclass]
            nodes[eclass] = node(enode.op, [nodes[a] for a in enode.args], enode.attrs)
    return Graph(segment.graph.inputs, tuple(nodes[r] for r in segment.roots))


def _chosen(segment: Segment, rng: np.random.Generator) -> Sequence[ENode]:
    """A node for each class, so that none needs itself: the fixpoint of the least random weights."""
    best = [np.inf] * len(segment.classes)
    chosen: list[ENode] = [c.nodes[0] for c in segment.classes]
    weights = [[rng.exponential() + 1e-3 for _ in c.nodes] for c in segment.classes]
    changed = True
    while changed:
        changed = False
        for eclass, c in enumerate(segment.classes):
            for enode, weight in zip(c.nodes, weights[eclass], strict=True):
                total = weight + sum(best[a] for a in enode.args)
                if total < best[eclass]:
                    best[eclass], chosen[eclass], changed = total, enode, True
    return chosen
