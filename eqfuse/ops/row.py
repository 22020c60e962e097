"""What one row of the operator table holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from eqfuse.errors import ShapeError
from eqfuse.ops.index_map import IndexMap, Piece
from eqfuse.ops.types import Shape, TensorType

Types = Sequence[TensorType]


class Role(Enum):
    """How an operator moves data; the kinds of kernels are built on this."""

    LEAF = "leaf"
    ELEMENTWISE = "elementwise"  # every output element from the same element of each (broadcast) argument
    REDUCTION = "reduction"  # its axes are negative and ascending, and kept with extent 1
    SCAN = "scan"  # running reductions along one axis, of as many elements as the argument
    VIEW = "view"  # an index map of one argument: no arithmetic, each output element is one input element
    PIECES = "pieces"  # an index map of several arguments: each output element is an element of one of them
    GATHER = "gather"  # an index map that depends on data (second argument)
    CONTRACTION = "contraction"  # a product or convolution
    WINDOW = "window"  # a reduction over a sliding window of one argument
    UPDATE = "update"  # the first argument with some elements replaced: its memory may become the result's
    LIBRARY = "library"  # one call that fusion works around


class PriceClass(Enum):
    """Operators of about equal price per element. What each of them costs stands with a device."""

    FREE = "free"  # leaves, and views that move no data
    TRANSPOSE = "transpose"  # a view, where the array is copied
    SIMPLE = "simple"  # additions, choices, comparisons, copies
    LOGIC = "logic"
    REDUCTION = "reduction"
    DOT = "dot"  # a sum over rows as a product with ones
    ONE_BY_ONE = "one by one"  # loops without SIMD: gathers, scans
    DIVISION = "division"
    EXPONENTIAL = "exponential"
    TRIGONOMETRIC = "trigonometric"
    INVERSE = "inverse"  # of trigonometric functions
    ERF = "erf"
    POWER = "power"
    WHOLE_POWER = "whole power"  # x**3 and the like, of numbers of both signs
    FLOOR_DIVISION = "floor division"
    DIVISORS = "divisors"
    SORTING = "sorting"
    QUANTILE = "quantile"
    COUNTING = "counting"
    LINEAR_ALGEBRA = "linear algebra"  # by operation, not by element; so are transforms
    TRANSFORM = "transform"
    PRODUCT = "product"  # by operation, at the rate of a matrix product
    SHORT_PRODUCT = "short product"  # of a few rows or columns: by pair of numbers that are multiplied and added
    SPECIAL_SHORT = "special, by a short formula"
    SPECIAL = "special, of one argument"
    SPECIAL_LONG = "special, of several arguments"
    SPECIAL_ITERATED = "special, by iteration"


class Rounding(Enum):
    """How often NumPy rounds an element of a floating result."""

    NEVER = "never"  # the result is an argument's element, or has no more digits
    ONCE = "once"  # as IEEE 754 has it
    LIBRARY = "library"  # as a function of a mathematical library: a few units in the last place


REALS = (-math.inf, math.inf)
BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)


@dataclass(frozen=True)
class Op:
    """One operator.

    `type(argument types, attrs)` gives the result type or raises ShapeError; `meaning(*arrays, *attrs)` is the
    specification, one NumPy call; `flops(argument types, result type, attrs)` counts arithmetic, one per elementary
    operation (a function such as exp counts 1: its price is in the device profile).

    The facts after `price` are true of all arguments; what a row does not state is not known. Laws, ranges and error
    bounds are made from them.
    """

    name: str
    role: Role
    arity: int | None  # None: any number
    attrs: tuple[str, ...]
    type: Callable[[Types, tuple], TensorType]
    meaning: Callable[..., Any]
    flops: Callable[[Types, TensorType, tuple], int]
    price: PriceClass
    rounding: Rounding = Rounding.LIBRARY
    commutes: bool = False  # f(x, y) == f(y, x)
    either_zero: bool = False  # of a zero of each sign the result may be either, whatever their order
    twice: str | None = None  # g, where f(x, x) == g(x)
    monotone: bool = False  # it never falls over its domain
    odd: bool = False  # f(-x) == -f(x)
    even: bool = False  # f(-x) == f(x)
    domain: tuple[float, float] = REALS  # where a function of one argument is defined
    joined_by: str | None = None  # of a reduction: the operator that joins the results of two parts
    reads_bits: bool = False  # of its last argument: a NaN's sign, which nobody promises, shows in the result
    # where each element is an argument's, of the one that its place says: kernels compute it there
    pieces: Callable[[tuple[Shape, ...], tuple], tuple[Piece, ...]] | None = None
    # of a view, from the shape of its argument and its attributes; None where no sums of indices express the view
    index_map: Callable[[Shape, tuple], IndexMap | None] | None = None
    repeats: bool = False  # of a view: several of its elements may be one element of the argument
    by_element: bool = False  # of a gather: every element has an index of its own, and not every row along an axis
    partial: bool = False  # it may need a part of an argument; so may all that `maps`
    own_dtypes: tuple[np.dtype | None, ...] = ()  # see `own_dtype`

    def own_dtype(self, place: int) -> np.dtype | None:
        """The dtype of the argument at `place` where it stands apart from the others': BOOL of a condition, WHOLE of
        indices, exponents and orders, which may have other integer dtypes too."""
        return self.own_dtypes[place] if place < len(self.own_dtypes) else None

    @cached_property
    def values_from(self) -> int:
        """The first argument that holds numbers: before them is the condition of `where`."""
        return int(self.own_dtypes[:1] == (BOOL,))

    def attr(self, attrs: Sequence[Any], name: str) -> Any:
        """The attribute `name` among the `attrs` of one application."""
        return attrs[self.attrs.index(name)]

    @cached_property
    def is_arithmetic(self) -> bool:
        """Does IEEE 754 have it rounded once? (So have it casts and ldexp, which round few results.)"""
        return self.rounding is Rounding.ONCE and not self.attrs and self.price is not PriceClass.ONE_BY_ONE

    @cached_property
    def maps(self) -> bool:
        """Is each element one of an argument, which its place or an index says?"""
        return self.pieces is not None or self.role is Role.GATHER

    @cached_property
    def computes(self) -> bool:
        """Is it neither a leaf nor a view?"""
        return self.role not in (Role.LEAF, Role.VIEW)


def need(condition: bool, op: str, types: Types, why: str, *values: object) -> None:
    """Raise ShapeError naming the operator and its argument types unless `condition`.

    `values` fill the ``{}`` of `why`: text that is never raised would take longer than the rules themselves.
    """
    if not condition:
        raise ShapeError(f"{op}({', '.join(map(str, types))}): {why.format(*values) if values else why}")


def no_flops(_types: Types, _out: TensorType, _attrs: tuple) -> int:
    return 0
