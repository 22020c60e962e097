"""NumPy's promotion: mixed arguments (tracers, arrays, Python scalars) become nodes with every cast explicit.

In: what a user gives to an operator, ufunc or function. Out: tracers. Built on `tracer`; used by the families here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from eqfuse.dtypes import castable, inexact
from eqfuse.errors import DtypeError, ShapeError, TraceError
from eqfuse.frontends.numpy import tidy
from eqfuse.frontends.numpy.laid_out import of_elementwise
from eqfuse.frontends.numpy.number import Number, computed_number, is_number, number_kind
from eqfuse.frontends.numpy.registry import of_arrays
from eqfuse.frontends.numpy.traced_bool import TracedBool, traced_bool
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.accepted import supported_array
from eqfuse.ir.arithmetic import NUMBER_OPERATORS, conversion_error, number_text
from eqfuse.ir.graph import Node, const, node
from eqfuse.ir.strides import MemoryLayout, strides_of
from eqfuse.ops import Role, row
from eqfuse.ops.elementwise import COMPARISONS, dtype_name, loop_dtypes
from eqfuse.ops.types import Shape, TensorType

# Those of arrays that leave the arithmetic to us
OUR_HOOKS: set[Any] = {np.ndarray.__array_ufunc__, Tracer.__array_ufunc__}


@of_arrays
def lift(value: Any) -> Tracer:
    """`value` as an array, as np.asarray would read it: a tracer, a constant, or nested lists of these."""
    if isinstance(value, Tracer):
        return value
    if isinstance(value, Number):
        return wrap(value.array(value.default))
    if isinstance(value, (list, tuple)) and holds_tracer(value):
        return lazy.stack([lift(v) for v in value])
    array = supported_array(value, "a constant of the traced function")
    return wrap(const(array), layout=MemoryLayout(strides_of(array)))


def holds_tracer(tree: Any) -> bool:
    """Is there a traced array or number in nested tuples, lists and dicts?"""
    if isinstance(tree, (Tracer, Number)):
        return True
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    return isinstance(tree, (tuple, list)) and any(map(holds_tracer, tree))


def operand(value: Any) -> Any:
    """A tracer, or a Python int, float or complex whose dtype the other operands decide."""
    return value if isinstance(value, Tracer) or number_kind(value) in (int, float, complex) else lift(value)


_OF_BOOLS = {"bitwise_and", "bitwise_or", "bitwise_xor"}  # of which Python makes a bool


def _promotable(operand: Any) -> Any:
    """What NumPy's promotion sees: a dtype, or `int`, `float`, `complex` for Python scalars."""
    return operand.dtype if isinstance(operand, Tracer) else number_kind(operand)


def with_dtype(operand: Any, dtype: np.dtype) -> Node:
    """`operand` as `dtype`; a Python number as NumPy converts it where it meets an array, with the range checks."""
    if isinstance(operand, Tracer):
        return tidy.cast(operand.node, dtype)
    if isinstance(operand, Number):
        return operand.array(dtype)
    try:
        return const(operand, dtype)
    except (OverflowError, TypeError, ValueError) as error:
        raise conversion_error(error, dtype.name, number_text(operand)) from None


def as_dtype(value: Any, dtype: np.dtype) -> Node:
    """`value`, nested lists perhaps, as np.array makes it of `dtype`: it converts Python numbers one by one."""
    if isinstance(value, (list, tuple)) and holds_tracer(value):
        return lazy.stack([wrap(as_dtype(v, dtype)) for v in value]).node
    return with_dtype(value if is_number(value) or isinstance(value, (list, tuple)) else lift(value), dtype)


def storable(value: Any, dtype: np.dtype) -> Any:
    """`value`; RangeError where it is a known scalar, or a list of them, that NumPy stores in no integer of `dtype`."""
    if dtype.kind not in "iu":
        return value
    try:
        if isinstance(value, (list, tuple)) and not holds_tracer(value):
            np.array(value, dtype)
        elif isinstance(value, np.generic) or (isinstance(value, Tracer) and value.scalar):
            scalar = value.constant_value() if isinstance(value, Tracer) else np.asarray(value)
            if scalar is not None:
                np.empty(1, dtype)[0] = scalar[()]
    except OverflowError as error:
        raise conversion_error(error, dtype.name, str(value)) from None
    return value


