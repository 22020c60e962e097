"""NumPy's promotion: mixed arguments (tracers, arrays, Python scalars) become nodes with every cast explicit.

In: what a user gives to an operator, ufunc or function. Out: tracers. Built on `tracer`; used by the families here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from eqfuse.dtypes import castable, inexact
from eqfuse.errors import DtypeError, RangeError, ShapeError
from eqfuse.frontends import tidy
from eqfuse.frontends.accepted import plain_array
from eqfuse.frontends.laid_out import of_elementwise
from eqfuse.ir import Literal, Node, Shape, TensorType, const, node
from eqfuse.ops import Role, row
from eqfuse.ops.elementwise import COMPARISONS, dtype_name, loop_dtypes
from eqfuse.strides import Lies, strides_of
from eqfuse.tracer import Tracer, lazy, wrap

_WEAK = {"i": int, "f": float, "c": complex}
OURS: set[Any] = {np.ndarray.__array_ufunc__, Tracer.__array_ufunc__}  # those of arrays that leave the arithmetic to us


def lift(value: Any) -> Tracer:
    """`value` as an array, as np.asarray would read it: a tracer, a constant, or nested lists of these."""
    if isinstance(value, Tracer):
        return wrap(value.node) if value.weak else value
    if isinstance(value, (list, tuple)) and holds_tracer(value):
        return lazy.stack([lift(v) for v in value])
    array = plain_array(value, "a constant of the traced function")
    return wrap(const(array), lies=Lies(strides_of(array)))


def holds_tracer(tree: Any) -> bool:
    """Is there a tracer in nested tuples, lists and dicts?"""
    if isinstance(tree, Tracer):
        return True
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    return isinstance(tree, (tuple, list)) and any(map(holds_tracer, tree))


def operand(value: Any) -> Any:
    """A tracer, or a Python int, float or complex whose dtype the other operands decide."""
    return value if isinstance(value, Tracer) or type(value) in (int, float, complex) else lift(value)


def _promotable(operand: Any) -> Any:
    """What NumPy's promotion sees: a dtype, or `int`, `float`, `complex` for Python scalars."""
    if not isinstance(operand, Tracer):
        return type(operand)
    return _WEAK.get(operand.dtype.kind, operand.dtype) if operand.weak else operand.dtype


def with_dtype(operand: Any, dtype: np.dtype) -> Node:
    if isinstance(operand, Tracer):
        return tidy.cast(operand.node, dtype)
    try:
        return const(operand, dtype)
    except OverflowError as error:
        raise RangeError(str(error)) from None
    except TypeError as error:
        raise DtypeError(str(error)) from None
    except ValueError as error:
        raise ShapeError(str(error)) from None


def fitted(value: Any, like: TensorType, casting: str = "unsafe") -> Node:
    """`value` as assignment to an array of type `like` takes it: cast, and broadcast."""
    given = operand(value)
    if isinstance(given, Tracer) and not castable(given.dtype, like.dtype, casting):
        raise DtypeError(f"cannot cast {given.dtype} to {like.dtype} by the rule {casting!r}")
    cast = with_dtype(given, like.dtype)
    if cast.shape == like.shape:
        return cast
    extra = max(len(cast.shape) - like.rank, 0)
    if cast.shape[:extra] != (1,) * extra or not _broadcasts(cast.shape[extra:], like.shape):
        raise ShapeError(f"could not broadcast a value of shape {cast.shape} into shape {like.shape}")
    return tidy.broadcast_to(tidy.reshape(cast, cast.shape[extra:]), like.shape)


def _broadcasts(shape: Shape, to: Shape) -> bool:
    return all(n in (1, m) for n, m in zip(shape[::-1], to[::-1], strict=False))


def promote(operands: Sequence[Any]) -> list[Any]:
    """What promotion sees of `operands`; Python scalars among themselves have their default dtypes."""
    seen = [_promotable(o) for o in operands]
    weak = [s for s in seen if type(s) is type]
    return [np.dtype(s) for s in seen] if len(weak) == len(seen) else seen


def apply(op: str, args: Sequence[Any], attrs: tuple) -> Tracer:
    """The operator `op` of the table, with its arguments cast as NumPy would."""
    if op == "matmul":
        return lazy.matmul(*args)
    if op in ("conv", "concat", "pad"):
        return wrap(node(op, common(args), attrs))
    if row(op).role is Role.ELEMENTWISE and op != "cast":
        return elementwise(op, *args)
    return wrap(node(op, (lift(a).node for a in args), attrs))


def elementwise(name: str, *values: Any) -> Tracer:
    """The elementwise operator `name` with NumPy's promotion, casts made explicit."""
    if name == "where":
        chosen = lift(values[0])
        condition = tidy.cast(chosen.node, np.dtype(bool))
        return _laid(np.where, (chosen, *values[1:]), tidy.elementwise("where", (condition, *common(values[1:]))))
    operands = [operand(v) for v in values]
    loop = loop_dtypes(name, *promote(operands))
    if name in COMPARISONS:
        for i, o in enumerate(operands):
            if type(o) is int and loop[i].kind in "iu" and not np.iinfo(loop[i]).min <= o <= np.iinfo(loop[i]).max:
                return _decided(name, operands, i)
        if loop[0] != loop[1]:
            return _of_mixed_signs(name, operands, "iu".index(loop[0].kind))
    if name == "power" and loop[-1].kind in "iu" and type(operands[1]) is int and operands[1] < 0:
        raise ShapeError("integers to negative integer powers are not allowed; cast the base to a float first")
    made = tidy.elementwise(name, [with_dtype(o, d) for o, d in zip(operands, loop, strict=False)])
    return _laid(np.logical_and if len(operands) == 2 else np.logical_not, operands, made)


