"""Numbers at which arithmetic changes, facts with such bounds, arrays that are as a fact says, calls of any operator,
programs over such arrays: for the tests of what is derived of values.

Nothing here knows an operator by name: a new row of the tables is drawn like the others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import ml_dtypes
import numpy as np

from eqfuse.dtypes import TENSORS, kind, moved
from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Graph, Node, const, input_node, node, substitute
from eqfuse.ops import row
from eqfuse.ops.elementwise import complex_array
from eqfuse.ops.facts import Fact, of_array, sort_key
from eqfuse.ops.types import TensorType
from eqfuse.rewrites.checking.cases import drawn
from eqfuse.rewrites.checking.data import index_limit
from eqfuse.rewrites.language.law import Law
from eqfuse.rewrites.language.match import Decline
from eqfuse.rewrites.language.samples import sample_attr

REFUSALS = (EqfuseError, Decline, ArithmeticError, LookupError, TypeError, ValueError)
FLOATS = [t for t in TENSORS if kind(t) == "f"]
_WHOLE = [t for t in TENSORS if t.kind in "iu"]
_BOOL, _INDEX = np.dtype(bool), np.dtype(np.int64)
_EXTENTS = (0, 1, 1, 2, 2, 3, 3, 3, 17)


@cache
def corners(dtype: np.dtype) -> tuple:
    """Values of a real dtype, NaN and both zeros among them where it has them."""
    if dtype.kind == "b":
        return (False, True)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        near = (0, 1, -1, 2, 3, -7, limits.max // 2, limits.max - 1, limits.max, limits.min + 1, limits.min)
        return tuple(dict.fromkeys(v for v in near if limits.min <= v))
    info = ml_dtypes.finfo(dtype)
    tiny, most, eps = float(info.tiny), float(info.max), float(info.eps)
    sizes = (0.0, float(info.smallest_subnormal), tiny, tiny * 4, most**0.5, most / 2, most, np.inf)
    sizes += (1 - eps / 2, 1.0, 1 + eps, 0.5, 0.1, 2.0, 3.0, 20.0, 90.0, 720.0)
    with np.errstate(all="ignore"):
        values = np.array([*sizes, *(-v for v in sizes), np.nan]).astype(dtype)
    return tuple(values.tolist())


def drawn_fact(dtype: np.dtype, rng: random.Random, symmetric: bool = False) -> Fact:
    """A fact that some array of `dtype` satisfies."""
    if dtype.kind == "c":
        return Fact(symmetric=symmetric)
    numbers = [v for v in corners(dtype) if v == v]
    ends = [v for v in numbers if v in (0, 1) or v in (min(numbers), max(numbers))]
    some = [rng.choice(ends if rng.random() < 0.5 else numbers) for _ in range(rng.choice((1, 2, 2, 3)))]
    if rng.random() < 0.3:
        some = [v for v in some if sort_key(v) >= (0, 1)] or [numbers[-1 if dtype.kind == "b" else 1]]
    may_be_nan = kind(dtype) == "f" and rng.random() < 0.3
    may_be_zero = rng.random() < 0.7 or not any(some)
    return Fact(min(some, key=sort_key), max(some, key=sort_key), may_be_nan, may_be_zero, symmetric)


def satisfying(fact: Fact, t: TensorType, rng: random.Random) -> np.ndarray:
    """An array of type `t` that is as `fact` says, with its bounds, NaN and zeros in it where there is room."""
    if t.dtype.kind == "c":
        part = TensorType(np.dtype(f"f{t.dtype.itemsize // 2}"), t.shape)
        return complex_array(*(satisfying(fact, part, rng) for _ in range(2)))
    pool = [v for v in corners(t.dtype) if (fact.nan if v != v else _allows(fact, v))]
    first = rng.sample(pool, min(len(pool), t.size)) if rng.random() < 0.5 else []
    few = rng.sample(pool, min(len(pool), rng.randint(1, 4)))
    values = [*first, *(rng.choice(few) for _ in range(t.size - len(first)))]
    rng.shuffle(values)
    with np.errstate(all="ignore"):
        array = np.array(values[: t.size], None if kind(t.dtype) == "f" else t.dtype).astype(t.dtype).reshape(t.shape)
    if fact.symmetric:
        array = np.where(np.tri(t.shape[-1], dtype=bool), array, moved(np.swapaxes, array, -1, -2))
    assert fact.includes(array), f"{array} is not as {fact} says"
    return array


def _allows(fact: Fact, value: float) -> bool:
    return sort_key(fact.lower) <= sort_key(value) <= sort_key(fact.upper) and (fact.zero or value != 0)


def laid_out(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """`array` in one of the layouts between which NumPy changes its loops."""
    layout = rng.randrange(3)
    if layout == 0 or not array.ndim:
        return array
    if layout == 1:
        return np.asfortranarray(array)
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def drawn_call(op: str, dtype: np.dtype, rng: random.Random) -> tuple[list[TensorType], tuple] | None:
    """Argument types, some of them of `dtype`, and attributes that the type rule of `op` takes; None when the dice say
    so, which is often."""
    arity = row(op).arity
    n = rng.randint(1, 3) if arity is None else arity
    types = _drawn_types(n, dtype, rng)
    attrs: tuple = ()
    try:
        for name in row(op).attrs:
            attrs = (*attrs, sample_attr(op, name, types, attrs, dtype, rng))
        if row(op).type(types, attrs).size > 4096:
            return None
    except REFUSALS:
        return None
    return types, attrs


def _drawn_types(n: int, dtype: np.dtype, rng: random.Random) -> list[TensorType]:
    dtypes, like = [dtype] * n, rng.random()
    if n and like < 0.3:
        dtypes[rng.randrange(n)] = rng.choice((_BOOL, _INDEX, rng.choice(TENSORS)))
    rank = rng.choice((0, 1, 1, 2, 2, 2, 3, 4))
    extents = _EXTENTS if rank < 3 else (0, 1, 2, 2, 3)
    shape = tuple(rng.choice(extents) for _ in range(rank))
    if rank >= 2 and rng.random() < 0.3:
        shape = (*shape[:-1], shape[-2])
    shapes = [shape] * n
    for i in range(1, n):
        how = rng.random()
        if how < 0.25:
            shapes[i] = tuple(1 if rng.random() < 0.4 else extent for extent in shape)
        elif how < 0.4:
            shapes[i] = shape[rng.randint(0, rank) :]
        elif how < 0.6:
            shapes[i] = tuple(rng.choice(extents) for _ in range(rank))
        elif how < 0.7 and rank >= 2:
            shapes[i] = (*shape[:-2], shape[-1], rng.choice(extents))
    return [TensorType(d, s) for d, s in zip(dtypes, shapes, strict=True)]


def drawn_arguments(types: list[TensorType], rng: random.Random) -> tuple[list[np.ndarray], list[Fact]]:
    """Arrays of `types`, and facts that hold of them."""
    facts, arrays = [], []
    for t in types:
        square = t.rank >= 2 and t.shape[-1] == t.shape[-2] and rng.random() < 0.4
        facts.append(drawn_fact(t.dtype, rng, square))
        arrays.append(laid_out(satisfying(facts[-1], t, rng), rng))
        if t.dtype.kind != "c" and t.size and rng.random() < 0.2:
            facts[-1] = of_array(arrays[-1])
    return arrays, facts


def drawn_program(ops: Sequence[str], length: int, rng: random.Random) -> tuple[Graph, list[np.ndarray]]:
    """A program of `length` operators among `ops` over inputs and constants of one floating dtype, an integer and a
    boolean one, and arrays for its inputs. Every value is an output."""
    dtypes = (rng.choice(FLOATS), rng.choice(FLOATS), rng.choice(_WHOLE), _BOOL)
    extents = (rng.choice(_EXTENTS), rng.choice((1, 2, 3, 3, 17)))
    shapes = (extents, extents, extents[::-1], extents[1:], (extents[0], 1), (), extents[1:] * 2)
    values: list[Node] = []
    arrays: dict[Node, np.ndarray] = {}
    for _ in range(7):
        t = TensorType(rng.choice((*dtypes[:1] * 3, *dtypes)), rng.choice(shapes))
        array = satisfying(drawn_fact(t.dtype, rng), t, rng)
        values.append(const(array) if rng.random() < 0.4 else input_node(f"x{len(values)}", t))
        if values[-1].op == "input":
            arrays[values[-1]] = laid_out(array, rng)
    computed: list[Node] = []
    while len(computed) < length:
        op = rng.choice(ops)
        value = next(filter(None, (_drawn_node(op, values, rng) for _ in range(30))), None)
        if value is not None and value not in values and value.type.size <= 1000:
            values.append(value)
            computed.append(value)
    return Graph(tuple(arrays), tuple(computed)), list(arrays.values())


def _drawn_node(op: str, values: list[Node], rng: random.Random) -> Node | None:
    arity = row(op).arity
    recent = values[-6:]
    count = rng.randint(1, 3) if arity is None else arity
    args = [rng.choice(recent if rng.random() < 0.6 else values) for _ in range(count)]
    if len(args) > 1 and rng.random() < 0.15:
        args = args[:1] * len(args)
    attrs: tuple = ()
    try:
        for name in row(op).attrs:
            dtype = args[0].dtype
            attrs = (*attrs, sample_attr(op, name, [a.type for a in args], attrs, dtype, rng))
        return node(op, args, attrs)
    except REFUSALS:
        return None


_SAME_TYPE = ("abs", "negative", "square", "sqrt", "exp", "tanh", "sign", "floor", "log", "reciprocal")
_WITH_NUMBER = ("maximum", "minimum", "fmax", "fmin", "add", "multiply", "divide", "subtract")


def planted(law: Law, rng: random.Random) -> tuple[Graph, list[np.ndarray]] | None:
    """The left side of `law` over values that something is known of, and arrays; None when the dice say so."""
    case = drawn(law, rng)
    if case is None or any(n.dtype.kind == "c" for n in case.graph.nodes):
        return None
    values: dict[Node, Node] = {}
    arrays: dict[Node, np.ndarray] = {}
    for n in case.graph.inputs:
        t = n.type
        indices = "indices" in case.roles.get(n.attr("name"), set())
        low = Fact(0, index_limit(case, n.attr("name")) - 1, False) if indices else drawn_fact(t.dtype, rng)
        array = satisfying(low, t, rng)
        value = const(array) if rng.random() < 0.3 else input_node(n.attr("name"), t)
        if value.op == "input":
            arrays[value] = array
        for _ in range(0 if indices else rng.randint(0, 3)):
            value = _ranged(value, rng) or value
        values[n] = value
    outputs = substitute(case.graph.outputs[: len(law.lefts)], values)
    return Graph(tuple(arrays), outputs), list(arrays.values())


def _ranged(value: Node, rng: random.Random) -> Node | None:
    """An operator of `value`, of the same type, after which more or other things are known of it."""
    op = rng.choice((*_SAME_TYPE, *_WITH_NUMBER * 2))
    number = const(satisfying(drawn_fact(value.dtype, rng), TensorType(value.dtype, ()), rng))
    args = [value] if op in _SAME_TYPE else [value, number]
    rng.shuffle(args)
    try:
        applied = node(op, args)
    except REFUSALS:
        return None
    return applied if applied.type == value.type else None