@of_arrays
def fitted(value: Any, like: TensorType, casting: str = "unsafe") -> Node:
    """`value` as assignment to an array of type `like` takes it: cast, and broadcast."""
    source = operand(value)
    if isinstance(source, Tracer) and not castable(source.dtype, like.dtype, casting):
        raise DtypeError(f"cannot cast {source.dtype} to {like.dtype} by the rule {casting!r}")
    cast = with_dtype(source, like.dtype)
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


@of_arrays
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
        return _laid(np.where, (chosen, *values[1:]), tidy.tidy_elementwise("where", (condition, *common(values[1:]))))
    operands = [operand(v) for v in values] if len(values) > 1 else [lift(v) for v in values]
    loop = loop_dtypes(name, *promote(operands))
    if name in COMPARISONS:
        for i, o in enumerate(operands):
            other = operands[1 - i]
            if number_kind(o) is int and isinstance(other, Tracer) and other.dtype.kind in "iu":
                return _with_integer(name, operands, i, loop[0])
        if loop[0] != loop[1]:
            return _of_mixed_signs(name, operands, "iu".index(loop[0].kind))
    nodes = [as_operand(o, d) for o, d in zip(operands, loop, strict=False)]
    function = np.logical_and if len(operands) == 2 else np.logical_not
    result = _laid(function, operands, tidy.tidy_elementwise(name, nodes))
    if name == "power" and loop[-1].kind in "iu" and number_kind(operands[1]) is int and result.size:
        _natural(operands[1])
    return result


def as_operand(value: Any, dtype: np.dtype) -> Node:
    """`value` as `dtype`. To a loop over bools, NumPy takes a Python int by way of int64."""
    by_int64 = dtype.kind == "b" and number_kind(value) is int
    return tidy.cast(with_dtype(value, np.dtype(np.int64)), dtype) if by_int64 else with_dtype(value, dtype)


def _natural(exponent: Any) -> None:
    """Refuse a negative power of integers: now, or at the call that has one."""
    if isinstance(exponent, Number):
        computed_number("natural", exponent)
    elif exponent < 0:
        raise ShapeError("integers to negative integer powers are not allowed; cast the base to a float first")


def _laid(function: Any, operands: Sequence[Any], result: Node) -> Tracer:
    """The new array that elementwise work gives, laid out as what `function` gives, as every ufunc does."""
    return wrap(result, layout=of_elementwise(function, [operand(o) for o in operands], result.type))


def _with_integer(name: str, operands: list[Any], place: int, dtype: np.dtype) -> Tracer:
    """A comparison of integers of `dtype` with the Python int at `place`, exact even where it does not fit.

    The nearest int that fits compares as the int itself does, but where the two differ from each other: ``x < n`` is
    ``x < near or near < n``, and ``x <= n`` is ``x <= near and near <= n``.
    """
    limits, integer = np.iinfo(dtype), operands[place]
    near = computed_number("min", computed_number("max", integer, int(limits.min)), int(limits.max))
    beyond = computed_number(name, *((near, integer) if place == 1 else (integer, near)))
    nodes = [with_dtype(near if i == place else o, dtype) for i, o in enumerate(operands)]
    compared = _laid(np.logical_and, operands, tidy.tidy_elementwise(name, nodes))
    reflexive = NUMBER_OPERATORS[name](0, 0)
    if isinstance(beyond, Number):
        return elementwise("logical_and" if reflexive else "logical_or", compared, beyond)
    if beyond is reflexive:
        return compared
    return _laid(np.logical_and, operands, tidy.broadcast_to(const(beyond), compared.shape))


def _of_mixed_signs(name: str, operands: list[Tracer], signed: int) -> Tracer:
    """A comparison of uint64 with signed integers, where the latter are negative the same for every other value."""
    unsigned = [with_dtype(o, np.dtype(np.uint64)) for o in operands]
    compared, negative = wrap(tidy.tidy_elementwise(name, unsigned)), operands[signed] < 0
    of_negative = row(name).meaning(*((-1, 0) if signed == 0 else (0, -1)))
    comparison = elementwise("logical_or", compared, negative) if of_negative else compared & ~negative
    return _laid(np.logical_and, operands, comparison.node)


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


