"""NumPy's products: matmul in all ranks, dot, tensordot, einsum and their relatives, in terms of the rank-2 matmul row.

In: ufunc and array-function calls on tracers. Out: transposes, reshapes and matmuls (or a product and a sum); of
sliding windows convolutions.
"""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from string import ascii_letters
from typing import Any

import numpy as np

from eqfuse.dtypes import ADDED
from eqfuse.errors import DtypeError, ShapeError
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.convolved import convolved
from eqfuse.frontends.numpy.manipulation import broadcast_to, diagonal, diagonal_view, transpose
from eqfuse.frontends.numpy.promotion import common, common_dtype, elementwise, lift
from eqfuse.frontends.numpy.reductions import is_sequence, negative_axes
from eqfuse.frontends.numpy.reductions import sum as sum_
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.frontends.numpy.ufuncs import loop_nodes
from eqfuse.ir.graph import node
from eqfuse.ops.types import Shape


def matmul(x1: Any, x2: Any, dtype: Any = None) -> Tracer:
    """``x1 @ x2``; a vector stands for a row on the left and for a column on the right, and its axis goes."""
    a, b = lift(x1), lift(x2)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError("matmul: a scalar operand; use * instead")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ShapeError(f"matmul of {a.shape} and {b.shape}: inner extents {a.shape[-1]} and {b.shape[-2:][0]} differ")
    left = wrap(tidy.reshape(a.node, (1, *a.shape))) if a.ndim == 1 else a
    right = wrap(tidy.reshape(b.node, (*b.shape, 1))) if b.ndim == 1 else b
    nodes, _ = loop_nodes(np.matmul, (left, right), dtype)
    product = node("matmul", nodes)
    shape = list(product.shape)
    if b.ndim == 1:
        del shape[-1]
    if a.ndim == 1:
        del shape[-1 if b.ndim == 1 else -2]
    return wrap(tidy.reshape(product, tuple(shape)))


def _product(a: Any, b: Any) -> Tracer:
    """``np.dot`` of what `matmul` takes: what matmul gives as float32, dot rounds to the arguments' own dtype."""
    return matmul(a, b).astype(common_dtype((a, b)))


def conjugate(x: Tracer) -> Tracer:
    return elementwise("conj", x) if x.dtype.kind == "c" else x


@implements(np.linalg.matmul)
def linalg_matmul(x1: Any, x2: Any, /) -> Tracer:
    return matmul(x1, x2)


@implements(np.dot)
def dot(a: Any, b: Any, out: None = None) -> Tracer:
    a, b = lift(a), lift(b)
    if a.ndim == 0 or b.ndim == 0:
        return elementwise("multiply", a, b)
    return _product(a, b) if b.ndim == 1 or a.ndim <= 2 >= b.ndim else tensordot(a, b, ([-1], [-2]))


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Tracer:
    return _product(conjugate(lift(a)).reshape(-1), lift(b).reshape(-1))


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Tracer:
    a, b = lift(a), lift(b)
    if a.ndim == 0 or b.ndim == 0:
        return elementwise("multiply", a, b)
    return wrap(tensordot(a, b, ([-1], [-1])).node)  # of vectors a scalar, where tensordot gives an array


@implements(np.outer)
def outer(a: Any, b: Any, out: None = None) -> Tracer:
    return elementwise("multiply", lift(a).reshape(-1, 1), lift(b).reshape(1, -1))


