"""Rows of the leaves: inputs and constants."""

from __future__ import annotations

from eqfuse.ops.literal import Literal
from eqfuse.ops.row import Op, PriceClass, Role, Rounding, Types, no_flops
from eqfuse.ops.types import TensorType


def _input(_types: Types, attrs: tuple) -> TensorType:
    _name, declared, _constant = attrs
    return declared


def _const(_types: Types, attrs: tuple) -> TensorType:
    (literal,) = attrs
    return literal.type


def _no_meaning(name: str, *_: object) -> None:
    raise ValueError(f"input {name!r} has no value of its own")


def _value(literal: Literal) -> object:
    return literal.array


ROWS = [
    Op("input", Role.LEAF, 0, ("name", "type", "constant"), _input, _no_meaning, no_flops, PriceClass.FREE),
    Op("const", Role.LEAF, 0, ("value",), _const, _value, no_flops, PriceClass.FREE, Rounding.NEVER),
]
