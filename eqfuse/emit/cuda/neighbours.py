"""Which elements lie side by side, so that a thread reads several at once.

In: index arithmetic as C text, with literal extents. Out: whether elements whose indices differ in one name alone are
neighbours. Used by `element.py`.
"""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass

# of one element of several, not of all of them: what names of this form hold is not known here
OWN = re.compile(r"t\d+|v")


@dataclass(frozen=True, slots=True)
class _Place:
    """`step` times the place among the neighbours, and a multiple of `rest` that all of them share; 0: nothing."""

    step: int
    rest: int


def neighbouring(text: str, name: str, width: int) -> bool:
    """Do `width` elements lie side by side at the places `text`, and start at a multiple of `width`, where `name` goes
    from a multiple of `width` on?"""
    try:
        place = _place(ast.parse(text, mode="eval").body, name, width)
    except SyntaxError:
        return False
    return place is not None and place.step == 1 and place.rest % width == 0


def _place(index: ast.expr, name: str, width: int) -> _Place | None:
    """None: not known."""
    match index:
        case ast.Constant(value=int(number)):
            return _Place(0, number)
        case ast.Name(id=text):
            if text == name:
                return _Place(1, width)
            return None if OWN.fullmatch(text) else _Place(0, 1)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _place(left, name, width), _place(right, name, width)
            return a and b and _joined(a, op, b, right, width)
    return None


def _joined(a: _Place, op: ast.operator, b: _Place, right: ast.expr, width: int) -> _Place | None:
    match op:
        case ast.Add():
            return _Place(a.step + b.step, math.gcd(a.rest, b.rest))
        case ast.Sub():
            return _Place(a.step - b.step, math.gcd(a.rest, b.rest))
        case ast.Mult() if isinstance(right, ast.Constant):
            return _Place(a.step * b.rest, a.rest * b.rest)
        case ast.Mult() if a.step == b.step == 0:
            return _Place(0, a.rest * b.rest)
        case ast.Div() | ast.Mod() if isinstance(right, ast.Constant):
            return _divided(a, b.rest, isinstance(op, ast.Mod), width)
    return None


def _divided(a: _Place, by: int, remainder: bool, width: int) -> _Place | None:
    """The quotient of neighbours is one number, and their remainders are neighbours, where `by` parts none of them."""
    if a.step == 0:
        return _Place(0, math.gcd(a.rest, by) if remainder else a.rest // by if a.rest % by == 0 else 1)
    if a.step == 1 and a.rest % width == 0 and by % width == 0:
        return _Place(1, math.gcd(a.rest, by)) if remainder else _Place(0, 1)
    return None