@implements(np.linalg.outer)
def linalg_outer(x1: Any, x2: Any, /) -> Tracer:
    if lift(x1).ndim != 1 or lift(x2).ndim != 1:
        raise ShapeError("np.linalg.outer takes vectors; np.outer flattens its arguments")
    return outer(x1, x2)


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Tracer:
    a, b = lift(a), lift(b)
    if not is_sequence(axes):
        axes = operator.index(axes)
        over_a, over_b = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        over_a, over_b = (tuple(s) if is_sequence(s) else (s,) for s in axes)
    over_a = tuple(i + a.ndim for i in negative_axes(over_a, a.ndim))
    over_b = tuple(i + b.ndim for i in negative_axes(over_b, b.ndim))
    if [a.shape[i] for i in over_a] != [b.shape[i] for i in over_b]:
        raise ShapeError(f"tensordot of {a.shape} and {b.shape} over {over_a} and {over_b}: the extents differ")
    kept_a = [i for i in range(a.ndim) if i not in over_a]
    kept_b = [i for i in range(b.ndim) if i not in over_b]
    letters = [over_a.index(i) if i in over_a else len(over_a) + i for i in range(a.ndim)]
    others = [over_b.index(i) if i in over_b else a.ndim + len(over_a) + i for i in range(b.ndim)]
    if (convolution := convolved(a, letters, b, others, range(len(over_a)))) is not None:
        order = [convolution[1].index(x) for x in (*letters, *others) if x >= len(over_a)]
        return transpose(convolution[0], order).astype(common_dtype((a, b)))
    k = math.prod(a.shape[i] for i in over_a)
    shape_a, shape_b = [a.shape[i] for i in kept_a], [b.shape[i] for i in kept_b]
    left = transpose(a, (*kept_a, *over_a)).reshape(math.prod(shape_a), k)
    right = transpose(b, (*over_b, *kept_b)).reshape(k, math.prod(shape_b))
    return _product(left, right).reshape([*shape_a, *shape_b])


@implements(np.kron)
def kron(a: Any, b: Any) -> Tracer:
    a, b = lift(a), lift(b)
    rank = max(a.ndim, b.ndim)
    m, n = (1,) * (rank - a.ndim) + a.shape, (1,) * (rank - b.ndim) + b.shape
    left = a.reshape([e for extent in m for e in (extent, 1)])
    right = b.reshape([e for extent in n for e in (1, extent)])
    return elementwise("multiply", left, right).reshape([i * j for i, j in zip(m, n, strict=True)])


@implements(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Tracer:
    return sum_(diagonal(a, offset, axis1, axis2), -1, dtype)


@implements(np.einsum)
def einsum(*operands: Any, optimize: Any = True, dtype: Any = None, casting: str = "safe", order: str = "K") -> Tracer:
    """Pairwise contractions in the order opt_einsum finds cheapest."""
    equation, *array_likes = _interleaved(operands)
    arrays = [lift(a) for a in array_likes]
    if dtype is None and common_dtype(arrays) in ADDED:
        raise DtypeError(f"einsum is not defined for {common_dtype(arrays).name}, in NumPy either; use .astype first")
    inputs, output, path = _path(equation, *(a.shape for a in arrays))
    if len(arrays) == 1 and set(inputs) == set(output):  # NumPy gives a view, which can be written to
        view, subscript = _without_repeats(arrays[0], inputs)
        return transpose(view, [subscript.index(letter) for letter in output])
    if dtype is not None:
        arrays = [a.astype(dtype, casting=casting, copy=False) for a in arrays]
    terms = [
        _without_repeats(wrap(n), subscript)
        for n, subscript in zip(common(arrays), inputs.split(","), strict=True)
    ]  # fmt: skip
    for pair in path:
        chosen = [terms.pop(i) for i in sorted(pair, reverse=True)][::-1]
        needed = set(output).union(*(subscript for _, subscript in terms))
        term = chosen[0]
        for other in chosen[1:]:
            term = _contract(term, other, needed if other is chosen[-1] else needed.union(*(s for _, s in chosen)))
        terms.append(_summed(*term, needed))
    ((result, subscript),) = terms
    return wrap(transpose(result, [subscript.index(letter) for letter in output]).node)


@lru_cache(1000)
def _path(equation: str, *shapes: Shape) -> tuple[str, str, list[tuple[int, ...]]]:
    """The letters of the operands and of the result, and which operands to contract when."""
    import opt_einsum  # slow to import, and seldom needed

    strange = sorted(set(equation) - set(ascii_letters + " ,.->"))
    if strange:
        raise ShapeError(f"einsum {equation!r}: {strange[0]!r} is no letter for an axis")
    try:
        inputs, output, _ = opt_einsum.parser.parse_einsum_input((equation, *shapes), shapes=True)
        path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize="auto")
    except ValueError as error:
        raise ShapeError(f"einsum {equation!r}: {error}") from None
    return inputs, output, path