@of_arrays
def unary_operator(name: str, x: Any) -> Any:
    if isinstance(x, TracedBool):
        raise x.refusal
    return computed_number(name, x) if isinstance(x, Number) else elementwise(name, x)


@of_arrays
def python_operator(name: str, left: Any, right: Any) -> Any:
    """A Python operator between a tracer, or a traced number, and something else."""
    for other in (left, right):
        if defers(other):
            return NotImplemented
    if isinstance(left, TracedBool) or isinstance(right, TracedBool):
        return of_traced_bools(name, left, right)
    if isinstance(left, Number) or isinstance(right, Number):
        other = right if isinstance(left, Number) else left
        if is_number(other):
            return computed_number(name, left, right)
        if not isinstance(other, (Tracer, np.ndarray, np.generic)):
            return NotImplemented
    if name == "power" and isinstance(left, Tracer):
        return _power(left, right)
    if name == "multiply":
        for scalar, other in ((left, right), (right, left)):
            if isinstance(scalar, Tracer) and scalar.scalar and isinstance(other, (list, tuple)):
                return _repeated(other, scalar)
    return elementwise(name, left, right)


def _repeated(sequence: Any, times: Tracer) -> Any:
    """A list times a NumPy scalar, which repeats the list."""
    if times.dtype.kind not in "iu":
        raise DtypeError(
            f"can't multiply a {type(sequence).__name__} by a scalar of {times.dtype}, in NumPy either: write "
            "x * np.array([...])"
        )
    count = times.constant_value()
    if count is None:
        raise TraceError(
            f"a {type(sequence).__name__} times a NumPy scalar repeats the {type(sequence).__name__}, as often as data "
            "say. Write x * np.array([...]) for a product of numbers"
        )
    return sequence * int(count)


def of_traced_bools(name: str, left: Any, right: Any) -> Tracer:
    """The operator `name` where one side is a Python bool that depends on data."""
    own, other = (left, right) if isinstance(left, TracedBool) else (right, left)
    if not isinstance(other, TracedBool) and not is_number(other):
        return elementwise(name, left, right)
    if name in COMPARISONS or (name in _OF_BOOLS and isinstance(other, TracedBool | bool)):
        return traced_bool(elementwise(name, left, right))
    raise own.refusal


def defers(other: Any) -> bool:
    """Does `other` do the arithmetic with arrays itself, by NumPy's protocol?"""
    return getattr(type(other), "__array_ufunc__", np.ndarray.__array_ufunc__) not in OUR_HOOKS


_SHORTCUTS = ((2, "square"), (0.5, "sqrt"), (-1, "reciprocal"))


def _power(base: Tracer, exponent: Any) -> Tracer:
    """``base ** exponent``, where NumPy takes a cheaper operator for a few exponents that are Python numbers."""
    kind = number_kind(exponent)
    shortcuts = [(value, name) for value, name in _SHORTCUTS if kind in (int, float) and _taken(name, base, kind)]
    if not isinstance(exponent, Number):
        for value, name in shortcuts:
            if exponent == value:
                return elementwise(name, base)
        return elementwise("power", base, exponent)
    if shortcuts and base.dtype.kind == "b":
        raise TraceError(
            "a bool array to the power of a traced Python int: its dtype would depend on the value, as in NumPy. Cast "
            "the array first, or name the argument in static_argnames"
        )
    power = elementwise("power", base, exponent)
    if base.dtype.kind == "c" or base.dtype == np.float16:  # NumPy's other loops look for the shortcut themselves
        for value, name in shortcuts:
            power = elementwise("where", computed_number("equal", exponent, value), elementwise(name, base), power)
    return power


def _taken(shortcut: str, base: Tracer, kind: type) -> bool:
    """Does NumPy take it for exponents of that kind?"""
    real = inexact(base.dtype) and base.dtype.kind == "f"
    if shortcut == "square":  # also of bool arrays: NumPy then gives int8
        return real or (kind is int and not (base.scalar and base.dtype.kind == "b"))
    if shortcut == "sqrt":
        return inexact(base.dtype)
    return real or (kind is int and inexact(base.dtype))