def _laid(function: Any, operands: Sequence[Any], made: Node) -> Tracer:
    """The new array that elementwise work gives, laid out as what `function` gives, as every ufunc does."""
    return wrap(made, lies=of_elementwise(function, [operand(o) for o in operands], made.type))


def _decided(name: str, operands: list[Any], out_of_range: int) -> Tracer:
    """A comparison with a Python int beyond the other side's dtype: the same for every element."""
    other = operands[1 - out_of_range]
    stand_in = [np.zeros((), other.dtype) if i != out_of_range else o for i, o in enumerate(operands)]
    return wrap(tidy.broadcast_to(const(row(name).meaning(*stand_in)), other.shape))


def _of_mixed_signs(name: str, operands: list[Tracer], signed: int) -> Tracer:
    """A comparison of uint64 with signed integers, where the latter are negative the same for every other value."""
    unsigned = [with_dtype(o, np.dtype(np.uint64)) for o in operands]
    compared, negative = wrap(tidy.elementwise(name, unsigned)), operands[signed] < 0
    of_negative = row(name).meaning(*((-1, 0) if signed == 0 else (0, -1)))
    made = elementwise("logical_or", compared, negative) if of_negative else compared & ~negative
    return _laid(np.logical_and, operands, made.node)


def common_dtype(values: Sequence[Any]) -> np.dtype:
    """The dtype that NumPy promotes `values` to together."""
    return _common_dtype(*promote([operand(v) for v in values]))


@cache
def _common_dtype(*seen: Any) -> np.dtype:
    try:
        return np.result_type(*(s if isinstance(s, np.dtype) else s(0) for s in seen))
    except TypeError as error:
        names = ", ".join(map(dtype_name, seen))
        raise DtypeError(f"{names} have no common dtype; use .astype first ({error})") from None


def common(values: Sequence[Any]) -> list[Node]:
    """`values` cast to their common dtype."""
    operands = [operand(v) for v in values]
    dtype = common_dtype(operands)
    return [with_dtype(o, dtype) for o in operands]


def unary_operator(name: str, x: Tracer) -> Tracer:
    return wrap(node(name, (number(x.node),)), weak=True) if x.weak else elementwise(name, x)


def operator(name: str, left: Any, right: Any) -> Any:
    """A Python operator between a tracer and something else."""
    for other in (left, right):
        if defers(other):
            return NotImplemented
    if _is_weak(left) and _is_weak(right):
        return _scalar_operator(name, left, right)
    if name == "power" and isinstance(left, Tracer) and type(right) in (int, float):
        shortcut = _power(left, right)
        if shortcut is not None:
            return shortcut
    return elementwise(name, left, right)


def defers(other: Any) -> bool:
    """Does `other` do the arithmetic with arrays itself, by NumPy's protocol?"""
    return getattr(type(other), "__array_ufunc__", np.ndarray.__array_ufunc__) not in OURS


def _power(base: Tracer, exponent: float) -> Tracer | None:
    """The cheaper operator that NumPy's ``**`` itself takes for a few scalar exponents."""
    whole = type(exponent) is int
    real = inexact(base.dtype) and base.dtype.kind == "f"
    if base.scalar and base.dtype.kind == "b":
        return None
    if exponent == 2 and (whole or real):  # also of bool arrays: NumPy then gives int8
        return elementwise("square", base)
    if exponent == 0.5 and inexact(base.dtype):
        return elementwise("sqrt", base)
    return elementwise("reciprocal", base) if exponent == -1 and (real or (whole and inexact(base.dtype))) else None


def _is_weak(value: Any) -> bool:
    return value.weak if isinstance(value, Tracer) else type(value) in (bool, int, float, complex)


def _scalar_operator(name: str, left: Any, right: Any) -> Tracer:
    """An operator between Python scalars, at least one of them traced: the result is a Python scalar again."""
    nodes = [v.node if isinstance(v, Tracer) else const(v) for v in (left, right)]
    if not (name.startswith("bitwise") and all(n.dtype.kind == "b" for n in nodes)):
        nodes = [number(n) for n in nodes]
    if name == "power" and nodes[1].op == "const" and nodes[1].dtype.kind == "i" and _literal(nodes[1]) < 0:
        nodes = [tidy.cast(n, np.dtype(np.float64)) for n in nodes]
    result = elementwise(name, *(wrap(n) for n in nodes))
    return wrap(result.node, weak=True)


def number(value: Node) -> Node:
    """Python's arithmetic takes a bool for an int."""
    return tidy.cast(value, np.dtype(np.int64)) if value.dtype.kind == "b" else value


def _literal(value: Node) -> Any:
    (literal,) = value.attrs
    assert isinstance(literal, Literal)
    return literal.array.item()