def _interleaved(operands: tuple) -> tuple:
    """The equation form of the call ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""
    if isinstance(operands[0], str):
        return operands
    from opt_einsum.parser import get_symbol

    result = operands[-1] if len(operands) % 2 else None
    arrays, lists = operands[: len(operands) - (result is not None) : 2], operands[1::2]
    equation = ",".join("".join("..." if i is Ellipsis else get_symbol(i) for i in s) for s in lists)
    if result is not None:
        equation += "->" + "".join("..." if i is Ellipsis else get_symbol(i) for i in result)
    return (equation, *arrays)


def _without_repeats(x: Tracer, subscript: str) -> tuple[Tracer, str]:
    """``ii`` is the diagonal of ``ij``."""
    for letter in dict.fromkeys(subscript):
        while subscript.count(letter) > 1:
            i = subscript.index(letter)
            j = subscript.index(letter, i + 1)
            x = diagonal_view(x, 0, i, j)
            subscript = "".join(s for n, s in enumerate(subscript) if n not in (i, j)) + letter
    return x, subscript


def _summed(x: Tracer, subscript: str, needed: set[str]) -> tuple[Tracer, str]:
    """`x` summed over the letters that nothing else needs."""
    gone = tuple(i for i, letter in enumerate(subscript) if letter not in needed)
    if not gone:
        return x, subscript
    total = sum_(x, gone, x.dtype)
    return total, "".join(letter for letter in subscript if letter in needed)


def _contract(first: tuple[Tracer, str], second: tuple[Tracer, str], needed: set[str]) -> tuple[Tracer, str]:
    """Two terms into one: a batched matmul over the letters both have and nothing else needs, else a product."""
    a, letters_a = _summed(*first, needed | set(second[1]))
    b, letters_b = _summed(*second, needed | set(first[1]))
    shared = [x for x in letters_a if x in letters_b]
    batch = [x for x in shared if x in needed]
    over = [x for x in shared if x not in needed]
    if over and not batch and (convolution := convolved(a, letters_a, b, letters_b, over)) is not None:
        return convolution[0], "".join(convolution[1])
    only_a = [x for x in letters_a if x not in shared]
    only_b = [x for x in letters_b if x not in shared]
    extent = {**dict(zip(letters_a, a.shape, strict=True))}
    for letter, n in zip(letters_b, b.shape, strict=True):
        extent[letter] = n if extent.get(letter, 1) == 1 else extent[letter]
    a = _spread(
        transpose(a, [letters_a.index(x) for x in (*batch, *only_a, *over)]), [*batch, *only_a, *over], extent, over
    )
    b = _spread(
        transpose(b, [letters_b.index(x) for x in (*batch, *over, *only_b)]), [*batch, *over, *only_b], extent, over
    )
    result = "".join((*batch, *only_a, *only_b))
    if not over:
        left = a.reshape([*a.shape, *[1] * len(only_b)])
        right = b.reshape([*b.shape[: len(batch)], *[1] * len(only_a), *b.shape[len(batch) :]])
        return elementwise("multiply" if a.dtype.kind != "b" else "logical_and", left, right), result
    k = math.prod(extent[x] for x in over)
    batch_a, batch_b = a.shape[: len(batch)], b.shape[: len(batch)]
    free_a, free_b = [extent[x] for x in only_a], [extent[x] for x in only_b]
    product = matmul(a.reshape([*batch_a, math.prod(free_a), k]), b.reshape([*batch_b, k, math.prod(free_b)]))
    return product.reshape([*product.shape[:-2], *free_a, *free_b]), result


def _spread(x: Tracer, letters: list[str], extent: dict[str, int], over: list[str]) -> Tracer:
    """Summed axes of extent 1 broadcast to the other term's extent (einsum allows it)."""
    return broadcast_to(x, [extent[s] if s in over else n for s, n in zip(letters, x.shape, strict=True)])
